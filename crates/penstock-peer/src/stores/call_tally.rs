//! Counts the calls to one store that may hang.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use penstock_proto::id::Name;

/// Calls to one store since the process began.
#[derive(Debug, Default)]
pub(crate) struct CallTally {
    answered: AtomicU64,
    took_ns: AtomicU64,
    unanswered: AtomicU64,
}

/// Figures of the calls to one store: looks at it, and questions before work begins there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFigures {
    /// The store.
    pub store: Name,
    /// Calls that were answered, since the process began.
    pub answered: u64,
    /// Time that these took, all together.
    pub took: Duration,
    /// Calls that took longer than they may, since the process began.
    pub unanswered: u64,
    /// Threads that hang in the store now.
    pub hanging: usize,
    /// Looks that are under way.
    pub looks: usize,
    /// Threads that wait for other looks to end.
    pub waiting: usize,
}

impl CallTally {
    pub(crate) fn count_answer(&self, took: Duration) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.took_ns.fetch_add(took, Ordering::Relaxed);
    }

    pub(crate) fn count_unanswered(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the figures of a store in which `hanging` threads hang, with its looks that are
    /// under way and that wait.
    pub(super) fn figures(
        &self,
        store: &Name,
        hanging: usize,
        (looks, waiting): (usize, usize),
    ) -> StoreFigures {
        StoreFigures {
            store: store.clone(),
            answered: self.answered.load(Ordering::Relaxed),
            took: Duration::from_nanos(self.took_ns.load(Ordering::Relaxed)),
            unanswered: self.unanswered.load(Ordering::Relaxed),
            hanging,
            looks,
            waiting,
        }
    }
}
