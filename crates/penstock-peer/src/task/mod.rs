//! One task: the machines of one transfer at this host, and the threads around them.
//!
//! ```text
//! coordinator   asks the controller for work, hands over reports, dials and drains lanes
//! lanes         fetch, check, write (one thread each; see `lane` and `local`)
//! publisher     syncs, renames, links, attributes, re-checks (see `publish`)
//! ```
//! All machines are behind one lock, taken per request and per finished piece, never per stride.
//! A report is made under the lock, so that reports leave in the order in which things happened.

pub(crate) mod back;
pub(crate) mod handover;
pub(crate) mod hang_detector;
pub(crate) mod limits;
pub(crate) mod load;
pub(crate) mod shutdown;
pub(crate) mod write_lease;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_api::limits::Share;
use penstock_api::problem::{Exit, Problem};
use penstock_api::task::{
    Adopted, LIMIT_SCAN, Report, TARGET_FULL, Task, TaskControl, TaskFigures, TaskPage, TaskSpec,
    Work,
};
use penstock_api::transfer::Durability;
use penstock_engine::epoch::{EpochMachine, Publication};
use penstock_engine::fetch::{FetchMachine, FetchedPiece, Item, LANE_SILENCE_MAX, Request};
use penstock_engine::paths::{PathAction, PathEnds, PathId, PathMachine};
use penstock_engine::slice::{Piece, slice_without};
use penstock_io::buffer::BufferPool;
use penstock_io::net::LaneStream;
use penstock_io::store::{Source, StoreError, StoreIdentity, Target};
use penstock_io::sys::{self, EventFd};
use penstock_proto::id::{LaneId, WriterId};
use penstock_proto::journal::{EntryDigest, EntryFailure, Incarnation};
use penstock_proto::network::DataAddress;
use penstock_proto::slicing::PieceRef;
use penstock_proto::units::Instant;

use crate::lane::paths::{self, Dialer, LaneHandle};
use crate::lane::target_lane;
use crate::publish;
use crate::source::read_check;
use crate::stores::errors::of_answer;
use crate::stores::guard::Guard;
use crate::stores::pacer::Pacer;
use crate::stores::{Stores, chain};
use crate::task::handover::{Kept, LeftBehind, hand_over};
use crate::task::hang_detector::Hang;
use crate::task::limits::lane_limits;
use crate::task::shutdown::{STOP_PATIENCE, waiting_of};
use crate::task::write_lease::Grant;
use crate::write::attributes::Keeper;
use crate::write::large_files::LargeFiles;
use crate::write::unnamed_files::{Held, NamedLater, epoch_limits};
use crate::write::{TargetTree, Written, extent_digest};

/// Pages with their pieces that a task keeps in memory.
const PAGES_KEPT: usize = 32;
/// The coordinator looks around at least this often while there is work.
const TICK: Duration = Duration::from_millis(20);
/// Paths of lanes that are noted for the receipt; further ones are not.
const PATHS_MAX: usize = 64;
/// Without any byte, answer or successful dial for this long the task gives up; the controller
/// tries again later (promise (f)).
const NOTHING_MAX: Duration = Duration::from_secs(300);
/// The same where no lane is open: the next attempt asks the source which of its peers are there.
const NO_LANE_MAX: Duration = Duration::from_secs(90);

/// How lanes reach a source.
pub(crate) enum Reach {
    /// This host reads the source's store itself.
    Local { source: Source, root: Vec<u8>, guard: Box<Guard> },
    /// Over lanes.
    Remote { dialer: Arc<Dialer> },
}

/// A page and its pieces.
pub(crate) struct Pieces {
    pub(crate) page: TaskPage,
    pub(crate) pieces: Vec<Piece>,
}

/// What is behind the lock.
pub(crate) struct State {
    pub(crate) fetch: FetchMachine,
    pub(crate) lanes: PathMachine,
    pub(crate) epochs: EpochMachine,
    pub(crate) chores: VecDeque<Work>,
    /// Entries of written packs that failed: they get no name.
    pub(crate) excepted: BTreeMap<PieceRef, Vec<u32>>,
    /// Packs that an earlier run wrote, and perhaps named.
    pub(crate) found: BTreeSet<PieceRef>,
    /// Files of packs that have no name yet.
    pub(crate) held: Held,
    pub(crate) reports: Vec<Report>,
    wakers: BTreeMap<LaneId, Arc<EventFd>>,
    pub(crate) closers: BTreeMap<LaneId, LaneHandle>,
    /// When paths were last looked at.
    pub(crate) looked: Instant,
    pub(crate) waiting: String,
    pub(crate) moved: Instant,
    pub(crate) news: bool,
    repairs: u64,
    /// What the task may use of the limits of its transfer.
    pub(crate) share: Share,
}

/// Counts a lane's bytes by itself and tells the task now and then, so that no stride takes a lock
/// or writes a cache line that others read.
pub(crate) struct ByteTally {
    lane: LaneId,
    bytes: u64,
    told: Instant,
}

/// Bytes after which a lane tells the task.
const TELL_BYTES: u64 = 8 * 1024 * 1024;
/// Time after which it does in any case: far below what makes a lane a silent one.
const TELL_INTERVAL: Duration = Duration::from_millis(250);

impl ByteTally {
    pub(crate) fn new(lane: LaneId) -> Self {
        Self { lane, bytes: 0, told: sys::boottime_now() }
    }

    /// Adds payload bytes of a lane that has carried `carried` bytes in all.
    pub(crate) fn add(&mut self, shared: &Shared, bytes: u64, carried: u64) {
        self.bytes += bytes;
        let now = sys::boottime_now();
        if self.bytes >= TELL_BYTES || now.since(self.told) >= TELL_INTERVAL {
            self.told = now;
            shared.count_bytes(self.lane, std::mem::take(&mut self.bytes), carried);
        }
    }

    /// Tells what is left: a request is over.
    pub(crate) fn flush(&mut self, shared: &Shared, carried: u64) {
        if self.bytes > 0 {
            shared.count_bytes(self.lane, std::mem::take(&mut self.bytes), carried);
        }
    }
}

impl State {
    fn new(spec: &TaskSpec, parts: &TaskParts) -> Self {
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
        let mut state = Self {
            fetch,
            lanes: PathMachine::new(limits, &specs, rand::random()),
            epochs: EpochMachine::new(spec.epoch.max(parts.marker), epoch_limits(elected)),
            chores: VecDeque::new(),
            excepted: BTreeMap::new(),
            found: BTreeSet::new(),
            held: Held::default(),
            reports: Vec::new(),
            wakers: BTreeMap::new(),
            closers: BTreeMap::new(),
            looked: Instant(0),
            waiting: String::new(),
            moved: sys::boottime_now(),
            news: false,
            repairs: 0,
            share: spec.share(),
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

/// Everything that the threads of a task share.
pub(crate) struct Shared {
    pub(crate) spec: TaskSpec,
    pub(crate) control: Arc<dyn TaskControl>,
    /// Until when it may write, where others may be given what it has in hand.
    pub(crate) grant: Option<Arc<Grant>>,
    /// Where it has none, and shares the transfer with others all the same.
    endless: Option<Grant>,
    /// Under which it began.
    pub(crate) incarnation: Incarnation,
    /// What no controller has committed yet, and where it goes if that one leaves it behind.
    pub(crate) kept: Kept,
    pub(crate) left: Arc<LeftBehind>,
    pub(crate) tree: TargetTree,
    pub(crate) identity: StoreIdentity,
    pub(crate) stores: Arc<Stores>,
    /// What its publisher is at.
    pub(crate) hang: Hang,
    /// It may change nothing any more, whatever its grant and its controller.
    over: Arc<AtomicBool>,
    pub(crate) reach: Reach,
    pub(crate) large: Arc<LargeFiles>,
    /// Whether a request may ask for a part of a piece.
    cuts_pieces: bool,
    /// Holds the rate that the user set.
    pub(crate) pace: Pacer,
    pub(crate) pool: BufferPool,
    state: Mutex<State>,
    pub(crate) wake: Condvar,
    pub(crate) publish_wake: Condvar,
    local_wake: Condvar,
    pub(crate) stopping: AtomicBool,
    /// The store's sync marker stays as it is: the ledger is in doubt (A5).
    pub(crate) keep_marker: AtomicBool,
    pub(crate) stop_until: AtomicU64,
    pages: Mutex<VecDeque<Arc<Pieces>>>,
    pub(crate) verified: AtomicU64,
    pub(crate) waited_ns: AtomicU64,
    pub(crate) worked_ns: AtomicU64,
    cpu_before: f64,
    /// See [`TaskFigures::paths`].
    paths: Mutex<BTreeSet<String>>,
}

/// A running task.
pub(crate) struct RunningTask {
    pub(crate) shared: Arc<Shared>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// What an earlier task left, until it is told.
    pub(crate) adopted: Mutex<Option<Adopted>>,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic in another thread the machines may be inconsistent, but the ledger is the
        // controller's; ending in order is better than hanging.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) || !self.may_write()
    }

    /// Whether it may write at this moment: under its grant, whatever has become of the controller;
    /// without one while the controller may act (B4).
    fn may_write(&self) -> bool {
        let may = self.grant.as_ref().map_or_else(|| self.spec.fence.holds(), |it| it.holds());
        may && !self.is_over()
    }

    /// Whether names may be given at this moment.
    pub(crate) fn may_name(&self) -> bool {
        self.spec.fence.holds() && self.may_write()
    }

    /// Whether it may not, though bytes may be written.
    pub(crate) fn only_writes(&self) -> bool {
        self.grant.is_some() && !self.spec.fence.holds()
    }

    /// Whether a stopping task has used up its patience. One that may not write any more has none:
    /// what it has begun is another's now (B4).
    pub(crate) fn is_overdue(&self) -> bool {
        !self.may_write()
            || (self.is_stopping()
                && sys::boottime_now().0 >= self.stop_until.load(Ordering::Acquire))
    }

    /// It takes no part any more: what it has in hand is another's.
    pub(crate) fn end(&self) {
        self.kept.end();
        self.stopping.store(true, Ordering::Release);
        self.stop_until.store(sys::boottime_now().0, Ordering::Release);
        self.end_pacing();
        self.notify_all();
    }

    /// Nothing of it may change the store any more: a thread of it hangs there, and its share is
    /// another's by the time it wakes.
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
            let until = sys::boottime_now().plus(patience);
            self.stop_until.store(until.0, Ordering::Release);
        }
        self.lock().epochs.handle_flush();
        self.end_pacing();
        self.notify_all();
    }

    /// When it asked, and gave back, if others share the transfer.
    pub(crate) fn share(&self) -> Option<&Grant> {
        self.grant.as_deref().or(self.endless.as_ref())
    }

    /// A page and its pieces.
    pub(crate) fn page(&self, number: u32) -> Result<Arc<Pieces>, Problem> {
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

    /// The task cannot go on.
    pub(crate) fn broken(&self, problem: Problem) {
        tracing::warn!(transfer = %self.spec.transfer, %problem, "task broken");
        self.control.broken(problem);
        self.stopping.store(true, Ordering::Release);
        self.stop_until.store(sys::boottime_now().plus(STOP_PATIENCE).0, Ordering::Release);
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
    pub(crate) fn report(&self, state: &mut State, report: Report) {
        state.reports.push(report);
        state.news = true;
        self.wake.notify_all();
    }

    /// The next request for a lane.
    pub(crate) fn next_request(&self, lane: LaneId) -> Option<Request> {
        if self.is_stopping() {
            return None;
        }
        self.lock().fetch.poll_request(sys::boottime_now(), lane)
    }

    /// Whether a lane is to end once it has what it asked for.
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

    /// A request was answered: what became of its entries.
    pub(crate) fn handle_answered(&self, request: Request, pieces: &Pieces, written: Written) {
        let now = sys::boottime_now();
        if let Some(problem) = of_answer(&request.item, &written) {
            self.broken(problem);
            return;
        }
        let Item { piece, generation, first_entry, .. } = request.item;
        let mut guard = self.lock();
        let state = &mut *guard;
        state.moved = now;
        state.waiting.clear();
        state.repairs += written.repairs;
        if written.lost {
            let failures = Vec::new();
            state.fetch.handle_answered(now, request.request, Vec::new(), failures, 0);
            state.fetch.handle_file_forgotten(piece.page, first_entry, generation);
            let lost = Report::Lost { page: piece.page, entry: first_entry, generation };
            self.report(state, lost);
            return;
        }
        let Written { digests, part, failures, bytes, nameless, .. } = written;
        if state.fetch.is_wanted(request.request) {
            state.held.put(&request.item, nameless);
        }
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

    fn handle_fetched(&self, state: &mut State, now: Instant, pieces: &Pieces, done: FetchedPiece) {
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
        state.epochs.handle_nameless(now, state.held.count(piece));
        let fetched = true;
        self.report(
            state,
            Report::Written { piece, generation, epoch, digests, failures, fetched },
        );
    }

    /// A request was refused by the source.
    pub(crate) fn handle_refused(&self, request: Request, retry_after: Duration, why: String) {
        let now = sys::boottime_now();
        let mut state = self.lock();
        state.fetch.handle_refused(now, request.request, retry_after);
        state.waiting = format!("{why}; next try in {:.1} s", retry_after.as_secs_f64());
    }

    /// A connection has measured its path.
    pub(crate) fn path_known(&self, path: PathId, rtt: Duration) {
        let mut state = self.lock();
        state.fetch.handle_rtt_of(path, rtt);
        state.lanes.handle_rtt(path, rtt);
        state.news = true;
        self.wake.notify_all();
    }

    /// Whether another path than this one carries.
    pub(crate) fn has_other_path(&self, path: PathId) -> bool {
        self.lock().lanes.has_other(path)
    }

    fn paths(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where a lane goes and what protects it, for the receipt.
    pub(crate) fn note_path(&self, stream: &LaneStream, ends: &PathEnds) {
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

    /// A lane is open over a path.
    pub(crate) fn lane_up(
        &self,
        (lane, path): (LaneId, PathId),
        rtt: Duration,
        closer: Option<LaneHandle>,
    ) {
        let now = sys::boottime_now();
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

    /// A lane is gone, or could not be opened; `why` says so if it failed.
    pub(crate) fn lane_down(&self, lane: LaneId, why: Option<String>) {
        let now = sys::boottime_now();
        let mut guard = self.lock();
        let state = &mut *guard;
        let beside = state.lanes.path_of_lane(lane).is_some_and(|path| state.lanes.has_other(path));
        state.fetch.handle_lane_down(lane);
        state.lanes.handle_down(now, lane, why.is_some());
        state.wakers.remove(&lane);
        state.closers.remove(&lane);
        // Nothing waits for one path while another carries.
        if let Some(why) = why.filter(|_| !beside) {
            let next = state.lanes.dial_after(now).map_or(Duration::ZERO, |at| at.since(now));
            state.waiting = format!("{why}; next try in {:.1} s", next.as_secs_f64());
        }
        state.news = true;
        drop(guard);
        if self.is_stopping() {
            // All others are told already. Telling them for each that goes would cost the square
            // of a thousand lanes.
            self.wake.notify_all();
        } else {
            self.notify_all();
        }
    }

    /// Bytes of payload have come and are verified; see [`ByteTally`].
    fn count_bytes(&self, lane: LaneId, bytes: u64, carried: u64) {
        self.verified.fetch_add(bytes, Ordering::Relaxed);
        let now = sys::boottime_now();
        let mut state = self.lock();
        state.fetch.handle_bytes(now, lane, bytes);
        state.lanes.handle_bytes(lane, carried);
        state.moved = now;
    }

    fn item_of(&self, piece: PieceRef, generation: u32, fresh: bool) -> Result<Item, Problem> {
        let pieces = self.page(piece.page)?;
        let (first_entry, end_entry, offset, length) = match pieces.pieces.get(piece.piece as usize)
        {
            Some(Piece::Pack { first, end, .. }) => (*first, *end, 0, 0),
            Some(Piece::Extent { entry, offset, length }) => (*entry, *entry + 1, *offset, *length),
            _ => {
                let title = "the controller granted a piece that is none";
                return Err(Problem::new(Exit::Fatal, "grant", title));
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
    fn dispatch(&self, work: Vec<Work>, flush: bool) -> Result<(), Problem> {
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
        let settled = sys::boottime_now().plus(self.settles_in());
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

/// Whether an error is of the whole store and no item's fault: the task is to end with
/// [`full_problem`], and what met the error is to be tried again. After an I/O error the store
/// itself is asked: of one that has shut down, or whose server is gone, every file says so.
pub(crate) fn is_of_store(target: &Target, error: &StoreError) -> bool {
    let certain = error.is_out_of_space() || error.is_read_only();
    let gone = error.is_offline();
    certain || gone || (error.is_io_failure() && target.identity().is_err())
}

/// A store that takes no more.
pub(crate) fn full_problem(error: &StoreError) -> Problem {
    if error.is_out_of_space() {
        return Problem::new(Exit::Temporary, TARGET_FULL, "the target is full")
            .because(chain(error))
            .hint("make room; what is written stays, and the transfer goes on where it was");
    }
    if error.is_read_only() {
        return Problem::new(Exit::Fatal, "target-read-only", "the target is read-only")
            .because(chain(error))
            .hint("mount it writable, then resume");
    }
    Problem::new(Exit::Temporary, "store-offline", "the target store is offline or failing")
        .because(chain(error))
        .hint("look at the kernel log of the target host; the transfer goes on where it was")
}

/// The coordinator's loop.
fn coordinate(shared: &Arc<Shared>) {
    let lanes = Mutex::new(Vec::new());
    while !shared.is_stopping() {
        shared.hang.lasts(sys::boottime_now());
        hand_over(shared);
        if let Some(grant) = &shared.grant {
            write_lease::keep(shared, grant);
        }
        let (wanted, asks) = write_lease::wants(shared);
        let mut given = 0;
        if asks {
            let reply = shared.control.want(wanted);
            given = reply.work.len();
            write_lease::note_dry(shared, wanted, given);
            if reply.give_back > 0 {
                write_lease::give_back(shared, reply.give_back);
            }
            if let Err(problem) = shared.dispatch(reply.work, reply.flush) {
                shared.broken(problem);
                break;
            }
        }
        tend_lanes(shared, &lanes);
        let state = shared.lock();
        let due = state.fetch.poll_timeout().is_some_and(|at| at <= sys::boottime_now());
        if due {
            state.wakers.values().for_each(|waker| waker.signal());
        }
        let patience = if given > 0 { Duration::from_millis(1) } else { TICK };
        let (mut state, _) = shared
            .wake
            .wait_timeout_while(state, patience, |state| !state.news)
            .unwrap_or_else(PoisonError::into_inner);
        state.news = false;
    }
    shared.notify_all();
    for closer in shared.lock().closers.values() {
        closer.shutdown();
    }
    let threads: Vec<JoinHandle<()>> =
        std::mem::take(&mut *lanes.lock().unwrap_or_else(PoisonError::into_inner));
    for thread in threads {
        let _ = thread.join();
    }
    hand_over(shared);
}

/// Dials, drains and cuts lanes as the machines say.
fn tend_lanes(shared: &Arc<Shared>, threads: &Mutex<Vec<JoinHandle<()>>>) {
    let now = sys::boottime_now();
    cut_silent_lanes(shared, now);
    if let Reach::Remote { dialer } = &shared.reach {
        paths::look(shared, dialer, now);
    }
    let (nothing_for, idle, most) = {
        let state = shared.lock();
        let most = if state.lanes.up() == 0 { NO_LANE_MAX } else { NOTHING_MAX };
        (now.since(state.moved), state.fetch.is_idle(), most)
    };
    if nothing_for >= most && !idle {
        let waiting = shared.lock().waiting.clone();
        let title = format!("nothing has moved for {} s", nothing_for.as_secs());
        shared.broken(Problem::new(Exit::Temporary, "stalled", title).because(waiting));
        return;
    }
    loop {
        let mut state = shared.lock();
        let idle = state.fetch.is_idle();
        match state.lanes.poll_action(now) {
            Some(PathAction::Dial(lane, path)) => {
                let waker = match EventFd::new() {
                    Ok(waker) => Arc::new(waker),
                    Err(cause) => {
                        state.lanes.handle_down(now, lane, true);
                        state.waiting = format!("cannot open a lane: {cause}");
                        return;
                    }
                };
                state.wakers.insert(lane, Arc::clone(&waker));
                drop(state);
                let spawned = target_lane::spawn(shared, (lane, path), waker);
                match spawned {
                    Ok(thread) => {
                        let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
                        threads.retain(|thread| !thread.is_finished());
                        threads.push(thread);
                    }
                    Err(cause) if target_lane::is_none_left(shared, lane, threads, &cause) => {
                        return;
                    }
                    Err(_) => {}
                }
            }
            Some(PathAction::Drain(lane)) => {
                state.fetch.handle_lane_draining(lane);
                if let Some(waker) = state.wakers.get(&lane) {
                    waker.signal();
                }
            }
            Some(PathAction::Cut(lane)) => {
                if let Some(closer) = state.closers.get(&lane) {
                    closer.shutdown();
                }
            }
            None => {
                if idle {
                    // An idle task does not wait for anything in vain.
                    state.moved = now;
                }
                return;
            }
        }
    }
}

/// Cuts the lanes that owe an answer and on which nothing has come for too long.
fn cut_silent_lanes(shared: &Shared, now: Instant) {
    let silent = shared.lock().fetch.poll_silent_lanes(now);
    for lane in silent {
        let mut state = shared.lock();
        let Some(closer) = state.closers.get(&lane) else { continue };
        let silence = closer.silence();
        // Who waits for the limit does not read: the silence is our own.
        if silence >= LANE_SILENCE_MAX && !shared.pace.is_in_debt() {
            tracing::warn!(?lane, "a lane is silent and is cut");
            closer.shutdown();
        } else {
            let heard = Instant(now.0.saturating_sub(silence.as_nanos() as u64));
            state.fetch.handle_heard(heard, lane);
            state.moved = state.moved.max(heard);
        }
    }
}

/// What a task needs beside its specification.
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
    pub(crate) left: Arc<LeftBehind>,
    pub(crate) adopted: Option<Adopted>,
    /// Whether another task of the same transfer and writer began here before.
    pub(crate) follows: bool,
    pub(crate) pool: BufferPool,
    /// Whether other sites may bring owners and the like (D7).
    pub(crate) allow_privileged: bool,
}

impl RunningTask {
    /// Starts the threads.
    pub(crate) fn start(
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
        parts: TaskParts,
    ) -> Result<Self, Problem> {
        // Where each request ends in a sync of its file, a part costs as much as a whole.
        let per_file = parts.target.durability().iter().any(|method| method.is_per_file());
        let cuts_pieces = !per_file && spec.durability != Durability::Fsync;
        let state = State::new(spec, &parts);
        let (own_site, deletes) = (spec.source.is_of_own_site(), spec.update.delete);
        let keeper = Keeper::new(&spec.preserve, own_site, parts.allow_privileged);
        let tree = TargetTree {
            target: parts.target.for_data_set(&spec.root.0, keeper.sets_modes(), deletes),
            transfer: spec.transfer,
            writer: spec.writer,
            root: spec.root.0.clone(),
            kind: spec.digest,
            sync_files: spec.durability == Durability::Fsync,
            sync_nothing: spec.durability == Durability::None,
            digest_list: spec.digest_list,
            proves: spec.proves,
            names: Arc::new(Pacer::new(spec.limits.metadata_ops_per_s.unwrap_or(0).into())),
            keeper: Arc::new(keeper),
            backup_dir: spec.update.backup_dir.as_ref().map(|path| path.0.clone()),
            began: spec.began,
            named_later: Arc::new(NamedLater::of(spec, parts.follows)),
        };
        let shared = Arc::new(Shared {
            spec: spec.clone(),
            control,
            endless: (spec.writer != WriterId::SOLE).then(Grant::endless),
            grant: parts.grant,
            incarnation: parts.incarnation,
            kept: Kept::new(spec.writer != WriterId::SOLE),
            left: parts.left,
            tree,
            identity: parts.identity,
            stores: parts.stores,
            hang: Hang::default(),
            over: parts.over,
            reach: parts.reach,
            large: Arc::new(LargeFiles::default()),
            cuts_pieces,
            pace: Pacer::new(spec.limits.rate_bytes_per_s()),
            pool: parts.pool,
            state: Mutex::new(state),
            wake: Condvar::new(),
            publish_wake: Condvar::new(),
            local_wake: Condvar::new(),
            stopping: AtomicBool::new(false),
            keep_marker: AtomicBool::new(spec.doubt),
            stop_until: AtomicU64::new(0),
            pages: Mutex::new(VecDeque::new()),
            verified: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            worked_ns: AtomicU64::new(0),
            cpu_before: sys::cpu_seconds(),
            paths: Mutex::default(),
        });
        let (threads, adopted) = (Mutex::new(Vec::new()), Mutex::new(parts.adopted));
        let task = Self { shared: Arc::clone(&shared), threads, adopted };
        let publisher = Arc::clone(&shared);
        task.spawn("publisher", move || publish::run(&publisher))?;
        task.spawn("coordinator", move || coordinate(&shared))?;
        Ok(task)
    }

    /// Whether it is of the same transfer and writer.
    pub(crate) fn is_of(&self, spec: &TaskSpec) -> bool {
        let own = &self.shared.spec;
        (own.transfer, own.writer) == (spec.transfer, spec.writer)
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        let thread = thread.map_err(Problem::no_thread)?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

impl Task for RunningTask {
    fn figures(&self) -> TaskFigures {
        let shared = &self.shared;
        let waited = shared.waited_ns.swap(0, Ordering::Relaxed) as f64;
        let worked = shared.worked_ns.swap(0, Ordering::Relaxed) as f64;
        let (rate_used, held) = shared.pace.take_used();
        let (names_used, named) = shared.tree.names.take_used();
        let named = named.as_nanos() as f64;
        let held = held.as_nanos() as f64 + named;
        // Lanes make names while they work, and wait for that limit.
        let worked = (worked - named).max(0.0);
        let (state, now) = (shared.lock(), sys::boottime_now());
        let local = matches!(shared.reach, Reach::Local { .. });
        let limit = if !state.epochs.is_clean() && state.fetch.is_idle() {
            "making it durable at the target"
        } else if state.fetch.is_idle() {
            LIMIT_SCAN
        } else if held > waited + worked {
            "the limit that was set"
        } else if local {
            "reading and writing"
        } else if waited > worked {
            "the network or the source"
        } else {
            "checking and writing at the target"
        };
        TaskFigures {
            bytes_verified: shared.verified.load(Ordering::Relaxed),
            bytes_resent: state.fetch.resent_bytes(),
            repairs: state.repairs,
            lanes: if local { 0 } else { state.lanes.up() },
            limit: limit.to_owned(),
            waiting: waiting_of(shared, &state, local, now),
            hangs_s: shared.hang.lasts(now).as_secs(),
            not_kept: shared.tree.keeper.not_kept(),
            cpu_seconds: sys::cpu_seconds() - shared.cpu_before,
            paths: shared.paths().iter().cloned().collect(),
            share: state.share,
            rate_used,
            names_used,
        }
    }

    fn incarnation(&self) -> Incarnation {
        self.shared.incarnation
    }

    fn hangs_for(&self) -> Duration {
        self.shared.hang.lasts(sys::boottime_now())
    }

    fn set_share(&self, share: &Share) {
        limits::set(&self.shared, share);
    }

    fn set_source_peers(&self, peers: &[DataAddress]) {
        if let Reach::Remote { dialer } = &self.shared.reach {
            paths::handle_peers(&self.shared, dialer, peers);
        }
    }

    fn doubt_is_over(&self) {
        self.shared.keep_marker.store(false, Ordering::Release);
    }

    fn take_adopted(&self) -> Option<Adopted> {
        self.adopted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn committed(&self, batches: u64) {
        self.shared.kept.handle_committed(batches);
    }

    fn wake(&self) {
        self.shared.lock().news = true;
        self.shared.wake.notify_all();
    }

    fn leave(&self) {
        self.leave_behind();
    }

    fn stop(&self, discard: bool) {
        self.shared.kept.end();
        self.end_threads(discard);
    }
}
