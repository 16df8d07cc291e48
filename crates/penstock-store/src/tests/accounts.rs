//! A store that is used as an account of the host, by a process of root.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use penstock_proto::attributes::{AttributeClass, ClassSet};
use penstock_proto::id::{TransferId, WriterId};
use penstock_sys::Account;

use super::*;

/// Accounts that each host has: a user of the store, and another.
fn accounts() -> Option<(Account, Account)> {
    if !rustix::process::geteuid().is_root() {
        #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
        {
            eprintln!("SKIPPED: acting as an account needs root");
        }
        return None;
    }
    Some((Account::of_name("daemon").unwrap(), Account::of_name("nobody").unwrap()))
}

/// Makes an entry that of a user, with a mode.
fn give(path: &Path, account: &Account, mode: u32) {
    let (uid, gid) = account.numbers();
    chown(path, Some(uid), Some(gid)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns a tree with a directory of each of both: `one` and `other`, each with a file of mode
/// 0600.
fn tree(one: &Account, other: &Account) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, account) in [("one", one), ("other", other)] {
        let directory = tree.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("secret"), name).unwrap();
        give(&directory.join("secret"), account, 0o600);
        give(&directory, account, 0o755);
    }
    tree
}

/// Promise: with an account, a store opens, lists, makes and changes exactly the entries that the
/// account may, whatever the rights of the process.
#[test]
fn a_store_gives_an_account_its_own_rights() {
    let Some((one, other)) = accounts() else { return };
    let tree = tree(&one, &other);
    for resolution in BOTH {
        let all = open(tree.path(), resolution);
        let store = all.acting_as(&one).unwrap();
        let (own, foreign) = (store.open_dir(b"one").unwrap(), store.open_dir(b"other").unwrap());
        let read = |dir: &Dir| store.open_read(dir, b"secret");
        assert_eq!(conformance::read_all(&read(&own).unwrap()), b"one");
        assert!(read(&foreign).unwrap_err().is_denied());
        assert!(all.open_read(&all.open_dir(b"other").unwrap(), b"secret").is_ok());
        let create = |dir: &Dir| store.create_temporary(dir, b".pst-x", LeftOver::Replace);
        assert!(create(&foreign).err().unwrap().is_denied());
        assert!(store.remove(&foreign, b"secret").unwrap_err().is_denied());
        put(&store, &own, b"made", b"x");
        let made = fs::metadata(tree.path().join("one/made")).unwrap();
        assert_eq!((made.uid(), made.gid()), one.numbers());
        assert!(store.make_dirs(b"one/a/b").is_ok());
        assert!(store.make_dirs(b"new").unwrap_err().is_denied());
        assert!(store.remove(&own, b"made").unwrap());
        fs::remove_dir_all(tree.path().join("one/a")).unwrap();
    }
}

/// Promise: a directory that is closed to an account is not listed, not even by a handle that was
/// opened before.
#[test]
fn a_closed_directory_is_not_listed() {
    let Some((one, other)) = accounts() else { return };
    let tree = tree(&one, &other);
    let store = open(tree.path(), Resolution::Kernel).acting_as(&one).unwrap();
    let dir = store.open_dir(b"other").unwrap();
    let list = || {
        store.list(&dir, &mut ListBuffer::new(), &mut |_| {
            assert_eq!(fs::read(tree.path().join("other/secret")).unwrap(), b"other", "the daemon");
            ControlFlow::Continue(())
        })
    };
    list().unwrap();
    give(&tree.path().join("other"), &other, 0o700);
    assert!(list().unwrap_err().is_denied());
    assert!(store.stat(&dir, b"secret").unwrap_err().is_denied());
}

/// Promise (A5): identity and markers of a store stay the daemon's, so that no account needs a
/// right to them, or gets one.
#[test]
fn a5_marks_of_a_store_stay_with_the_daemon() {
    let Some((one, other)) = accounts() else { return };
    let tree = tree(&one, &other);
    let store = open(tree.path(), Resolution::Kernel).acting_as(&one).unwrap();
    let of = (TransferId([7; 16]), WriterId::SOLE);
    let _acting = store.act().unwrap();
    let identity = store.open_or_init_identity().unwrap();
    store.check_identity(&identity).unwrap();
    store.reserve_marker(of).unwrap();
    store.write_marker(of, 3).unwrap();
    assert_eq!(store.read_marker(of).unwrap(), Some(3));
    store.sync().unwrap();
    store.sync_dir(&store.open_dir(b"one").unwrap()).unwrap();
    drop(_acting);
    let private = private(tree.path());
    assert_eq!(fs::metadata(&private).unwrap().uid(), 0);
    assert!(
        fs::read_dir(&private).unwrap().all(|made| made.unwrap().metadata().unwrap().uid() == 0)
    );
    let store = open(tree.path(), Resolution::Kernel).acting_as(&one).unwrap();
    store.remove_marker(of).unwrap();
}

/// Promise (D7): an account cannot give a file to another or a capability to a program, and reports
/// that. A refusal to the account does not bind the daemon.
#[test]
fn d7_an_account_gives_no_file_away() {
    let Some((one, other)) = accounts() else { return };
    let tree = tree(&one, &other);
    let all = open(tree.path(), Resolution::Kernel);
    let (uid, gid) = other.numbers();
    let wanted = Attributes {
        uid: Some(uid),
        gid: Some(gid),
        classes: ClassSet::of(AttributeClass::ALL),
        ..Attributes::plain(0o4755, FileTime { seconds: 1, nanoseconds: 0 })
    };
    let finish = |store: &PosixStore| {
        let dir = store.open_dir(b"one").unwrap();
        let file = store.create_temporary(&dir, b".pst-y", LeftOver::Replace).unwrap();
        file.finish(&wanted, false).unwrap().iter().map(|(class, _)| class).collect::<Vec<_>>()
    };
    let as_one = all.acting_as(&one).unwrap();
    let refused = [AttributeClass::Owner, AttributeClass::SpecialMode];
    assert_eq!(finish(&as_one), refused);
    let made = fs::metadata(tree.path().join("one/.pst-y")).unwrap();
    assert_eq!(
        (made.uid(), made.gid(), made.mode() & 0o7777),
        (one.numbers().0, one.numbers().1, 0o755)
    );
    assert_eq!(finish(&all), []);
    assert_eq!(finish(&as_one), refused);
}

/// Promise: a directory of the account that refuses its writes is unlocked, one of another is not.
#[test]
fn only_own_directories_are_unlocked() {
    let Some((one, other)) = accounts() else { return };
    let tree = tree(&one, &other);
    give(&tree.path().join("one"), &one, 0o555);
    give(&tree.path().join("other"), &other, 0o555);
    let store = open(tree.path(), Resolution::Kernel).acting_as(&one).unwrap();
    let store = store.for_data_set(b"", true, false);
    put(&store, &store.open_dir(b"one").unwrap(), b"made", b"x");
    let foreign = store.open_dir(b"other").unwrap();
    let made = store.create_temporary(&foreign, b".pst-z", LeftOver::Replace);
    assert!(made.err().unwrap().is_denied());
    assert_eq!(fs::metadata(tree.path().join("other")).unwrap().mode() & 0o777, 0o555);
}

/// Promise: a file whose final mode forbids its owner to write is written through the page cache:
/// the account may not open it a second time for direct writes, and that is no error.
#[test]
fn a_read_only_file_of_an_account_is_written() {
    let Some((one, other)) = accounts() else { return };
    let tree = tree(&one, &other);
    let options = PosixOptions { io: IoMode::Direct, ..PosixOptions::default() };
    let store = PosixStore::open(tree.path(), options).unwrap().acting_as(&one).unwrap();
    let dir = store.open_dir(b"one").unwrap();
    let mut file = store.create_whole(&dir, b".pst-1", Some(0o444), None).unwrap();
    file.make_direct().unwrap();
    assert!(!file.is_direct());
    file.write_at(0, &[1; 8192]).unwrap();
    file.finish(&Attributes::plain(0o444, FileTime { seconds: 1, nanoseconds: 0 }), true).unwrap();
    assert_eq!(fs::read(tree.path().join("one/.pst-1")).unwrap(), [1; 8192]);
}
