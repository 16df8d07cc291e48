//! The files that a run leaves in the journal.

use std::fs;
use std::path::{Path, PathBuf};

use penstock_api::problem::Problem;
use penstock_api::rest::PieceMap;
use penstock_proto::checksum::ChecksumKind;

use super::error::failed;
use super::{names, scratch};

const FAILURES: &str = "failures.jsonl";
const DIGESTS: &str = "digests";
const FACTS: &str = "facts.json";
const PIECES: &str = "pieces.json";

/// The paths of the files that a run leaves.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// Failed items, one JSON object of [`penstock_api::transfer::FailedItem`] a line.
    pub failures: PathBuf,
    /// The digest list.
    pub digests: PathBuf,
    /// Facts of the run for its receipt, as JSON of [`penstock_api::receipt::ReceiptFacts`].
    pub facts: PathBuf,
    /// The piece map at the end of the run, as JSON of [`penstock_api::rest::PieceMap`].
    pub pieces: PathBuf,
    journal: PathBuf,
    /// The epoch of this controller, if only its own files count.
    epoch: Option<u64>,
}

impl RunFiles {
    /// Returns the files of the transfer whose journal is at `journal`, each in the version of the
    /// last controller that wrote it.
    ///
    /// # Errors
    /// The journal cannot be read. One that does not exist has no files.
    pub fn of(journal: &Path) -> Result<Self, Problem> {
        Ok(Self {
            failures: last(journal, FAILURES)?,
            digests: last(journal, DIGESTS)?,
            facts: last(journal, FACTS)?,
            pieces: last(journal, PIECES)?,
            journal: journal.to_owned(),
            epoch: None,
        })
    }

    /// Returns the files that the controller under `epoch` writes (B4).
    pub fn own(journal: &Path, epoch: u64) -> Self {
        Self {
            failures: names::own(&journal.join(FAILURES), epoch),
            digests: names::own(&journal.join(DIGESTS), epoch),
            facts: names::own(&journal.join(FACTS), epoch),
            pieces: names::own(&journal.join(PIECES), epoch),
            journal: journal.to_owned(),
            epoch: Some(epoch),
        }
    }

    /// Returns the list of another kind of checksum.
    ///
    /// # Errors
    /// As [`RunFiles::of`].
    pub fn checksums(&self, kind: ChecksumKind) -> Result<PathBuf, Problem> {
        let name = checksums(kind);
        match self.epoch {
            Some(epoch) => Ok(names::own(&self.journal.join(name), epoch)),
            None => last(&self.journal, &name),
        }
    }

    /// Returns the stored piece map; `None` if there is none that can be read.
    pub(crate) fn piece_map(&self) -> Option<PieceMap> {
        serde_json::from_slice(&fs::read(&self.pieces).ok()?).ok()
    }

    /// Removes the files that earlier controllers wrote under these names, where this one has
    /// written its own. Removes also the directories of searches at the target whose processes have
    /// ended.
    pub(crate) fn remove_others(&self, kinds: &[ChecksumKind]) {
        let Some(epoch) = self.epoch else { return };
        let lists = kinds.iter().map(|kind| checksums(*kind));
        let names = [FAILURES, DIGESTS, FACTS, PIECES].into_iter().map(str::to_owned).chain(lists);
        for name in names {
            names::remove_earlier(&self.journal.join(name), epoch);
        }
        scratch::remove_scratch(&self.journal);
    }
}

fn checksums(kind: ChecksumKind) -> String {
    format!("checksums.{kind}")
}

fn last(journal: &Path, name: &str) -> Result<PathBuf, Problem> {
    names::last(&journal.join(name)).map_err(|cause| failed("read", journal, &cause))
}

/// Returns the path of the plan that a transfer makes, or that is put there for it to follow.
pub fn plan_path(journal: &Path) -> PathBuf {
    journal.join("plan.jsonl")
}

/// Returns the path of the file that records that the whole plan was compared.
pub(crate) fn checked_path(journal: &Path) -> PathBuf {
    journal.join("plan.checked")
}
