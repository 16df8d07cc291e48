//! Syncs of the store, and the names that a failed sync revokes.

use std::sync::atomic::Ordering;

use penstock_api::task::Report;
use penstock_engine::epoch::Publication;
use penstock_engine::slice::Piece;
use penstock_store::StoreError;

use super::publisher::Publisher;
use crate::stores::access::AccessError;
use crate::stores::chain;
use crate::stores::errors::{StoreFault, is_of_store};
use crate::stores::mounts::check_mounts;
use crate::task::error::TaskError;

impl Publisher<'_> {
    /// Ends the task if its controller was deposed, or has not answered for too long.
    pub(super) fn tell_fence(&self) {
        if self.shared.is_over() {
            // The task was abandoned, which was reported.
            return;
        }
        if self.shared.grant.as_ref().is_some_and(|grant| !grant.holds()) {
            self.shared.broken(TaskError::GrantOver);
        } else if self.shared.grant.is_none()
            && let Err(problem) = self.shared.spec.fence.check()
        {
            self.shared.broken(problem);
        }
    }

    /// Syncs the store, with the marker that proves later that it happened here (A5).
    pub(super) fn sync(&mut self, epoch: u64) {
        let shared = self.shared;
        if let Err(offline) = shared.tree.target.check_identity(&shared.identity) {
            // The epoch stays sealed: nothing of it is renamed or reported, and the task ends.
            shared.broken(AccessError::gone(&shared.spec.store, offline));
            return;
        }
        if let Err(error) = check_mounts(&shared.tree.target, &shared.spec) {
            // Bytes that were not durable may be lost, even though the store is mounted again.
            self.count_failed_sync();
            shared.broken(error);
            return;
        }
        let outcome = if shared.tree.sync_nothing {
            Ok(())
        } else {
            let marked = if shared.keep_marker.load(Ordering::Acquire) {
                Ok(())
            } else {
                let writer = (shared.spec.transfer, shared.spec.writer);
                shared.tree.target.write_marker(writer, epoch)
            };
            marked.and_then(|()| shared.tree.target.sync_since(self.failed_syncs))
        };
        if let Err(short) = &outcome
            && short.is_passing()
            && shared.tree.target.failed_syncs() == self.failed_syncs
        {
            // The marker could not be written: nothing was synced, and nothing failed to be.
            shared.broken(StoreFault::short(short));
            return;
        }
        if outcome.as_ref().is_err_and(StoreError::is_fenced) {
            // No sync has failed: the epoch stays sealed, and the task ends.
            self.tell_fence();
            return;
        }
        if outcome.is_err() {
            self.count_failed_sync();
        }
        let mut guard = shared.lock();
        let state = &mut *guard;
        state.epochs.handle_synced(outcome.is_ok());
        match outcome {
            Ok(()) => shared.report(state, Report::Synced { epoch }),
            Err(error) => {
                tracing::error!(epoch, error = %chain(&error), "sync failed");
                let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
                shared.report(state, Report::SyncFailed { epoch, errno });
                state.return_all();
                drop(guard);
                if is_of_store(&shared.tree.target, &error) {
                    shared.broken(StoreFault::of_store(&error));
                }
            }
        }
    }

    /// Notes that a sync has failed, here or in another task of the same store, so that nothing
    /// counts that is not durable. Call it before the failure is reported: the next sync then finds
    /// other failures.
    fn count_failed_sync(&mut self) {
        let target = &self.shared.tree.target;
        if target.failed_syncs() == self.failed_syncs {
            // The sync was the marker's. The incarnation changes all the same.
            target.note_failed_sync();
        }
        self.failed_syncs = target.failed_syncs();
    }

    /// Handles a failed sync of a directory after the names of `pieces` were given: nothing that is
    /// not durable counts (A4). Large files are durable except for their names, which are given
    /// again.
    pub(super) fn names_not_durable(&mut self, pieces: &[Publication], error: &StoreError) {
        tracing::error!(error = %chain(error), "a directory could not be synced");
        self.count_failed_sync();
        let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
        let is_finish = |publication: &&Publication| {
            let piece = publication.piece;
            self.page(piece).is_some_and(|pieces| {
                matches!(pieces.pieces.get(piece.piece as usize), Some(Piece::Finish { .. }))
            })
        };
        let finishes: Vec<Publication> = pieces.iter().filter(is_finish).copied().collect();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let epoch = state.epochs.handle_renamed(penstock_sys::boottime_now(), pieces.len(), 0);
        state.epochs.handle_names_lost();
        finishes.into_iter().for_each(|finish| state.epochs.handle_finish(finish));
        self.shared.report(state, Report::SyncFailed { epoch, errno });
        state.return_all();
        drop(guard);
        if is_of_store(&self.shared.tree.target, error) {
            self.shared.broken(StoreFault::of_store(error));
        }
    }
}
