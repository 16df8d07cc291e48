//! The context of a run: inputs, handles, and the findings of its setup. No phase changes it.

use std::path::PathBuf;
use std::sync::Arc;

use penstock_api::heads::HeadStore;
use penstock_api::problem::Problem;
use penstock_api::task::{TargetPeer, TaskSpec};
use penstock_api::transfer::TransferOptions;
use penstock_proto::id::TransferId;

use super::control::RunControl;
use super::earlier::Earlier;
use super::journal::RunFiles;
use super::pages::puller::Compare;
use super::pages::shared_source::SharedSource;
use super::plan::Followed;
use super::shared::RunShared;

/// The context of one round of a run.
pub(crate) struct RunContext {
    pub(crate) id: TransferId,
    pub(crate) options: TransferOptions,
    /// The task of all peers; it says whether the store is in doubt.
    pub(crate) spec: TaskSpec,
    /// A peer that represents all.
    pub(crate) peer: Arc<dyn TargetPeer>,
    pub(crate) heads: Arc<dyn HeadStore>,
    pub(crate) control: Arc<RunControl>,
    pub(crate) shared: Arc<RunShared>,
    /// Compares a page with the target.
    pub(crate) compare: Compare,
    /// The work of earlier attempts, if this attempt has listed the source again.
    pub(crate) earlier: Option<Arc<Earlier>>,
    /// The plan that is followed, if one is.
    pub(crate) followed: Option<Arc<Followed>>,
    /// Directory of the transfer in the journal store.
    pub(crate) journal: PathBuf,
    /// The source, for requests that the puller does not make.
    pub(crate) source: SharedSource,
    /// Number of restarts because data read back differed from the data written.
    pub(crate) round: u32,
}

impl RunContext {
    /// Returns the files that this run writes.
    pub(crate) fn files(&self) -> RunFiles {
        RunFiles::own(&self.journal, self.spec.fence.epoch())
    }

    /// Checks that this site's controller may still act (B4).
    ///
    /// # Errors
    /// A later controller leads.
    pub(crate) fn check_fence(&self) -> Result<(), Problem> {
        self.spec.fence.check()
    }
}
