//! `--delete` with a choice of items: what the rules exclude is protected at the target, and what
//! the target cannot tell from what is gone is a refusal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_testkit::{
    Copy, Mount, Scratch, assert_same, copy_with, is_root, make_files, rng, rsync_would,
};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

fn write(root: &Path, path: &str) {
    fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
    fs::write(root.join(path), path).unwrap();
}

/// A source and a copy of it, with temporary and other files at both sides.
fn copied(base: &Path) -> (PathBuf, PathBuf, Copy) {
    let (source, target) = (base.join("src"), base.join("dst"));
    for at in 0..6 {
        write(&source, &format!("d{}/f{at}", at % 2));
        write(&source, &format!("d{}/f{at}.tmp", at % 2));
    }
    write(&source, "cache/kept");
    let copy = Copy::new(base);
    copy_with(&copy, &source, &target, &[]).expect(0);
    (source, target, copy)
}

/// What rsync would change, without the directories that it would try to remove: its dry run does
/// not find out that they hold what is protected.
fn would_change(source: &Path, target: &Path, options: &[&str]) -> Vec<String> {
    let is_directory = |line: &&str| line.starts_with("*deleting") && line.ends_with('/');
    let text = rsync_would(source, target, options);
    let lines = text.lines().filter(|line| !line.starts_with("cannot delete non-empty"));
    lines.filter(|line| !is_directory(line)).map(str::to_owned).collect()
}

/// Promise: what is excluded is not deleted at the target, whether the source has it or not, nor is
/// a directory that holds such a thing; what else is not at the source goes. The judge is rsync.
#[test]
fn what_is_excluded_is_protected() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path());
    let rules = ["--exclude", "*.tmp", "--exclude", "cache/"];
    for path in ["d0/f0.tmp", "d0/f0", "cache/kept"] {
        fs::remove_file(source.join(path)).unwrap();
    }
    for path in ["d1/surplus", "d1/x.tmp", "gone/x", "gone/deep/y.tmp", "cache/more"] {
        write(&target, path);
    }
    let ended = copy_with(&copy, &source, &target, &[&["--sync", "--delete"][..], &rules].concat());
    let ended = ended.expect(0);
    assert_eq!(ended.figure("deleted"), 3, "{}", ended.last);
    for path in ["d0/f0", "d1/surplus", "gone/x"] {
        assert!(!target.join(path).exists(), "{path}");
    }
    for path in ["d0/f0.tmp", "d1/x.tmp", "gone/deep/y.tmp", "cache/more", "cache/kept"] {
        assert!(target.join(path).exists(), "{path} is protected");
    }
    if Command::new("rsync").arg("--version").output().is_ok() {
        let rules = ["--delete", "--exclude=*.tmp", "--exclude=cache/"];
        assert_eq!(would_change(&source, &target, &rules), Vec::<String>::new());
    }
    // Without rules nothing is protected.
    let most = ["--sync", "--delete", "--max-delete", "100"];
    copy_with(&copy, &source, &target, &most).expect(0);
    assert_same(&source, &target);
}

/// Changes a tree at random: files with one of three endings come, go and change.
fn mutate(rng: &mut ChaCha8Rng, root: &Path, changes: usize) {
    for _ in 0..changes {
        let ending = ["", ".tmp", ".log"][rng.random_range(0..3)];
        let (a, b) = (rng.random_range(0..4), rng.random_range(0..12));
        let path = root.join(format!("dir{a}/sub{}/n{b}{ending}", b % 3));
        match rng.random_range(0..3) {
            0 if path.exists() => fs::remove_file(path).unwrap(),
            1 if b == 0 => drop(fs::remove_dir_all(path.parent().unwrap())),
            _ => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, vec![rng.random::<u8>(); rng.random_range(0..2000)]).unwrap();
            }
        }
    }
}

/// Promise: whatever has become of both trees, and whichever rules choose, `--sync --delete` leaves
/// nothing for rsync with the same rules to change or to delete.
#[test]
fn random_trees_and_rules_agree_with_rsync() {
    if Command::new("rsync").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no rsync (scripts/setup.sh installs it)");
        return;
    }
    let mut rng = rng("rules");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 40, 2_000, &[]);
    let copy = Copy::new(base.path());
    let rules: [&[&str]; 4] = [
        &["--exclude=*.tmp"],
        &["--exclude=/dir1", "--exclude=*.log"],
        &["--include=n1*.tmp", "--exclude=*.tmp", "--exclude=sub2/"],
        &["--include=*/", "--include=*.log", "--include=small*", "--exclude=*"],
    ];
    for round in 0..12 {
        mutate(&mut rng, &source, 40);
        fs::create_dir_all(&target).unwrap();
        mutate(&mut rng, &target, 40);
        let rules = rules[round % rules.len()];
        let options = ["--sync", "--delete", "--max-delete", "100000"];
        let ended = copy_with(&copy, &source, &target, &[&options[..], rules].concat());
        assert_eq!(ended.code, 0, "round {round}: {}\n{}", ended.last, ended.errors);
        let would = would_change(&source, &target, &[&["--delete"][..], rules].concat());
        assert_eq!(would, Vec::<String>::new(), "round {round} {rules:?}");
    }
}

/// C3: what is left out for its size or age, or is not on a list, cannot be told from what is gone:
/// such a choice is refused together with `--delete` (exit 2), before anything is touched.
#[test]
fn c3_a_choice_that_names_do_not_tell_is_refused() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path());
    let list = base.path().join("list");
    fs::write(&list, "d1\n").unwrap();
    write(&target, "surplus");
    for choice in [
        &["--files-from", list.to_str().unwrap()][..],
        &["--max-size", "3"],
        &["--min-size", "3"],
        &["--newer-than", "1d"],
    ] {
        let ended =
            copy_with(&copy, &source, &target, &[&["--delete"][..], choice].concat()).expect(2);
        assert!(ended.errors.contains("cannot tell"), "{choice:?}: {}", ended.errors);
        assert!(target.join("surplus").exists());
    }
}

/// C3: with `--one-file-system` what lies at the target where something is mounted at the source,
/// in which nobody has looked, stays; and what is mounted at the target is not entered. Needs root.
#[test]
fn c3_mounts_are_not_crossed_to_delete() {
    if !is_root("mounts at both sides") {
        return;
    }
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path());
    for path in ["mounted/there before", "d0/mounted here/x", "surplus"] {
        write(&target, path);
    }
    fs::create_dir(source.join("mounted")).unwrap();
    let mut at_source = Mount::tmpfs(&source, "mounted", 4);
    let mut at_target = Mount::tmpfs(&target.join("d0"), "mounted here", 4);
    write(&target, "d0/mounted here/y");
    write(&source, "mounted/inside");
    let options = ["--sync", "--delete", "--one-file-system"];
    let ended = copy_with(&copy, &source, &target, &options).expect(0);
    assert_eq!(ended.figure("deleted"), 1, "{}", ended.last);
    assert!(target.join("mounted/there before").exists(), "nobody knows that it is gone");
    assert!(target.join("d0/mounted here/y").exists(), "another file system");
    assert!(!target.join("mounted/inside").exists() && !target.join("surplus").exists());
    at_target.unmount();
    at_source.unmount();
}
