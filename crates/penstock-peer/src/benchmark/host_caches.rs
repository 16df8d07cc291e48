//! The caches of all files of this host, which a benchmark can have it give up.

use std::fs;
use std::path::PathBuf;

/// The file by which the kernel is asked to drop the clean pages of all files.
#[derive(Clone, Debug)]
pub(super) struct HostCaches {
    file: PathBuf,
}

impl Default for HostCaches {
    /// Returns those of the kernel (proc_sys_vm(5)).
    fn default() -> Self {
        Self::at("/proc/sys/vm/drop_caches".into())
    }
}

impl HostCaches {
    /// Returns those that are dropped when `1` is written to `file`.
    pub(super) fn at(file: PathBuf) -> Self {
        Self { file }
    }

    /// Drops the clean pages of all files. Needs root. Blocks until the kernel has looked at all
    /// of them.
    ///
    /// # Errors
    /// The reason why they were not dropped.
    pub(super) fn give_up(&self) -> Result<(), String> {
        let failed = |error| format!("cannot write `{}`: {error}", self.file.display());
        fs::write(&self.file, "1").map_err(failed)
    }
}
