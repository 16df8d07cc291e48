//! Removal of all files that a transfer leaves at its target and in the journal store.
//!
//! Only the ledger records the places of temporary files. It is kept while the target store is
//! absent, or while a part of it did not answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use penstock_api::fence::Fence;
use penstock_api::problem::Problem;
use penstock_api::task::{TargetPeer, TaskSpec};
use penstock_cluster::state::{SiteState, TransferRecord};
use penstock_proto::id::TransferId;

use crate::manager::config::ManagerParts;
use crate::manager::journal_directory::JournalDirectory;
use crate::manager::sources::Sources;
use crate::runner::clean_abandoned;

/// Removes files that transfers leave. Its methods block on the target store, some on other sites.
pub(crate) struct Cleaner {
    state: Arc<dyn SiteState>,
    target: Arc<dyn TargetPeer>,
    fence: Fence,
    sources: Arc<Sources>,
    journal: JournalDirectory,
}

impl Cleaner {
    pub(crate) fn new(
        parts: &ManagerParts,
        sources: Arc<Sources>,
        journal: JournalDirectory,
    ) -> Self {
        let (state, target) = (Arc::clone(&parts.state), Arc::clone(&parts.target));
        Self { state, target, fence: parts.fence.clone(), sources, journal }
    }

    /// Removes all data of a transfer that will not continue: the temporary files that it may have
    /// left, its ledger, and its pages here and at the source.
    ///
    /// # Errors
    /// The target could not be asked: the ledger is kept, and `orphans` finds it again.
    pub(crate) fn discard(&self, record: &TransferRecord) -> Result<(), Problem> {
        let cleaned = self.discard_here(record);
        self.sources.release(record);
        cleaned
    }

    /// Removes all data of a transfer as [`Self::discard`] does, except data at the source.
    ///
    /// # Errors
    /// As [`Self::discard`].
    pub(super) fn discard_here(&self, record: &TransferRecord) -> Result<(), Problem> {
        self.clean_target(record)?;
        self.discard_ledger(record.id());
        Ok(())
    }

    /// Removes the heads of a ledger, and its journal.
    pub(crate) fn discard_ledger(&self, id: TransferId) {
        if let Err(problem) = self.state.remove(id) {
            tracing::warn!(transfer = %id, %problem, "heads not removed");
            if !self.fence.holds() {
                return;
            }
        }
        if let Err(error) = self.journal.remove(id) {
            tracing::warn!(transfer = %id, %error, "journal not removed");
        }
    }

    fn clean_target(&self, record: &TransferRecord) -> Result<(), Problem> {
        let (id, store) = (record.id(), record.request.target.store.clone());
        let Some(root) = record.root.clone() else { return Ok(()) };
        let head = self.state.load(id)?;
        let spec = TaskSpec {
            store_id: head.store,
            mounts: head.mounts.clone(),
            fence: self.fence.clone(),
            account: record.account.clone(),
            ..TaskSpec::of_cleaning(id, store, root)
        };
        if head.store != 0 {
            self.journal.check()?;
        }
        clean_abandoned(&*self.target, &spec, &head, &self.journal.of(id))
    }

    /// Returns all transfers with a ledger in the journal store or the database.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(super) fn left_over(&self) -> Result<BTreeSet<TransferId>, Problem> {
        let mut ids = self.journal.transfers()?;
        ids.extend(self.state.ledgers()?);
        Ok(ids)
    }
}
