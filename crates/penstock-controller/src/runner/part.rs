//! One peer's part of a run: what its task may call, and what is remembered of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::peers::Peers;
use penstock_api::problem::Problem;
use penstock_api::task::{Report, Standing, TaskControl, TaskPage, Work, WorkReply};
use penstock_engine::transfer::Phase;
use penstock_proto::id::PeerNumber;

use super::control::Shared;

/// The run as the task of one peer sees it.
pub(super) struct Part {
    shared: Arc<Shared>,
    peers: Arc<dyn Peers>,
    pub(super) number: PeerNumber,
    /// The machine knows it: before that its task gets nothing.
    joined: AtomicBool,
    over: AtomicBool,
    broken: Mutex<Option<Problem>>,
    /// Open pages of which it was given something to write, where others may have to clean up
    /// after it.
    pages: Option<Mutex<BTreeSet<u32>>>,
}

impl Part {
    pub(super) fn new(shared: &Arc<Shared>, peers: &Arc<dyn Peers>, number: PeerNumber) -> Self {
        Self {
            shared: Arc::clone(shared),
            peers: Arc::clone(peers),
            number,
            joined: AtomicBool::new(false),
            over: AtomicBool::new(false),
            broken: Mutex::new(None),
            pages: peers.grant().map(|_| Mutex::default()),
        }
    }

    /// From now on its task gets work.
    pub(super) fn join(&self) {
        self.joined.store(true, Ordering::Release);
    }

    /// Nothing that its task says counts any more.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Why its task cannot go on, if it has said so.
    pub(super) fn take_broken(&self) -> Option<Problem> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Pages are complete: nobody has to clean up there.
    pub(super) fn forget(&self, pages: impl Iterator<Item = u32>) {
        if let Some(known) = &self.pages {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            for page in pages {
                known.remove(&page);
            }
        }
    }

    /// Open pages in which it may have left something.
    pub(super) fn take_pages(&self) -> BTreeSet<u32> {
        let known = self.pages.as_ref();
        known.map_or_else(BTreeSet::new, |known| {
            std::mem::take(&mut *known.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    fn note_pages(&self, work: &[Work]) {
        let Some(known) = &self.pages else { return };
        let pages = work.iter().filter_map(|work| match work {
            Work::Fetch { piece, .. } | Work::Recheck { piece, .. } => Some(piece.page),
            Work::Links { page } | Work::Directories { page } => Some(*page),
            Work::Finish { .. } | Work::Discard { .. } => None,
        });
        known.lock().unwrap_or_else(PoisonError::into_inner).extend(pages);
    }

    fn takes_part(&self) -> bool {
        self.joined.load(Ordering::Acquire) && !self.over.load(Ordering::Acquire)
    }
}

impl TaskControl for Part {
    fn want(&self, bytes: u64) -> WorkReply {
        if !self.takes_part() {
            return WorkReply::default();
        }
        let reply = {
            let mut machine = self.shared.machine();
            if machine.phase() == Phase::Directories && self.shared.failed_links.get().is_none() {
                // The run is about to find them out; the peer asks again.
                machine.handle_alive(self.number, self.peers.now());
                return WorkReply::default();
            }
            machine.poll_work(self.number, bytes, self.peers.now())
        };
        if !reply.work.is_empty() {
            self.note_pages(&reply.work);
            // The window may have room for another page now.
            self.shared.notify();
        }
        reply
    }

    fn page(&self, number: u32) -> Result<TaskPage, Problem> {
        self.shared.read_page(number)
    }

    fn has_failed(&self, path: &[u8]) -> bool {
        self.shared.failed_links.get().is_some_and(|failed| failed.hold(path))
    }

    fn may_have_failed(&self) -> bool {
        self.shared.failed_links.get().is_none_or(|failed| !failed.is_empty())
    }

    fn report(&self, reports: Vec<Report>) {
        if self.takes_part() {
            let now = self.peers.now();
            self.forget(reports.iter().filter_map(|report| match report {
                Report::LinksDone { page, .. } | Report::DirectoriesDone { page, .. } => {
                    Some(*page)
                }
                _ => None,
            }));
            self.shared.machine().handle_reports(self.number, reports, now);
            self.shared.notify();
        }
    }

    fn broken(&self, problem: Problem) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
        self.shared.notify();
    }

    fn alive(&self) -> Standing {
        if self.over.load(Ordering::Acquire) {
            return Standing::Over;
        }
        if !self.joined.load(Ordering::Acquire) {
            return Standing::Unheard;
        }
        let mut machine = self.shared.machine();
        machine.handle_alive(self.number, self.peers.now());
        if machine.is_joined(self.number) { Standing::Granted } else { Standing::Over }
    }
}
