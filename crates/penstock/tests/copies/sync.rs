//! `--sync` and `--if-exists`: what is the same stays, what is not is replaced in one step, and
//! what may not be touched is not.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use penstock_testkit::{
    Copy, Run, Scratch, Slowly, assert_no_leftovers, assert_same, copy_with, figure, files_below,
    make_files, rng, tool, two_sites,
};
use rand::RngExt as _;

const MIB: usize = 1 << 20;

fn inodes(root: &Path) -> Vec<(PathBuf, u64, i64)> {
    let mut found: Vec<_> = files_below(root)
        .into_iter()
        .map(|path| {
            let meta = fs::metadata(&path).unwrap();
            (path, meta.ino(), meta.ctime_nsec())
        })
        .collect();
    found.sort();
    found
}

/// Promise: a transfer that is run again with `--sync` moves nothing and touches no file: the same
/// inodes, with the same change times.
#[test]
fn what_is_the_same_stays_as_it_is() {
    let mut rng = rng("same");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 300, 20_000, &[30 * MIB, 20 * MIB + 1]);
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    let before = inodes(&target);
    let again = copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    let files = files_below(&source).len() as u64;
    assert_eq!(again.figure("files"), 0, "{}", again.last);
    assert_eq!(again.figure("bytes_verified"), 0, "{}", again.last);
    assert_eq!(again.figure("skipped"), files, "{}", again.last);
    assert_eq!(inodes(&target), before, "nothing was touched");
    assert_same(&source, &target);
    // Without it everything is copied, as ever.
    let all = copy_with(&copy, &source, &target, &[]).expect(0);
    assert_eq!(all.figure("files"), files, "{}", all.last);
    copy.assert_no_state();
}

/// Promise: with `--sync` just what differs is moved: another size, another time, another text of a
/// link, another kind; a mode alone is set without moving anything.
#[test]
fn what_differs_is_moved_and_nothing_else() {
    let mut rng = rng("differs");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 100, 5_000, &[9 * MIB, 12 * MIB]);
    symlink("one", source.join("text")).unwrap();
    symlink("two", source.join("was a link")).unwrap();
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    let write = |name: &str, bytes: &[u8]| fs::write(source.join(name), bytes).unwrap();
    write("dir1/small1", b"another size and time");
    let size = fs::metadata(source.join("dir2/small2")).unwrap().len();
    write("dir2/small2", &vec![7; size as usize]);
    write("dir3/new", b"new");
    File::options().append(true).open(source.join("dir1/large1")).unwrap().set_len(5000).unwrap();
    fs::remove_file(source.join("text")).unwrap();
    symlink("uno", source.join("text")).unwrap();
    fs::remove_file(source.join("was a link")).unwrap();
    write("was a link", b"a file now");
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(source.join("dir4/small4"), mode).unwrap();
    let inode = fs::metadata(target.join("dir4/small4")).unwrap().ino();
    let ended = copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_eq!(ended.figure("files"), 5, "{}", ended.last);
    assert_eq!(fs::metadata(target.join("dir4/small4")).unwrap().ino(), inode, "set in place");
    assert_same(&source, &target);
}

/// Promise: `--if-exists` does what it says of names that are taken by something else, and
/// `--sync` says first what is the same; what is refused is listed (exit 3) and not touched.
#[test]
fn names_that_are_taken_are_treated_as_asked() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::create_dir_all(target.join("d")).unwrap();
    let at = |path: &Path, text: &str, seconds: u64| {
        fs::write(path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let lay = || {
        for (name, here, there) in [("d/older", 10, 20), ("d/newer", 30, 20), ("d/equal", 5, 5)] {
            at(&source.join(name), "source", here);
            at(&target.join(name), "target", there);
        }
        at(&source.join("d/only"), "source", 1);
        let _ = fs::remove_file(target.join("d/only"));
    };
    let read = |name: &str| fs::read_to_string(target.join("d").join(name)).unwrap();
    let copy = Copy::new(base.path());
    lay();
    let skip = copy_with(&copy, &source, &target, &["--if-exists", "skip"]).expect(0);
    assert_eq!((skip.figure("files"), skip.figure("skipped")), (1, 3), "{}", skip.last);
    assert_eq!((read("older"), read("newer"), read("only")).2, "source");
    assert_eq!((read("older").as_str(), read("newer").as_str()), ("target", "target"));
    lay();
    let newer = copy_with(&copy, &source, &target, &["--if-exists", "newer"]).expect(0);
    assert_eq!((newer.figure("files"), newer.figure("skipped")), (2, 2), "{}", newer.last);
    assert_eq!((read("older").as_str(), read("newer").as_str()), ("target", "source"));
    lay();
    let fail = copy_with(&copy, &source, &target, &["--if-exists", "fail"]).expect(3);
    assert_eq!((fail.figure("files"), fail.figure("errors")), (1, 3), "{}", fail.last);
    assert!(fail.errors.contains("exists at the target already"), "{}", fail.errors);
    assert_eq!((read("older").as_str(), read("newer").as_str()), ("target", "target"));
    lay();
    // The same size and time: the same, by what `--sync` goes by.
    let both = ["--sync", "--if-exists", "fail"];
    let fail = copy_with(&copy, &source, &target, &both).expect(3);
    assert_eq!((fail.figure("files"), fail.figure("errors")), (1, 2), "{}", fail.last);
    assert_eq!(fail.figure("skipped"), 1, "{}", fail.last);
    lay();
    let replace = copy_with(&copy, &source, &target, &[]).expect(0);
    assert_eq!(replace.figure("files"), 4, "{}", replace.last);
    assert_same(&source, &target);
    copy.assert_no_state();
}

/// Promise (d), A1: `kill -9` in the middle of a sync costs what was in flight: the next run knows
/// what stayed and what was decided, moves the rest, and ends with a tree that is the same. Until
/// a file is replaced, its old version stands whole under its name (b).
#[test]
fn d_a_sync_that_is_killed_goes_on_where_it_was() {
    let mut rng = rng("sync killed");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 400, 100_000, &[40 * MIB, 30 * MIB, 20 * MIB]);
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    let old: Vec<_> = files_below(&target);
    let mut changed = 0;
    for path in files_below(&source) {
        if rng.random_bool(0.5) {
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, bytes.iter().map(|byte| byte ^ 1).collect::<Vec<_>>()).unwrap();
            changed += 1;
        }
    }
    let total = old.len() as u64;
    let contents = format!("{}/", source.display());
    let mut kills = 0;
    for kill in 0..6 {
        let mut run = Run::spawn(copy.command(&contents, &target).arg("--sync"));
        let slowly = Slowly::with_stops(run.id(), Duration::from_millis(100));
        let alive = run.wait_for(|line| figure(line, "files") >= kill * 10).is_some();
        let running = alive && run.watch_for(Duration::from_millis(rng.random_range(0..900)));
        drop(slowly);
        if !running || run.seen().back().is_some_and(|(_, line)| line["type"] == "summary") {
            run.end().expect(0);
            break;
        }
        run.kill();
        kills += 1;
        for path in &old {
            let now = fs::read(path).unwrap();
            let new = fs::read(source.join(path.strip_prefix(&target).unwrap())).unwrap();
            let before: Vec<u8> = new.iter().map(|byte| byte ^ 1).collect();
            assert!(now == new || now == before, "{} is neither old nor new", path.display());
        }
    }
    assert!(kills > 0, "the sync ended before it could be killed");
    println!("{kills} kills, {changed} of {total} files changed");
    let last = Run::spawn(copy.command(&contents, &target).arg("--sync")).end().expect(0);
    assert_eq!(last.figure("files") + last.figure("skipped"), total, "{}", last.last);
    assert_same(&source, &target);
    assert_no_leftovers(&target);
    copy.assert_no_state();
}

/// Promise: between sites `--sync` and `--if-exists` mean the same.
#[test]
fn sites_sync_too() {
    let mut rng = rng("sites sync");
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    make_files(&mut rng, &data_a.join("set"), 200, 20_000, &[9 * MIB]);
    let (a, b) = two_sites(base.path(), &data_a, &data_b);
    let first = b.submit(&["a:data/set", "b:data/"]);
    b.follow(&first).expect(0);
    let files = files_below(&data_a.join("set")).len() as u64;
    let sync = |options: &[&str]| {
        let mut args = vec!["transfer", "submit", "a:data/set", "b:data/"];
        args.extend(options);
        b.follow(b.ok(&args).trim())
    };
    let again = sync(&["--sync"]).expect(0);
    assert_eq!((again.figure("files"), again.figure("skipped")), (0, files), "{}", again.last);
    fs::write(data_a.join("set/dir1/small1"), b"changed").unwrap();
    let changed = sync(&["--sync"]).expect(0);
    assert_eq!(changed.figure("files"), 1, "{}", changed.last);
    assert_same(&data_a.join("set"), &data_b.join("set"));
    fs::write(data_a.join("set/dir2/small2"), b"changed as well").unwrap();
    let refused = sync(&["--sync", "--if-exists", "fail"]).expect(3);
    assert_eq!(refused.figure("errors"), 1, "{}", refused.last);
    drop(a);
}

/// Promise: a pipe that stays gets the mode of the source's; what `--if-exists skip` leaves though
/// it is another thing gets nothing of it.
#[test]
fn what_stays_gets_attributes_only_if_it_is_the_same() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    tool("mkfifo", &[&"-m", &"0600", &source.join("pipe")]);
    symlink("one", source.join("link")).unwrap();
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    tool("chmod", &[&"0622", &source.join("pipe")]);
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    let pipe = fs::metadata(target.join("pipe")).unwrap();
    assert_eq!(pipe.mode() & 0o777, 0o622, "the source's mode");

    fs::remove_file(source.join("link")).unwrap();
    symlink("two", source.join("link")).unwrap();
    tool("touch", &[&"-h", &"-d", &"2001-01-01", &source.join("link")]);
    let before = fs::symlink_metadata(target.join("link")).unwrap();
    copy_with(&copy, &source, &target, &["--sync", "--if-exists", "skip"]).expect(0);
    let after = fs::symlink_metadata(target.join("link")).unwrap();
    assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("one"));
    assert_eq!((after.mtime(), after.ctime_nsec()), (before.mtime(), before.ctime_nsec()));
}

/// B6, promise (c): where times are not kept, an older file of the same size that stays under the
/// first name of a file is not given its further names: they are listed as failed.
#[test]
fn b6_what_was_left_is_no_first_name() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), b"new").unwrap();
    fs::hard_link(source.join("one"), source.join("two")).unwrap();
    let copy = Copy::new(base.path());
    for taken in ["one", "two"] {
        let _ = fs::remove_dir_all(&target);
        fs::create_dir(&target).unwrap();
        fs::write(target.join(taken), b"old").unwrap();
        tool("touch", &[&"-d", &"2001-01-01", &target.join(taken)]);
        let options = ["--no-preserve", "times", "--if-exists", "skip"];
        let ended = copy_with(&copy, &source, &target, &options);
        let other = if taken == "one" { "two" } else { "one" };
        // Which of them is the first name is the directory's affair.
        match ended.figure("errors") {
            0 => assert_eq!(fs::read(target.join(other)).unwrap(), b"new"),
            _ => assert!(!target.join(other).exists()),
        }
        assert_eq!(fs::read(target.join(taken)).unwrap(), b"old");
    }
}
