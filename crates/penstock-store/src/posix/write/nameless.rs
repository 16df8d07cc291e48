//! Files that have no name before they get their final one: open(2) with `O_TMPFILE`, then
//! linkat(2).
//!
//! A small file with a temporary name costs two changes of its directory, of which the kernel
//! allows one at a time. Lanes that make files in one directory, and the publisher that renames
//! them, wait for each other. A file without a name is made independently of all others, and its
//! directory changes once (docs/design/0041).
//!
//! **Costs.** Until it gets its name such a file is a descriptor of this process, so their number
//! is bounded ([`nameless_max`]). A process that was killed leaves nothing: its unnamed files are
//! fetched again, and there is nothing to clean up. The method is therefore for names that wait for
//! no disk: the caller that makes a file decides that.
//!
//! **Where.** On file systems where it was measured to be faster, and where linkat(2) takes a
//! descriptor: by CAP_DAC_READ_SEARCH, or of any user from Linux 6.10 on. It is tried once for each
//! mount. Everywhere else files have temporary names.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use penstock_sys::{Permit, Semaphore};
use rustix::fs::{AtFlags, Mode, OFlags, fsync, linkat, unlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

use crate::dir::Dir;
use crate::error::StoreError;
use crate::posix::sandbox::create_component;

/// Most files without a name in this process: while those of one sync epoch, 4,096, get theirs,
/// those of the next are written.
const NAMELESS_MAX: usize = 8192;
/// Fewer are not worth an epoch of their own.
const NAMELESS_MIN: usize = 1024;
/// Divisor of the process's limit of descriptors.
const SHARE_OF_DESCRIPTORS: u64 = 2;

/// Returns how many files without a name this process may have at a time; 0 if its limit of
/// descriptors is too low for that. The limit is read once: raise it before
/// ([`penstock_sys::raise_file_limit`]).
pub fn nameless_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = (descriptors / SHARE_OF_DESCRIPTORS).min(NAMELESS_MAX as u64) as usize;
        if most < NAMELESS_MIN { 0 } else { most }
    })
}

/// The permit for one file without a name, released on drop.
pub(crate) type NamelessPermit = Permit<&'static Semaphore>;

/// Acquires the permit for one more file without a name.
pub(crate) fn try_permit() -> Option<NamelessPermit> {
    static PERMITS: OnceLock<Semaphore> = OnceLock::new();
    Permit::try_acquire(PERMITS.get_or_init(|| Semaphore::new(nameless_max())))
}

/// A finished file that has no name yet. Dropping it before [`Target::publish_nameless`] leaves
/// nothing. It is one descriptor, and holds no directory: that may be another one by then (C5).
///
/// [`Target::publish_nameless`]: crate::Target::publish_nameless
#[derive(Debug)]
pub struct Nameless {
    fd: OwnedFd,
    _permit: NamelessPermit,
}

impl Nameless {
    pub(crate) fn new(fd: OwnedFd, permit: NamelessPermit) -> Self {
        Self { fd, _permit: permit }
    }

    /// Gives it a name in the directory `parent`.
    pub(crate) fn link(&self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        link(&self.fd, parent, name)
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

/// Returns whether this process may give a name to a file of which it has only a descriptor. Tests
/// that with an empty file, once for a mount.
pub(crate) fn can_name(dir: &Dir, temporary: &[u8], mode: Mode) -> bool {
    let (Some(mount), Ok(parent)) = (dir.mount(), dir.fd()) else { return false };
    let tried = open_nameless(parent, mode).and_then(|fd| link(&fd, parent, temporary));
    match tried {
        Ok(()) => {
            // Should that not come to pass, the file that this name is for is made under it.
            let _ = unlinkat(parent, temporary, AtFlags::empty());
            make_room_for_descriptors(parent);
            mount.nameless_support().record(true);
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
            mount.nameless_support().record(false);
            false
        }
    }
}

pub(crate) fn open_nameless(parent: BorrowedFd<'_>, mode: Mode) -> Result<OwnedFd, Errno> {
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
