//! Making directories, temporary files and final names.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::thread;
use std::time::Duration;

use penstock_proto::attributes::Owner;
use penstock_proto::name;
use penstock_proto::units::FileTime;
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT,
    fallocate, fstat, fsync, ftruncate, futimens, linkat, mkdirat, renameat, renameat_with, statat,
    syncfs, unlinkat,
};
use rustix::io::{Errno, pwrite};

use super::attributes::{Attributes, Node, NodeKind, NotSet};
use super::dir::Dir;
use super::direct::DirectFile;
use super::durability::{Mount, sync_names};
use super::error::StoreError;
use super::nameless::{Nameless, Permit};
use super::posix::{PosixStore, directory_error, stat_open, wrong_kind};
use super::sandbox::{create_component, open_component};
use super::writeback::{Window, Writeback};
use super::{Kind, Meta, check_item_name, check_item_path};

/// Mode of a temporary file until it is finished, unless it is made with its final one.
const TEMPORARY_MODE: u32 = 0o600;
/// The mode with which a file is made whose mode the umask decides.
const ANY_MODE: u32 = 0o666;
/// Number of retries with a parent that is missing (yet, any more, or in this host's cache).
const REOPEN_TRIES: u32 = 8;
/// Wait before the second of these tries; doubled each time: 1.3 s in all.
const REOPEN_WAIT: Duration = Duration::from_millis(10);
/// Number of retries with a name that another process takes between two calls.
const RACE_TRIES: u32 = 16;

/// The treatment of a temporary file that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOver {
    /// Unlink it and start with a new inode: for files that one peer writes alone (B1).
    Replace,
    /// Continue with it, for files of many extents: same name, same generation, same bytes.
    Keep,
}

impl PosixStore {
    /// Makes the directory `path` and all its parents, where they do not exist yet, with mode 0700
    /// (but see [`PosixStore::for_data_set`]). Existing directories stay as they are. Several peers
    /// may do so at once.
    ///
    /// # Errors
    /// `BadPath`; `NotDirectory` if a file or link is in the way; `ReadOnly`; `Io`.
    pub fn make_dirs(&self, path: &[u8]) -> Result<Dir, StoreError> {
        check_item_path(path)?;
        self.check_bytes_writable("make directory", path)?;
        retry_vanished(|| match self.open_dir_unlocked(path) {
            Err(error) if error.is_vanished() => {
                match self.make_path(path) {
                    Err(error) if error.is_denied() && self.unlock_path(path) => {
                        self.make_path(path)?;
                    }
                    outcome => outcome?,
                }
                self.open_dir(path)
            }
            outcome => outcome,
        })
    }

    fn make_path(&self, path: &[u8]) -> Result<(), StoreError> {
        let failed = |errno| directory_error("make directory", path, errno);
        let mut reached: Option<OwnedFd> = None;
        let root = self.shared.root.fd()?;
        for component in path.split(|&byte| byte == b'/') {
            let from = reached.as_ref().map_or(root, |fd| fd.as_fd());
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let mut next = open_component(from, component, flags);
            if next.as_ref().is_err_and(|errno| *errno == Errno::NOENT) {
                match mkdirat(from, component, self.rules.new_directory_mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(failed(errno)),
                }
                next = open_component(from, component, flags);
            }
            reached = Some(next.map_err(failed)?);
        }
        Ok(())
    }

    /// Makes the temporary file `name` in `dir`, mode 0600 at most. If `dir` has vanished, it is
    /// made again by its path: [`WriteFile::dir`] is the one that holds the file.
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `WrongKind` if something else has that name; `Io`.
    pub fn create_temporary(
        &self,
        dir: &Dir,
        name: &[u8],
        left_over: LeftOver,
    ) -> Result<WriteFile, StoreError> {
        self.create(dir, name, left_over, Some(TEMPORARY_MODE))
    }

    /// Creates a file that this handle alone writes and finishes with `mode`, as
    /// [`PosixStore::create_temporary`] does with [`LeftOver::Replace`]. If `mode` is `None`, the
    /// system gives it the mode of a new file. Where that is exact, the file has that mode from the
    /// start, which saves a call for each file. No user may read more of it than when it is
    /// finished, and this handle writes to it whatever its mode. If the file later gets the group
    /// `gid`, there is a condition. It must have that group at once, or its group may do what all
    /// may.
    ///
    /// # Errors
    /// Those of [`PosixStore::create_temporary`].
    pub fn create_whole(
        &self,
        dir: &Dir,
        name: &[u8],
        mode: Option<u32>,
        gid: Option<u32>,
    ) -> Result<WriteFile, StoreError> {
        self.create(dir, name, LeftOver::Replace, mode_until_finished(dir, mode, gid))
    }

    /// Returns the mode with which a whole file is made, and the mode that it then has, if that is
    /// known.
    pub(super) fn mode_of_whole(
        &self,
        dir: &Dir,
        mode: Option<u32>,
        gid: Option<u32>,
    ) -> (Mode, Option<u32>) {
        made_with(dir, mode_until_finished(dir, mode, gid))
    }

    fn create(
        &self,
        dir: &Dir,
        name: &[u8],
        left_over: LeftOver,
        mode: Option<u32>,
    ) -> Result<WriteFile, StoreError> {
        check_item_name(dir, name)?;
        self.check_item_writable("create", dir, name)?;
        let mut parent = Some(dir.clone());
        retry_vanished(|| {
            let dir = match parent.take() {
                Some(given) => given,
                None => self.make_dirs(dir.path())?,
            };
            self.create_in(&dir, name, left_over, mode)
        })
    }

    fn create_in(
        &self,
        dir: &Dir,
        name: &[u8],
        left_over: LeftOver,
        mode: Option<u32>,
    ) -> Result<WriteFile, StoreError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let (mode, given) = made_with(dir, mode);
        for _ in 0..RACE_TRIES {
            let parent = dir.fd()?;
            match self.unlocked(dir, || create_component(parent, name, flags, mode)) {
                Ok(fd) => return Ok(WriteFile::posix(dir.clone(), name, fd, true, given)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(dir.error("create", name, errno)),
            }
            match left_over {
                LeftOver::Replace => {
                    self.remove(dir, name)?;
                }
                LeftOver::Keep => match self.open_temporary(dir, name) {
                    Err(error) if error.is_vanished() => {}
                    outcome => return outcome,
                },
            }
        }
        Err(dir.error("create", name, Errno::EXIST))
    }

    /// Opens the temporary file `name` in `dir` for writing. It must exist, and is neither made nor
    /// cut short: a late writer can never restore or damage a finished file (B1).
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `WrongKind`; `Io` with `ENOENT` if it was finished or removed.
    pub fn open_temporary(&self, dir: &Dir, name: &[u8]) -> Result<WriteFile, StoreError> {
        self.open_as(dir, name, OFlags::WRONLY)
    }

    /// Opens a temporary file whose bytes are all there, to sync it or to set its attributes. Its
    /// mode may be that of the finished file and refuse us to write, as 0444 does; fsync(2),
    /// fchmod(2) and futimens(2) ask for no such right of its owner. Do not write to it.
    ///
    /// # Errors
    /// As [`PosixStore::open_temporary`]; a mode that also refuses its owner to read is `Io`.
    pub fn open_written(&self, dir: &Dir, name: &[u8]) -> Result<WriteFile, StoreError> {
        match self.open_as(dir, name, OFlags::WRONLY) {
            Err(error) if error.is_denied() => self.open_as(dir, name, OFlags::RDONLY),
            outcome => outcome,
        }
    }

    fn open_as(&self, dir: &Dir, name: &[u8], access: OFlags) -> Result<WriteFile, StoreError> {
        check_item_name(dir, name)?;
        self.check_item_writable("open", dir, name)?;
        match open_component(dir.fd()?, name, access) {
            Ok(fd) => {
                let file = WriteFile::posix(dir.clone(), name, fd, false, None);
                file.meta().map(|_| file)
            }
            Err(Errno::LOOP) => Err(wrong_kind(dir, name, Kind::Symlink)),
            Err(Errno::ISDIR) => Err(wrong_kind(dir, name, Kind::Directory)),
            Err(Errno::NXIO | Errno::NODEV) => Err(wrong_kind(dir, name, Kind::Other)),
            Err(errno) => Err(dir.error("open", name, errno)),
        }
    }

    /// Gives the finished temporary file or link `temporary` its final `name`, in one step, in the
    /// same directory. With `replace`, a file or link of that name is replaced; a directory never
    /// is. A device, pipe or socket is replaced only by one of its own kind, or where the data set
    /// may replace these ([`PosixStore::for_data_set`]).
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
        let mut outcome = self.unlocked(dir, || rename(dir, temporary, name, replaces));
        if matches!(outcome, Err(Errno::NOENT | Errno::STALE)) {
            // The handle may be of a directory that was replaced; its path is what counts.
            let reopened = self.open_dir_unlocked(dir.path())?;
            outcome = self.unlocked(&reopened, || rename(&reopened, temporary, name, replaces));
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
        match self.unlocked(dir, || unlinkat(parent, name, AtFlags::empty())) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(Errno::ISDIR) => Err(wrong_kind(dir, name, Kind::Directory)),
            Err(errno) => Err(dir.error("remove", name, errno)),
        }
    }

    /// Makes everything durable that was written before, on all mounts where syncfs serves; the
    /// others are served by [`WriteFile::finish`] and [`PosixStore::sync_dir`]. Blocks, for as
    /// long as the disk needs for everybody's data.
    ///
    /// # Errors
    /// `Io`: everything written since the last success is to be written again, never re-checked
    /// (A4).
    pub fn sync(&self) -> Result<(), StoreError> {
        self.shared.mounts.sync().map_err(|errno| StoreError::io("sync", b"", errno))
    }

    /// Syncs as [`PosixStore::sync`] does, for a caller that began to write when `since` syncs had
    /// failed ([`PosixStore::failed_syncs`]). Reports also an error that only another caller's sync
    /// received.
    ///
    /// # Errors
    /// Those of [`PosixStore::sync`]; `Io` with `EIO` if another sync has failed since.
    pub fn sync_since(&self, since: u32) -> Result<(), StoreError> {
        self.sync()?;
        // Read after it: one that came before and took its error has been counted by now (A4).
        if self.failed_syncs() == since {
            return Ok(());
        }
        Err(StoreError::io("sync after a failed sync of another transfer", b"", Errno::IO))
    }

    /// Returns how many syncs of this store have failed in this process.
    pub fn failed_syncs(&self) -> u32 {
        self.shared.mounts.failed().count()
    }

    /// Counts something else that has failed as a sync does, and may have taken an error that is
    /// about more than its own.
    pub fn note_failed_sync(&self) {
        self.shared.mounts.failed().note();
    }

    /// Makes the names in `dir` durable where that is done file by file; does nothing where
    /// [`PosixStore::sync`] does it for all.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync_dir(&self, dir: &Dir) -> Result<(), StoreError> {
        if !dir.durability().is_per_file() {
            return Ok(());
        }
        let fd = dir.fd()?;
        let (mounts, any) = (&self.shared.mounts, dir.mount().and_then(Mount::sync_fd));
        let synced = if dir.path().is_empty() {
            // All have one descriptor of the root.
            mounts.sync_by(|| sync_names(fd, || any.map(syncfs)))
        } else {
            let other = || any.map(|any| mounts.sync_by(|| syncfs(any)));
            sync_names(fd, other).inspect_err(|_| self.note_failed_sync())
        };
        synced.map_err(|errno| dir.error("sync directory", b"", errno))
    }
}

/// Returns the mode for making a file that will have `mode` and `gid` in the end. While it has
/// another group than `gid`, that group may do no more than all may.
fn mode_until_finished(dir: &Dir, mode: Option<u32>, gid: Option<u32>) -> Option<u32> {
    let groups_differ = mode.is_some_and(|mode| (mode >> 3) & 7 != mode & 7);
    let narrow = groups_differ && gid.is_some() && dir.gives_group() != gid;
    if narrow { Some(TEMPORARY_MODE) } else { mode }
}

/// Returns the mode for open(2) of a file with the final `mode`, and the mode that it then has, if
/// that is known.
fn made_with(dir: &Dir, mode: Option<u32>) -> (Mode, Option<u32>) {
    let exact = mode.filter(|mode| dir.gives_mode(*mode));
    let raw = if mode.is_none() { ANY_MODE } else { exact.unwrap_or(TEMPORARY_MODE) };
    let given = if mode.is_none() { Some(ANY_MODE) } else { exact };
    (Mode::from_raw_mode(raw), given)
}

/// Repeats `attempt` while an entry that it needs is missing, with a longer wait each time (B5).
fn retry_vanished<T>(mut attempt: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut outcome = attempt();
    for try_number in 0..REOPEN_TRIES {
        match &outcome {
            Err(error) if error.is_vanished() => {}
            _ => break,
        }
        if try_number > 0 {
            thread::sleep(REOPEN_WAIT * 2u32.pow(try_number - 1));
        }
        outcome = attempt();
    }
    outcome
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
    let Ok(fd) = dir.fd() else { return Err(Errno::BADF) };
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
        Err(Errno::EXIST) => Err(Errno::EXIST),
        Err(_) => match statat(fd, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(fd, from, fd, to),
            Err(errno) => Err(errno),
        },
    }
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

pub(super) fn modified_at(mtime: FileTime) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() },
    }
}

/// A temporary file open for writing. Writes at several offsets may run at once.
///
/// Dropping it closes it without hearing of errors: end it by [`WriteFile::finish`] or
/// [`WriteFile::close`].
pub struct WriteFile {
    dir: Dir,
    name: Box<[u8]>,
    /// `None` in a store that keeps nothing.
    fd: Option<OwnedFd>,
    created: bool,
    /// The mode that the file was made with, if that is known; also if the umask has decided it.
    mode: Option<u32>,
    /// The counter of written bytes, with early write-back.
    window: Option<Window>,
    /// The permit of a file that has no name yet; their number is bounded.
    permit: Option<Permit>,
    /// A second descriptor, if whole blocks pass the page cache by.
    pub(super) direct: Option<DirectFile>,
}

impl WriteFile {
    fn posix(dir: Dir, name: &[u8], fd: OwnedFd, created: bool, mode: Option<u32>) -> Self {
        let early = dir.mount().is_some_and(|mount| mount.writeback() == Writeback::Early);
        let window = early.then(Window::default);
        let (name, fd, permit, direct) = (name.into(), Some(fd), None, None);
        Self { dir, name, fd, created, mode, window, permit, direct }
    }

    /// A new file that gets its `name` later.
    pub(super) fn nameless(
        dir: Dir,
        name: &[u8],
        (fd, permit): (OwnedFd, Permit),
        mode: Option<u32>,
    ) -> Self {
        Self { permit: Some(permit), ..Self::posix(dir, name, fd, true, mode) }
    }

    /// A file whose bytes go nowhere.
    pub(super) fn null(dir: Dir, name: &[u8]) -> Self {
        let (name, window, permit, direct) = (name.into(), None, None, None);
        Self { dir, name, fd: None, created: true, mode: None, window, permit, direct }
    }

    fn error(&self, operation: &'static str, errno: impl Into<io::Error>) -> StoreError {
        self.dir.error(operation, &self.name, errno)
    }

    /// Leaves the time of write-back to the kernel: for data without required durability.
    pub fn make_lazy(&mut self) {
        self.window = None;
    }

    /// Writes whole blocks past the page cache from now on, where the store's [`IoMode`] and its
    /// file system allow it. For a large file, before its first byte is written: it costs two or
    /// three calls, and small files are better off in the cache.
    ///
    /// [`IoMode`]: super::IoMode
    ///
    /// # Errors
    /// `Io`. Rejected direct writes are no error.
    pub fn make_direct(&mut self) -> Result<(), StoreError> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let Some(mount) = self.dir.mount().filter(|mount| mount.is_direct()) else { return Ok(()) };
        match open_component(self.dir.fd()?, &self.name, OFlags::WRONLY | OFlags::DIRECT) {
            Ok(direct) => {
                let same = |told: &rustix::fs::Stat| (told.st_dev, told.st_ino);
                let ours = fstat(fd).map_err(|errno| self.error("stat", errno))?;
                let theirs = fstat(&direct).map_err(|errno| self.error("stat", errno))?;
                // The name may have gone to a later attempt: this handle keeps to its own file.
                if same(&ours) == same(&theirs) {
                    self.direct = DirectFile::new(direct);
                }
            }
            Err(Errno::INVAL | Errno::OPNOTSUPP) => mount.refuse_direct(),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(self.error("open", errno)),
        }
        Ok(())
    }

    /// Returns whether whole blocks are written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.as_ref().is_some_and(|direct| !direct.is_refused())
    }

    /// The directory that holds it: publish it there.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Its temporary name; its final one if it has no name yet.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns whether the file has no name at all, and ends by [`WriteFile::finish_nameless`].
    pub fn is_nameless(&self) -> bool {
        self.permit.is_some()
    }

    /// Returns whether this open made the file; otherwise it existed, with the data of others.
    pub fn was_created(&self) -> bool {
        self.created
    }

    /// Returns the current attributes of the file; its inode distinguishes two temporary files of
    /// one name (B1). `None` in a store that keeps nothing.
    ///
    /// # Errors
    /// `WrongKind`; `Io`.
    pub fn meta(&self) -> Result<Option<Meta>, StoreError> {
        let Some(fd) = &self.fd else { return Ok(None) };
        let meta = stat_open(fd.as_fd(), &self.dir).map_err(|errno| self.error("stat", errno))?;
        match meta.kind {
            Kind::File => Ok(Some(meta)),
            other => Err(wrong_kind(&self.dir, &self.name, other)),
        }
    }

    /// Writes all of `bytes` at `offset`. Blocks, with early write-back ([`Writeback`]) also
    /// while the disk's queue is full.
    ///
    /// # Errors
    /// `Io`; see [`StoreError::is_out_of_space`]. Some of the bytes may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let direct = self.write_direct(offset, bytes)?;
        let mut written = direct;
        while written < bytes.len() {
            match pwrite(fd, &bytes[written..], offset + written as u64) {
                Ok(0) => return Err(self.error("write", io::ErrorKind::WriteZero)),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error("write", errno)),
            }
        }
        if let Some(window) = &self.window {
            window.note(fd, (written - direct) as u64);
        }
        Ok(())
    }

    /// Writes the bytes that may go past the page cache. Returns their number, counted from the
    /// begin of `bytes`.
    fn write_direct(&self, offset: u64, bytes: &[u8]) -> Result<usize, StoreError> {
        let Some(direct) = &self.direct else { return Ok(0) };
        let written = direct.write_at(offset, bytes).map_err(|errno| self.error("write", errno))?;
        if direct.is_refused()
            && let Some(mount) = self.dir.mount()
        {
            mount.refuse_direct();
        }
        Ok(written)
    }

    /// Sets the size to `bytes`: a hole is added, or the end is cut off.
    ///
    /// # Errors
    /// `Io`.
    pub fn set_len(&self, bytes: u64) -> Result<(), StoreError> {
        let Some(fd) = &self.fd else { return Ok(()) };
        ftruncate(fd, bytes).map_err(|errno| self.error("set size", errno))
    }

    /// Reserves space for `bytes` from the start and sets that size, where the file system can;
    /// returns whether it did. Not for files with holes: they would be filled.
    ///
    /// # Errors
    /// `Io`, above all `ENOSPC`, found before the first byte was moved.
    pub fn preallocate(&self, bytes: u64) -> Result<bool, StoreError> {
        let Some(fd) = self.fd.as_ref().filter(|_| bytes > 0) else { return Ok(false) };
        loop {
            match fallocate(fd, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
                Err(errno) => return Err(self.error("preallocate", errno)),
            }
        }
    }

    /// Sets the attributes `wanted`, after the data and in the order of B2, and closes the file.
    /// Returns the rejected attributes. With `sync`, all of it is on stable storage before: pass
    /// [`DurabilityMethod::is_per_file`] of the directory unless no durability is wanted. Publish
    /// the file afterwards.
    ///
    /// [`DurabilityMethod::is_per_file`]: super::DurabilityMethod::is_per_file
    ///
    /// # Errors
    /// `Io`: the file must be written again, from the start (A4); an error from close counts.
    pub fn finish(self, wanted: &Attributes<'_>, sync: bool) -> Result<NotSet, StoreError> {
        let Some(fd) = &self.fd else { return Ok(NotSet::default()) };
        let network = self.dir.mount().is_some_and(|mount| mount.kind().is_network());
        if sync && network {
            // The flush of data would move the time that is set below (B2).
            fsync(fd).map_err(|errno| self.error("sync", errno))?;
        }
        let not_set = self.set(fd, wanted)?;
        self.close(sync).map(|()| not_set)
    }

    /// Finishes the file as [`WriteFile::finish`] does. The file gets its name by
    /// [`super::Target::publish_nameless`] and is not synced.
    ///
    /// # Errors
    /// `Io`: the file must be written again, from the start.
    pub fn finish_nameless(
        mut self,
        wanted: &Attributes<'_>,
    ) -> Result<(Nameless, NotSet), StoreError> {
        let (Some(fd), Some(permit)) = (self.fd.take(), self.permit.take()) else {
            return Err(self.error("finish", Errno::BADF));
        };
        let not_set = self.set(&fd, wanted)?;
        Ok((Nameless::new(fd, permit), not_set))
    }

    /// Sets the attributes `wanted`. Returns the rejected attributes.
    fn set(&self, fd: &OwnedFd, wanted: &Attributes<'_>) -> Result<NotSet, StoreError> {
        let owner = self.owner(fd, wanted).map_err(|errno| self.error("stat", errno))?;
        let mut node = Node {
            fd: fd.as_fd(),
            path_only: false,
            mount: self.dir.mount(),
            owner,
            mode: self.mode,
            inherits: !self.dir.inherits_nothing(),
            existed: !self.created,
            kind: NodeKind::File,
        };
        let mut not_set = node.set(wanted).map_err(|errno| self.error("set attributes", errno))?;
        if let Some(mtime) = wanted.mtime {
            let set = |times: &Timestamps| futimens(fd, times);
            let settled = node.set_time(mtime, &mut not_set, set, || fstat(fd));
            settled.map_err(|errno| self.error("set times", errno))?;
        }
        Ok(not_set)
    }

    /// The owner that the file has, if it matters.
    fn owner(&self, fd: &OwnedFd, wanted: &Attributes<'_>) -> Result<Owner, Errno> {
        if wanted.uid.is_none() && wanted.gid.is_none() {
            return Ok(Owner::default());
        }
        if self.created {
            return self.dir.owner_given(fd.as_fd());
        }
        let told = fstat(fd)?;
        Ok(Owner { uid: told.st_uid, gid: told.st_gid })
    }

    /// Closes the file without finishing it; with `sync`, its data is on stable storage before.
    /// Each writer of a file of many extents ends in this way before it reports them written.
    ///
    /// # Errors
    /// `Io`: everything written through this handle is to be written again (A4).
    pub fn close(mut self, sync: bool) -> Result<(), StoreError> {
        let Some(fd) = self.fd.take() else { return Ok(()) };
        if sync {
            fsync(&fd).map_err(|errno| self.error("sync", errno))?;
        }
        close_checked(fd).map_err(|error| self.error("close", error))
    }
}

impl fmt::Debug for WriteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteFile({})", name::escape(&name::join(self.dir.path(), &self.name)))
    }
}

/// Closes `fd` and returns the result of close(2): NFS and quotas report lost writes there.
fn close_checked(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor was owned by `fd`, which released it; it is closed once, here,
    // whatever close returns (Linux frees the number even on an error).
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
