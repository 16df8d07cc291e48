//! The mode of a file that is made with its final one, and of those that cannot be.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use penstock_proto::attributes::{AttributeClass, ClassSet, Xattrs, encode_xattrs};
use rustix::fs::{XattrFlags, setxattr};

use super::*;

const MTIME: FileTime = FileTime { seconds: 7, nanoseconds: 0 };
/// Set in the process that [`d7_a_umask_costs_a_call_and_no_bit`] starts.
const CHILD: &str = "PENSTOCK_TEST_UMASK_CHILD";

fn mode_at(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Makes, writes, finishes and publishes a file of `mode` in `dir`; returns the mode with which it
/// was made.
fn made_with(store: &PosixStore, dir: &Dir, mode: u32) -> u32 {
    let place = store.root_path().join(str::from_utf8(dir.path()).unwrap());
    let file = store.create_whole(dir, b".pst-1", Some(mode), None).unwrap();
    let made = mode_at(&place.join(".pst-1"));
    file.write_at(0, b"bytes").unwrap();
    file.finish(&Attributes::plain(mode, MTIME), false).unwrap();
    store.publish(dir, b".pst-1", b"final", true).unwrap();
    let path = place.join("final");
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
    assert_eq!(mode_at(&path), mode, "asked {mode:o}, made {made:o}");
    assert_eq!(store.stat(dir, b"final").unwrap().mtime, MTIME);
    made
}

/// Promise (D7): a file made with its final mode has just that mode, whether its owner may write
/// it or not; setuid, setgid and sticky bits come only when it is finished. Assumes a umask that
/// takes nothing from 0755, as all do that tests run with.
#[test]
fn d7_the_final_mode_from_the_start() {
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        let tree = tempfile::tempdir_in(place).unwrap();
        let store = open(tree.path(), Resolution::Kernel);
        for (mode, made) in [
            (0o644, 0o644),
            (0o600, 0o600),
            (0o444, 0o444),
            (0o755, 0o755),
            (0o000, 0o000),
            (0o4755, 0o600),
            (0o2755, 0o600),
            (0o1644, 0o600),
        ] {
            assert_eq!(made_with(&store, store.root(), mode), made, "{mode:o}");
        }
    }
}

/// Promise (B1): a new inode replaces a file that an earlier attempt left under the temporary name,
/// with its final mode. A different mode at the end counts.
#[test]
fn b1_a_left_over_with_its_final_mode_is_replaced() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let root = store.root().clone();
    let left = store.create_whole(&root, b".pst-1", Some(0o444), None).unwrap();
    left.write_at(0, b"half").unwrap();
    let before = left.meta().unwrap().unwrap().inode;
    let again = store.create_whole(&root, b".pst-1", Some(0o444), None).unwrap();
    assert!(again.was_created());
    assert_ne!(again.meta().unwrap().unwrap().inode, before);
    again.finish(&Attributes::plain(0o640, MTIME), false).unwrap();
    assert_eq!(store.stat(&root, b".pst-1").unwrap().mode, 0o640);
    let kept = store.create_temporary(&root, b".pst-1", LeftOver::Keep).unwrap();
    kept.finish(&Attributes::plain(0o600, MTIME), false).unwrap();
    assert_eq!(store.stat(&root, b".pst-1").unwrap().mode, 0o600);
}

/// Promise (D7): in a directory with a default ACL the mode of the source wins, by fchmod.
#[test]
fn d7_a_default_acl_changes_no_mode() {
    let mut tried = 0;
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        let tree = tempfile::tempdir_in(&place).unwrap();
        // posix_acl_xattr.h: version 2, then (tag, permissions, id): owner r--, group r-x, others
        // nothing. The owner's own bits would be cut too.
        let mut acl = 2u32.to_le_bytes().to_vec();
        for (tag, permissions) in [(0x01u16, 4u16), (0x04, 5), (0x20, 0)] {
            acl.extend(tag.to_le_bytes());
            acl.extend(permissions.to_le_bytes());
            acl.extend(u32::MAX.to_le_bytes());
        }
        let name = c"system.posix_acl_default";
        if let Err(errno) = setxattr(tree.path(), name, &acl, XattrFlags::empty()) {
            #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
            {
                eprintln!("SKIPPED: no ACLs there, in {}: {errno}", place.display());
            }
            continue;
        }
        tried += 1;
        let store = open(tree.path(), Resolution::Kernel);
        for mode in [0o644, 0o600, 0o444, 0o755] {
            let made = made_with(&store, store.root(), mode);
            assert_eq!(made & !0o600, 0, "{made:o}: not readable to others before its mode is set");
        }
    }
    assert!(tried > 0, "no place here has ACLs");
}

/// Promise (D7): fchmod restores the bits that the process's umask removes, and the others are set
/// at once. Run in a process of its own, as a umask is the whole process's.
#[test]
fn d7_a_umask_costs_a_call_and_no_bit() {
    if std::env::var_os(CHILD).is_none() {
        let name = "tests::modes::d7_a_umask_costs_a_call_and_no_bit";
        let script = "umask 077; exec \"$0\" --exact \"$1\" --nocapture";
        let mut child = Command::new("/bin/sh");
        child.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(name);
        let told = child.env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&told.stdout);
        assert!(told.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    for (mode, made) in [(0o644, 0o600), (0o755, 0o600), (0o600, 0o600), (0o400, 0o400)] {
        assert_eq!(made_with(&store, store.root(), mode), made, "{mode:o}");
    }
}

/// Returns an ACL in Linux's form (posix_acl_xattr.h), of entries of tag, permissions and id.
fn acl(version: u32, entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut acl = version.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

/// Promise: while its ACL is not set, and where it cannot be, a file grants its group no more than
/// the ACL does, although its mode shows the ACL's mask there. An ACL that no system knows does not
/// prevent those of other files.
#[test]
fn d7_a_mask_is_no_right_of_the_group() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let name = "system.posix_acl_access";
    let any = u32::MAX;
    let good = [(1, 6, any), (2, 6, 7), (4, 0, any), (0x10, 6, any), (0x20, 0, any)];
    let (first, last) = (good[0], good[4]);
    let unsound = [last, good[2], good[3], good[1], first];
    for (acl, mode) in [(acl(2, &unsound), 0o600), (acl(1, &good), 0o660), (acl(2, &good), 0o660)] {
        let (encoded, _) = encode_xattrs([(name.as_bytes(), acl.as_slice())].into_iter());
        let wanted = Attributes {
            xattrs: Xattrs::of(&encoded),
            classes: ClassSet::of([AttributeClass::Acls]),
            ..Attributes::plain(0o660, MTIME)
        };
        let file = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
        let not_set = file.finish(&wanted, false).unwrap();
        let path = tree.path().join(".pst-1");
        assert_eq!(mode_at(&path), mode);
        let mut there = [0; 256];
        let length = rustix::fs::getxattr(&path, name, &mut there).unwrap_or(0);
        let is_good = acl[0] == 2 && mode == 0o660;
        assert_eq!(not_set.iter().count(), usize::from(!is_good));
        assert_eq!(&there[..length], if is_good { acl.as_slice() } else { &[] });
    }
}

/// Promise (D7): a file that is to get another group is not open to the one that it has first,
/// unless that one may do what all may.
#[test]
fn d7_a_group_that_is_not_the_last_reads_nothing() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let root = store.root();
    let own = fs::metadata(tree.path()).unwrap().gid();
    let made = |mode, gid| {
        let file = store.create_whole(root, b".pst-1", Some(mode), gid).unwrap();
        let made = mode_at(&tree.path().join(".pst-1"));
        let wanted = Attributes { gid: Some(own), ..Attributes::plain(mode, MTIME) };
        file.finish(&wanted, false).unwrap();
        assert_eq!(mode_at(&tree.path().join(".pst-1")), mode);
        made
    };
    assert_eq!(made(0o640, Some(own)), 0o600, "nobody knows yet which group files get here");
    assert_eq!(made(0o640, Some(own)), 0o640);
    assert_eq!(made(0o640, Some(own + 1)), 0o600);
    assert_eq!(made(0o604, Some(own + 1)), 0o600);
    assert_eq!(made(0o644, Some(own + 1)), 0o644);
    assert_eq!(made(0o640, None), 0o640);
}

/// Promise: the setgid bit of a directory, which chown(2) leaves, is removed afterwards.
#[test]
fn a_directory_loses_its_setgid_bit_though_it_gets_an_owner() {
    if !rustix::process::geteuid().is_root() {
        #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
        {
            eprintln!("SKIPPED: needs root to change owners");
        }
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let path = tree.path().join("dir");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2755)).unwrap();
    let wanted = Attributes { uid: Some(65_534), ..Attributes::plain(0o755, MTIME) };
    set_dir_attributes(&store, b"dir", &wanted).unwrap();
    assert_eq!(mode_at(&path), 0o755);
}

/// Promise (i): a file that a user has put in the place of a link gets no attribute of the link.
#[test]
fn i_a_file_in_the_place_of_a_link_is_not_touched() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    put(&store, store.root(), b"link", b"");
    let path = tree.path().join("link");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let wanted = Attributes::plain(0o777, MTIME);
    assert!(set_node_attributes(&store, store.root(), b"link", &wanted).is_err());
    assert_eq!(mode_at(&path), 0o600);
}
