//! Owns the transfers of which this site is the target: accepts and queues them, runs each on a
//! thread of its own, retries temporary failures, and reports their states.
//!
//! The inputs are requests of users and of paired sites. The outputs are events, and the state
//! database. Every accepted transfer survives a crash, with the last wish of a user for it. A
//! transfer that was queued or running begins again when the manager starts, and continues from its
//! ledger; a paused one stays paused.
//!
//! | state | leaves it by |
//! |---|---|
//! | queued | its turn (so many run at a time), its next attempt, room at a full target |
//! | running | its end, a pause, a cancel; after a temporary failure it is queued again |
//! | paused | resume, cancel |
//! | failed | retry, cancel |

mod attempt;
mod busy;
mod clean;
mod orphans;
mod place;
mod plans;
mod receipt;
mod room;
mod stubs;
mod users;

pub use receipt::{ReceiptParts, check_as_source, receipt_body, receipt_text};
pub use users::{Caller, LIVE_MAX};

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::fence::Fence;
use penstock_api::peers::Peers;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::receipt::ReceiptSigner;
use penstock_api::rest::{EVENT_VERSION, ErrorEvent, Event};
use penstock_api::scan::{ScanRequest, SourcePeer};
use penstock_api::task::{SourceAccess, TargetPeer};
use penstock_api::transfer::{TransferState, TransferView};
use penstock_cluster::state::{SiteState, StateError, TransferRecord, Wish};
use penstock_engine::retry::Backoff;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::network::DataAddress;
use tokio::sync::broadcast;

use crate::runner::{RunControl, RunInput, RunOutcome};
use crate::sites::SiteClient;

/// Transfers that run at a time, unless configured.
pub const RUNNING_MAX_DEFAULT: usize = 4;
/// Events that a slow reader may lag behind before it loses the oldest.
const EVENTS_MAX: usize = 1024;
/// Interval at which the states of running transfers are published.
const TICK: Duration = Duration::from_secs(1);

/// Directory in the journal store where all that belongs to a transfer lies.
pub fn journal_of(journal: &std::path::Path, id: TransferId) -> PathBuf {
    journal.join(id.to_string())
}

/// The configuration of a manager.
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// The own site.
    pub site: Name,
    /// The journal store: one directory per transfer below it.
    pub journal: PathBuf,
    /// Transfers that run at a time; the others wait for their turn.
    pub running_max: usize,
    /// Least wait before a failed attempt is repeated.
    pub retry_least: Duration,
    /// Longest such wait.
    pub retry_most: Duration,
    /// Shortest duration of an attempt after which the source is asked whether it was restarted
    /// meanwhile. Over distance that question costs a round trip.
    pub restart_least: Duration,
}

impl ManagerConfig {
    /// The defaults: four at a time, retried after 1 s to 60 s.
    pub fn new(site: Name, journal: PathBuf) -> Self {
        Self {
            site,
            journal,
            running_max: RUNNING_MAX_DEFAULT,
            retry_least: Duration::from_secs(1),
            retry_most: Duration::from_secs(60),
            restart_least: Duration::from_secs(1),
        }
    }
}

/// Runs one transfer to its end, as [`crate::runner`] does. It blocks meanwhile.
pub type Run = dyn Fn(RunInput) -> RunOutcome + Send + Sync;
/// Directory of a store, if it has one: to find stores that overlap.
pub type StoreDirectory = dyn Fn(&Name) -> Option<PathBuf> + Send + Sync;

/// Returns the peers that may take part in a run whose target is the first store. The second store,
/// if there is one, is a source in this site that the peers read themselves.
pub type PeersOf = dyn Fn(&Name, Option<&Name>) -> Arc<dyn Peers> + Send + Sync;

/// Returns the access for peers of this site to a data set of it whose store they do not have: over
/// lanes, from peers that have it. `None` where one peer is the whole site.
pub type OwnLanes = dyn Fn(&ScanRequest) -> Option<SourceAccess> + Send + Sync;

/// Returns the addresses on which peers of this site that are known to reach a store accept lanes
/// now.
pub type OwnPeers = dyn Fn(&Name) -> Vec<DataAddress> + Send + Sync;

/// The parts that a manager works with.
#[derive(Clone)]
pub struct ManagerParts {
    /// The state database.
    pub state: Arc<dyn SiteState>,
    /// The own source side.
    pub source: Arc<dyn SourcePeer>,
    /// The site's target side, where one peer does something for all.
    pub target: Arc<dyn TargetPeer>,
    /// The target peers of a run.
    pub peers: Arc<PeersOf>,
    /// Ways from one peer of this site to another.
    pub lanes: Arc<OwnLanes>,
    /// Finds further peers that may be read from.
    pub own_peers: Arc<OwnPeers>,
    /// Other sites.
    pub sites: Arc<dyn SiteClient>,
    /// Signs receipts.
    pub signer: Arc<dyn ReceiptSigner>,
    /// Runs a transfer.
    pub run: Arc<Run>,
    /// The paths of the stores.
    pub directory: Arc<StoreDirectory>,
    /// Checks whether this process is still the controller of the site.
    pub fence: Fence,
}

/// The manager. Its methods block on the state database, some on stores and other sites.
pub struct Manager {
    inner: Arc<Inner>,
    scheduler: Mutex<Option<thread::JoinHandle<()>>>,
}

struct Inner {
    config: ManagerConfig,
    parts: ManagerParts,
    table: Mutex<Table>,
    changed: Condvar,
    /// Held while a transfer is admitted, so that two cannot claim one place. Never while a store
    /// or another site is asked: see `busy`.
    admission: Mutex<()>,
    /// Plans that are being made.
    plans: AtomicUsize,
    /// Owners of stubs that are asked for a list now.
    asking: Mutex<BTreeSet<Name>>,
    events: broadcast::Sender<Event>,
}

#[derive(Default)]
struct Table {
    live: HashMap<TransferId, Live>,
    /// Transfers of which something is being removed; with a record, its claim is kept as well.
    busy: HashMap<TransferId, Option<TransferRecord>>,
    running: usize,
    stopping: bool,
    unclean: clean::Unclean,
}

/// A transfer that has not ended.
struct Live {
    record: TransferRecord,
    run: Option<Arc<RunControl>>,
    /// Earliest time of its next attempt.
    not_before: Option<Instant>,
    backoff: Backoff,
    /// The state of the wait while the target is full. The transfer stays queued for its observers,
    /// while attempts are made.
    full: Option<room::Full>,
}

impl Live {
    fn new(record: TransferRecord, config: &ManagerConfig) -> Self {
        let backoff = Backoff::new(config.retry_least, config.retry_most);
        Self { record, run: None, not_before: None, backoff, full: None }
    }

    /// Returns the public view: the stored record, updated by the run.
    fn view(&self) -> TransferView {
        let mut view = self.record.view();
        if let Some(run) = self.run.as_ref().filter(|_| self.full.is_none()) {
            let seen = run.view();
            view.progress = seen.progress;
            if !seen.reason.is_empty() {
                view.reason = seen.reason;
            }
            view.failures = seen.failures;
            view.durable_by = seen.durable_by;
        }
        if self.run.is_some() && !view.state.is_ended() {
            match self.record.wish {
                Wish::None => {}
                Wish::Pause => "pausing: ending what is in progress".clone_into(&mut view.reason),
                Wish::Cancel => "cancelling".clone_into(&mut view.reason),
            }
        }
        view
    }
}

impl Manager {
    /// Starts the manager's thread, and again every transfer that was queued or running.
    ///
    /// # Errors
    /// The state database cannot be read.
    pub fn start(config: ManagerConfig, parts: ManagerParts) -> Result<Self, StateError> {
        let mut table = Table::default();
        for mut record in parts.state.open_transfers()? {
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
            table.live.insert(record.id(), Live::new(record, &config));
        }
        let inner = Arc::new(Inner {
            config,
            parts,
            table: Mutex::new(table),
            changed: Condvar::new(),
            admission: Mutex::new(()),
            plans: AtomicUsize::new(0),
            asking: Mutex::default(),
            events: broadcast::channel(EVENTS_MAX).0,
        });
        let scheduler = Arc::clone(&inner);
        let scheduler = thread::Builder::new()
            .name("transfers".to_owned())
            .spawn(move || scheduler.schedule())
            .map_err(|source| StateError::Thread { source })?;
        Ok(Self { inner, scheduler: Mutex::new(Some(scheduler)) })
    }

    /// Returns a receiver of all events from now on. A reader that lags behind loses the oldest.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    /// Transfers that run now, and that wait.
    pub fn counts(&self) -> (u32, u32) {
        let table = self.inner.lock();
        let queued =
            table.live.values().filter(|live| live.record.state == TransferState::Queued).count();
        (table.running as u32, queued as u32)
    }

    /// Stops all runs with their ledgers committed, and waits for them up to `deadline`. They are
    /// begun again by the next start. Whether all have stopped in time.
    pub fn stop(&self, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        let mut table = self.inner.lock();
        table.stopping = true;
        for run in table.live.values().filter_map(|live| live.run.as_ref()) {
            run.pause();
        }
        self.inner.changed.notify_all();
        while table.running > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            table = match self.inner.changed.wait_timeout(table, left) {
                Ok((table, _)) => table,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        drop(table);
        let scheduler = self.scheduler.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It ends at once when it sees `stopping`, and never panics on purpose.
        scheduler.is_none_or(|scheduler| scheduler.join().is_ok())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        // No reader is no error.
        let _ = self.events.send(event);
    }

    fn tell_problem(&self, id: TransferId, problem: &Problem) {
        let problem = problem.clone();
        self.tell(Event::Error(ErrorEvent { v: EVENT_VERSION, id, problem }));
    }

    /// Runs the manager's thread: begins due transfers, and once a second publishes the state of
    /// running ones.
    fn schedule(self: Arc<Self>) {
        let mut next_tick = Instant::now() + TICK;
        loop {
            let mut table = self.lock();
            if table.stopping {
                return;
            }
            let wake = self.begin_due(&mut table).map_or(next_tick, |due| due.min(next_tick));
            let wait = wake.saturating_duration_since(Instant::now());
            table = match self.changed.wait_timeout(table, wait) {
                Ok((table, _)) => table,
                Err(poisoned) => poisoned.into_inner().0,
            };
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                table.live.values_mut().for_each(Live::look_for_room);
                self.clean_when_due(&mut table);
                let running = table.live.values().filter(|live| live.run.is_some());
                let events: Vec<_> = running.map(|live| Event::of(&live.view())).collect();
                let noted: Vec<_> = running_notes(&table);
                drop(table);
                noted.iter().for_each(|(id, problem)| self.tell_problem(*id, problem));
                events.into_iter().for_each(|event| self.tell(event));
            }
        }
    }

    /// Begins queued transfers, oldest first. Returns the time when the next one is due.
    fn begin_due(self: &Arc<Self>, table: &mut Table) -> Option<Instant> {
        let now = Instant::now();
        let queued = table
            .live
            .values()
            .filter(|live| live.record.state == TransferState::Queued && live.run.is_none());
        let (mut due, later): (Vec<_>, Vec<_>) =
            queued.partition(|live| live.not_before.is_none_or(|time| time <= now));
        due.sort_by_key(|live| (live.record.created, live.record.id()));
        let ids: Vec<_> = due.iter().map(|live| live.record.id()).collect();
        let next = later.iter().filter_map(|live| live.not_before).min();
        for id in ids {
            let cancelled =
                table.live.get(&id).is_some_and(|live| live.record.wish == Wish::Cancel);
            if cancelled || table.running < self.config.running_max {
                self.begin(table, id);
            } else if let Some(live) = table.live.get_mut(&id)
                && live.full.is_none()
            {
                live.record.reason = format!(
                    "waiting for its turn: {} transfers run, which is the limit",
                    self.config.running_max
                );
            }
        }
        next
    }

    fn begin(self: &Arc<Self>, table: &mut Table, id: TransferId) {
        let Some(live) = table.live.get_mut(&id) else { return };
        let control = Arc::new(RunControl::default());
        live.run = Some(Arc::clone(&control));
        if live.full.is_some() {
            control.expect_full();
        } else {
            live.record.state = TransferState::Running;
            live.record.reason.clear();
        }
        table.running += 1;
        let inner = Arc::clone(self);
        let thread = thread::Builder::new()
            .name(format!("transfer-{}", id.short()))
            .spawn(move || inner.attempt(id, &control));
        if let Err(error) = thread {
            live.run = None;
            live.record.state = TransferState::Queued;
            live.record.reason = format!("no thread to run it: {error}");
            live.not_before = Some(Instant::now() + self.config.retry_most);
            table.running -= 1;
        }
    }

    /// Stores a record; a failure is logged and shown, since the run itself is not at fault.
    /// Returns whether it is stored.
    fn store(&self, record: &mut TransferRecord) -> bool {
        if let Err(error) = self.parts.state.put_transfer(record) {
            let problem = Problem::from(error);
            tracing::error!(transfer = %record.id(), %problem, "state not stored");
            let before = if record.reason.is_empty() { "" } else { "; " };
            record.reason.push_str(&format!("{before}its state could not be stored: {problem}"));
            return false;
        }
        true
    }
}

/// Returns the notes of runs since the last call.
fn running_notes(table: &Table) -> Vec<(TransferId, Problem)> {
    let runs = table.live.iter().filter_map(|(id, live)| Some((*id, live.run.as_ref()?)));
    runs.flat_map(|(id, run)| run.take_notes().into_iter().map(move |note| (id, note))).collect()
}

fn unknown(text: impl std::fmt::Display) -> Problem {
    let title = format!("transfer `{text}` does not exist");
    Problem::new(ProblemCode::TransferUnknown, title)
        .hint("`penstock transfer list` shows the transfers of this site")
}

#[cfg(test)]
mod tests;
