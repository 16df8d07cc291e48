//! A target peer on another host than its controller: real daemons, a real etcd.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use penstock_testkit::{
    Etcd, Scratch, Site, assert_same_files, make_set, seed, verified_at_least, walk,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A site `hpc` whose controller `h1` has not got the store `far`, but `h2` has; and a site `lab`.
struct World {
    h1: Site,
    h2: Site,
    lab: Site,
    far: PathBuf,
    _etcd: Etcd,
    root: Scratch,
}

impl World {
    fn new() -> Option<Self> {
        let root = Scratch::in_memory();
        let etcd = Etcd::start(root.path(), 1)?;
        let h1 = Site::first_peer(root.path(), "hpc", &etcd);
        let mut h2 = h1.join(root.path(), "h2");
        let far = root.path().join("store-far");
        fs::create_dir(&far).unwrap();
        h2.kill();
        let rights = "write = [\"*\"]\ndelete = [\"*\"]";
        let store = format!("[[store]]\nname = \"far\"\npath = \"{}\"\n{rights}", far.display());
        h2.set_config(&format!("{}\n{store}\n", h2.config()));
        h2.start();
        let has_far = |card: &Value| {
            let stores = card["stores"].as_array();
            stores.is_some_and(|stores| stores.iter().any(|store| store["store"] == "far"))
        };
        h1.status_until(|status| {
            let peers = status["cluster"]["peers"].as_array();
            peers.is_some_and(|peers| peers.iter().any(has_far))
        });
        let mut lab = Site::init(root.path(), "lab", None);
        lab.reconfigure("[[store]]", "[[store]]\nremove = [\"*\"]");
        lab.start();
        lab.pair(&h1);
        Some(Self { h1, h2, lab, far, _etcd: etcd, root })
    }

    fn submit(&self, more: &[&str]) -> String {
        let mut args = vec!["lab:data/set", "hpc:far/"];
        args.extend(more);
        self.h1.submit(&args)
    }

    /// Submits with these options at the other site, waits until it is done, and gives its summary.
    fn sync(&self, more: &[&str]) -> Value {
        let args = [&["lab:data/set", "hpc:far/", "--sync"], more].concat();
        let summary = self.lab.wait_done(&self.lab.submit(&args));
        println!("{more:?}: {summary}");
        summary
    }

    fn assert_whole(&self) {
        assert_same_files(&self.lab.store.join("set"), &self.far.join("set"));
    }
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
    walk(&world.far, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        left.extend(name.starts_with(".pst-").then(|| path.to_owned()));
    });
    assert_eq!(left, Vec::<PathBuf>::new(), "temporary files are left");
}

/// Promise (e), C3: `--delete` and `--backup-dir` at a peer on another host, thousands of things of
/// all kinds, some of them in the way: a plan says what goes, more than half is refused, and all of
/// it goes when that is said. The controller's host has not got the store.
#[test]
fn c3_what_is_not_at_the_source_goes_at_another_host() {
    let Some(world) = World::new() else { return };
    let set = world.lab.store.join("set");
    make_set(&set, 1, 200, seed());
    world.sync(&[]);
    let far = world.far.join("set");
    for directory in 0..100 {
        for file in 0..12 {
            let path = far.join(format!("more/{}/{directory}/{file}", directory % 7));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "only here").unwrap();
        }
    }
    std::os::unix::fs::symlink("/etc", far.join("more/link")).unwrap();
    // A directory where the data set has a file.
    fs::write(set.join("becomes a file"), "a file").unwrap();
    fs::create_dir(far.join("becomes a file")).unwrap();
    fs::write(far.join("becomes a file/inner"), "in the way").unwrap();
    let gone = 1200 + 100 + 7 + 1 + 1 + 2;
    let listed = world.h1.run(&[
        "transfer",
        "plan",
        "lab:data/set",
        "hpc:far/",
        "--sync",
        "--delete",
        "--max-delete=9999",
        "--json",
    ]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let deletes = listed.lines().filter(|line| line.contains("\"action\":\"delete\""));
    assert_eq!(deletes.count(), gone, "{listed}");
    let refused = world.h1.wait(&world.submit(&["--sync", "--delete"]));
    assert_eq!(refused["state"], "failed", "{refused}");
    assert!(far.join("more/0/0/0").exists(), "nothing is deleted");
    assert!(far.join("becomes a file/inner").exists(), "nothing is deleted");
    let most = format!("--max-delete={gone}");
    let summary = world.sync(&["--delete", &most]);
    assert_eq!(summary["deleted"], gone, "{summary}");
    world.assert_whole();
    fs::write(far.join("small/0/extra"), "kept aside").unwrap();
    let summary = world.sync(&["--delete", "--backup-dir=.old"]);
    assert_eq!(summary["deleted"], 1, "{summary}");
    assert_eq!(fs::read(far.join(".old/small/0/extra")).unwrap(), b"kept aside");
}

/// B4, promise (d): the peer that deletes is killed in the middle and comes back, and then the
/// controller is: the target ends as the source is, and nothing else has gone.
#[test]
fn b4_a_deletion_at_another_host_goes_on_after_a_loss() {
    let Some(mut world) = World::new() else { return };
    let set = world.lab.store.join("set");
    make_set(&set, 1, 100, seed());
    world.sync(&[]);
    let far = world.far.join("set");
    let fill = || {
        for file in 0..20_000 {
            let path = far.join(format!("more/{}/{file}", file % 100));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "only here").unwrap();
        }
    };
    let deleting = |event: &Value| event["deleted"].as_u64().unwrap_or(0) > 0;
    for loses_the_controller in [false, true] {
        fill();
        let id = world.submit(&["--sync", "--delete", "--max-delete=30000"]);
        world.h2.watch(&id).until(|event| deleting(event) || event["type"] == "summary");
        if loses_the_controller {
            world.h1.kill();
        } else {
            world.h2.kill();
            world.h2.start();
        }
        let summary = world.h2.wait_done(&id);
        println!("{summary}");
        world.assert_whole();
    }
}

/// A4, promise (c): what reads files again works at a peer on another host: `--readback` and
/// checksums that other programs agree with, with their receipt; a comparison by what is in files,
/// which finds the one that differs and no other; and what was moved there goes at the source.
#[test]
fn a4_files_are_read_again_at_another_host() {
    let Some(world) = World::new() else { return };
    let set = world.lab.store.join("set");
    make_set(&set, 24, 200, seed());
    let (list, receipt) = (world.root.path().join("list"), world.root.path().join("receipt"));
    let written = format!("--write-digests={}", list.display());
    let receipted = format!("--receipt={}", receipt.display());
    let id = world.submit(&["--wait", "--readback", "--also-digest=sha256", &written, &receipted]);
    println!("{id}");
    assert!(fs::read_to_string(&receipt).unwrap().contains("readback"));
    let sums = world.root.path().join("list.sha256");
    let mut judge = std::process::Command::new("sha256sum");
    judge.args(["--check", "--strict", "--quiet"]).arg(&sums).current_dir(world.far.join("set"));
    assert!(judge.status().unwrap().success());
    assert_eq!(fs::read_to_string(&sums).unwrap().lines().count(), 205);
    let far = world.far.join("set");
    let (same, other) = (far.join("small/1/1.bin"), far.join("small/2/2.bin"));
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let set_time = |path: &std::path::Path| {
        fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    };
    let mut bytes = fs::read(&other).unwrap();
    bytes[0] ^= 1;
    fs::write(&other, bytes).unwrap();
    set_time(&same);
    set_time(&other);
    let summary = world.sync(&["--compare=digest"]);
    assert_eq!(summary["files"], 1, "only the one that differs is moved: {summary}");
    world.assert_whole();
    // What stands at the target already stays at the source; what is moved now goes.
    fs::write(set.join("new"), "new").unwrap();
    let summary = world.sync(&["--remove-source"]);
    assert_eq!((&summary["removed"], set.join("new").exists()), (&Value::from(1), false));
    assert_eq!(fs::read(far.join("new")).unwrap(), b"new");
}

/// Promise: a data set is served by those peers that have its store, though others take part in the
/// site, whether the peer that leads has it or not.
#[test]
fn lanes_go_to_the_peers_that_have_the_source() {
    let Some(mut world) = World::new() else { return };
    fs::write(world.far.join("file"), "far").unwrap();
    world.lab.wait_done(&world.lab.submit(&["hpc:far/file", "lab:data/"]));
    assert_eq!(fs::read(world.lab.store.join("file")).unwrap(), b"far");
    world.h1.kill();
    world.h2.status_until(|status| status["cluster"]["is_leader"] == true);
    world.h1.start();
    world.h2.status_until(|status| {
        status["cluster"]["peers"].as_array().is_some_and(|peers| peers.len() == 2)
    });
    make_set(&world.far.join("whole"), 24, 200, seed());
    let id = world.lab.submit(&["hpc:far/whole", "lab:data/"]);
    world.lab.wait_done(&id);
    assert_same_files(&world.far.join("whole"), &world.lab.store.join("whole"));
}
