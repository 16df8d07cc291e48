//! Directories that a user may enter and not list: homes of mode 0711, drop boxes of mode 0733.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use penstock_testkit::{Copy, Ended, Run, Scratch, is_root, tool};

fn directory(path: &Path, mode: u32) {
    fs::create_dir_all(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A home of mode 0711 and a drop box of mode 0733, both root's, and a directory of `nobody`.
fn places() -> (Scratch, Copy) {
    let base = Scratch::on_disk();
    directory(base.path(), 0o777);
    let copy = Copy::new(base.path());
    for (name, mode) in [("home/pub", 0o755), ("home", 0o711), ("drop", 0o733), ("own/in", 0o755)] {
        directory(&base.path().join(name), mode);
    }
    for (name, content) in [("home/named", "2"), ("home/pub/deep", "3"), ("own/in/mine", "4")] {
        fs::write(base.path().join(name), content).unwrap();
    }
    tool("chown", &[&"-R", &"65534:65534", &base.path().join("own")]);
    (base, copy)
}

fn as_nobody(copy: &Copy, source: &str, target: &str, options: &[&str]) -> Ended {
    let (source, target) = (copy.base.join(source), copy.base.join(target));
    let ended = Run::spawn(copy.command_as_nobody(&source, &target).args(options)).end();
    println!("{source:?} {target:?}: {}", ended.errors);
    ended
}

/// Promise: what has a name in a directory that may not be listed is copied by that name, as by cp
/// and rsync: a file, a directory, and what `--files-from` names.
#[test]
fn named_things_are_copied_out_of_unlisted_directories() {
    if !is_root("other users") {
        return;
    }
    let (base, copy) = places();
    let read = |path: &str| fs::read_to_string(base.path().join(path)).unwrap();
    as_nobody(&copy, "home/named", "own/named", &[]).expect(0);
    as_nobody(&copy, "home/pub/deep", "own/deep", &[]).expect(0);
    as_nobody(&copy, "home/pub", "own/", &[]).expect(0);
    assert_eq!([read("own/named"), read("own/deep"), read("own/pub/deep")], ["2", "3", "3"]);
    let list = base.path().join("list");
    fs::write(&list, "named\npub\n").unwrap();
    fs::set_permissions(&list, Permissions::from_mode(0o644)).unwrap();
    let options = ["--files-from", list.to_str().unwrap()];
    as_nobody(&copy, "home/", "own/chosen", &options).expect(0);
    assert_eq!([read("own/chosen/named"), read("own/chosen/pub/deep")], ["2", "3"]);
    // All of it is what nobody can name.
    let ended = as_nobody(&copy, "home/", "own/all", &[]).expect(7);
    assert!(ended.errors.contains("cannot list the source"), "{}", ended.errors);
    assert!(ended.errors.contains("Permission denied"), "{}", ended.errors);
}

/// Promise: a drop box takes files and trees, again and again, and keeps nothing of ours; what was
/// put there is durable, and can be read back by its name.
#[test]
fn drop_boxes_take_files_and_trees() {
    if !is_root("other users") {
        return;
    }
    let (base, copy) = places();
    let box_of = |path: &str| base.path().join("drop").join(path);
    as_nobody(&copy, "own/in/mine", "drop/", &[]).expect(0);
    as_nobody(&copy, "own/in/mine", "drop/other", &["--durability", "fsync"]).expect(0);
    let ended = as_nobody(&copy, "own/in", "drop/", &["--readback"]).expect(0);
    assert_eq!(ended.figure("files"), 1, "{}", ended.last);
    let ended = as_nobody(&copy, "own/in", "drop/", &["--sync"]).expect(0);
    assert_eq!(ended.figure("files"), 0, "what is there is known by its name: {}", ended.last);
    for name in ["mine", "other", "in/mine"] {
        assert_eq!(fs::read(box_of(name)).unwrap(), b"4", "{name}");
    }
    let mut names: Vec<_> =
        fs::read_dir(box_of("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["in", "mine", "other"]);
}

/// Promise: a directory of another within a tree that may be written and not listed is written to.
#[test]
fn a_drop_box_within_the_target_is_written_to() {
    if !is_root("other users") {
        return;
    }
    let (base, copy) = places();
    directory(&base.path().join("own/tree/drop"), 0o733);
    fs::write(base.path().join("own/tree/drop/f"), "5").unwrap();
    tool("chown", &[&"-R", &"65534:65534", &base.path().join("own")]);
    let target = base.path().join("own/to");
    tool("cp", &[&"-a", &base.path().join("own/tree"), &target]);
    fs::remove_file(target.join("drop/f")).unwrap();
    tool("chown", &[&"root:root", &target.join("drop")]);
    let ended = as_nobody(&copy, "own/tree/drop/f", "own/to/drop/f", &[]);
    ended.expect(0);
    assert_eq!(fs::read(target.join("drop/f")).unwrap(), b"5");
}
