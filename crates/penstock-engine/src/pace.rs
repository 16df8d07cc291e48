//! A rate limit: a token bucket that lets its users go into debt and returns the wait until the
//! debt is paid.
//!
//! A user charges its finished work (bytes read, names made) and waits for its ticket to be paid
//! before it does more. Tickets are paid in their order. No figure is rounded: over any time the
//! paid units are at most the rate times that time, and [`BURST`] more after a pause. The debt is
//! at most one charge of each user.

use std::time::Duration;

use penstock_proto::units::Instant;

use crate::credit::Credit;

/// Credit of an idle time: after a pause this much of the rate comes at once. A store or a busy
/// host that stalls for less loses nothing of the rate.
pub const BURST: Duration = Duration::from_millis(250);

/// Receipt for the units that a user took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// A rate in units per second, or none.
#[derive(Debug)]
pub struct Pace {
    /// Units per second; 0 for no limit.
    rate: u64,
    credit: Credit,
    /// Units taken in all.
    taken: u64,
}

impl Pace {
    /// Returns a pace without credit; `rate` is in units per second, and 0 is no limit.
    pub fn new(now: Instant, rate: u64) -> Self {
        Self { rate, credit: Credit::new(now, 0), taken: 0 }
    }

    /// Sets another rate. A debt remains, and is paid at the new rate.
    pub fn set_rate(&mut self, now: Instant, rate: u64) {
        self.settle(now);
        self.rate = rate;
        if rate == 0 {
            self.credit.clear();
        }
    }

    /// Takes units that were just used, or are about to be.
    pub fn take(&mut self, now: Instant, units: u64) -> Ticket {
        self.settle(now);
        self.taken = self.taken.wrapping_add(units);
        if self.rate > 0 {
            self.credit.take(units);
        }
        Ticket(self.taken)
    }

    /// Returns the time until the units of a ticket are paid; zero if they are.
    pub fn wait(&mut self, now: Instant, ticket: Ticket) -> Duration {
        self.settle(now);
        if self.rate == 0 {
            return Duration::ZERO;
        }
        self.credit.wait(self.rate, self.taken.wrapping_sub(ticket.0))
    }

    /// Returns whether more was taken than is paid, so that a user that takes now has to wait.
    pub fn is_in_debt(&mut self, now: Instant) -> bool {
        self.settle(now);
        self.rate > 0 && self.credit.is_debt()
    }

    fn settle(&mut self, now: Instant) {
        self.credit.settle(now, self.rate, Credit::after(now, BURST, self.rate));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Promise: a limit that is set while a user waits counts from then on, for that user too.
    #[test]
    fn another_rate_counts_at_once() {
        let mut pace = Pace::new(Instant(0), 100);
        let ticket = pace.take(Instant(0), 1000);
        assert_eq!(pace.wait(Instant(0), ticket), Duration::from_secs(10));
        pace.set_rate(Instant(5 * SECOND), 1000);
        assert_eq!(pace.wait(Instant(5 * SECOND), ticket), Duration::from_millis(500));
        pace.set_rate(Instant(5 * SECOND), 0);
        assert_eq!(pace.wait(Instant(5 * SECOND), ticket), Duration::ZERO);
        assert!(!pace.is_in_debt(Instant(5 * SECOND)));
    }

    proptest! {
        /// Promise: users that wait as ordered reach the rate exactly. Over any time they never
        /// exceed it by more than each takes at a time, and one burst.
        #[test]
        fn the_rate_is_held_exactly(
            rate in 1_000u64..20_000_000_000,
            units in proptest::collection::vec(1u64..2_000_000, 1..8),
            idle_ms in proptest::collection::vec(0u64..400, 1..6),
        ) {
            let mut pace = Pace::new(Instant(0), rate);
            let mut now = Instant(0);
            let mut log: Vec<(Instant, u64)> = Vec::new();
            let most: u64 = units.iter().sum();
            for idle in idle_ms {
                now = now.plus(Duration::from_millis(idle));
                let begun = now;
                let mut taken = 0;
                // All users at once, each waits for its own ticket, in the order they came.
                for _ in 0..20 {
                    let tickets: Vec<_> = units.iter().map(|&units| {
                        log.push((now, units));
                        taken += units;
                        pace.take(now, units)
                    }).collect();
                    for ticket in tickets {
                        now = now.plus(pace.wait(now, ticket));
                        prop_assert_eq!(pace.wait(now, ticket), Duration::ZERO);
                    }
                }
                let burst = (u128::from(rate) * BURST.as_nanos() / 1_000_000_000) as u64 + 1;
                let ideal = u128::from(taken.saturating_sub(burst)) * 1_000_000_000
                    / u128::from(rate);
                let passed = now.since(begun).as_nanos();
                prop_assert!(passed >= ideal, "too fast");
                let latest = u128::from(taken) * 1_000_000_000 / u128::from(rate) + 1_000;
                prop_assert!(passed <= latest, "too slow: {passed} ns of {latest}");
            }
            for (at, (from, _)) in log.iter().enumerate() {
                let mut sum = 0u128;
                for (when, units) in &log[at..] {
                    sum += u128::from(*units);
                    let time = when.since(*from) + BURST;
                    let allowed = u128::from(rate) * time.as_nanos() / 1_000_000_000 + 1;
                    prop_assert!(sum <= allowed + u128::from(most), "more than the rate");
                }
            }
        }
    }
}
