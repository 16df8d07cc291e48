//! A transfer that has not ended: its states, and their transitions.
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
//! A user's order is stored before a run receives it, and survives a crash.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::rest::{Action, FlightKind, Steering};
use penstock_api::task::Room;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{Pause, TransferReport, TransferState, Waiting};
use penstock_cluster::clock::{now_ms, now_seconds};
use penstock_cluster::state::{TransferRecord, Wish};
use penstock_engine::queue::{UnixMs, WaitCode, WaitMark};
use penstock_engine::retry::Backoff;
use penstock_proto::id::TransferId;

use super::progress_watch::ProgressWatch;
use super::room::{Full, reason_of_full};
use crate::manager::config::ManagerConfig;
use crate::manager::record::CANCELLED;
use crate::runner::{RunControl, RunOutcome, RunView};

/// Shortest and longest wait after an attempt that has stalled: its cause seldom passes at once.
const STALLED_LEAST: Duration = Duration::from_secs(10);
const STALLED_MOST: Duration = Duration::from_secs(30 * 60);

/// A transfer that has not ended.
pub(crate) struct Live {
    pub(crate) record: TransferRecord,
    pub(crate) run: Option<Arc<RunControl>>,
    /// Earliest time of its next attempt.
    pub(crate) not_before: Option<Instant>,
    backoff: Backoff,
    stalled_backoff: Backoff,
    /// The watch over the attempt at work.
    watch: Option<ProgressWatch>,
    /// Time without progress for which the attempt at work is being ended.
    stalled: Option<Duration>,
    /// The rate that the attempt at work keeps to, in bits per second.
    rate: Option<u64>,
    /// Expected end, of a transfer with a deadline.
    forecast_end: Option<UnixMs>,
    /// Time since which it waits, for the moment until the queue has found the reason.
    queued_ms: UnixMs,
    /// Longest wait before a failed attempt is repeated.
    retry_most: Duration,
    /// The state of the wait while the target is full. The transfer stays queued for its observers,
    /// while attempts are made.
    pub(crate) full: Option<Full>,
    /// The reason for which it waits, as the last decision of the queue found it.
    pub(crate) waiting: Option<Waiting>,
    /// A mark that distinguishes that reason from another one.
    pub(crate) wait_mark: Option<WaitMark>,
}

impl Live {
    pub(crate) fn new(record: TransferRecord, config: &ManagerConfig) -> Self {
        Self {
            record,
            run: None,
            not_before: None,
            backoff: Backoff::new(config.retry_least, config.retry_most),
            stalled_backoff: Backoff::new(STALLED_LEAST, STALLED_MOST),
            watch: None,
            stalled: None,
            rate: None,
            forecast_end: None,
            queued_ms: now_ms(),
            retry_most: config.retry_most,
            full: None,
            waiting: None,
            wait_mark: None,
        }
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
        report.waiting = self.wait();
        if let Some(deadline) = &mut report.deadline {
            deadline.forecast_at = self.forecast_end.map(Timestamp::of_ms);
        }
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

    /// Returns the reason for which the transfer waits, if it is queued: also while the queue has
    /// not found one yet, and while an attempt looks for room.
    fn wait(&self) -> Option<Waiting> {
        if self.record.state != TransferState::Queued {
            return None;
        }
        let of = |code: WaitCode| Waiting {
            code: code.as_str().to_owned(),
            since_ms: self.queued_ms,
            until_ms: None,
            on: String::new(),
            position: None,
        };
        match &self.full {
            Some(_) => {
                let store = self.record.request.target.store.to_string();
                let known = self.waiting.clone().filter(|it| it.code == WaitCode::Room.as_str());
                Some(known.unwrap_or(Waiting { on: store, ..of(WaitCode::Room) }))
            }
            None => Some(self.waiting.clone().unwrap_or_else(|| of(WaitCode::Turn))),
        }
    }

    /// Looks whether the attempt at work makes progress, and ends it if it does not for too long.
    pub(crate) fn watch_progress(&mut self, now: Instant) {
        let may_stall = self.full.is_none() && self.stalled.is_none();
        let (Some(run), Some(watch)) = (&self.run, &mut self.watch) else { return };
        if may_stall
            && self.record.wish == Wish::None
            && let Some(nothing_for) = watch.look(&run.view().progress, run.is_uncounted(), now)
        {
            self.stalled = Some(nothing_for);
            let text = format!("no progress for {} s: the attempt ends", nothing_for.as_secs());
            run.flight().add(FlightKind::Stall, "", &text);
            run.pause();
        }
    }

    /// Has the attempt at work keep to a rate, in bits per second; `None` leaves it its own limit.
    pub(crate) fn steer_rate(&mut self, rate: Option<u64>) {
        let rate = rate.or(self.record.request.options.limits.rate_bits_per_s);
        if let Some(run) = self.run.as_ref().filter(|_| rate != self.rate) {
            run.set_rate(rate);
            self.rate = rate;
        }
    }

    /// Shows the expected end of a transfer with a deadline.
    pub(crate) fn show_forecast(&mut self, end: Option<UnixMs>) {
        self.forecast_end = end;
    }

    /// Returns whether the transfer waits for its turn.
    pub(crate) fn is_waiting(&self) -> bool {
        self.record.state == TransferState::Queued && self.run.is_none()
    }

    /// Returns whether `control` is that of the attempt at work: another one may have begun since.
    pub(crate) fn is_run_by(&self, control: &RunControl) -> bool {
        self.run.as_ref().is_some_and(|run| std::ptr::eq(Arc::as_ptr(run), control))
    }

    /// Handles the start of an attempt, and returns the control of its run.
    pub(crate) fn handle_begun(&mut self) -> Arc<RunControl> {
        debug_assert!(self.is_waiting(), "an attempt at a transfer that does not wait");
        let control = Arc::new(RunControl::default());
        self.run = Some(Arc::clone(&control));
        (self.waiting, self.wait_mark) = (None, None);
        self.watch = Some(ProgressWatch::new(&self.record.request, Instant::now()));
        self.stalled = None;
        self.rate = self.record.request.options.limits.rate_bits_per_s;
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

    /// Returns whether the transfer is paused until a time that is over.
    pub(crate) fn is_pause_over(&self, now_ms: UnixMs) -> bool {
        let until = self.record.attempts.pause.as_ref().and_then(|pause| pause.until_ms);
        self.record.state == TransferState::Paused && until.is_some_and(|until| until <= now_ms)
    }

    /// Returns the record after an action that `by` asks for, to be stored. `list_anew` has the
    /// next attempt list the source again.
    ///
    /// # Errors
    /// The action does not fit the state.
    pub(crate) fn record_after(
        &self,
        Steering { action, until }: Steering,
        by: &str,
        list_anew: impl FnOnce(&mut TransferRecord),
    ) -> Result<TransferRecord, Problem> {
        let mut record = self.record.clone();
        let until_ms = until.map(Timestamp::ms);
        let pause = Pause { since_ms: now_ms(), by: by.to_owned(), until_ms };
        match (action, record.state) {
            (Action::Pause, TransferState::Paused) | (Action::Resume, TransferState::Queued) => {}
            (Action::Pause, TransferState::Queued) if record.wish != Wish::Cancel => {
                record.wish = Wish::Pause;
                record.state = TransferState::Paused;
            }
            (Action::Pause, TransferState::Running) if record.wish != Wish::Cancel => {
                record.wish = Wish::Pause;
            }
            (Action::Resume, TransferState::Paused) => {
                record.wish = Wish::None;
                record.state = TransferState::Queued;
                record.reason.clear();
                record.idle_attempts = 0;
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
            Wish::Pause => {
                let kept = record.attempts.pause.get_or_insert(pause);
                if action == Action::Pause {
                    kept.until_ms = until_ms;
                }
            }
            Wish::None | Wish::Cancel => record.attempts.pause = None,
        }
        if record.state == TransferState::Paused {
            record.reason = reason_of_pause(&record);
        }
        Ok(record)
    }

    /// Returns the record of a transfer that may not resume at the end of its pause, to be stored:
    /// it stays paused until a user resumes it.
    pub(crate) fn record_held(&self, why: &Problem) -> TransferRecord {
        let mut record = self.record.clone();
        if let Some(pause) = &mut record.attempts.pause {
            pause.until_ms = None;
        }
        record.reason = format!("still paused after the end of its pause: {}", why.title);
        record
    }

    /// Handles an action of a user whose record, of [`Live::record_after`], is stored.
    pub(crate) fn handle_action(&mut self, action: Action, stored: TransferRecord) {
        if self.record.state != stored.state {
            (self.waiting, self.wait_mark) = (None, None);
            self.queued_ms = now_ms();
        }
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
        let before = &self.record.progress;
        let has_moved = ran
            && (seen.progress.bytes_durable > before.bytes_durable
                || seen.progress.files > before.files);
        if has_moved {
            self.backoff.reset();
            self.stalled_backoff.reset();
            self.record.idle_attempts = 0;
        }
        (self.queued_ms, self.waiting, self.wait_mark) = (now_ms(), None, None);
        let outcome = match (outcome, self.stalled.take(), self.record.wish) {
            (RunOutcome::Paused, Some(nothing_for), Wish::None) => {
                RunOutcome::Failed(stalled(nothing_for, &seen.reason))
            }
            (outcome, _, _) => outcome,
        };
        if ran {
            self.record.progress = seen.progress;
            self.record.failures = seen.failures;
            self.record.durable_by = seen.durable_by;
        }
        self.record.progress.lanes = 0;
        let problem = self.end_with(outcome, room, has_moved);
        self.remark(&seen.remark);
        problem
    }

    fn end_with(
        &mut self,
        outcome: RunOutcome,
        room: Option<Room>,
        has_moved: bool,
    ) -> Option<Problem> {
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
                self.record.reason = reason_of_pause(&self.record);
                TransferState::Paused
            }
            (RunOutcome::Failed(found), Wish::Pause) if found.exit == Exit::Temporary => {
                let paused = reason_of_pause(&self.record);
                self.record.reason = format!("{paused}; before that, {found}");
                TransferState::Paused
            }
            (RunOutcome::Failed(found), _) if found.code == ProblemCode::TargetFull => {
                self.record.reason = reason;
                problem = self.wait_for_room(found, full, room);
                TransferState::Queued
            }
            (RunOutcome::Failed(found), _)
                if found.exit == Exit::Temporary && self.may_retry_again(has_moved) =>
            {
                let backoff = match found.code {
                    ProblemCode::Stalled => &mut self.stalled_backoff,
                    _ => &mut self.backoff,
                };
                let delay = backoff.next(&mut rand::rng());
                self.not_before = Some(Instant::now() + delay);
                self.record.reason = reason_of_retry(&found, delay);
                problem = Some(found);
                TransferState::Queued
            }
            (RunOutcome::Failed(found), _) => {
                self.record.exit = Some(found.exit);
                self.record.reason = reason_of_failure(&found);
                if found.exit == Exit::Temporary {
                    let attempts = self.record.idle_attempts;
                    let last = format!("; {attempts} attempts in a row have moved nothing");
                    self.record.reason.push_str(&last);
                }
                problem = Some(found);
                TransferState::Failed
            }
        };
        let is_over = self.record.state.is_ended();
        self.record.attempts.ended_ms = is_over.then(now_ms);
        debug_assert_eq!(is_over, self.record.exit.is_some(), "an end has an exit code");
        problem
    }

    /// Counts an attempt that has failed for a reason that may pass. Returns whether another one
    /// may follow.
    fn may_retry_again(&mut self, has_moved: bool) -> bool {
        self.record.idle_attempts += u32::from(!has_moved);
        let most = self.record.request.attempts_max;
        most.is_none_or(|most| self.record.idle_attempts < most)
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
    /// whether there is no room: the attempt is postponed.
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

/// Returns the reason that a paused transfer shows.
fn reason_of_pause(record: &TransferRecord) -> String {
    let until = record.attempts.pause.as_ref().and_then(|pause| pause.until_ms);
    let until = until.map(|until| format!(" until {}", Timestamp::of_ms(until)));
    format!("paused by a user{}", until.unwrap_or_default())
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

/// Returns the problem of an attempt that made no progress for so long; `waiting` names the object
/// of its wait.
fn stalled(nothing_for: Duration, waiting: &str) -> Problem {
    let title = format!("no progress for {} s", nothing_for.as_secs());
    Problem::new(ProblemCode::Stalled, title).because(waiting)
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

/// Returns the time of day of seconds since 1970.
fn clock(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::record::record_of;
    use penstock_api::transfer::{PathText, Progress, TransferRequest};

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

    /// Promise: an order of a user during the end of a run is not lost, whatever the outcome of the
    /// run.
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

    /// Promise: an attempt that stalls ends with the reason for which it waited, and is repeated
    /// after 10 s to 30 min; a pause of its user meanwhile is a pause.
    #[test]
    fn an_attempt_that_stalls_is_repeated_later() {
        let late = Instant::now() + Duration::from_secs(700);
        for (wish, state) in
            [(Wish::None, TransferState::Queued), (Wish::Pause, TransferState::Paused)]
        {
            let mut live = live(TransferState::Queued, Wish::None);
            let control = live.handle_begun();
            live.watch_progress(Instant::now());
            assert!(!control.is_asked_to_stop());
            live.watch_progress(late);
            assert!(control.is_asked_to_stop());
            live.record.wish = wish;
            let seen = RunView { reason: "store `s` hangs".to_owned(), ..RunView::default() };
            let problem = live.handle_end(RunOutcome::Paused, seen, None);
            assert_eq!(live.record.state, state);
            let Some(problem) = problem else { continue };
            assert_eq!((problem.code, &*problem.detail), (ProblemCode::Stalled, "store `s` hangs"));
            let wait = live.not_before.unwrap().saturating_duration_since(Instant::now());
            assert!(
                wait > STALLED_LEAST - Duration::from_secs(1) && wait <= STALLED_MOST,
                "{wait:?}"
            );
        }
    }

    /// Promise: a transfer ends when so many attempts in a row as its user allows have moved
    /// nothing; one that moves something may fail as often again.
    #[test]
    fn attempts_that_move_nothing_have_a_limit() {
        let mut live = live(TransferState::Running, Wish::None);
        live.record.request.attempts_max = Some(2);
        let lost = || failed(ProblemCode::PeerLost, Exit::Temporary);
        live.handle_end(lost(), RunView::default(), None);
        assert_eq!(live.record.state, TransferState::Queued);
        let progress = Progress { bytes_durable: 1, ..Progress::default() };
        live.handle_end(lost(), RunView { progress, ..RunView::default() }, None);
        assert_eq!((live.record.state, live.record.idle_attempts), (TransferState::Queued, 0));
        live.handle_end(lost(), RunView::default(), None);
        assert_eq!(live.record.state, TransferState::Queued);
        live.handle_end(lost(), RunView::default(), None);
        assert_eq!(live.record.state, TransferState::Failed);
        assert!(live.record.reason.contains("2 attempts in a row"), "{}", live.record.reason);
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
        let paused = live.record_after(Action::Pause.into(), "anna", |_| {}).unwrap();
        live.handle_action(Action::Pause, paused);
        assert!(live.full.is_none(), "it waits for its user now");
    }

    /// Promise: an order of a user that does not fit the state is refused; a cancel is final.
    #[test]
    fn an_action_fits_the_state_or_is_refused() {
        use TransferState::{Paused, Queued, Running};
        let after = |state, wish, action: Action| {
            live(state, wish).record_after(action.into(), "anna", |_| {})
        };
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

    /// Promise: the last order sets the end of a pause, and the transfer shows it; begin and user
    /// of the pause stay. Only a pause whose end is over ends.
    #[test]
    fn the_last_order_says_when_a_pause_ends() {
        let at = |ms| Steering { action: Action::Pause, until: Some(Timestamp::of_ms(ms)) };
        let mut live = live(TransferState::Queued, Wish::None);
        let paused = live.record_after(at(5_000), "anna", |_| {}).unwrap();
        assert_eq!(paused.reason, "paused by a user until 1970-01-01T00:00:05.000Z");
        live.handle_action(Action::Pause, paused);
        assert!(!live.is_pause_over(4_999) && live.is_pause_over(5_000));
        let waiting = penstock_api::rest::WaitingView::of(&live.report()).unwrap();
        assert_eq!((waiting.code.as_str(), waiting.until), ("user", at(5_000).until));
        assert_eq!(waiting.text, "the end of its pause (anna)");
        let later = live.record_after(at(6_000), "ben", |_| {}).unwrap();
        let pause = later.attempts.pause.clone().unwrap();
        assert_eq!((pause.by.as_str(), pause.until_ms), ("anna", Some(6_000)));
        live.handle_action(Action::Pause, later);
        let without = live.record_after(Action::Pause.into(), "ben", |_| {}).unwrap();
        assert_eq!(without.reason, "paused by a user");
        live.handle_action(Action::Pause, without);
        assert!(!live.is_pause_over(u64::MAX));
        live.handle_end(RunOutcome::Paused, RunView::default(), None);
        assert_eq!(live.record.reason, "paused by a user");
    }
}
