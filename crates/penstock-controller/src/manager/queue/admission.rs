//! Admission of transfers of this site, and requests of users about admitted ones.
//!
//! One lock is held while a transfer is admitted or changed, so that two cannot claim one place
//! (B8). The lock is never held during a request to a store or another site: the table reserves the
//! places of removals instead.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_api::deadline::{Deadline, DeadlineOutlook, DeadlinePolicy, Factor};
use penstock_api::io_problem;
use penstock_api::plan::PlanUse;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::rest::{Action, Steering, TransferPatch};
use penstock_api::task::TargetPeer;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{PathText, TransferReport, TransferRequest, TransferState};
use penstock_cluster::clock::now_seconds;
use penstock_cluster::state::{SiteState, TransferRecord, Wish};
use penstock_proto::id::{Name, TransferId};

use super::live::{Live, wrong_state};

use super::transfer_table::{Table, TransferTable};
use crate::manager::caller::Caller;
use crate::manager::config::{ManagerConfig, ManagerParts, StoreDirectory};
use crate::manager::events::TransferEvents;
use crate::manager::journal_directory::JournalDirectory;
use crate::manager::place;
use crate::manager::record::record_of;
use crate::manager::request_check::{changed_meanwhile, check_turn, id_taken, unknown};
use crate::manager::sources::Sources;

/// Deadlines that are promised at a time, in all and to one user.
const PROMISES_MAX: usize = 100;
const PROMISES_OF_USER_MAX: usize = 20;
/// Transfers that a hint names of those that would have to yield; the problem has all.
const YIELD_NAMED: usize = 5;

/// Admits and changes transfers of this site.
pub(crate) struct Admission {
    config: ManagerConfig,
    state: Arc<dyn SiteState>,
    target: Arc<dyn TargetPeer>,
    directory: Arc<StoreDirectory>,
    table: Arc<TransferTable>,
    sources: Arc<Sources>,
    journal: JournalDirectory,
    events: TransferEvents,
    lock: Mutex<()>,
}

impl Admission {
    pub(crate) fn new(
        (config, parts): (&ManagerConfig, &ManagerParts),
        sources: Arc<Sources>,
        (table, events): (Arc<TransferTable>, TransferEvents),
    ) -> Self {
        Self {
            config: config.clone(),
            state: Arc::clone(&parts.state),
            target: Arc::clone(&parts.target),
            directory: Arc::clone(&parts.directory),
            table,
            sources,
            journal: JournalDirectory::new(config.journal.clone()),
            events,
            lock: Mutex::new(()),
        }
    }

    /// Keeps others from admitting or changing transfers, until the guard is dropped.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a transfer, durably; the same request again is the same transfer. Also returns
    /// whether it is new.
    ///
    /// # Errors
    /// A guard rejects it, or the state database cannot be written.
    pub(crate) fn admit(
        &self,
        request: &TransferRequest,
        caller: &Caller,
    ) -> Result<(TransferReport, bool), Problem> {
        if let Some(known) = self.known(request, caller)? {
            return Ok((known, false));
        }
        let target = &request.target;
        place::check_not_own(target)?;
        // Before the lock: a store that hangs, or that another host has, delays no other caller.
        let there = match self.target.root_kind(&target.store, &target.path, caller.account()) {
            Ok(there) => there,
            // The transfer waits in the queue until the store is back.
            Err(problem) if problem.exit == Exit::Temporary => None,
            Err(problem) => return Err(problem),
        };
        self.sources.check_networks(request)?;
        let claim = place::claim(&request.source, target, there);
        let _admission = self.lock();
        if let Some(known) = self.known(request, caller)? {
            return Ok((known, false));
        }
        self.table.check_idle(request.id)?;
        self.check_same_place(request, &claim)?;
        self.check_overlap(request, &claim, caller)?;
        if matches!(request.options.plan, Some(PlanUse::Follow { .. }))
            && !self.journal.plan(request.id).exists()
        {
            let title = "the plan that the transfer is to follow was not sent";
            return Err(Problem::new(ProblemCode::PlanMissing, title)
                .hint("submit it with `penstock transfer submit --plan FILE`"));
        }
        let record = record_of(request, caller.submitter(&self.config.site), claim);
        let (owner, account) = (caller.owner(), caller.account().cloned());
        let record = TransferRecord { owner, account, ..record };
        self.check_deadline(&record, caller)?;
        self.state.put_transfer(&record)?;
        let view = self.enqueue(record);
        self.events.tell(&view);
        Ok((view, true))
    }

    /// Returns the transfer that a request has been taken for before.
    fn known(
        &self,
        request: &TransferRequest,
        caller: &Caller,
    ) -> Result<Option<TransferReport>, Problem> {
        let Some(known) = self.state.transfer(request.id)? else { return Ok(None) };
        if !caller.may_see(&known) || !is_same_wish(&known.request, request) {
            return Err(id_taken(request.id));
        }
        let live = self.table.lock().live.get(&request.id).map(Live::report);
        Ok(Some(live.unwrap_or_else(|| known.report())))
    }

    /// Puts a stored record into the queue.
    fn enqueue(&self, record: TransferRecord) -> TransferReport {
        let view = record.report();
        self.table.add(Live::new(record, &self.config));
        view
    }

    fn absolute(&self, store: &Name, path: &PathText) -> Vec<u8> {
        place::absolute((self.directory)(store).as_deref(), store.as_str(), path)
    }

    /// Checks that a data set is never moved into itself, or over its source (B8).
    ///
    /// # Errors
    /// Code `same-place`.
    pub(crate) fn check_same_place(
        &self,
        request: &TransferRequest,
        claim: &PathText,
    ) -> Result<(), Problem> {
        let source = &request.source;
        if source.site != request.target.site {
            return Ok(());
        }
        let from = self.absolute(&source.store, &source.path);
        if !place::overlap(&from, &self.absolute(&request.target.store, claim)) {
            return Ok(());
        }
        let title = format!("source `{source}` and target `{}` overlap", request.target);
        Err(Problem::new(ProblemCode::SamePlace, title)
            .hint("choose a target that is neither inside the source nor contains it"))
    }

    /// Checks that two transfers never write to one place (B8). A caller that may not see the other
    /// transfer learns only that there is one.
    ///
    /// # Errors
    /// Codes `overlap` and `queue-full`.
    pub(crate) fn check_overlap(
        &self,
        request: &TransferRequest,
        claim: &PathText,
        caller: &Caller,
    ) -> Result<(), Problem> {
        let target = &request.target.store;
        let place = self.absolute(target, claim);
        let table = self.table.lock();
        table.check_room(caller)?;
        let other = table.holders().find(|record| {
            let store = &record.request.target.store;
            record.id() != request.id
                && if store == target {
                    place::overlap(&claim.0, &record.claim.0)
                } else {
                    place::overlap(&place, &self.absolute(store, &record.claim))
                }
        });
        let Some(other) = other else { return Ok(()) };
        if !caller.may_see(other) {
            let title = format!("target `{}` overlaps with another transfer", request.target);
            return Err(Problem::new(ProblemCode::Overlap, title)
                .hint("wait until that has ended, or choose another target"));
        }
        let (id, to) = (other.id(), &other.request.target);
        let title = format!("target `{}` overlaps with transfer {id} to `{to}`", request.target);
        Err(Problem::new(ProblemCode::Overlap, title)
            .because(format!(
                "that transfer has not ended: `penstock transfer show {}`",
                id.short()
            ))
            .hint("wait until it has ended, cancel it, or choose another target"))
    }

    /// Pauses, resumes, cancels or retries a transfer. The wish is stored durably when this
    /// returns.
    ///
    /// # Errors
    /// The transfer is unknown, or the action does not fit its state.
    pub(crate) fn act(
        &self,
        id: TransferId,
        steering: Steering,
        caller: &Caller,
    ) -> Result<TransferReport, Problem> {
        let action = steering.action;
        let admission = self.lock();
        let mut table = self.table.lock();
        if let Some(live) = table.live.get_mut(&id)
            && !live.record.state.is_ended()
        {
            return self.act_on_live(live, steering, &caller.text());
        }
        drop(table);
        self.table.check_idle(id)?;
        let record = self.state.transfer(id)?.ok_or_else(|| unknown(id))?;
        match (action, record.state) {
            (Action::Retry, TransferState::Failed) => {
                let claim = record.root.clone().unwrap_or_else(|| record.claim.clone());
                self.check_overlap(&record.request, &claim, caller)?;
                let place = TransferRecord { claim, ..record.clone() };
                let _busy = self.table.occupy(id, Some(place))?;
                // The source's site is informed and may not answer: no other caller waits for that.
                drop(admission);
                self.prepare_retry(&record)?;
                let _admission = self.lock();
                self.requeue(record, Wish::None)
            }
            (Action::Cancel, TransferState::Failed) => self.requeue(record, Wish::Cancel),
            (Action::Cancel, TransferState::Cancelled) => Ok(record.report()),
            (_, state) => Err(wrong_state(id, action, state)),
        }
    }

    fn act_on_live(
        &self,
        live: &mut Live,
        steering: Steering,
        by: &str,
    ) -> Result<TransferReport, Problem> {
        let record = live.record_after(steering, by, |record| self.sources.list_anew(record))?;
        self.state.put_transfer(&record)?;
        live.handle_action(steering.action, record);
        Ok(live.report())
    }

    /// Changes a transfer that has not ended, durably when this returns.
    ///
    /// # Errors
    /// The transfer has ended, or is not current; a value is out of its bounds.
    pub(crate) fn change(
        &self,
        id: TransferId,
        patch: &TransferPatch,
        is_current: &dyn Fn(&TransferReport) -> bool,
    ) -> Result<TransferReport, Problem> {
        let _admission = self.lock();
        let mut table = self.table.lock();
        let live = table.live.get_mut(&id).filter(|live| !live.record.state.is_ended());
        let Some(live) = live else {
            let title = format!("cannot change transfer {}: it has ended", id.short());
            return Err(Problem::new(ProblemCode::WrongState, title));
        };
        if !is_current(&live.report()) {
            return Err(changed_meanwhile(id));
        }
        let request = patch.applied_to(live.record.request.clone());
        check_turn(&request)?;
        let limits = request.options.limits.check();
        limits.map_err(|error| {
            Problem::new(ProblemCode::Request, error.to_string()).at("/limits/rate_bits_per_s")
        })?;
        let record = TransferRecord { request, ..live.record.clone() };
        self.state.put_transfer(&record)?;
        live.record = record;
        let report = live.report();
        let is_waiting = live.is_waiting();
        if !patch.is_of_limits() && is_waiting {
            table.handle_changed(id);
        }
        table.steer_rates();
        Ok(report)
    }

    /// Sets or removes the deadline of a transfer; the change is stored durably when this returns.
    ///
    /// # Errors
    /// The transfer has ended; code `deadline-unkeepable`.
    pub(crate) fn set_deadline(
        &self,
        id: TransferId,
        deadline: Option<Deadline>,
        caller: &Caller,
    ) -> Result<TransferReport, Problem> {
        let _admission = self.lock();
        let record = self.table.lock().record(id).filter(|record| !record.state.is_ended());
        let mut record = record.ok_or_else(|| ended(id, "give a deadline to"))?;
        record.request.deadline = deadline;
        self.check_deadline(&record, caller)?;
        self.change_turn(id, |record| {
            record.request.deadline = deadline;
            record.promise = None;
        })
    }

    /// Puts a transfer before all fair shares, or back among the others; stored durably when this
    /// returns.
    ///
    /// # Errors
    /// The transfer has ended.
    pub(crate) fn set_urgent(
        &self,
        id: TransferId,
        urgent: bool,
    ) -> Result<TransferReport, Problem> {
        let _admission = self.lock();
        self.change_turn(id, |record| record.request.urgent = urgent)
    }

    /// Changes the turn of a transfer that has not ended. The caller holds the admission lock.
    fn change_turn(
        &self,
        id: TransferId,
        change: impl FnOnce(&mut TransferRecord),
    ) -> Result<TransferReport, Problem> {
        let mut table = self.table.lock();
        let live = table.live.get_mut(&id).filter(|live| !live.record.state.is_ended());
        let live = live.ok_or_else(|| ended(id, "change"))?;
        let mut record = live.record.clone();
        change(&mut record);
        self.state.put_transfer(&record)?;
        live.record = record;
        let report = live.report();
        table.handle_changed(id);
        Ok(report)
    }

    /// Checks that the deadline of a transfer can be kept, if it is to be promised.
    ///
    /// # Errors
    /// Code `deadline-unkeepable`, with the forecast and the transfers that would have to yield.
    fn check_deadline(&self, record: &TransferRecord, caller: &Caller) -> Result<(), Problem> {
        let Some(deadline) = record.request.deadline else { return Ok(()) };
        let now = now_seconds();
        let refused = |title: &str| Problem::new(ProblemCode::DeadlineUnkeepable, title);
        if deadline.at.seconds() <= now {
            return Err(refused("the deadline is over already"));
        }
        if deadline.policy != DeadlinePolicy::Promise {
            return Ok(());
        }
        let mut table = self.table.lock();
        check_promises(&table, record)?;
        let unkeepable = match table.check_promise(record) {
            Some(Ok(())) => return Ok(()),
            Some(Err(unkeepable)) => unkeepable,
            None => {
                return Err(refused("the deadline cannot be promised: nothing is known of it")
                    .because("no rate between these stores is known yet, or no size of the data")
                    .hint(
                        "give the expected bytes (`--expect 2T`), or take the policy best_effort",
                    ));
            }
        };
        let is_seen =
            |id: &TransferId| table.live.get(id).is_some_and(|live| caller.may_see(&live.record));
        let would_yield: Vec<_> = unkeepable.would_yield.into_iter().filter(is_seen).collect();
        let others: Vec<_> = would_yield.iter().take(YIELD_NAMED).map(TransferId::short).collect();
        let forecast_at = unkeepable.forecast.map(|end| end.div_ceil(1000));
        let ahead = |end: u64| end.saturating_sub(now);
        let at = deadline.at.seconds();
        let missing = forecast_at.map(|end| Factor(ahead(end) * 1000 / ahead(at).max(1)));
        let mut problem = refused("the deadline cannot be promised");
        if !others.is_empty() {
            problem = problem.hint(format!(
                "choose a later time or the policy best_effort, or let others wait: {}",
                others.join(", ")
            ));
        }
        if let Some(end) = forecast_at {
            let late = end.saturating_sub(at);
            problem = problem.because(match late {
                0 => "its place is promised to others".to_owned(),
                late => format!("by forecast it ends {late} s after that"),
            });
        }
        let forecast_at = forecast_at.map(Timestamp::of_seconds);
        Err(problem.with_deadline(DeadlineOutlook {
            forecast_at,
            missing_factor: missing,
            would_yield,
        }))
    }

    /// Makes a failed transfer ready for a retry. The retry lists the source again, and its ledger
    /// proves the finished files. A move that came to its end with failed items begins without a
    /// ledger: its source holds only items that are still to be moved.
    fn prepare_retry(&self, record: &TransferRecord) -> Result<(), Problem> {
        let id = record.id();
        let failures = self.journal.files(id)?.failures;
        if fs::metadata(failures).map_or(0, |meta| meta.len()) == 0 {
            return Ok(());
        }
        if record.request.options.plan.is_some() {
            let title = format!(
                "cannot retry transfer {}: its plan no longer matches the source or the target",
                id.short()
            );
            return Err(Problem::new(ProblemCode::PlanUsed, title)
                .hint("make another plan, and submit that"));
        }
        if !record.request.options.remove_source {
            return Ok(());
        }
        self.sources.release(record);
        self.state.remove(id)?;
        let journal = self.journal.of(id);
        fs::remove_dir_all(&journal).map_err(|cause| {
            let title = format!("cannot remove {}", journal.display());
            io_problem::failed(ProblemCode::Journal, title, &cause)
        })
    }

    fn requeue(&self, mut record: TransferRecord, wish: Wish) -> Result<TransferReport, Problem> {
        record.wish = wish;
        record.state = TransferState::Queued;
        record.exit = None;
        record.idle_attempts = 0;
        record.attempts.ended_ms = None;
        record.reason.clear();
        record.failures.clear();
        record.promise = None;
        if wish == Wish::None {
            // A deadline is not promised if earlier promises leave no room for it.
            if self.check_deadline(&record, &Caller::local()).is_err()
                && let Some(deadline) = &mut record.request.deadline
            {
                deadline.policy = DeadlinePolicy::BestEffort;
            }
            self.sources.list_anew(&mut record);
        }
        self.state.put_transfer(&record)?;
        Ok(self.enqueue(record))
    }
}

/// Checks that there is room for one more promise: each is compared with the others whenever a
/// transfer starts, and a user may not fill the queue with transfers that all come first.
///
/// # Errors
/// Code `too-many`.
fn check_promises(table: &Table, record: &TransferRecord) -> Result<(), Problem> {
    let promised = table.live.values().map(|live| &live.record).filter(|other| {
        let policy = other.request.deadline.map(|deadline| deadline.policy);
        policy == Some(DeadlinePolicy::Promise) && other.id() != record.id()
    });
    let (mut all, mut of_user) = (0, 0);
    for other in promised {
        all += 1;
        of_user += usize::from(other.owner.is_some() && other.owner == record.owner);
    }
    if all < PROMISES_MAX && of_user < PROMISES_OF_USER_MAX {
        return Ok(());
    }
    let title = "too many deadlines are promised already";
    let hint = "wait until some of these transfers have ended, or take the policy best_effort";
    Err(Problem::new(ProblemCode::TooMany, title).hint(hint))
}

/// Returns the problem of a change that comes too late.
fn ended(id: TransferId, what: &str) -> Problem {
    let title = format!("cannot {what} transfer {}: it has ended", id.short());
    Problem::new(ProblemCode::WrongState, title)
}

/// Returns whether a request means the same transfer. Fields that a user may change may differ.
fn is_same_wish(known: &TransferRequest, request: &TransferRequest) -> bool {
    let TransferRequest { label, priority, not_before, .. } = request.clone();
    let mut known = TransferRequest { label, priority, not_before, ..known.clone() };
    known.options.limits = request.options.limits;
    (known.deadline, known.urgent) = (request.deadline, request.urgent);
    known == *request
}
