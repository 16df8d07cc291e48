//! Messages of the daemon and of the clock.

use std::time::{Duration, Instant};

use penstock_api::operate::{SiteEventView, SiteHealthView};
use penstock_api::problem::ProblemDetails;
use penstock_api::queue::QueueView;
use penstock_api::rest::{Action, Direction, Event, TransferSummary, TransferView};
use penstock_api::transfer::TransferState;
use penstock_proto::id::TransferId;

use super::looks::Subject;
use super::model::{Contact, Detail, Model, Notice, Order};
use super::moment::Moment;
use crate::terminal::input::Input;

/// Time for which a notice is shown, in milliseconds.
const NOTICE_MS: u64 = 8000;
/// Time between two lists while a transfer of another site runs, whose events do not come.
const FOREIGN_MS: u64 = 2000;
/// Time over which the rate out is a mean.
const SENT_SPAN: Duration = Duration::from_secs(10);
/// A longer gap in time than this was a sleep of the host: the histories begin anew.
const GAP_MAX_SECONDS: u64 = 600;

/// A message.
#[derive(Debug)]
pub(super) enum Message {
    /// An input of the terminal.
    Input(Input),
    /// News of the stream of events.
    Stream(Stream),
    /// An answer of the daemon.
    Answer {
        subject: Subject,
        /// Time of the question.
        asked_at: Instant,
        result: Result<Answer, Refusal>,
    },
    /// The result of an action.
    Acted { id: TransferId, action: Action, result: Result<Box<TransferView>, String> },
    /// A thread of this program has ended, which it must not.
    Broken,
}

impl From<Input> for Message {
    fn from(input: Input) -> Self {
        Self::Input(input)
    }
}

/// News of the stream of events.
#[derive(Debug)]
pub(super) enum Stream {
    /// The stream is open.
    Open,
    /// An event.
    Event(Box<Event>),
    /// The stream is not open any more.
    Lost {
        /// The reason in words.
        why: String,
        /// Time until the next try, in milliseconds.
        retry_in_ms: u64,
    },
}

/// An answer about a subject.
#[derive(Debug)]
pub(super) enum Answer {
    /// Transfers, and whether these are all.
    Transfers {
        list: Vec<TransferSummary>,
        is_complete: bool,
    },
    Queue(Box<QueueView>),
    Health(Box<SiteHealthView>),
    /// Bytes that the peer has sent to other sites since it started.
    Sent(u64),
    Detail {
        view: Box<TransferView>,
        events: Vec<SiteEventView>,
    },
}

/// The reason for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reason in words.
    pub(super) why: String,
    /// True if the caller has no right to it.
    pub(super) is_forbidden: bool,
}

impl Model {
    /// Takes a message that has come at a moment.
    pub(super) fn handle(&mut self, message: Message, now: Moment) -> Vec<Order> {
        self.now_ms = now.ms;
        match message {
            Message::Input(input) => return self.handle_input(input),
            Message::Stream(news) => self.handle_stream(news, now),
            Message::Answer { subject, asked_at, result } => {
                self.looks.answered(subject);
                match result {
                    Ok(answer) => {
                        self.troubles.remove(&subject);
                        self.handle_answer(subject, answer, asked_at, now);
                    }
                    Err(refusal) if refusal.is_forbidden => self.looks.give_up(subject),
                    Err(refusal) => drop(self.troubles.insert(subject, refusal.why)),
                }
            }
            Message::Acted { id, action, result } => self.handle_acted(id, action, result),
            Message::Broken => return vec![Order::Quit(penstock_exit::ExitCode::Unclassified)],
        }
        Vec::new()
    }

    /// Lets time pass. To be called twice a second or more often.
    pub(super) fn handle_time(&mut self, now: Moment) -> Vec<Order> {
        self.now_ms = now.ms;
        if self.notice.as_ref().is_some_and(|notice| notice.until_ms <= now.ms) {
            self.notice = None;
        }
        self.add_rates(now.ms / 1000);
        if matches!(self.contact, Contact::Lost { .. }) {
            return Vec::new();
        }
        let due = self.looks.poll(now.ms);
        let open = self.detail.as_ref().map(|detail| detail.id);
        let mut orders = Vec::new();
        for subject in due {
            match (subject, open) {
                (Subject::Detail, None) => self.looks.answered(subject),
                _ => orders.push(Order::Look(subject, open)),
            }
        }
        orders
    }

    /// Adds a figure to each history for each second that has passed.
    fn add_rates(&mut self, second: u64) {
        let last = self.second.replace(second).unwrap_or(second.saturating_sub(1));
        let passed = second.saturating_sub(last).min(GAP_MAX_SECONDS);
        let known = self.is_live();
        for _ in 0..passed {
            let (rate_in, rate_out) = (self.receiving_bits_per_s(), self.sending_bits_per_s());
            self.rates_in.add(known.then_some(rate_in));
            self.rates_out.add(rate_out.filter(|_| known));
            self.rows.add_rates(known);
        }
    }

    /// Returns the rate of all transfers to this site together, those within it too.
    pub(super) fn receiving_bits_per_s(&self) -> f64 {
        self.rows.rate_bits_per_s(&[Direction::In, Direction::Within])
    }

    /// Returns the rate at which data leaves; `None` where it is not known.
    pub(super) fn sending_bits_per_s(&self) -> Option<f64> {
        self.sending_bits_per_s
    }

    fn handle_stream(&mut self, news: Stream, now: Moment) {
        match news {
            Stream::Open => {
                if let Contact::Lost { since_ms, .. } = self.contact {
                    let seconds = now.ms.saturating_sub(since_ms) / 1000;
                    self.tell(format!("contact again after {seconds} s"), false);
                }
                self.contact = Contact::Live;
                self.troubles.clear();
                self.looks.hasten_all();
                self.give_up_forbidden();
            }
            Stream::Event(event) => self.handle_event(&event, now),
            Stream::Lost { why, retry_in_ms } => {
                let since_ms = match self.contact {
                    Contact::Lost { since_ms, .. } => since_ms,
                    _ => now.ms,
                };
                let retry_ms = now.ms + retry_in_ms;
                self.contact = Contact::Lost { since_ms, why, retry_ms };
                self.sent.clear();
            }
        }
    }

    fn handle_event(&mut self, event: &Event, now: Moment) {
        match event {
            Event::Status(status) | Event::Summary(status) => {
                if self.rows.handle_event(status, now) {
                    self.hasten_lists();
                }
                let open = self.detail.as_ref().map(|detail| detail.id);
                let needed = self.attention.clone();
                self.rows.prune(|id| needed.contains(&id) || open == Some(id));
            }
            Event::Error(error) => {
                self.tell(error_text(error.id, &error.problem), true);
                self.looks.hasten(Subject::Detail);
            }
            Event::Reset => self.hasten_lists(),
        }
    }

    /// Asks for the lists soon: a transfer has begun, ended, or changed otherwise.
    fn hasten_lists(&mut self) {
        for subject in Subject::ALL {
            if !matches!(subject, Subject::Health | Subject::Sent) {
                self.looks.hasten(subject);
            }
        }
    }

    fn handle_answer(&mut self, subject: Subject, answer: Answer, asked_at: Instant, now: Moment) {
        match answer {
            Answer::Transfers { list, is_complete } => {
                self.handle_list(subject, list, is_complete, asked_at, now);
            }
            Answer::Queue(queue) => {
                self.rows.add_waiting(&queue.transfers, &self.status.site.name);
                self.queue = Some(*queue);
            }
            Answer::Health(health) => self.health = Some(*health),
            Answer::Sent(bytes) => self.handle_sent(asked_at, bytes),
            Answer::Detail { view, events } => {
                if let Some(detail) = self.detail.as_mut().filter(|open| open.id == view.id) {
                    detail.view = Some(view);
                    detail.events = events;
                }
            }
        }
    }

    /// A peer counts what it sends by pieces: the rate is the mean over some of them.
    fn handle_sent(&mut self, at: Instant, bytes: u64) {
        if self.sent.back().is_some_and(|(_, before)| *before > bytes) {
            // The daemon has started again.
            self.sent.clear();
        }
        self.sent.push_back((at, bytes));
        let is_old = |(then, _): &(Instant, u64)| at.saturating_duration_since(*then) > SENT_SPAN;
        while self.sent.len() > 2 && self.sent.get(1).is_some_and(is_old) {
            self.sent.pop_front();
        }
        let Some((then, before)) = self.sent.front().filter(|_| self.sent.len() > 1) else {
            return;
        };
        let seconds = at.saturating_duration_since(*then).as_secs_f64().max(0.1);
        self.sending_bits_per_s = Some((bytes - before) as f64 * 8.0 / seconds);
    }

    fn handle_list(
        &mut self,
        subject: Subject,
        list: Vec<TransferSummary>,
        is_complete: bool,
        asked_at: Instant,
        now: Moment,
    ) {
        let waiting = [TransferState::Queued, TransferState::Paused];
        match subject {
            Subject::Running => {
                let is_foreign = list.iter().any(|summary| !self.is_own(&summary.target));
                self.rows.replace(&[TransferState::Running], list, is_complete, asked_at);
                if is_foreign {
                    self.looks.at_latest(subject, FOREIGN_MS, now.ms);
                }
            }
            Subject::Waiting => {
                self.more_wait = !is_complete;
                self.rows.replace(&waiting, list, is_complete, asked_at);
            }
            Subject::Attention => {
                self.attention = list.iter().map(|summary| summary.id).collect();
                list.into_iter().for_each(|summary| self.rows.add(summary, asked_at));
            }
            _ => list.into_iter().for_each(|summary| self.rows.add(summary, asked_at)),
        }
    }

    fn handle_acted(
        &mut self,
        id: TransferId,
        action: Action,
        result: Result<Box<TransferView>, String>,
    ) {
        let short = id.short();
        match result {
            Ok(view) => {
                let state = match action {
                    Action::Cancel if !view.state.is_ended() => "is being cancelled",
                    _ => view.state.as_str(),
                };
                self.tell(format!("{short} {state}"), false);
                if let Some(detail) = self.detail.as_mut().filter(|open| open.id == id) {
                    detail.view = Some(view);
                }
            }
            Err(why) => self.tell(format!("cannot {} {short}: {why}", action.as_str()), true),
        }
        self.hasten_lists();
    }

    /// Shows a text for some seconds.
    pub(super) fn tell(&mut self, text: String, is_bad: bool) {
        self.notice = Some(Notice { text, is_bad, until_ms: self.now_ms + NOTICE_MS });
    }

    /// Opens a transfer.
    pub(super) fn open(&mut self, id: TransferId) {
        self.detail = Some(Detail { id, view: None, events: Vec::new() });
        self.looks.hasten(Subject::Detail);
    }
}

fn error_text(id: TransferId, problem: &ProblemDetails) -> String {
    format!("{}: {problem}", id.short())
}
