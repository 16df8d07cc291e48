//! Owns the transfers of which this site is the target: accepts and queues them, runs each on a
//! thread of its own, retries temporary failures, and reports their states.
//!
//! The inputs are requests of users and of paired sites. The outputs are events, and the state
//! database. Every accepted transfer survives a crash, with the last order of a user for it. A
//! transfer that was queued or running begins again when the manager starts, and continues from its
//! ledger; a paused one stays paused.
//!
//! | state | leaves it by |
//! |---|---|
//! | queued | its turn (so many run at a time), its next attempt, room at a full target |
//! | running | its end, a pause, a cancel; after a temporary failure it is queued again |
//! | paused | resume, cancel |
//! | failed | retry, cancel |
//!
//! [`Manager`] has all requests that users and sites may make. It passes each request to the owner
//! of the facts:
//!
//! | module | type, and its facts |
//! |---|---|
//! | `queue` | transfers that have not ended: their states, places and turns |
//! | `scheduler` | `Scheduler`: the thread that begins attempts |
//! | `attempt` | `Attempt`: one attempt at a transfer, from its source to its result |
//! | `removal` | removal of files that transfers leave |
//! | `sources` | `Sources`: access to the sources of transfers |
//! | `stubs` | `Stubs`: transfers that other sites own |
//! | `plans` | `Planner`: plans that are made or received |
//! | `documents` | `Documents`: lists and receipts of transfers that have ended |
//! | `receipt` | `ReceiptMaker`: receipts of own transfers; checks of those to be countersigned |
//! | `journal_directory` | `JournalDirectory`: the directory of all their files |
//! | `list` | `TransferList`: the list of all, filtered and in parts |
//! | `events`, `event_ring` | `TransferEvents`: the events of all, numbered |
//! | `caller`, `request_check` | the origin of a request, and the check of its fields |
//! | `place` | the root of a data set at the target, and places that overlap |
//! | `record` | the record of an own transfer |
//! | `config` | the inputs of a manager |

mod attempt;
mod caller;
mod config;
mod documents;
mod event_ring;
mod events;
mod journal_directory;
mod list;
mod place;
mod plans;
mod queue;
mod receipt;
mod record;
mod removal;
mod request_check;
mod scheduler;
mod sources;
mod stubs;

pub use caller::Caller;
pub use config::{
    ManagerConfig, ManagerParts, OwnLanes, OwnPeers, PeersOf, RUNNING_MAX_DEFAULT, Run,
    StoreDirectory,
};
pub use event_ring::{EventFigures, EventId, EventReader, NextEvent, OwnedEvent};
pub use list::TransferFilter;
pub use queue::{
    LIVE_MAX, ManagerFigures, Outcomes, RUNNING_SHOWN_MAX, RunningFigures, WaitFigures,
};
pub use receipt::{ReceiptParts, check_as_source, receipt_body, receipt_text};
pub use stubs::SourceAccount;

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use penstock_api::deadline::Deadline;
use penstock_api::fence::Fence;
use penstock_api::plan::PlanUse;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::queue::{BULK_MAX, BulkItem, BulkReply, BulkRequest, QueueRule, QueueView};
use penstock_api::rest::{
    Action, LIST_MAX, Orphan, Page, PieceMap, Steering, TransferPatch, TransferSummary,
};
use penstock_api::transfer::{PathText, Progress, TransferReport, TransferRequest, TransferState};
use penstock_cluster::state::{SiteState, StateError, Stub, TransferRecord};
use penstock_proto::id::{Name, TransferId};

use self::attempt::AttemptParts;
use self::documents::Documents;
use self::events::TransferEvents;
use self::journal_directory::JournalDirectory;
use self::list::{TransferList, cursor};
use self::plans::Planner;
use self::queue::{
    Admission, Live, Memory, OutcomeTally, RuleBook, Table, TransferTable, UserGroups, chosen,
};
use self::receipt::ReceiptMaker;
use self::removal::{CancelledTransfers, Cleaner, Orphans};
use self::request_check::{check, check_steering, not_paired, unknown};
use self::scheduler::Scheduler;
use self::sources::Sources;
use self::stubs::Stubs;
use crate::sites::SiteClient;

/// The manager. Its methods block on the state database, some on stores and other sites.
pub struct Manager {
    /// The own site.
    site: Name,
    state: Arc<dyn SiteState>,
    sites: Arc<dyn SiteClient>,
    fence: Fence,
    table: Arc<TransferTable>,
    admission: Arc<Admission>,
    rule_book: RuleBook,
    stubs: Arc<Stubs>,
    planner: Planner,
    documents: Documents,
    orphans: Orphans,
    list: TransferList,
    events: TransferEvents,
    outcomes: Arc<OutcomeTally>,
    scheduler: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Manager {
    /// Starts the manager's thread, and again every transfer that was queued or running.
    ///
    /// # Errors
    /// The state database cannot be read.
    pub fn start(config: ManagerConfig, parts: ManagerParts) -> Result<Self, StateError> {
        let memory = Memory::read(&*parts.state)?;
        let open = parts.state.open_transfers()?.into_iter();
        let live = open.map(|record| Live::resumed(record, &config));
        let table = Arc::new(TransferTable::new(Table::new(&config, live, memory)));
        let journal = JournalDirectory::new(config.journal.clone());
        let (site, inputs, events) = (&config.site, (&config, &parts), TransferEvents::new());
        let sources = Arc::new(Sources::new(parts.clone(), site.clone(), journal.clone()));
        let cleaner = Arc::new(Cleaner::new(&parts, Arc::clone(&sources), journal.clone()));
        let both = || (Arc::clone(&table), events.clone());
        let admission = Arc::new(Admission::new(inputs, Arc::clone(&sources), both()));
        let removal = (Arc::clone(&cleaner), Arc::clone(&admission));
        let cancelled = Arc::new(CancelledTransfers::new(inputs, removal, both()));
        let stubs = Arc::new(Stubs::new(&parts, events.clone()));
        let manager = Self {
            site: site.clone(),
            state: Arc::clone(&parts.state),
            sites: Arc::clone(&parts.sites),
            fence: parts.fence.clone(),
            planner: Planner::new(inputs, Arc::clone(&sources), Arc::clone(&admission)),
            documents: Documents::new(site.clone(), Arc::clone(&parts.sites), journal.clone()),
            orphans: Orphans::new(
                (&parts, journal.clone()),
                (Arc::clone(&cleaner), Arc::clone(&cancelled)),
                (Arc::clone(&admission), Arc::clone(&table)),
            ),
            rule_book: RuleBook::new(site.clone(), Arc::clone(&parts.state), Arc::clone(&table)),
            list: TransferList::new(
                site.clone(),
                Arc::clone(&parts.state),
                Arc::clone(&table),
                Arc::clone(&stubs),
            ),
            stubs,
            table: Arc::clone(&table),
            admission,
            events: events.clone(),
            outcomes: Arc::default(),
            scheduler: Mutex::new(None),
        };
        let outcomes = Arc::clone(&manager.outcomes);
        let receipts = ReceiptMaker::new(inputs, Arc::clone(&table));
        let scheduler = Scheduler::start(AttemptParts {
            config,
            site: parts,
            journal,
            table,
            sources,
            receipts,
            cleaner,
            cancelled,
            events,
            outcomes,
        });
        let scheduler = scheduler.map_err(|source| StateError::Thread { source })?;
        *manager.scheduler.lock().unwrap_or_else(PoisonError::into_inner) = Some(scheduler);
        Ok(manager)
    }

    /// Returns the own site.
    pub fn site(&self) -> &Name {
        &self.site
    }

    /// Returns the check whether this process is still the controller of the site.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Returns a reader of all events from now on.
    pub fn events(&self) -> EventReader {
        self.events.reader(None)
    }

    /// Returns a reader of all events after one that was read before.
    pub fn events_after(&self, after: EventId) -> EventReader {
        self.events.reader(Some(after))
    }

    /// Sets the number of transfers that run at a time. Running transfers continue, even above a
    /// lower limit.
    pub fn set_running_max(&self, running_max: u32) {
        self.table.lock().set_running_max(running_max);
        self.table.notify();
    }

    /// Returns the queue: up to [`LIST_MAX`] transfers that wait, in the order in which they would
    /// start, users, limits, windows and rules.
    pub fn queue(&self) -> QueueView {
        self.table.lock().queue(&self.site, LIST_MAX)
    }

    /// Sets a rule of the queue, durably. Running transfers follow it within a second. Returns
    /// whether it is new.
    ///
    /// # Errors
    /// The rule makes no sense (code `request`); there are too many.
    pub fn put_rule(&self, rule: QueueRule) -> Result<bool, Problem> {
        self.rule_book.put(rule)
    }

    /// Reads the groups of users again, by which they share the queue.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn follow_groups(&self) -> Result<(), Problem> {
        // Read under the lock, so that the groups of an earlier change do not return.
        let mut table = self.table.lock();
        table.handle_groups(UserGroups::of(&self.state.users()?));
        drop(table);
        self.table.notify();
        Ok(())
    }

    /// Removes the rule of a key ([`QueueRule::key`]), durably.
    ///
    /// # Errors
    /// Code `queue-rule`: there is no such rule.
    pub fn remove_rule(&self, key: &str) -> Result<(), Problem> {
        self.rule_book.remove(key)
    }

    /// Returns the time since the thread that starts transfers has looked at them. Waits for the
    /// table of transfers, which is held while a record is stored.
    pub fn silence(&self) -> Duration {
        self.table.lock().activity().1
    }

    /// Returns figures for metrics. Waits for the table of transfers, which is held while a record
    /// is stored.
    pub fn figures(&self) -> ManagerFigures {
        let table = self.table.lock();
        let (attempts, undecided) = table.activity();
        let mut figures = ManagerFigures {
            attempts: attempts as u64,
            undecided,
            outcomes: self.outcomes.figures(),
            events: self.events.figures(),
            ..ManagerFigures::default()
        };
        table.live.values().for_each(|live| figures.add(live));
        figures
    }

    /// Returns the progress of the transfers that run now, up to [`RUNNING_SHOWN_MAX`]. Waits
    /// for the table of transfers, which is held while a record is stored.
    pub fn running(&self) -> Vec<RunningFigures> {
        let mut figures = ManagerFigures::default();
        let table = self.table.lock();
        table.live.values().filter(|live| live.run.is_some()).for_each(|live| figures.add(live));
        figures.running
    }

    /// Returns the progress of a transfer of this site as its last run left it; `None` if it is not
    /// known. Reads the state if it has ended.
    pub fn last_progress(&self, id: TransferId) -> Option<Progress> {
        if let Some(live) = self.table.lock().live.get(&id) {
            return Some(live.report().progress);
        }
        self.state.transfer(id).ok().flatten().map(|record| record.report().progress)
    }

    /// Returns the transfers that run now, and that wait.
    pub fn counts(&self) -> (u32, u32) {
        let (running, queued) = self.table.lock().counts();
        (running as u32, queued as u32)
    }

    /// Stops all runs with their ledgers committed, and waits for them up to `deadline`. The next
    /// start begins them again. Returns whether all have stopped in time.
    pub fn stop(&self, deadline: Duration) -> bool {
        self.table.lock().stop();
        self.table.notify();
        if !self.table.wait_for_attempts(deadline) {
            return false;
        }
        let scheduler = self.scheduler.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The thread ends at once when it sees that the manager ends, and never panics on purpose.
        scheduler.is_none_or(|scheduler| scheduler.join().is_ok())
    }

    /// Accepts a transfer, durably, or forwards it to the site that owns it; the same request again
    /// is the same transfer. Also returns whether it is new.
    ///
    /// # Errors
    /// The request is invalid, a guard rejects it (codes `overlap`, `same-place`), or the owner
    /// does.
    pub fn submit(
        &self,
        request: &TransferRequest,
        caller: &Caller,
    ) -> Result<(TransferReport, bool), Problem> {
        check(request)?;
        caller.check(request, &self.site)?;
        if request.urgent && request.target.site == self.site {
            caller.check_urgent()?;
        }
        if request.options.plan == Some(PlanUse::Make) {
            let title = "a transfer cannot only make a plan";
            return Err(Problem::new(ProblemCode::Request, title));
        }
        if request.target.site != self.site {
            return self.stubs.forward(request, caller);
        }
        let source = &request.source.site;
        if *source != self.site && !self.sites.is_paired(source) {
            return Err(not_paired(source));
        }
        self.admission.admit(request, caller)
    }

    /// Makes the plan of a transfer, here or at the site that would own it. The target is not
    /// changed. Blocks until both sides are walked.
    ///
    /// # Errors
    /// As [`Manager::submit`]; a side cannot be looked at.
    pub fn plan(&self, request: &TransferRequest, caller: &Caller) -> Result<File, Problem> {
        check(request)?;
        caller.check(request, &self.site)?;
        self.planner.plan(request, caller)
    }

    /// Takes a part of the plan that a transfer is to follow which is submitted next, for `site`,
    /// which will own that. Parts come in order; the first starts again.
    ///
    /// # Errors
    /// The transfer is known already; a part is missing; the plan is too long.
    pub fn put_plan(
        &self,
        (site, store): (&Name, &Name),
        id: TransferId,
        offset: u64,
        part: &[u8],
        caller: &Caller,
    ) -> Result<(), Problem> {
        let bytes = offset.saturating_add(part.len() as u64);
        caller.check_plan((site, store), &self.site, bytes)?;
        match *site == self.site {
            true => self.planner.put(id, offset, part),
            false => self.sites.put_plan(site, store, id, offset, part),
        }
    }

    /// Returns one transfer, own or of another site.
    ///
    /// # Errors
    /// Status 404: it is not known, or does not concern the caller.
    pub fn show(&self, id: TransferId, caller: &Caller) -> Result<TransferReport, Problem> {
        if let Some(live) = self.table.lock().live.get(&id)
            && caller.may_see(&live.record)
        {
            return Ok(live.report());
        }
        let stored = self.state.transfer(id)?;
        if let Some(record) = stored.filter(|record| caller.may_see(record)) {
            return Ok(record.report());
        }
        match self.state.stub(id)?.filter(|stub| caller.may_see_stub(stub)) {
            Some(stub) => Ok(self.stubs.refresh(stub)),
            None => Err(unknown(id)),
        }
    }

    /// Returns the transfer whose id begins with these hexadecimal digits.
    ///
    /// # Errors
    /// The caller sees no such transfer, or more than one.
    pub fn resolve(&self, prefix: &str, caller: &Caller) -> Result<TransferId, Problem> {
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits || prefix.len() > 32 {
            return Err(unknown(prefix));
        }
        // A whole id of a transfer that has not ended, as programs name it, needs no look into the
        // state.
        if let Ok(id) = prefix.parse()
            && let Some(live) = self.table.lock().live.get(&id)
            && caller.may_see(&live.record)
        {
            return Ok(id);
        }
        let mut seen = Vec::new();
        for id in self.state.ids_with_prefix(prefix)? {
            if self.is_seen(id, caller)? {
                seen.push(id);
            }
            if seen.len() > 1 {
                break;
            }
        }
        match *seen {
            [] => Err(unknown(prefix)),
            [id] => Ok(id),
            _ => {
                let title = format!("more than one transfer begins with `{prefix}`");
                Err(Problem::new(ProblemCode::TransferAmbiguous, title).hint("give more digits"))
            }
        }
    }

    /// Returns a part of the list of transfers and stubs that the caller may see, of at most
    /// [`LIST_MAX`] at a time. Waits for the owners of stubs for a moment only; a stub whose owner
    /// has not answered then is as it was last seen.
    ///
    /// # Errors
    /// Code `cursor`: it is not one of this filter. The database cannot be read.
    pub fn list(
        &self,
        filter: &TransferFilter,
        cursor: Option<&str>,
        limit: usize,
        caller: &Caller,
    ) -> Result<Page<TransferSummary>, Problem> {
        self.list.part(filter, cursor, limit, caller)
    }

    /// Pauses, resumes, cancels or retries a transfer, here or at the site that owns it. The wish
    /// is stored durably when this returns; a run takes a moment to follow.
    ///
    /// # Errors
    /// The transfer is unknown, or the action does not fit its state; the end of a pause is out of
    /// its bounds.
    pub fn act(
        &self,
        id: TransferId,
        steering: impl Into<Steering>,
        caller: &Caller,
    ) -> Result<TransferReport, Problem> {
        let steering = steering.into();
        check_steering(steering, "?until")?;
        // A grant may have ended since the transfer was submitted.
        let begins_again =
            matches!(steering.action, Action::Resume | Action::Retry) || steering.until.is_some();
        if let Some(record) = self.steered(id, caller)? {
            if begins_again {
                caller.check(&record.request, &self.site)?;
            }
            let view = self.admission.act(id, steering, caller)?;
            self.table.notify();
            self.events.tell(&view);
            return Ok(view);
        }
        let stub = self.steered_stub(id, caller)?;
        if begins_again {
            caller.check_stub(&stub, &self.site)?;
        }
        self.stubs.act(&stub, steering)
    }

    /// Changes the label, priority, limits or start of a transfer, here or at the site that owns
    /// it. The change is stored durably when this returns. A running transfer follows a limit
    /// within a fraction of a second. `is_current` judges the transfer as it is before the change.
    ///
    /// # Errors
    /// The transfer is unknown, or has ended; a value is out of its bounds. Code
    /// `changed-meanwhile`: the transfer is not current.
    pub fn change(
        &self,
        id: TransferId,
        patch: &TransferPatch,
        is_current: &dyn Fn(&TransferReport) -> bool,
        caller: &Caller,
    ) -> Result<TransferReport, Problem> {
        if self.steered(id, caller)?.is_some() {
            let report = self.admission.change(id, patch, is_current)?;
            self.table.notify();
            self.events.tell(&report);
            return Ok(report);
        }
        self.stubs.change(self.steered_stub(id, caller)?, patch, is_current)
    }

    /// Acts on many transfers, one after the other: on the named ones, or on the oldest transfers
    /// of this site that fit the action and a filter. Each successful order is stored durably when
    /// this returns.
    ///
    /// # Errors
    /// Neither ids nor a filter are given, or both; too many ids; code `cursor`. The failure of one
    /// transfer is in its item.
    pub fn act_on_many(
        &self,
        request: &BulkRequest,
        caller: &Caller,
    ) -> Result<BulkReply, Problem> {
        let usage = |title: String| Err(Problem::new(ProblemCode::Request, title));
        if request.ids.is_empty() != request.filter.is_some() {
            return usage("an action on many transfers has either `ids` or a `filter`".to_owned());
        }
        if request.ids.len() > BULK_MAX {
            return usage(format!("one request acts on up to {BULK_MAX} transfers"));
        }
        let steering = Steering { action: request.action, until: request.until };
        check_steering(steering, "/until")?;
        let (mut ids, mut next) = (request.ids.clone(), None);
        if let Some(filter) = &request.filter {
            let (parts, wish) = ((&*self.table, &*self.state), (steering, filter));
            let after = request.after.as_deref().map(cursor::parse_bulk).transpose()?;
            let mut found = chosen(parts, wish, (caller, &self.site), (after, BULK_MAX + 1))?;
            if found.len() > BULK_MAX {
                found.truncate(BULK_MAX);
                next = found.last().copied().map(cursor::bulk_text);
            }
            ids = found.into_iter().map(|(_, id)| id).collect();
        }
        let act = |id: TransferId| match self.act(id, steering, caller) {
            Ok(report) => BulkItem { id, state: Some(report.state), problem: None },
            Err(problem) => BulkItem { id, state: None, problem: Some(problem.into()) },
        };
        Ok(BulkReply { items: ids.into_iter().map(act).collect(), more: next.is_some(), next })
    }

    /// Sets the deadline of a transfer, or removes it with `None`, durably.
    ///
    /// # Errors
    /// The transfer is unknown, has ended, or another site owns it; code `deadline-unkeepable`.
    pub fn set_deadline(
        &self,
        id: TransferId,
        deadline: Option<Deadline>,
        caller: &Caller,
    ) -> Result<TransferReport, Problem> {
        let record = self.steered(id, caller)?;
        let mut request = record.ok_or_else(|| self.not_own(id, caller))?.request;
        request.deadline = deadline;
        check(&request)?;
        let report = self.admission.set_deadline(id, deadline, caller)?;
        self.table.notify();
        self.events.tell(&report);
        Ok(report)
    }

    /// Puts a transfer before all fair shares, or back among the others, durably.
    ///
    /// # Errors
    /// The transfer is unknown, has ended, or another site owns it; the caller is no operator.
    pub fn set_urgent(
        &self,
        id: TransferId,
        urgent: bool,
        caller: &Caller,
    ) -> Result<TransferReport, Problem> {
        caller.check_urgent()?;
        self.steered(id, caller)?.ok_or_else(|| self.not_own(id, caller))?;
        let report = self.admission.set_urgent(id, urgent)?;
        self.table.notify();
        self.events.tell(&report);
        Ok(report)
    }

    /// Returns the problem of a transfer that this site does not own.
    fn not_own(&self, id: TransferId, caller: &Caller) -> Problem {
        match self.steered_stub(id, caller) {
            Err(problem) => problem,
            Ok(stub) => {
                let title = format!("site `{}` owns transfer {}", stub.owner, id.short());
                Problem::new(ProblemCode::WrongState, title)
                    .hint(format!("change its turn at site `{}`", stub.owner))
            }
        }
    }

    /// Returns a transfer of this site that the caller may steer; `None` if it sees none.
    ///
    /// # Errors
    /// The caller sees it and may not steer it.
    fn steered(&self, id: TransferId, caller: &Caller) -> Result<Option<TransferRecord>, Problem> {
        match self.state.transfer(id)?.filter(|record| caller.may_see(record)) {
            Some(record) => caller.check_steers(record.owner.as_ref()).map(|()| Some(record)),
            None => Ok(None),
        }
    }

    /// Returns whether a caller sees a transfer, here or of another site.
    fn is_seen(&self, id: TransferId, caller: &Caller) -> Result<bool, Problem> {
        if caller.sees_all_transfers() {
            return Ok(true);
        }
        if self.state.transfer(id)?.is_some_and(|record| caller.may_see(&record)) {
            return Ok(true);
        }
        Ok(self.state.stub(id)?.is_some_and(|stub| caller.may_see_stub(&stub)))
    }

    /// Returns a transfer of another site that the caller may steer.
    ///
    /// # Errors
    /// The transfer is unknown, or not the caller's to steer.
    fn steered_stub(&self, id: TransferId, caller: &Caller) -> Result<Stub, Problem> {
        let stub = self.state.stub(id)?.filter(|stub| caller.may_see_stub(stub));
        let stub = stub.ok_or_else(|| unknown(id))?;
        caller.check_steers(stub.user.as_ref()).map(|()| stub)
    }

    /// Returns a list or the receipt of a transfer that has ended, or the last decisions about one
    /// in any state. The document of another site's transfer is fetched into a file without a name.
    ///
    /// # Errors
    /// The transfer is not known, has not ended, or was not asked for this document; another site
    /// fails to send it.
    pub fn document(
        &self,
        id: TransferId,
        document: Document,
        caller: &Caller,
    ) -> Result<File, Problem> {
        let view = self.show(id, caller)?;
        if document == Document::Flight {
            let run = self.table.lock().live.get(&id).and_then(|live| live.run.clone());
            run.iter().for_each(|run| run.flight().write());
        }
        self.documents.open(&view, document)
    }

    /// Returns the piece map of a transfer in any state, here or at the site that owns it. That of
    /// a transfer that runs here is made from its ledger, once a second at most for all callers.
    ///
    /// # Errors
    /// The transfer is not known; the site that owns it does not send the map.
    pub fn piece_map(&self, id: TransferId, caller: &Caller) -> Result<PieceMap, Problem> {
        let view = self.show(id, caller)?;
        let run = self.table.lock().live.get(&id).and_then(|live| live.run.clone());
        match run.and_then(|run| run.piece_map()) {
            Some(map) => Ok(map),
            None => self.documents.piece_map(&view),
        }
    }

    /// Lists the remains, and with `remove` removes them. These are journals without a transfer in
    /// the database, ledgers of transfers that have ended, and stubs that their owner does not
    /// know. A failed transfer whose ledger is removed begins from the start when it is retried. A
    /// ledger whose target cannot be cleaned now is kept, and its place has the reason.
    ///
    /// # Errors
    /// The journal store or the database cannot be read.
    pub fn orphans(&self, remove: bool) -> Result<Vec<Orphan>, Problem> {
        self.orphans.list(remove)
    }

    /// Records that another site opened a scan here for a transfer of its own, so that this site
    /// shows it as well. Asks that site for the state of the transfer.
    pub fn note_foreign(&self, owner: &Name, id: TransferId) {
        self.stubs.handle_scan(owner, id);
    }

    /// Returns a transfer of another site when its state is another one than `seen`, after
    /// `wait_ms` at the latest; `None` if this site owns it or does not know it. A silent owner may
    /// be noticed at once.
    ///
    /// # Errors
    /// The state database cannot be read.
    pub fn foreign_news(
        &self,
        id: TransferId,
        seen: TransferState,
        wait_ms: u32,
    ) -> Result<Option<TransferReport>, Problem> {
        Ok(self.state.stub(id)?.map(|stub| self.stubs.refresh_when(stub, seen, wait_ms)))
    }

    /// Returns the site whose transfer this is, and that alone may use its scan, as far as the
    /// state database knows: the own one, or the owner of a stub. `None` if it knows no such
    /// transfer.
    ///
    /// # Errors
    /// The state database cannot be read.
    pub fn owner(&self, id: TransferId) -> Result<Option<Name>, Problem> {
        if self.state.transfer(id)?.is_some() {
            return Ok(Some(self.site.clone()));
        }
        Ok(self.state.stub(id)?.map(|stub| stub.owner))
    }

    /// Returns the account as which another site may use a source of this one for its transfer.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn source_account(
        &self,
        owner: &Name,
        id: TransferId,
        source: (&Name, &PathText),
    ) -> Result<SourceAccount, Problem> {
        self.stubs.source_account(owner, id, source)
    }

    /// Drops the pages of a transfer whose owner needs them no longer, and asks for its final
    /// state. The caller must have checked that the site opened the scan.
    pub fn forget_foreign(&self, owner: &Name, id: TransferId) {
        self.stubs.handle_release(owner, id);
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests;
