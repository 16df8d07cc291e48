//! Cancelled transfers of which something is still at the target.
//!
//! A target that could not be asked when a transfer was cancelled is asked again at intervals, and
//! when the manager starts, until nothing temporary is left.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::fence::Fence;
use penstock_api::problem::Problem;
use penstock_api::transfer::TransferState;
use penstock_cluster::state::{SiteState, TransferRecord};
use penstock_proto::id::{Name, TransferId};

use super::cleaner::Cleaner;
use crate::manager::caller::Caller;
use crate::manager::config::{ManagerConfig, ManagerParts};
use crate::manager::events::TransferEvents;
use crate::manager::queue::{Admission, TransferTable};
use crate::manager::record::{CANCELLED, store};

/// Cancelled transfers with temporary files left, and the time of the next retry.
#[derive(Debug, Default)]
struct Unclean {
    ids: BTreeSet<TransferId>,
    /// Set once the transfers left before the manager started are known.
    looked: bool,
    not_before: Option<Instant>,
    is_at_work: bool,
}

impl Unclean {
    fn is_due(&self, now: Instant) -> bool {
        let any = !self.looked || !self.ids.is_empty();
        any && !self.is_at_work && self.not_before.is_none_or(|time| time <= now)
    }

    /// Handles the end of a round in which these transfers were `kept`. `looked` is true once those
    /// left before the manager started are known.
    fn handle_round(&mut self, kept: Vec<TransferId>, looked: bool, next: Instant) {
        self.ids.extend(kept);
        self.looked |= looked;
        self.not_before = Some(next);
        self.is_at_work = false;
    }
}

/// Removes files that cancelled transfers have left, until none are left.
pub(crate) struct CancelledTransfers {
    cleaner: Arc<Cleaner>,
    admission: Arc<Admission>,
    table: Arc<TransferTable>,
    state: Arc<dyn SiteState>,
    fence: Fence,
    events: TransferEvents,
    interval: Duration,
    unclean: Mutex<Unclean>,
}

impl CancelledTransfers {
    pub(crate) fn new(
        (config, parts): (&ManagerConfig, &ManagerParts),
        (cleaner, admission): (Arc<Cleaner>, Arc<Admission>),
        (table, events): (Arc<TransferTable>, TransferEvents),
    ) -> Self {
        let (state, fence) = (Arc::clone(&parts.state), parts.fence.clone());
        let (interval, unclean) = (config.retry_most, Mutex::default());
        Self { cleaner, admission, table, state, fence, events, interval, unclean }
    }

    fn unclean(&self) -> MutexGuard<'_, Unclean> {
        self.unclean.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a transfer that was cancelled, and whose target could not be asked.
    pub(crate) fn add(&self, id: TransferId) {
        self.unclean().ids.insert(id);
    }

    /// Records that a cancelled transfer has nothing left.
    pub(super) fn note_clean(&self, mut record: TransferRecord) {
        self.unclean().ids.remove(&record.id());
        if record.state == TransferState::Cancelled && record.reason != CANCELLED {
            CANCELLED.clone_into(&mut record.reason);
            store(&*self.state, &mut record);
            self.events.tell(&record.report());
        }
    }

    /// Retries the removal, on a thread of its own, if that is due: a store may take long to
    /// answer.
    pub(crate) fn clean_when_due(self: &Arc<Self>) {
        let mut unclean = self.unclean();
        if !unclean.is_due(Instant::now()) {
            return;
        }
        let cancelled = Arc::clone(self);
        let thread = thread::Builder::new().name("clean".to_owned());
        match thread.spawn(move || cancelled.clean_all()) {
            Ok(_) => unclean.is_at_work = true,
            Err(error) => tracing::warn!(%error, "no thread to remove what is temporary"),
        }
    }

    /// Tries it with each of them once. Blocks on their stores.
    pub(crate) fn clean_all(&self) {
        let (mut ids, looked) = {
            let unclean = self.unclean();
            (unclean.ids.clone(), unclean.looked)
        };
        let found = if looked { Ok(BTreeSet::new()) } else { self.cancelled_before() };
        let known = found.map(|mut found| ids.append(&mut found));
        if let Err(problem) = &known {
            tracing::warn!(%problem, "what cancelled transfers have left is not known");
        }
        let mut offline = BTreeSet::new();
        let kept = |id: &TransferId| match self.clean(*id, &mut offline) {
            Ok(is_over) => !is_over,
            Err(problem) => {
                tracing::info!(transfer = %id, %problem, "its temporary files are still left");
                true
            }
        };
        let kept: Vec<TransferId> = ids.into_iter().filter(kept).collect();
        self.unclean().handle_round(kept, known.is_ok(), Instant::now() + self.interval);
    }

    /// Returns the transfers that were cancelled, and of which something is kept.
    fn cancelled_before(&self) -> Result<BTreeSet<TransferId>, Problem> {
        let mut found = BTreeSet::new();
        for id in self.cleaner.left_over()? {
            let record = self.state.transfer(id)?;
            if record.is_some_and(|record| record.state == TransferState::Cancelled) {
                found.insert(id);
            }
        }
        Ok(found)
    }

    /// Retries the removal for one of them. Returns whether it is over. A transfer whose place
    /// belongs to another one now waits until that has ended.
    fn clean(&self, id: TransferId, offline: &mut BTreeSet<Name>) -> Result<bool, Problem> {
        let admission = self.admission.lock();
        {
            let table = self.table.lock();
            if table.is_stopping || table.is_live(id) || !self.fence.holds() {
                return Ok(false);
            }
        }
        self.table.check_idle(id)?;
        let record = self.state.transfer(id)?;
        let is_cancelled = |record: &TransferRecord| record.state == TransferState::Cancelled;
        let Some(record) = record.filter(is_cancelled) else {
            self.unclean().ids.remove(&id);
            return Ok(true);
        };
        let store = &record.request.target.store;
        let claim = record.root.as_ref().unwrap_or(&record.claim);
        let taken = self.admission.check_overlap(&record.request, claim, &Caller::local()).is_err();
        if taken || offline.contains(store) {
            return Ok(false);
        }
        let _busy = self.table.occupy(id, None)?;
        drop(admission);
        let cleaned = self.cleaner.discard_here(&record);
        if cleaned.is_err() {
            offline.insert(store.clone());
        }
        cleaned?;
        self.note_clean(record);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: files from before the manager's start are looked for at once, and again until they
    /// are known. A failed removal is retried after a pause, and never runs twice at a time.
    #[test]
    fn what_is_left_is_looked_for_until_nothing_is() {
        let mut unclean = Unclean::default();
        let now = Instant::now();
        let next = now + Duration::from_secs(60);
        assert!(unclean.is_due(now));
        unclean.is_at_work = true;
        assert!(!unclean.is_due(now), "it is being tried");
        unclean.handle_round(Vec::new(), false, next);
        assert!(!unclean.is_due(now) && unclean.is_due(next), "it is not known yet");
        unclean.handle_round(vec![TransferId([1; 16])], true, next);
        assert!(unclean.is_due(next));
        unclean.ids.clear();
        unclean.handle_round(Vec::new(), true, next);
        assert!(!unclean.is_due(next), "nothing is left");
    }
}
