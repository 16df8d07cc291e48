//! The manager with scripted runs: each test plays the runner.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::peers::OnePeer;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::proof::{Document, ProofProgress};
use penstock_api::receipt::{ReceiptBody, ReceiptSignature, ReceiptSigner, Role};
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::request::{PeerReply, SourceRequest, TargetRequest};
use penstock_api::rest::{Action, OrphanKind, PieceMap, Steering};
use penstock_api::scan::{
    DigestWish, PageReply, RecheckRequest, RootKind, ScanRequest, SourcePeer, WishedDigests,
};
use penstock_api::task::{Room, TargetPeer, Task, TaskControl, TaskSpec};
use penstock_api::transfer::{
    LANES_MAX, PathText, Progress, TransferOptions, TransferReport, TransferRequest, TransferState,
};
use penstock_cluster::state::SqliteState;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::network::DataAddress;

use super::*;
use crate::runner::piece_map_of_totals;
use crate::runner::{RunInput, RunOutcome, RunView};
use crate::sites::{RemoteScan, SiteClient};
use penstock_api::rest::Event;
use penstock_engine::queue::Limits;

mod admission;
mod cancelled;
mod list;
mod pauses;
mod queue_rules;
mod receipt;
mod users;

/// Every root is a directory; nothing is there at the target.
#[derive(Default)]
struct FakePeer {
    released: Mutex<Vec<TransferId>>,
    cleaned: Mutex<Vec<TransferId>>,
    /// The sites and addresses from which the peer was to expect data, and the number of lanes.
    expected: Mutex<Vec<(String, Vec<DataAddress>, u32)>>,
    /// True while nothing can be cleaned.
    offline: AtomicBool,
    /// Bytes that are free at the target.
    free: AtomicU64,
    /// The number of times that the free space was asked for.
    looks: AtomicU64,
    /// Problems that the peer returns instead of opening a scan, one after the other.
    says: Mutex<VecDeque<Problem>>,
    /// The next look at a root waits.
    held: Mutex<Option<Held>>,
}

/// Reports that this point is reached, and waits until the test lets it continue.
struct Held {
    reached: Sender<()>,
    go_on: Receiver<()>,
}

impl Held {
    fn new() -> (Self, Receiver<()>, Sender<()>) {
        let ((reached, was_reached), (let_go, go_on)) = (mpsc::channel(), mpsc::channel());
        (Self { reached, go_on }, was_reached, let_go)
    }

    /// Waits if the next one is to; returns whether it did.
    fn pass(next: &Mutex<Option<Self>>) -> bool {
        let Some(held) = next.lock().unwrap().take() else { return false };
        held.reached.send(()).unwrap();
        // The thread continues when the test has dropped the other end.
        let _ = held.go_on.recv();
        true
    }
}

fn unused<T>() -> Result<T, Problem> {
    Err(Problem::new(ProblemCode::Internal, "not used in these tests").exit(Exit::Fatal))
}

impl SourcePeer for FakePeer {
    fn call(&self, request: SourceRequest<'_>) -> Result<PeerReply, Problem> {
        match request {
            SourceRequest::OpenScan(_) => {
                let says = self.says.lock().unwrap().pop_front();
                says.map_or(Ok(PeerReply::Opened(RootKind::Directory)), Err)
            }
            SourceRequest::Page { .. } => Ok(PeerReply::Page(PageReply::NotYet)),
            SourceRequest::Release { transfer } => {
                self.released.lock().unwrap().push(transfer);
                Ok(PeerReply::Done)
            }
            _ => unused(),
        }
    }
}

impl TargetPeer for FakePeer {
    fn call(&self, request: TargetRequest<'_>, _: &ProofProgress) -> Result<PeerReply, Problem> {
        match request {
            TargetRequest::RootKind { .. } => {
                Held::pass(&self.held);
                Ok(PeerReply::RootKind(None))
            }
            TargetRequest::Room { .. } => {
                let free_bytes = self.free.load(Ordering::Acquire);
                self.looks.fetch_add(1, Ordering::AcqRel);
                Ok(PeerReply::Room(Room { free_bytes, free_files: None }))
            }
            TargetRequest::CleanMarker { spec, .. } => {
                if self.offline.load(Ordering::Acquire) {
                    let title = "store `s` is offline";
                    return Err(Problem::new(ProblemCode::StoreOffline, title));
                }
                self.cleaned.lock().unwrap().push(spec.transfer);
                Ok(PeerReply::Done)
            }
            _ => unused(),
        }
    }

    fn find_surplus(&self, _: &TaskSpec, _: SurplusQuery<'_>) -> Result<u64, Problem> {
        unused()
    }

    fn delete(&self, _: &TaskSpec, _: DeleteOrder<'_>) -> Result<(), Problem> {
        unused()
    }

    fn start(&self, _: &TaskSpec, _: Arc<dyn TaskControl>) -> Result<Arc<dyn Task>, Problem> {
        unused()
    }

    fn expect_source(&self, _: &Name, site: &Name, peers: &[DataAddress], lanes_max: u32) {
        self.expected.lock().unwrap().push((site.to_string(), peers.to_vec(), lanes_max));
    }
}

/// Returns the address at which `lab` accepts lanes; it is far away.
fn far() -> DataAddress {
    let (peer, address) = ("dtn1".parse().unwrap(), "192.0.2.1:7".parse().unwrap());
    DataAddress { peer, address, network: None, rate_bits_per_s: None }
}

/// A second site, `lab`, that owns the transfers that the test names.
#[derive(Default)]
struct FakeSites {
    owned: Mutex<BTreeMap<TransferId, TransferReport>>,
    /// The number of times that the site was asked for a transfer.
    shows: AtomicU64,
    /// Number of its process, with each scan.
    instance: AtomicU64,
    /// Problems that the site returns instead of signing a receipt, one after the other.
    says: Mutex<VecDeque<Problem>>,
    /// The next question waits, and has no answer then.
    held: Mutex<Option<Held>>,
}

fn silent() -> Problem {
    Problem::new(ProblemCode::SiteUnreachable, "site `lab` cannot be reached")
}

fn signature(role: Role) -> ReceiptSignature {
    ReceiptSignature {
        role,
        site: if role == Role::Source { "lab" } else { "hpc" }.parse().unwrap(),
        vouches: role.vouches(),
        algorithm: "ed25519".to_owned(),
        key: String::new(),
        authority: String::new(),
        certification: String::new(),
        signature: String::new(),
    }
}

struct FakeSigner;

impl ReceiptSigner for FakeSigner {
    fn sign(&self, _: &ReceiptBody, role: Role) -> Result<ReceiptSignature, Problem> {
        Ok(signature(role))
    }
}

impl SiteClient for FakeSites {
    fn is_paired(&self, site: &Name) -> bool {
        site.as_str() == "lab"
    }

    fn submit(
        &self,
        _: &Name,
        request: &TransferRequest,
        _: Option<&Name>,
    ) -> Result<TransferReport, Problem> {
        let view = TransferReport {
            files_from_count: 0,
            not_before: request.not_before,
            attempts: Default::default(),
            id: request.id,
            source: request.source.clone(),
            target: request.target.clone(),
            options: request.options.clone(),
            owner: None,
            label: String::new(),
            priority: None,
            urgent: false,
            deadline: None,
            state: TransferState::Running,
            waiting: None,
            reason: String::new(),
            created: 1,
            progress: Default::default(),
            exit: None,
            failures: Vec::new(),
            durable_by: String::new(),
        };
        self.owned.lock().unwrap().insert(request.id, view.clone());
        Ok(view)
    }

    fn source_peers(&self, _: &Name, _: &Name) -> Result<Vec<DataAddress>, Problem> {
        Ok(Vec::new())
    }

    fn show(&self, _: &Name, id: TransferId) -> Result<TransferReport, Problem> {
        self.shows.fetch_add(1, Ordering::AcqRel);
        if Held::pass(&self.held) {
            return Err(silent());
        }
        self.owned.lock().unwrap().get(&id).cloned().ok_or_else(|| unknown(id))
    }

    fn news(
        &self,
        site: &Name,
        id: TransferId,
        _: TransferState,
        _: u32,
    ) -> Result<TransferReport, Problem> {
        self.show(site, id)
    }

    fn piece_map(&self, site: &Name, id: TransferId) -> Result<PieceMap, Problem> {
        let view = self.show(site, id)?;
        Ok(piece_map_of_totals(&view.progress, view.state))
    }

    fn act(&self, _: &Name, id: TransferId, _: Steering) -> Result<TransferReport, Problem> {
        self.show(&"lab".parse().unwrap(), id)
    }

    fn change(
        &self,
        _: &Name,
        id: TransferId,
        patch: &TransferPatch,
    ) -> Result<TransferReport, Problem> {
        let mut view = self.show(&"lab".parse().unwrap(), id)?;
        view.options.limits.rate_bits_per_s = patch.rate().flatten();
        Ok(view)
    }

    fn document(
        &self,
        _: &Name,
        _: TransferId,
        _: Document,
        _: &mut dyn Write,
    ) -> Result<(), Problem> {
        unused()
    }

    fn plan(
        &self,
        _: &Name,
        _: &TransferRequest,
        _: Option<&Name>,
        _: &mut dyn Write,
    ) -> Result<(), Problem> {
        unused()
    }

    fn put_plan(&self, _: &Name, _: &Name, _: TransferId, _: u64, _: &[u8]) -> Result<(), Problem> {
        unused()
    }

    fn countersign(
        &self,
        _: &Name,
        _: &ReceiptBody,
        _: Option<&Name>,
    ) -> Result<ReceiptSignature, Problem> {
        let says = self.says.lock().unwrap().pop_front();
        says.map_or_else(|| Ok(signature(Role::Source)), Err)
    }

    fn data_networks(&self, _: &Name) -> Option<BTreeSet<Name>> {
        Some(["fast0".parse().unwrap()].into())
    }

    fn far_data(&self, _: &Name) -> Vec<DataAddress> {
        vec![far()]
    }

    fn open_scan(&self, _: &Name, _: &ScanRequest) -> Result<RemoteScan, Problem> {
        let (root, instance) = (RootKind::Directory, self.instance.load(Ordering::Acquire));
        Ok(RemoteScan { root, capability: vec![1], peers: Vec::new(), instance })
    }

    fn page(&self, _: &Name, _: TransferId, _: u32, _: u32) -> Result<PageReply, Problem> {
        unused()
    }

    fn ask(&self, _: &Name, _: TransferId, _: &RecheckRequest) -> Result<u32, Problem> {
        unused()
    }

    fn digests(
        &self,
        _: &Name,
        _: TransferId,
        _: &DigestWish,
        _: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        unused()
    }

    fn remove(
        &self,
        _: &Name,
        _: TransferId,
        _: &[u8],
        _: &RemoveOrder,
    ) -> Result<RemoveReply, Problem> {
        unused()
    }

    fn release(&self, _: &Name, _: TransferId) -> Result<(), Problem> {
        if Held::pass(&self.held) { Err(silent()) } else { Ok(()) }
    }
}

/// A run whose end the test decides.
type Call = (RunInput, Sender<RunOutcome>);

struct World {
    directory: tempfile::TempDir,
    peer: Arc<FakePeer>,
    sites: Arc<FakeSites>,
    calls: Receiver<Call>,
    manager: Manager,
    running_max: usize,
    retry_most: Duration,
}

fn start(
    directory: &tempfile::TempDir,
    peer: &Arc<FakePeer>,
    sites: &Arc<FakeSites>,
    (running_max, retry_most): (usize, Duration),
) -> (Manager, Receiver<Call>) {
    let (calls, receiver) = mpsc::channel();
    let config = ManagerConfig {
        limits: Limits::of_site(running_max as u32),
        retry_least: Duration::from_millis(1),
        retry_most,
        restart_least: Duration::ZERO,
        ..ManagerConfig::new("hpc".parse().unwrap(), directory.path().join("journal"))
    };
    let calls = Mutex::new(calls);
    let only = Arc::clone(peer) as Arc<dyn TargetPeer>;
    let parts = ManagerParts {
        state: Arc::new(SqliteState::open(&directory.path().join("state.db")).unwrap()),
        source: Arc::clone(peer) as _,
        target: Arc::clone(peer) as _,
        peers: Arc::new(move |_: &Name, _: Option<&Name>| {
            Arc::new(OnePeer(Arc::clone(&only))) as _
        }),
        lanes: Arc::new(|_: &ScanRequest| None),
        own_peers: Arc::new(|_: &Name| Vec::new()),
        sites: Arc::clone(sites) as _,
        signer: Arc::new(FakeSigner),
        run: Arc::new(move |input| {
            let (end, ended) = mpsc::channel();
            // A test that is over needs no more runs.
            let _ = calls.lock().unwrap().send((input, end));
            ended.recv().unwrap_or(RunOutcome::Paused)
        }),
        directory: Arc::new(|_| None),
        fence: Default::default(),
    };
    (Manager::start(config, parts).unwrap(), receiver)
}

impl World {
    fn new(running_max: usize) -> Self {
        Self::with_retries(running_max, Duration::from_millis(5))
    }

    /// Makes a manager that retries after `retry_most` at the latest, and looks for room at a full
    /// target four times as often.
    fn with_retries(running_max: usize, retry_most: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (peer, sites) = (Arc::default(), Arc::default());
        let (manager, calls) = start(&directory, &peer, &sites, (running_max, retry_most));
        Self { directory, peer, sites, calls, manager, running_max, retry_most }
    }

    /// Restarts the manager as after a restart of the daemon; `clean` is as after SIGTERM, else as
    /// after `kill -9`.
    fn restart(&mut self, ends: Vec<Sender<RunOutcome>>, clean: bool) {
        if clean {
            // A run that waits for its end cannot stop before; one that only makes a receipt can.
            let stopped = self.manager.stop(Duration::ZERO);
            assert!(!stopped || ends.is_empty(), "a run has not ended");
            drop(ends);
            assert!(self.manager.stop(Duration::from_secs(60)));
        } else {
            // Its runs never end, as if the process were gone.
            std::mem::forget(ends);
        }
        let limits = (self.running_max, self.retry_most);
        let (manager, calls) = start(&self.directory, &self.peer, &self.sites, limits);
        std::mem::forget(std::mem::replace(&mut self.manager, manager));
        self.calls = calls;
    }

    fn submit(&self, id: u8, source: &str, target: &str) -> Result<TransferReport, Problem> {
        self.manager.submit(&request(id, source, target), &Caller::local()).map(|(view, _)| view)
    }

    fn act(&self, id: u8, action: Action) -> Result<TransferReport, Problem> {
        self.manager.act(TransferId([id; 16]), action, &Caller::local())
    }

    fn call(&self) -> Call {
        self.calls.recv_timeout(Duration::from_secs(60)).expect("a run begins")
    }

    /// Ends a run as [`full`] does, and waits until the manager has asked for the room that was not
    /// enough. Room that comes earlier would count as part of it, and never as more.
    fn fill(&self, call: Call, durable_mib: u64) {
        let before = self.peer.looks.load(Ordering::Acquire);
        full(call, durable_mib);
        let end = Instant::now() + Duration::from_secs(60);
        while self.peer.looks.load(Ordering::Acquire) == before {
            assert!(Instant::now() < end, "the manager never asks for the room");
            std::thread::yield_now();
        }
    }

    /// Waits until a transfer is in a state; looks whenever an event comes.
    fn wait(&self, id: u8, state: TransferState) -> TransferReport {
        let mut events = self.manager.events();
        for _ in 0..6000 {
            let view = self.manager.show(TransferId([id; 16]), &Caller::local()).unwrap();
            if view.state == state {
                return view;
            }
            // An end between the look and the subscription shows at the next tick.
            match events.try_next() {
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        panic!("transfer {id} never was {state:?}");
    }
}

/// Returns the next event if there is one; a reader of a test misses none.
fn try_event(events: &mut EventReader) -> Option<Event> {
    events.try_next().map(|next| match next {
        NextEvent::Event(_, told) => told.event.clone(),
        NextEvent::Missed => panic!("events were missed"),
    })
}

/// Waits for the next event.
fn next_event(events: &mut EventReader) -> Event {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    match runtime.block_on(events.next()) {
        Some(NextEvent::Event(_, told)) => told.event.clone(),
        other => panic!("{other:?}"),
    }
}

fn request(id: u8, source: &str, target: &str) -> TransferRequest {
    let (source, target) = (source.parse().unwrap(), target.parse().unwrap());
    TransferRequest::new(TransferId([id; 16]), source, target, Default::default())
}

fn temporary() -> RunOutcome {
    RunOutcome::Failed(Problem::new(ProblemCode::StoreOffline, "store `s` is offline"))
}

fn fatal() -> RunOutcome {
    RunOutcome::Failed(Problem::new(ProblemCode::SomeFailed, "2 of 3 items failed"))
}

/// B8: two transfers never write to one place; the refusal names the other, and the place is free
/// once that has ended.
#[test]
fn b8_overlapping_targets_are_refused() {
    let world = World::new(4);
    world.submit(1, "lab:raw/run7/", "hpc:s/a/b").unwrap();
    for target in ["hpc:s/a/b", "hpc:s/a/b/c", "hpc:s/"] {
        let problem = world.submit(2, "lab:raw/other/", target).unwrap_err();
        assert_eq!(
            (&problem.code, problem.exit),
            (&ProblemCode::Overlap, Exit::Refused),
            "{target}"
        );
        assert!(problem.title.contains(&TransferId([1; 16]).to_string()));
    }
    world.submit(3, "lab:raw/other/", "hpc:s/a/bc").unwrap();
    world.submit(4, "lab:raw/other/", "hpc:t/a/b").unwrap();
    let mut ends = BTreeMap::new();
    for _ in 0..3 {
        let (input, end) = world.call();
        ends.insert(input.id, end);
    }
    ends[&TransferId([1; 16])].send(RunOutcome::Done).unwrap();
    world.wait(1, TransferState::Done);
    world.submit(5, "lab:raw/other/", "hpc:s/a/b").unwrap();
}

/// Promise: the first byte does not wait for one round trip after another: the target learns the
/// addresses of its source when the source's site is asked, and not if there is nothing to fetch.
#[test]
fn the_target_hears_from_where_it_will_fetch() {
    let world = World::new(4);
    let mut few = request(1, "lab:raw/run7/", "hpc:s/a");
    few.options.lanes_max = 3;
    world.manager.submit(&few, &Caller::local()).unwrap();
    world.call().1.send(RunOutcome::Done).unwrap();
    // A connection ahead would lead over any network.
    let mut over = request(3, "lab:raw/run7/", "hpc:s/c");
    over.options.networks = vec!["fast0".parse().unwrap()];
    world.manager.submit(&over, &Caller::local()).unwrap();
    world.call().1.send(RunOutcome::Done).unwrap();
    world.submit(2, "hpc:t/run7/", "hpc:s/b").unwrap();
    world.call().1.send(RunOutcome::Done).unwrap();
    assert_eq!(*world.peer.expected.lock().unwrap(), [("lab".to_owned(), vec![far()], 3)]);
}

/// B8, C4: a site that may not see the transfer that is in its way learns neither id nor path of
/// it.
#[test]
fn b8_a_refusal_tells_a_site_nothing_of_others() {
    let world = World::new(4);
    let lab = Caller::site("lab".parse().unwrap());
    world.submit(1, "hpc:t/secret/", "hpc:s/a/b").unwrap();
    let overlap = request(2, "lab:raw/a", "hpc:s/");
    let problem = world.manager.submit(&overlap, &lab).unwrap_err();
    assert_eq!((&problem.code, problem.exit), (&ProblemCode::Overlap, Exit::Refused));
    let told = format!("{problem:?}");
    assert!(!told.contains("0101") && !told.contains("a/b"), "{told}");
    world.submit(3, "lab:raw/a/", "hpc:s/c").unwrap();
    let own = request(4, "lab:raw/b", "hpc:s/c/d");
    let problem = world.manager.submit(&own, &lab).unwrap_err();
    assert!(problem.title.contains(&TransferId([3; 16]).to_string()), "{problem}");
}

/// B8: a data set is never moved into itself or over its own source; exit 6.
#[test]
fn b8_source_and_target_that_overlap_are_refused() {
    let world = World::new(4);
    for (source, target) in [
        ("hpc:s/a", "hpc:s/a/b"),
        ("hpc:s/a/b", "hpc:s/a"),
        ("hpc:s/a/", "hpc:s/a"),
        ("hpc:s/a", "hpc:s/"),
        ("hpc:s/", "hpc:s/x"),
    ] {
        let problem = world.submit(1, source, target).unwrap_err();
        assert_eq!(
            (problem.code.as_str(), problem.exit),
            ("same-place", Exit::Refused),
            "{source}"
        );
    }
    world.submit(2, "hpc:s/a", "hpc:s/b").unwrap();
    assert_eq!(world.call().0.root, PathText(b"b/a".to_vec()));
}

/// Promise: the same submission again is the same transfer, and an id is of one transfer for ever.
#[test]
fn submission_is_idempotent() {
    let world = World::new(4);
    let first = request(1, "lab:raw/a", "hpc:s/x");
    assert!(world.manager.submit(&first, &Caller::local()).unwrap().1);
    assert!(!world.manager.submit(&first, &Caller::local()).unwrap().1);
    let problem = world.submit(1, "lab:raw/a", "hpc:s/y").unwrap_err();
    assert_eq!(problem.code, ProblemCode::IdTaken);
    let problem = world.submit(2, "spy:raw/a", "hpc:s/y").unwrap_err();
    assert_eq!(problem.exit, Exit::NotAuthorised);
    let mut climbing = request(3, "lab:raw/a", "hpc:s/z");
    climbing.target.path = PathText(b"../z".to_vec());
    assert_eq!(world.manager.submit(&climbing, &Caller::local()).unwrap_err().exit, Exit::Usage);
}

/// Promise: lanes and pieces that an expert sets are checked when a request arrives. Our own client
/// keeps to the limits, but another client may not.
#[test]
fn lanes_and_pieces_out_of_their_bounds_are_refused() {
    let world = World::new(4);
    let options = |lanes, piece_bytes| TransferOptions { lanes, piece_bytes, ..Default::default() };
    for bad in [options(LANES_MAX + 1, 0), options(0, 1 << 19), options(0, (1 << 20) + 1)] {
        let mut request = request(1, "lab:raw/a", "hpc:s/x");
        request.options = bad;
        assert_eq!(world.manager.submit(&request, &Caller::local()).unwrap_err().exit, Exit::Usage);
    }
    let mut good = request(1, "lab:raw/a", "hpc:s/x");
    good.options = options(LANES_MAX, 1 << 20);
    assert!(world.manager.submit(&good, &Caller::local()).unwrap().1);
}

/// Promise (f): a temporary failure is tried again by itself, with reason and time shown.
#[test]
fn temporary_failures_are_retried() {
    let world = World::new(4);
    let mut events = world.manager.events();
    world.submit(1, "lab:raw/a", "hpc:s/x").unwrap();
    for _ in 0..3 {
        world.call().1.send(temporary()).unwrap();
    }
    let (_, end) = world.call();
    let mut reasons = Vec::new();
    let mut errors = 0;
    while let Some(event) = try_event(&mut events) {
        match &event {
            Event::Status(status) => reasons.push(status.reason.clone()),
            Event::Error(error) => {
                errors += u32::from(error.problem.code == ProblemCode::StoreOffline)
            }
            Event::Summary(_) | Event::Reset => {}
        }
    }
    assert!(errors >= 2, "errors are told as they happen: {errors}");
    let shown = reasons.iter().any(|reason| {
        reason.contains("store `s` is offline") && reason.contains("next attempt in")
    });
    assert!(shown, "{reasons:?}");
    end.send(RunOutcome::Done).unwrap();
    let view = world.wait(1, TransferState::Done);
    assert_eq!((view.exit, view.reason.as_str()), (Some(Exit::Done), ""));
}

/// Ends a run whose target is full, with `durable_mib` of 1000 MiB durable.
fn full((input, end): Call, durable_mib: u64) {
    show_durable(&input, durable_mib);
    let problem = Problem::new(ProblemCode::TargetFull, "peer `h2`: the target is full");
    end.send(RunOutcome::Failed(problem.hint("make room"))).unwrap();
}

fn show_durable(input: &RunInput, durable_mib: u64) {
    let (bytes_found, bytes_durable) = (1000 << 20, durable_mib << 20);
    let progress = Progress { bytes_found, bytes_durable, ..Progress::default() };
    input.control.show(RunView { progress, ..RunView::default() });
}

/// Promise (f), E3: a transfer that waits for a full target has one state, one reason and one
/// event, however often it is retried. The transfer runs as soon as there is room.
#[test]
fn f_a_full_target_is_one_reason_until_there_is_room() {
    // On a busy machine, threads wake some milliseconds late: a look has to come before an attempt.
    let world = World::with_retries(4, Duration::from_millis(400));
    let mut events = world.manager.events();
    world.peer.free.store(3 << 20, Ordering::Release);
    world.submit(1, "lab:raw/a", "hpc:s/x").unwrap();
    full(world.call(), 200);
    let first = world.wait(1, TransferState::Queued);
    for text in ["peer `h2`: the target is full", "`s` has 3.0 MiB free", "800.0 MiB", "make room"]
    {
        assert!(first.reason.contains(text), "{}", first.reason);
    }
    for _ in 0..3 {
        let call = world.call();
        let view = world.manager.show(call.0.id, &Caller::local()).unwrap();
        assert_eq!((view.state, &view.reason), (first.state, &first.reason));
        assert_eq!(view.progress.bytes_durable, 200 << 20);
        world.fill(call, 200);
    }
    let before = world.peer.looks.load(Ordering::Acquire);
    let begun = Instant::now();
    let end = loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "no look sees that there is room");
        world.peer.free.fetch_add(100 << 20, Ordering::AcqRel);
        let (input, end) = world.call();
        let view = world.manager.show(input.id, &Caller::local()).unwrap();
        if view.state == TransferState::Running {
            assert_eq!(view.reason, "");
            break end;
        }
        // An attempt was due before the next look.
        world.fill((input, end), 200);
    };
    assert!(world.peer.looks.load(Ordering::Acquire) > before, "it is looked before it is tried");
    let (mut errors, mut queued) = (0, BTreeSet::new());
    while let Some(event) = try_event(&mut events) {
        match &event {
            Event::Error(error) => {
                errors += u32::from(error.problem.code == ProblemCode::TargetFull)
            }
            Event::Status(status) if status.state == TransferState::Queued => {
                queued.insert(status.reason.clone());
            }
            _ => {}
        }
    }
    queued.remove("");
    assert_eq!((errors, queued), (1, BTreeSet::from([first.reason])));
    end.send(RunOutcome::Done).unwrap();
    world.wait(1, TransferState::Done);
}

/// Promise (f): room that the file system does not report, as of a quota, is found by attempts. The
/// visible state is *running* once more of the transfer is durable. A pause or a cancel meanwhile
/// takes effect.
#[test]
fn f_room_that_nobody_tells_of_is_found_by_trying() {
    let world = World::new(4);
    world.peer.free.store(5000 << 20, Ordering::Release);
    world.submit(1, "lab:raw/a", "hpc:s/x").unwrap();
    full(world.call(), 200);
    let first = world.wait(1, TransferState::Queued);
    let (input, end) = world.call();
    show_durable(&input, 200);
    let view = world.manager.show(input.id, &Caller::local()).unwrap();
    assert_eq!((view.state, view.reason), (first.state, first.reason));
    show_durable(&input, 300);
    assert_eq!(world.wait(1, TransferState::Running).reason, "");
    full((input, end), 400);
    world.wait(1, TransferState::Queued);
    let (_, end) = world.call();
    world.act(1, Action::Pause).unwrap();
    end.send(RunOutcome::Paused).unwrap();
    // The transfer may still be pausing.
    assert!(world.wait(1, TransferState::Paused).reason.starts_with("paus"));
    world.act(1, Action::Resume).unwrap();
    full(world.call(), 400);
    world.act(1, Action::Cancel).unwrap();
    // The transfer may have started just before.
    let state = || world.manager.show(TransferId([1; 16]), &Caller::local()).unwrap().state;
    let begun = Instant::now();
    while state() != TransferState::Cancelled {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is not cancelled");
        if let Ok((_, end)) = world.calls.recv_timeout(Duration::from_millis(50)) {
            let _ = end.send(RunOutcome::Cancelled);
        }
    }
}

/// Promise (d): queued and running transfers continue after `kill -9`. Paused ones stay paused, and
/// finished ones stay finished.
#[test]
fn a_restart_goes_on_where_it_was() {
    let mut world = World::new(1);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    world.call().1.send(RunOutcome::Done).unwrap();
    world.wait(1, TransferState::Done);
    world.submit(2, "lab:raw/a", "hpc:s/2").unwrap();
    let (input, end) = world.call();
    world.submit(3, "lab:raw/a", "hpc:s/3").unwrap();
    world.submit(4, "lab:raw/a", "hpc:s/4").unwrap();
    world.act(4, Action::Pause).unwrap();
    world.restart(vec![end], false);
    let (again, end) = world.call();
    assert_eq!((again.id, &again.root), (input.id, &input.root));
    let queued = world.wait(3, TransferState::Queued);
    assert!(queued.reason.contains("waiting for its turn"), "{}", queued.reason);
    world.wait(4, TransferState::Paused);
    world.wait(1, TransferState::Done);
    world.restart(vec![end], true);
    let (again, end) = world.call();
    assert_eq!(again.id, input.id, "the daemon's own end pauses nothing");
    end.send(RunOutcome::Done).unwrap();
    assert_eq!(world.call().0.id, TransferId([3; 16]));
    world.wait(2, TransferState::Done);
    world.act(4, Action::Resume).unwrap();
}

/// Promise: pause, resume and cancel take effect, running or not, and the order survives a crash.
#[test]
fn wishes_are_followed_and_outlive_a_crash() {
    let mut world = World::new(4);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (_, end) = world.call();
    assert!(world.act(1, Action::Pause).unwrap().reason.contains("pausing"));
    end.send(RunOutcome::Paused).unwrap();
    world.wait(1, TransferState::Paused);
    world.act(1, Action::Resume).unwrap();
    let (_, end) = world.call();
    world.act(1, Action::Pause).unwrap();
    world.restart(vec![end], false);
    world.wait(1, TransferState::Paused);
    assert!(world.act(1, Action::Retry).is_err());
    world.act(1, Action::Cancel).unwrap();
    world.wait(1, TransferState::Cancelled);
    assert_eq!(*world.peer.cleaned.lock().unwrap(), vec![TransferId([1; 16])]);
    world.submit(2, "lab:raw/a", "hpc:s/1").unwrap();
    let (_, end) = world.call();
    world.act(2, Action::Cancel).unwrap();
    assert!(world.act(2, Action::Pause).is_err(), "a cancel is not taken back");
    end.send(RunOutcome::Cancelled).unwrap();
    assert_eq!(world.wait(2, TransferState::Cancelled).exit, Some(Exit::Interrupted));
}

/// Promise (A13): a failed transfer keeps its ledger and can be retried. The retry lists all of its
/// source again, also after an end with failed items.
#[test]
fn a_failed_transfer_is_retried_by_the_user() {
    let world = World::new(4);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (input, end) = world.call();
    std::fs::create_dir_all(&input.journal).unwrap();
    let failed = r#"{"path":"x/y","code":"denied","message":"could not be read"}"#;
    std::fs::write(input.journal.join("failures.jsonl"), failed).unwrap();
    end.send(fatal()).unwrap();
    let view = world.wait(1, TransferState::Failed);
    let (exit, reason) = (view.exit, view.reason.as_str());
    assert_eq!((exit, reason), (Some(Exit::SomeFailed), "2 of 3 items failed"));
    assert!(input.journal.exists());
    world.submit(2, "lab:raw/b", "hpc:s/").unwrap();
    let (_, other) = world.call();
    assert_eq!(world.act(1, Action::Retry).unwrap().state, TransferState::Queued);
    let (again, end) = world.call();
    assert_eq!(again.root, input.root);
    assert_eq!(again.options.files_from, Vec::new());
    assert!(again.journal.exists(), "its ledger proves what is done");
    let mut events = world.manager.events();
    end.send(RunOutcome::Done).unwrap();
    while !matches!(next_event(&mut events), Event::Summary(_)) {}
    assert!(!input.journal.exists(), "the ledger of a done transfer is not kept");
    drop(other);
}

/// Promise (A13): a transfer whose source was restarted meanwhile is not done with the list from
/// before. It lists again, once for each restart, whether an attempt finds that at its begin or at
/// its end. A source of several peers, which reports no restarts, keeps its list.
#[test]
fn a13_a_restarted_source_lists_again() {
    let world = World::new(4);
    world.sites.instance.store(7, Ordering::Release);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (first, end) = world.call();
    world.sites.instance.store(8, Ordering::Release);
    end.send(RunOutcome::Done).unwrap();
    let (second, end) = world.call();
    assert_eq!((first.listing, second.listing), (0, 1));
    end.send(temporary()).unwrap();
    let (third, end) = world.call();
    assert_eq!(third.listing, 1);
    world.sites.instance.store(9, Ordering::Release);
    end.send(temporary()).unwrap();
    let (fourth, end) = world.call();
    assert_eq!(fourth.listing, 2);
    end.send(RunOutcome::Done).unwrap();
    world.wait(1, TransferState::Done);
    world.sites.instance.store(0, Ordering::Release);
    world.submit(2, "lab:raw/a", "hpc:s/2").unwrap();
    let (_, end) = world.call();
    end.send(RunOutcome::Done).unwrap();
    world.wait(2, TransferState::Done);
}

/// Promise: another site sees and steers only transfers that read from it, and submits only from
/// itself.
#[test]
fn other_sites_see_only_what_concerns_them() {
    let world = World::new(4);
    let (lab, spy) = (Caller::site("lab".parse().unwrap()), Caller::site("spy".parse().unwrap()));
    let request = request(1, "lab:raw/a", "hpc:s/1");
    let refused = world.manager.submit(&request, &spy).unwrap_err();
    assert_eq!(refused.exit, Exit::NotAuthorised);
    world.manager.submit(&request, &lab).unwrap();
    let (_, _end) = world.call();
    assert_eq!(world.manager.show(request.id, &lab).unwrap().id, request.id);
    assert_eq!(world.manager.show(request.id, &spy).unwrap_err().status, 404);
    assert_eq!(world.manager.act(request.id, Action::Cancel, &spy).unwrap_err().status, 404);
    assert_eq!(world.manager.resolve("0101", &Caller::local()).unwrap(), request.id);
    assert!(world.manager.resolve("02", &Caller::local()).is_err());
}

/// Promise: a transfer to another site is forwarded to it, and shown here with its state there. A
/// stub that its owner does not know is an orphan.
#[test]
fn foreign_transfers_are_forwarded_and_shown() {
    let world = World::new(4);
    world.submit(1, "hpc:s/a", "lab:raw/x").unwrap();
    let shown = |state| {
        let list = world
            .manager
            .list(&TransferFilter::default(), None, 10, &Caller::local())
            .unwrap()
            .items;
        assert_eq!((list.len(), list[0].state), (1, state));
    };
    shown(TransferState::Running);
    world.sites.owned.lock().unwrap().clear();
    let list = world.manager.orphans(false).unwrap();
    assert_eq!((list.len(), list[0].kind, list[0].removed), (1, OrphanKind::Stub, false));
    assert!(world.manager.orphans(true).unwrap()[0].removed);
    assert!(
        world
            .manager
            .list(&TransferFilter::default(), None, 10, &Caller::local())
            .unwrap()
            .items
            .is_empty()
    );
    assert_eq!(*world.peer.released.lock().unwrap(), vec![TransferId([1; 16])]);
}

/// C4: the database has the owner of each transfer, and so the site that may use its scan, also for
/// own transfers that have ended.
#[test]
fn c4_the_database_knows_whose_a_scan_is() {
    let world = World::new(4);
    world.submit(1, "hpc:s/a", "lab:raw/x").unwrap();
    world.submit(2, "hpc:s/a", "hpc:s/b").unwrap();
    world.call().1.send(RunOutcome::Done).unwrap();
    world.wait(2, TransferState::Done);
    let owner = |id| world.manager.owner(TransferId([id; 16])).unwrap();
    assert_eq!(owner(1), Some("lab".parse().unwrap()));
    assert_eq!(owner(2), Some("hpc".parse().unwrap()));
    assert_eq!(owner(3), None);
}

/// C4: an owner that shows another transfer than the one it was asked for changes nothing here, and
/// frees no pages but those of the one asked for.
#[test]
fn c4_an_owner_speaks_of_its_own_transfer_alone() {
    let world = World::new(4);
    world.submit(1, "hpc:s/a", "lab:raw/x").unwrap();
    let (asked, owner) = (TransferId([1; 16]), "lab".parse::<Name>().unwrap());
    let honest = world.sites.owned.lock().unwrap()[&asked].clone();
    let mut other = honest.clone();
    (other.id, other.state) = (TransferId([2; 16]), TransferState::Done);
    let mut elsewhere = honest;
    (elsewhere.target, elsewhere.state) = ("spy:raw/x".parse().unwrap(), TransferState::Done);
    for lie in [other, elsewhere] {
        world.sites.owned.lock().unwrap().insert(asked, lie);
        let view = world.manager.show(asked, &Caller::local()).unwrap();
        assert_eq!((view.id, view.state), (asked, TransferState::Running));
        assert!(view.reason.contains("showed another transfer"), "{}", view.reason);
        assert!(world.act(1, Action::Cancel).is_err());
    }
    world.sites.owned.lock().unwrap().clear();
    let view =
        world.manager.list(&TransferFilter::default(), None, 10, &Caller::local()).unwrap().items;
    assert_eq!(view.len(), 1);
    world.sites.submit(&owner, &request(3, "hpc:s/a", "spy:raw/x"), None).unwrap();
    world.manager.note_foreign(&owner, TransferId([3; 16]));
    assert_eq!(
        world
            .manager
            .list(&TransferFilter::default(), None, 10, &Caller::local())
            .unwrap()
            .items
            .len(),
        1
    );
    assert!(world.peer.released.lock().unwrap().is_empty());
}

/// Promise: files that belong to no transfer are found, and removed on request.
#[test]
fn orphans_are_found_and_removed() {
    let world = World::new(4);
    let id = TransferId([9; 16]);
    let journal = world.directory.path().join("journal").join(id.to_string());
    std::fs::create_dir_all(&journal).unwrap();
    let found = world.manager.orphans(false).unwrap();
    assert_eq!((found[0].id, found[0].kind), (id, OrphanKind::Journal));
    assert!(journal.exists());
    world.manager.orphans(true).unwrap();
    assert!(!journal.exists());
    assert!(world.manager.orphans(false).unwrap().is_empty());
}
