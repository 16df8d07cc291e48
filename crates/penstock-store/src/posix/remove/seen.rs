//! Removes entries that were inspected before, and never entries that replaced them meanwhile (B4,
//! C3).

use penstock_proto::name;
use penstock_proto::units::FileTime;
use rustix::fs::{AtFlags, linkat, renameat, unlinkat};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::check_item_name;
use crate::meta::{Kind, Meta};
use crate::posix::store::PosixStore;

/// The result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The entry has lost its name.
    Done,
    /// No entry had its name.
    Vanished,
    /// The entry differs from the inspected one, and stays.
    Changed,
    /// The entry is a directory that is not empty, and stays.
    NotEmpty,
}

/// Returns whether `now` is the same entry as `seen`. A directory stays the same after any change
/// in it. So does a file with several names when one of the others is removed, which moves its
/// change time.
fn is_still(seen: &Meta, now: &Meta) -> bool {
    let same = seen.kind == now.kind && seen.inode == now.inode;
    match seen.kind {
        Kind::Directory => same,
        _ if seen.links > 1 => same && seen.size == now.size && seen.mtime == now.mtime,
        _ => same && seen.ctime == now.ctime && seen.size == now.size,
    }
}

/// Implements [`Target::remove_seen`] for a directory tree.
///
/// [`Target::remove_seen`]: crate::Target::remove_seen
pub(crate) fn remove_seen(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    seen: &Meta,
) -> Result<Removal, StoreError> {
    if let Some(known) = look_again(store, dir, name, seen)? {
        return Ok(known);
    }
    let flags = if seen.kind == Kind::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let fd = dir.fd()?;
    match store.rules.briefly_unlocked(dir, || unlinkat(&fd, name, flags)) {
        Ok(()) => Ok(Removal::Done),
        Err(Errno::NOENT) => Ok(Removal::Vanished),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Removal::NotEmpty),
        Err(Errno::ISDIR | Errno::NOTDIR) => Ok(Removal::Changed),
        Err(errno) => Err(dir.error("remove", name, errno)),
    }
}

/// Implements [`Target::move_seen`] for a directory tree.
///
/// [`Target::move_seen`]: crate::Target::move_seen
pub(crate) fn move_seen(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    seen: &Meta,
    to: (&Dir, &[u8]),
) -> Result<Removal, StoreError> {
    check_item_name(to.0, to.1)?;
    if let Some(known) = look_again(store, dir, name, seen)? {
        return Ok(known);
    }
    match rename_away(store, dir, name, to) {
        Ok(()) => Ok(Removal::Done),
        Err(Errno::NOENT) => Ok(Removal::Vanished),
        Err(errno) => Err(dir.error("move away", name, errno)),
    }
}

/// Renames `name` in `dir` to another directory; either may be one of ours that refuses it.
fn rename_away(store: &PosixStore, dir: &Dir, name: &[u8], to: (&Dir, &[u8])) -> Result<(), Errno> {
    let (from, into) = (dir.fd_raw()?, to.0.fd_raw()?);
    let rename = || renameat(&from, name, &into, to.1);
    store.rules.briefly_unlocked(dir, || store.rules.briefly_unlocked(to.0, rename))
}

fn look_again(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    seen: &Meta,
) -> Result<Option<Removal>, StoreError> {
    check_item_name(dir, name)?;
    let path = name::join(dir.path(), name);
    store.check_writable("remove", &path)?;
    if name::own(name).is_some() {
        return Err(StoreError::bad_path(&path));
    }
    Ok(match store.stat_if_exists(dir, name)? {
        None => Some(Removal::Vanished),
        Some(now) if !is_still(seen, &now) => Some(Removal::Changed),
        Some(_) => None,
    })
}

/// Implements [`Target::keep_aside`] for a directory tree.
///
/// [`Target::keep_aside`]: crate::Target::keep_aside
pub(crate) fn keep_aside(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    to: (&Dir, &[u8]),
    since: FileTime,
) -> Result<(), StoreError> {
    check_item_name(dir, name)?;
    check_item_name(to.0, to.1)?;
    store.check_item_writable("keep", dir, name)?;
    let Some(there) = store.stat_if_exists(dir, name)? else { return Ok(()) };
    if there.kind == Kind::Directory {
        return Ok(());
    }
    if let Some(kept) = store.stat_if_exists(to.0, to.1)? {
        let same = kept.inode == there.inode && kept.device == there.device;
        // Its change time is that of the link, or of the move.
        if same || kept.ctime >= since {
            return Ok(());
        }
        store.remove(to.0, to.1)?;
    }
    let (from, into) = (dir.fd()?, to.0.fd()?);
    let link = || linkat(&from, name, &into, to.1, AtFlags::empty());
    match store.rules.briefly_unlocked(to.0, link) {
        Ok(()) => Ok(()),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::NOSYS) => {
            let moved = rename_away(store, dir, name, to);
            moved.map_err(|errno| dir.error("move away", name, errno))
        }
        Err(errno) => Err(dir.error("keep", name, errno)),
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::name::{OwnKind, RunTag};

    use super::*;
    use crate::PosixOptions;
    use std::fs;

    fn store() -> (tempfile::TempDir, PosixStore) {
        let root = tempfile::tempdir().unwrap();
        let store = PosixStore::open(root.path(), PosixOptions::default()).unwrap();
        (root, store)
    }

    /// Promise: a backup is the entry from before the transfer. An entry that the transfer itself
    /// has made and replaces does not take its place; a backup of an earlier transfer is replaced.
    #[test]
    fn a_backup_is_not_replaced_by_what_came_after_it() {
        let (root, store) = store();
        let dir = store.root().clone();
        let path = |name: &str| root.path().join(name);
        let keep = |since| keep_aside(&store, &dir, b"f", (&dir, b"kept"), since).unwrap();
        fs::write(path("f"), "of the user").unwrap();
        keep(FileTime::default());
        assert_eq!(fs::read(path("kept")).unwrap(), b"of the user");
        fs::write(path("new"), "the first version").unwrap();
        fs::rename(path("new"), path("f")).unwrap();
        let linked = store.stat(&dir, b"kept").unwrap().ctime;
        keep(linked);
        assert_eq!(fs::read(path("kept")).unwrap(), b"of the user");
        keep(FileTime { seconds: linked.seconds + 1, ..linked });
        assert_eq!(fs::read(path("kept")).unwrap(), b"the first version");
    }

    /// B4, C3: an entry that has taken the place of the examined one stays.
    #[test]
    fn b4_only_what_was_seen_goes() {
        let (root, store) = store();
        let dir = store.root().clone();
        let path = |name: &str| root.path().join(name);
        fs::write(path("a"), "old").unwrap();
        let seen = store.stat(&dir, b"a").unwrap();
        fs::write(path("b"), "new").unwrap();
        fs::rename(path("b"), path("a")).unwrap();
        assert_eq!(remove_seen(&store, &dir, b"a", &seen).unwrap(), Removal::Changed);
        assert_eq!(fs::read(path("a")).unwrap(), b"new");
        let seen = store.stat(&dir, b"a").unwrap();
        assert_eq!(remove_seen(&store, &dir, b"a", &seen).unwrap(), Removal::Done);
        assert_eq!(remove_seen(&store, &dir, b"a", &seen).unwrap(), Removal::Vanished);
        fs::create_dir_all(path("d/e")).unwrap();
        let seen = store.stat(&dir, b"d").unwrap();
        assert_eq!(remove_seen(&store, &dir, b"d", &seen).unwrap(), Removal::NotEmpty);
        let other = name::own_name(OwnKind::File, RunTag([1; 4]), [2; 12]);
        fs::write(path(std::str::from_utf8(&other).unwrap()), "").unwrap();
        let seen = store.stat(&dir, &other).unwrap();
        assert!(remove_seen(&store, &dir, &other, &seen).is_err(), "never ours to delete");
    }
}
