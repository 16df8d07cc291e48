//! Sources that fail: unreadable, vanished, shrinking, growing, rewritten in mid-copy. The rest of
//! the data set still moves, and the list of what failed is good for `--files-from`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use penstock_testkit::{
    Copy, Ended, Run, Scratch, Signal, Slowly, assert_no_leftovers, assert_same, bytes_below,
    figure, files_below, is_root, make_files, rng, tool,
};
use rand::seq::SliceRandom as _;

const MIB: usize = 1 << 20;

/// The list of failed items that the hint names, and its lines.
fn failure_list(base: &Path, ended: &Ended) -> (PathBuf, BTreeSet<String>) {
    let hint = ended.errors.lines().find(|line| line.contains("for --files-from")).unwrap();
    let name = hint.split('`').nth(1).unwrap();
    let path = base.join(name);
    let lines = fs::read_to_string(&path).unwrap();
    (path, lines.lines().map(str::to_owned).collect())
}

/// Promise: a source that is not there ends a copy as it ends a transfer (exit 4), with advice on
/// the path; it is not called temporary.
#[test]
fn a_source_that_is_missing_is_told() {
    let base = Scratch::on_disk();
    let copy = Copy::new(base.path());
    for options in [&[][..], &["-n"]] {
        let (from, to) = (base.path().join("missing"), base.path().join("to"));
        let mut command = copy.command(&from, &to);
        let ended = Run::spawn(command.args(options)).end().expect(4);
        assert!(ended.errors.contains("cannot examine the source"), "{}", ended.errors);
        assert!(ended.errors.contains("hint:  give a file or a directory"), "{}", ended.errors);
        assert!(!to.exists());
    }
}

/// Promise: a target in which nothing can be made is told for good (exit 7), not as a store that is
/// offline for a while.
#[test]
fn a_target_that_takes_no_files_is_told() {
    let base = Scratch::on_disk();
    fs::write(base.path().join("f"), "1").unwrap();
    let copy = Copy::new(base.path());
    for durability in ["batch", "none"] {
        let mut command = copy.command("f", "/proc/nope");
        let ended = Run::spawn(command.args(["--durability", durability])).end().expect(7);
        assert!(ended.errors.contains("cannot write to store"), "{}", ended.errors);
        assert!(!ended.errors.contains("offline"), "{}", ended.errors);
    }
}

/// Promise: more places than a source and a target, as a shell makes them of a pattern, are refused
/// with advice, and nothing is copied.
#[test]
fn more_than_one_source_is_told() {
    let base = Scratch::on_disk();
    for name in ["a", "b"] {
        fs::write(base.path().join(name), name).unwrap();
    }
    let copy = Copy::new(base.path());
    let ended = Run::spawn(copy.command("a", "b").arg("to/")).end().expect(2);
    assert!(ended.errors.contains("3 places") && ended.errors.contains("--include"), "{ended:?}");
    assert!(!base.path().join("to").exists());
    assert_eq!(fs::read(base.path().join("b")).unwrap(), b"b");
}

/// Promise: what cannot be read fails alone: exit 3, the rest moves, the list names just these and
/// moves just these once they can be read.
#[test]
fn unreadable_items_fail_alone() {
    if !is_root("unreadable items") {
        return;
    }
    let mut rng = rng("unreadable");
    let base = Scratch::on_disk();
    let (source, place) = (base.path().join("src"), base.path().join("to"));
    make_files(&mut rng, &source, 50, 50_000, &[20 * MIB]);
    fs::create_dir(source.join("locked")).unwrap();
    fs::write(source.join("locked/inner"), b"seen by root only").unwrap();
    let locked = ["dir1/small1", "dir0/large0"];
    let reader = |mode| fs::Permissions::from_mode(mode);
    for path in locked {
        fs::set_permissions(source.join(path), reader(0o600)).unwrap();
    }
    fs::set_permissions(source.join("locked"), reader(0o700)).unwrap();
    fs::create_dir(&place).unwrap();
    fs::set_permissions(base.path(), reader(0o777)).unwrap();
    tool("chown", &[&"65534:65534", &place]);
    let (copy, target) = (Copy::new(base.path()), place.join("dst"));
    let contents = PathBuf::from(format!("{}/", source.display()));
    let ended = Run::spawn(&mut copy.command_as_nobody(&contents, &target)).end().expect(3);
    println!("{}", ended.errors);
    assert_eq!(ended.figure("errors"), 3, "{}", ended.last);
    let (list, lines) = failure_list(base.path(), &ended);
    let expected: BTreeSet<_> = ["dir1/small1", "dir0/large0", "locked"].map(str::to_owned).into();
    assert_eq!(lines, expected);
    for path in files_below(&source) {
        let relative = path.strip_prefix(&source).unwrap();
        let failed = lines.iter().any(|line| relative.starts_with(line));
        let there = fs::read(target.join(relative)).ok();
        assert_eq!(there, (!failed).then(|| fs::read(&path).unwrap()), "{}", relative.display());
    }
    assert_no_leftovers(&place);
    copy.assert_no_state();
    for path in locked {
        fs::set_permissions(source.join(path), reader(0o644)).unwrap();
    }
    fs::set_permissions(source.join("locked"), reader(0o755)).unwrap();
    let mut again = copy.command_as_nobody(&contents, &target);
    let moved = Run::spawn(again.arg("--files-from").arg(&list)).end().expect(0);
    assert_eq!(moved.figure("files"), 3, "{}", moved.last);
    // What was copied before the modes were changed keeps the modes it had.
    assert_same(&source, &target);
}

/// What is done to a source file in mid-copy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Vanish,
    Shrink,
    Grow,
    Rewrite,
}

fn change(path: &Path, how: Change) {
    let file = || File::options().write(true).open(path).unwrap();
    let size = fs::metadata(path).unwrap().len();
    match how {
        Change::Vanish => fs::remove_file(path).unwrap(),
        Change::Shrink => file().set_len(size / 3).unwrap(),
        Change::Grow => file().set_len(size + 100_000).unwrap(),
        Change::Rewrite => fs::write(path, vec![9; size as usize]).unwrap(),
    }
}

/// Changes half of the files while the copy stands still early on. Those that had been read may
/// arrive as they were; all others arrive as they are then, or fail if they are gone, and never
/// arrive half old and half new.
fn copy_while_changing(how: Change) {
    let mut rng = rng(&format!("{how:?}"));
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    // Files of one piece each, of packs, and of many pieces.
    let mut sizes = vec![3 * MIB; 40];
    sizes.extend([40 * MIB, 40 * MIB, 40 * MIB, 40 * MIB]);
    make_files(&mut rng, &source, 200, 100_000, &sizes);
    let before = base.path().join("before");
    tool("cp", &[&"-a", &source, &before]);
    let total = bytes_below(&source);
    let copy = Copy::new(base.path());
    let contents = format!("{}/", source.display());
    let mut run = copy.spawn(&contents, &target);
    let slowly = Slowly::new(run.id());
    let early = run.wait_for(|line| line["scan_complete"] == true);
    assert!(early.is_some_and(|line| figure(&line, "bytes") < total / 2), "it was too fast");
    drop(slowly);
    run.signal(Signal::STOP);
    let mut victims = files_below(&source);
    victims.retain(|path| fs::metadata(path).unwrap().len() > 0);
    victims.shuffle(&mut rng);
    victims.truncate(victims.len() / 2);
    for path in &victims {
        change(path, how);
    }
    run.signal(Signal::CONT);
    let vanish = how == Change::Vanish;
    let ended = run.end().expect(if vanish { 4 } else { 0 });
    assert_no_leftovers(&target);
    copy.assert_no_state();
    if !vanish {
        assert_old_or_new(&source, &before, &target, &victims);
        return;
    }
    let (list, lines) = failure_list(base.path(), &ended);
    println!("{how:?}: {} of {} failed", lines.len(), victims.len());
    assert_eq!(ended.figure("errors"), lines.len() as u64);
    let names: BTreeSet<_> = victims
        .iter()
        .map(|path| path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(lines.is_subset(&names), "{:?}", lines.difference(&names).next());
    for path in files_below(&before) {
        let relative = path.strip_prefix(&before).unwrap();
        let failed = lines.contains(relative.to_str().unwrap());
        let there = fs::read(target.join(relative)).ok();
        let expected = (!failed).then(|| fs::read(&path).unwrap());
        assert!(there == expected, "{}: failed: {failed}", relative.display());
    }
    for path in &victims {
        let relative = path.strip_prefix(&source).unwrap();
        tool("cp", &[&"-a", &before.join(relative), &path]);
    }
    let mut again = copy.command(&contents, &target);
    let moved = Run::spawn(again.arg("--files-from").arg(&list)).end().expect(0);
    assert_eq!(moved.figure("files"), lines.len() as u64, "{}", moved.last);
    for line in &lines {
        let same = fs::read(source.join(line)).unwrap() == fs::read(target.join(line)).unwrap();
        assert!(same, "{line}");
    }
}

/// What was read before it changed may have arrived as it was; all else is as it is now, and
/// nothing is old and new at once.
fn assert_old_or_new(source: &Path, before: &Path, target: &Path, victims: &[PathBuf]) {
    let mut newer = 0;
    for path in files_below(source) {
        let relative = path.strip_prefix(source).unwrap();
        let there = fs::read(target.join(relative)).unwrap();
        let is_new = there == fs::read(&path).unwrap();
        let is_old = there == fs::read(before.join(relative)).unwrap();
        let changed = victims.contains(&path);
        assert!(is_new || (changed && is_old), "{} is neither", relative.display());
        newer += u64::from(changed && is_new);
    }
    println!("{newer} of {} in their new version", victims.len());
    assert!(newer > 0);
}

/// Promise: files that vanish between scan and read fail with exit 4; the rest moves.
#[test]
fn vanished_files_fail_alone() {
    copy_while_changing(Change::Vanish);
}

/// Promise (C1): files that shrink arrive as they are then, and none is cut off anywhere else.
#[test]
fn c1_shrinking_files_arrive_in_one_version() {
    copy_while_changing(Change::Shrink);
}

/// Promise (C1): files that grow arrive as they are then.
#[test]
fn c1_growing_files_arrive_in_one_version() {
    copy_while_changing(Change::Grow);
}

/// Promise (C1): files that are rewritten in place arrive; none is old and new at once.
#[test]
fn c1_rewritten_files_arrive_in_one_version() {
    copy_while_changing(Change::Rewrite);
}
