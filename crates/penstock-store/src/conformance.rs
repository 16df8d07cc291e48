//! The promises of every store: one suite, run on each of them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::name;
use penstock_proto::units::FileTime;

use super::*;

/// Returns every entry of `source` by path, with its attributes.
pub(super) fn walk(source: &Source) -> BTreeMap<Vec<u8>, Meta> {
    let mut found = BTreeMap::new();
    let mut open = vec![Vec::new()];
    let mut buffer = ListBuffer::new();
    while let Some(path) = open.pop() {
        let dir = source.open_dir(&path).unwrap();
        let mut names = Vec::new();
        let listed = source.list(&dir, &mut buffer, &mut |entry| {
            names.push((entry.name.to_vec(), entry.kind));
            ControlFlow::Continue(())
        });
        listed.unwrap();
        for (item, kind) in names {
            let meta = source.stat(&dir, &item).unwrap();
            assert!(kind.is_none_or(|kind| kind == meta.kind), "listing and stat agree");
            let item_path = name::join(&path, &item);
            if meta.kind == Kind::Directory {
                open.push(item_path.clone());
            }
            let twice = found.insert(item_path, meta);
            assert!(twice.is_none(), "each name is listed once");
        }
    }
    found
}

/// Returns all bytes of a file, holes as zeros.
pub(super) fn read_all(file: &ReadFile) -> Vec<u8> {
    let mut bytes = vec![0; file.meta().unwrap().size as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Checks the promises of a source, which must hold at least one file that is not empty.
pub(super) fn check_source(source: &Source) {
    assert_eq!(source.stat(source.root(), b"").unwrap().kind, Kind::Directory);
    assert_eq!(source.check_fingerprint(&source.fingerprint().unwrap()), Ok(()));
    let entries = walk(source);
    assert_eq!(entries.keys().collect::<Vec<_>>(), walk(source).keys().collect::<Vec<_>>());
    let mut files = 0;
    for (path, meta) in &entries {
        let (parent, item) = name::split(path).unwrap();
        let dir = source.open_dir(parent).unwrap();
        if meta.kind == Kind::File {
            files += usize::from(meta.size > 0);
            check_file(source, &dir, item, meta);
        } else {
            assert!(source.open_read(&dir, item).and_then(|file| file.meta()).is_err());
        }
    }
    assert!(files > 0, "the suite needs a file to read");
    let nothing = source.stat(source.root(), b"no such name").unwrap_err();
    assert!(nothing.is_vanished(), "{nothing}");
    assert!(source.open_read(source.root(), b"no such name").unwrap_err().is_vanished());
    assert!(source.open_dir(b"no such name").unwrap_err().is_vanished());
    for bad in [&b".."[..], b"../x", b"/", b"a//b", b"a/../b", b"a\0b"] {
        assert!(source.open_dir(bad).is_err());
        assert!(source.stat(source.root(), bad).is_err());
        assert!(source.open_read(source.root(), bad).is_err());
    }
    let mut shown = 0;
    let stopped = source.list(source.root(), &mut ListBuffer::new(), &mut |_| {
        shown += 1;
        ControlFlow::Break(())
    });
    assert!(stopped.is_ok() && shown == 1);
}

fn check_file(source: &Source, dir: &Dir, item: &[u8], meta: &Meta) {
    let file = source.open_read(dir, item).unwrap();
    let opened = file.meta().unwrap();
    assert_eq!((opened.size, opened.identity()), (meta.size, meta.identity()));
    let whole = read_all(&file);
    let middle = whole.len() / 2;
    let mut tail = vec![0; whole.len() + 1];
    let count = file.read_at(middle as u64, &mut tail).unwrap();
    assert_eq!(&tail[..count], &whole[middle..], "a read ends at the end of the file");
    assert_eq!(file.read_at(meta.size + 5, &mut tail).unwrap(), 0);
    // Data and holes alternate up to the end, and holes read as zeros.
    let mut at = 0;
    while let Some(data) = file.next_data(at).unwrap() {
        assert!(whole[at as usize..data as usize].iter().all(|&byte| byte == 0));
        at = file.next_hole(data).unwrap();
        assert!(at > data && at <= meta.size);
    }
    assert!(whole[at as usize..].iter().all(|&byte| byte == 0));
}

/// Checks the promises of a target; with `keeps`, also that published entries can be read again.
pub(super) fn check_target(target: &Target, keeps: bool) {
    check_target_store(target, keeps);
    let dir = target.make_dirs(b"a/b").unwrap();
    assert_eq!(dir.path(), b"a/b");
    assert_eq!(target.make_dirs(b"a/b").unwrap().path(), b"a/b");
    let mtime = FileTime { seconds: 1_000_000_000, nanoseconds: 123_456_789 };
    let file = target.create_temporary(&dir, b".pst-1", LeftOver::Replace).unwrap();
    assert!(file.was_created());
    file.write_at(5, b"world").unwrap();
    file.write_at(0, b"hello").unwrap();
    file.set_len(12).unwrap();
    let per_file = dir.durability().is_per_file();
    file.finish(&Attributes::plain(0o640, mtime), per_file).unwrap();
    assert_eq!(target.meta(&dir, b"final").unwrap(), None, "no final name before publication");
    target.sync().unwrap();
    target.publish(&dir, b".pst-1", b"final", false).unwrap();
    target.sync_dir(&dir).unwrap();
    target.make_symlink(&dir, b".pst-2", b"/no/where").unwrap();
    target.make_symlink(&dir, b".pst-2", b"/else/where").unwrap();
    target
        .set_node_attributes(
            &dir,
            b".pst-2",
            &Attributes { mtime: Some(mtime), ..Attributes::default() },
        )
        .unwrap();
    target.publish(&dir, b".pst-2", b"link", true).unwrap();
    target.set_dir_attributes(b"a/b", &Attributes::plain(0o750, mtime)).unwrap();
    target.sync().unwrap();
    if keeps {
        check_kept(target, &dir, mtime);
    }
    for bad in [&b".."[..], b"x/y", b"", b".", b"a\0b"] {
        assert!(target.create_temporary(&dir, bad, LeftOver::Replace).is_err());
        assert!(target.create_whole(&dir, bad, Some(0o644), None).is_err());
        assert!(target.publish(&dir, b".pst-1", bad, true).is_err());
    }
    let private = name::join(name::STORE_PRIVATE_NAME, b"x");
    for bad in [&b"../x"[..], b"/x", b"x//y", &private] {
        assert!(target.make_dirs(bad).is_err());
    }
    assert_eq!(target.remove(&dir, b"link").unwrap(), keeps);
    assert!(!target.remove(&dir, b"link").unwrap());
}

fn check_target_store(target: &Target, keeps: bool) {
    let identity = target.open_or_init_identity().unwrap();
    assert_eq!(target.open_or_init_identity().unwrap(), identity);
    assert_eq!(target.check_identity(&identity), Ok(()));
    let transfer = (TransferId([3; 16]), WriterId(5));
    target.write_marker(transfer, 41).unwrap();
    target.write_marker(transfer, 42).unwrap();
    assert!(target.read_marker(transfer).unwrap() >= Some(42));
    target.remove_marker(transfer).unwrap();
    target.remove_marker(transfer).unwrap();
    assert!(target.space().unwrap().total_bytes > 0);
    assert!(!target.space().unwrap().read_only);
    assert!(!target.durability().is_empty());
    assert_eq!(target.mount_identity().unwrap(), target.mount_identity().unwrap());
    assert_eq!(target.durability() == [DurabilityMethod::Nothing], !keeps);
}

fn check_kept(target: &Target, dir: &Dir, mtime: FileTime) {
    let file = target.open_read(dir, b"final").unwrap();
    assert_eq!(read_all(&file), b"helloworld\0\0");
    let meta = file.meta().unwrap();
    assert_eq!((meta.mode, meta.mtime), (0o640, mtime));
    assert_eq!(target.read_link(dir, b"link").unwrap(), b"/else/where");
    let link = target.meta(dir, b"link").unwrap().unwrap();
    assert_eq!((link.kind, link.mtime), (Kind::Symlink, mtime));
    let directory = target.meta(dir, b"").unwrap().unwrap();
    assert_eq!((directory.mode, directory.mtime), (0o750, mtime));
    for temporary in [b".pst-1", b".pst-2"] {
        assert_eq!(target.meta(dir, temporary).unwrap(), None);
    }
}
