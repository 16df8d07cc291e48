//! A transfer that has not ended: its states, and what leads from one to the next.
//!
//! ```text
//!              its turn                    it ends
//!     queued ───────────▶ running ─────────────────────▶ done, failed, cancelled
//!      ▲ ▲ ▲                │  │
//!      │ │ └────────────────┘  │ a user pauses
//!      │ │  a failure that     ▼
//!      │ │  may pass         paused
//!      │ └─────────────────────┘ a user resumes
//!      └ a user retries one that has failed: it is live again
//! ```
//! A user's wish is stored before a run hears of it, and survives a crash.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::rest::Action;
use penstock_api::task::Room;
use penstock_api::transfer::{Pause, TransferReport, TransferState, Waiting};
use penstock_cluster::clock::{now_ms, now_seconds};
use penstock_cluster::state::{TransferRecord, Wish};
use penstock_engine::retry::Backoff;
use penstock_proto::id::TransferId;

use super::room::{Full, reason_of_full};
use crate::manager::config::ManagerConfig;
use crate::manager::record::CANCELLED;
use crate::runner::{RunControl, RunOutcome, RunView};

/// A transfer that has not ended.
pub(crate) struct Live {
    pub(crate) record: TransferRecord,
    pub(crate) run: Option<Arc<RunControl>>,
    /// Earliest time of its next attempt.
    pub(crate) not_before: Option<Instant>,
    backoff: Backoff,
    /// Longest wait before a failed attempt is repeated.
    retry_most: Duration,
    /// The state of the wait while the target is full. The transfer stays queued for its observers,
    /// while attempts are made.
    pub(crate) full: Option<Full>,
    /// The reason for which it waits, as the last decision of the queue found it.
    pub(crate) waiting: Option<Waiting>,
}

impl Live {
    pub(crate) fn new(record: TransferRecord, config: &ManagerConfig) -> Self {
        let backoff = Backoff::new(config.retry_least, config.retry_most);
        let retry_most = config.retry_most;
        Self { record, run: None, not_before: None, backoff, retry_most, full: None, waiting: None }
    }

    /// Returns a transfer as the manager finds it when it starts.
    pub(crate) fn resumed(mut record: TransferRecord, config: &ManagerConfig) -> Self {
        match record.wish {
            Wish::Pause => record.state = TransferState::Paused,
            // The queue sees the wish and cancels the transfer.
            Wish::None | Wish::Cancel if record.state != TransferState::Paused => {
                record.state = TransferState::Queued;
                "resuming after a restart".clone_into(&mut record.reason);
            }
            Wish::Cancel => record.state = TransferState::Queued,
            Wish::None => {}
        }
        Self::new(record, config)
    }

    /// Returns the report for users and other sites: the stored record, updated by the run.
    pub(crate) fn report(&self) -> TransferReport {
        self.updated(self.record.report())
    }

    /// Returns the report without the lists of the request.
    pub(crate) fn brief(&self) -> TransferReport {
        let failures = self.record.failures.clone();
        self.updated(TransferReport { failures, ..self.record.brief() })
    }

    fn updated(&self, mut report: TransferReport) -> TransferReport {
        report.waiting.clone_from(&self.waiting);
        if let Some(run) = self.run.as_ref().filter(|_| self.full.is_none()) {
            let seen = run.view();
            report.progress = seen.progress;
            if !seen.reason.is_empty() {
                report.reason = seen.reason;
            }
            report.failures = seen.failures;
            report.durable_by = seen.durable_by;
        }
        if self.run.is_some() && !report.state.is_ended() {
            match self.record.wish {
                Wish::None => {}
                Wish::Pause => "pausing: ending what is in progress".clone_into(&mut report.reason),
                Wish::Cancel => "cancelling".clone_into(&mut report.reason),
            }
        }
        report
    }

    /// Returns whether the transfer waits for its turn.
    pub(crate) fn is_waiting(&self) -> bool {
        self.record.state == TransferState::Queued && self.run.is_none()
    }

    /// Returns whether `control` is that of the attempt at work: another one may have begun since.
    pub(crate) fn is_run_by(&self, control: &RunControl) -> bool {
        self.run.as_ref().is_some_and(|run| std::ptr::eq(Arc::as_ptr(run), control))
    }

    /// Handles the start of an attempt, and returns what steers its run.
    pub(crate) fn handle_begun(&mut self) -> Arc<RunControl> {
        debug_assert!(self.is_waiting(), "an attempt at a transfer that does not wait");
        let control = Arc::new(RunControl::default());
        self.run = Some(Arc::clone(&control));
        if self.full.is_some() {
            control.expect_full();
        } else {
            self.record.state = TransferState::Running;
            self.record.reason.clear();
            self.record.attempts.count = self.record.attempts.count.saturating_add(1);
            self.record.attempts.started_ms.get_or_insert_with(now_ms);
        }
        control
    }

    /// Handles an attempt that has got no thread: the transfer waits again.
    pub(crate) fn handle_not_begun(&mut self, error: &std::io::Error) {
        self.run = None;
        self.record.state = TransferState::Queued;
        self.record.reason = format!("no thread to run it: {error}");
        self.not_before = Some(Instant::now() + self.retry_most);
    }

    /// Returns the record after an action that `by` asks for, to be stored. `list_anew` has the
    /// next attempt list the source anew.
    ///
    /// # Errors
    /// The action does not fit the state.
    pub(crate) fn record_after(
        &self,
        action: Action,
        by: &str,
        list_anew: impl FnOnce(&mut TransferRecord),
    ) -> Result<TransferRecord, Problem> {
        let mut record = self.record.clone();
        let pause = Pause { since_ms: now_ms(), by: by.to_owned() };
        match (action, record.state) {
            (Action::Pause, TransferState::Paused) | (Action::Resume, TransferState::Queued) => {}
            (Action::Pause, TransferState::Queued) if record.wish != Wish::Cancel => {
                record.wish = Wish::Pause;
                record.state = TransferState::Paused;
                "paused by a user".clone_into(&mut record.reason);
            }
            (Action::Pause, TransferState::Running) if record.wish != Wish::Cancel => {
                record.wish = Wish::Pause;
            }
            (Action::Resume, TransferState::Paused) => {
                record.wish = Wish::None;
                record.state = TransferState::Queued;
                record.reason.clear();
                list_anew(&mut record);
            }
            (Action::Resume, TransferState::Running) if record.wish == Wish::None => {}
            (Action::Cancel, TransferState::Running) => record.wish = Wish::Cancel,
            (Action::Cancel, _) => {
                record.wish = Wish::Cancel;
                record.state = TransferState::Queued;
                "cancelling".clone_into(&mut record.reason);
            }
            (Action::Retry, TransferState::Queued) => {}
            (_, state) => return Err(wrong_state(record.id(), action, state)),
        }
        match record.wish {
            Wish::Pause => drop(record.attempts.pause.get_or_insert(pause)),
            Wish::None | Wish::Cancel => record.attempts.pause = None,
        }
        Ok(record)
    }

    /// Handles an action of a user whose record, of [`Live::record_after`], is stored.
    pub(crate) fn handle_action(&mut self, action: Action, stored: TransferRecord) {
        self.record = stored;
        self.not_before = None;
        match (action, &mut self.full) {
            (Action::Pause | Action::Cancel, full) => *full = None,
            (_, Some(full)) => full.try_now(),
            (_, None) => {}
        }
        match (self.record.wish, &self.run) {
            (Wish::Pause, Some(run)) => run.pause(),
            (Wish::Cancel, Some(run)) => run.cancel(),
            _ => {}
        }
    }

    /// Handles the end of an attempt, of which `seen` is the last view: moves to the state that
    /// follows from its outcome and from the wishes of users meanwhile. Returns the problem, if
    /// that is the reason and new. `room` is the free room of a full target.
    pub(crate) fn handle_end(
        &mut self,
        outcome: RunOutcome,
        seen: RunView,
        room: Option<Room>,
    ) -> Option<Problem> {
        let ran = seen.progress != Default::default();
        if ran {
            self.record.progress = seen.progress;
            self.record.failures = seen.failures;
            self.record.durable_by = seen.durable_by;
            if self.record.progress.bytes_verified > 0 {
                self.backoff.reset();
            }
        }
        self.record.progress.lanes = 0;
        let problem = self.end_with(outcome, room);
        self.remark(&seen.remark);
        problem
    }

    fn end_with(&mut self, outcome: RunOutcome, room: Option<Room>) -> Option<Problem> {
        let wish = self.record.wish;
        let mut problem = None;
        let full = self.full.take();
        let reason = mem::take(&mut self.record.reason);
        self.record.exit = None;
        self.record.state = match (outcome, wish) {
            (RunOutcome::Done, _) => {
                self.record.exit = Some(Exit::Done);
                TransferState::Done
            }
            (RunOutcome::Cancelled, _) | (RunOutcome::Failed(_), Wish::Cancel) => {
                self.record.exit = Some(Exit::Interrupted);
                CANCELLED.clone_into(&mut self.record.reason);
                TransferState::Cancelled
            }
            // The daemon ends, or a cancel came after: the queue sees to it.
            (RunOutcome::Paused, Wish::None | Wish::Cancel) => TransferState::Queued,
            (RunOutcome::Paused, Wish::Pause) => {
                "paused by a user".clone_into(&mut self.record.reason);
                TransferState::Paused
            }
            (RunOutcome::Failed(found), Wish::Pause) if found.exit == Exit::Temporary => {
                self.record.reason = format!("paused by a user; before that, {found}");
                TransferState::Paused
            }
            (RunOutcome::Failed(found), _) if found.code == ProblemCode::TargetFull => {
                self.record.reason = reason;
                problem = self.wait_for_room(found, full, room);
                TransferState::Queued
            }
            (RunOutcome::Failed(found), _) if found.exit == Exit::Temporary => {
                let delay = self.backoff.next(&mut rand::rng());
                self.not_before = Some(Instant::now() + delay);
                self.record.reason = reason_of_retry(&found, delay);
                problem = Some(found);
                TransferState::Queued
            }
            (RunOutcome::Failed(found), _) => {
                self.record.exit = Some(found.exit);
                self.record.reason = reason_of_failure(&found);
                problem = Some(found);
                TransferState::Failed
            }
        };
        let is_over = self.record.state.is_ended();
        self.record.attempts.ended_ms = is_over.then(now_ms);
        debug_assert_eq!(is_over, self.record.exit.is_some(), "an end has an exit code");
        problem
    }

    /// Queues a transfer whose target is full. Returns the problem if it is new. `before` is the
    /// earlier wait, if the transfer waited already.
    fn wait_for_room(
        &mut self,
        problem: Problem,
        before: Option<Full>,
        room: Option<Room>,
    ) -> Option<Problem> {
        let full = Full::new(&self.record.progress, room, self.retry_most);
        self.not_before = Some(full.next_look());
        let is_news = before.is_none();
        if is_news {
            self.record.reason =
                reason_of_full(&self.record, &problem, (full.needed(), room), self.retry_most);
        } else {
            tracing::info!(transfer = %self.record.id(), %problem, "the target is full still");
        }
        self.full = Some(full);
        is_news.then_some(problem)
    }

    /// Returns whether an attempt is to look for room at a full target before it begins.
    pub(crate) fn looks_for_room(&self) -> bool {
        let is_put_off = self.full.as_ref().is_some_and(|full| !full.is_due());
        is_put_off && self.record.wish == Wish::None
    }

    /// Handles a look at the room of a full target, by an attempt that would begin now. Returns
    /// whether there is none: the attempt is put off.
    pub(crate) fn handle_room(&mut self, room: Option<Room>, control: &RunControl) -> bool {
        let is_wished = self.record.wish == Wish::None;
        let Some(full) = self.full.as_ref().filter(|_| is_wished) else { return false };
        if room.is_some_and(|room| full.has_room(room)) {
            self.leave_queue();
            return false;
        }
        self.not_before = Some(full.next_look());
        if self.is_run_by(control) {
            self.run = None;
        }
        true
    }

    /// Looks whether a run has shown that there is room at a full target.
    pub(crate) fn look_for_room(&mut self) {
        let moves = match (&self.full, &self.run) {
            (Some(full), Some(run)) => full.has_moved(&run.view().progress),
            _ => false,
        };
        if moves {
            self.leave_queue();
        }
    }

    /// Marks the transfer as running again, since there seems to be room.
    fn leave_queue(&mut self) {
        self.full = None;
        self.record.state = TransferState::Running;
        self.record.reason.clear();
    }

    /// Adds a remark to the reason of a transfer, if it has ended.
    pub(crate) fn remark(&mut self, remark: &str) {
        if remark.is_empty() || !self.record.state.is_ended() {
            return;
        }
        if !self.record.reason.is_empty() {
            self.record.reason.push_str("; ");
        }
        self.record.reason.push_str(remark);
    }
}

/// Returns the problem of an action that does not fit the state of a transfer.
pub(crate) fn wrong_state(id: TransferId, action: Action, state: TransferState) -> Problem {
    let state = serde_json::to_value(state).unwrap_or_default();
    let title = format!(
        "transfer {} is {}: cannot {} it",
        id.short(),
        state.as_str().unwrap_or_default(),
        action.as_str()
    );
    Problem::new(ProblemCode::WrongState, title)
}

fn reason_of_failure(problem: &Problem) -> String {
    let hint = if problem.hint.is_empty() { String::new() } else { format!("; {}", problem.hint) };
    format!("{problem}{hint}")
}

fn reason_of_retry(problem: &Problem, delay: Duration) -> String {
    let at = now_seconds() + delay.as_secs();
    format!(
        "{}; next attempt in {:.0} s, at {} UTC",
        reason_of_failure(problem),
        delay.as_secs_f64().max(1.0),
        clock(at)
    )
}

/// Time of day of seconds since 1970.
fn clock(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::record::record_of;
    use penstock_api::transfer::{PathText, TransferRequest};

    fn live(state: TransferState, wish: Wish) -> Live {
        let (source, target) = ("lab:raw/a".parse().unwrap(), "hpc:s/1".parse().unwrap());
        let id = TransferId([1; 16]);
        let request = TransferRequest::new(id, source, target, Default::default());
        let record = record_of(&request, "hpc".parse().unwrap(), PathText::default());
        let config = ManagerConfig::new("hpc".parse().unwrap(), "journal".into());
        Live::new(TransferRecord { state, wish, ..record }, &config)
    }

    fn failed(code: ProblemCode, exit: Exit) -> RunOutcome {
        RunOutcome::Failed(Problem::new(code, "it failed").exit(exit))
    }

    /// Promise: a wish of a user that comes while a run ends is not lost, whatever the run ends
    /// with.
    #[test]
    fn the_end_of_a_run_respects_the_wish_of_a_user() {
        use TransferState::{Cancelled, Done, Failed, Paused, Queued};
        let passing = || failed(ProblemCode::PeerLost, Exit::Temporary);
        let fatal = || failed(ProblemCode::SomeFailed, Exit::SomeFailed);
        let cases = [
            (RunOutcome::Done, Wish::Pause, Done),
            (RunOutcome::Done, Wish::Cancel, Done),
            (RunOutcome::Paused, Wish::None, Queued),
            (RunOutcome::Paused, Wish::Pause, Paused),
            (RunOutcome::Paused, Wish::Cancel, Queued),
            (passing(), Wish::None, Queued),
            (passing(), Wish::Pause, Paused),
            (passing(), Wish::Cancel, Cancelled),
            (fatal(), Wish::None, Failed),
            (fatal(), Wish::Pause, Failed),
            (fatal(), Wish::Cancel, Cancelled),
            (RunOutcome::Cancelled, Wish::None, Cancelled),
        ];
        for (outcome, wish, expected) in cases {
            let mut live = live(TransferState::Running, wish);
            let told = format!("{outcome:?}, {wish:?}");
            live.handle_end(outcome, RunView::default(), None);
            assert_eq!(live.record.state, expected, "{told}");
        }
    }

    /// Promise: a full target is one event, and the transfer waits with one reason until there is
    /// room (E3).
    #[test]
    fn e3_a_full_target_is_told_once() {
        let mut live = live(TransferState::Running, Wish::None);
        let full = || failed(ProblemCode::TargetFull, Exit::Temporary);
        assert!(live.handle_end(full(), RunView::default(), None).is_some());
        let reason = live.record.reason.clone();
        let control = live.handle_begun();
        assert!(control.expects_full() && live.record.state == TransferState::Queued);
        assert_eq!(live.handle_end(full(), RunView::default(), None), None);
        assert_eq!(live.record.reason, reason);
        let paused = live.record_after(Action::Pause, "anna", |_| {}).unwrap();
        live.handle_action(Action::Pause, paused);
        assert!(live.full.is_none(), "it waits for its user now");
    }

    /// Promise: what a user asks for fits the state, or is refused; a cancel is final.
    #[test]
    fn an_action_fits_the_state_or_is_refused() {
        use TransferState::{Paused, Queued, Running};
        let after = |state, wish, action| live(state, wish).record_after(action, "anna", |_| {});
        let fits = |state, wish, action, expected: (TransferState, Wish)| {
            let record = after(state, wish, action).unwrap();
            assert_eq!((record.state, record.wish), expected, "{action:?} of {state:?}");
        };
        fits(Running, Wish::None, Action::Pause, (Running, Wish::Pause));
        fits(Queued, Wish::None, Action::Pause, (Paused, Wish::Pause));
        fits(Paused, Wish::Pause, Action::Resume, (Queued, Wish::None));
        fits(Running, Wish::None, Action::Cancel, (Running, Wish::Cancel));
        fits(Paused, Wish::Pause, Action::Cancel, (Queued, Wish::Cancel));
        for (state, action) in [(Running, Action::Pause), (Queued, Action::Pause)] {
            let refused = after(state, Wish::Cancel, action).unwrap_err();
            assert_eq!(refused.code, ProblemCode::WrongState, "{state:?}");
        }
        assert!(after(Running, Wish::Pause, Action::Resume).is_err());
        assert!(after(Running, Wish::None, Action::Retry).is_err());
    }
}
