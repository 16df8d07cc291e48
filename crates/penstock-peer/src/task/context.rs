//! The context of a task: the machines and flags that its threads share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_api::limits::Share;
use penstock_api::problem::Problem;
use penstock_api::task::{Adopted, Report, TaskControl, TaskPage, TaskSpec, Work};
use penstock_engine::epoch::{EpochLimits, EpochMachine, Publication};
use penstock_engine::fetch::{FetchMachine, FetchedPiece, Item, Request, ResentBytes};
use penstock_engine::paths::{PathEnds, PathId, PathMachine};
use penstock_engine::slice::{Piece, slice_without};
use penstock_net::LaneStream;
use penstock_proto::id::{LaneId, WriterId};
use penstock_proto::journal::{EntryDigest, EntryFailure, Incarnation};
use penstock_proto::slicing::PieceRef;
use penstock_proto::time_use::{Activity, TimeUse};
use penstock_proto::units::Instant;
use penstock_store::{StoreIdentity, Target};
use penstock_sys::EventFd;
use penstock_sys::buffer::BufferPool;

use crate::lane::breach::Breaches;
use crate::lane::dialer::Dialer;
use crate::lane::lane_handle::LaneHandle;
use crate::publish::mtime_settle::settle_time;
use crate::source::read_check;
use crate::stores::Stores;
use crate::stores::errors::Cause;
use crate::stores::pacer::Pacer;
use crate::task::decisions::TaskDecisions;
use crate::task::error::TaskError;
use crate::task::grant::Grant;
use crate::task::handover::{Handovers, TaskReports};
use crate::task::hang_detector::HangDetector;
use crate::task::limits::lane_limits;
use crate::task::reach::Reach;
use crate::task::times::TaskTimes;
use crate::traffic::SiteTraffic;
use crate::write::extent_digest;
use crate::write::large_files::LargeFiles;
use crate::write::target_tree::TargetTree;
use crate::write::written::{Written, of_answer};

/// Time that a stopping task has to make its written bytes durable.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A page and its pieces.
pub(crate) struct Pieces {
    pub(crate) page: TaskPage,
    pub(crate) pieces: Vec<Piece>,
}

/// The machines and queues of a task, which its lock protects.
pub(crate) struct TaskState {
    pub(crate) fetch: FetchMachine,
    pub(crate) lanes: PathMachine,
    pub(crate) epochs: EpochMachine,
    pub(crate) chores: VecDeque<Work>,
    /// Entries of written packs that failed: they get no name.
    pub(crate) excepted: BTreeMap<PieceRef, Vec<u32>>,
    /// Packs that an earlier run wrote, and perhaps named.
    pub(crate) found: BTreeSet<PieceRef>,
    pub(crate) reports: Vec<Report>,
    pub(crate) wakers: BTreeMap<LaneId, Arc<EventFd>>,
    pub(crate) closers: BTreeMap<LaneId, LaneHandle>,
    /// Cipher of its lanes; unknown until the first is open.
    pub(crate) cipher: Option<&'static str>,
    /// Time of the last look at the paths.
    pub(crate) looked: Instant,
    pub(crate) waiting: String,
    pub(crate) moved: Instant,
    pub(crate) news: bool,
    pub(crate) repairs: u64,
    /// The task's share of the limits of its transfer.
    pub(crate) share: Share,
    /// Recent decisions about lanes and paths that the controller has not received yet.
    pub(crate) decisions: TaskDecisions,
}

impl TaskState {
    /// Feeds the machines with the known round trips of all paths, before the first dial.
    pub(crate) fn learn_paths(&mut self, dialer: &Dialer) {
        self.fetch.expect_paths(self.lanes.links());
        for (path, rtt) in dialer.known_rtts() {
            self.fetch.handle_rtt_of(path, rtt);
            self.lanes.handle_rtt(path, rtt);
        }
    }

    pub(super) fn new(spec: &TaskSpec, parts: &TaskParts) -> Self {
        let mut fetch = FetchMachine::new();
        if spec.writer != WriterId::SOLE {
            fetch.share();
        }
        let limits = lane_limits(spec, &spec.share(), &parts.reach, &parts.target);
        let specs = match &parts.reach {
            Reach::Remote { dialer } => dialer.specs(),
            Reach::Local { .. } => Vec::new(),
        };
        let elected = spec.fence.epoch() != 0 || spec.grant.is_some();
        let epoch_limits = match elected {
            true => EpochLimits::for_elected_controller(),
            false => EpochLimits::default(),
        };
        let mut state = Self {
            fetch,
            lanes: PathMachine::new(limits, &specs, rand::random()),
            epochs: EpochMachine::new(spec.epoch.max(parts.marker), epoch_limits),
            chores: VecDeque::new(),
            excepted: BTreeMap::new(),
            found: BTreeSet::new(),
            reports: Vec::new(),
            wakers: BTreeMap::new(),
            closers: BTreeMap::new(),
            cipher: None,
            looked: Instant(0),
            waiting: String::new(),
            moved: penstock_sys::boottime_now(),
            news: false,
            repairs: 0,
            share: spec.share(),
            decisions: TaskDecisions::default(),
        };
        if let Reach::Remote { dialer } = &parts.reach {
            state.learn_paths(dialer);
        }
        state
    }

    /// Remembers which entries of a written pack get no name.
    pub(crate) fn except(&mut self, piece: PieceRef, pack: bool, failures: &[EntryFailure]) {
        self.excepted.remove(&piece);
        self.found.remove(&piece);
        if pack && !failures.is_empty() {
            let entries = failures.iter().map(|failure| failure.entry).collect();
            self.excepted.insert(piece, entries);
        }
    }
}

/// The parts from which a task is built, beside its specification.
pub(crate) struct TaskParts {
    pub(crate) target: Target,
    pub(crate) identity: StoreIdentity,
    /// The store's sync marker for the transfer: an epoch is never used twice (A5).
    pub(crate) marker: u64,
    pub(crate) reach: Reach,
    pub(crate) grant: Option<Arc<Grant>>,
    /// Shuts the gates of the target.
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) stores: Arc<Stores>,
    pub(crate) incarnation: Incarnation,
    pub(crate) left: Arc<Handovers>,
    pub(crate) adopted: Option<Adopted>,
    pub(crate) pool: BufferPool,
    pub(crate) traffic: Arc<SiteTraffic>,
    /// Lets other sites set owners, special modes and the like (D7).
    pub(crate) allow_privileged: bool,
}

/// Everything that the threads of a task share.
pub(crate) struct TaskContext {
    pub(crate) spec: TaskSpec,
    pub(crate) control: Arc<dyn TaskControl>,
    /// Grant under which the task writes, if others may get its pieces.
    pub(crate) grant: Option<Arc<Grant>>,
    /// Grant without an end, for a task that has no other and still shares the transfer.
    pub(crate) endless: Option<Grant>,
    /// Under which it began.
    pub(crate) incarnation: Incarnation,
    /// Reports that no controller has committed, and the place for them if the controller abandons
    /// the task.
    pub(crate) kept: TaskReports,
    pub(crate) left: Arc<Handovers>,
    pub(crate) tree: TargetTree,
    pub(crate) identity: StoreIdentity,
    pub(crate) stores: Arc<Stores>,
    /// Observes the calls of the publisher and its renamers.
    pub(crate) hang: HangDetector,
    /// Set when the task may make no further change, whatever its grant and its controller.
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) reach: Reach,
    pub(crate) large: Arc<LargeFiles>,
    /// Lets a request ask for a part of a piece.
    pub(crate) cuts_pieces: bool,
    /// Holds the rate that the user set.
    pub(crate) pace: Pacer,
    pub(crate) pool: BufferPool,
    pub(crate) state: Mutex<TaskState>,
    pub(crate) wake: Condvar,
    pub(crate) publish_wake: Condvar,
    pub(crate) local_wake: Condvar,
    pub(crate) stopping: AtomicBool,
    /// Set when no lane writes.
    pub(crate) lanes_ended: AtomicBool,
    /// The store's sync marker stays as it is: the ledger is in doubt (A5).
    pub(crate) keep_marker: AtomicBool,
    pub(crate) stop_until: AtomicU64,
    pub(crate) pages: Mutex<VecDeque<Arc<Pieces>>>,
    pub(crate) breaches: Breaches,
    pub(crate) verified: AtomicU64,
    /// Time of its threads.
    pub(crate) times: TaskTimes,
    /// Counters of this host, which outlive the task.
    pub(crate) traffic: Arc<SiteTraffic>,
    /// The part of the resent bytes that these counters have.
    pub(crate) resent_counted: Mutex<ResentBytes>,
    pub(crate) cpu_before: f64,
    /// See [`TaskFigures::paths`].
    pub(crate) paths: Mutex<BTreeSet<String>>,
}

impl TaskContext {
    pub(crate) fn lock(&self) -> MutexGuard<'_, TaskState> {
        // After a panic in another thread the machines may be inconsistent, but the ledger is the
        // controller's; ending in order is better than hanging.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) || !self.may_write()
    }

    /// Returns whether the task may write now. With a grant, the grant decides, whatever the state
    /// of the controller. Without one, the task may write while the controller may act (B4).
    fn may_write(&self) -> bool {
        let may = self.grant.as_ref().map_or_else(|| self.spec.fence.holds(), |it| it.holds());
        may && !self.is_over()
    }

    /// Returns whether names may be given now.
    pub(crate) fn may_name(&self) -> bool {
        self.spec.fence.holds() && self.may_write()
    }

    /// Returns whether bytes may be written and no names given.
    pub(crate) fn only_writes(&self) -> bool {
        self.grant.is_some() && !self.spec.fence.holds()
    }

    /// Returns whether a stopping task has used up its patience. A task that may no longer write
    /// has none: its pieces belong to another peer (B4).
    pub(crate) fn is_overdue(&self) -> bool {
        !self.may_write()
            || (self.is_stopping()
                && penstock_sys::boottime_now().0 >= self.stop_until.load(Ordering::Acquire))
    }

    /// Ends the task's part in the transfer: its pieces belong to another peer.
    pub(crate) fn end(&self) {
        self.kept.end();
        self.stopping.store(true, Ordering::Release);
        self.stop_until.store(penstock_sys::boottime_now().0, Ordering::Release);
        self.end_pacing();
        self.notify_all();
    }

    /// Forbids every further change of the store. Called when a thread of the task hangs there: its
    /// share belongs to another peer by the time the thread wakes.
    pub(crate) fn forbid(&self) {
        self.over.store(true, Ordering::Release);
        self.end();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn begin_to_stop(&self, discard: bool) {
        let patience = if discard { Duration::ZERO } else { STOP_PATIENCE };
        if !self.stopping.swap(true, Ordering::AcqRel) {
            let until = penstock_sys::boottime_now().plus(patience);
            self.stop_until.store(until.0, Ordering::Release);
        }
        self.lock().epochs.handle_flush();
        self.end_pacing();
        self.notify_all();
    }

    /// Handles the end of all lanes of a stopping task: only their writes so far have to be made
    /// durable.
    pub(crate) fn handle_lanes_ended(&self) {
        // The publisher looks under this lock before it waits.
        let _state = self.lock();
        self.lanes_ended.store(true, Ordering::Release);
        self.publish_wake.notify_all();
    }

    /// Returns the record of requests and returns, if other peers share the transfer.
    pub(crate) fn share(&self) -> Option<&Grant> {
        self.grant.as_deref().or(self.endless.as_ref())
    }

    /// Returns a page and its pieces.
    pub(crate) fn page(&self, number: u32) -> Result<Arc<Pieces>, TaskError> {
        {
            let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = pages.iter().position(|page| page.page.page.number == number)
                && let Some(page) = pages.remove(at)
            {
                pages.push_back(Arc::clone(&page));
                return Ok(page);
            }
        }
        let page = self.control.page(number)?;
        let pieces = slice_without(&page.page, &page.left);
        let page = Arc::new(Pieces { page, pieces });
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.push_back(Arc::clone(&page));
        if pages.len() > PAGES_KEPT {
            pages.pop_front();
        }
        Ok(page)
    }

    /// Returns a page and its pieces, for a thread whose calls are watched. Blocks while the
    /// controller looks for the page. The task ends if there is none.
    pub(crate) fn required_page(&self, number: u32) -> Option<Arc<Pieces>> {
        self.hang.rest();
        let page = self.page(number);
        self.hang.step();
        page.map_err(|error| self.broken(error)).ok()
    }

    /// Ends the task with an error.
    pub(crate) fn broken(&self, error: impl Into<TaskError>) {
        // The controller's work for this call is not the work of an account.
        let _daemon = penstock_sys::act_as_daemon();
        let problem = Problem::from(error.into());
        tracing::warn!(transfer = %self.spec.transfer, %problem, "task broken");
        self.control.broken(problem);
        self.stopping.store(true, Ordering::Release);
        self.stop_until
            .store(penstock_sys::boottime_now().plus(STOP_PATIENCE).0, Ordering::Release);
        self.end_pacing();
        self.notify_all();
    }

    pub(crate) fn end_pacing(&self) {
        self.pace.end();
        self.tree.names.end();
    }

    pub(crate) fn notify_all(&self) {
        let mut state = self.lock();
        state.news = true;
        for waker in state.wakers.values() {
            waker.signal();
        }
        drop(state);
        self.wake.notify_all();
        self.publish_wake.notify_all();
        self.local_wake.notify_all();
    }

    /// Adds a report; the coordinator hands it over.
    pub(crate) fn report(&self, state: &mut TaskState, report: Report) {
        state.reports.push(report);
        state.news = true;
        self.wake.notify_all();
    }

    /// Adds the time of a lane.
    pub(crate) fn add_lane_time(&self, time: &TimeUse) {
        self.times.add_lane(time);
        self.traffic.count_time(time);
    }

    /// Adds the reading part of the time of a lane that reads and writes at this host.
    pub(crate) fn add_reading_time(&self, time: TimeUse) {
        self.traffic.count_time(&time);
        self.times.add_reading(time);
    }

    /// Adds the time of the publisher.
    pub(crate) fn add_publisher_time(&self, time: &TimeUse) {
        self.times.add_publisher(time);
        self.traffic.count_time(time);
    }

    /// Returns the reason for which a lane has nothing to ask for.
    pub(crate) fn idle_reason(&self) -> Activity {
        let state = self.lock();
        match (state.fetch.is_idle(), state.epochs.is_clean()) {
            (false, _) => Activity::Idle,
            (true, false) => Activity::WaitDisk,
            (true, true) => Activity::WaitGrant,
        }
    }

    /// Adds the bytes that were resent since the last call to the counters of this host.
    pub(crate) fn count_resent(&self, now: ResentBytes) {
        let mut counted = self.resent_counted.lock().unwrap_or_else(PoisonError::into_inner);
        self.traffic.count_resent(std::mem::replace(&mut *counted, now), now);
    }

    /// Returns the next request for a lane.
    pub(crate) fn next_request(&self, lane: LaneId) -> Option<Request> {
        if self.is_stopping() {
            return None;
        }
        self.lock().fetch.poll_request(penstock_sys::boottime_now(), lane)
    }

    /// Returns whether a lane will end after the answers that it has asked for.
    pub(crate) fn is_draining(&self, lane: LaneId) -> bool {
        self.lock().fetch.lane_is_draining(lane)
    }

    /// Waits until there may be a request for a local lane.
    pub(crate) fn wait_for_request(&self) {
        let state = self.lock();
        if state.fetch.has_queue() || self.is_stopping() {
            return;
        }
        drop(self.local_wake.wait_timeout(state, Duration::from_millis(200)));
    }

    /// Notes the answer to a request, with the results of its entries.
    pub(crate) fn handle_answered(&self, request: Request, pieces: &Pieces, written: Written) {
        let now = penstock_sys::boottime_now();
        if let Some(fault) = of_answer(&request.item, &written) {
            self.broken(fault);
            return;
        }
        let Item { piece, generation, first_entry, .. } = request.item;
        let mut guard = self.lock();
        let state = &mut *guard;
        state.moved = now;
        state.waiting.clear();
        state.repairs += written.repairs;
        self.traffic.count_repairs(written.repairs);
        if written.lost {
            let failures = Vec::new();
            state.fetch.handle_answered(now, request.request, Vec::new(), failures, 0);
            state.fetch.handle_file_forgotten(piece.page, first_entry, generation);
            let lost = Report::Lost { page: piece.page, entry: first_entry, generation };
            self.report(state, lost);
            return;
        }
        let Written { digests, part, failures, bytes, .. } = written;
        if let Some(part) = part {
            state.fetch.handle_part(request.request, part);
        }
        let done = state.fetch.handle_answered(now, request.request, digests, failures, bytes);
        if let Some(done) = done {
            self.handle_fetched(state, now, pieces, done);
        }
        let hungry = !state.fetch.has_queue();
        state.news |= hungry;
        drop(guard);
        if hungry {
            self.wake.notify_all();
        }
        self.publish_wake.notify_all();
    }

    fn handle_fetched(
        &self,
        state: &mut TaskState,
        now: Instant,
        pieces: &Pieces,
        done: FetchedPiece,
    ) {
        let FetchedPiece { piece, generation, mut digests, mut failures, bytes, parts } = done;
        let known = pieces.pieces.get(piece.piece as usize);
        let extent = match known {
            Some(Piece::Extent { entry, length, .. }) => Some((*entry, *length)),
            _ => None,
        };
        if let Some((entry, length)) = extent.filter(|_| failures.is_empty()) {
            let stride = u64::from(pieces.page.page.slicing.stride_bytes);
            let ctime = pieces.page.page.entries()[entry as usize].identity.ctime;
            match read_check::seen_of(&parts, ctime) {
                Ok(seen) => {
                    let (form, digest) = extent_digest(self.tree.kind, parts, stride, length);
                    digests.push(EntryDigest { entry, form, digest, seen });
                }
                Err(read_check::Mixed) => failures.push(read_check::changed(entry)),
            }
        }
        let pack = extent.is_none();
        state.except(piece, pack, &failures);
        let publication = pack.then_some(Publication { piece, generation });
        let files = if pack { digests.len() as u64 } else { 0 };
        let epoch = state.epochs.handle_written(now, bytes, files, publication);
        let fetched = true;
        self.report(
            state,
            Report::Written { piece, generation, epoch, digests, failures, fetched },
        );
    }

    /// Notes that the source refused a request.
    pub(crate) fn handle_refused(&self, request: Request, retry_after: Duration, why: String) {
        let now = penstock_sys::boottime_now();
        let mut state = self.lock();
        state.fetch.handle_refused(now, request.request, retry_after);
        state.waiting = format!("{why}; next try in {:.1} s", retry_after.as_secs_f64());
    }

    /// Notes the round trip of a path that a connection has measured.
    pub(crate) fn path_known(&self, path: PathId, rtt: Duration) {
        let mut state = self.lock();
        state.fetch.handle_rtt_of(path, rtt);
        state.lanes.handle_rtt(path, rtt);
        state.news = true;
        self.wake.notify_all();
    }

    /// Returns whether another path than this one carries.
    pub(crate) fn has_other_path(&self, path: PathId) -> bool {
        self.lock().lanes.has_other(path)
    }

    pub(crate) fn paths(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the ends of a lane and its protection, for the receipt.
    pub(crate) fn note_path(&self, stream: &LaneStream, ends: &PathEnds) {
        self.lock().cipher.get_or_insert(stream.cipher());
        let Ok((here, there)) = stream.addresses() else { return };
        let (peer, protection) = (stream.peer(), stream.protection());
        let mut paths = self.paths();
        if paths.len() < PATHS_MAX {
            let device =
                ends.local.device.as_ref().map_or(String::new(), |name| format!("%{name}"));
            let network = match ends.network() {
                name if name.is_empty() => name,
                name => format!(" on network {name}"),
            };
            let here = here.ip();
            paths.insert(format!("{there} of {peer} to {here}{device}{network}, {protection}"));
        }
    }

    /// Notes that a lane is open over a path.
    pub(crate) fn lane_up(
        &self,
        (lane, path): (LaneId, PathId),
        rtt: Duration,
        closer: Option<LaneHandle>,
    ) {
        let now = penstock_sys::boottime_now();
        let mut state = self.lock();
        state.fetch.handle_lane_up_on(now, lane, path);
        state.fetch.handle_rtt_of(path, rtt);
        state.lanes.handle_rtt(path, rtt);
        state.lanes.handle_up(now, lane);
        state.moved = now;
        state.waiting.clear();
        if let Some(closer) = closer {
            state.closers.insert(lane, closer);
        }
        state.news = true;
        self.wake.notify_all();
    }

    /// Notes that the other end of a lane broke the protocol: holds lanes back for a pause, or ends
    /// the task.
    pub(crate) fn note_breach(&self, why: &str) {
        match self.breaches.note(penstock_sys::boottime_now()) {
            Some(until) => self.lock().lanes.hold(until),
            None => {
                self.broken(TaskError::Breaches(Cause(why.to_owned())));
            }
        }
    }

    /// Notes that a lane is gone, or could not be opened. `why` gives the reason if it failed.
    pub(crate) fn lane_down(&self, lane: LaneId, why: Option<String>) {
        let now = penstock_sys::boottime_now();
        let mut guard = self.lock();
        let state = &mut *guard;
        let beside = state.lanes.path_of_lane(lane).is_some_and(|path| state.lanes.has_other(path));
        state.fetch.handle_lane_down(lane);
        state.lanes.handle_down(now, lane, why.is_some());
        state.wakers.remove(&lane);
        state.closers.remove(&lane);
        // A path that does not carry is no reason to wait while another carries.
        if let Some(why) = why.filter(|_| !beside) {
            let next = state.lanes.dial_after(now).map_or(Duration::ZERO, |at| at.since(now));
            state.waiting = format!("{why}; next try in {:.1} s", next.as_secs_f64());
        }
        state.news = true;
        drop(guard);
        if self.is_stopping() {
            // All other lanes know already. Signalling each of them for every lane that ends would
            // cost the square of a thousand lanes.
            self.wake.notify_all();
        } else {
            self.notify_all();
        }
    }

    /// Counts received and verified bytes of payload; see [`ByteTally`].
    pub(crate) fn count_bytes(&self, lane: LaneId, bytes: u64, carried: u64) {
        self.verified.fetch_add(bytes, Ordering::Relaxed);
        self.traffic.count_bytes(bytes);
        let now = penstock_sys::boottime_now();
        let mut state = self.lock();
        state.fetch.handle_bytes(now, lane, bytes);
        state.lanes.handle_bytes(lane, carried);
        state.moved = now;
    }

    fn item_of(&self, piece: PieceRef, generation: u32, fresh: bool) -> Result<Item, TaskError> {
        let pieces = self.page(piece.page)?;
        let (first_entry, end_entry, offset, length) = match pieces.pieces.get(piece.piece as usize)
        {
            Some(Piece::Pack { first, end, .. }) => (*first, *end, 0, 0),
            Some(Piece::Extent { entry, offset, length }) => (*entry, *entry + 1, *offset, *length),
            _ => {
                return Err(TaskError::NoSuchPiece);
            }
        };
        let bytes = pieces.pieces[piece.piece as usize].bytes();
        let stride = u64::from(pieces.page.page.slicing.stride_bytes);
        self.lock().fetch.cut_from(if self.cuts_pieces { stride } else { u64::MAX });
        Ok(Item {
            piece,
            generation,
            fresh,
            first_entry,
            end_entry,
            offset,
            length,
            bytes,
            attempt: 1,
        })
    }

    /// Takes over work from the controller.
    pub(crate) fn dispatch(&self, work: Vec<Work>, flush: bool) -> Result<(), TaskError> {
        let mut items = Vec::new();
        let mut chores = Vec::new();
        let mut finishes = Vec::new();
        for work in work {
            match work {
                Work::Fetch { piece, generation, fresh } => {
                    let item = self.item_of(piece, generation, fresh)?;
                    if fresh && item.length > 0 {
                        self.large.begin(piece.page, item.first_entry, generation);
                    }
                    items.push(item);
                }
                Work::Finish { piece, generation } => {
                    finishes.push(Publication { piece, generation });
                }
                other => chores.push(other),
            }
        }
        let settled = penstock_sys::boottime_now().plus(settle_time(&self.tree));
        let mut state = self.lock();
        let fetches = !items.is_empty();
        for item in items {
            state.fetch.handle_granted(item);
        }
        for finish in finishes {
            state.epochs.handle_finish_from(finish, settled);
        }
        state.chores.extend(chores);
        if flush {
            state.epochs.handle_flush();
        }
        if fetches {
            for waker in state.wakers.values() {
                waker.signal();
            }
            self.local_wake.notify_all();
        }
        drop(state);
        self.publish_wake.notify_all();
        Ok(())
    }
}

/// Pages with their pieces that a task keeps in memory.
const PAGES_KEPT: usize = 32;

/// Number of paths that are noted for the receipt; further ones are not.
const PATHS_MAX: usize = 64;
impl TaskContext {
    /// Notes that the first frame of an answer has arrived.
    pub(crate) fn handle_begun(&self, request: u32) {
        self.lock().fetch.handle_begun(request);
    }
}

impl TaskState {
    /// Returns all held pieces after a failed sync, since their written bytes may be lost (A4).
    /// Call it after the failure itself was reported.
    pub(crate) fn return_all(&mut self) {
        let mut returned = self.fetch.handle_sync_failed();
        self.chores.retain(|chore| match chore {
            Work::Recheck { piece, generation, .. } => {
                returned.push((*piece, *generation));
                false
            }
            _ => true,
        });
        let report = |(piece, generation)| Report::Returned { piece, generation };
        self.reports.extend(returned.into_iter().map(report));
    }

    /// Reports the pieces that a lane was still writing when they were returned, and has dropped
    /// since (B3).
    pub(crate) fn tell_returned(&mut self) {
        let returned = self.fetch.take_returned().into_iter();
        let report = |(piece, generation)| Report::Returned { piece, generation };
        self.reports.extend(returned.map(report));
    }
}

impl TaskContext {
    /// Sets another share of the limits, which holds for waiting threads too.
    pub(crate) fn set_share(&self, share: &Share) {
        self.pace.set_rate(share.rate_bytes_per_s());
        self.tree.names.set_rate(share.metadata_ops_per_s.unwrap_or(0).into());
        let limits = lane_limits(&self.spec, share, &self.reach, &self.tree.target);
        let mut state = self.lock();
        state.lanes.handle_lane_limits(limits);
        state.share = *share;
        state.news = true;
        self.wake.notify_all();
    }
}
