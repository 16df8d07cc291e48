//! Files that have no name before they get their final one: open(2) with `O_TMPFILE`, then
//! linkat(2).
//!
//! A small file with a temporary name costs two changes of its directory, of which the kernel
//! allows one at a time. Lanes that make files in one directory, and the publisher that renames
//! them, wait for each other. A file without a name is made independently of all others, and its
//! directory changes once (docs/design/0041).
//!
//! **Costs.** Until it gets its name such a file is a descriptor of this process, so their number
//! is bounded ([`Permit`]). A process that was killed leaves nothing: its unnamed files are fetched
//! again, and there is nothing to clean up. The method is therefore for names that wait for no
//! disk: the caller that makes a file decides that.
//!
//! **Where.** On file systems where it was measured to be faster, and where linkat(2) takes a
//! descriptor: by CAP_DAC_READ_SEARCH, or of any user from Linux 6.10 on. It is tried once for each
//! mount. Everywhere else files have temporary names.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use penstock_proto::name;
use rustix::fs::{AtFlags, Mode, OFlags, fsync, linkat, unlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

use super::dir::Dir;
use super::durability::FileSystemKind;
use super::error::StoreError;
use super::posix::PosixStore;
use super::sandbox::create_component;
use super::write::WriteFile;
use super::{TemporaryName, check_item_name};

/// Most files without a name in this process: while those of one sync epoch, 4,096, get theirs,
/// those of the next are written.
const NAMELESS_MAX: usize = 8192;
/// Fewer are not worth an epoch of their own.
const NAMELESS_MIN: usize = 1024;
/// Divisor of the process's limit of descriptors.
const SHARE_OF_DESCRIPTORS: u64 = 2;

static IN_HAND: AtomicUsize = AtomicUsize::new(0);

/// Returns how many files without a name this process may have at a time; 0 if its limit of
/// descriptors is too low for that. The limit is read once: raise it before
/// ([`crate::sys::raise_file_limit`]).
pub fn nameless_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = (descriptors / SHARE_OF_DESCRIPTORS).min(NAMELESS_MAX as u64) as usize;
        if most < NAMELESS_MIN { 0 } else { most }
    })
}

/// The permit for one file without a name, released on drop.
#[derive(Debug)]
pub(super) struct Permit(());

impl Permit {
    fn take() -> Option<Self> {
        let before = IN_HAND.fetch_add(1, Ordering::Relaxed);
        let permit = Self(());
        (before < nameless_max()).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        IN_HAND.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The knowledge whether a mount takes files without a name.
#[derive(Debug)]
pub(super) struct Takes(AtomicU8);

const NO: u8 = 0;
const YES: u8 = 1;
const UNKNOWN: u8 = 2;

impl Takes {
    pub(super) fn of(kind: FileSystemKind) -> Self {
        let worth = matches!(kind, FileSystemKind::Tmpfs | FileSystemKind::Ext4);
        Self(AtomicU8::new(if worth { UNKNOWN } else { NO }))
    }

    fn is(&self, what: u8) -> bool {
        self.0.load(Ordering::Relaxed) == what
    }

    fn note(&self, what: u8) {
        self.0.store(what, Ordering::Relaxed);
    }
}

/// A finished file that has no name yet. Dropping it before [`PosixStore::publish_nameless`] leaves
/// nothing. It is one descriptor, and holds no directory: that may be another one by then (C5).
#[derive(Debug)]
pub struct Nameless {
    fd: OwnedFd,
    _permit: Permit,
}

impl Nameless {
    pub(super) fn new(fd: OwnedFd, permit: Permit) -> Self {
        Self { fd, _permit: permit }
    }

    /// Makes its bytes durable, for a caller that names it in `dir` without a sync of the store.
    /// Blocks.
    ///
    /// # Errors
    /// `Io`: the file must be written again (A4).
    pub fn sync(&self, dir: &Dir) -> Result<(), StoreError> {
        fsync(&self.fd).map_err(|errno| dir.error("sync", b"", errno))
    }
}

impl PosixStore {
    /// Creates a file as [`PosixStore::create_whole`] does, but without a name until it gets its
    /// final one, `name`. Returns `None` if that is impossible here or now, for any reason; the
    /// caller then uses a temporary name. The first call on a mount tests the method with that
    /// name, which `temporary` returns. The file ends by [`WriteFile::finish_nameless`].
    pub fn create_nameless(
        &self,
        dir: &Dir,
        name: &[u8],
        temporary: impl FnOnce() -> TemporaryName,
        (mode, gid): (Option<u32>, Option<u32>),
    ) -> Option<WriteFile> {
        let takes = dir.mount()?.takes_nameless();
        if takes.is(NO) {
            return None;
        }
        let permit = Permit::take()?;
        self.check_bytes_writable("create", name).ok()?;
        let (mode, given) = self.mode_of_whole(dir, mode, gid);
        let parent = dir.fd().ok()?;
        let make = || open_nameless(parent, mode);
        match self.unlocked(dir, make) {
            Ok(fd) if takes.is(YES) || can_name(dir, &temporary(), mode) => {
                Some(WriteFile::nameless(dir.clone(), name, (fd, permit), given))
            }
            // Kernels without the flag try to open the directory for writing.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                takes.note(NO);
                None
            }
            _ => None,
        }
    }

    /// Gives a finished file without a name its final `name` in `dir`: the directory in which it
    /// was made, or the one at that path now. An entry of that name, a file or a link, is replaced
    /// in one step, by way of the name that `temporary` returns; a directory never is.
    ///
    /// # Errors
    /// `WrongKind` if a directory is there; `BadPath`; `ReadOnly`; `Io`, with `ENOENT` if `dir` is
    /// gone, or lies in another file system than the file.
    pub fn publish_nameless(
        &self,
        dir: &Dir,
        file: &Nameless,
        name: &[u8],
        temporary: impl FnOnce() -> TemporaryName,
    ) -> Result<(), StoreError> {
        check_item_name(dir, name)?;
        if name::own(name).is_some() {
            return Err(StoreError::bad_path(&name::join(dir.path(), name)));
        }
        self.check_item_writable("link", dir, name)?;
        let parent = dir.fd()?;
        let in_dir = |name: &[u8]| self.unlocked(dir, || link(&file.fd, parent, name));
        match in_dir(name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                // A try that was cut short may have left it.
                let temporary = temporary();
                self.remove(dir, &temporary)?;
                in_dir(&temporary).map_err(|errno| dir.error("link", &temporary, errno))?;
                self.publish(dir, &temporary, name, true)
            }
            // Another file system is mounted there now: entries of the old one are out of reach.
            Err(Errno::XDEV) => Err(dir.error("link", name, Errno::NOENT)),
            Err(errno) => Err(dir.error("link", name, errno)),
        }
    }
}

/// Returns whether this process may give a name to a file of which it has only a descriptor. Tests
/// that with an empty file, once for a mount.
fn can_name(dir: &Dir, temporary: &[u8], mode: Mode) -> bool {
    let (Some(mount), Ok(parent)) = (dir.mount(), dir.fd()) else { return false };
    let tried = open_nameless(parent, mode).and_then(|fd| link(&fd, parent, temporary));
    match tried {
        Ok(()) => {
            // Should that not come to pass, the file that this name is for is made under it.
            let _ = unlinkat(parent, temporary, AtFlags::empty());
            make_room_for_descriptors(parent);
            mount.takes_nameless().note(YES);
            true
        }
        // The name is taken, or a resource is short just now: that proves nothing.
        Err(
            Errno::EXIST
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NOMEM
            | Errno::NOSPC
            | Errno::DQUOT
            | Errno::STALE,
        ) => false,
        // ENOENT is both: the right is missing, or the directory is gone.
        Err(errno) => {
            tracing::debug!(%errno, kind = %mount.kind(), "files have temporary names here");
            mount.takes_nameless().note(NO);
            false
        }
    }
}

fn open_nameless(parent: BorrowedFd<'_>, mode: Mode) -> Result<OwnedFd, Errno> {
    create_component(parent, b".", OFlags::WRONLY | OFlags::TMPFILE, mode)
}

/// Makes the kernel enlarge its table of descriptors to its final size, once. Each time that it
/// grows by itself, a thread of a process of several waits for an RCU grace period (`expand_files`
/// in fs/file.c of Linux).
fn make_room_for_descriptors(any: BorrowedFd<'_>) {
    let _ = fcntl_dupfd_cloexec(any, nameless_max() as i32);
}

fn link(fd: &OwnedFd, parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    linkat(fd.as_fd(), c"", parent, name, AtFlags::EMPTY_PATH)
}
