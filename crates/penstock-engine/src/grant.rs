//! Grants: the time for which a target peer may write the pieces that it was given (hard case B4).
//!
//! A grant is a duration on CLOCK_BOOTTIME, never a point in time on which two hosts would have to
//! agree. The holder counts it from the moment at which it *sent* the request that was answered.
//! The granter counts from the moment at which it *answered*, and adds a margin: for clocks of
//! different speeds, and for a write of at most 4 MiB that began while the grant held. The holder
//! has therefore always stopped before the granter gives its pieces to another peer. A grant cannot
//! stop a thread that is paused between the check and the write; the names and generations of
//! temporary files make that harmless (B1).

use std::time::Duration;

use penstock_proto::units::Instant;

/// Duration of a grant unless a site configures another.
pub const GRANT_DURATION: Duration = Duration::from_secs(60);
/// Divisor of the duration that yields the granter's margin.
const MARGIN_PART: u32 = 8;
/// Least margin.
const MARGIN_FLOOR: Duration = Duration::from_millis(250);

/// Returns the time after which a grant of `duration` that was given or renewed now has surely
/// ended.
pub fn lapse_after(duration: Duration) -> Duration {
    let lapse = duration + (duration / MARGIN_PART).max(MARGIN_FLOOR);
    debug_assert!(lapse > duration, "the holder stops before others begin (B4)");
    lapse
}

/// A grant as its holder counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldGrant {
    duration: Duration,
    until: Instant,
}

impl HeldGrant {
    /// Returns a grant of `duration` that was asked for at `asked`, and given.
    pub fn new(duration: Duration, asked: Instant) -> Self {
        Self { duration, until: asked.plus(duration) }
    }

    /// Renews the grant from `asked`, when the answered request was sent. A grant that has run out
    /// is not renewed: the granter may have given the pieces to another peer.
    pub fn renew(&mut self, asked: Instant, now: Instant) {
        debug_assert!(asked <= now, "an answer came before its request");
        if self.holds(now) {
            self.until = self.until.max(asked.plus(self.duration));
        }
    }

    /// Returns whether the peer may write now.
    pub fn holds(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Returns the time until which it holds, if it is not renewed.
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// A grant as its controller counts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenGrant {
    duration: Duration,
    lapses: Instant,
}

impl GivenGrant {
    pub(crate) fn new(duration: Duration, now: Instant) -> Self {
        let mut grant = Self { duration, lapses: now };
        grant.renew(now);
        grant
    }

    /// Renews the grant: the peer is answered now.
    pub(crate) fn renew(&mut self, now: Instant) {
        self.lapses = self.lapses.max(now.plus(lapse_after(self.duration)));
        debug_assert!(self.lapses >= now.plus(self.duration), "it lapses while the holder writes");
    }

    /// Returns the time from which others may be given the peer's pieces.
    pub(crate) fn lapses(&self) -> Instant {
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

    /// B4: for any delays of a request and its answer, the holder has stopped before the granter
    /// gives its pieces to another.
    #[test]
    fn b4_the_holder_stops_before_the_granter_gives_again() {
        for (there, back) in [(0, 0), (1, 400), (400, 1), (700, 700)] {
            let given = GivenGrant::new(SECOND, at(there));
            let mut held = HeldGrant::new(SECOND, at(0));
            held.renew(at(0), at(there + back));
            assert!(held.until() < given.lapses());
        }
    }

    /// B4: a grant that has run out does not come to life by a late answer.
    #[test]
    fn b4_a_late_answer_renews_nothing() {
        let mut held = HeldGrant::new(SECOND, at(0));
        held.renew(at(900), at(1000));
        assert!(!held.holds(at(1000)));
        let mut held = HeldGrant::new(SECOND, at(0));
        held.renew(at(900), at(950));
        assert!(held.holds(at(1899)) && !held.holds(at(1900)));
    }
}
