//! Directories that are listed in parts.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;

use super::*;

/// Lists up to `most` names behind a position; returns them with the position behind the last one.
fn part(source: &Source, position: u64, most: usize) -> (Vec<Vec<u8>>, u64) {
    let (mut names, mut behind) = (Vec::new(), position);
    let dir = source.root().clone();
    let mut visit = |entry: DirEntry<'_>, next: u64| {
        names.push(entry.name.to_vec());
        behind = next;
        if names.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    source.list_from(&dir, position, &mut ListBuffer::new(), &mut visit).unwrap();
    (names, behind)
}

fn all(source: &Source, most: usize, mut between: impl FnMut(usize)) -> Vec<Vec<u8>> {
    let (mut names, mut position, mut parts) = (Vec::new(), 0, 0);
    loop {
        let (found, behind) = part(source, position, most);
        if found.is_empty() {
            return names;
        }
        names.extend(found);
        position = behind;
        parts += 1;
        between(parts);
    }
}

/// E11: a directory that is listed in parts, each with a handle of its own, shows each name
/// once; also names that stay while others come and go.
#[test]
fn e11_a_directory_is_listed_in_parts() {
    let base = tempfile::tempdir().unwrap();
    let file = |name: String| base.path().join(name);
    (0..500).for_each(|number| fs::write(file(format!("stays-{number}")), b"").unwrap());
    let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
    let source = Source::Posix(store);
    let listed = all(&source, 7, |part| {
        fs::write(file(format!("new-{part}")), b"").unwrap();
        if part > 2 {
            fs::remove_file(file(format!("new-{}", part - 2))).unwrap();
        }
    });
    let stays: Vec<_> = listed.iter().filter(|name| name.starts_with(b"stays-")).collect();
    assert_eq!((stays.len(), stays.iter().collect::<BTreeSet<_>>().len()), (500, 500));
    let generated = Source::Mem(MemStore::new("mem:files=5,dirs=0,size=0".parse().unwrap()));
    assert_eq!(all(&generated, 2, |_| ()).len(), 5);
}

/// Promise (C5): one directory is made, beneath the root and without a link on the way, and one
/// that is there is not taken for a new one.
#[test]
fn c5_one_directory_is_made() {
    for resolution in BOTH {
        let base = tempfile::tempdir().unwrap();
        let store = open(base.path(), resolution);
        store.make_directory(b"a").unwrap();
        store.make_directory(b"a/b\xff").unwrap();
        assert!(matches!(store.make_directory(b"a"), Err(StoreError::Exists { .. })));
        assert!(matches!(store.make_directory(b""), Err(StoreError::Exists { .. })));
        let missing = store.make_directory(b"none/b").unwrap_err();
        assert_eq!(missing.errno(), Some(2), "{missing}");
        std::os::unix::fs::symlink("a", base.path().join("link")).unwrap();
        let refused = store.make_directory(b"link/c");
        assert!(matches!(refused, Err(StoreError::NotDirectory { .. })), "{refused:?}");
        for bad in [&b".."[..], b"../x", b"/x", b"a/../x", STORE_PRIVATE_NAME] {
            let refused = store.make_directory(bad);
            assert!(matches!(refused, Err(StoreError::BadPath { .. })), "{refused:?}");
        }
        let read_only = PosixOptions { read_only: true, ..PosixOptions::default() };
        let read_only = PosixStore::open(base.path(), read_only).unwrap();
        assert!(matches!(read_only.make_directory(b"d"), Err(StoreError::ReadOnly { .. })));
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 2);
    }
}
