//! The grant of one task: until when it may write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use penstock_engine::lease::HeldLease;
use penstock_proto::units::Instant;

/// The permission of a task to write. Each write checks it, at the cost of a read of the clock.
pub(crate) struct Grant {
    duration: Duration,
    lease: HeldLease,
    asked: AtomicU64,
    /// Time of the last request for work.
    wanted: AtomicU64,
    /// Time of the last return of pieces.
    gave: AtomicU64,
}

impl Grant {
    /// Records that the task returned work at `now`.
    pub(super) fn note_given(&self, now: Instant) {
        self.gave.store(now.0, Ordering::Release);
    }

    /// Notes that work was asked for at `now`.
    pub(super) fn note_asked(&self, now: Instant) {
        self.wanted.store(now.0, Ordering::Release);
    }

    /// Creates a grant that was asked for at `asked`.
    pub(crate) fn new(duration: Duration, asked: Instant) -> Self {
        let lease = HeldLease::new(asked, duration);
        let (wanted, asked) = (AtomicU64::new(asked.0), AtomicU64::new(asked.0));
        Self { duration, lease, asked, wanted, gave: AtomicU64::new(0) }
    }

    /// Creates the grant of the controller's own task where other peers share the transfer. It has
    /// no end, and its task returns pieces like any other.
    pub(crate) fn endless() -> Self {
        Self::new(Duration::MAX, penstock_sys::boottime_now())
    }

    /// Returns whether the task may write now.
    pub(crate) fn holds(&self) -> bool {
        self.lease.holds(penstock_sys::boottime_now())
    }

    /// Extends the grant from `asked`, the time of a request that was answered. A grant that has
    /// run out stays so, since its pieces may belong to another peer.
    pub(crate) fn renew(&self, asked: Instant) {
        let now = penstock_sys::boottime_now();
        if self.lease.holds(now) {
            self.lease.renew(asked, self.duration, now);
            self.asked.fetch_max(asked.0, Ordering::AcqRel);
        }
    }

    /// Returns whether the grant must be renewed.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now.since(Instant(self.asked.load(Ordering::Acquire))) >= self.duration / RENEWALS
    }

    /// Returns whether returned pieces are still reserved for the peer that wanted them.
    pub(super) fn has_just_given(&self, now: Instant) -> bool {
        now.since(Instant(self.gave.load(Ordering::Acquire))) < LEFT_FOR
    }

    /// Returns whether the controller must be asked for work, needed or not. The answer lets the
    /// controller take back pieces that another peer would finish sooner.
    pub(super) fn is_to_ask(&self, now: Instant, idle: bool) -> bool {
        let pause = if idle { self.duration / RENEWALS } else { ASK_INTERVAL };
        let last = Instant(self.wanted.load(Ordering::Acquire));
        now.since(last) >= pause
    }
}

/// A grant is renewed this often in its duration.
const RENEWALS: u32 = 4;

/// Interval at which a task with pieces asks for work, even if it can take no more.
const ASK_INTERVAL: Duration = Duration::from_millis(200);

/// Time for which a task that returned pieces asks for none, if it has enough to do. It would get
/// the same pieces again.
const LEFT_FOR: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    /// B4: a grant is counted from the request, and does not come to life by a late answer.
    #[test]
    fn b4_a_late_answer_renews_nothing() {
        let minute = Duration::from_secs(60);
        let now = penstock_sys::boottime_now();
        let grant = Grant::new(minute, now);
        assert!(grant.holds() && !grant.is_due(now.plus(minute / 8)));
        assert!(grant.is_due(now.plus(minute / 4)));
        let long_ago = Instant(now.0.saturating_sub(minute.as_nanos() as u64));
        let over = Grant::new(minute, long_ago);
        assert!(!over.holds());
        over.renew(now);
        assert!(!over.holds(), "another may have what it was for");
    }
}
