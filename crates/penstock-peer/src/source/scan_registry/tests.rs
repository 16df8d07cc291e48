//! ScanRegistry beside a store that hangs, or is not mounted.

use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::removal::RemoveOrder;
use penstock_api::scan::{PageReply, RecheckRequest, SourcePeer as _};
use penstock_store::IoMode;

use super::*;
use crate::source::SourceService;
use crate::stores::{StoreKind, StoreSpec};

/// The time that a store may take to answer here: longer than a busy machine may pause a process.
const LOOK: Duration = Duration::from_secs(8);

fn request(transfer: u8, store: &str) -> ScanRequest {
    ScanRequest {
        transfer: TransferId([transfer; 16]),
        listing: 0,
        store: store.parse().unwrap(),
        root: PathText::default(),
        slicing: Slicing::default(),
        files_from: Vec::new(),
        select: Selection::default(),
        metadata_ops_per_s: None,
        preserve: Preserve::default(),
        owner_names: false,
        remove: false,
        account: None,
        user: None,
    }
}

/// Stores of these names with a file each, and a peer that reaches them.
fn peer(work: &Path, names: [&str; 2]) -> (Arc<Stores>, Arc<SourceService>) {
    peer_of(work, names, "p", &work.join("state"))
}

/// Returns the same stores, and a peer of this name that keeps its scans in `state`.
fn peer_of(
    work: &Path,
    names: [&str; 2],
    peer: &str,
    state: &Path,
) -> (Arc<Stores>, Arc<SourceService>) {
    let specs = names.map(|name| {
        let path = work.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("file"), name).unwrap();
        StoreSpec {
            name: name.parse().unwrap(),
            kind: StoreKind::Posix(path),
            read_only: false,
            ephemeral: false,
            allow_privileged: false,
            io: IoMode::Auto,
            mapped: false,
        }
    });
    let stores = Arc::new(Stores::new(specs).looking_for(LOOK));
    let peer = PeerId { site: "a".parse().unwrap(), peer: peer.parse().unwrap() };
    let service = SourceService::new(Arc::clone(&stores), state, peer, None);
    (stores, Arc::new(service))
}

/// Starts looks at a store that do not return before the sender is dropped: as many as may hang in
/// it, so that the next look waits.
fn hang(stores: &Arc<Stores>, store: &str) -> std::sync::mpsc::Sender<()> {
    let (wake, woken) = channel::<()>();
    let woken: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(woken));
    let name: Name = store.parse().unwrap();
    for _ in 0..crate::stores::LOOKS_MAX {
        let (stores, name, woken) = (Arc::clone(stores), name.clone(), Arc::clone(&woken));
        let (hangs, hung) = channel();
        std::thread::spawn(move || {
            let look = move || {
                hangs.send(()).unwrap();
                drop(woken.lock().map(|woken| woken.recv()));
            };
            drop(stores.look(&name, look));
        });
        hung.recv().unwrap();
    }
    wake
}

/// Waits until so many scans are asked for.
fn until_asked(service: &SourceService, scans: usize) {
    while service.scans().table().len() < scans {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// E2: a store that hangs while a scan of it is opened delays neither scans of other stores nor the
/// end of a controllership. All its own requests get an error, and the store is used again when it
/// answers.
#[test]
fn e2_a_store_that_hangs_holds_up_its_own_scans_alone() {
    let work = tempfile::tempdir().unwrap();
    let (stores, service) = peer(work.path(), ["hung", "sound"]);
    let wake = hang(&stores, "hung");
    let began = Instant::now();
    let asked = [1, 1, 2].map(|transfer| {
        let service = Arc::clone(&service);
        std::thread::spawn(move || service.open_scan(&request(transfer, "hung")))
    });
    until_asked(&service, 2);
    service.open_scan(&request(3, "sound")).unwrap();
    assert!(!matches!(service.page(TransferId([3; 16]), 0, 1000), Err(_) | Ok(PageReply::End(_))));
    service.set_fence(Fence::new(7, Arc::new(|| true)));
    service.open_scan(&request(4, "sound")).unwrap();
    assert!(began.elapsed() < LOOK, "somebody has waited for the store that hangs");
    for asked in asked {
        let told = asked.join().unwrap().unwrap_err();
        assert_eq!(told.exit, Exit::Temporary, "{told}");
    }
    let told = service.open_scan(&request(5, "hung")).unwrap_err();
    assert_eq!((&told.code, told.exit), (&ProblemCode::StoreHung, Exit::Temporary));
    assert!(began.elapsed() < LOOK * 5, "it took {:?}", began.elapsed());
    drop(wake);
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(problem) = service.open_scan(&request(5, "hung")) {
        assert!(Instant::now() < deadline, "it answers, and nobody looks: {problem}");
        std::thread::sleep(Duration::from_millis(5));
    }
    service.page(TransferId([5; 16]), 0, 10_000).unwrap();
}

/// B4: a scan that was cancelled while it was opened is neither kept nor run when its store
/// answers.
#[test]
fn b4_what_was_given_up_while_it_was_opened_leaves_nothing() {
    let work = tempfile::tempdir().unwrap();
    let (stores, service) = peer(work.path(), ["slow", "sound"]);
    let wake = hang(&stores, "slow");
    let (asked, began) = (Arc::clone(&service), Instant::now());
    let asked = std::thread::spawn(move || asked.open_scan(&request(1, "slow")));
    until_asked(&service, 1);
    service.release(TransferId([1; 16]));
    assert_eq!(asked.join().unwrap().unwrap_err().code, ProblemCode::ScanGivenUp);
    assert!(began.elapsed() < LOOK, "the request has waited for the store");
    drop(wake);
    // The thread that opens it looks at the store now, and ends.
    let deadline = Instant::now() + Duration::from_secs(60);
    while Arc::strong_count(service.scans()) > 1 {
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!work.path().join("state").join(TransferId([1; 16]).to_string()).exists());
}

/// C4: a caller that knows a transfer's id and may read one store learns nothing about another
/// store by that.
#[test]
fn c4_an_id_opens_no_other_data_set() {
    let work = tempfile::tempdir().unwrap();
    let (_, service) = peer(work.path(), ["secret", "open"]);
    service.open_scan(&request(7, "secret")).unwrap();
    assert_eq!(service.open_scan(&request(7, "secret")), Ok(RootKind::Directory));
    let refused = service.open_scan(&request(7, "open")).unwrap_err();
    assert_eq!(refused.code, ProblemCode::ScanKnown);
}

/// Promise: a journal that cannot be read for a while does not count as one without the scan. The
/// transfer waits, instead of failing for a lost scan.
#[test]
fn a_journal_that_fails_has_lost_no_scan() {
    let work = tempfile::tempdir().unwrap();
    let (_, service) = peer(work.path(), ["secret", "open"]);
    let request = request(7, "open");
    let id = request.transfer;
    assert_eq!(service.page(id, 0, 0).unwrap_err().code, ProblemCode::ScanUnknown);
    service.open_scan(&request).unwrap();
    service.stop(id);
    // A directory cannot be read as a file, not even by root.
    let kept = work.path().join("state").join(id.to_string()).join("request.json");
    let aside = kept.with_extension("aside");
    fs::rename(&kept, &aside).unwrap();
    fs::create_dir(&kept).unwrap();
    let opened = service.open_scan(&request).map(drop);
    for failed in [service.page(id, 0, 0).map(drop), opened] {
        let problem = failed.unwrap_err();
        assert_eq!((&problem.code, problem.exit), (&ProblemCode::State, Exit::Temporary));
    }
    fs::remove_dir(&kept).unwrap();
    fs::rename(&aside, &kept).unwrap();
    // The scan that was stopped may not have ended yet.
    let began = Instant::now();
    while let Err(problem) = service.page(id, 0, 10_000) {
        assert_eq!(problem.exit, Exit::Temporary, "{problem:?}");
        assert!(began.elapsed() < 10 * LOOK, "{problem:?}");
    }
}

/// Waits until all of a scan is sealed.
fn until_listed(service: &SourceService, transfer: u8) -> u32 {
    let transfer = TransferId([transfer; 16]);
    for number in 0.. {
        while let PageReply::NotYet = match service.page(transfer, number, 1_000).unwrap() {
            PageReply::End(summary) => return summary.pages,
            reply => reply,
        } {}
    }
    unreachable!("a scan has an end");
}

/// A directory of another file system, mounted within a store while it is kept.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// Mounts `from` over `at`; `None`, with a message, where the test may not mount.
    fn over(from: &Path, at: &'a Path) -> Option<Self> {
        let mounted = Command::new("mount").arg("--bind").args([from, at]).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(at));
        }
        #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
        {
            eprintln!("SKIPPED: needs root to mount");
        }
        None
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// Asserts that the reply reports an offline store, so that the transfer waits.
fn assert_offline<T: std::fmt::Debug>(reply: Result<T, Problem>) {
    let told = reply.unwrap_err();
    assert_eq!((&told.code, told.exit), (&ProblemCode::StoreOffline, Exit::Temporary), "{told}");
}

/// C3: after a restart a file system within the store is not mounted yet. Its data sets wait,
/// whether they are all of it or a part, and none of their files counts as vanished. They continue
/// after the mount.
#[test]
fn c3_a_mount_within_a_store_that_is_missing_after_a_restart() {
    let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let (_, service) = peer(work.path(), ["disk", "whole"]);
    let at = work.path().join("disk/run7");
    fs::create_dir_all(&at).unwrap();
    fs::create_dir(other.path().join("part")).unwrap();
    fs::write(other.path().join("part/file"), "bytes").unwrap();
    let Some(mounted) = Mounted::over(other.path(), &at) else { return };
    let requests =
        [(1, "run7"), (2, "run7/part"), (3, "run7/part/file")].map(|(transfer, root)| {
            ScanRequest { root: PathText(root.into()), ..request(transfer, "disk") }
        });
    for (request, transfer) in requests.iter().zip(1..) {
        service.open_scan(request).unwrap();
        until_listed(&service, transfer);
    }
    drop((service, mounted));
    let (_, restarted) = peer(work.path(), ["disk", "whole"]);
    for request in &requests {
        for _ in 0..3 {
            assert_offline(restarted.open_scan(request));
            assert_offline(restarted.page(request.transfer, 0, 0));
        }
    }
    let _mounted = Mounted::over(other.path(), &at).unwrap();
    for request in &requests {
        restarted.open_scan(request).unwrap();
    }
}

/// C3: if the store is not mounted at the peer that continues a scan, the files below its path are
/// not listed as the rest of the data set. That holds if the store has an identity, and, as pages
/// are sealed, if it has none.
#[test]
fn c3_a_peer_without_the_mount_does_not_end_the_scan_of_another() {
    for has_identity in [true, false] {
        let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (stores, first) = peer(work.path(), ["disk", "whole"]);
        for directory in 0..10 {
            let at = work.path().join(format!("disk/{directory}"));
            fs::create_dir(&at).unwrap();
            (0..1000).for_each(|file| fs::write(at.join(file.to_string()), "").unwrap());
        }
        if has_identity {
            let Ok(Target::Posix(target)) = stores.target(&"disk".parse().unwrap(), None) else {
                panic!("it is a directory");
            };
            target.open_or_init_identity().unwrap();
        }
        // The peer is lost when it has sealed a page, and has more than a second of work left.
        let request = ScanRequest { metadata_ops_per_s: Some(4000), ..request(1, "disk") };
        first.open_scan(&request).unwrap();
        let page = first.page(request.transfer, 0, 60_000).unwrap();
        assert!(matches!(page, PageReply::Page(_)), "{page:?}");
        first.scans().stop_all();
        let state = work.path().join("state");
        let (_, next) = peer_of(other.path(), ["disk", "whole"], "q", &state);
        for _ in 0..3 {
            assert_offline(next.open_scan(&request));
        }
        let end = state.join(request.transfer.to_string()).join("end");
        assert!(!end.exists(), "identity: {has_identity}");
        let (_, again) = peer_of(work.path(), ["disk", "whole"], "q", &state);
        again.open_scan(&request).unwrap();
        assert!(until_listed(&again, 1) > 1, "identity: {has_identity}");
    }
}

/// C3: a store was mounted when this process first used it, and is unmounted now. The files below
/// its path are no data set for a new request either.
#[test]
fn c3_an_unmounted_store_is_not_listed_as_an_empty_one() {
    let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let (_, service) = peer(work.path(), ["disk", "whole"]);
    let at = work.path().join("disk");
    fs::write(other.path().join("file"), "bytes").unwrap();
    let Some(mounted) = Mounted::over(other.path(), &at) else { return };
    service.open_scan(&request(1, "disk")).unwrap();
    until_listed(&service, 1);
    drop(mounted);
    for transfer in 2..5 {
        assert_offline(service.open_scan(&request(transfer, "disk")));
    }
    let _mounted = Mounted::over(other.path(), &at).unwrap();
    service.open_scan(&request(5, "disk")).unwrap();
}

/// C3: a store is unmounted during the listing of a transfer. However often the transfer tries, it
/// waits for the store, and its data set does not count as missing. It continues after the new
/// mount.
#[test]
fn c3_a_store_that_is_unmounted_is_offline_at_each_attempt() {
    let work = tempfile::tempdir().unwrap();
    let (_, service) = peer(work.path(), ["disk", "whole"]);
    let (store, aside) = (work.path().join("disk"), work.path().join("aside"));
    fs::create_dir(store.join("set")).unwrap();
    fs::write(store.join("set/file"), "bytes").unwrap();
    let request = ScanRequest { root: PathText("set".into()), ..request(1, "disk") };
    service.open_scan(&request).unwrap();
    until_listed(&service, 1);
    // The directory as it is below a mount point.
    fs::rename(&store, &aside).unwrap();
    fs::create_dir(&store).unwrap();
    for _ in 0..5 {
        assert_offline(service.open_scan(&request));
    }
    fs::remove_dir(&store).unwrap();
    fs::rename(&aside, &store).unwrap();
    // The handle of the other directory fails once.
    let opened = service.open_scan(&request).or_else(|_| service.open_scan(&request));
    assert_eq!(opened, Ok(RootKind::Directory));
}

/// C3: a store that is mounted again, as another mount of the same file system, is used again.
/// Questions and orders to remove are answered, even if no other requests come.
#[test]
fn c3_a_store_that_is_mounted_anew_is_asked_again() {
    let work = tempfile::tempdir().unwrap();
    let (stores, service) = peer(work.path(), ["disk", "whole"]);
    let store = work.path().join("disk");
    let Target::Posix(target) = stores.target(&"disk".parse().unwrap(), None).unwrap() else {
        panic!("it is a directory");
    };
    target.open_or_init_identity().unwrap();
    let request = ScanRequest { remove: true, ..request(1, "disk") };
    service.open_scan(&request).unwrap();
    assert_eq!(until_listed(&service, 1), 1);
    let page = service.page(request.transfer, 0, 0).unwrap();
    let PageReply::Page(page) = page else { panic!("{page:?}") };
    let digest = penstock_proto::manifest::page_digest(&page).to_hex();
    let order = RemoveOrder { page: 0, digest, entries: vec![(1, 2)], below: 2 };
    let question = RecheckRequest { pages: 1, asked: Vec::new() };
    for asks in [true, false] {
        let aside = work.path().join(format!("aside-{asks}"));
        fs::rename(&store, &aside).unwrap();
        let copied = Command::new("cp").arg("--archive").args([&aside, &store]).status();
        assert!(copied.unwrap().success());
        let ask = || match asks {
            true => service.ask(request.transfer, &question).map(drop),
            false => service.remove(request.transfer, &order).map(drop),
        };
        let answers: Vec<_> = (0..5).map(|_| ask()).collect();
        assert!(answers.last().is_some_and(Result::is_ok), "{answers:?}");
    }
}
