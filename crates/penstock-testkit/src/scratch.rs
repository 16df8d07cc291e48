//! Directories of a test's own.

use std::path::Path;

use tempfile::{Builder, TempDir};

/// A directory of a test, removed at its end.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes one on the disk of `TMPDIR`.
    pub fn on_disk() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// Makes one in memory where there is such a file system: for tests that are not about disks.
    pub fn in_memory() -> Self {
        Self::in_memory_for(0)
    }

    /// Makes one in memory where there is room for so many bytes: for many files, whose names a
    /// disk takes long to make and to remove.
    pub fn in_memory_for(bytes: u64) -> Self {
        let memory = Path::new("/dev/shm");
        let space = rustix::fs::statvfs(memory).map(|space| space.f_bavail * space.f_frsize);
        if space.is_ok_and(|free| free > bytes) { Self::below(memory) } else { Self::on_disk() }
    }

    fn below(parent: &Path) -> Self {
        Self(Builder::new().prefix("penstock-test-").tempdir_in(parent).unwrap())
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
