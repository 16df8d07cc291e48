//! Peers whose clients of the shared file system hang, as a server that is gone makes them: every
//! call waits in the kernel, and no deadline ends it. And a source store that does.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use penstock_api::fence::Fence;
use penstock_api::preserve::Preserve;
use penstock_api::problem::{Exit, ProblemCode};
use penstock_api::scan::{PageReply, ScanRequest, SourcePeer as _};
use penstock_api::select::Selection;
use penstock_api::transfer::PathText;
use penstock_controller::runner::RunOutcome;
use penstock_peer::{SourceService, StoreKind, StoreSpec, Stores};
use penstock_proto::id::{PeerId, TransferId};
use penstock_proto::slicing::Slicing;
use penstock_store::IoMode;
use penstock_testkit::{
    Fuse, InProcessSite, MooseFs, PATIENCE, Scratch, Still, Wait, bytes, threads_named,
};

use crate::turn;

/// Twice as long a call may give no sign of life.
const GRANT: Duration = Duration::from_secs(3);

/// Two peers of a site with a client of their own each; none where MooseFS cannot be run.
struct World {
    site: InProcessSite,
    moose: MooseFs,
    _root: Scratch,
    _turn: MutexGuard<'static, ()>,
}

fn begin() -> Option<World> {
    let turn = turn();
    let root = Scratch::in_memory();
    let moose = MooseFs::start(root.path(), 2, 2)?;
    fs::create_dir(moose.path(0).join("store")).unwrap();
    let mut site = InProcessSite::new(GRANT);
    site.target = moose.path(1).join("store");
    site.options.limits.rate_bits_per_s = Some((6 * 8) << 20);
    fill(&site.source());
    Some(World { site, moose, _root: root, _turn: turn })
}

/// Files that travel whole, so that no two clients wait for a chunk of one file; with times in
/// whole seconds, as this file system has them.
fn fill(base: &Path) {
    let set = |path: &Path| {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
        File::open(path).unwrap().set_modified(time).unwrap();
    };
    for directory in 0..8 {
        let directory = base.join(format!("d{directory}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..6 {
            let path = directory.join(format!("f{file}"));
            fs::write(&path, bytes(file, 700_000)).unwrap();
            set(&path);
        }
        set(&directory);
    }
    set(base);
}

impl World {
    fn wait_for(&self, what: &str, mut is: impl FnMut() -> bool) {
        let view = || format!("{:?}", self.site.control.view());
        Wait::new(what).until(|| if is() { Ok(()) } else { Err(view()) });
    }
}

fn has_thread(wanted: &str) -> bool {
    threads_named("self", wanted) > 0
}

/// E2, A9, promise (d): one of two peers hangs in its store in the middle: it is taken out, the
/// other one looks at what it wrote and does its share; nothing new is begun at a store that hangs;
/// and when it wakes, nothing of it lands.
#[test]
fn e2_a_peer_whose_store_hangs_is_done_without() {
    let Some(world) = begin() else { return };
    let one = world.site.join_at("one", &world.moose.path(0).join("store"));
    let two = world.site.join_at("two", &world.moose.path(1).join("store"));
    let run = world.site.run();
    one.wait_written(2);
    two.wait_written(2);
    let began = Instant::now();
    world.moose.pause_client(0);
    world.wait_for("it is taken out", || one.stops.load(Ordering::Acquire) > 0);
    println!("taken out after {:.1} s", began.elapsed().as_secs_f64());
    world.wait_for("the other one ends it", || run.is_finished());
    println!("done after {:.1} s", began.elapsed().as_secs_f64());
    assert!(has_thread("publisher"), "it does not hang at all");
    assert_eq!(run.join().unwrap(), RunOutcome::Done);
    let notes = world.site.control.take_notes();
    assert_eq!(notes[0].code, ProblemCode::StoreHung, "{notes:?}");
    world.moose.resume_client(0);
    world.wait_for("its threads wake", || !has_thread("publisher") && !has_thread("lane-"));
    // Not before: what compares is a process.
    world.site.compare();
}

/// E2, promise (f): where the stores of all peers hang, nobody is taken out: the transfer waits,
/// says for what, and goes on when they answer.
#[test]
fn e2_where_all_hang_the_transfer_waits_and_says_so() {
    let Some(world) = begin() else { return };
    let one = world.site.join_at("one", &world.moose.path(0).join("store"));
    let two = world.site.join_at("two", &world.moose.path(1).join("store"));
    let run = world.site.run();
    one.wait_written(1);
    two.wait_written(1);
    world.moose.pause_client(0);
    world.moose.pause_client(1);
    let began = Instant::now();
    world.wait_for("it says so", || {
        let view = world.site.control.view();
        began.elapsed() > GRANT * 3 && view.reason.contains("has not answered")
    });
    let stops = [&one, &two].map(|fate| fate.stops.load(Ordering::Acquire));
    assert_eq!(stops, [0, 0], "nobody else is there");
    assert_eq!(world.site.control.take_notes()[0].code, ProblemCode::StoreHung);
    world.moose.resume_client(0);
    world.moose.resume_client(1);
    world.site.end(run);
}

/// A peer with a source store `hung` at one path and `sound` at another.
fn source_peer(root: &Path, hung: &Path, sound: &Path) -> Arc<SourceService> {
    let specs = [("hung", hung), ("sound", sound)].map(|(name, path)| StoreSpec {
        name: name.parse().unwrap(),
        kind: StoreKind::Posix(path.to_owned()),
        read_only: true,
        ephemeral: false,
        allow_privileged: false,
        io: IoMode::Auto,
        mapped: false,
    });
    let id = PeerId { site: "lab".parse().unwrap(), peer: "one".parse().unwrap() };
    let stores = Arc::new(Stores::new(specs));
    Arc::new(SourceService::new(stores, &root.join("scans"), id, None))
}

fn scan_request(transfer: u8, store: &str) -> ScanRequest {
    ScanRequest {
        listing: 0,
        transfer: TransferId([transfer; 16]),
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

/// Reads all pages of a scan; gives how many entries there are.
fn read_pages(source: &SourceService, transfer: u8) -> u64 {
    let (began, mut number) = (Instant::now(), 0);
    loop {
        assert!(began.elapsed() < PATIENCE, "the scan does not end");
        match source.page(TransferId([transfer; 16]), number, 1000).unwrap() {
            PageReply::Page(_) => number += 1,
            PageReply::NotYet => {}
            PageReply::End(summary) => return summary.entries,
        }
    }
}

/// E2, B4, promise (f): a source store that hangs while it is listed, and while other scans of it
/// are opened, holds up no other store, and no change of the controller; requests for its scans are
/// told within seconds, however many they are, and a few threads hang; and its scan goes on from
/// its pages when it answers.
#[test]
fn e2_a_source_store_that_hangs_holds_up_nobody_else() {
    let _turn = turn();
    let root = Scratch::in_memory();
    let (tree, sound) = (root.path().join("tree"), root.path().join("sound"));
    for base in [&tree, &sound] {
        for file in 0..200 {
            fs::create_dir_all(base.join(format!("d{}", file % 20))).unwrap();
            fs::write(base.join(format!("d{}/f{file}", file % 20)), b"bytes").unwrap();
        }
    }
    let Some(fuse) = Fuse::mount(&tree, &root.path().join("mount"), 0) else { return };
    let source = source_peer(root.path(), &fuse.path, &sound);
    let lead = |epoch| {
        let holds = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&holds);
        source.set_fence(Fence::new(epoch, Arc::new(move || asked.load(Ordering::Acquire))));
        holds
    };
    let first = lead(7);
    fuse.latency.set_lookup(Duration::from_millis(20));
    source.open_scan(&scan_request(1, "hung")).unwrap();
    fuse.latency.hang(true);
    let ask = |transfer: u8| {
        let source = Arc::clone(&source);
        std::thread::spawn(move || {
            let began = Instant::now();
            (source.open_scan(&scan_request(transfer, "hung")).unwrap_err(), began.elapsed())
        })
    };
    let asked: Vec<_> = (0..20).map(|number| ask(1 + number % 10)).collect();
    Wait::new("8 threads of the store").is(|| threads_named("self", "store") >= 8);
    let (began, still) = (Instant::now(), Still::watch());
    source.open_scan(&scan_request(20, "sound")).unwrap();
    assert_eq!(read_pages(&source, 20), 221);
    first.store(false, Ordering::Release);
    let deposed = Instant::now();
    let _second = lead(8);
    let changed = still.elapsed(deposed);
    source.open_scan(&scan_request(21, "sound")).unwrap();
    assert_eq!(read_pages(&source, 21), 221);
    let others = still.elapsed(began);
    println!("changed after {changed:?}, other scans after {others:?}");
    // Who waits for the store waits for 8 s, and for 10 s where a scan of it is opened.
    assert!(changed < Duration::from_secs(6), "the change has waited for the store: {changed:?}");
    assert!(others < Duration::from_secs(8), "another store has waited: {others:?}");
    let again: Vec<_> = (0..20).map(|number| ask(1 + number % 10)).collect();
    let mut hung = 0;
    for asked in asked.into_iter().chain(again) {
        let (told, after) = asked.join().unwrap();
        assert_eq!(told.exit, Exit::Temporary, "{told}");
        assert!(after < PATIENCE, "{told}: after {after:?}");
        hung += usize::from(told.code == ProblemCode::StoreHung);
    }
    assert!(hung > 0, "nobody was told what it is");
    // 40 requests; eight hang, and perhaps some of another test's.
    assert!(
        threads_named("self", "store") <= 16,
        "{} threads hang",
        threads_named("self", "store")
    );
    fuse.latency.set_lookup(Duration::ZERO);
    fuse.latency.hang(false);
    Wait::new("a look at what answers").until(|| source.open_scan(&scan_request(1, "hung")));
    assert_eq!(read_pages(&source, 1), 221);
}
