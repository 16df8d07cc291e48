//! A target peer on another host than its controller: real daemons, a real etcd. Needs no
//! privileges; skips, loudly, where etcd is not installed.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, and what was seen when a test fails")]
#![allow(dead_code, reason = "helpers that other test binaries use")]

#[allow(unreachable_pub, reason = "helpers of one test binary")]
mod common_cluster;
#[allow(unreachable_pub, reason = "helpers of several test binaries")]
mod common_net;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use common_cluster::{Etcd, first_peer, join, status_until};
use common_net::{Site, assert_same, lab, make_set, scratch, seed};
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A site `hpc` whose controller `h1` has not got the store `far`, but `h2` has; and a site `lab`.
struct World {
    h1: Site,
    h2: Site,
    lab: Site,
    far: PathBuf,
    etcd: Etcd,
    root: TempDir,
}

impl World {
    fn new() -> Option<Self> {
        let root = scratch();
        let etcd = Etcd::start(root.path(), 1)?;
        let h1 = first_peer(root.path(), "hpc", &etcd);
        let mut h2 = join(root.path(), &h1, "h2");
        let far = root.path().join("store-far");
        fs::create_dir(&far).unwrap();
        h2.kill();
        let config = h2.dir.join("penstock.toml");
        let mut text = fs::read_to_string(&config).unwrap();
        text += &format!("\n[[store]]\nname = \"far\"\npath = \"{}\"\n", far.display());
        fs::write(&config, text).unwrap();
        h2.start();
        let has_far = |card: &Value| {
            let stores = card["stores"].as_array();
            stores.is_some_and(|stores| stores.iter().any(|store| store["store"] == "far"))
        };
        status_until(&h1, |status| {
            let peers = status["cluster"]["peers"].as_array();
            peers.is_some_and(|peers| peers.iter().any(has_far))
        });
        let lab = lab(root.path(), &h1);
        Some(Self { h1, h2, lab, far, etcd, root })
    }

    fn submit(&self, more: &[&str]) -> String {
        let mut args = vec!["lab:data/set", "hpc:far/"];
        args.extend(more);
        self.h1.submit(&args)
    }

    fn assert_whole(&self) {
        assert_same(&self.lab.store.join("set"), &self.far.join("set"));
    }
}

fn verified_at_least(bytes: u64) -> impl Fn(&Value) -> bool {
    move |event| event["bytes"].as_u64().unwrap_or(0) >= bytes
}

/// Promise (c): a controller moves a data set through a peer on another host as if that were its
/// own: large files and small ones, links, directories that cannot be written to, and again with
/// `--sync`, which finds that nothing is left to do.
#[test]
fn c_a_controller_moves_a_data_set_through_another_host() {
    let Some(world) = World::new() else { return };
    let set = world.lab.store.join("set");
    make_set(&set, 40, 500, seed());
    fs::create_dir(set.join("closed")).unwrap();
    fs::write(set.join("closed/inner"), b"inner").unwrap();
    fs::hard_link(set.join("closed/inner"), set.join("closed/other")).unwrap();
    std::os::unix::fs::symlink("inner", set.join("closed/link")).unwrap();
    fs::set_permissions(set.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let id = world.submit(&["--piece-size=1M"]);
    let summary = world.h1.wait_done(&id);
    println!("{summary}");
    world.assert_whole();
    let again = world.submit(&["--sync"]);
    let summary = world.h1.wait_done(&again);
    assert_eq!(summary["bytes_verified"], 0, "{summary}");
    world.assert_whole();
}

/// Promise (d), B4: the controller dies while its only target peer writes on another host. The next
/// controller, which is that peer, ends what the first one has begun there before it begins itself;
/// the tree is whole.
#[test]
fn b4_the_next_controller_ends_what_the_first_has_begun() {
    let Some(mut world) = World::new() else { return };
    make_set(&world.lab.store.join("set"), 32, 300, seed());
    let id = world.submit(&["--bwlimit=8MiB/s", "--piece-size=1M"]);
    world.h2.watch(&id).until(verified_at_least(8 * MIB));
    world.h1.kill();
    let summary = world.h2.wait_done(&id);
    println!("{summary}");
    world.assert_whole();
}

/// Promise (d): the peer that writes is killed and comes back: its task is known to be gone, and
/// the transfer goes on with a new one.
#[test]
fn d_the_peer_that_writes_may_be_killed() {
    let Some(mut world) = World::new() else { return };
    make_set(&world.lab.store.join("set"), 32, 300, seed());
    let id = world.submit(&["--bwlimit=8MiB/s", "--piece-size=1M"]);
    world.h1.watch(&id).until(verified_at_least(8 * MIB));
    world.h2.kill();
    world.h2.start();
    let summary = world.h1.wait_done(&id);
    assert!(summary["bytes_resumed"].as_u64().unwrap() > 0, "{summary}");
    world.assert_whole();
}

/// A user's wishes reach a task on another host: pause keeps what is written, cancel leaves
/// nothing.
#[test]
fn pause_and_cancel_reach_another_host() {
    let Some(world) = World::new() else { return };
    make_set(&world.lab.store.join("set"), 32, 300, seed());
    let id = world.submit(&["--bwlimit=8MiB/s", "--piece-size=1M"]);
    world.h1.watch(&id).until(verified_at_least(6 * MIB));
    world.h1.ok(&["transfer", "pause", &id]);
    world.h1.show_until(&id, |view| view["state"] == "paused");
    world.h1.ok(&["transfer", "resume", &id]);
    world.h1.watch(&id).until(verified_at_least(12 * MIB));
    world.h1.ok(&["transfer", "cancel", &id]);
    world.h1.show_until(&id, |view| view["state"] == "cancelled");
    let mut left = Vec::new();
    common_net::walk(&world.far, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        left.extend(name.starts_with(".pst-").then(|| path.to_owned()));
    });
    assert_eq!(left, Vec::<PathBuf>::new(), "temporary files are left");
}
