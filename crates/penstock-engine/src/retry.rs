//! Delays before retries: decorrelated jitter, so that many peers that failed at the same moment do
//! not return at the same moment (hard case E4).
//!
//! Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015. Each delay is
//! drawn between the least delay and three times the one before.

use std::time::Duration;

use rand::{Rng, RngExt as _};

/// Draws growing delays until [`Backoff::reset`].
#[derive(Clone, Debug)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    last: Duration,
}

impl Backoff {
    /// Returns delays between `least` and `most`.
    pub fn new(least: Duration, most: Duration) -> Self {
        Self { least, most, last: least }
    }

    /// Returns the next delay.
    pub fn next(&mut self, rng: &mut impl Rng) -> Duration {
        let ceiling = (self.last * 3).min(self.most).max(self.least);
        let spread = (ceiling - self.least).as_nanos() as u64;
        self.last = self.least + Duration::from_nanos(rng.random_range(0..=spread));
        debug_assert!(self.last >= self.least && self.last <= self.most.max(self.least));
        self.last
    }

    /// Resets the delay after a success: the next one starts small again.
    pub fn reset(&mut self) {
        self.last = self.least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    /// Promise (f): no wait is longer than the bound, and waits do grow.
    #[test]
    fn delays_grow_and_stay_bounded() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(10));
        let mut backoff = Backoff::new(least, most);
        let delays: Vec<_> = (0..50).map(|_| backoff.next(&mut rng)).collect();
        assert!(delays.iter().all(|delay| (least..=most).contains(delay)));
        assert!(delays[10..].iter().max() > Some(&Duration::from_secs(2)));
        backoff.reset();
        assert!(backoff.next(&mut rng) <= least * 3);
    }
}
