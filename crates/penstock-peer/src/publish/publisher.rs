//! The publisher of a task: its state, and the choice of its next step.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use penstock_api::task::{Report, Work};
use penstock_engine::epoch::EpochAction;
use penstock_proto::slicing::PieceRef;

use super::renamer::Renamer;
use crate::publish::name_races::NameWaits;
use crate::task::context::{Pieces, TaskContext};

/// The publisher looks around at least this often.
const TICK: Duration = Duration::from_millis(500);

pub(super) enum Next {
    Chore(Work),
    Action(EpochAction),
    End,
}

pub(super) struct Publisher<'a> {
    pub(super) shared: &'a TaskContext,
    pub(super) renamer: Renamer<'a>,
    pub(super) waits: NameWaits,
    /// Number of failed syncs of the store, by any task, before the first write that is not yet
    /// durable.
    pub(super) failed_syncs: u32,
}

impl Publisher<'_> {
    /// Waits for something to do.
    pub(super) fn next(&self) -> Next {
        let mut state = self.shared.lock();
        loop {
            let stopping = self.shared.is_stopping();
            if self.shared.is_overdue() {
                drop(state);
                self.tell_fence();
                return Next::End;
            }
            if self.shared.only_writes() {
                // The next controller decides; written bytes stay until then (B4).
                let waited = self.shared.publish_wake.wait_timeout(state, TICK);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                if stopping {
                    return Next::End;
                }
                continue;
            }
            if !stopping && let Some(chore) = state.chores.pop_front() {
                return Next::Chore(chore);
            }
            let now = penstock_sys::boottime_now();
            if let Some(action) = state.epochs.poll_action(now) {
                return Next::Action(action);
            }
            if stopping {
                // A lane that has got the whole of its piece still hands it in. An epoch that stays
                // sealed, its store being offline, is never clean again.
                let is_last = self.shared.lanes_ended.load(Ordering::Acquire);
                if is_last && state.epochs.is_clean() {
                    return Next::End;
                }
                state.epochs.handle_flush();
                match state.epochs.poll_action(now) {
                    Some(action) => return Next::Action(action),
                    None if is_last => return Next::End,
                    None => {}
                }
            }
            let due = state.epochs.poll_timeout().map_or(TICK, |at| at.since(now).min(TICK));
            let waited = self.shared.publish_wake.wait_timeout(state, due);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the page of a piece, with its pieces, as [`TaskContext::required_page`].
    pub(super) fn page(&self, piece: PieceRef) -> Option<std::sync::Arc<Pieces>> {
        self.shared.required_page(piece.page)
    }

    pub(super) fn chore(&mut self, chore: Work) {
        match chore {
            Work::Recheck { piece, generation, doubt, digests, failures } => {
                self.recheck(piece, generation, doubt, digests, failures);
            }
            Work::Discard { page, entry, generation } => self.discard(page, entry, generation),
            Work::Links { page } => self.links(page),
            Work::Directories { page } => self.directories(page),
            // Fetches and finishes went to their machines.
            Work::Fetch { .. } | Work::Finish { .. } => {}
        }
    }

    pub(super) fn tail_done(&self, entries: u64, report: impl FnOnce(u64) -> Report) {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let epoch = state.epochs.handle_renamed(penstock_sys::boottime_now(), 0, entries);
        self.shared.report(state, report(epoch));
    }
}
