//! One process at a time: a lock file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

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

/// An exclusive lock on a file (flock(2)), held until this is dropped or the process ends in
/// whatever way. The file stays, holding the number of the last process that had it.
///
/// On NFS the lock works between hosts since Linux 2.6.12; on other network file systems it may
/// hold for one host only.
#[derive(Debug)]
pub struct LockFile {
    file: File,
}

impl LockFile {
    /// Takes the lock on `path`, which is made if it does not exist (mode 0600). Never waits.
    ///
    /// # Errors
    /// `Held` if another process, or another `LockFile` of this one, has it.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _ = file.take(32).read_to_string(&mut text);
                let process_id = text.trim().parse().ok();
                return Err(LockError::Held { path: path.to_owned(), process_id });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { file })
    }

    /// The same open file, to be given to another process (as its standard input, say): the lock is
    /// then held until that process has ended too, whatever becomes of this one.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
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
