//! Temporary files, publication, directories, full and read-only stores.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use super::*;

const MTIME: FileTime = FileTime { seconds: -5, nanoseconds: 999_999_999 };

/// Promise (B1): a late writer never cuts short or remakes a file of many extents. A left-over of a
/// one-writer file gets a new inode, which late writes to the old one cannot reach.
#[test]
fn b1_one_inode_one_generation() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let root = store.root().clone();
    let late = store.create_temporary(&root, b".pst-1", LeftOver::Replace).unwrap();
    late.write_at(0, b"first part").unwrap();
    let kept = store.create_temporary(&root, b".pst-1", LeftOver::Keep).unwrap();
    assert!(!kept.was_created());
    assert_eq!(kept.meta().unwrap(), late.meta().unwrap());
    let other = store.open_temporary(&root, b".pst-1").unwrap();
    other.write_at(10, b" second part").unwrap();
    let path = tree.path().join(".pst-1");
    assert_eq!(fs::read(&path).unwrap(), b"first part second part");
    let new = store.create_temporary(&root, b".pst-1", LeftOver::Replace).unwrap();
    assert!(new.was_created());
    assert_ne!(new.meta().unwrap().unwrap().inode, late.meta().unwrap().unwrap().inode);
    late.write_at(0, b"late").unwrap();
    new.write_at(0, b"new").unwrap();
    new.finish(&Attributes::plain(0o444, MTIME), true).unwrap();
    store.publish(&root, b".pst-1", b"final", false).unwrap();
    assert_eq!(fs::read(tree.path().join("final")).unwrap(), b"new");
    let gone = store.open_temporary(&root, b".pst-1").unwrap_err();
    assert!(gone.is_vanished());
    assert!(!path.exists(), "opening must not make it");
}

/// Promise: mode and time are those of the source, before 1970 too, and nothing more is readable
/// before the file is finished.
#[test]
fn attributes_are_set_when_finished_and_not_before() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let root = store.root().clone();
    for mode in [0o600, 0o4755, 0o000, 0o644] {
        let file = store.create_temporary(&root, b".pst-1", LeftOver::Replace).unwrap();
        file.write_at(0, b"x").unwrap();
        assert_eq!(fs::metadata(tree.path().join(".pst-1")).unwrap().mode() & 0o7777, 0o600);
        file.finish(&Attributes::plain(mode, MTIME), false).unwrap();
        store.publish(&root, b".pst-1", b"final", true).unwrap();
        let meta = store.stat(&root, b"final").unwrap();
        assert_eq!((meta.mode, meta.mtime), (mode, MTIME));
    }
    // A file kept from an earlier run may have had its mode set already.
    let file = store.create_temporary(&root, b".pst-1", LeftOver::Replace).unwrap();
    file.finish(&Attributes::plain(0o644, MTIME), false).unwrap();
    let file = store.create_temporary(&root, b".pst-1", LeftOver::Keep).unwrap();
    file.finish(&Attributes::plain(0o600, MTIME), false).unwrap();
    assert_eq!(store.stat(&root, b".pst-1").unwrap().mode, 0o600);
}

/// Promise: a final name is replaced only when that is wanted, and a directory never is.
#[test]
fn publication_replaces_only_when_told() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let root = store.root().clone();
    put(&store, &root, b"final", b"old");
    let temporary = |bytes: &[u8]| {
        let file = store.create_temporary(&root, b".pst-1", LeftOver::Replace).unwrap();
        file.write_at(0, bytes).unwrap();
        file.finish(&Attributes::plain(0o600, MTIME), false).unwrap();
    };
    temporary(b"new");
    let refused = store.publish(&root, b".pst-1", b"final", false);
    assert!(matches!(refused, Err(StoreError::Exists { .. })), "{refused:?}");
    assert_eq!(fs::read(tree.path().join("final")).unwrap(), b"old");
    store.publish(&root, b".pst-1", b"final", true).unwrap();
    assert_eq!(fs::read(tree.path().join("final")).unwrap(), b"new");
    assert!(store.publish(&root, b".pst-1", b"final", true).unwrap_err().is_vanished());
    store.make_dirs(b"dir").unwrap();
    temporary(b"new");
    let refused = store.publish(&root, b".pst-1", b"dir", true);
    assert!(matches!(refused, Err(StoreError::WrongKind { .. })), "{refused:?}");
    let refused = store.publish(&root, b".pst-1", b"dir", false);
    assert!(matches!(refused, Err(StoreError::Exists { .. })), "{refused:?}");
    let refused = store.remove(&root, b"dir");
    assert!(matches!(refused, Err(StoreError::WrongKind { .. })), "{refused:?}");
}

/// Promise (B5): a parent that vanished under an open handle is made again, and the file lands
/// under its path; parents made by several threads at once are one directory.
#[test]
fn b5_parents_are_made_again() {
    for resolution in BOTH {
        let tree = tempfile::tempdir().unwrap();
        let store = open(tree.path(), resolution);
        let stale = store.make_dirs(b"a/b").unwrap();
        assert_eq!(store.stat(&stale, b"").unwrap().mode & 0o777, 0o700);
        fs::remove_dir_all(tree.path().join("a")).unwrap();
        let file = store.create_temporary(&stale, b".pst-1", LeftOver::Replace).unwrap();
        file.write_at(0, b"x").unwrap();
        let dir = file.dir().clone();
        file.finish(&Attributes::plain(0o600, MTIME), false).unwrap();
        // The stale handle serves too: only its path counts.
        store.publish(&stale, b".pst-1", b"final", false).unwrap();
        assert!(store.stat(&dir, b"final").is_ok());
        assert_eq!(fs::read(tree.path().join("a/b/final")).unwrap(), b"x");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| store.make_dirs(b"x/y/z/w").unwrap());
            }
        });
        fs::write(tree.path().join("file"), b"").unwrap();
        let refused = store.make_dirs(b"file/sub");
        assert!(matches!(refused, Err(StoreError::NotDirectory { .. })), "{refused:?}");
    }
}

/// Promise: a store opened for reading only refuses every change.
#[test]
fn a_read_only_store_refuses_every_change() {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("file"), b"x").unwrap();
    let options = PosixOptions { read_only: true, ..PosixOptions::default() };
    let store = PosixStore::open(tree.path(), options).unwrap();
    let root = store.root();
    let transfer = (penstock_proto::id::TransferId([1; 16]), penstock_proto::id::WriterId::SOLE);
    let refusals = [
        store.make_dirs(b"d").err(),
        store.create_temporary(root, b".pst-1", LeftOver::Replace).err(),
        store.create_whole(root, b".pst-1", Some(0o644), None).err(),
        store.open_temporary(root, b"file").err(),
        make_symlink(&store, root, b".pst-1", b"x").err(),
        set_node_attributes(
            &store,
            root,
            b"file",
            &Attributes { mtime: Some(MTIME), ..Attributes::default() },
        )
        .err(),
        store.publish(root, b"file", b"other", true).err(),
        store.remove(root, b"file").err(),
        set_dir_attributes(&store, b"", &Attributes::plain(0o777, MTIME)).err(),
        store.open_or_init_identity().err(),
        store.write_marker(transfer, 1).err(),
        store.remove_marker(transfer).err(),
    ];
    for refusal in refusals {
        assert!(refusal.unwrap().is_read_only());
    }
    assert!(store.space().unwrap().read_only);
    let names: Vec<_> =
        fs::read_dir(tree.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
}

/// Promise (E3): a full disk is recognized, whether bytes or inodes are used up. A store on a file
/// system that turned read-only does not count as a broken one. Needs root.
#[test]
fn e3_a_full_disk_is_named() {
    let place = tempfile::tempdir().unwrap();
    let Some(_mounted) = TinyMount::over(place.path()) else { return };
    let store = open(place.path(), Resolution::Kernel);
    let root = store.root().clone();
    let file = store.create_temporary(&root, b".pst-1", LeftOver::Replace).unwrap();
    let full = file.write_at(0, &vec![1; 2 << 20]).unwrap_err();
    assert!(full.is_out_of_space(), "{full}");
    assert_eq!(store.space().unwrap().free_bytes, 0);
    drop(file);
    store.remove(&root, b".pst-1").unwrap();
    let out_of_inodes = (0..100)
        .find_map(|number| store.make_dirs(format!("d{number}").as_bytes()).err())
        .expect("64 inodes do not make 100 directories");
    assert!(out_of_inodes.is_out_of_space(), "{out_of_inodes}");
    assert_eq!(store.space().unwrap().free_inodes, Some(0));
    let flags = rustix::mount::MountFlags::RDONLY;
    rustix::mount::mount_remount(place.path(), flags, c"").unwrap();
    let refused = store.create_temporary(&root, b".pst-2", LeftOver::Replace).unwrap_err();
    assert!(refused.is_read_only(), "{refused}");
    assert!(store.space().unwrap().read_only);
}

/// Promise (A3): directories on another mount below the root are synced too, by the method that
/// their own file system needs. Needs root.
#[test]
fn a3_mounts_below_the_root_are_synced() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let nested = tree.path().join("nested");
    fs::create_dir(&nested).unwrap();
    let Some(_mounted) = TinyMount::over(&nested) else { return };
    let before = store.durability();
    assert_eq!(before, [store.root().durability()]);
    let dir = store.make_dirs(b"nested/d").unwrap();
    assert_eq!(dir.durability(), DurabilityMethod::Syncfs(FileSystemKind::Tmpfs));
    put(&store, &dir, b"file", b"x");
    store.sync().unwrap();
    assert!(store.durability().contains(&dir.durability()));
}

/// B4: a peer without contact to its controller may write under temporary names while its grant
/// holds, and makes no name. When the grant is over, it may not write either.
#[test]
fn b4_bytes_ask_the_grant_and_names_the_controller_too() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let tree = tempfile::tempdir().unwrap();
    let gate = || Arc::new(AtomicBool::new(true));
    let (tenure, grant) = (gate(), gate());
    let asks = |gate: &Arc<AtomicBool>| -> crate::Gate {
        let gate = Arc::clone(gate);
        Arc::new(move || gate.load(Ordering::Acquire))
    };
    let store = open(tree.path(), Resolution::Kernel);
    let store = store.guarded(asks(&tenure)).granted(asks(&grant));
    let root = store.root().clone();
    let [one, two, three] = [1, 2, 3].map(temporary_number);
    let fenced = |outcome: Result<(), StoreError>| {
        assert!(outcome.unwrap_err().is_offline());
    };
    store.create_temporary(&root, &one, LeftOver::Replace).unwrap();
    tenure.store(false, Ordering::Release);
    store.check_gate().unwrap();
    store.create_temporary(&root, &two, LeftOver::Replace).unwrap();
    store.make_dirs(b"a/b").unwrap();
    assert!(store.remove(&root, &two).unwrap());
    fenced(store.publish(&root, &one, b"final", true));
    fenced(set_dir_attributes(&store, b"a", &Attributes::plain(0o700, MTIME)).map(drop));
    tenure.store(true, Ordering::Release);
    store.publish(&root, &one, b"final", true).unwrap();
    tenure.store(false, Ordering::Release);
    fenced(store.remove(&root, b"final").map(drop));
    grant.store(false, Ordering::Release);
    tenure.store(true, Ordering::Release);
    fenced(store.check_gate());
    fenced(store.create_temporary(&root, &three, LeftOver::Replace).map(drop));
    fenced(store.make_dirs(b"c").map(drop));
    fenced(store.remove(&root, b"final").map(drop));
    assert!(tree.path().join("final").exists());
}
