//! `--delete`, `--max-delete` and `--backup-dir`: what is not at the source goes, when it is sure
//! that it should, and nothing else ever does (C3, B4, promise (e)).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use penstock_proto::name::{OwnKind, RunTag, own_name};
use penstock_testkit::{
    Copy, Run, Scratch, Slowly, assert_no_leftovers, assert_same, copy_with, figure, is_root,
    make_files, rng, rsync_would, tool, two_sites,
};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;

const MIB: usize = 1 << 20;

/// A source of 8 files in two directories, and a copy of it with `more` things in it.
fn copied(base: &Path, more: usize) -> (PathBuf, PathBuf, Copy) {
    let (source, target) = (base.join("src"), base.join("dst"));
    for at in 0..8 {
        fs::create_dir_all(source.join(format!("d{}", at % 2))).unwrap();
        fs::write(source.join(format!("d{}/f{at}", at % 2)), format!("file {at}")).unwrap();
    }
    let copy = Copy::new(base);
    copy_with(&copy, &source, &target, &[]).expect(0);
    for at in 0..more {
        fs::write(target.join(format!("d0/more{at}")), "only here").unwrap();
    }
    (source, target, copy)
}

/// Promise: with `--delete` the target ends as the source is: files, links, whole directories that
/// are not at the source are gone, and what is ours or of another transfer is not touched.
#[test]
fn what_is_not_at_the_source_goes() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path(), 1);
    fs::create_dir_all(target.join("gone/deep/deeper")).unwrap();
    fs::write(target.join("gone/deep/deeper/file"), "x").unwrap();
    symlink("/etc", target.join("gone/link")).unwrap();
    fs::write(target.join("d1/two names"), "x").unwrap();
    fs::hard_link(target.join("d1/two names"), target.join("d1/second name")).unwrap();
    let name = own_name(OwnKind::File, RunTag([1; 4]), [2; 12]);
    let other = target.join("d1").join(OsStr::from_bytes(&name));
    fs::write(&other, "half").unwrap();
    // Found, but more than half: 8 of 19 would do, 9 more would not.
    let ended = copy_with(&copy, &source, &target, &["--sync", "--delete"]).expect(0);
    assert_eq!(ended.figure("deleted"), 8, "{}", ended.last);
    assert_eq!(ended.figure("files"), 0, "{}", ended.last);
    assert!(Path::new("/etc/passwd").exists(), "no link is followed");
    assert_eq!(fs::read(&other).unwrap(), b"half", "a temporary file of others stays");
    fs::remove_file(&other).unwrap();
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_same(&source, &target);
    copy.assert_no_state();
}

/// C3: an empty source, more than half of the target, or more than was allowed: exit 6, and nothing
/// is deleted; what was to be moved is moved all the same.
#[test]
fn c3_too_much_is_not_deleted() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path(), 12);
    fs::write(source.join("new"), "new").unwrap();
    let refused = copy_with(&copy, &source, &target, &["--sync", "--delete"]).expect(6);
    assert!(refused.errors.contains("--max-delete 12"), "{}", refused.errors);
    assert_eq!(fs::read(target.join("new")).unwrap(), b"new");
    assert!(target.join("d0/more11").exists(), "nothing is deleted");
    copy.assert_no_state();
    let most = ["--sync", "--delete", "--max-delete", "11"];
    copy_with(&copy, &source, &target, &most).expect(6);
    assert!(target.join("d0/more11").exists(), "nothing is deleted");
    let most = ["--sync", "--delete", "--max-delete", "12"];
    assert_eq!(copy_with(&copy, &source, &target, &most).expect(0).figure("deleted"), 12);
    assert_same(&source, &target);
    let empty = base.path().join("not mounted");
    fs::create_dir(&empty).unwrap();
    let most = ["--sync", "--delete", "--max-delete", "1000"];
    let refused = copy_with(&copy, &empty, &target, &most).expect(6);
    assert!(refused.errors.contains("the source is empty"), "{}", refused.errors);
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_same(&source, &target);
}

/// Promise (e): after any error of the scan nothing is deleted (exit 6). Needs root, to be somebody
/// else who may not list a directory.
#[test]
fn e_nothing_is_deleted_after_a_scan_error() {
    if !is_root("a directory that cannot be listed") {
        return;
    }
    let base = Scratch::on_disk();
    let (source, target, _) = copied(base.path(), 2);
    tool("chown", &[&"-R", &"65534:65534", &target]);
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(source.join("d1"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_dir_all(base.path().join("state")).unwrap();
    let copy = Copy::new(base.path());
    let contents = PathBuf::from(format!("{}/", source.display()));
    let mut command = copy.command_as_nobody(&contents, &target);
    let ended = Run::spawn(command.args(["--sync", "--delete"])).end().expect(6);
    assert!(ended.errors.contains("could not be listed"), "{}", ended.errors);
    assert!(target.join("d0/more0").exists(), "nothing is deleted");
    assert!(target.join("d1/f1").exists(), "what could not be seen is not gone");
}

/// Promise: options that make no sense together are refused before anything is touched.
#[test]
fn deleting_needs_the_whole_source() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path(), 1);
    let list = base.path().join("list");
    fs::write(&list, "d1\n").unwrap();
    let list = list.to_str().unwrap();
    copy_with(&copy, &source, &target, &["--delete", "--files-from", list]).expect(2);
    copy_with(&copy, &source, &target, &["--max-delete", "3"]).expect(2);
    copy_with(&copy, &source, &target, &["--backup-dir", "../away"]).expect(2);
    assert!(target.join("d0/more0").exists());
}

/// Promise: with `--backup-dir` nothing is lost: what is replaced or deleted is there, in the same
/// structure, and is itself never deleted.
#[test]
fn what_goes_is_kept_in_the_backup_directory() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path(), 2);
    symlink("before", source.join("link")).unwrap();
    fs::write(source.join("large"), vec![1; 20 * MIB]).unwrap();
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    fs::remove_file(source.join("link")).unwrap();
    symlink("after", source.join("link")).unwrap();
    fs::write(source.join("large"), vec![2; 20 * MIB + 1]).unwrap();
    fs::write(source.join("d0/f0"), "another").unwrap();
    let options = ["--sync", "--delete", "--backup-dir", "old/of today"];
    for _ in 0..2 {
        copy_with(&copy, &source, &target, &options).expect(0);
        let old = target.join("old/of today");
        assert_eq!(fs::read(old.join("d0/f0")).unwrap(), b"file 0");
        assert_eq!(fs::read(old.join("d0/more1")).unwrap(), b"only here");
        assert_eq!(fs::read(old.join("large")).unwrap(), vec![1; 20 * MIB]);
        assert_eq!(fs::read_link(old.join("link")).unwrap(), Path::new("before"));
        assert!(!old.join("d1/f1").exists(), "what stays is not kept");
    }
    fs::remove_dir_all(target.join("old")).unwrap();
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_same(&source, &target);
}

/// Promise (d): `kill -9` in the middle of a sync that deletes; the same command goes on, and ends
/// with a target that is as the source is.
#[test]
fn d_a_deletion_that_is_killed_goes_on() {
    let mut rng = rng("delete killed");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 300, 10_000, &[10 * MIB]);
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    for at in 0..2000 {
        let directory = target.join(format!("surplus{}", at % 20));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{at}")), "x").unwrap();
    }
    fs::write(source.join("dir1/small1"), "changed").unwrap();
    let contents = format!("{}/", source.display());
    let options = ["--sync", "--delete", "--max-delete", "3000"];
    let mut kills = 0;
    for _ in 0..5 {
        let mut run = Run::spawn(copy.command(&contents, &target).args(options));
        let slowly = Slowly::with_stops(run.id(), Duration::from_millis(60));
        let alive = run.wait_for(|line| figure(line, "skipped") > 0).is_some();
        let running = alive && run.watch_for(Duration::from_millis(rng.random_range(0..1500)));
        drop(slowly);
        if !running || run.seen().back().is_some_and(|(_, line)| line["type"] == "summary") {
            run.end().expect(0);
            break;
        }
        run.kill();
        kills += 1;
    }
    println!("{kills} kills");
    let last = Run::spawn(copy.command(&contents, &target).args(options)).end().expect(0);
    println!("{}", last.last);
    assert_same(&source, &target);
    assert_no_leftovers(&target);
    copy.assert_no_state();
}

/// Changes a tree at random: content, new files and directories, removed and moved ones, links,
/// modes, times.
fn mutate(rng: &mut ChaCha8Rng, root: &Path, changes: usize) {
    for _ in 0..changes {
        let mut directories = vec![root.to_owned()];
        let mut files = Vec::new();
        let mut at = 0;
        while at < directories.len() {
            for entry in fs::read_dir(&directories[at]).unwrap() {
                let entry = entry.unwrap();
                match entry.file_type().unwrap().is_dir() {
                    true => directories.push(entry.path()),
                    false => files.push(entry.path()),
                }
            }
            at += 1;
        }
        let directory = directories.choose(rng).unwrap().clone();
        let fresh = directory.join(format!("n{}", rng.random_range(0..1_000_000)));
        let file = files.choose(rng).cloned();
        let text = vec![rng.random::<u8>(); rng.random_range(0..3000)];
        match (rng.random_range(0..9), file) {
            (0, _) => fs::create_dir(&fresh).unwrap(),
            (1 | 2, _) => fs::write(&fresh, &text).unwrap(),
            (3, _) => symlink(format!("to {}", rng.random_range(0..9)), &fresh).unwrap(),
            (4, Some(file)) => fs::remove_file(file).unwrap(),
            (5, Some(file)) => fs::rename(file, &fresh).unwrap(),
            (6, Some(file)) if !file.is_symlink() => fs::write(file, &text).unwrap(),
            (7, Some(file)) if !file.is_symlink() => {
                let mode = 0o600 | rng.random_range(0..0o100);
                fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
            }
            (8, Some(file)) if !file.is_symlink() => {
                let seconds = rng.random_range(0..2_000_000_000);
                let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 7);
                File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
            }
            _ if directory != root => fs::remove_dir_all(directory).unwrap(),
            _ => {}
        }
    }
}

/// Promise: whatever becomes of a tree between two runs, `--sync --delete` makes the target the
/// same; the judge is `rsync`.
#[test]
fn random_trees_stay_the_same_by_sync_and_delete() {
    if Command::new("rsync").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no rsync (scripts/setup.sh installs it)");
        return;
    }
    let mut rng = rng("random trees");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 60, 3_000, &[9 * MIB]);
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &["--sync", "--delete"]).expect(0);
    for round in 0..8 {
        mutate(&mut rng, &source, 25);
        let options = ["--sync", "--delete", "--max-delete", "1000000"];
        let ended = copy_with(&copy, &source, &target, &options);
        assert_eq!(ended.code, 0, "round {round}: {}\n{}", ended.last, ended.errors);
        assert_eq!(rsync_would(&source, &target, &["--delete"]), "", "round {round}");
        assert_no_leftovers(&target);
    }
    copy.assert_no_state();
}

/// Promise: between sites deleting means the same, with the same guards.
#[test]
fn sites_delete_too() {
    let mut rng = rng("sites delete");
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    make_files(&mut rng, &data_a.join("set"), 50, 5_000, &[]);
    let (a, b) = two_sites(base.path(), &data_a, &data_b);
    let submit = |options: &[&str]| {
        let mut args = vec!["transfer", "submit", "a:data/set", "b:data/"];
        args.extend(options);
        b.follow(b.ok(&args).trim())
    };
    submit(&[]).expect(0);
    fs::write(data_b.join("set/surplus"), "x").unwrap();
    fs::write(data_b.join("beside"), "x").unwrap();
    let ended = submit(&["--sync", "--delete"]).expect(0);
    assert_eq!(ended.figure("deleted"), 1, "{}", ended.last);
    assert_same(&data_a.join("set"), &data_b.join("set"));
    assert!(data_b.join("beside").exists(), "nothing outside of the data set's root");
    for at in 0..100 {
        fs::write(data_b.join(format!("set/surplus{at}")), "x").unwrap();
    }
    submit(&["--sync", "--delete"]).expect(6);
    assert!(data_b.join("set/surplus99").exists());
    drop(a);
}
