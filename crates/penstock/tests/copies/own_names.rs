//! Own names of Penstock, and names of users that look like them: what is a user's is copied,
//! verified and deleted as anything else, and what is ours is never a part of a data set.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use penstock_proto::name::{OwnKind, RunTag, STORE_PRIVATE_NAME, own, own_name};
use penstock_testkit::{
    Copy, Ended, Run, Scratch, SshHost, copy_with, figure, files_below, is_root, program,
    program_of_others, two_sites,
};

/// A tree of names that a user may give, though Penstock's own begin alike.
fn make_home(root: &Path) {
    for directory in [".penstock/trust", ".penstock-store", ".pst-dir/.penstock", "mail"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let lookalike = format!(".pst-{:034}", 7);
    for file in [
        ".penstock/store",
        ".penstock/trust/authority.pem",
        ".penstock-store/x",
        ".pst-",
        ".pst-2019",
        ".pst-dir/.penstock/x",
        "mail/.pst-0123456789abcdefghijklmnop",
        &lookalike,
    ] {
        fs::write(root.join(file), file).unwrap();
    }
}

/// Paths of the files below a directory, sorted.
fn files(root: &Path) -> Vec<PathBuf> {
    let found = files_below(root).into_iter();
    let mut found: Vec<_> = found.map(|path| path.strip_prefix(root).unwrap().into()).collect();
    found.sort();
    found
}

fn own_path(kind: OwnKind, number: u8) -> PathBuf {
    OsStr::from_bytes(&own_name(kind, RunTag([0xab; 4]), [number; 12])).into()
}

fn run(base: &Path, args: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = Command::new(program());
    command.args(args.iter().map(|arg| arg.as_ref())).current_dir(base);
    command.env("PENSTOCK_STATE_HOME", base.join("state")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// C8: a user's names are carried whatever they begin with, in a copy, as the source itself,
/// as the target's name and in a list of paths; they are verified, and deleted when they are not at
/// the source.
#[test]
fn names_of_users_are_carried() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("home"), base.path().join("backup"));
    make_home(&source);
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    assert_eq!(files(&target), files(&source));
    let verified = run(base.path(), &[&"verify", &"home/", &"backup"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    assert!(text(&verified.stderr).contains("same: 8 files"), "{verified:?}");
    for (from, to, made) in [
        (".penstock", "as/", "as/.penstock/trust/authority.pem"),
        (".penstock/", "as/.pst-tree", "as/.pst-tree/trust/authority.pem"),
        (".pst-2019", "as/.pst-file", "as/.pst-file"),
    ] {
        copy.run(source.join(from), base.path().join(to)).expect(0);
        assert!(base.path().join(made).is_file(), "{from} as {to}");
    }
    fs::write(base.path().join("list"), ".penstock\n.pst-2019\n").unwrap();
    let listed = base.path().join("listed");
    copy_with(&copy, &source, &listed, &["--files-from", "list"]).expect(0);
    assert_eq!(files(&listed).len(), 3);
    fs::remove_dir_all(source.join(".penstock")).unwrap();
    fs::remove_file(source.join(".pst-2019")).unwrap();
    let synced = copy_with(&copy, &source, &target, &["--sync", "--delete"]).expect(0);
    assert_eq!(synced.figure("deleted"), 5, "two directories and three files: {}", synced.last);
    assert_eq!(files(&target), files(&source));
    copy.assert_no_state();
}

/// C8: an unfinished file of a copy that lies at the source is no part of the data set, and is
/// not left out in silence: it is counted, named, and costs exit 3, in a copy, a plan, `verify` on
/// either side and `receipt check`. All else is done, but nothing is deleted, for the source may
/// lack what that copy has still to write. Who excludes it by name has no failure.
#[test]
fn an_unfinished_file_at_the_source_is_told() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::create_dir_all(&target).unwrap();
    for file in ["a", "b", "c", "d/e"] {
        fs::write(source.join(file), file).unwrap();
    }
    fs::write(target.join("old"), "old").unwrap();
    let name = Path::new("d").join(own_path(OwnKind::File, 1));
    fs::write(source.join(&name), "half").unwrap();
    let name = name.to_str().unwrap();
    let copy = Copy::new(base.path());
    let planned = run(base.path(), &[&"copy", &"-n", &"src/", &"dst"]);
    assert_eq!(planned.status.code(), Some(3), "{planned:?}");
    assert!(text(&planned.stdout).contains(name), "{planned:?}");
    let ended = copy_with(&copy, &source, &target, &["--sync", "--delete"]).expect(3);
    assert_eq!((ended.figure("errors"), ended.figure("deleted")), (1, 0), "{}", ended.last);
    for words in ["nothing is deleted: the source has 1 unfinished", "--clean"] {
        assert!(ended.errors.contains(words), "{}", ended.errors);
    }
    assert_eq!(files(&target), ["a", "b", "c", "d/e", "old"].map(PathBuf::from));
    let planned = run(base.path(), &[&"copy", &"-n", &"--sync", &"--delete", &"src/", &"dst"]);
    assert_eq!(planned.status.code(), Some(3), "{planned:?}");
    let told = "is an unfinished file of copy abababab";
    assert!(ended.errors.contains(name) && ended.errors.contains(told), "{}", ended.errors);
    let options = ["--sync", "--delete", "--exclude", ".pst-*"];
    let ended = copy_with(&copy, &source, &target, &options).expect(0);
    assert_eq!(ended.figure("deleted"), 1, "{}", ended.last);
    assert_eq!(files(&target), ["a", "b", "c", "d/e"].map(PathBuf::from));
    for (from, to) in [("src/", "dst"), ("dst/", "src")] {
        let verified = run(base.path(), &[&"verify", &from, &to]);
        assert_eq!(verified.status.code(), Some(3), "{verified:?}");
        assert!(text(&verified.stdout).contains(name), "{verified:?}");
        assert!(text(&verified.stderr).contains("--clean"), "{verified:?}");
    }
    let excluded = ["--exclude", ".pst-*", "--receipt", "receipt"];
    let ended = copy_with(&copy, &source, &base.path().join("dst2"), &excluded).expect(0);
    assert_eq!((ended.figure("errors"), ended.figure("excluded")), (0, 1), "{}", ended.last);
    let checked = run(base.path(), &[&"receipt", &"check", &"receipt", &"--against", &"src"]);
    assert_eq!(checked.status.code(), Some(3), "{checked:?}");
    assert!(text(&checked.stdout).contains(name), "{checked:?}");
    let single = copy.run(source.join(name), base.path().join("dst3")).expect(2);
    assert!(single.errors.contains("has not finished"), "{}", single.errors);
    let as_own = copy.run(source.join("a"), target.join(own_path(OwnKind::File, 2))).expect(2);
    assert!(as_own.errors.contains("take for its own"), "{}", as_own.errors);
    fs::write(base.path().join("list"), format!("{name}\na\n")).unwrap();
    let listed = ["--files-from", "list"];
    let ended = copy_with(&copy, &source, &base.path().join("dst4"), &listed).expect(3);
    assert_eq!((ended.figure("errors"), ended.figure("files")), (1, 1), "{}", ended.last);
    copy.assert_no_state();
}

/// Promise: the private directory of a registered store is no part of a data set, wherever it lies:
/// it is not copied, not verified, not deleted, and that is counted and no failure.
#[test]
fn the_private_directory_of_a_store_is_no_item() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let private = OsStr::from_bytes(STORE_PRIVATE_NAME);
    fs::create_dir_all(source.join("d").join(private)).unwrap();
    fs::create_dir_all(target.join(private)).unwrap();
    for file in [source.join("d").join(private).join("store"), target.join(private).join("store")] {
        fs::write(file, "id").unwrap();
    }
    fs::write(source.join("a"), "a").unwrap();
    let copy = Copy::new(base.path());
    let ended = copy_with(&copy, &source, &target, &["--sync", "--delete", "--max-delete", "0"]);
    assert_eq!(ended.expect(0).figure("own_state"), 1);
    assert!(target.join(private).join("store").is_file());
    assert!(target.join("d").read_dir().unwrap().next().is_none());
    let verified = run(base.path(), &[&"verify", &"src/", &"dst"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

/// Promise: the same names of users are carried by ssh and between sites, from a store's root to
/// another's, whose own directories stay.
#[test]
fn names_of_users_are_carried_between_hosts() {
    let host = SshHost::start(&Default::default());
    host.install();
    make_home(&host.path("local/from"));
    for args in [["from/", &host.remote("to")], [&host.remote("to/"), "back"]] {
        host.run(&args).expect(0);
    }
    assert_eq!(files(&host.path("to")), files(&host.path("local/from")));
    assert_eq!(files(&host.path("local/back")), files(&host.path("local/from")));
    host.assert_nothing_left();

    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    make_home(&data_a);
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    for _ in 0..2 {
        let id = b.submit(&["a:data/", "b:data/"]);
        b.follow(&id).expect(0);
        let private = |path: &PathBuf| !path.starts_with(OsStr::from_bytes(STORE_PRIVATE_NAME));
        let arrived: Vec<_> = files(&data_b).into_iter().filter(private).collect();
        assert_eq!(arrived, files(&data_a));
    }
    let half = own_path(OwnKind::File, 1);
    fs::write(data_a.join("mail").join(&half), "half").unwrap();
    let ended = b.follow(&b.submit(&["a:data/", "b:data/"])).expect(3);
    assert_eq!(ended.figure("errors"), 1, "{}", ended.last);
    assert!(!data_b.join("mail").join(&half).exists());
}

/// Waits until a run has a file below `target` that it has not finished.
fn wait_until_begun(run: &mut Run, target: &Path) {
    let begun = |path: &PathBuf| {
        let own = own(path.file_name().unwrap().as_bytes());
        own.is_some_and(|own| own.kind == OwnKind::File && own.run != RunTag([0xab; 4]))
    };
    let line = run.wait_for(|_| target.is_dir() && files(target).iter().any(begun));
    assert!(line.is_some(), "it has ended before");
}

/// A copy by another user, whose state is that user's own.
fn copy_as(user: u32, base: &Path, source: &Path, target: &Path, options: &[&str]) -> Run {
    let state = base.join(format!("state-{user}"));
    if !state.exists() {
        fs::create_dir(&state).unwrap();
        std::os::unix::fs::chown(&state, Some(user), Some(user)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={user}"));
    command.arg("--clear-groups").arg(program_of_others(base)).args(["copy", "--json"]);
    command
        .arg(source)
        .arg(target)
        .args(options)
        .current_dir(base)
        .env("PENSTOCK_STATE_HOME", state);
    Run::spawn(&mut command)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Promise: in a directory that belongs to others a copy leaves and needs nothing that is in
/// another user's way: several users copy there at a time and after one was killed, and whatever is
/// called `.penstock` there does not matter. What a killed copy leaves is that user's own alone,
/// and its next run takes it away.
#[test]
fn many_users_copy_into_one_directory() {
    if !is_root("many users") {
        return;
    }
    let base = Scratch::on_disk();
    set_mode(base.path(), 0o755);
    let (shared, big) = (base.path().join("shared"), base.path().join("big"));
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    fs::write(shared.join(".penstock"), "of anybody").unwrap();
    fs::write(&big, vec![7; 8 << 20]).unwrap();
    let small = base.path().join("small");
    fs::write(&small, "small").unwrap();
    let slow = ["--bwlimit", "1MiB/s"];
    let mut first = copy_as(1111, base.path(), &big, &shared, &slow);
    wait_until_begun(&mut first, &shared);
    copy_as(2222, base.path(), &small, &shared, &[]).end().expect(0);
    first.kill();
    for entry in fs::read_dir(&shared).unwrap().map(Result::unwrap) {
        let meta = entry.metadata().unwrap();
        if let Some(own) = own(entry.file_name().as_bytes()) {
            assert_eq!(meta.uid(), 1111, "{entry:?}");
            assert!(own.kind == OwnKind::File || meta.mode() & 0o777 == 0o600, "{entry:?}");
        }
    }
    fs::remove_file(shared.join("small")).unwrap();
    copy_as(2222, base.path(), &small, &shared, &[]).end().expect(0);
    copy_as(3333, base.path(), &small, &shared.join("other"), &[]).end().expect(0);
    Copy::new(base.path()).run(&small, shared.join("of root")).expect(0);
    copy_as(1111, base.path(), &big, &shared, &slow[..0]).end().expect(0);
    let names = [".penstock", "big", "of root", "other", "small"];
    assert_eq!(files(&shared), names.map(PathBuf::from));
}

/// Promise: a directory that may not be written is a target like any other where those in it may:
/// with one that belongs to others, and with one of this user's own. A killed copy of that kind is
/// taken up, too. Where nothing in it may be written, that is said at once.
#[test]
fn the_top_of_a_target_need_not_be_writable() {
    if !is_root("many users") {
        return;
    }
    let base = Scratch::on_disk();
    set_mode(base.path(), 0o755);
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    for root in [&source, &target] {
        fs::create_dir_all(root.join("d")).unwrap();
    }
    fs::write(source.join("d/big"), vec![7; 8 << 20]).unwrap();
    fs::write(source.join("d/small"), "small").unwrap();
    std::os::unix::fs::chown(target.join("d"), Some(1111), Some(1111)).unwrap();
    set_mode(&target, 0o755);
    let contents = source.join("");
    let options = ["--no-preserve", "owner,times,mode"];
    let slow = [&options[..], &["--bwlimit", "1MiB/s"]].concat();
    let mut killed = copy_as(1111, base.path(), &contents, &target, &slow);
    wait_until_begun(&mut killed, &target);
    killed.kill();
    let ended = copy_as(1111, base.path(), &contents, &target, &options).end();
    assert_eq!(ended.code, 0, "{} {}", ended.last, ended.errors);
    assert_eq!(files(&target), files(&source));
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o755);
    fs::remove_dir_all(target.join("d")).unwrap();
    let refused = copy_as(1111, base.path(), &contents, &target, &options).end();
    assert!(refused.errors.contains("cannot write to"), "{}", refused.errors);
}

/// Promise: what is proven is not moved again after an interruption, though the top of the target
/// may not be written and so has no marker; a target that was removed and made anew proves nothing.
#[test]
fn a_target_without_a_marker_is_resumed() {
    if !is_root("many users") {
        return;
    }
    let base = Scratch::on_disk();
    set_mode(base.path(), 0o755);
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(source.join("d")).unwrap();
    for at in 0..400 {
        fs::write(source.join(format!("d/f{at}")), vec![at as u8; 100_000]).unwrap();
    }
    fs::write(source.join("d/big"), vec![7; 160 << 20]).unwrap();
    let make_target = || {
        fs::create_dir_all(target.join("d")).unwrap();
        set_mode(&target, 0o755);
        std::os::unix::fs::chown(target.join("d"), Some(1111), Some(1111)).unwrap();
    };
    make_target();
    let (contents, options) = (source.join(""), ["--no-preserve", "owner"]);
    let slow = [&options[..], &["--bwlimit", "20MiB/s"]].concat();
    let interrupt = || {
        let mut run = copy_as(1111, base.path(), &contents, &target, &slow);
        let seen = run.wait_for(|line| figure(line, "bytes_durable") >= 20 << 20);
        assert!(seen.is_some_and(|line| line["type"] != "summary"), "it ended before");
        run.kill();
    };
    interrupt();
    let ended = copy_as(1111, base.path(), &contents, &target, &options).end().expect(0);
    assert!(ended.figure("bytes_resumed") >= 15 << 20, "{}", ended.last);
    assert_eq!(files(&target), files(&source));
    fs::remove_dir_all(&target).unwrap();
    make_target();
    interrupt();
    // Made before the old one goes, so that it has another inode number, by which it is told.
    let old = base.path().join("old");
    fs::rename(&target, &old).unwrap();
    make_target();
    fs::remove_dir_all(&old).unwrap();
    let ended = copy_as(1111, base.path(), &contents, &target, &options).end().expect(0);
    assert_eq!(ended.figure("bytes_resumed"), 0, "{}", ended.last);
    assert!(ended.errors.contains("was removed or replaced"), "{}", ended.errors);
    assert_eq!(files(&target), files(&source));
}

/// A copy that is killed as soon as bytes move, in a process whose home is `home`.
fn killed_copy(home: &Path, source: &Path, target: &Path) {
    let mut command = Command::new(program());
    command.args(["copy", "--json", "--bwlimit", "1MiB/s"]).arg(source).arg(target.join(""));
    command.env("HOME", home).env_remove("PENSTOCK_STATE_HOME").env_remove("XDG_STATE_HOME");
    let mut run = Run::spawn(&mut command);
    wait_until_begun(&mut run, target);
    run.kill();
}

fn copy_at_home(home: &Path, args: &[&dyn AsRef<OsStr>]) -> Ended {
    let mut command = Command::new(program());
    command.args(["copy", "--json"]).args(args.iter().map(|arg| arg.as_ref()));
    command.env("HOME", home).env_remove("PENSTOCK_STATE_HOME").env_remove("XDG_STATE_HOME");
    Run::spawn(&mut command).end()
}

/// C8: a home directory is copied, synced with deletion, and moved as any other, though it
/// holds the state of the very run and of others: that is no part of the data set at either end,
/// counts for no limit, and directories that hold it stay without an error.
#[test]
fn the_state_of_runs_is_never_moved() {
    let base = Scratch::on_disk();
    let (home, other) = (base.path().join("h"), base.path().join("h2"));
    for at in 0..20 {
        fs::create_dir_all(home.join("a")).unwrap();
        fs::write(home.join(format!("a/f{at}")), "x").unwrap();
    }
    fs::create_dir_all(&other).unwrap();
    let (big, away) = (base.path().join("big"), base.path().join("away"));
    fs::write(&big, vec![7; 8 << 20]).unwrap();
    let state = |home: &Path| {
        let copies = home.join(".local/state/penstock/copy");
        copies.read_dir().map_or(0, |entries| entries.count())
    };
    for of in [&home, &other] {
        killed_copy(of, &big, &away.join(of.file_name().unwrap()));
        assert_eq!(state(of), 1);
    }
    let contents = home.join("");
    let ended = copy_at_home(&home, &[&contents, &base.path().join("o1")]).expect(0);
    assert_eq!(ended.figure("own_state"), 2, "the run's own, and the killed one's");
    assert_eq!(state(&base.path().join("o1")), 0);
    fs::remove_dir_all(home.join(".local/state/penstock/copy")).unwrap();
    fs::remove_dir(home.join(".local/state/penstock")).unwrap();
    fs::remove_dir_all(home.join(".local")).unwrap();
    fs::write(other.join("extra"), "x").unwrap();
    let keys = other.join(".local/state/penstock/receipt.key");
    fs::write(&keys, "long-lived").unwrap();
    let options = ["--sync", "--delete", "--max-delete", "1", "--backup-dir", ".old"];
    let mut args: Vec<&dyn AsRef<OsStr>> = vec![&contents, &other];
    args.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
    let ended = copy_at_home(&other, &args).expect(0);
    assert_eq!((ended.figure("deleted"), state(&other)), (1, 1), "{}", ended.last);
    assert!(keys.is_file() && other.join(".old/extra").is_file());
    killed_copy(&home, &big, &away.join("again"));
    let ended = copy_at_home(&home, &[&"--remove-source", &contents, &base.path().join("o2")]);
    assert_eq!(ended.expect(0).figure("removed"), 21);
    assert!(!home.join("a").exists());
    assert_eq!(state(&home), 1);
    assert!(!base.path().join("o2/.local/state/penstock/copy").read_dir().unwrap().any(|_| true));
}

/// Promise: `--clean` removes what dead runs have left below a directory, says how much, and shows
/// it first with `-n`. What belongs to a run that is going on, or to one that may be, stays; so do
/// a user's files, and files that a move has put aside.
#[test]
fn what_dead_runs_have_left_is_removed() {
    let base = Scratch::on_disk();
    let (big, target) = (base.path().join("big"), base.path().join("dst"));
    fs::create_dir_all(target.join("d")).unwrap();
    fs::write(&big, vec![7; 8 << 20]).unwrap();
    let kept = [own_path(OwnKind::Aside, 1), own_path(OwnKind::File, 2), ".pst-2019".into()];
    for name in &kept {
        fs::write(target.join("d").join(name), "kept").unwrap();
    }
    let copy = Copy::new(base.path());
    let mut slow = copy.command(&big, target.join("d/"));
    let mut running = Run::spawn(slow.args(["--bwlimit", "1MiB/s"]));
    wait_until_begun(&mut running, &target);
    let clean = |options: &[&str]| {
        let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"copy", &"--clean", &"dst", &"--json"];
        args.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
        let output = run(base.path(), &args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let last = text(&output.stdout).lines().last().unwrap().to_owned();
        serde_json::from_str::<serde_json::Value>(&last).unwrap()
    };
    let whole = files(&target).len();
    assert!(whole > kept.len(), "the run has files there");
    assert_eq!(figure(&clean(&[]), "removed"), 0, "it is running");
    running.kill();
    let shown = clean(&["-n"]);
    assert_eq!(figure(&shown, "removed") as usize, files(&target).len() - kept.len());
    let before = fs::metadata(target.join("d")).unwrap().modified().unwrap();
    let removed = clean(&[]);
    assert_eq!((&removed["removed"], &removed["bytes"]), (&shown["removed"], &shown["bytes"]));
    assert_eq!(figure(&removed, "kept"), 2);
    let mut expected: Vec<_> = kept.iter().map(|name| Path::new("d").join(name)).collect();
    expected.sort();
    assert_eq!(files(&target), expected);
    assert_eq!(fs::metadata(target.join("d")).unwrap().modified().unwrap(), before);
    copy.run(&big, target.join("d/")).expect(0);
    assert_eq!(fs::read(target.join("d/big")).unwrap(), fs::read(&big).unwrap());
}

/// Promise: `--clean` keeps files of unknown runs in a store that a daemon has registered, however
/// old these files are, for a transfer may wait for them; a flag takes them for what they look
/// like.
#[test]
fn files_in_a_store_of_a_daemon_are_kept() {
    let base = Scratch::on_disk();
    let store = base.path().join("store");
    let private = store.join(OsStr::from_bytes(STORE_PRIVATE_NAME));
    fs::create_dir_all(store.join("d/e")).unwrap();
    fs::create_dir(&private).unwrap();
    fs::write(store.join("d/e").join(own_path(OwnKind::File, 1)), "waits").unwrap();
    let why = |directory: &str, options: &[&str]| {
        let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"copy", &"--clean", &directory, &"--json"];
        args.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
        let output = run(base.path(), &args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let line = text(&output.stdout).lines().next().unwrap().to_owned();
        let line = serde_json::from_str::<serde_json::Value>(&line).unwrap();
        assert_eq!(line["action"], "keep", "{line}");
        line["why"].as_str().unwrap().to_owned()
    };
    for directory in ["store", "store/d/e", "."] {
        assert!(why(directory, &[]).contains("store of a daemon"), "{directory}");
        // It was made a moment ago.
        assert!(why(directory, &["--clean-stores"]).contains("not known here"), "{directory}");
    }
    fs::remove_dir(&private).unwrap();
    assert!(why("store", &[]).contains("not known here"));
}
