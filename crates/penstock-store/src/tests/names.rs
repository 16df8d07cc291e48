//! Names are bytes, of any length that the system bears (promise (j)).

use std::ops::ControlFlow;

use super::*;

fn listed(store: &PosixStore, dir: &Dir) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let outcome = store.list(dir, &mut ListBuffer::new(), &mut |entry| {
        if entry.own.is_none() {
            names.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    });
    outcome.unwrap();
    names.sort();
    names
}

/// Promise (j): names that are not UTF-8, hold newlines, look like options or are 255 bytes long
/// go through listing, reading and publication unchanged.
#[test]
fn j_strange_names_survive() {
    for resolution in BOTH {
        let tree = tempfile::tempdir().unwrap();
        let store = open(tree.path(), resolution);
        let long = vec![b'n'; 255];
        let mut names: Vec<&[u8]> =
            vec![b"\xff\xfe", b"a\nb", b"-rf", b" ", b"...", b"..a", b"\x01\x7f", b"\\", &long];
        names.sort();
        for item in &names {
            put(&store, store.root(), item, item);
            let dir = store.make_dirs(&name::join(b"d", item)).unwrap();
            put(&store, &dir, item, item);
        }
        let mut all: Vec<Vec<u8>> = names.iter().map(|item| item.to_vec()).collect();
        assert_eq!(listed(&store, &store.open_dir(b"d").unwrap()), all);
        for item in &names {
            let dir = store.open_dir(&name::join(b"d", item)).unwrap();
            assert_eq!(listed(&store, &dir), [item.to_vec()]);
            let file = store.open_read(&dir, item).unwrap();
            assert_eq!(conformance::read_all(&file), *item);
        }
        all.push(b"d".to_vec());
        all.sort();
        assert_eq!(listed(&store, store.root()), all);
    }
}

/// Promise (j): a path three times as long as the kernel takes in one call is made, walked,
/// written and read.
#[test]
fn j_paths_longer_than_the_kernel_takes_work() {
    for resolution in BOTH {
        let tree = tempfile::tempdir().unwrap();
        let store = open(tree.path(), resolution);
        let component = [b'p'; 240];
        let path = vec![&component[..]; 50].join(&b'/');
        assert!(path.len() > 12_000);
        let dir = store.make_dirs(&path).unwrap();
        put(&store, &dir, b"file", b"deep");
        let again = store.open_dir(&path).unwrap();
        let file = store.open_read(&again, b"file").unwrap();
        assert_eq!(conformance::read_all(&file), b"deep");
        set_dir_attributes(
            &store,
            &path,
            &Attributes::plain(0o700, FileTime { seconds: 9, nanoseconds: 0 }),
        )
        .unwrap();
        assert_eq!(store.stat(&again, b"").unwrap().mtime.seconds, 9);
    }
}

/// Promise: our own files in a store are not shown, not sent, and not overwritten by an item. A
/// name that only has the same beginning is a user's.
#[test]
fn our_own_names_are_no_items() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    store.open_or_init_identity().unwrap();
    let (left, other) = (temporary_number(1), temporary_number(2));
    for mut path in [b".penstock".to_vec(), b".pst-dir".to_vec()] {
        let dir = store.make_dirs(&path).unwrap();
        put(&store, &dir, b".pst-1", b"a user's");
        path.extend_from_slice(b"/.pst-1");
        assert!(tree.path().join(OsStr::from_bytes(&path)).is_file());
    }
    drop(store.create_temporary(store.root(), &left, LeftOver::Replace).unwrap());
    assert_eq!(listed(&store, store.root()), [&b".penstock"[..], b".pst-dir"]);
    let mut own = Vec::new();
    let outcome = store.list(store.root(), &mut ListBuffer::new(), &mut |entry| {
        own.extend(entry.own.map(|own| (own.kind, entry.name.to_vec())));
        ControlFlow::Continue(())
    });
    outcome.unwrap();
    own.sort_by_key(|(_, name)| name.clone());
    let expected = [(OwnKind::Store, STORE_PRIVATE_NAME.to_vec()), (OwnKind::File, left.to_vec())];
    assert_eq!(own, expected);
    let join = |parts: &[&[u8]]| parts.join(&b'/');
    for path in [STORE_PRIVATE_NAME, &join(&[STORE_PRIVATE_NAME, b"x"]), &join(&[b"d", &left])] {
        assert!(store.open_dir(path).is_err());
        assert!(store.make_dirs(path).is_err());
    }
    assert!(store.publish(store.root(), &left, STORE_PRIVATE_NAME, true).is_err());
    assert!(store.publish(store.root(), &left, &other, true).is_err());
    assert!(store.remove(store.root(), STORE_PRIVATE_NAME).is_err());
}

/// Promise (g): a directory far larger than the buffer is listed completely.
#[test]
fn large_directories_are_listed_in_full() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    for number in 0..5000 {
        std::fs::write(tree.path().join(format!("a name of some length {number:05}")), b"")
            .unwrap();
    }
    let store = open(tree.path(), Resolution::Kernel);
    for _ in 0..2 {
        let names = listed(&store, store.root());
        assert_eq!(names.len(), 5000, "a second listing of the same handle starts anew");
    }
}
