//! What a run leaves behind in the journal.

use std::path::{Path, PathBuf};

use penstock_proto::checksum::ChecksumKind;

use super::{Run, epochs, plan};

const FAILURES: &str = "failures.jsonl";
const DIGESTS: &str = "digests";
const FACTS: &str = "facts.json";

/// Where the files are that a run leaves behind.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// What failed, one JSON object of [`penstock_api::transfer::FailedItem`] a line.
    pub failures: PathBuf,
    /// The digest list.
    pub digests: PathBuf,
    /// What a receipt is to say of the run, as JSON of [`penstock_api::receipt::ReceiptFacts`].
    pub facts: PathBuf,
    /// The plan that it makes, or that is put here for it to follow.
    pub plan: PathBuf,
    journal: PathBuf,
    /// Of this controller only.
    epoch: Option<u64>,
}

impl RunFiles {
    /// Those of the transfer whose journal is at `journal`, as the last controller that wrote each
    /// has left it.
    pub fn of(journal: &Path) -> Self {
        Self::named(journal, None)
    }

    /// Those that the controller under `epoch` writes (B4).
    pub fn own(journal: &Path, epoch: u64) -> Self {
        Self::named(journal, Some(epoch))
    }

    fn named(journal: &Path, epoch: Option<u64>) -> Self {
        Self {
            failures: path_of(journal, epoch, FAILURES),
            digests: path_of(journal, epoch, DIGESTS),
            facts: path_of(journal, epoch, FACTS),
            plan: plan::plan_path(journal),
            journal: journal.to_owned(),
            epoch,
        }
    }

    /// The list of another kind of checksum.
    pub fn checksums(&self, kind: ChecksumKind) -> PathBuf {
        path_of(&self.journal, self.epoch, &checksums(kind))
    }

    /// Removes what earlier controllers wrote under these names, as far as this one has written its
    /// own, and what looks at the target left whose processes have ended.
    pub(super) fn remove_others(&self, kinds: &[ChecksumKind]) {
        let Some(epoch) = self.epoch else { return };
        let lists = kinds.iter().map(|kind| checksums(*kind));
        let names = [FAILURES, DIGESTS, FACTS].into_iter().map(str::to_owned).chain(lists);
        for name in names {
            epochs::remove_earlier(&self.journal.join(name), epoch);
        }
        epochs::remove_scratch(&self.journal);
    }
}

fn checksums(kind: ChecksumKind) -> String {
    format!("checksums.{kind}")
}

fn path_of(journal: &Path, epoch: Option<u64>, name: &str) -> PathBuf {
    let path = journal.join(name);
    epoch.map_or_else(|| epochs::last(&path), |epoch| epochs::own(&path, epoch))
}

impl Run {
    /// What this run writes.
    pub(super) fn files(&self) -> RunFiles {
        RunFiles::own(&self.journal, self.spec.fence.epoch())
    }
}
