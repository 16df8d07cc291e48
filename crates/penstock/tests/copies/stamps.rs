//! Targets and sources whose file systems keep times in steps of a second, or not at all times.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use penstock_testkit::{
    Copy, Mount, Scratch, SshHost, SshOptions, copy_with, is_root, program, tool, two_sites,
};

fn set_time(path: &Path, seconds: u64, nanoseconds: u32) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// A tree with times that a step of a second truncates.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("d")).unwrap();
    for number in 0..9 {
        let path = root.join(format!("d/{number}"));
        fs::write(&path, format!("content {number}")).unwrap();
        set_time(&path, 1_500_000_000 + number, 123_456_789);
    }
    fs::hard_link(root.join("d/1"), root.join("again")).unwrap();
    symlink("d/1", root.join("link")).unwrap();
    tool("mkfifo", &[&root.join("pipe")]);
    tool("touch", &[&"-d", &"1961-02-03 04:05:06.789", &root.join("pipe"), &root.join("d/8")]);
    set_time(&root.join("d"), 1_400_000_001, 999_999_999);
}

fn verify_attributes(source: &Path, target: &Path) {
    tool(program(), &[&"verify", &"--attributes", &source.join(""), &target]);
}

/// Promise (C9): a target with stamps of a second, and a source with them, are up to date after one
/// copy: `--sync`, `--if-exists newer` and a plan do nothing, and `verify --attributes` agrees. A
/// newer file is still found.
#[test]
fn stamps_of_a_second_are_compared_in_seconds() {
    if !is_root("a file system with stamps of a second") {
        return;
    }
    let base = Scratch::on_disk();
    let coarse = Mount::on_loop(base.path(), "coarse", "ext3", 64);
    let (fine, target) = (base.path().join("fine"), coarse.path.join("target"));
    make_tree(&fine);
    let copy = Copy::new(base.path());
    // The other way the coarse side is the source, and the fine one has more digits.
    for (source, target) in [(&fine, &target), (&target, &fine)] {
        copy_with(&copy, source, target, &["--sync"]).expect(0);
        let fifo = target.join("pipe");
        let before = fs::symlink_metadata(&fifo).unwrap();
        for options in [&["--sync"][..], &["--if-exists", "newer"]] {
            let again = copy_with(&copy, source, target, options).expect(0);
            assert_eq!(again.figure("files"), 0, "{options:?}: {}", again.last);
            let plan = copy_with(&copy, source, target, &[&["-n"], options].concat()).expect(0);
            for action in ["copy", "replace", "attributes"] {
                assert_eq!(plan.last["totals"][action]["items"], 0, "{options:?}: {}", plan.last);
            }
        }
        assert_eq!(fs::symlink_metadata(&fifo).unwrap().mtime_nsec(), before.mtime_nsec());
        verify_attributes(source, target);
    }
    for (number, nanoseconds) in [(2, 0), (3, 5)] {
        let path = fine.join(format!("d/{number}"));
        fs::write(&path, format!("CONTENT {number}")).unwrap();
        set_time(&path, 1_500_000_001 + number, nanoseconds);
    }
    let changed = copy_with(&copy, &fine, &target, &["--sync"]).expect(0);
    assert_eq!(changed.figure("files"), 2, "{}", changed.last);
    assert_eq!(fs::read(target.join("d/2")).unwrap(), b"CONTENT 2");
    copy_with(&copy, &fine, &target, &["--remove-source"]).expect(0);
    assert!(!fine.join("d/1").exists(), "what stands at the target is removed at the source");
}

/// Promise: on a file system with finer stamps a whole second is a time like any other: a file that
/// was changed within that second is another version.
#[test]
fn a_whole_second_is_no_coarse_stamp() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("a"), base.path().join("b"));
    for (root, text, nanoseconds) in [(&source, "new", 700_000_000), (&target, "old", 0)] {
        fs::create_dir(root).unwrap();
        fs::write(root.join("f"), text).unwrap();
        set_time(&root.join("f"), 1_500_000_000, nanoseconds);
    }
    let copy = Copy::new(base.path());
    let newer = copy_with(&copy, &source, &target, &["-n", "--if-exists", "newer"]).expect(0);
    assert_eq!(newer.last["totals"]["replace"]["items"], 1, "{}", newer.last);
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_eq!(fs::read(target.join("f")).unwrap(), b"new");
}

/// Promise: a time that the target's file system cannot keep is summed up, fails with `strict`
/// only, and does not lead to another copy each time.
#[test]
fn a_time_that_does_not_fit_is_told_and_is_no_other_version() {
    if !is_root("a file system that ends in 2038") {
        return;
    }
    let base = Scratch::on_disk();
    let small = Mount::on_loop(base.path(), "small", "ext3", 64);
    let memory = Mount::tmpfs(base.path(), "memory", 8);
    let (source, target) = (memory.path.join("src"), small.path.join("dst"));
    fs::create_dir_all(source.join("d")).unwrap();
    for (name, date) in [("d/early", "1850-01-01"), ("d/late", "2150-01-01"), ("d", "2040-01-01")] {
        let path = source.join(name);
        if name != "d" {
            fs::write(&path, name).unwrap();
        }
        tool("touch", &[&"-d", &date, &path]);
    }
    let copy = Copy::new(base.path());
    let ended = copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    let told = ended.last["not_kept"].as_array().unwrap();
    let of = |class: &str| told.iter().find(|told| told["class"] == class).unwrap().clone();
    assert_eq!((&of("times")["why"], &of("times")["items"]), (&"unfit".into(), &2.into()));
    assert_eq!(of("directory-times")["items"], 1);
    let again = copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_eq!((again.figure("files"), again.figure("skipped")), (0, 2), "{}", again.last);
    verify_attributes(&source, &target);
    let strict = small.path.join("strict");
    let strict = copy_with(&copy, &source, &strict, &["--preserve=strict"]).expect(3);
    assert_eq!(strict.figure("errors"), 3, "{}", strict.last);
}

/// Promise: between sites, and over ssh, times are compared in the same way.
#[test]
fn stamps_of_a_second_are_compared_so_at_other_hosts() {
    if !is_root("a file system with stamps of a second") {
        return;
    }
    let base = Scratch::on_disk();
    let coarse = Mount::on_loop(base.path(), "coarse", "ext3", 64);
    let data_a = base.path().join("data-a");
    make_tree(&data_a.join("set"));
    let (_a, b) = two_sites(base.path(), &data_a, &coarse.path);
    for files in [9, 0] {
        let id = b.ok(&["transfer", "submit", "a:data/set/", "b:data/set/", "--sync"]);
        let id = id.trim().to_owned();
        let ended = b.follow(&id).expect(0);
        assert_eq!(ended.figure("files"), files, "{}", ended.last);
    }
    let host = SshHost::start(&SshOptions::default());
    host.install();
    make_tree(&host.path("local/tree"));
    let target = format!("127.0.0.1:{}", coarse.path.join("ssh").display());
    for files in [9, 0] {
        let ended = host.run(&["--sync", "tree/", &target]).expect(0);
        assert_eq!(ended.figure("files"), files, "{}", ended.last);
    }
}
