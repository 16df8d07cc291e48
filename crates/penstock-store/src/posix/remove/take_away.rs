//! Removes entries at a source that its target has: never entries that replaced them meanwhile
//! (C6).
//!
//! No call of POSIX unlinks a file only if it is a certain one. So the file is renamed first, to
//! one of our temporary names, which no other program uses. It is inspected there; only then it is
//! unlinked, or gets its name back. A crash between the steps leaves it under the temporary name,
//! which is computable: the next attempt finds it there.

use std::os::fd::AsFd as _;

use penstock_proto::name;
use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::check_item_name;
use crate::meta::{Kind, Meta};
use crate::posix::remove::seen::{Removal, remove_seen};
use crate::posix::store::PosixStore;

/// The name under which an entry is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Its own.
    Named,
    /// The temporary one: renaming has changed its change time on most file systems.
    Aside,
}

/// Decides whether an entry is the one to remove.
pub type IsSame<'a> = &'a dyn Fn(&Meta, Look) -> bool;

/// Removes `name` in `dir`, which is no directory, if `is_same` confirms it before and after it
/// was renamed to `aside`, one of our temporary names. An entry that an earlier attempt left at
/// `aside` is handled in the same way. The entry that has its name now is then a different one,
/// and stays.
///
/// Four system calls where all is well.
///
/// # Errors
/// `BadPath`; `ReadOnly`; `Io`. `Exists`: another entry was in its place, and while that lay
/// aside a third has taken the name: it stays at `aside`, to be found by a user.
pub fn take_away(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    aside: &[u8],
    is_same: IsSame<'_>,
) -> Result<Removal, StoreError> {
    check_item_name(dir, name)?;
    check_item_name(dir, aside)?;
    store.check_writable("remove", &name::join(dir.path(), name))?;
    let there = store.stat_if_exists(dir, name)?;
    if !there.as_ref().is_some_and(|there| is_same(there, Look::Named)) {
        let other = if there.is_some() { Removal::Changed } else { Removal::Vanished };
        return Ok(take_aside(store, dir, name, aside, is_same)?.unwrap_or(other));
    }
    match store.rules.briefly_unlocked(dir, || put_aside(dir, name, aside)) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(Removal::Vanished),
        // An earlier attempt ended between its two steps, and another entry has received the
        // name.
        Err(Errno::EXIST) => {
            return match take_aside(store, dir, name, aside, is_same)? {
                Some(Removal::Done) => take_away(store, dir, name, aside, is_same),
                outcome => Ok(outcome.unwrap_or(Removal::Changed)),
            };
        }
        Err(errno) => return Err(dir.error("move away", name, errno)),
    }
    let taken = take_aside(store, dir, name, aside, is_same)?;
    Ok(taken.unwrap_or(Removal::Vanished))
}

/// Unlinks the entry at `aside`, or restores its name; `None` if no entry is there.
fn take_aside(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    aside: &[u8],
    is_same: IsSame<'_>,
) -> Result<Option<Removal>, StoreError> {
    let Some(there) = store.stat_if_exists(dir, aside)? else { return Ok(None) };
    let fd = dir.fd()?;
    if there.kind != Kind::Directory && is_same(&there, Look::Aside) {
        let unlink = || unlinkat(&fd, aside, AtFlags::empty());
        return match store.rules.briefly_unlocked(dir, unlink) {
            Ok(()) => Ok(Some(Removal::Done)),
            Err(Errno::NOENT) => Ok(Some(Removal::Vanished)),
            Err(errno) => {
                // The entry stays, so a user finds it under its name.
                let _ =
                    store.rules.briefly_unlocked(dir, || give_back(dir, aside, name, there.kind));
                Err(dir.error("remove", name, errno))
            }
        };
    }
    name_again(store, dir, name, aside, there.kind).map(|()| Some(Removal::Changed))
}

/// Renames an entry that an interrupted attempt has left at `aside` back to `name`; returns whether
/// an entry was there.
///
/// # Errors
/// `BadPath`; `ReadOnly`; `Io`. `Exists`: another entry has the name by now, so the item stays at
/// `aside`.
pub fn give_name_back(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    aside: &[u8],
) -> Result<bool, StoreError> {
    check_item_name(dir, name)?;
    check_item_name(dir, aside)?;
    let Some(there) = store.stat_if_exists(dir, aside)? else { return Ok(false) };
    store.check_writable("rename", &name::join(dir.path(), aside))?;
    name_again(store, dir, name, aside, there.kind).map(|()| true)
}

fn name_again(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    aside: &[u8],
    kind: Kind,
) -> Result<(), StoreError> {
    match store.rules.briefly_unlocked(dir, || give_back(dir, aside, name, kind)) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => {
            let path = name::escape(&name::join(dir.path(), aside));
            Err(StoreError::Exists { path })
        }
        Err(errno) => Err(dir.error("give back its name to", aside, errno)),
    }
}

/// Removes the directory `name` in `dir` if it is empty and has the given inode number, where
/// that is not 0. The root of another file system that is mounted there does not count as
/// empty.
///
/// # Errors
/// `BadPath`, also for our own temporary names; `ReadOnly`; `Io`.
pub fn remove_empty_dir(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    inode: u64,
) -> Result<Removal, StoreError> {
    check_item_name(dir, name)?;
    let Some(now) = store.stat_if_exists(dir, name)? else { return Ok(Removal::Vanished) };
    if now.kind != Kind::Directory || (inode != 0 && inode != now.inode) {
        return Ok(Removal::Changed);
    }
    match remove_seen(store, dir, name, &now) {
        Err(error) if error.errno() == Some(Errno::BUSY.raw_os_error()) => Ok(Removal::NotEmpty),
        outcome => outcome,
    }
}

/// Renames `name` to `aside`, which must be free.
fn put_aside(dir: &Dir, name: &[u8], aside: &[u8]) -> Result<(), Errno> {
    let dir_fd = dir.fd_raw()?;
    let fd = dir_fd.as_fd();
    match renameat_with(fd, name, fd, aside, RenameFlags::NOREPLACE) {
        // The file system cannot check that (NFS). The name has 128 random bits, so a stat will do.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let look = rustix::fs::statat(fd, aside, AtFlags::SYMLINK_NOFOLLOW);
            match look {
                Err(Errno::NOENT) => renameat(fd, name, fd, aside),
                Err(errno) => Err(errno),
                Ok(_) => Err(Errno::EXIST),
            }
        }
        outcome => outcome,
    }
}

/// Renames `aside` back to `name`, never over an entry that has that name by now.
fn give_back(dir: &Dir, aside: &[u8], name: &[u8], kind: Kind) -> Result<(), Errno> {
    let dir_fd = dir.fd_raw()?;
    let fd = dir_fd.as_fd();
    match renameat_with(fd, aside, fd, name, RenameFlags::NOREPLACE) {
        // A directory takes the place of an empty one only.
        Err(Errno::INVAL | Errno::NOSYS) if kind == Kind::Directory => {
            renameat(fd, aside, fd, name)
        }
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(fd, aside, fd, name, AtFlags::empty())?;
            unlinkat(fd, aside, AtFlags::empty())
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PosixOptions;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};

    const ASIDE: &[u8] = b".pst-aside";

    fn store() -> (tempfile::TempDir, PosixStore) {
        let root = tempfile::tempdir().unwrap();
        let store = PosixStore::open(root.path(), PosixOptions::default()).unwrap();
        (root, store)
    }

    /// C6: a source that was replaced after it was copied keeps its name, whole, whether that is
    /// seen before it was renamed or after.
    #[test]
    fn c6_a_replaced_source_gets_its_name_back() {
        let (root, store) = store();
        let dir = store.root().clone();
        let path = |name: &str| root.path().join(name);
        fs::write(path("a"), "copied").unwrap();
        let copied = store.stat(&dir, b"a").unwrap();
        fs::write(path("b"), "another").unwrap();
        fs::rename(path("b"), path("a")).unwrap();
        let same = |meta: &Meta, _: Look| meta.inode == copied.inode;
        let taken = take_away(&store, &dir, b"a", ASIDE, &same).unwrap();
        assert_eq!(taken, Removal::Changed);
        let too_late = |meta: &Meta, look: Look| look == Look::Named || meta.inode == copied.inode;
        let taken = take_away(&store, &dir, b"a", ASIDE, &too_late).unwrap();
        assert_eq!(taken, Removal::Changed);
        assert_eq!(fs::read(path("a")).unwrap(), b"another");
        let taken = take_away(&store, &dir, b"a", ASIDE, &|_, _| true).unwrap();
        assert_eq!(taken, Removal::Done);
        assert!(!path("a").exists() && !path(".pst-aside").exists());
        let taken = take_away(&store, &dir, b"a", ASIDE, &|_, _| true).unwrap();
        assert_eq!(taken, Removal::Vanished);
    }

    /// C6: the next attempt removes an entry that an interrupted one left aside. An entry that has
    /// the name by then stays.
    #[test]
    fn c6_what_was_left_aside_goes_and_a_newcomer_stays() {
        let (root, store) = store();
        let dir = store.root().clone();
        let path = |name: &str| root.path().join(name);
        fs::write(path("a"), "copied").unwrap();
        let inode = store.stat(&dir, b"a").unwrap().inode;
        let same = |meta: &Meta, _: Look| meta.inode == inode;
        fs::rename(path("a"), path(".pst-aside")).unwrap();
        let taken = take_away(&store, &dir, b"a", ASIDE, &same).unwrap();
        assert_eq!(taken, Removal::Done);
        fs::write(path(".pst-aside"), "copied").unwrap();
        let inode = store.stat(&dir, ASIDE).unwrap().inode;
        fs::write(path("a"), "new").unwrap();
        let same = |meta: &Meta, _: Look| meta.inode == inode;
        assert_eq!(take_away(&store, &dir, b"a", ASIDE, &same).unwrap(), Removal::Done);
        assert_eq!(fs::read(path("a")).unwrap(), b"new");
        assert!(!path(".pst-aside").exists());
        // Neither of two foreign entries is removed.
        fs::write(path(".pst-aside"), "stranger").unwrap();
        let taken = take_away(&store, &dir, b"a", ASIDE, &|_, _| false);
        assert!(matches!(taken, Err(StoreError::Exists { .. })), "{taken:?}");
        assert_eq!(fs::read(path("a")).unwrap(), b"new");
        assert_eq!(fs::read(path(".pst-aside")).unwrap(), b"stranger");
    }

    /// C6: an adversary that replaces the file repeatedly, at any moment between the check and the
    /// unlink, never loses a replacement.
    #[test]
    fn c6_a_racing_adversary_loses_nothing() {
        let (root, store) = store();
        let dir = store.root().clone();
        let path = |name: &str| -> PathBuf { root.path().join(name) };
        let over = AtomicBool::new(false);
        let mut lost = 0;
        for round in 0..400 {
            fs::write(path("a"), "copied").unwrap();
            let inode = store.stat(&dir, b"a").unwrap().inode;
            let same = |meta: &Meta, _: Look| meta.inode == inode && meta.size == 6;
            over.store(false, Ordering::Release);
            std::thread::scope(|scope| {
                let adversary = scope.spawn(|| {
                    let mut at = round % 7 * 300;
                    while at > 0 && !over.load(Ordering::Acquire) {
                        at -= 1;
                        std::hint::spin_loop();
                    }
                    fs::write(path("b"), "precious thing").unwrap();
                    fs::rename(path("b"), path("a")).unwrap();
                });
                let taken = take_away(&store, &dir, b"a", ASIDE, &same);
                over.store(true, Ordering::Release);
                adversary.join().unwrap();
                let aside_holds = matches!(taken, Err(StoreError::Exists { .. }));
                let kept = if aside_holds { path(".pst-aside") } else { path("a") };
                lost += u32::from(fs::read(kept).unwrap() != b"precious thing");
            });
            let _ = fs::remove_file(path(".pst-aside"));
        }
        assert_eq!(lost, 0, "what the adversary put there is gone");
    }

    /// C6: an item that was put aside gets its name back, unless another thing has it by then.
    #[test]
    fn c6_an_item_that_was_put_aside_gets_its_name_back() {
        let (root, store) = store();
        let dir = store.root().clone();
        let path = |name: &str| root.path().join(name);
        assert!(!give_name_back(&store, &dir, b"a", ASIDE).unwrap());
        fs::write(path(".pst-aside"), "put aside").unwrap();
        assert!(give_name_back(&store, &dir, b"a", ASIDE).unwrap());
        assert_eq!(fs::read(path("a")).unwrap(), b"put aside");
        fs::write(path(".pst-aside"), "another").unwrap();
        let taken = give_name_back(&store, &dir, b"a", ASIDE);
        assert!(matches!(taken, Err(StoreError::Exists { .. })), "{taken:?}");
        assert_eq!(fs::read(path("a")).unwrap(), b"put aside");
        assert_eq!(fs::read(path(".pst-aside")).unwrap(), b"another");
    }

    /// Promise: a directory goes only if it is empty, and the one that was listed.
    #[test]
    fn only_an_empty_directory_goes() {
        let (root, store) = store();
        let dir = store.root().clone();
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(root.path().join("d/new"), "new").unwrap();
        let inode = store.stat(&dir, b"d").unwrap().inode;
        let remove = |inode| remove_empty_dir(&store, &dir, b"d", inode).unwrap();
        assert_eq!(remove(inode), Removal::NotEmpty);
        fs::remove_file(root.path().join("d/new")).unwrap();
        assert_eq!(remove(inode + 1), Removal::Changed);
        assert_eq!(remove(inode), Removal::Done);
        assert_eq!(remove(inode), Removal::Vanished);
    }
}
