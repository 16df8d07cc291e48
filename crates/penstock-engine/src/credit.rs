//! A balance of units that return at a rate: the arithmetic of [`crate::pace`] and
//! [`crate::token_bucket`].

use std::time::Duration;

use penstock_proto::units::Instant;

/// Parts of a unit in which the balance counts, so that nothing is rounded.
const NANOS: i128 = 1_000_000_000;

/// A balance of units. Below zero it is a debt. It can hold 10^12 units a second for 584 years.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// Units times 10^9.
    balance: i128,
    at: Instant,
}

impl Credit {
    /// Returns a balance of so many units at `now`.
    pub(crate) fn new(now: Instant, units: u64) -> Self {
        Self { balance: i128::from(units) * NANOS, at: now }
    }

    /// Returns the balance that is added in a time at `rate` units per second.
    pub(crate) fn after(now: Instant, time: Duration, rate: u64) -> Self {
        Self { balance: of_time(time, rate), at: now }
    }

    /// Adds the units that returned until `now` at `rate` units per second, up to `most`.
    pub(crate) fn settle(&mut self, now: Instant, rate: u64, most: Self) {
        let back = of_time(now.since(self.at), rate);
        self.at = self.at.max(now);
        self.balance = self.balance.saturating_add(back).min(most.balance);
    }

    /// Takes units, also such as are not there.
    pub(crate) fn take(&mut self, units: u64) {
        self.balance -= i128::from(units) * NANOS;
    }

    /// Forgets a debt or a credit.
    pub(crate) fn clear(&mut self) {
        self.balance = 0;
    }

    /// Returns whether more units were taken than have returned.
    pub(crate) fn is_debt(&self) -> bool {
        self.balance < 0
    }

    /// Returns whether less is there than in another balance.
    pub(crate) fn is_below(&self, other: Self) -> bool {
        self.balance < other.balance
    }

    /// Returns the time at `rate` until the debt is paid, had `units` fewer been taken.
    pub(crate) fn wait(&self, rate: u64, units: u64) -> Duration {
        let debt = -(self.balance + i128::from(units) * NANOS);
        let nanos = debt.max(0).unsigned_abs().div_ceil(u128::from(rate.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn of_time(time: Duration, rate: u64) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX).saturating_mul(rate.into())
}
