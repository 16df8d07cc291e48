//! Directories of the journal for one search at the target.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use penstock_api::problem::Problem;

use super::error::failed;

/// A directory of the journal that is one look's alone: of one controller, and of one of the
/// threads that it may have left behind in a call to a store that hangs. Dropping this value
/// removes the file.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

/// Prefix of the names of directories for searches at the target.
const SCRATCH: &str = "surplus.";

impl Scratch {
    /// Makes a new file in the journal of a transfer, for the controller under `epoch`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn new(journal: &Path, epoch: u64) -> Result<Self, Problem> {
        /// Numbers those of this process, which is the only one that has its epoch.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = journal.join(format!("{SCRATCH}{epoch:016x}.{number}"));
        // A process before this one may have left it, where all have the same epoch.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|cause| failed("make", &path, &cause))?;
        Ok(Self(path))
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the directories that searches whose processes have ended have left in a journal. A
/// search that still runs fails.
pub(crate) fn remove_scratch(journal: &Path) {
    for entry in fs::read_dir(journal).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B4: no two looks share a directory, not even those of one controller; none is left.
    #[test]
    fn b4_looks_at_the_target_share_nothing() {
        let journal = tempfile::tempdir().unwrap();
        let [a, b] = [7, 7].map(|epoch| Scratch::new(journal.path(), epoch).unwrap());
        fs::write(a.path().join("known-000"), "a").unwrap();
        assert_eq!(fs::read_dir(b.path()).unwrap().count(), 0);
        drop(a);
        assert_eq!(fs::read_dir(journal.path()).unwrap().count(), 1);
        std::mem::forget(b);
        fs::write(journal.path().join("facts.json"), "").unwrap();
        remove_scratch(journal.path());
        assert_eq!(fs::read_dir(journal.path()).unwrap().count(), 1);
    }
}
