//! Copies into directories that belong to others, and into file systems that refuse attributes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use penstock_testkit::{Copy, Ended, Mount, Run, Scratch, can_trace, is_root, tool, two_sites};
use serde_json::Value;

/// A user without an account.
const USER: u32 = 54_321;

/// A directory that the user can reach and work in.
fn reachable() -> Scratch {
    let base = Scratch::on_disk();
    fs::set_permissions(base.path(), Permissions::from_mode(0o777)).unwrap();
    base
}

/// A small tree of the user's, with all kinds that a user can make.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("s")).unwrap();
    fs::write(root.join("s/f"), "f").unwrap();
    fs::write(root.join("g"), "g").unwrap();
    fs::hard_link(root.join("g"), root.join("s/again")).unwrap();
    symlink("g", root.join("link")).unwrap();
    tool("mkfifo", &[&root.join("pipe")]);
    tool("touch", &[&"-h", &"-d", &"2001-02-03", &root.join("g"), &root.join("s"), &root]);
    tool("chown", &[&"-hR", &format!("{USER}:{USER}"), &root]);
}

fn told(ended: &Ended) -> Vec<(String, String, u64)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of =
        |told: &Value| (text(&told["class"]), text(&told["why"]), told["items"].as_u64().unwrap());
    ended.last["not_kept"].as_array().unwrap().iter().map(of).collect()
}

/// Promise (D9): a user copies into directories that belong to others: what may not be set of those
/// is summed up, all files arrive, and the exit code is 0; with `strict` these directories fail.
#[test]
fn directories_of_others_keep_their_attributes() {
    if !is_root("directories of several users") {
        return;
    }
    for mode in [0o1777, 0o2777] {
        let base = reachable();
        let (source, target) = (base.path().join("src"), base.path().join("shared"));
        make_tree(&source);
        fs::create_dir_all(target.join("s")).unwrap();
        for directory in [target.clone(), target.join("s")] {
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            chown(&directory, Some(2222), Some(2222)).unwrap();
        }
        let before = fs::metadata(target.join("s")).unwrap();
        let copy = Copy::new(base.path());
        let contents = format!("{}/", source.display());
        for options in [&[][..], &["--sync"], &["--sync", "--delete"]] {
            let mut command = copy.command_as(USER, &contents, &target);
            let ended = Run::spawn(command.args(options)).end().expect(0);
            let times = told(&ended).into_iter().find(|told| told.0 == "directory-times").unwrap();
            assert_eq!(times, ("directory-times".to_owned(), "not-permitted".to_owned(), 2));
            assert!(told(&ended).iter().all(|told| told.0 != "times"), "{}", ended.last);
        }
        let after = fs::metadata(target.join("s")).unwrap();
        assert_eq!((after.mode(), after.uid()), (before.mode(), 2222));
        assert_eq!(fs::read(target.join("s/f")).unwrap(), b"f");
        assert_eq!(fs::metadata(target.join("g")).unwrap().mtime(), 981_158_400);
        let mut strict = copy.command_as(USER, &contents, &target);
        let strict = Run::spawn(strict.arg("--preserve=strict")).end().expect(3);
        assert_eq!(strict.figure("errors"), 2, "{}", strict.last);
    }
}

/// Promise: a file system that sets no times, or neither modes nor attributes, fails no file: that
/// is summed up, with a word on what `--sync` will do; `strict` fails.
#[test]
fn what_a_server_does_not_set_is_summed_up() {
    if !can_trace("a server that sets no times") {
        return;
    }
    let base = reachable();
    let (source, copy) = (base.path().join("src"), Copy::new(base.path()));
    make_tree(&source);
    if is_root("an attribute") {
        tool("setfattr", &[&"-n", &"trusted.a", &"-v", &"1", &source.join("g")]);
    }
    let contents = format!("{}/", source.display());
    let modes = ["fchmod,fchmodat,fsetxattr,setxattr:error=EOPNOTSUPP"];
    let cases: [(&[&str], &str, &str); 3] = [
        (&["utimensat:error=EPERM"], "times", "not-permitted"),
        (&["utimensat:error=EOPNOTSUPP"], "times", "not-supported"),
        (&modes, "mode", "not-supported"),
    ];
    for (number, (faults, class, why)) in cases.into_iter().enumerate() {
        let target = base.path().join(format!("dst{number}"));
        let ended = Run::spawn(&mut copy.command_with_faults(faults, &contents, &target)).end();
        let ended = ended.expect(0);
        let found = told(&ended).into_iter().any(|told| (&*told.0, &*told.1) == (class, why));
        assert!(found, "{}", ended.last);
        assert_eq!(fs::read(target.join("s/again")).unwrap(), b"g");
        assert!(fs::symlink_metadata(target.join("pipe")).is_ok() && target.join("link").exists());
        let strict = base.path().join(format!("strict{number}"));
        let mut strict = copy.command_with_faults(faults, &contents, &strict);
        Run::spawn(strict.arg("--preserve=strict")).end().expect(3);
    }
}

/// Promise: a directory whose attributes cannot be set fails no transfer between sites either.
#[test]
fn a_directory_that_keeps_its_attributes_fails_no_transfer() {
    if !is_root("an immutable directory") {
        return;
    }
    let base = reachable();
    let disk = Mount::on_loop(base.path(), "disk", "ext4", 64);
    let (data_a, data_b) = (base.path().join("data-a"), disk.path.clone());
    make_tree(&data_a.join("set"));
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    let submit = || {
        let id = b.ok(&["transfer", "submit", "a:data/set/", "b:data/set/", "--sync"]);
        b.follow(id.trim()).expect(0)
    };
    submit();
    tool("touch", &[&"-d", &"2002-02-03", &data_a.join("set/s")]);
    tool("chattr", &[&"+i", &data_b.join("set/s")]);
    let ended = submit();
    tool("chattr", &[&"-i", &data_b.join("set/s")]);
    let times = told(&ended).into_iter().find(|told| told.0 == "directory-times");
    assert_eq!(times.map(|told| (told.1, told.2)), Some(("not-permitted".to_owned(), 1)));
}

/// A module cache at the target beside files of the source: directories of mode 0555, which are the
/// user's own; `kept` is one that holds something that is not to be deleted.
fn make_cache(base: &Path, user: u32) {
    for tree in ["src", "dst"] {
        let tree = base.join(tree);
        fs::create_dir(&tree).unwrap();
        for number in 0..9 {
            fs::write(tree.join(number.to_string()), number.to_string()).unwrap();
        }
    }
    let cache = base.join("dst/go/mod@v1");
    for directory in ["sub", "kept"] {
        fs::create_dir_all(cache.join(directory)).unwrap();
        fs::write(cache.join(directory).join("old"), "old").unwrap();
    }
    fs::write(cache.join("kept/it.keep"), "kept").unwrap();
    for directory in ["sub", "kept", ""] {
        fs::set_permissions(cache.join(directory), Permissions::from_mode(0o555)).unwrap();
    }
    tool("chown", &[&"-R", &format!("{user}:{user}"), &base.join("src"), &base.join("dst")]);
}

/// Promise: `--delete` deletes in directories that are the user's own and read-only, with and
/// without a backup directory; what stays there has its mode still.
#[test]
fn read_only_directories_are_emptied() {
    if !is_root("a user of its own") {
        return;
    }
    for user in [USER, 0] {
        for backup in [&[][..], &["--backup-dir", "old"]] {
            let base = reachable();
            make_cache(base.path(), user);
            let (source, target) = (base.path().join("src"), base.path().join("dst"));
            let copy = Copy::new(base.path());
            let contents = format!("{}/", source.display());
            let mut command = copy.command_as(user, &contents, &target);
            command.args(["--sync", "--delete", "--exclude", "*.keep"]).args(backup);
            let ended = Run::spawn(&mut command).end().expect(0);
            let cache = target.join("go/mod@v1");
            assert!(!cache.join("sub").exists() && !cache.join("kept/old").exists());
            assert!(cache.join("kept/it.keep").exists());
            for directory in [cache.clone(), cache.join("kept")] {
                let mode = fs::metadata(&directory).unwrap().mode() & 0o7777;
                assert_eq!(mode, 0o555, "{}", directory.display());
            }
            assert_eq!(target.join("old/go/mod@v1/kept/old").exists(), !backup.is_empty());
            // With a backup directory the directories go, and are no item of it.
            assert_eq!(ended.figure("deleted"), 3, "{}", ended.last);
        }
    }
}

/// Promise: directories of others are not unlocked: what cannot be deleted there is listed.
#[test]
fn read_only_directories_of_others_stay() {
    if !is_root("several users") {
        return;
    }
    let base = reachable();
    make_cache(base.path(), USER);
    let sub = base.path().join("dst/go/mod@v1/sub");
    chown(&sub, Some(2222), Some(2222)).unwrap();
    let contents = format!("{}/", base.path().join("src").display());
    let copy = Copy::new(base.path());
    let mut command = copy.command_as(USER, &contents, &base.path().join("dst"));
    let ended = Run::spawn(command.args(["--sync", "--delete"])).end().expect(3);
    assert!(ended.errors.contains("go/mod@v1/sub/old: was not deleted"), "{}", ended.errors);
    assert_eq!(fs::metadata(&sub).unwrap().mode() & 0o7777, 0o555);
}

/// Promise: `--remove-source`, and replacing what is there, work in read-only directories too.
#[test]
fn read_only_directories_are_moved_and_written_to() {
    if !is_root("a user of its own") {
        return;
    }
    let base = reachable();
    make_cache(base.path(), USER);
    let (source, target) = (base.path().join("dst"), base.path().join("moved"));
    let contents = format!("{}/", source.display());
    let copy = Copy::new(base.path());
    Run::spawn(&mut copy.command_as(USER, &contents, &target)).end().expect(0);
    let old = source.join("go/mod@v1/sub/old");
    fs::remove_file(target.join("go/mod@v1/kept/it.keep")).unwrap();
    fs::write(&old, "newer, and longer").unwrap();
    let mut command = copy.command_as(USER, &contents, &target);
    let options = ["--sync", "--backup-dir", "bak", "--remove-source"];
    Run::spawn(command.args(options)).end().expect(0);
    assert!(!old.exists() && !source.join("go/mod@v1/kept/it.keep").exists());
    let moved = target.join("go/mod@v1/sub");
    assert_eq!(fs::read(moved.join("old")).unwrap(), b"newer, and longer");
    assert_eq!(fs::metadata(&moved).unwrap().mode() & 0o7777, 0o555);
    assert_eq!(fs::read(target.join("bak/go/mod@v1/sub/old")).unwrap(), b"old");
}

/// Promise: a device that the process may not make is a failed item, named and counted; all else
/// arrives, and `--no-preserve devices` leaves devices out.
#[test]
fn devices_that_may_not_be_made_are_failed_items() {
    if !is_root("devices") {
        return;
    }
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::write(source.join("d/f"), "bytes").unwrap();
    tool("mknod", &[&source.join("d/null"), &"c", &"1", &"3"]);
    tool("mkfifo", &[&source.join("d/pipe")]);
    let copy = Copy::new(base.path());
    let contents = format!("{}/", source.display());
    let run = |options: &[&str]| {
        let inner = copy.command(&contents, &target);
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-mknod", "--inh-caps=-mknod"]).arg(inner.get_program());
        command.args(inner.get_args()).args(options).current_dir(base.path());
        command.env("PENSTOCK_STATE_HOME", copy.state());
        Run::spawn(&mut command).end()
    };
    let ended = run(&[]).expect(3);
    assert!(ended.errors.contains("d/null"), "{}", ended.errors);
    assert_eq!(ended.figure("errors"), 1, "{}", ended.last);
    assert_eq!(fs::read(target.join("d/f")).unwrap(), b"bytes");
    assert!(target.join("d/pipe").exists() && !target.join("d/null").exists());
    run(&["--no-preserve", "devices"]).expect(0);
}
