//! A source store that the controller's host has not got: real daemons and a real etcd; skips,
//! loudly, where etcd is not installed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use penstock_testkit::{
    Etcd, Scratch, Signal, Site, Wait, assert_same_files, make_set, random_file, seed, told,
};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// A site `lab` whose controller `h1` has the store `data`, and whose peers `h2` and `h3` have the
/// store `far`; and a site `hpc` of one peer.
struct World {
    h1: Site,
    far_peers: Vec<Site>,
    hpc: Site,
    far: PathBuf,
    _etcd: Etcd,
    _root: Scratch,
}

/// A peer that has the store `far` alone.
fn join_with_far(root: &Path, at: &Site, peer: &str, far: &Path) -> Site {
    let mut site = at.add_loopback_peer(root, peer);
    site.store = far.to_owned();
    let text = site.config();
    let path = text.lines().find(|line| line.starts_with("path = ")).unwrap();
    site.reconfigure(path, &format!("path = \"{}\"\nremove = [\"*\"]", far.display()));
    site.reconfigure("name = \"data\"", "name = \"far\"");
    // The same address again after a restart, as on any host.
    let address = site.start();
    site.reconfigure("listen = \"127.0.0.1:0\"", &format!("listen = \"{address}\""));
    site
}

impl World {
    fn new() -> Option<Self> {
        let root = Scratch::in_memory();
        let etcd = Etcd::start(root.path(), 1)?;
        let h1 = Site::first_peer(root.path(), "lab", &etcd);
        let far = root.path().join("store-far");
        fs::create_dir(&far).unwrap();
        let join = |peer| join_with_far(root.path(), &h1, peer, &far);
        let far_peers = vec![join("h2"), join("h3")];
        let world_has = |count: usize| {
            move |status: &Value| {
                let peers = status["cluster"]["peers"].as_array().cloned().unwrap_or_default();
                let has = |card: &&Value| card["stores"].to_string().contains("\"far\"");
                peers.iter().filter(has).count() == count
            }
        };
        h1.status_until(world_has(2));
        assert_eq!(h1.status_until(|_| true)["cluster"]["is_leader"], true);
        let mut hpc = Site::init(root.path(), "hpc", None);
        hpc.start();
        hpc.pair(&h1);
        Some(Self { h1, far_peers, hpc, far, _etcd: etcd, _root: root })
    }

    fn submit(&self, more: &[&str]) -> String {
        let mut args = vec!["lab:far/set", "hpc:data/"];
        args.extend(more);
        self.hpc.submit(&args)
    }

    fn peer(&mut self, name: &str) -> &mut Site {
        &mut self.far_peers[usize::from(name == "h3")]
    }

    /// Waits until a controller has said that a peer lists a data set, so many times; gives the
    /// peers in turn. On a busy machine another peer may lead than at first.
    fn listed_by(&self, times: usize) -> Vec<String> {
        Wait::new(format!("{times} peers that list")).until(|| {
            let sites = self.far_peers.iter().chain([&self.h1]);
            let log: String = sites.map(Site::log_text).collect();
            let mut lines: Vec<_> =
                log.lines().filter(|line| line.contains("a peer lists a data set")).collect();
            // Each begins with its time.
            lines.sort_unstable();
            let peer = |line: &&str| line.split("peer=").nth(1).unwrap()[..2].to_owned();
            let peers: Vec<_> = lines.iter().map(peer).collect();
            if peers.len() >= times { Ok(peers) } else { Err(log) }
        })
    }
}

fn found_at_least(files: u64) -> impl Fn(&Value) -> bool {
    move |event| event["files_found"].as_u64().unwrap_or(0) >= files
}

/// Promise (c), C6: a data set in a store that the controller's host has not got is copied as if it
/// had it: wherever it was submitted, planned, with hard links, compared by content, moved; a
/// change is seen; and within the site, from peers that have the one store to one that has the
/// other, with all its attributes.
#[test]
fn c_a_data_set_is_read_whoever_leads() {
    let Some(world) = World::new() else { return };
    let set = world.far.join("set");
    make_set(&set, 24, 200, seed());
    fs::hard_link(set.join("small/1/1.bin"), set.join("linked")).unwrap();
    world.hpc.wait_done(&world.submit(&["--piece-size=1M"]));
    let copy = world.hpc.store.join("set");
    assert_same_files(&set, &copy);
    assert_eq!(copy.join("linked").metadata().unwrap().nlink(), 2);
    // From any peer of the site; nothing is left to do, or just what differs.
    let again = ["lab:far/set", "hpc:data/", "--sync"];
    for peer in [&world.h1, &world.far_peers[0], &world.far_peers[1]] {
        let summary = peer.wait_done(&peer.submit(&again));
        assert_eq!(summary["bytes_verified"], 0, "{summary}");
    }
    fs::write(set.join("small/1/1.bin"), "changed").unwrap();
    let plan = world.hpc.run(&["transfer", "plan", again[0], again[1], "--sync"]);
    assert!(plan.status.success(), "{}", told(&plan));
    let digests = [&again[..], &["--compare=digest"]].concat();
    world.hpc.wait_done(&world.hpc.submit(&digests));
    assert_same_files(&set, &copy);
    // Within the site: no peer has both stores.
    let summary = world.h1.wait_done(&world.h1.submit(&["lab:far/set", "lab:data/"]));
    assert_same_files(&set, &world.h1.store.join("set"));
    println!("{summary}");
    // A move, by a site that may.
    fs::create_dir(world.far.join("moved")).unwrap();
    fs::write(world.far.join("moved/file"), "moved").unwrap();
    let id = world.hpc.submit(&["lab:far/moved", "hpc:data/", "--remove-source"]);
    let summary = world.hpc.wait_done(&id);
    assert_eq!(summary["removed"], 1, "{summary}");
    assert!(!world.far.join("moved/file").exists());
    assert_eq!(fs::read(world.hpc.store.join("moved/file")).unwrap(), b"moved");
}

/// Promise: a store that no peer has is refused with its name, and with what was looked at.
#[test]
fn a_store_that_no_peer_has_is_refused_in_words() {
    let Some(world) = World::new() else { return };
    let peer = &world.far_peers[0];
    let id = peer.submit(&["lab:nothing/set", "lab:data/"]);
    assert_eq!(peer.wait(&id)["state"], "failed");
    let view = peer.show(&id).to_string();
    assert!(view.contains("no peer of this site has store `nothing`"), "{view}");
    assert!(view.contains("`h2`: it has no store"), "{view}");
}

/// A12, B4, promise (d): the peer that lists sleeps past its order, another one goes on, the first
/// wakes up and keeps nothing more; that other one is killed, and the first goes on; it is killed
/// as well: the transfer waits and says for what, and goes on when a peer with the store is back.
/// Nothing is listed twice or left out.
#[test]
fn a12_b4_whoever_lists_may_sleep_or_die() {
    let Some(mut world) = World::new() else { return };
    let set = world.far.join("set");
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    for file in 0..3_000 {
        random_file(&set.join(format!("{}/{file}", file % 80)), 40 + file % 90, &mut rng);
    }
    let id = world.submit(&["--max-metadata-ops=240"]);
    let mut watch = world.hpc.watch(&id);
    watch.until(found_at_least(300));
    let first = world.listed_by(1)[0].clone();
    let other = if first == "h2" { "h3" } else { "h2" };
    world.peer(&first).signal(Signal::STOP);
    assert_eq!(world.listed_by(2)[1], other, "the other one goes on");
    world.peer(&first).signal(Signal::CONT);
    watch.until(found_at_least(1_000));
    world.peer(other).kill();
    assert_eq!(world.listed_by(3)[2], first, "the first one goes on");
    watch.until(found_at_least(1_600));
    world.peer(&first).kill();
    let waits = |view: &Value| {
        let reason = view["reason"].as_str().unwrap_or_default();
        reason.contains("`far`") && reason.contains(&first)
    };
    let view = world.hpc.show_until(&id, waits);
    println!("it waits: {}", view["reason"]);
    world.peer(other).start();
    assert_eq!(world.listed_by(4)[3], other);
    let summary = world.hpc.wait_done(&id);
    println!("{summary}");
    assert_same_files(&set, &world.hpc.store.join("set"));
    assert_eq!(summary["files"], 3_000, "{summary}");
}
