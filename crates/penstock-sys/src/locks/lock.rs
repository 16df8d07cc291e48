//! A lock file that admits one process at a time, by the locks that the file system offers.
//!
//! Lustre without `-o flock`, some FUSE clients and NFS without a lock service have no locks. Such
//! a failure does not prove that another process holds the lock, so the next method is tried:
//! flock(2), then fcntl(2) locks of the open file. Two hosts may mount one directory in different
//! ways, and see locks of different sorts or none. So each process makes a [`Claim`] besides.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::claim::Claim;
use super::lock_error::LockError;
use super::lock_sort::LockSort;

/// An exclusive lock on a file, held until this value is dropped or the process ends in any way.
/// The file stays, with the number of the last process that had the lock.
///
/// The lock is one of flock(2), or of fcntl(2) (`F_OFD_SETLK`) where flock(2) is missing. On NFS
/// the lock works between hosts since Linux 2.6.12; on other network file systems it may hold for
/// one host only. Beside the lock is a claim, which hosts without locks see: a file of its own.
#[derive(Debug)]
pub struct LockFile {
    file: File,
    _claim: Option<Claim>,
}

impl LockFile {
    /// Takes the lock on `path`, which is made if it does not exist (mode 0600). Waits for a
    /// fifth of a second at most, and that only if another process claims it.
    ///
    /// # Errors
    /// `Held` if another process, or another `LockFile` of this one, has it. `Claimed` if a process
    /// of another host or container may have it.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        let mut locked = lock(&file);
        // A process that ended with its work may have removed the file between the two calls.
        while locked.is_ok() && !is_at(&file, path).map_err(failed)? {
            file = options.open(path).map_err(failed)?;
            locked = lock(&file);
        }
        let held = match locked {
            Ok(()) => LockSort::of(&file),
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => {
                let mut text = String::new();
                let _ = file.take(32).read_to_string(&mut text);
                let process_id = text.trim().parse().ok();
                return Err(LockError::Held { path: path.to_owned(), process_id });
            }
            Err(errno) if is_without_locks(errno) => {
                tracing::info!(path = %path.display(), %errno, "no locks here: a claim is used");
                LockSort::None
            }
            Err(errno) => return Err(failed(errno.into())),
        };
        let claim = match Claim::make(path, held) {
            Ok(claim) => Some(claim),
            // A directory that takes no new file: the lock alone excludes all others here.
            Err(LockError::Io { .. }) if held == LockSort::Local => None,
            Err(error) => return Err(error),
        };
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { file, _claim: claim })
    }

    /// Returns the same open file for another process, for example as its standard input. The lock
    /// is then held until that process has ended too, even if this one ends. A claim is not.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// Returns whether an open file is the one that has the name.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let of = |meta: Metadata| (meta.dev(), meta.ino());
    match fs::metadata(path) {
        Ok(named) => Ok(of(named) == of(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether an error means that there are no locks, rather than that another process has
/// one.
fn is_without_locks(errno: Errno) -> bool {
    [Errno::NOSYS, Errno::NOLCK, Errno::OPNOTSUPP, Errno::INVAL].contains(&errno)
}

fn lock(file: &File) -> Result<(), Errno> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(errno) if is_without_locks(errno) => lock_open_file(file),
        outcome => outcome,
    }
}

/// Takes a lock of fcntl(2) on all of a file, which belongs to the open file as that of flock(2)
/// does.
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

    /// Promise (A8): one daemon per state directory, and the error of the second names the first.
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

    /// Promise (A8): a lock on a file that was removed meanwhile is no lock: of many that take the
    /// lock, remove the file and let go, no two have it at once.
    #[test]
    fn a8_a_lock_on_a_removed_file_is_not_held() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let inside = AtomicU32::new(0);
        let work = || {
            for _ in 0..2_000 {
                let Ok(held) = LockFile::acquire(&path) else { continue };
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
                fs::remove_file(&path).unwrap();
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(held);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    }
}
