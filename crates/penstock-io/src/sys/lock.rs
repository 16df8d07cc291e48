//! One process at a time: a lock file, by whatever the file system offers.
//!
//! Lustre without `-o flock`, some FUSE clients and NFS without a lock service have no locks. That
//! a lock cannot be had says nothing of who holds it, so the next way is tried: flock(2), fcntl(2)
//! locks of the open file, and last a [`Claim`].

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::claim::Claim;

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds it.
    #[error("`{}` is locked by another process{}", .path.display(), written_holder(*.process_id))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The process that said it holds the lock, if it had the time to write that down.
        process_id: Option<u32>,
    },
    /// A process that cannot be looked at from here claims it: one of another host or container.
    #[error(
        "process {process_id} of host `{host}` has claimed the lock {age_seconds} s ago; if that \
         process does not run any more, remove `{}`",
        .path.display()
    )]
    Claimed {
        /// The file that says so.
        path: PathBuf,
        /// The host, as it calls itself.
        host: String,
        /// The process, as that host numbers it.
        process_id: u32,
        /// Since when, by the file's time and this host's clock.
        age_seconds: u64,
    },
    /// The lock file could not be made, opened or locked.
    #[error("lock `{}`", .path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn written_holder(process_id: Option<u32>) -> String {
    process_id.map_or_else(String::new, |id| format!(" (process {id})"))
}

/// An exclusive lock on a file, held until this is dropped or the process ends in whatever way. The
/// file stays, holding the number of the last process that had it.
///
/// It is a lock of flock(2), or of fcntl(2) (`F_OFD_SETLK`) where there is none of the former. On
/// NFS the lock works between hosts since Linux 2.6.12; on other network file systems it may hold
/// for one host only. Where a file system has neither, it is a claim: a file beside it.
#[derive(Debug)]
pub struct LockFile {
    file: File,
    /// Where the file system has no locks.
    _claim: Option<Claim>,
}

impl LockFile {
    /// Takes the lock on `path`, which is made if it does not exist (mode 0600). Waits for a
    /// fifth of a second at most, and that only on a file system without locks.
    ///
    /// # Errors
    /// `Held` if another process, or another `LockFile` of this one, has it. `Claimed` on a file
    /// system without locks, if a process of another host may have it.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        let claim = match lock(&file) {
            Ok(()) => None,
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => {
                let mut text = String::new();
                let _ = file.take(32).read_to_string(&mut text);
                let process_id = text.trim().parse().ok();
                return Err(LockError::Held { path: path.to_owned(), process_id });
            }
            Err(errno) if is_without_locks(errno) => {
                tracing::info!(path = %path.display(), %errno, "no locks here: a claim is used");
                Some(Claim::make(path)?)
            }
            Err(errno) => return Err(failed(errno.into())),
        };
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { file, _claim: claim })
    }

    /// The same open file, to be given to another process (as its standard input, say): the lock is
    /// then held until that process has ended too, whatever becomes of this one. A claim is not.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// Whether an error says that there are no locks, rather than who has one.
fn is_without_locks(errno: Errno) -> bool {
    [Errno::NOSYS, Errno::NOLCK, Errno::OPNOTSUPP, Errno::INVAL].contains(&errno)
}

fn lock(file: &File) -> Result<(), Errno> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(errno) if is_without_locks(errno) => lock_open_file(file),
        outcome => outcome,
    }
}

/// A lock of fcntl(2) on all of a file, which belongs to the open file as that of flock(2) does.
fn lock_open_file(file: &File) -> Result<(), Errno> {
    let wanted = libc::flock {
        l_type: libc::F_WRLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the kernel only reads
    // `wanted`, a whole flock structure that outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) } {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (A8): one daemon per state directory, and the second is told who the first is.
    #[test]
    fn a8_a_lock_is_held_by_one_and_freed_by_drop() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = LockFile::acquire(&path).unwrap();
        match LockFile::acquire(&path) {
            Err(LockError::Held { process_id, .. }) => {
                assert_eq!(process_id, Some(std::process::id()));
            }
            other => panic!("expected Held, got {other:?}"),
        }
        drop(held);
        LockFile::acquire(&path).unwrap();
    }
}
