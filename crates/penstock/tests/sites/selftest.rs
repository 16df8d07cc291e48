//! Selftests: a sound site passes, a store that alters data is found out, nothing is left.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use penstock_testkit::{Etcd, Mount, Scratch, Site, Wait, program, signal, told};
use rustix::process::Signal;

use crate::soak::Unit;

/// The directories of selftests in a store.
fn own_directories(store: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(store).unwrap().map(|entry| entry.unwrap());
    let own =
        entries.filter(|it| it.file_name().to_string_lossy().starts_with("penstock-selftest"));
    own.map(|entry| entry.path()).collect()
}

/// Promise: a sound site fails no check, a kill of its daemon included; the result is there for
/// test servers too, and nothing is left in the store. Nothing is done without consent.
#[test]
fn a_sound_site_passes() {
    let root = Scratch::in_memory();
    let unit = Unit::start(root.path());
    let site = &unit.site;
    let said = site.fails(2, &["selftest", "--scratch", "data"]);
    assert!(said.contains("killed-daemon") && said.contains("no terminal to ask"), "{said}");
    site.fails(2, &["selftest", "--yes", "--only", "everything"]);
    assert_eq!(own_directories(&site.store), [] as [PathBuf; 0]);
    let lock = site.dir.join("lock");
    let (process, lock, script) = (unit.process.display(), lock.display(), unit.script());
    let kill = format!("kill -9 $(cat {process}); flock {lock} true; {script}");
    let file = root.path().join("junit.xml");
    let junit = file.to_str().unwrap();
    site.fails(2, &["selftest", "--yes", "--only", "moves", "--kill", &kill]);
    let output = site.run(&["selftest", "--yes", "--kill", &kill, "--junit", junit]);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success() && !text.contains("FAIL"), "{}", told(&output));
    for name in [
        "moves",
        "final-names",
        "source-removal",
        "flipped-bit",
        "same-id",
        "climbs-out",
        "empty-source",
        "stranger",
        "second-daemon",
        "pause",
        "killed-daemon",
    ] {
        assert!(text.contains(&format!("PASS     {name}")), "{}", told(&output));
    }
    // What no check can try has its line and its reason, unless checks are named.
    for name in ["power-cut", "memory", "clocks", "accounts", "releases", "decoders"] {
        assert!(text.contains(&format!("NOT RUN  {name}")), "{}", told(&output));
    }
    let xml = fs::read_to_string(&file).unwrap();
    assert!(xml.contains("tests=\"21\" failures=\"0\" errors=\"0\""), "{xml}");
    assert_eq!(own_directories(&site.store), [] as [PathBuf; 0]);
}

/// Daemons of the peers of a site that a script kills and starts again, as their units would.
struct PeerUnits(Vec<PathBuf>);

impl PeerUnits {
    /// Takes over the daemons of these peers, and returns the script, which is told the peer. It
    /// waits for the lock of the killed daemon, which is held until the kernel has ended that.
    fn of(root: &Path, peers: &[(&str, &Site)]) -> (Self, String) {
        let mut files = Vec::new();
        for (peer, site) in peers {
            let file = root.join(format!("{peer}.pid"));
            fs::write(&file, site.process().to_string()).unwrap();
            let link = root.join(format!("{peer}.dir"));
            std::os::unix::fs::symlink(&site.dir, link).unwrap();
            files.push(file);
        }
        let (program, root) = (program(), root.display());
        let script = format!(
            "at={root}/$PENSTOCK_PEER; dir=$(readlink $at.dir); kill -9 $(cat $at.pid); \
             flock $dir/lock true; {program} daemon --dir $dir > $at.log 2>&1 & echo $! > $at.pid; \
             for look in $(seq 300); do \
             {program} site status --dir $dir > /dev/null 2>&1 && exit 0; sleep 0.1; done; exit 1"
        );
        (Self(files), script)
    }
}

impl Drop for PeerUnits {
    fn drop(&mut self) {
        for file in &self.0 {
            let process = fs::read_to_string(file).unwrap_or_default();
            // It may be killed already.
            let _ = Command::new("kill").args(["-9", process.trim()]).status();
        }
    }
}

/// Promise: at a site of two peers the loss of either one, the controller included, passes, and the
/// check names both; their clocks are compared. A command that fails is an error, and says so.
#[test]
fn peers_are_lost_and_come_back() {
    let root = Scratch::in_memory();
    let Some(etcd) = Etcd::start(root.path(), 1) else { return };
    let h1 = Site::first_peer(root.path(), "hpc", &etcd);
    let h2 = h1.join(root.path(), "h2");
    let (_units, kill) = PeerUnits::of(root.path(), &[("h1", &h1), ("h2", &h2)]);
    h1.fails(2, &["selftest", "--yes", "--only", "moves", "--kill-peer", &kill]);
    let both = "clocks,killed-peer,killed-controller";
    let output = h2.run(&["selftest", "--yes", "--only", both, "--kill-peer", &kill]);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    for name in ["clocks", "killed-peer", "killed-controller"] {
        assert!(text.contains(&format!("PASS     {name}")), "{}", told(&output));
    }
    for words in [
        "other peers, 1: the clocks differ by",
        "h2 was a peer, h1 is the controller now",
        "h1 was the controller, h",
    ] {
        assert!(text.contains(words), "{}", told(&output));
    }
    assert_eq!(own_directories(&h1.store), [] as [PathBuf; 0]);
    let output = h2.run(&["selftest", "--yes", "--only", "killed-peer", "--kill-peer", "exit 3"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("ERROR    killed-peer"), "{}", told(&output));
    assert!(text.contains("the command of --kill-peer ended with exit status: 3"), "{text}");
}

/// Promise: a store that alters a byte of a file that has its final name is found out: FAIL, exit
/// 3.
#[test]
fn a_store_that_alters_data_fails() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    site.ok(&["queue", "hold", "test", "--store", "data"]);
    let mut command = site.command(&["selftest", "--yes", "--only", "moves,same-id"]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let selftest = command.spawn().unwrap();
    let states = || site.list().into_iter().map(|it| it["state"].clone()).collect::<Vec<_>>();
    Wait::new("a transfer that is held").is(|| states() == ["queued"]);
    // It sees neither the end of the transfer nor the copy before the copy is altered.
    signal(selftest.id(), Signal::STOP);
    site.ok(&["queue", "release", "test"]);
    Wait::new("the end of the transfer").is(|| states() == ["done"]);
    let copy = own_directories(&site.store)[0].join("copy/large.bin");
    let file = fs::File::options().write(true).open(copy).unwrap();
    file.write_all_at(b"altered", 12_345).unwrap();
    signal(selftest.id(), Signal::CONT);
    let output = selftest.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(text.contains("FAIL     moves") && text.contains("large.bin` differs"), "{text}");
    assert!(text.contains("PASS     same-id"), "{text}");
    assert_eq!(own_directories(&site.store), [] as [PathBuf; 0]);
}

/// Waits for a name in the directory of a selftest, and does something with that directory once.
fn when_there(
    store: &Path,
    name: &'static str,
    then: impl FnOnce(&Path) + Send + 'static,
) -> JoinHandle<()> {
    let store = store.to_owned();
    thread::spawn(move || {
        let there = |own: &PathBuf| fs::symlink_metadata(own.join(name)).is_ok();
        let look = || own_directories(&store).into_iter().find(there);
        then(&Wait::new(name).every(Duration::from_millis(1)).some(look));
    })
}

/// Promise: each of these checks sees its promise broken: a name of an incomplete file, a source
/// file that goes before it has come, a further file that differs, a transfer under an id that is
/// taken, a file behind a link out of the store, a file that is deleted for an empty source, a
/// lock that was replaced under its daemon.
#[test]
fn broken_promises_are_seen() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    let lock = site.dir.join("lock");
    let planted = [
        when_there(&site.store, "named/small/9", |own| {
            fs::write(own.join("named/small/9"), [7; 100]).unwrap();
        }),
        when_there(&site.store, "taken", |own| {
            fs::remove_file(own.join("given/large.bin")).unwrap();
        }),
        when_there(&site.store, "flipped/small/9", |own| {
            fs::write(own.join("flipped/small/9"), [7; 4096]).unwrap();
        }),
        when_there(&site.store, "twice", |own| {
            fs::create_dir(own.join("other")).unwrap();
            fs::write(own.join("other/begun"), "x").unwrap();
        }),
        when_there(&site.store, "door", |own| {
            let outside = fs::read_link(own.join("door")).unwrap();
            fs::write(outside.join("written"), "x").unwrap();
        }),
        when_there(&site.store, "nothing", |own| {
            fs::remove_file(own.join("kept/small/3")).unwrap();
            fs::remove_file(&lock).unwrap();
            fs::write(lock, "").unwrap();
        }),
    ];
    let file = root.path().join("junit.xml");
    let only = "final-names,source-removal,flipped-bit,same-id,climbs-out,empty-source,\
                second-daemon";
    let output =
        site.run(&["selftest", "--yes", "--only", only, "--junit", file.to_str().unwrap()]);
    for planted in planted {
        planted.join().unwrap();
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    for (name, words) in [
        ("final-names", "small/9` has 100 of 4096 bytes"),
        ("source-removal", "`large.bin` is gone from the source and is not at the target"),
        ("flipped-bit", ""),
        ("same-id", "was begun under its id"),
        ("climbs-out", "written behind a link"),
        ("empty-source", "kept/small/3` is missing"),
        ("second-daemon", "lock` was free"),
    ] {
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.starts_with("FAIL") && line.contains(words), "{}", told(&output));
    }
    let xml = fs::read_to_string(&file).unwrap();
    assert!(xml.contains("tests=\"7\" failures=\"7\""), "{xml}");
    assert_eq!(own_directories(&site.store), [] as [PathBuf; 0]);
}

/// Promise: what ends a check before it knows anything is an ERROR, and no broken promise; neither
/// that nor a selftest of which nothing was run ends with exit 0.
#[test]
fn an_error_of_a_check_is_no_failure() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    let said = site.run(&["selftest", "--yes", "--only", "killed-daemon"]);
    assert_eq!(said.status.code(), Some(1), "{}", told(&said));
    assert!(String::from_utf8_lossy(&said.stdout).contains("NOT RUN"), "{}", told(&said));
    let said = site.fails(2, &["selftest", "--yes", "--scratch", "typo"]);
    assert!(said.contains("has no store `typo`"), "{said}");
    let junit = root.path().to_str().unwrap();
    let said = site.fails(2, &["selftest", "--yes", "--junit", junit]);
    assert!(said.contains("directory"), "{said}");
    let kill = format!("kill -9 {}; exit 7", site.process());
    let output = site.run(&["selftest", "--yes", "--only", "moves,killed-daemon", "--kill", &kill]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(text.contains("PASS     moves") && text.contains("ERROR    killed"), "{text}");
    assert!(text.contains("the command of --kill ended with exit status: 7"), "{text}");
    assert_eq!(own_directories(&site.store), [] as [PathBuf; 0]);
    let said = site.fails(5, &["selftest", "--yes"]);
    assert!(said.contains("daemon"), "{said}");
}

/// Promise: a small store is filled up, and a transfer waits for room there with that reason.
#[test]
fn a_small_store_is_filled_up() {
    let root = Scratch::in_memory();
    let disk = Mount::tmpfs(root.path(), "small", 160);
    let mut site = Site::create(root.path(), "lab", &disk.path, &[]);
    site.start();
    let text = site.ok(&["selftest", "--yes", "--only", "full-store"]);
    assert!(text.starts_with("PASS     full-store") && text.contains("room"), "{text}");
    site.stop();
}
