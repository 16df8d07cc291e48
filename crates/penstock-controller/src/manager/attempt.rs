//! One attempt at a transfer: opens the source, finds the root, runs, and settles the result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::rest::FlightKind;
use penstock_api::task::Room;
use penstock_api::transfer::TransferState;
use penstock_cluster::state::{TransferRecord, Wish};
use penstock_proto::id::TransferId;
use tracing::field::Empty;

use super::config::{ManagerConfig, ManagerParts};
use super::events::TransferEvents;
use super::journal_directory::JournalDirectory;
use super::place;
use super::queue::{OutcomeTally, TransferTable};
use super::receipt::ReceiptMaker;
use super::record::{places_of, store};
use super::removal::{CancelledTransfers, Cleaner};
use super::sources::{Opened, Sources};
use crate::flight::FlightFile;
use crate::runner::{RunControl, RunInput, RunOutcome};

/// The parts of a manager that all attempts use.
pub(super) struct AttemptParts {
    pub(super) config: ManagerConfig,
    pub(super) site: ManagerParts,
    pub(super) journal: JournalDirectory,
    pub(super) table: Arc<TransferTable>,
    pub(super) sources: Arc<Sources>,
    pub(super) receipts: ReceiptMaker,
    pub(super) cleaner: Arc<Cleaner>,
    pub(super) cancelled: Arc<CancelledTransfers>,
    pub(super) events: TransferEvents,
    pub(super) outcomes: Arc<OutcomeTally>,
}

/// An attempt at one transfer, on a thread of its own.
pub(super) struct Attempt {
    parts: Arc<AttemptParts>,
    id: TransferId,
    /// Steers and watches its run.
    control: Arc<RunControl>,
}

impl Attempt {
    pub(super) fn new(parts: Arc<AttemptParts>, id: TransferId, control: Arc<RunControl>) -> Self {
        Self { parts, id, control }
    }

    /// Makes the attempt. Blocks for as long as the transfer runs.
    pub(super) fn make(&self) {
        let _span = tracing::info_span!(
            "attempt",
            transfer = %self.id,
            state = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        )
        .entered();
        let began = Instant::now();
        let run = AssertUnwindSafe(|| {
            let waits = self.is_without_room();
            (!waits).then(|| self.run())
        });
        let outcome = catch_unwind(run).unwrap_or_else(|_| {
            let title = "the transfer's thread broke an assumption of ours";
            let problem = Problem::new(ProblemCode::Internal, title);
            let hint = "please report it, with the log of the daemon";
            Some(RunOutcome::Failed(problem.hint(hint)))
        });
        if let Some(outcome) = outcome {
            let asks = match &outcome {
                RunOutcome::Failed(problem) => problem.code == ProblemCode::ListAnew,
                _ => false,
            };
            let outcome = match asks || began.elapsed() >= self.parts.config.restart_least {
                true => self.list_after_restart(outcome, asks),
                false => outcome,
            };
            self.settle(outcome);
        }
    }

    /// Checks for room before an attempt at a transfer that waits for it. If there is no room, puts
    /// the transfer back into the queue and returns `true`.
    fn is_without_room(&self) -> bool {
        let table = self.parts.table.lock();
        let store = match table.live.get(&self.id) {
            Some(live) if live.looks_for_room() => live.record.request.target.store.clone(),
            _ => return false,
        };
        drop(table);
        let room = self.parts.site.target.room(&store).ok();
        let mut table = self.parts.table.lock();
        let Some(live) = table.live.get_mut(&self.id) else { return false };
        if !live.handle_room(room, &self.control) {
            return false;
        }
        table.handle_attempt_over();
        drop(table);
        self.parts.table.notify();
        true
    }

    fn run(&self) -> RunOutcome {
        let Some(record) = self.parts.table.lock().record(self.id) else {
            return RunOutcome::Cancelled;
        };
        match record.wish {
            Wish::Cancel => return RunOutcome::Cancelled,
            Wish::Pause => return RunOutcome::Paused,
            Wish::None => {}
        }
        self.begin_flight(&record);
        match self.prepare(record) {
            Ok(input) => {
                self.say("");
                (self.parts.site.run)(input)
            }
            Err(problem) => RunOutcome::Failed(problem),
        }
    }

    /// Begins to record the decisions about the transfer.
    fn begin_flight(&self, record: &TransferRecord) {
        let (fence, path) = (self.parts.site.fence.clone(), self.parts.journal.flight(self.id));
        let (attempt, epoch) = (record.attempts.count, fence.epoch());
        let flight = self.control.flight();
        flight.begin(FlightFile::new(path, fence), attempt);
        if epoch != 0 {
            // At a site of several peers, another one may have led before.
            let text = format!("the controller acts in tenure {epoch}");
            flight.add(FlightKind::Tenure, "", &text);
        }
        let text = format!("attempt {attempt} begins");
        flight.add(FlightKind::AttemptBegin, "", &text);
    }

    /// Records the end of the attempt, and its consequence.
    fn end_flight(&self, record: &TransferRecord, problem: Option<&Problem>) {
        let (flight, state) = (self.control.flight(), record.state.as_str());
        let text = match record.reason.is_empty() {
            true => state.to_owned(),
            false => format!("{state}: {}", record.reason),
        };
        match problem {
            Some(problem) => flight.add_problem(FlightKind::AttemptEnd, "", problem, &text),
            None => flight.add(FlightKind::AttemptEnd, "", &text),
        }
        flight.write();
    }

    /// Shows the reason why an attempt waits before its run has begun.
    fn say(&self, reason: &str) {
        if let Some(live) = self.parts.table.lock().live.get_mut(&self.id)
            && live.full.is_none()
        {
            reason.clone_into(&mut live.record.reason);
        }
    }

    fn prepare(&self, record: TransferRecord) -> Result<RunInput, Problem> {
        let AttemptParts { site, journal, .. } = &*self.parts;
        self.say(&format!("asking site `{}` for the data set", record.request.source.site));
        self.parts.sources.announce(&record.request);
        let (record, opened) = self.open_listed(record)?;
        let target = &record.request.target;
        let root = match &record.root {
            Some(root) => root.clone(),
            None => {
                let there =
                    site.target.root_kind(&target.store, &target.path, record.account.as_ref())?;
                let root = place::root(&record.request.source, opened.kind, target, there)?;
                // Stored before anything is made there: a later attempt finds another situation.
                self.keep(|live| (live.root, live.claim) = (Some(root.clone()), root.clone()))?;
                root
            }
        };
        Ok(RunInput {
            id: self.id,
            listing: record.listing.number,
            is_new_target: false,
            options: record.request.options.clone(),
            store: target.store.clone(),
            root,
            pages: opened.pages,
            peers: (site.peers)(&target.store, opened.access.own_store()),
            source: opened.access,
            find_source: opened.find,
            heads: Arc::clone(&site.state) as _,
            journal: journal.of(self.id),
            control: Arc::clone(&self.control),
            places: places_of(&record.request),
            known_rate: None,
            fence: site.fence.clone(),
            account: record.account,
        })
    }

    /// Opens the source. A source that was restarted since it made its list makes another one, so
    /// that the transfer ends as one submitted now would (A13).
    fn open_listed(&self, mut record: TransferRecord) -> Result<(TransferRecord, Opened), Problem> {
        let sources = &self.parts.sources;
        let opened = sources.open(&record)?;
        let before = record.listing;
        if opened.instance == 0 || opened.instance == before.instance {
            return Ok((record, opened));
        }
        if before.instance != 0 {
            sources.list_anew(&mut record);
        }
        record.listing.instance = opened.instance;
        self.keep(|live| live.listing = record.listing)?;
        let opened = match record.listing.number == before.number {
            true => opened,
            false => sources.open(&record)?,
        };
        Ok((record, opened))
    }

    /// Changes the record of the transfer, durably.
    fn keep(&self, change: impl FnOnce(&mut TransferRecord)) -> Result<(), Problem> {
        if let Some(live) = self.parts.table.lock().live.get_mut(&self.id) {
            change(&mut live.record);
            self.parts.site.state.put_transfer(&live.record)?;
        }
        Ok(())
    }

    /// Turns the end of a run into another attempt, which lists again, if the source was restarted
    /// during that run (A13). A source that does not answer now does not delay the end. A move and
    /// a plan end with the list that they had. A run that `asks` for a new list gets one.
    fn list_after_restart(&self, outcome: RunOutcome, asks: bool) -> RunOutcome {
        let ends = match &outcome {
            RunOutcome::Done => true,
            RunOutcome::Failed(problem) => asks || problem.exit != Exit::Temporary,
            RunOutcome::Paused | RunOutcome::Cancelled => false,
        };
        let record = self.parts.table.lock().record(self.id);
        let Some(mut record) = record.filter(|_| ends && self.parts.site.fence.holds()) else {
            return outcome;
        };
        let options = &record.request.options;
        let keeps = options.remove_source || options.plan.is_some() || record.wish != Wish::None;
        if keeps || !asks && !self.parts.sources.is_restarted(&record) {
            return outcome;
        }
        tracing::info!(transfer = %self.id, "its data set is listed again");
        self.parts.sources.list_anew(&mut record);
        match self.keep(|live| live.listing = record.listing) {
            Ok(()) => RunOutcome::Paused,
            Err(problem) => RunOutcome::Failed(problem),
        }
    }

    /// Takes over the result of a run, and decides the next state of the transfer. A failed
    /// transfer keeps its ledger for a retry, a done one for as long as its digest list may be
    /// asked for.
    ///
    /// A deposed controller settles nothing: the next one begins with the committed state.
    fn settle(&self, outcome: RunOutcome) {
        let AttemptParts { table, events, .. } = &*self.parts;
        let notes = self.control.take_notes();
        let owner = || self.parts.table.lock().record(self.id).and_then(|record| record.owner);
        notes.iter().for_each(|note| events.tell_problem(self.id, owner(), note));
        if !self.parts.site.fence.holds() {
            table.lock().handle_attempt_over();
            table.notify();
            return;
        }
        let discarded = self.discard_cancelled(&outcome);
        let record = table.lock().record(self.id);
        let outcome = match record {
            Some(record) => self.parts.receipts.make(&record, outcome, &self.control.view()),
            None => outcome,
        };
        let Some((record, is_stored)) = self.end(outcome, discarded) else {
            return self.leave_table(false);
        };
        let is_done = is_stored && record.state == TransferState::Done;
        if is_done && !record.request.options.digest_list {
            self.parts.cleaner.discard_ledger(self.id);
        }
        self.leave_table(record.state.is_ended());
        events.tell(&record.report());
        // The user need not wait until the source learns that.
        if is_done {
            self.parts.sources.release(&record);
        }
    }

    /// Moves the transfer to the state that follows, and stores that. Returns the record and
    /// whether it is stored; `None` if the transfer is gone.
    fn end(
        &self,
        outcome: RunOutcome,
        discarded: Option<Result<(), Problem>>,
    ) -> Option<(TransferRecord, bool)> {
        let room = self.room_of(&outcome);
        let failed = match &outcome {
            RunOutcome::Failed(problem) => Some(problem.clone()),
            _ => None,
        };
        let mut table = self.parts.table.lock();
        let live = table.live.get_mut(&self.id)?;
        let problem = live.handle_end(outcome, self.control.view(), room);
        let durable = live.record.progress.bytes_durable;
        if live.record.state == TransferState::Cancelled && !matches!(discarded, Some(Ok(()))) {
            self.parts.cancelled.add(self.id);
            live.remark(&discarded.and_then(Result::err).map(still_there).unwrap_or_default());
        }
        let is_stored = store(&*self.parts.site.state, &mut live.record);
        let record = live.record.clone();
        table.handle_durable(self.id, durable);
        table.handle_ended(&record);
        drop(table);
        // A stall is a problem, and no outcome of the run.
        let code = problem.as_ref().or(failed.as_ref()).map(|problem| problem.code.clone());
        let span = tracing::Span::current();
        span.record("state", record.state.as_str());
        if let Some(code) = &code {
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", code.as_str());
        }
        self.end_flight(&record, problem.as_ref().or(failed.as_ref()));
        self.parts.outcomes.handle_end(record.state, record.progress.errors, code.as_ref());
        if let Some(problem) = problem {
            tracing::warn!(transfer = %self.id, %problem, "attempt failed");
            self.parts.events.tell_problem(self.id, record.owner.clone(), &problem);
        }
        Some((record, is_stored))
    }

    /// Takes the attempt out of the table, and the transfer if it has ended.
    fn leave_table(&self, is_ended: bool) {
        let mut table = self.parts.table.lock();
        // A user may have asked for a retry meanwhile: then this is another entry, not ours.
        if let Some(live) = table.live.get_mut(&self.id)
            && live.is_run_by(&self.control)
        {
            live.run = None;
            if is_ended {
                table.live.remove(&self.id);
            }
        }
        table.handle_attempt_over();
        drop(table);
        self.parts.table.notify();
    }

    /// Returns the free room at a target that a run has found full.
    fn room_of(&self, outcome: &RunOutcome) -> Option<Room> {
        let is_full = |problem: &Problem| problem.code == ProblemCode::TargetFull;
        if !matches!(outcome, RunOutcome::Failed(problem) if is_full(problem)) {
            return None;
        }
        let store = self.parts.table.lock().record(self.id)?.request.target.store;
        self.parts.site.target.room(&store).ok()
    }

    /// Removes the temporary files of a cancelled transfer. The transfer is reported as cancelled
    /// only when nothing temporary is left, or together with the fact that something is. Until then
    /// the wish survives a crash. Returns `None` if the transfer is not cancelled.
    fn discard_cancelled(&self, outcome: &RunOutcome) -> Option<Result<(), Problem>> {
        let mut table = self.parts.table.lock();
        let live = table.live.get_mut(&self.id)?;
        let failed = matches!(outcome, RunOutcome::Failed(_)) && live.record.wish == Wish::Cancel;
        if !failed && *outcome != RunOutcome::Cancelled {
            return None;
        }
        "removing what is temporary".clone_into(&mut live.record.reason);
        let record = live.record.clone();
        drop(table);
        Some(self.parts.cleaner.discard(&record))
    }
}

/// Returns the reason shown for a cancelled transfer whose target could not be asked.
fn still_there(problem: Problem) -> String {
    format!(
        "its temporary files are still at the target: {problem}; that is tried again until they \
         are removed"
    )
}
