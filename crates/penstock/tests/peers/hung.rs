//! Peers whose clients of the shared file system hang, as a server that is gone makes them: every
//! call waits in the kernel, and no deadline ends it.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use crate::common_moosefs::MooseFs;
use crate::common_shared::{Shared, bytes};
use crate::moosefs::scratch;

/// Twice as long a call may give no sign of life.
const GRANT: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(90);

/// Two peers of a site with a client of their own each; none where MooseFS cannot be run.
struct World {
    site: Shared,
    moose: MooseFs,
    _root: tempfile::TempDir,
}

fn begin() -> Option<World> {
    let root = scratch();
    let moose = MooseFs::start(root.path(), 2, 2)?;
    fs::create_dir(moose.path(0).join("store")).unwrap();
    let mut site = Shared::new(GRANT);
    site.target = moose.path(1).join("store");
    site.options.limits.rate_bits_per_s = Some((6 * 8) << 20);
    fill(&site.source());
    Some(World { site, moose, _root: root })
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
}

impl World {
    fn wait_for(&self, what: &str, mut is: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is() {
            let view = self.site.control.view();
            assert!(began.elapsed() < PATIENCE, "{what}: waited in vain: {view:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether a thread of this process has a name that begins so.
fn has_thread(wanted: &str) -> bool {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
    names.into_iter().any(|name| name.starts_with(wanted))
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
    world.site.end(run);
    let notes = world.site.control.take_notes();
    assert_eq!(notes[0].code, "store-hung", "{notes:?}");
    world.moose.resume_client(0);
    world.wait_for("its threads wake", || !has_thread("publisher") && !has_thread("lane-"));
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
    assert_eq!(world.site.control.take_notes()[0].code, "store-hung");
    world.moose.resume_client(0);
    world.moose.resume_client(1);
    world.site.end(run);
}
