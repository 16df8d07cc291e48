//! Final names: renames finished files and links to them, and removes them.

use std::os::fd::{AsFd as _, BorrowedFd};

use penstock_proto::name;
use rustix::fs::{
    AtFlags, FileType, RenameFlags, linkat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::check_item_name;
use crate::meta::Kind;
use crate::posix::stat::wrong_kind;
use crate::posix::store::PosixStore;

impl PosixStore {
    /// Renames the finished temporary file or link `temporary` to its final `name`, in one step, in
    /// the same directory. With `replace`, a file or link of that name is replaced; a directory
    /// never is. A device, pipe or socket is replaced only by one of its own kind, or where the
    /// data set may replace these ([`PosixStore::for_data_set`]).
    ///
    /// Where a file system cannot refuse to replace in one step (NFS), a hard link does it. Where
    /// it has no hard links either, a check before the rename leaves a moment for a race.
    ///
    /// # Errors
    /// `Exists` without `replace`; `WrongKind` if a directory is there; `SpecialFile` if a device,
    /// pipe or socket is; `BadPath`; `ReadOnly`; `Io` with `ENOENT` if the temporary name is gone.
    pub fn publish(
        &self,
        dir: &Dir,
        temporary: &[u8],
        name: &[u8],
        replace: bool,
    ) -> Result<(), StoreError> {
        check_item_name(dir, temporary)?;
        check_item_name(dir, name)?;
        if name::own(name).is_some() {
            return Err(StoreError::bad_path(&name::join(dir.path(), name)));
        }
        self.check_item_writable("rename", dir, name)?;
        let replaces = match (replace, self.rules.replaces_special) {
            (false, _) => Replaces::Nothing,
            (true, false) => Replaces::Files,
            (true, true) => Replaces::All,
        };
        let mut outcome = self.rules.unlocked(dir, || rename(dir, temporary, name, replaces));
        if matches!(outcome, Err(Errno::NOENT | Errno::STALE)) {
            // The handle may belong to a directory that was replaced; only its path counts.
            let reopened = self.open_dir_unlocked(dir.path())?;
            outcome =
                self.rules.unlocked(&reopened, || rename(&reopened, temporary, name, replaces));
        }
        outcome.map_err(|errno| match errno {
            Errno::EXIST if !replace => {
                StoreError::Exists { path: name::escape(&name::join(dir.path(), name)) }
            }
            Errno::ISDIR => wrong_kind(dir, name, Kind::Directory),
            Errno::SPIPE => {
                StoreError::SpecialFile { path: name::escape(&name::join(dir.path(), name)) }
            }
            other => dir.error("rename", name, other),
        })
    }

    /// Unlinks the file or link `name`; returns whether it was there.
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `WrongKind` for a directory; `Io`.
    pub fn remove(&self, dir: &Dir, name: &[u8]) -> Result<bool, StoreError> {
        check_item_name(dir, name)?;
        self.check_item_writable("remove", dir, name)?;
        let parent = dir.fd()?;
        match self.rules.unlocked(dir, || unlinkat(&parent, name, AtFlags::empty())) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(Errno::ISDIR) => Err(wrong_kind(dir, name, Kind::Directory)),
            Err(errno) => Err(dir.error("remove", name, errno)),
        }
    }
}

/// The kinds of entries that a name may replace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replaces {
    Nothing,
    /// Files and links; a device, pipe or socket only if it is one itself.
    Files,
    All,
}

fn rename(dir: &Dir, from: &[u8], to: &[u8], replaces: Replaces) -> Result<(), Errno> {
    let dir_fd = dir.fd_raw()?;
    let fd = dir_fd.as_fd();
    match replaces {
        Replaces::All => return renameat(fd, from, fd, to),
        Replaces::Files => return rename_over_files(fd, from, to),
        Replaces::Nothing => {}
    }
    match renameat_with(fd, from, fd, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        outcome => return outcome,
    }
    match linkat(fd, from, fd, to, AtFlags::empty()) {
        Ok(()) => unlinkat(fd, from, AtFlags::empty()),
        // The link may have been made by a call whose reply was lost.
        Err(Errno::EXIST) if is_one_file(fd, from, to) => unlinkat(fd, from, AtFlags::empty()),
        Err(errno @ (Errno::EXIST | Errno::NOENT)) => Err(errno),
        Err(_) => match statat(fd, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(fd, from, fd, to),
            Err(errno) => Err(errno),
        },
    }
}

/// Returns whether both names lead to the same file.
fn is_one_file(fd: BorrowedFd<'_>, one: &[u8], other: &[u8]) -> bool {
    let identity = |name: &[u8]| {
        let told = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((told.st_dev, told.st_ino))
    };
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

/// Renames over files and links. Costs one call for a new name, as a plain rename does.
fn rename_over_files(fd: BorrowedFd<'_>, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match renameat_with(fd, from, fd, to, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        outcome => return outcome,
    }
    let kind_of = |name| {
        let told = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW);
        told.map(|told| FileType::from_raw_mode(told.st_mode))
    };
    let plain = [FileType::RegularFile, FileType::Symlink, FileType::Directory];
    match kind_of(to) {
        Ok(there) if !plain.contains(&there) && kind_of(from)? != there => Err(Errno::SPIPE),
        _ => renameat(fd, from, fd, to),
    }
}
