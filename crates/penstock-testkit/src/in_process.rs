//! A site of several target peers in this process: each with stores of its own, all on one
//! directory. Peers can be killed, made deaf and drained during a run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::fence::Fence;
use penstock_api::heads::{HeadCommit, HeadStore, LedgerHead, PageHead};
use penstock_api::limits::Share;
use penstock_api::peers::{Member, PartNews, Peers};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::ProofProgress;
use penstock_api::request::{PeerReply, TargetRequest};
use penstock_api::scan::{OwnPages, ScanRequest, SourcePeer as _};
use penstock_api::task::{
    Adopted, LeaseStatus, Report, SourceAccess, TargetPeer, Task, TaskControl, TaskFigures,
    TaskPage, TaskSpec, WorkReply,
};
use penstock_api::transfer::{PathText, TransferOptions};
use penstock_cluster::state::SqliteState;
use penstock_controller::runner::{self, RunControl, RunInput, RunOutcome};
use penstock_net::SocketOptions;
use penstock_store::{IoMode, TemporaryKey, temporary_name};

use penstock_peer::{SourceService, StoreKind, StoreSpec, Stores, TargetService};
use penstock_proto::id::{Name, PeerId, TransferId, WriterId};
use penstock_proto::journal::{EntryDigest, EntryFailure, FailurePhase, Incarnation};
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::name::STORE_PRIVATE_NAME;
use penstock_proto::network::DataAddress;
use penstock_proto::slicing::{PieceRef, Slicing};
use penstock_proto::units::Instant;

use crate::scratch::Scratch;
use crate::tree::assert_same;
use crate::wait::PATIENCE;

/// Something that happens once, in the middle of a run.
type Happening = Box<dyn FnOnce() + Send>;

/// A place in the work of a peer at which something happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// Before the peer searches for entries to delete.
    Find,
    /// After it has found that.
    Found,
    /// Before it looks again at anything when all is moved.
    LookAgain,
    /// Before its task is stopped.
    Stop,
}

/// Faults that a test injects into a peer, and counts of the peer's actions.
#[derive(Default)]
pub struct Fate {
    /// No word of it arrives, and none reaches it.
    deaf: AtomicBool,
    killed: AtomicBool,
    /// The tenure that ended, for its task, for good.
    untenured: Mutex<Arc<AtomicBool>>,
    /// A flag that several peers share: the first of them that makes a name is deaf from then on.
    deaf_at_name: Mutex<Option<Arc<AtomicBool>>>,
    /// Tasks that were started.
    pub starts: AtomicU32,
    /// Tasks that were stopped.
    pub stops: AtomicU32,
    /// Tasks that a former controller left behind.
    pub left: AtomicU32,
    /// Pieces that it fetched though it had reported them already.
    pub twice: AtomicU32,
    /// The peer reports that a thread hangs when it is stopped in order.
    pub hangs: AtomicBool,
    /// The peer begins no task: a call to its store hangs.
    pub refuses: AtomicBool,
    /// Bits per second that the peer can move, beside its limits; 0 for no bound.
    pub able: AtomicU64,
    /// The shares that it was given.
    pub told: Mutex<Vec<Share>>,
    /// errno(3) with which all its writes and renames fail; 0 for none.
    pub fails: AtomicU16,
    /// Failures that were reported for that.
    pub failed: AtomicU32,
    /// The peer can put nothing right.
    pub read_only: AtomicBool,
    /// Requests to look again at files that a lost peer may have written to late.
    pub mends: AtomicU32,
    /// The peer asks for work only when it is woken, has reported something, or was just given
    /// some: not because time has passed.
    pub only_woken: AtomicBool,
    awake: Mutex<bool>,
    asked: Condvar,
    happens: Mutex<BTreeMap<At, VecDeque<Happening>>>,
    task: Mutex<Option<Arc<dyn Task>>>,
    control: Mutex<Option<Arc<dyn TaskControl>>>,
    written: Mutex<BTreeSet<PieceRef>>,
    news: Condvar,
}

impl Fate {
    /// Waits until it has written so many pieces.
    pub fn wait_written(&self, pieces: usize) {
        let written = self.written.lock().unwrap();
        let few = |written: &mut BTreeSet<PieceRef>| written.len() < pieces;
        let (written, waited) = self.news.wait_timeout_while(written, PATIENCE, few).unwrap();
        assert!(!waited.timed_out(), "only {} of {pieces} pieces were written", written.len());
    }

    /// Returns the pieces that it wrote, as far as it could report them.
    pub fn written(&self) -> BTreeSet<PieceRef> {
        self.written.lock().unwrap().clone()
    }

    /// Cuts the peer off, or connects it again.
    pub fn make_deaf(&self, deaf: bool) {
        self.deaf.store(deaf, Ordering::Release);
    }

    /// Ends the tenure that its task knows; that of a later task holds.
    pub fn end_tenure(&self) {
        self.untenured.lock().unwrap().store(true, Ordering::Release);
    }

    /// Cuts off the first of the peers with the same flag that names a file, before it reports
    /// that.
    pub fn be_deaf_at_name(&self, name: &Arc<AtomicBool>) {
        *self.deaf_at_name.lock().unwrap() = Some(Arc::clone(name));
    }

    /// Runs `happening` once, when the peer reaches `at`, after earlier ones that were set for that
    /// point.
    pub fn happens(&self, at: At, happening: impl FnOnce() + Send + 'static) {
        let mut happens = self.happens.lock().unwrap();
        happens.entry(at).or_default().push_back(Box::new(happening));
    }

    fn waken(&self) {
        *self.awake.lock().unwrap() = true;
    }

    /// Lets it ask once more, if it is about to.
    fn let_ask(&self) {
        let awake = self.awake.lock().unwrap();
        // A task that is ending asks for no more work.
        let most = Duration::from_millis(200);
        drop(self.asked.wait_timeout_while(awake, most, |awake| *awake).unwrap());
    }

    fn meet(&self, at: At) {
        let next = self.happens.lock().unwrap().get_mut(&at).and_then(VecDeque::pop_front);
        if let Some(happening) = next {
            happening();
        }
    }

    /// Makes a report one of a failure: of an entry of a pack, an extent, or a large file's name.
    fn spoil(&self, report: &mut Report) {
        let errno = self.fails.load(Ordering::Acquire);
        if errno == 0 {
            return;
        }
        match report {
            Report::Written { digests, failures, fetched: true, .. } => {
                let Some(EntryDigest { entry, .. }) = digests.pop() else { return };
                failures.push(EntryFailure { entry, phase: FailurePhase::Write, errno });
            }
            Report::Published { failures, .. } => {
                failures.push(EntryFailure { entry: 0, phase: FailurePhase::Publish, errno });
            }
            _ => return,
        }
        self.failed.fetch_add(1, Ordering::AcqRel);
    }

    /// Kills the peer as by `kill -9`: it sends no more reports.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.make_deaf(true);
        if let Some(task) = self.task.lock().unwrap().take() {
            task.stop(true);
        }
    }

    /// Has the peer report that it cannot continue.
    pub fn break_with(&self, problem: Problem) {
        let control = self.control.lock().unwrap().clone();
        control.expect("the peer has a task").broken(problem);
    }
}

struct Control {
    inner: Arc<dyn TaskControl>,
    fate: Arc<Fate>,
}

impl Control {
    fn is_deaf(&self) -> bool {
        self.fate.deaf.load(Ordering::Acquire)
    }
}

impl TaskControl for Control {
    fn want(&self, bytes: u64) -> WorkReply {
        let awake = std::mem::take(&mut *self.fate.awake.lock().unwrap());
        if self.is_deaf() || (!awake && self.fate.only_woken.load(Ordering::Acquire)) {
            return WorkReply::default();
        }
        let reply = self.inner.want(bytes);
        if reply.work.is_empty() {
            self.fate.asked.notify_all();
        } else {
            self.fate.waken();
        }
        reply
    }

    fn page(&self, number: u32) -> Result<TaskPage, Problem> {
        self.inner.page(number)
    }

    fn has_failed(&self, path: &[u8]) -> bool {
        self.inner.has_failed(path)
    }

    fn report(&self, mut reports: Vec<Report>) {
        reports.iter_mut().for_each(|report| self.fate.spoil(report));
        if reports.iter().any(|report| matches!(report, Report::Published { .. }))
            && let Some(name) = &*self.fate.deaf_at_name.lock().unwrap()
            && !name.swap(true, Ordering::AcqRel)
        {
            self.fate.make_deaf(true);
        }
        if self.is_deaf() {
            return;
        }
        let pieces = reports.iter().filter_map(|report| match report {
            Report::Written { piece, fetched: true, .. } => Some(*piece),
            _ => None,
        });
        for piece in pieces {
            if !self.fate.written.lock().unwrap().insert(piece) {
                self.fate.twice.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.inner.report(reports);
        self.fate.waken();
        self.fate.news.notify_all();
    }

    fn broken(&self, problem: Problem) {
        if !self.is_deaf() {
            self.inner.broken(problem);
        }
    }

    fn alive(&self) -> LeaseStatus {
        if self.is_deaf() { LeaseStatus::Unheard } else { self.inner.alive() }
    }
}

struct TestTask {
    inner: Arc<dyn Task>,
    fate: Arc<Fate>,
}

impl Task for TestTask {
    fn figures(&self) -> TaskFigures {
        let mut figures = self.inner.figures();
        // A slow peer is not limited by its share.
        figures.rate_used.held &= self.fate.able.load(Ordering::Acquire) == 0;
        figures
    }

    fn incarnation(&self) -> Incarnation {
        self.inner.incarnation()
    }

    fn take_adopted(&self) -> Option<Adopted> {
        self.inner.take_adopted()
    }

    fn committed(&self, batches: u64) {
        self.inner.committed(batches);
    }

    fn wake(&self) {
        self.fate.waken();
        self.inner.wake();
    }

    fn leave(&self) {
        // As a task at another host does, this one continues until its grant is over, or the next
        // task begins.
        self.fate.left.fetch_add(1, Ordering::AcqRel);
    }

    fn hangs_for(&self) -> Duration {
        self.inner.hangs_for()
    }

    fn doubt_is_over(&self) {
        self.inner.doubt_is_over();
    }

    fn set_source_peers(&self, peers: &[DataAddress]) {
        self.inner.set_source_peers(peers);
    }

    fn set_share(&self, share: &Share) {
        self.fate.told.lock().unwrap().push(*share);
        let able = self.fate.able.load(Ordering::Acquire);
        let slow = |rate: u64| if able > 0 { rate.min(able) } else { rate };
        let rate_bits_per_s = share.rate_bits_per_s.map(slow);
        self.inner.set_share(&Share { rate_bits_per_s, ..*share });
    }

    fn stop(&self, discard: bool) {
        self.fate.stops.fetch_add(1, Ordering::AcqRel);
        self.fate.meet(At::Stop);
        if !self.fate.killed.load(Ordering::Acquire) {
            self.inner.stop(discard);
        }
        if self.fate.hangs.load(Ordering::Acquire) {
            let title = "a thread hangs";
            self.fate.break_with(Problem::new(ProblemCode::TaskHangs, title));
        }
    }
}

/// A target peer with a fate.
struct TestPeer {
    service: TargetService,
    fate: Arc<Fate>,
}

impl TargetPeer for TestPeer {
    fn call(
        &self,
        request: TargetRequest<'_>,
        progress: &ProofProgress,
    ) -> Result<PeerReply, Problem> {
        match &request {
            TargetRequest::Confirm { .. } => self.fate.meet(At::LookAgain),
            TargetRequest::Mend { .. } if self.fate.read_only.load(Ordering::Acquire) => {
                let title = "it is read-only here";
                return Err(Problem::new(ProblemCode::TargetReadOnly, title));
            }
            TargetRequest::Mend { .. } => {
                self.fate.mends.fetch_add(1, Ordering::AcqRel);
                self.fate.meet(At::LookAgain);
            }
            _ => {}
        }
        self.service.call(request, progress)
    }

    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem> {
        self.fate.meet(At::Find);
        let found = self.service.find_surplus(spec, query);
        self.fate.meet(At::Found);
        found
    }

    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem> {
        self.service.delete(spec, order)
    }

    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem> {
        if self.fate.refuses.load(Ordering::Acquire) {
            return Err(Problem::new(ProblemCode::StoreHung, "a call to its store hangs"));
        }
        let control: Arc<dyn TaskControl> =
            Arc::new(Control { inner: control, fate: Arc::clone(&self.fate) });
        *self.fate.control.lock().unwrap() = Some(Arc::clone(&control));
        let over = Arc::<AtomicBool>::default();
        *self.fate.untenured.lock().unwrap() = Arc::clone(&over);
        let fence = Fence::new(1, Arc::new(move || !over.load(Ordering::Acquire)));
        let inner = self.service.start(&TaskSpec { fence, ..spec.clone() }, control)?;
        self.fate.starts.fetch_add(1, Ordering::AcqRel);
        *self.fate.task.lock().unwrap() = Some(Arc::clone(&inner));
        Ok(Arc::new(TestTask { inner, fate: Arc::clone(&self.fate) }))
    }
}

/// The clock of a controller, which can be held.
#[derive(Default)]
struct Clock {
    held: Option<Instant>,
    /// Time for which it was held.
    behind: Duration,
}

/// The peers that take part.
struct TestPeers {
    members: Mutex<Vec<Member>>,
    grant: Mutex<Duration>,
    clock: Mutex<Clock>,
    /// Events about its peers, as the run has reported them.
    told: Mutex<Vec<(String, PartNews)>>,
}

impl Peers for TestPeers {
    fn present(&self) -> Vec<Member> {
        self.members.lock().unwrap().clone()
    }

    fn store_id(&self) -> Option<u64> {
        self.present()
            .iter()
            .find_map(|member| member.peer.store_id(&name("target")).ok().flatten())
    }

    fn grant(&self) -> Option<Duration> {
        Some(*self.grant.lock().unwrap())
    }

    fn now(&self) -> Instant {
        let clock = self.clock.lock().unwrap();
        let runs = || Instant(penstock_sys::boottime_now().0 - clock.behind.as_nanos() as u64);
        clock.held.unwrap_or_else(runs)
    }

    fn tell(&self, _: TransferId, peer: &str, news: &PartNews) {
        self.told.lock().unwrap().push((peer.to_owned(), news.clone()));
    }
}

/// Keeps heads, lets commits that are not urgent wait for ever, and commits when all peers have
/// asked for work and got none.
struct Unhurried(SqliteState, Vec<Arc<Fate>>);

impl HeadStore for Unhurried {
    fn load(&self, transfer: TransferId) -> Result<LedgerHead, Problem> {
        self.0.load(transfer)
    }

    fn commit(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem> {
        self.1.iter().for_each(|fate| fate.let_ask());
        self.0.commit(transfer, commit)
    }

    fn pace(&self) -> (Duration, Duration) {
        (Duration::ZERO, Duration::MAX)
    }

    fn replace(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem> {
        self.0.replace(transfer, commit)
    }

    fn remove(&self, transfer: TransferId) -> Result<(), Problem> {
        self.0.remove(transfer)
    }
}

/// A site of several target peers in this process, and the source of a transfer.
pub struct InProcessSite {
    base: Scratch,
    /// Root of the target, as the test sees it.
    pub target: PathBuf,
    peers: Arc<TestPeers>,
    all: Mutex<BTreeMap<String, Arc<TestPeer>>>,
    id: TransferId,
    /// Options of the transfer.
    pub options: TransferOptions,
    /// Size of an extent.
    pub extent_bytes: u64,
    /// Control and view of the run.
    pub control: Arc<RunControl>,
    /// The tenure of the controller of the next run.
    pub fence: Fence,
    /// Commits are made when one is urgent, never because time has passed.
    pub unhurried: bool,
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn store(name: &Name, path: &Path, read_only: bool) -> StoreSpec {
    StoreSpec {
        name: name.clone(),
        kind: StoreKind::Posix(path.to_owned()),
        read_only,
        ephemeral: false,
        allow_privileged: true,
        io: IoMode::Auto,
        mapped: false,
    }
}

impl InProcessSite {
    /// Makes a site without peers, whose grants last for `grant`.
    pub fn new(grant: Duration) -> Self {
        let base = Scratch::on_disk();
        fs::create_dir(base.path().join("src")).unwrap();
        fs::create_dir(base.path().join("dst")).unwrap();
        Self {
            target: base.path().join("dst"),
            base,
            peers: Arc::new(TestPeers {
                members: Mutex::default(),
                grant: Mutex::new(grant),
                clock: Mutex::default(),
                told: Mutex::default(),
            }),
            all: Mutex::default(),
            id: TransferId([7; 16]),
            options: TransferOptions::default(),
            extent_bytes: 1 << 20,
            control: Arc::default(),
            fence: Fence::default(),
            unhurried: false,
        }
    }

    /// Returns the root of the source.
    pub fn source(&self) -> PathBuf {
        self.base.path().join("src")
    }

    /// Returns the root of the target.
    pub fn target(&self) -> PathBuf {
        self.target.clone()
    }

    fn stores(&self, target: &Path) -> Arc<Stores> {
        Arc::new(Stores::new([
            store(&name("source"), &self.source(), !self.options.remove_source),
            store(&name("target"), target, false),
        ]))
    }

    /// Adds a peer. None of them is the controller's own, so that all have grants.
    pub fn join(&self, peer: &str) -> Arc<Fate> {
        self.join_at(peer, &self.target)
    }

    /// Adds a peer with the target at a place of its own.
    pub fn join_at(&self, peer: &str, target: &Path) -> Arc<Fate> {
        let service = TargetService::new(self.stores(target), None, SocketOptions::default());
        let fate = Arc::<Fate>::default();
        let test = Arc::new(TestPeer { service, fate: Arc::clone(&fate) });
        self.all.lock().unwrap().insert(peer.to_owned(), Arc::clone(&test));
        let id = PeerId { site: name("hpc"), peer: name(peer) };
        self.peers.members.lock().unwrap().push(Member {
            name: peer.to_owned(),
            writer: WriterId::of(&id),
            instance: 1,
            is_own: false,
            is_draining: false,
            peer: test,
        });
        fate
    }

    /// Changes the known facts about a peer.
    pub fn change(&self, peer: &str, change: impl Fn(&mut Member)) {
        let mut members = self.peers.members.lock().unwrap();
        members.iter_mut().filter(|member| member.name == peer).for_each(change);
    }

    /// Sets the grants of the next run.
    pub fn set_grant(&self, grant: Duration) {
        *self.peers.grant.lock().unwrap() = grant;
    }

    /// Holds the clock of the controller, or lets it resume from where it was held.
    pub fn hold_clock(&self, hold: bool) {
        let now = self.peers.now();
        let mut clock = self.peers.clock.lock().unwrap();
        clock.held = hold.then_some(now);
        let behind = penstock_sys::boottime_now().since(now);
        clock.behind = if hold { clock.behind } else { behind };
    }

    /// Returns the news of a peer's part, in order.
    pub fn told(&self, peer: &str) -> Vec<PartNews> {
        let told = self.peers.told.lock().unwrap();
        told.iter().filter(|(of, _)| of == peer).map(|(_, news)| news.clone()).collect()
    }

    /// Removes a peer.
    pub fn leave(&self, peer: &str) {
        self.peers.members.lock().unwrap().retain(|member| member.name != peer);
    }

    /// Sets a tenure for the controller of the next run, which is over when the returned flag is
    /// false.
    pub fn lead(&mut self, epoch: u64) -> Arc<AtomicBool> {
        let holds = Arc::new(AtomicBool::new(true));
        let tenure = Arc::clone(&holds);
        self.fence = Fence::new(epoch, Arc::new(move || tenure.load(Ordering::Acquire)));
        holds
    }

    /// Starts a run, or takes it up again.
    pub fn run(&self) -> JoinHandle<RunOutcome> {
        let state = self.base.path().join("state");
        fs::create_dir_all(&state).unwrap();
        let id = PeerId { site: name("lab"), peer: name("one") };
        let kept = state.join("source");
        let source = Arc::new(SourceService::new(self.stores(&self.target), &kept, id, None));
        let root = PathText(Vec::new());
        let request = ScanRequest {
            listing: 0,
            transfer: self.id,
            store: name("source"),
            root: root.clone(),
            slicing: Slicing::with_extent_bytes(self.extent_bytes),
            files_from: Vec::new(),
            select: self.options.select.settled(1),
            metadata_ops_per_s: None,
            preserve: self.options.preserve.clone(),
            owner_names: false,
            remove: self.options.remove_source,
            account: None,
            user: None,
        };
        source.open_scan(&request).unwrap();
        let heads = SqliteState::open(&state.join("state.db")).unwrap();
        let fates = self.all.lock().unwrap().values().map(|peer| Arc::clone(&peer.fate)).collect();
        let heads: Arc<dyn HeadStore> =
            if self.unhurried { Arc::new(Unhurried(heads, fates)) } else { Arc::new(heads) };
        let input = RunInput {
            id: self.id,
            listing: 0,
            is_new_target: false,
            options: self.options.clone(),
            store: name("target"),
            root: root.clone(),
            pages: Box::new(OwnPages::new(source, self.id)),
            source: SourceAccess::Local { store: name("source"), root: root.clone() },
            find_source: None,
            peers: Arc::clone(&self.peers) as _,
            heads,
            journal: state.join("journal"),
            control: Arc::clone(&self.control),
            places: (root.clone(), root),
            known_rate: None,
            fence: self.fence.clone(),
            account: None,
        };
        std::thread::spawn(move || runner::run(input))
    }

    /// Counts the transfers that have a ledger.
    pub fn ledgers(&self) -> usize {
        let state = self.base.path().join("state/state.db");
        SqliteState::open(&state).unwrap().ledgers().unwrap().len()
    }

    /// Starts the run of a move whose controller leads until all is moved, and nothing is removed.
    pub fn run_until_moved(&mut self, epoch: u64, one: &Fate) -> JoinHandle<RunOutcome> {
        let tenure = self.lead(epoch);
        one.happens(At::LookAgain, move || tenure.store(false, Ordering::Release));
        self.run()
    }

    /// Returns the committed heads of the pages.
    pub fn heads(&self) -> Vec<PageHead> {
        let heads = SqliteState::open(&self.base.path().join("state/state.db")).unwrap();
        heads.load(self.id).unwrap().pages
    }

    /// Returns the name under which a peer makes an entry of the first page that is a link.
    pub fn temporary_name(&self, path: &str, peer: &str) -> OsString {
        let encoded = self.base.path().join("state/journal/pages/00000000.page");
        let encoded = fs::read(encoded).unwrap();
        let page = Page::decode(&encoded).unwrap();
        let mut entries = page.entries().iter();
        let index = entries.position(|entry| page.path(entry) == path.as_bytes()).unwrap();
        let entry = &page.entries()[index];
        let key = TemporaryKey {
            transfer: self.id,
            of: page_digest(&encoded),
            number: index as u32,
            size: entry.size,
            mtime: entry.mtime,
            identity: entry.identity,
            generation: 0,
            writer: WriterId::of(&PeerId { site: name("hpc"), peer: name(peer) }),
        };
        OsString::from_vec(temporary_name(&key).to_vec())
    }

    /// Waits for the end of a run: done, the trees the same, and nothing of ours left.
    pub fn end(&self, run: JoinHandle<RunOutcome>) {
        let outcome = run.join().unwrap();
        let view = self.control.view();
        assert_eq!(outcome, RunOutcome::Done, "{view:?}");
        self.compare();
    }

    /// Asserts that the trees are the same, and nothing of ours is left but the store's identity.
    pub fn compare(&self) {
        assert_same(&self.source(), &self.target());
        let private = self.target().join(OsStr::from_bytes(STORE_PRIVATE_NAME));
        let private = fs::read_dir(private).unwrap();
        let private: Vec<_> = private.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(private, ["store"], "a marker is left");
    }
}
