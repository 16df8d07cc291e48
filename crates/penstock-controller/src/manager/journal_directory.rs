//! The journal store of a site: one directory for each transfer, and the files beside them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use penstock_api::io_problem::failed;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::TransferId;

use crate::runner::{RunFiles, plan_path};

/// The journal store.
#[derive(Clone, Debug)]
pub(super) struct JournalDirectory {
    path: PathBuf,
}

impl JournalDirectory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the directory in which all that belongs to a transfer lies.
    pub(super) fn of(&self, id: TransferId) -> PathBuf {
        self.path.join(id.to_string())
    }

    /// Returns the files that runs of a transfer leave.
    ///
    /// # Errors
    /// The journal of the transfer cannot be read.
    pub(super) fn files(&self, id: TransferId) -> Result<RunFiles, Problem> {
        RunFiles::of(&self.of(id))
    }

    /// Returns the path of the plan that a transfer makes, or that is put there for it to follow.
    pub(super) fn plan(&self, id: TransferId) -> PathBuf {
        plan_path(&self.of(id))
    }

    /// Returns the path of the receipt of an own transfer. The receipt outlives the ledger.
    pub(super) fn receipt(&self, id: TransferId) -> PathBuf {
        self.path.with_file_name("receipts").join(format!("{id}.json"))
    }

    /// Returns the path of the last decisions about an own transfer, which outlive the ledger.
    pub(super) fn flight(&self, id: TransferId) -> PathBuf {
        self.path.with_file_name("flights").join(format!("{id}.jsonl"))
    }

    /// Returns a new file that is gone when it is closed.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(super) fn nameless(&self) -> Result<File, Problem> {
        let path = self.path.join(format!("fetched-{:016x}", rand::random::<u64>()));
        fs::create_dir_all(&self.path).map_err(journal_failed)?;
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(journal_failed)?;
        fs::remove_file(&path).map_err(journal_failed)?;
        Ok(file)
    }

    /// Returns the transfers that have a directory.
    ///
    /// # Errors
    /// The journal store cannot be listed.
    pub(super) fn transfers(&self) -> Result<BTreeSet<TransferId>, Problem> {
        let unreadable = |error: io::Error| {
            let title = format!("the journal store `{}` cannot be listed", self.path.display());
            failed(ProblemCode::Journal, title, &error)
        };
        let mut ids = BTreeSet::new();
        match fs::read_dir(&self.path) {
            Ok(entries) => {
                for entry in entries {
                    let name = entry.map_err(unreadable)?.file_name();
                    ids.extend(name.to_str().and_then(|name| name.parse::<TransferId>().ok()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(error)),
        }
        Ok(ids)
    }

    /// Checks that the journal store is there: one that is not mounted has no pages either.
    ///
    /// # Errors
    /// The journal store cannot be read.
    pub(super) fn check(&self) -> Result<(), Problem> {
        fs::read_dir(&self.path).map(drop).map_err(|cause| {
            let title = format!("cannot read {}", self.path.display());
            failed(ProblemCode::Journal, title, &cause)
        })
    }

    /// Removes the directory of a transfer, if there is one.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub(super) fn remove(&self, id: TransferId) -> io::Result<()> {
        match fs::remove_dir_all(self.of(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Returns the problem of a journal store that cannot be written.
pub(super) fn journal_failed(cause: io::Error) -> Problem {
    failed(ProblemCode::Journal, "the journal store cannot be written", &cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a journal store that does not exist yet has no transfers, and one that cannot be
    /// read is an error, not an empty one.
    #[test]
    fn a_store_that_cannot_be_read_is_not_empty() {
        let directory = tempfile::tempdir().unwrap();
        let journal = JournalDirectory::new(directory.path().join("journal"));
        assert!(journal.transfers().unwrap().is_empty() && journal.check().is_err());
        let id = TransferId([1; 16]);
        fs::create_dir_all(journal.of(id)).unwrap();
        drop(journal.nameless().unwrap());
        assert_eq!(journal.transfers().unwrap(), BTreeSet::from([id]));
        journal.remove(id).unwrap();
        journal.remove(id).unwrap();
        assert!(journal.transfers().unwrap().is_empty() && journal.check().is_ok());
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(JournalDirectory::new(file).transfers().is_err());
    }
}
