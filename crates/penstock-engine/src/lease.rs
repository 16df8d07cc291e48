//! Leases: rights that are granted for a time (hard case B4).
//!
//! | kind | allows its holder to |
//! |---|---|
//! | tenure | act as the controller of its site |
//! | grant | write the pieces that a target peer was given |
//! | deletion | delete the items of one request |
//! | scan | list one data set at its source, hash and remove files of it |
//!
//! A lease is a duration on CLOCK_BOOTTIME, never a point in time on which two hosts would have to
//! agree. The holder counts it from the moment at which it *sent* the question that was answered.
//! The granter counts from the moment at which it *answered*, and adds a margin: for clocks of
//! different speeds, and for a write of at most 4 MiB that began while the lease held. The holder
//! has therefore always stopped before the granter grants the same right to another peer. A lease
//! cannot stop a thread that is paused between the check and the write; the names and generations
//! of temporary files make that harmless (B1).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use penstock_proto::units::Instant;

/// Duration of a grant unless a site configures another.
pub const GRANT_DURATION: Duration = Duration::from_secs(60);
/// Divisor of the duration that yields the granter's margin.
const MARGIN_PART: u32 = 8;
/// Least margin.
const MARGIN_FLOOR: Duration = Duration::from_millis(250);

/// Returns the time after which a lease of `duration` that was given or renewed now has surely
/// ended.
pub fn lapse_after(duration: Duration) -> Duration {
    let lapse = duration + (duration / MARGIN_PART).max(MARGIN_FLOOR);
    debug_assert!(lapse > duration, "the holder stops before others begin (B4)");
    lapse
}

/// Returns the interval at which a holder asks whether its lease still holds. The interval is a
/// quarter of `left`, the remaining time in the last answer.
pub fn beat(left: Duration) -> Duration {
    (left / 4).clamp(Duration::from_millis(100), Duration::from_secs(2))
}

/// A lease as its holder counts it. A lease that was once found to be over stays so: the granter
/// may have given the same right to another peer.
#[derive(Debug)]
pub struct HeldLease {
    until: AtomicU64,
    over: AtomicBool,
}

impl HeldLease {
    /// Returns a lease that was asked for at `asked`, and given for `holds_for`.
    pub fn new(asked: Instant, holds_for: Duration) -> Self {
        Self::ending_at(asked.plus(holds_for))
    }

    /// Returns a lease that ends at `until`.
    pub fn ending_at(until: Instant) -> Self {
        Self { until: AtomicU64::new(until.0), over: AtomicBool::new(false) }
    }

    /// Renews the lease for `holds_for` from `asked`, when the answered question was sent.
    pub fn renew(&self, asked: Instant, holds_for: Duration, now: Instant) {
        debug_assert!(asked <= now, "an answer came before its question");
        if self.holds(now) {
            self.until.fetch_max(asked.plus(holds_for).0, Ordering::AcqRel);
        }
    }

    /// Sets the end, also to an earlier one. Does not bring back a lease that is over.
    pub fn set_until(&self, until: Instant) {
        self.until.store(until.0, Ordering::Release);
    }

    /// Ends the lease for good.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Returns whether the holder may act now.
    pub fn holds(&self, now: Instant) -> bool {
        if self.over.load(Ordering::Acquire) {
            return false;
        }
        let holds = now < self.until();
        if !holds {
            self.end();
        }
        holds
    }

    /// Returns the time until which it holds, if it is neither renewed nor ended.
    pub fn until(&self) -> Instant {
        Instant(self.until.load(Ordering::Acquire))
    }
}

/// A lease as its granter counts it.
#[derive(Clone, Copy, Debug)]
pub struct GivenLease {
    holds_for: Duration,
    lapses: Instant,
}

impl GivenLease {
    /// Returns a lease that is given now.
    pub fn new(holds_for: Duration, now: Instant) -> Self {
        let mut lease = Self::unclaimed(holds_for);
        lease.renew(now);
        lease
    }

    /// Returns a lease about which its holder has not asked, and which allows no action so far.
    pub fn unclaimed(holds_for: Duration) -> Self {
        Self { holds_for, lapses: Instant(0) }
    }

    /// Renews the lease: the holder is answered now. Returns the duration to answer.
    pub fn renew(&mut self, now: Instant) -> Duration {
        self.lapses = self.lapses.max(now.plus(lapse_after(self.holds_for)));
        debug_assert!(self.lapses >= now.plus(self.holds_for), "it lapses while its holder acts");
        self.holds_for
    }

    /// Returns the time from which others may be given the same right.
    pub fn lapses(&self) -> Instant {
        self.lapses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(milliseconds: u64) -> Instant {
        Instant(milliseconds * 1_000_000)
    }

    /// B4: for any delays of a question and its answer, the holder has stopped before the granter
    /// grants the right to another.
    #[test]
    fn b4_the_holder_stops_before_the_granter_gives_again() {
        for (there, back) in [(0, 0), (1, 400), (400, 1), (700, 700)] {
            let given = GivenLease::new(SECOND, at(there));
            let held = HeldLease::new(at(0), SECOND);
            held.renew(at(0), SECOND, at(there + back));
            assert!(held.until() < given.lapses());
        }
    }

    /// B4: a lease that has run out does not come to life by a late answer.
    #[test]
    fn b4_a_late_answer_renews_nothing() {
        let held = HeldLease::new(at(0), SECOND);
        held.renew(at(900), SECOND, at(1000));
        assert!(!held.holds(at(1000)));
        let held = HeldLease::new(at(0), SECOND);
        held.renew(at(900), SECOND, at(950));
        assert!(held.holds(at(1899)) && !held.holds(at(1900)));
    }

    /// B4: an expired lease stays expired, whatever message arrives later, and by any clock.
    #[test]
    fn b4_a_lease_that_was_over_stays_so() {
        let held = HeldLease::new(at(0), SECOND);
        assert!(held.holds(at(999)));
        held.set_until(at(500));
        assert!(!held.holds(at(999)));
        held.set_until(at(5000));
        assert!(!held.holds(at(0)));
        let ended = HeldLease::ending_at(at(5000));
        ended.end();
        assert!(!ended.holds(at(0)));
    }

    /// B1: no granter waits for a lease about which its holder has not asked.
    #[test]
    fn b1_an_unclaimed_lease_has_lapsed() {
        let mut lease = GivenLease::unclaimed(SECOND);
        assert!(lease.lapses() <= at(0));
        assert_eq!(lease.renew(at(10)), SECOND);
        assert!(lease.lapses() > at(1010));
    }
}
