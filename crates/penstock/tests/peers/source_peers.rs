//! A source site of several peers: scans that they share, inode numbers that differ between them,
//! lanes from all of them, and the loss of one. Real daemons and a real etcd; skips, loudly, where
//! etcd is not installed, and what mounts where that is not allowed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_testkit::{
    Etcd, Fuse, Moment, Scratch, Signal, Site, Still, assert_same_files, make_set, number,
    random_file, seed, verified_at_least,
};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A source site `lab` of several peers, and a target `hpc` of one.
struct World {
    peers: Vec<Site>,
    hpc: Site,
    _etcd: Etcd,
}

impl World {
    /// The peers reach the store at these paths; the first of them leads.
    fn new(root: &Scratch, paths: &[PathBuf]) -> Option<Self> {
        let etcd = Etcd::start(root.path(), 1)?;
        let first = Site::first_peer(root.path(), "lab", &etcd);
        let mut peers = vec![first];
        if paths[0] != peers[0].store {
            move_store(&mut peers[0], &paths[0]);
            peers[0].status_until(|status| status["cluster"]["is_leader"] == true);
        }
        for (number, path) in paths.iter().enumerate().skip(1) {
            let peer = join_with_store(root.path(), &peers[0], &format!("h{}", number + 1), path);
            peers.push(peer);
        }
        peers.iter().for_each(|peer| drop(peer.until_peers(peers.len())));
        let mut hpc = Site::init(root.path(), "hpc", None);
        hpc.start();
        hpc.pair(&peers[1]);
        Some(Self { peers, hpc, _etcd: etcd })
    }

    fn submit(&self, options: &[&str]) -> String {
        let mut args = vec!["lab:data/set", "hpc:data/"];
        args.extend(options);
        self.hpc.submit(&args)
    }

    /// What the daemon of a peer has said.
    fn log(&self, peer: usize) -> String {
        self.peers[peer].log_text()
    }

    /// Bytes that the daemon of a peer has read from its store and elsewhere.
    fn bytes_read(&self, peer: usize) -> u64 {
        let path = format!("/proc/{}/io", self.peers[peer].process());
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.and_then(|bytes| bytes.trim().parse().ok()).unwrap()
    }

    fn assert_same_files(&self, set: &Path) {
        assert_same_files(set, &self.hpc.store.join("set"));
    }
}

/// Another path for the one store of a site, whose daemon is started again.
fn move_store(site: &mut Site, path: &Path) {
    site.kill();
    configure_store(site, path);
    site.start();
}

fn configure_store(site: &mut Site, path: &Path) {
    let text = site.config();
    let line = text.lines().find(|line| line.starts_with("path = ")).unwrap();
    site.reconfigure(line, &format!("path = \"{}\"", path.display()));
    site.store = path.to_owned();
}

fn join_with_store(root: &Path, at: &Site, peer: &str, path: &Path) -> Site {
    let mut site = at.add_loopback_peer(root, peer);
    configure_store(&mut site, path);
    site.start();
    site
}

/// Watches a transfer to its end; gives the summary, and the longest time without more bytes. A
/// time in which other tests had all processors for themselves, or this machine stood still, does
/// not count: it tells nothing of what is tested.
fn watch_gaps(site: &Site, id: &str) -> (Value, Duration) {
    let (mut bytes, mut longest) = (0, Duration::ZERO);
    let (mut since, still) = (Moment::now(), Still::watch());
    let summary = site.watch(id).until(|event| {
        let now = number(event, "bytes");
        if now > bytes {
            let (gap, busy) = (since.at.elapsed(), 1.0 - since.idle());
            if gap > Duration::from_secs(3) {
                println!("{gap:?} without more bytes, processors busy to {:.0} %", busy * 100.0);
            }
            if busy < 0.9 && gap > longest {
                longest = longest.max(still.elapsed(since.at));
            }
            (bytes, since) = (now, Moment::now());
        }
        event["type"] == "summary"
    });
    assert_eq!(summary["state"], "done", "{summary}");
    (summary, longest)
}

fn small_files(set: &Path, directories: usize, files: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    for directory in 0..directories {
        for file in 0..files {
            let path = set.join(format!("{}/{directory}/{file}", directory % 9));
            random_file(&path, 50 + file % 400, &mut rng);
        }
    }
}

/// One tree as several peers see it, each by a mount with inode numbers of its own; `None`, loudly,
/// where that is not allowed.
fn mounts_of(tree: &Path, root: &Path, count: u64) -> Option<Vec<Fuse>> {
    let mount = |peer: u64| {
        let mount = Fuse::mount(tree, &root.join(format!("mount-{peer}")), (peer + 1) << 40)?;
        mount.latency.set_lookup(Duration::from_millis(1));
        Some(mount)
    };
    (0..count).map(mount).collect()
}

/// C1: peers that see other inode numbers share a scan, and after the loss of the one that began
/// it no file has changed.
#[test]
fn c1_peers_with_other_inode_numbers_share_a_scan() {
    let root = Scratch::in_memory();
    let tree = root.path().join("tree");
    small_files(&tree.join("set"), 150, 20);
    fs::hard_link(tree.join("set/1/1/3"), tree.join("set/2/2/linked")).unwrap();
    let Some(mounts) = mounts_of(&tree, root.path(), 2) else { return };
    let paths: Vec<_> = mounts.iter().map(|mount| mount.path.clone()).collect();
    let Some(world) = World::new(&root, &paths) else { return };
    let id = world.submit(&[]);
    let summary = world.hpc.wait_done(&id);
    world.assert_same_files(&tree.join("set"));
    assert_eq!(summary["errors"].as_array().map(Vec::len).unwrap_or(0), 0, "{summary}");
    let log = world.log(0);
    let told = log.lines().find(|line| line.contains("another peer has listed"));
    println!("{told:?}\n{summary}");
    assert!(told.is_some(), "{log}");
    drop(world);
}

/// Issue 5 (2), promise (d): `kill -9` of a source peer in the middle: its lanes' work goes to the
/// others; nothing stops for long, and little is sent twice.
#[test]
fn d_a_source_peer_may_die_in_the_middle() {
    let root = Scratch::in_memory();
    let store = root.path().join("store-lab");
    let Some(mut world) = World::new(&root, &[store.clone(), store.clone(), store.clone()]) else {
        return;
    };
    make_set(&store.join("set"), 48, 400, seed());
    let id = world.submit(&["--bwlimit=8MiB/s", "--piece-size=1M"]);
    world.hpc.watch(&id).until(verified_at_least(10 * MIB));
    world.peers[2].kill();
    let (summary, longest) = watch_gaps(&world.hpc, &id);
    world.assert_same_files(&store.join("set"));
    println!("longest gap {longest:?}; {summary}");
    assert!(longest < Duration::from_secs(10), "{longest:?}");
    assert!(summary["bytes_resent"].as_u64().unwrap_or(0) <= 24 * MIB, "{summary}");
}

/// Issue 5 (3): all source peers carry a share, of large files and of small ones. A transfer for
/// two peers of each site leaves the third one alone.
#[test]
fn all_source_peers_carry_a_share() {
    let root = Scratch::in_memory();
    let store = root.path().join("store-lab");
    let Some(world) = World::new(&root, &[store.clone(), store.clone(), store.clone()]) else {
        return;
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    for number in 0..3 {
        random_file(&store.join(format!("set/large-{number}")), 24 << 20, &mut rng);
    }
    for number in 0..1500 {
        random_file(&store.join(format!("set/small/{}/{number}", number % 9)), 16_384, &mut rng);
    }
    let before: Vec<_> = (0..3).map(|peer| world.bytes_read(peer)).collect();
    let id = world.submit(&["--bwlimit=12MiB/s"]);
    world.hpc.wait_done(&id);
    world.assert_same_files(&store.join("set"));
    let read: Vec<_> = (0..3).map(|peer| (world.bytes_read(peer) - before[peer]) / MIB).collect();
    println!("MiB read by each source peer: {read:?}");
    assert!(read.iter().all(|mib| *mib >= 4), "{read:?}");

    let before: Vec<_> = (0..3).map(|peer| world.bytes_read(peer)).collect();
    let id = world.hpc.submit(&["lab:data/set", "hpc:data/two/", "--max-peers=2"]);
    world.hpc.wait_done(&id);
    assert_same_files(&store.join("set"), &world.hpc.store.join("two/set"));
    let read: Vec<_> = (0..3).map(|peer| (world.bytes_read(peer) - before[peer]) / MIB).collect();
    println!("MiB read by each, of two that may: {read:?}");
    assert!(read[2] == 0 && read[0] + read[1] >= 90, "{read:?}");
}

/// Issue 5: one slow source peer slows its own share only: it is not asked for half, for which all
/// would wait.
#[test]
fn one_slow_source_peer_slows_its_share_only() {
    let root = Scratch::in_memory();
    let tree = root.path().join("tree");
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    for number in 0..4 {
        random_file(&tree.join(format!("set/{number}")), 32 << 20, &mut rng);
    }
    let Some(mount) = Fuse::mount(&tree, &root.path().join("mount"), 5 << 40) else { return };
    // 128 KiB in 400 ms.
    mount.latency.set_read(Duration::from_millis(400));
    let Some(world) = World::new(&root, &[tree.clone(), mount.path.clone()]) else { return };
    let before = [0, 1].map(|peer| world.bytes_read(peer));
    let id = world.submit(&["--piece-size=4M"]);
    let summary = world.hpc.wait_done(&id);
    world.assert_same_files(&tree.join("set"));
    let read = [0, 1].map(|peer| (world.bytes_read(peer) - before[peer]) / MIB);
    println!("MiB read by each, the second being slow: {read:?}; {summary}");
    assert!(read[1] * 2 < read[0], "{read:?}");
}

/// Issue 5 (11), C3: the store unmounted at one source peer: it is offline there, nothing has
/// failed or vanished, and the others serve.
#[test]
fn c3_a_store_unmounted_at_one_source_peer_fails_nothing() {
    let root = Scratch::in_memory();
    let tree = root.path().join("tree");
    make_set(&tree.join("set"), 48, 400, seed());
    let Some(mount) = Fuse::mount(&tree, &root.path().join("mount"), 5 << 40) else { return };
    let Some(world) = World::new(&root, &[tree.clone(), mount.path.clone()]) else { return };
    let id = world.submit(&["--bwlimit=8MiB/s", "--piece-size=1M"]);
    world.hpc.watch(&id).until(verified_at_least(10 * MIB));
    mount.unmount();
    mount.latency.break_down();
    let (summary, longest) = watch_gaps(&world.hpc, &id);
    world.assert_same_files(&tree.join("set"));
    println!("longest gap {longest:?}; {summary}");
    let log = world.log(1);
    assert!(log.contains("offline"), "{log}");
    assert!(longest < Duration::from_secs(10), "{longest:?}");
}

/// Issue 5 (11), C3: the store unmounted at the source's controller, in the middle of a scan: what
/// runs goes on by the other peer, and what is asked for then is listed there, and not as empty.
#[test]
fn c3_a_store_unmounted_at_the_sources_controller_is_listed_by_another() {
    let root = Scratch::in_memory();
    let tree = root.path().join("tree");
    small_files(&tree.join("set"), 200, 20);
    let Some(mounts) = mounts_of(&tree, root.path(), 2) else { return };
    let paths: Vec<_> = mounts.iter().map(|mount| mount.path.clone()).collect();
    let Some(world) = World::new(&root, &paths) else { return };
    mounts.iter().for_each(|mount| mount.latency.set_lookup(Duration::from_millis(20)));
    let id = world.submit(&[]);
    world.hpc.watch(&id).until(verified_at_least(1));
    mounts[0].unmount();
    mounts[0].latency.break_down();
    mounts[1].latency.set_lookup(Duration::from_millis(1));
    let summary = world.hpc.wait_done(&id);
    world.assert_same_files(&tree.join("set"));
    println!("{summary}");
    assert_eq!(summary["files_found"].as_u64(), Some(4_000), "{summary}");
    world.peers[0].status_until(|status| status["cluster"]["is_leader"] == true);
    let whole = world.hpc.submit(&["lab:data/", "hpc:data/whole"]);
    let summary = world.hpc.wait_done(&whole);
    assert_eq!(summary["files_found"].as_u64(), Some(4_000), "{summary}");
    assert_same_files(&tree.join("set"), &world.hpc.store.join("whole/set"));
}

/// What becomes of a shared scan whose controller is lost in the middle of it: the next one goes on
/// from the pages that were sealed, nothing is listed twice or left out, and no file has changed
/// because its inode number is another one there.
fn lose_the_sources_controller(lose: impl Fn(&mut Site)) {
    let root = Scratch::in_memory();
    let tree = root.path().join("tree");
    small_files(&tree.join("set"), 200, 20);
    let Some(mounts) = mounts_of(&tree, root.path(), 3) else { return };
    let paths: Vec<_> = mounts.iter().map(|mount| mount.path.clone()).collect();
    let Some(mut world) = World::new(&root, &paths) else { return };
    // It takes all of them together many seconds to list it, whatever else this machine does: so
    // they are in the middle of it when the controller dies.
    let latency = |time| mounts.iter().for_each(|mount| mount.latency.set_lookup(time));
    latency(Duration::from_millis(40));
    let id = world.submit(&[]);
    world.hpc.watch(&id).until(verified_at_least(1));
    world.peers[0].until_log("another peer lists too");
    lose(&mut world.peers[0]);
    latency(Duration::from_millis(1));
    let (summary, longest) = watch_gaps(&world.hpc, &id);
    world.assert_same_files(&tree.join("set"));
    println!("longest gap {longest:?}; {summary}");
    assert_eq!(summary["files"].as_u64(), Some(4_000), "{summary}");
    assert_eq!(summary["bytes"], summary["bytes_found"], "files were taken for changed ones");
    assert!(longest < Duration::from_secs(10), "{longest:?}");
}

/// Issue 5 (3), A12, C1: the source's controller dies in the middle of a scan that is shared.
#[test]
fn a12_the_sources_controller_may_die_in_the_middle_of_a_shared_scan() {
    lose_the_sources_controller(Site::kill);
}

/// Issue 5 (4), A12, B4: the same where it stands still, and all that is connected to it hangs.
#[test]
fn a12_the_sources_controller_may_stand_still_in_the_middle_of_a_shared_scan() {
    lose_the_sources_controller(|site| site.signal(Signal::STOP));
}

/// A11: what one peer of the source cannot read, another reads: nothing has failed at the end.
#[test]
fn a11_what_one_source_peer_cannot_read_another_does() {
    let root = Scratch::in_memory();
    let tree = root.path().join("tree");
    small_files(&tree.join("set"), 20, 20);
    let Some(mounts) = mounts_of(&tree, root.path(), 2) else { return };
    let paths: Vec<_> = mounts.iter().map(|mount| mount.path.clone()).collect();
    let Some(world) = World::new(&root, &paths) else { return };
    mounts[1].latency.break_reads();
    let summary = world.hpc.wait_done(&world.submit(&[]));
    assert_eq!((summary["files"].as_u64(), summary["errors"].as_u64()), (Some(400), Some(0)));
    world.assert_same_files(&tree.join("set"));
}
