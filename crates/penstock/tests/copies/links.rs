//! Hard links: what a further name leads to is always the source's (B6, promise (c)).

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use penstock_testkit::{Copy, Run, Scratch, copy_with, is_root, rsync_would, tool};

/// B6, promise (c): where the first name of a file fails and an older file of its size stays there,
/// no further name is made of that one, also where times are not kept and tell nothing. Needs root,
/// to be somebody else who may not write into a directory.
#[test]
fn b6_a_failed_primary_gets_no_further_names() {
    if !is_root("a directory that may not be written") {
        return;
    }
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for at in 0..20 {
        for directory in ["closed", "open"] {
            fs::create_dir_all(source.join(directory)).unwrap();
            fs::create_dir_all(target.join(directory)).unwrap();
        }
        let first = source.join(format!("closed/f{at}"));
        fs::write(&first, format!("new {at:4}")).unwrap();
        fs::hard_link(&first, source.join(format!("open/f{at}"))).unwrap();
        fs::write(target.join(format!("closed/f{at}")), format!("old {at:4}")).unwrap();
    }
    tool("chown", &[&"-R", &"65534:65534", &target]);
    tool("chown", &[&"0:0", &target.join("closed")]);
    fs::set_permissions(target.join("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = Copy::new(base.path());
    let contents = PathBuf::from(format!("{}/", source.display()));
    let mut failed = 0;
    for options in [&["--no-preserve", "times"][..], &[]] {
        let mut command = copy.command_as_nobody(&contents, &target);
        let ended = Run::spawn(command.args(options)).end().expect(3);
        for at in 0..20 {
            let name = format!("open/f{at}");
            if let Ok(found) = fs::read_to_string(target.join(&name)) {
                assert_eq!(found, format!("new {at:4}"), "{name}: {}", ended.errors);
            } else {
                failed += 1;
            }
            let closed = fs::read_to_string(target.join(format!("closed/f{at}"))).unwrap();
            assert_eq!(closed, format!("old {at:4}"));
        }
    }
    println!("{failed} further names were not made");
}

/// Promise: names that are one file at the target and two same files at the source are left as they
/// are by `--sync`, as rsync leaves them; once their content differs they are two.
#[test]
fn linked_at_the_target_only() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("a"), "same").unwrap();
    tool("cp", &[&"-p", &source.join("a"), &source.join("b")]);
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    fs::remove_file(target.join("b")).unwrap();
    fs::hard_link(target.join("a"), target.join("b")).unwrap();
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_eq!(fs::metadata(target.join("a")).unwrap().nlink(), 2);
    if std::process::Command::new("rsync").arg("--version").output().is_ok() {
        assert_eq!(rsync_would(&source, &target, &["--delete"]), "");
    }
    fs::write(source.join("b"), "different").unwrap();
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_eq!(fs::read_to_string(target.join("a")).unwrap(), "same");
    assert_eq!(fs::read_to_string(target.join("b")).unwrap(), "different");
    assert_eq!(fs::metadata(target.join("a")).unwrap().nlink(), 1);
}
