//! The uncommitted reports that a task leaves to another controller (A7).
//!
//! A controller that stops a task has its reports, and commits them. A controller that dies, or
//! whose tenure is over, cannot: the writes since its last commit would be unknown. A task that
//! shares a transfer therefore keeps these reports. The next task of the same transfer and writer
//! reports them to the new controller, if its incarnation is the same. The incarnation is the
//! process, the mount, and the absence of a failed sync since.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_api::task::{Adopted, Report, TaskSpec};
use penstock_engine::uncommitted::UncommittedReports;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::journal::Incarnation;

/// Number of handovers that are kept. The oldest is dropped beyond it, and its pieces are fetched
/// again.
const LEFT_MAX: usize = 64;

/// Reports that no controller has committed, if another controller might need them.
pub(crate) struct TaskReports {
    keeps: AtomicBool,
    reports: Mutex<UncommittedReports>,
}

impl TaskReports {
    pub(crate) fn new(keeps: bool) -> Self {
        Self { keeps: AtomicBool::new(keeps), reports: Mutex::default() }
    }

    pub(super) fn reports(&self) -> MutexGuard<'_, UncommittedReports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handle_reported(&self, reports: &[Report]) {
        if self.keeps.load(Ordering::Acquire) {
            self.reports().handle_reported(reports);
        }
    }

    /// See [`penstock_api::task::Task::committed`].
    pub(crate) fn handle_committed(&self, batches: u64) {
        self.reports().handle_committed(batches);
    }

    /// Ends the record. Called when the task ends in order, or when its pieces belong to another
    /// peer.
    pub(crate) fn end(&self) {
        self.keeps.store(false, Ordering::Release);
        self.reports().clear();
    }
}

/// The uncommitted reports of one ended task.
pub(crate) struct Handover {
    pub(super) transfer: TransferId,
    pub(super) writer: WriterId,
    pub(super) incarnation: Incarnation,
    pub(super) adopted: Adopted,
}

impl Handover {
    /// Returns the reports if they count for a task that begins under the incarnation `now`.
    pub(crate) fn under(self, now: &Incarnation) -> Option<Adopted> {
        (self.incarnation == *now).then_some(self.adopted)
    }
}

/// Handovers of tasks that have ended without a grant.
#[derive(Default)]
pub(crate) struct Handovers(Mutex<Vec<Handover>>);

impl Handovers {
    fn list(&self) -> MutexGuard<'_, Vec<Handover>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, left: Handover) {
        let mut list = self.list();
        list.retain(|it| (it.transfer, it.writer) != (left.transfer, left.writer));
        if list.len() >= LEFT_MAX {
            list.remove(0);
        }
        list.push(left);
    }

    /// Returns how many are kept.
    pub(crate) fn kept(&self) -> usize {
        self.list().len()
    }

    /// Takes the handover of the last task of this transfer and writer.
    pub(crate) fn take(&self, spec: &TaskSpec) -> Option<Handover> {
        let mut list = self.list();
        let of = |it: &Handover| (it.transfer, it.writer) == (spec.transfer, spec.writer);
        let at = list.iter().position(of)?;
        Some(list.remove(at))
    }
}
