//! Removes everything that an ended transfer left at its target and in the journal store.
//!
//! Only the ledger tells where temporary files are. It is kept while the target store is absent, or
//! while not all of it could be asked. For transfers that were cancelled meanwhile the removal is
//! retried at intervals, and when the manager starts.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use penstock_api::io_problem::failed;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::Event;
use penstock_api::task::TaskSpec;
use penstock_api::transfer::TransferState;
use penstock_proto::id::{Name, TransferId};

use super::attempt::CANCELLED;
use super::users::Caller;
use super::{Inner, Table, TransferRecord, journal_of};
use crate::runner::clean_abandoned;

/// Cancelled transfers with temporary files left, and the time of the next retry.
#[derive(Debug, Default)]
pub(super) struct Unclean {
    ids: BTreeSet<TransferId>,
    /// Set once the transfers left before the manager started are known.
    looked: bool,
    not_before: Option<Instant>,
    is_at_work: bool,
}

impl Unclean {
    /// A transfer was cancelled, and its target could not be asked.
    pub(super) fn add(&mut self, id: TransferId) {
        self.ids.insert(id);
    }

    fn is_due(&self) -> bool {
        let any = !self.looked || !self.ids.is_empty();
        any && !self.is_at_work && self.not_before.is_none_or(|time| time <= Instant::now())
    }
}

impl Inner {
    /// Removes all data of a transfer that will not continue: the temporary files that it may have
    /// left, its ledger, and its pages here and at the source.
    ///
    /// # Errors
    /// The target could not be asked: the ledger is kept, and `orphans` finds it again.
    pub(super) fn discard(&self, record: &TransferRecord) -> Result<(), Problem> {
        let cleaned = self.discard_here(record);
        self.release(record);
        cleaned
    }

    /// Removes all data of a transfer as [`Self::discard`] does, except data at the source.
    pub(super) fn discard_here(&self, record: &TransferRecord) -> Result<(), Problem> {
        self.clean_target(record)?;
        self.discard_ledger(record.id());
        Ok(())
    }

    /// Records that a cancelled transfer has nothing left.
    pub(super) fn note_clean(&self, mut record: TransferRecord) {
        self.lock().unclean.ids.remove(&record.id());
        if record.state == TransferState::Cancelled && record.reason != CANCELLED {
            CANCELLED.clone_into(&mut record.reason);
            self.store(&mut record);
            self.tell(Event::of(&record.view()));
        }
    }

    /// Retries, on a thread of its own, the removal of files that cancelled transfers have left, if
    /// that is due: a store may take long to answer.
    pub(super) fn clean_when_due(self: &Arc<Self>, table: &mut Table) {
        if !table.unclean.is_due() {
            return;
        }
        let inner = Arc::clone(self);
        let thread = thread::Builder::new().name("clean".to_owned());
        match thread.spawn(move || inner.clean_again()) {
            Ok(_) => table.unclean.is_at_work = true,
            Err(error) => tracing::warn!(%error, "no thread to remove what is temporary"),
        }
    }

    /// Tries it with each of them once. Blocks on their stores.
    pub(super) fn clean_again(&self) {
        let (mut ids, looked) = {
            let unclean = &self.lock().unclean;
            (unclean.ids.clone(), unclean.looked)
        };
        let found = if looked { Ok(BTreeSet::new()) } else { self.cancelled_before() };
        let known = found.map(|mut found| ids.append(&mut found));
        if let Err(problem) = &known {
            tracing::warn!(%problem, "what cancelled transfers have left is not known");
        }
        let mut offline = BTreeSet::new();
        let kept = |id: &TransferId| match self.clean_cancelled(*id, &mut offline) {
            Ok(is_over) => !is_over,
            Err(problem) => {
                tracing::info!(transfer = %id, %problem, "its temporary files are still left");
                true
            }
        };
        let kept: Vec<TransferId> = ids.into_iter().filter(kept).collect();
        let unclean = &mut self.lock().unclean;
        unclean.ids.extend(kept);
        unclean.looked |= known.is_ok();
        unclean.not_before = Some(Instant::now() + self.config.retry_most);
        unclean.is_at_work = false;
    }

    /// Transfers that were cancelled, and of which something is kept.
    fn cancelled_before(&self) -> Result<BTreeSet<TransferId>, Problem> {
        let mut found = BTreeSet::new();
        for id in self.left_over()? {
            let record = self.parts.state.transfer(id)?;
            if record.is_some_and(|record| record.state == TransferState::Cancelled) {
                found.insert(id);
            }
        }
        Ok(found)
    }

    /// Retries the removal for one of them. Returns whether it is over. A transfer whose place
    /// belongs to another one now waits until that has ended.
    fn clean_cancelled(
        &self,
        id: TransferId,
        offline: &mut BTreeSet<Name>,
    ) -> Result<bool, Problem> {
        let admission = self.admission.lock();
        {
            let table = self.lock();
            if table.stopping || table.is_live(id) || !self.parts.fence.holds() {
                return Ok(false);
            }
        }
        self.check_idle(id)?;
        let record = self.parts.state.transfer(id)?;
        let is_cancelled = |record: &TransferRecord| record.state == TransferState::Cancelled;
        let Some(record) = record.filter(is_cancelled) else {
            self.lock().unclean.ids.remove(&id);
            return Ok(true);
        };
        let store = &record.request.target.store;
        let claim = record.root.as_ref().unwrap_or(&record.claim);
        let taken = self.check_overlap(&record.request, claim, &Caller::User).is_err();
        if taken || offline.contains(store) {
            return Ok(false);
        }
        let _busy = self.occupy(id, None)?;
        drop(admission);
        let cleaned = self.discard_here(&record);
        if cleaned.is_err() {
            offline.insert(store.clone());
        }
        cleaned?;
        self.note_clean(record);
        Ok(true)
    }

    /// Removes the heads of a ledger, and its journal.
    pub(super) fn discard_ledger(&self, id: TransferId) {
        if let Err(problem) = self.parts.state.remove(id) {
            tracing::warn!(transfer = %id, %problem, "heads not removed");
            if !self.parts.fence.holds() {
                return;
            }
        }
        let journal = journal_of(&self.config.journal, id);
        if let Err(error) = fs::remove_dir_all(&journal)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(transfer = %id, %error, "journal not removed");
        }
    }

    fn clean_target(&self, record: &TransferRecord) -> Result<(), Problem> {
        let (Some(root), request) = (&record.root, &record.request) else { return Ok(()) };
        let journal = journal_of(&self.config.journal, record.id());
        let head = self.parts.state.load(record.id())?;
        let (id, store) = (record.id(), request.target.store.clone());
        let spec = TaskSpec {
            store_id: head.store,
            mounts: head.mounts.clone(),
            fence: self.parts.fence.clone(),
            ..TaskSpec::of_cleaning(id, store, root.clone())
        };
        let journal_store = &self.config.journal;
        // A journal store that is not mounted has no pages either.
        if head.store != 0 {
            fs::read_dir(journal_store).map_err(|cause| {
                failed(
                    ProblemCode::Journal,
                    format!("cannot read {}", journal_store.display()),
                    &cause,
                )
            })?;
        }
        clean_abandoned(&*self.parts.target, &spec, &head, &journal)
    }

    /// Tells the source that its pages are no longer needed.
    pub(super) fn release(&self, record: &TransferRecord) {
        let site = &record.request.source.site;
        if *site == self.config.site {
            self.parts.source.release(record.id());
        } else if let Err(problem) = self.parts.sites.release(site, record.id()) {
            // The source finds out from its stub that the transfer has ended.
            tracing::info!(transfer = %record.id(), %problem, "cannot inform the source \
                                                               of the end");
        }
    }
}
