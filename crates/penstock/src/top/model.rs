//! The state of the program: facts about the site and what the user looks at. Messages change it;
//! see `update` for those of the daemon and `keys` for those of the user.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use penstock_api::access::{MeView, Right};
use penstock_api::operate::{SiteEventView, SiteHealthView};
use penstock_api::queue::QueueView;
use penstock_api::rest::{Action, StatusView, TransferView};
use penstock_exit::ExitCode;
use penstock_proto::id::TransferId;

use super::entry::{Entry, Sort};
use super::looks::{Looks, Subject};
use super::rate_history::RateHistory;
use super::rows::Rows;
use crate::terminal::line_edit::LineEdit;

/// Contact with the daemon, as the stream of events has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Contact {
    /// The stream is not open yet.
    Opening,
    /// Events come.
    Live,
    /// Everything shown is from the time before.
    Lost {
        /// Milliseconds since 1970.
        since_ms: u64,
        /// The reason in words.
        why: String,
        /// Time of the next try, in milliseconds since 1970.
        retry_ms: u64,
    },
}

/// A transfer that is open.
#[derive(Debug)]
pub(super) struct Detail {
    pub(super) id: TransferId,
    /// None until the first answer.
    pub(super) view: Option<Box<TransferView>>,
    pub(super) events: Vec<SiteEventView>,
}

/// The page that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Overview,
    Transfer,
    Peers,
}

/// A box over the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlay {
    Help,
    /// The question whether to cancel a transfer.
    Cancel(TransferId),
}

/// A message to the user, for some seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) is_bad: bool,
    /// Milliseconds since 1970.
    pub(super) until_ms: u64,
}

/// An order to the edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Ask the daemon.
    Look(Subject, Option<TransferId>),
    /// Act on a transfer.
    Act(TransferId, Action),
    /// Paint the next frame as a whole.
    Repaint,
    /// Take the terminal again: the process was stopped.
    Resume,
    /// Stop the job, as Ctrl-Z does.
    Suspend,
    /// End with an exit code.
    Quit(ExitCode),
}

/// The state.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) status: StatusView,
    pub(super) me: MeView,
    pub(super) contact: Contact,
    pub(super) rows: Rows,
    /// Transfers that need attention, by the judgement of the daemon.
    pub(super) attention: Vec<TransferId>,
    /// The queue, for callers who may see it.
    pub(super) queue: Option<QueueView>,
    /// True if more transfers wait than the list has.
    pub(super) more_wait: bool,
    pub(super) health: Option<SiteHealthView>,
    pub(super) rates_in: RateHistory,
    pub(super) rates_out: RateHistory,
    /// Rate at which the peer sends to other sites; none where that is not known.
    pub(super) sending_bits_per_s: Option<f64>,
    /// Bytes that it had sent at some moments, the latest one last.
    pub(super) sent: VecDeque<(Instant, u64)>,
    pub(super) detail: Option<Detail>,
    /// Questions that were not answered, with the reasons.
    pub(super) troubles: BTreeMap<Subject, String>,
    pub(super) looks: Looks,
    /// Second of the last figure in the histories.
    pub(super) second: Option<u64>,

    pub(super) page: Page,
    pub(super) overlay: Option<Overlay>,
    pub(super) filter: String,
    /// The filter while it is typed.
    pub(super) filter_edit: Option<LineEdit>,
    pub(super) sort: Sort,
    pub(super) shows_all_alerts: bool,
    /// First line shown of a page without a cursor.
    pub(super) scroll: usize,
    /// The greatest such line, by the last frame.
    pub(super) scroll_max: usize,
    /// The entry that keys act on, and its place in the list.
    pub(super) cursor: Option<(Entry, usize)>,
    pub(super) notice: Option<Notice>,
    /// The present time, in milliseconds since 1970.
    pub(super) now_ms: u64,
}

impl Model {
    /// Returns the state before the first answer, for a peer and a caller.
    pub(super) fn new(status: StatusView, me: MeView, now_ms: u64) -> Self {
        let mut model = Self {
            status,
            me,
            contact: Contact::Opening,
            rows: Rows::default(),
            attention: Vec::new(),
            queue: None,
            more_wait: false,
            health: None,
            rates_in: RateHistory::default(),
            rates_out: RateHistory::default(),
            sending_bits_per_s: None,
            sent: VecDeque::new(),
            detail: None,
            troubles: BTreeMap::new(),
            looks: Looks::new(),
            second: None,
            page: Page::Overview,
            overlay: None,
            filter: String::new(),
            filter_edit: None,
            sort: Sort::default(),
            shows_all_alerts: false,
            scroll: 0,
            scroll_max: 0,
            cursor: None,
            notice: None,
            now_ms,
        };
        model.give_up_forbidden();
        model
    }

    /// Returns whether the caller has a right, whatever the object.
    pub(super) fn may(&self, right: Right) -> bool {
        self.me.rights.iter().any(|name| name == right.as_str())
    }

    /// Leaves out what the caller may not ask.
    pub(super) fn give_up_forbidden(&mut self) {
        for (subject, right) in [(Subject::Queue, Right::Operate), (Subject::Sent, Right::Metrics)]
        {
            if !self.may(right) {
                self.looks.give_up(subject);
            }
        }
    }

    /// Returns whether what is shown is of now.
    pub(super) fn is_live(&self) -> bool {
        self.contact == Contact::Live
    }

    /// Returns whether a transfer is of this site, so that its events come.
    pub(super) fn is_own(&self, target: &penstock_api::transfer::Location) -> bool {
        target.site == self.status.site.name
    }
}
