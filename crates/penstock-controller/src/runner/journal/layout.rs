//! The files that a run leaves in the journal.

use std::path::{Path, PathBuf};

use penstock_proto::checksum::ChecksumKind;

use super::{names, scratch};

const FAILURES: &str = "failures.jsonl";
const DIGESTS: &str = "digests";
const FACTS: &str = "facts.json";

/// The paths of the files that a run leaves.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// Failed items, one JSON object of [`penstock_api::transfer::FailedItem`] a line.
    pub failures: PathBuf,
    /// The digest list.
    pub digests: PathBuf,
    /// Facts of the run for its receipt, as JSON of [`penstock_api::receipt::ReceiptFacts`].
    pub facts: PathBuf,
    /// The plan that it makes, or that is put here for it to follow.
    pub plan: PathBuf,
    journal: PathBuf,
    /// The epoch of this controller, if only its own files count.
    epoch: Option<u64>,
}

impl RunFiles {
    /// Returns the files of the transfer whose journal is at `journal`, each in the version of the
    /// last controller that wrote it.
    pub fn of(journal: &Path) -> Self {
        Self::named(journal, None)
    }

    /// Returns the files that the controller under `epoch` writes (B4).
    pub fn own(journal: &Path, epoch: u64) -> Self {
        Self::named(journal, Some(epoch))
    }

    fn named(journal: &Path, epoch: Option<u64>) -> Self {
        Self {
            failures: path_of(journal, epoch, FAILURES),
            digests: path_of(journal, epoch, DIGESTS),
            facts: path_of(journal, epoch, FACTS),
            plan: plan_path(journal),
            journal: journal.to_owned(),
            epoch,
        }
    }

    /// The list of another kind of checksum.
    pub fn checksums(&self, kind: ChecksumKind) -> PathBuf {
        path_of(&self.journal, self.epoch, &checksums(kind))
    }

    /// Removes the files that earlier controllers wrote under these names, where this one has
    /// written its own. Removes also the directories of searches at the target whose processes have
    /// ended.
    pub(crate) fn remove_others(&self, kinds: &[ChecksumKind]) {
        let Some(epoch) = self.epoch else { return };
        let lists = kinds.iter().map(|kind| checksums(*kind));
        let names = [FAILURES, DIGESTS, FACTS].into_iter().map(str::to_owned).chain(lists);
        for name in names {
            names::remove_earlier(&self.journal.join(name), epoch);
        }
        scratch::remove_scratch(&self.journal);
    }
}

fn checksums(kind: ChecksumKind) -> String {
    format!("checksums.{kind}")
}

fn path_of(journal: &Path, epoch: Option<u64>, name: &str) -> PathBuf {
    let path = journal.join(name);
    epoch.map_or_else(|| names::last(&path), |epoch| names::own(&path, epoch))
}

/// Returns the path of the plan that a transfer makes or follows.
pub(crate) fn plan_path(journal: &Path) -> PathBuf {
    journal.join("plan.jsonl")
}

/// Returns the path of the file that records that the whole plan was compared.
pub(crate) fn checked_path(journal: &Path) -> PathBuf {
    journal.join("plan.checked")
}
