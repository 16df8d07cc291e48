//! Making directories and temporary files.

use std::os::fd::{AsFd as _, OwnedFd};
use std::thread;
use std::time::Duration;

use penstock_proto::name;
use rustix::fs::{Mode, OFlags, fsync, mkdirat};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::{check_item_name, check_item_path};
use crate::meta::Kind;
use crate::posix::identity::IDENTITY_NAME;
use crate::posix::sandbox::{create_component, open_component};
use crate::posix::stat::{directory_error, wrong_kind};
use crate::posix::store::PosixStore;
use crate::posix::write::direct::DirectFile;
use crate::posix::write::file::WriteFile;

/// Mode of a temporary file until it is finished, unless it is made with its final one.
const TEMPORARY_MODE: u32 = 0o600;
/// The mode with which a file is made whose mode the umask decides.
const ANY_MODE: u32 = 0o666;
/// Number of retries with a parent that is missing (not made yet, removed, or not in this host's
/// cache).
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
                    Err(error)
                        if error.is_denied() && self.rules.unlock_path(self.root(), path) =>
                    {
                        self.make_path(path)?;
                    }
                    outcome => outcome?,
                }
                self.open_dir(path)
            }
            outcome => outcome,
        })
    }

    /// Makes the directory `path`, whose parent exists, with the mode that the umask leaves. Its
    /// name is durable when this returns, as far as the file system allows. Blocks on the disk.
    ///
    /// # Errors
    /// `BadPath`; `NotDirectory` if a file or link is in the way; `Exists`; `ReadOnly`; `Io`.
    pub fn make_directory(&self, path: &[u8]) -> Result<(), StoreError> {
        check_item_path(path)?;
        self.check_writable("make directory", path)?;
        let exists = || StoreError::Exists { path: name::escape(path) };
        let (parent, leaf) = name::split(path).ok_or_else(exists)?;
        let parent = self.open_dir(parent)?;
        let handle = parent.fd()?;
        match mkdirat(handle.as_fd(), leaf, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(exists()),
            Err(errno) => return Err(parent.error("make directory", leaf, errno)),
        }
        match fsync(handle.as_fd()) {
            // The errors of a parent that may not be listed (O_PATH), and of a file system without
            // this call.
            Ok(()) | Err(Errno::BADF | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(parent.error("sync directory", b"", errno)),
        }
    }

    fn make_path(&self, path: &[u8]) -> Result<(), StoreError> {
        let failed = |errno| directory_error("make directory", path, errno);
        let mut reached: Option<OwnedFd> = None;
        let root = self.shared.root.fd()?;
        for component in path.split(|&byte| byte == b'/') {
            let from = reached.as_ref().map_or(root.as_fd(), |fd| fd.as_fd());
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
    /// finished, and this handle writes to it with any mode. If the file later gets the group
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
            match self.rules.unlocked(dir, || create_component(parent.as_fd(), name, flags, mode)) {
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

    /// Returns whether large files below the root are written past the page cache, as far as the
    /// file system shows before the first of them. The test opens the identity file of the store,
    /// so call it after [`PosixStore::open_or_init_identity`]. Blocks shortly.
    pub fn writes_directly(&self) -> bool {
        let mount = self.shared.mounts.root();
        if mount.is_direct()
            && let Ok(Some(private)) = self.open_private()
        {
            let flags = OFlags::RDONLY | OFlags::DIRECT;
            match open_component(private.as_fd(), IDENTITY_NAME, flags).map(DirectFile::new) {
                Ok(None) | Err(Errno::INVAL | Errno::OPNOTSUPP) => mount.refuse_direct(),
                // The file of another program, or none: the first large file will show.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        mount.is_direct()
    }

    /// Returns whether large files below the root are read past the page cache, as far as is known
    /// before the first of them.
    pub fn reads_directly(&self) -> bool {
        self.shared.mounts.root().reads_directly()
    }

    fn open_as(&self, dir: &Dir, name: &[u8], access: OFlags) -> Result<WriteFile, StoreError> {
        check_item_name(dir, name)?;
        self.check_item_writable("open", dir, name)?;
        match open_component(dir.fd()?.as_fd(), name, access) {
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
