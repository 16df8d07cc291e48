//! The session of one peer in a run: the calls of its task, and the state kept for it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::fence::Fence;
use penstock_api::peers::Peers;
use penstock_api::problem::Problem;
use penstock_api::task::{LeaseStatus, Report, TaskControl, TaskPage, WorkReply};
use penstock_engine::transfer::Phase;
use penstock_proto::id::PeerNumber;

use super::shared::RunShared;
use super::temp_cleanup::touched_pages::PagesTouched;
use crate::flight::Grants;

/// The run as the task of one peer sees it.
pub(crate) struct PeerSession {
    shared: Arc<RunShared>,
    peers: Arc<dyn Peers>,
    pub(crate) number: PeerNumber,
    /// A deposed controller hands out no work and renews no grant. Its successor therefore waits
    /// only for grants that were issued before (B4).
    fence: Fence,
    /// Set once the machine knows the peer; before that its task gets no work.
    joined: AtomicBool,
    over: AtomicBool,
    /// Number of batches of reports that the machine has accepted.
    reported: AtomicU64,
    /// Work that the task got and that is not recorded yet.
    grants: Mutex<Grants>,
    broken: Mutex<Option<Problem>>,
    /// The pages in which other peers may have to clean up after this one.
    pages: Option<Mutex<PagesTouched>>,
}

impl PeerSession {
    pub(crate) fn new(
        shared: &Arc<RunShared>,
        peers: &Arc<dyn Peers>,
        number: PeerNumber,
        fence: Fence,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            peers: Arc::clone(peers),
            number,
            fence,
            joined: AtomicBool::new(false),
            over: AtomicBool::new(false),
            reported: AtomicU64::new(0),
            grants: Mutex::default(),
            broken: Mutex::new(None),
            pages: peers.grant().map(|_| Mutex::default()),
        }
    }

    /// Lets the task of the peer receive work from now on.
    pub(crate) fn join(&self) {
        self.joined.store(true, Ordering::Release);
    }

    /// Ends the session: later calls of its task are ignored.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Returns how many batches of reports the machine knows: a commit taken from now on includes
    /// them.
    pub(crate) fn reported(&self) -> u64 {
        self.reported.load(Ordering::Acquire)
    }

    /// Returns the work that the task got since the last call.
    pub(crate) fn take_grants(&self) -> Grants {
        std::mem::take(&mut self.grants.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records the peer's reports of its writes for an earlier controller.
    pub(crate) fn note_adopted(&self, reports: &[Report]) {
        self.touch(|touched| touched.handle_adopted(reports));
    }

    /// Returns whether calls of the task are ignored.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Returns the error that the task has reported as its end, once.
    pub(crate) fn take_broken(&self) -> Option<Problem> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Forgets pages that are complete.
    pub(crate) fn forget(&self, pages: &BTreeSet<u32>) {
        self.touch(|touched| pages.iter().for_each(|page| touched.handle_complete(*page)));
    }

    /// Returns those of the pages about to be complete in which the peer may have left something.
    pub(crate) fn left_in(&self, complete: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut left = BTreeSet::new();
        self.touch(|touched| left = touched.left_in(complete, self.is_over()));
        left
    }

    /// Takes the pages in which the peer may have left temporary files.
    pub(crate) fn take_pages(&self) -> BTreeSet<u32> {
        let mut taken = BTreeSet::new();
        self.touch(|touched| taken = touched.take());
        taken
    }

    fn touch(&self, change: impl FnOnce(&mut PagesTouched)) {
        if let Some(touched) = &self.pages {
            change(&mut touched.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn takes_part(&self) -> bool {
        self.joined.load(Ordering::Acquire) && !self.over.load(Ordering::Acquire)
    }
}

impl TaskControl for PeerSession {
    fn want(&self, bytes: u64) -> WorkReply {
        if !self.takes_part() || !self.fence.holds() {
            return WorkReply::default();
        }
        let reply = {
            let mut machine = self.shared.machine();
            if machine.phase() == Phase::Directories && self.shared.failed_links.get().is_none() {
                // The run is about to find them out; the peer asks again.
                machine.handle_alive(self.number, self.peers.now());
                return WorkReply::default();
            }
            let before = machine.bytes_in_hand(self.number);
            let reply = machine.poll_work(self.number, bytes, self.peers.now());
            if !reply.work.is_empty() {
                let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
                grants.count += 1;
                grants.pieces += reply.work.len() as u64;
                grants.bytes += machine.bytes_in_hand(self.number).saturating_sub(before);
            }
            reply
        };
        if !reply.work.is_empty() {
            self.touch(|touched| touched.handle_work(&reply.work));
            // The window may have room for another page now.
            self.shared.notify();
        }
        reply
    }

    fn page(&self, number: u32) -> Result<TaskPage, Problem> {
        self.shared.read_page(number)
    }

    fn has_failed(&self, path: &[u8]) -> bool {
        self.shared.failed_links.get().is_some_and(|failed| failed.hold(path))
    }

    fn may_have_failed(&self) -> bool {
        self.shared.failed_links.get().is_none_or(|failed| !failed.is_empty())
    }

    fn report(&self, reports: Vec<Report>) {
        if self.takes_part() {
            let now = self.peers.now();
            self.touch(|touched| touched.handle_reports(&reports));
            self.shared.machine().handle_reports(self.number, reports, now);
            self.shared.notify();
        }
        self.reported.fetch_add(1, Ordering::AcqRel);
    }

    fn broken(&self, problem: Problem) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
        self.shared.notify();
    }

    fn alive(&self) -> LeaseStatus {
        if self.over.load(Ordering::Acquire) {
            return LeaseStatus::Over;
        }
        if !self.joined.load(Ordering::Acquire) || !self.fence.holds() {
            return LeaseStatus::Unheard;
        }
        let mut machine = self.shared.machine();
        machine.handle_alive(self.number, self.peers.now());
        if machine.is_joined(self.number) { LeaseStatus::Granted } else { LeaseStatus::Over }
    }
}
