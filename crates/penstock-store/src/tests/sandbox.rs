//! Promise (i): no access outside the root, whatever names, links or races there are (C5).

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Promise (C5): a link inside the tree, relative, absolute or climbing, is never followed, neither
/// on the way nor at the end, whether the kernel resolves or we do.
#[test]
fn c5_links_are_not_followed() {
    for resolution in BOTH {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), b"secret").unwrap();
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("real")).unwrap();
        fs::write(tree.path().join("real/file"), b"x").unwrap();
        symlink("real", tree.path().join("inside")).unwrap();
        symlink(outside.path(), tree.path().join("absolute")).unwrap();
        symlink("../../../../etc", tree.path().join("climbing")).unwrap();
        symlink(outside.path().join("secret"), tree.path().join("file-link")).unwrap();
        let store = open(tree.path(), resolution);
        for path in [&b"inside"[..], b"absolute", b"climbing", b"inside/deeper", b"real/file/x"] {
            let refused = store.open_dir(path);
            assert!(matches!(refused, Err(StoreError::NotDirectory { .. })), "{refused:?}");
            let refused = store.make_dirs(path);
            assert!(matches!(refused, Err(StoreError::NotDirectory { .. })), "{refused:?}");
            assert!(
                set_dir_attributes(&store, path, &Attributes::plain(0o777, FileTime::default()))
                    .is_err()
            );
        }
        let refused = store.open_read(store.root(), b"file-link");
        assert!(matches!(refused, Err(StoreError::WrongKind { .. })), "{refused:?}");
        let refused = store.open_temporary(store.root(), b"file-link");
        assert!(matches!(refused, Err(StoreError::WrongKind { .. })), "{refused:?}");
        assert_eq!(store.stat(store.root(), b"file-link").unwrap().kind, Kind::Symlink);
        // A link planted under a temporary name is replaced, not written through.
        let planted = outside.path().join("secret");
        symlink(&planted, tree.path().join(".pst-1")).unwrap();
        let file = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
        file.write_at(0, b"ours").unwrap();
        file.close(false).unwrap();
        symlink(&planted, tree.path().join(".pst-2")).unwrap();
        let kept = store.create_temporary(store.root(), b".pst-2", LeftOver::Keep);
        assert!(matches!(kept, Err(StoreError::WrongKind { .. })), "{kept:?}");
        assert_eq!(fs::read(planted).unwrap(), b"secret");
    }
}

/// Promise (C5): a directory swapped for a link while we walk and write lets nothing out.
#[test]
fn c5_a_directory_swapped_for_a_link_leads_nowhere() {
    for resolution in BOTH {
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("b")).unwrap();
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().to_owned();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink(outside.path(), root.join("link")).unwrap();
        let store = open(&root, resolution);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // Exchange directory and link, again and again.
                    let root = fs::File::open(&root).unwrap();
                    let flags = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(&root, "a", &root, "link", flags).unwrap();
                }
            });
            let (mut walked, mut refused) = (0, 0);
            // Both outcomes must have been met, or nothing was raced for.
            while walked < 200 || refused < 200 {
                let Ok(dir) = store.open_dir(b"a/b") else {
                    refused += 1;
                    continue;
                };
                walked += 1;
                if let Ok(file) = store.create_temporary(&dir, b".pst-1", LeftOver::Replace) {
                    file.write_at(0, b"x").unwrap();
                    let _ = store.publish(file.dir(), b".pst-1", b"final", true);
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::read_dir(outside.path().join("b")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}

/// Promise (C5): the kernel is asked first, and its answer decides the way of resolution.
#[test]
fn c5_the_way_of_resolving_is_found_out() {
    let tree = tempfile::tempdir().unwrap();
    let store = PosixStore::open(tree.path(), PosixOptions::default()).unwrap();
    let expected = if penstock_sys::kernel_version() >= (5, 6) {
        Resolution::Kernel
    } else {
        Resolution::Stepwise
    };
    assert_eq!(store.resolution(), expected);
    let missing = PosixStore::open(&tree.path().join("none"), PosixOptions::default());
    assert!(missing.unwrap_err().is_vanished());
    fs::write(tree.path().join("file"), b"").unwrap();
    let file = PosixStore::open(&tree.path().join("file"), PosixOptions::default());
    assert!(matches!(file, Err(StoreError::NotDirectory { .. })));
}

/// Promise (C5): a pipe in the place of a file neither blocks a worker nor is read.
#[test]
fn c5_pipes_and_directories_are_not_read_as_files() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let root = fs::File::open(tree.path()).unwrap();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(&root, "pipe", rustix::fs::FileType::Fifo, mode, 0).unwrap();
    store.make_dirs(b"dir").unwrap();
    for item in [&b"pipe"[..], b"dir"] {
        let refused = store.open_read(store.root(), item).and_then(|file| file.meta());
        assert!(matches!(refused, Err(StoreError::WrongKind { .. })), "{refused:?}");
        let refused = store.open_temporary(store.root(), item);
        assert!(matches!(refused, Err(StoreError::WrongKind { .. })), "{refused:?}");
    }
    assert_eq!(store.stat(store.root(), b"pipe").unwrap().kind, Kind::Fifo);
}
