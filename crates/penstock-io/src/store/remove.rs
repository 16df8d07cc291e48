//! Removes entries that were inspected before, and never entries that replaced them meanwhile (B4,
//! C3).

use penstock_proto::name;
use penstock_proto::units::FileTime;
use rustix::fs::{AtFlags, linkat, renameat, unlinkat};
use rustix::io::Errno;

use super::dir::Dir;
use super::error::StoreError;
use super::posix::PosixStore;
use super::target::Target;
use super::{Kind, Meta, check_item_name};

/// The result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The entry has lost its name.
    Done,
    /// No entry had its name any more.
    Vanished,
    /// The entry differs from the inspected one, and stays.
    Changed,
    /// The entry is a directory that is not empty, and stays.
    NotEmpty,
}

/// Returns whether `now` is the same entry as `seen`. A directory stays the same whatever changes
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

impl PosixStore {
    /// Removes `name` in `dir` if it is still the entry `seen`; a directory only if it is empty.
    /// Between the check and the removal is a moment, as short as two calls.
    ///
    /// # Errors
    /// `BadPath`, also for our own temporary names; `ReadOnly`; `Io`.
    pub fn remove_seen(&self, dir: &Dir, name: &[u8], seen: &Meta) -> Result<Removal, StoreError> {
        if let Some(known) = self.look_again(dir, name, seen)? {
            return Ok(known);
        }
        let flags =
            if seen.kind == Kind::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let fd = dir.fd()?;
        match self.briefly_unlocked(dir, || unlinkat(fd, name, flags)) {
            Ok(()) => Ok(Removal::Done),
            Err(Errno::NOENT) => Ok(Removal::Vanished),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Removal::NotEmpty),
            Err(Errno::ISDIR | Errno::NOTDIR) => Ok(Removal::Changed),
            Err(errno) => Err(dir.error("remove", name, errno)),
        }
    }

    /// Moves an entry, unless it is a directory, to `to`, with the checks of
    /// [`PosixStore::remove_seen`]. An entry that has that name there is replaced.
    ///
    /// # Errors
    /// Those of [`PosixStore::remove_seen`]; `Io` with `EXDEV` if `to` is on another file system.
    pub fn move_seen(
        &self,
        dir: &Dir,
        name: &[u8],
        seen: &Meta,
        to: (&Dir, &[u8]),
    ) -> Result<Removal, StoreError> {
        check_item_name(to.0, to.1)?;
        if let Some(known) = self.look_again(dir, name, seen)? {
            return Ok(known);
        }
        match self.rename_away(dir, name, to) {
            Ok(()) => Ok(Removal::Done),
            Err(Errno::NOENT) => Ok(Removal::Vanished),
            Err(errno) => Err(dir.error("move away", name, errno)),
        }
    }

    /// Renames `name` in `dir` to another directory; either may be one of ours that refuses it.
    fn rename_away(&self, dir: &Dir, name: &[u8], to: (&Dir, &[u8])) -> Result<(), Errno> {
        let (from, into) = (dir.fd_raw()?, to.0.fd_raw()?);
        let rename = || renameat(from, name, into, to.1);
        self.briefly_unlocked(dir, || self.briefly_unlocked(to.0, rename))
    }

    fn look_again(
        &self,
        dir: &Dir,
        name: &[u8],
        seen: &Meta,
    ) -> Result<Option<Removal>, StoreError> {
        check_item_name(dir, name)?;
        let path = name::join(dir.path(), name);
        self.check_writable("remove", &path)?;
        if name::own(name).is_some() {
            return Err(StoreError::bad_path(&path));
        }
        Ok(match self.stat_if_exists(dir, name)? {
            None => Some(Removal::Vanished),
            Some(now) if !is_still(seen, &now) => Some(Removal::Changed),
            Some(_) => None,
        })
    }

    /// Gives the entry at `name`, unless it is a directory, the further name `to`, so that it stays
    /// when `name` is replaced. An entry at `to` is replaced, unless it was made there at `since`
    /// or later. It is then the one to keep, and the entry at `name` is not. Where a file system
    /// has no hard links the entry is moved, and for a moment no entry has its name.
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `Io`.
    pub fn keep_aside(
        &self,
        dir: &Dir,
        name: &[u8],
        to: (&Dir, &[u8]),
        since: FileTime,
    ) -> Result<(), StoreError> {
        check_item_name(dir, name)?;
        check_item_name(to.0, to.1)?;
        self.check_item_writable("keep", dir, name)?;
        let Some(there) = self.stat_if_exists(dir, name)? else { return Ok(()) };
        if there.kind == Kind::Directory {
            return Ok(());
        }
        if let Some(kept) = self.stat_if_exists(to.0, to.1)? {
            let same = kept.inode == there.inode && kept.device == there.device;
            // Its change time is that of the link, or of the move.
            if same || kept.ctime >= since {
                return Ok(());
            }
            self.remove(to.0, to.1)?;
        }
        let (from, into) = (dir.fd()?, to.0.fd()?);
        let link = || linkat(from, name, into, to.1, AtFlags::empty());
        match self.briefly_unlocked(to.0, link) {
            Ok(()) => Ok(()),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::NOSYS) => {
                let moved = self.rename_away(dir, name, to);
                moved.map_err(|errno| dir.error("move away", name, errno))
            }
            Err(errno) => Err(dir.error("keep", name, errno)),
        }
    }
}

impl Target {
    /// See [`PosixStore::remove_seen`].
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `Io`.
    pub fn remove_seen(&self, dir: &Dir, name: &[u8], seen: &Meta) -> Result<Removal, StoreError> {
        match self {
            Self::Posix(store) => store.remove_seen(dir, name, seen),
            Self::Null => Ok(Removal::Vanished),
        }
    }

    /// See [`PosixStore::move_seen`].
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `Io`.
    pub fn move_seen(
        &self,
        dir: &Dir,
        name: &[u8],
        seen: &Meta,
        to: (&Dir, &[u8]),
    ) -> Result<Removal, StoreError> {
        match self {
            Self::Posix(store) => store.move_seen(dir, name, seen, to),
            Self::Null => Ok(Removal::Vanished),
        }
    }

    /// See [`PosixStore::keep_aside`].
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `Io`.
    pub fn keep_aside(
        &self,
        dir: &Dir,
        name: &[u8],
        to: (&Dir, &[u8]),
        since: FileTime,
    ) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.keep_aside(dir, name, to, since),
            Self::Null => Ok(()),
        }
    }

    /// Lists a directory, see [`super::Source::list`]; `null:` holds nothing.
    ///
    /// # Errors
    /// `Io`: the listing is not complete, and nothing may be deleted on its word (promise (e)).
    pub fn list(
        &self,
        dir: &Dir,
        buffer: &mut super::ListBuffer,
        visit: &mut dyn FnMut(super::DirEntry<'_>) -> std::ops::ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.list(dir, buffer, visit),
            Self::Null => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::name::{OwnKind, RunTag};

    use super::*;
    use crate::store::PosixOptions;
    use std::fs;

    fn store() -> (tempfile::TempDir, PosixStore) {
        let root = tempfile::tempdir().unwrap();
        let store = PosixStore::open(root.path(), PosixOptions::default()).unwrap();
        (root, store)
    }

    /// Promise: a backup is of what stood there before the transfer. What the transfer itself has
    /// put there and replaces once more does not take its place; a backup of long ago gives way.
    #[test]
    fn a_backup_is_not_replaced_by_what_came_after_it() {
        let (root, store) = store();
        let dir = store.root().clone();
        let path = |name: &str| root.path().join(name);
        let keep = |since| store.keep_aside(&dir, b"f", (&dir, b"kept"), since).unwrap();
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

    /// B4, C3: what took the place of the thing that was looked at stays.
    #[test]
    fn b4_only_what_was_seen_goes() {
        let (root, store) = store();
        let dir = store.root().clone();
        let path = |name: &str| root.path().join(name);
        fs::write(path("a"), "old").unwrap();
        let seen = store.stat(&dir, b"a").unwrap();
        fs::write(path("b"), "new").unwrap();
        fs::rename(path("b"), path("a")).unwrap();
        assert_eq!(store.remove_seen(&dir, b"a", &seen).unwrap(), Removal::Changed);
        assert_eq!(fs::read(path("a")).unwrap(), b"new");
        let seen = store.stat(&dir, b"a").unwrap();
        assert_eq!(store.remove_seen(&dir, b"a", &seen).unwrap(), Removal::Done);
        assert_eq!(store.remove_seen(&dir, b"a", &seen).unwrap(), Removal::Vanished);
        fs::create_dir_all(path("d/e")).unwrap();
        let seen = store.stat(&dir, b"d").unwrap();
        assert_eq!(store.remove_seen(&dir, b"d", &seen).unwrap(), Removal::NotEmpty);
        let other = name::own_name(OwnKind::File, RunTag([1; 4]), [2; 12]);
        fs::write(path(std::str::from_utf8(&other).unwrap()), "").unwrap();
        let seen = store.stat(&dir, &other).unwrap();
        assert!(store.remove_seen(&dir, &other, &seen).is_err(), "never ours to delete");
    }
}
