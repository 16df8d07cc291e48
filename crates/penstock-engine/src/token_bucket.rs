//! Token buckets: limits of the rate of events that may come in bursts, such as handshakes.
//!
//! Each event takes a token, and tokens return at a fixed rate, up to a burst. An event without a
//! token waits for its own. An event that would wait for longer than its patience is refused, and
//! takes no token. So a bucket owes at most the patience times the rate, and events keep their
//! order.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use penstock_proto::units::Instant;

use crate::credit::Credit;

/// The limit of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimit {
    /// Events per second in the long run; at least 1.
    pub per_second: u32,
    /// Events at once after a pause.
    pub burst: u32,
    /// Longest wait of an event.
    pub patience: Duration,
}

impl TokenLimit {
    fn full(&self, now: Instant) -> Credit {
        Credit::new(now, self.burst.into())
    }

    fn settle(&self, tokens: &mut Credit, now: Instant) {
        tokens.settle(now, self.rate(), self.full(now));
    }

    fn rate(&self) -> u64 {
        self.per_second.max(1).into()
    }

    /// Takes a token, unless it would have to be waited for beyond the patience.
    fn take(&self, tokens: &mut Credit, now: Instant) -> Option<Duration> {
        self.settle(tokens, now);
        let mut left = *tokens;
        left.take(1);
        let wait = left.wait(self.rate(), 0);
        if wait > self.patience {
            return None;
        }
        *tokens = left;
        Some(wait)
    }
}

/// Buckets of one limit, one for each source of events.
#[derive(Debug)]
pub struct TokenBuckets<K> {
    limit: TokenLimit,
    sources_max: usize,
    /// The tokens of each source; below zero those that are owed.
    of: HashMap<K, Credit>,
}

impl<K: Eq + Hash> TokenBuckets<K> {
    /// Creates full buckets of this limit for as many sources as come. At most `sources_max` are
    /// remembered. Beyond that, full ones are forgotten first, then all.
    pub fn new(limit: TokenLimit, sources_max: usize) -> Self {
        Self { limit, sources_max, of: HashMap::new() }
    }

    /// Takes a token for an event of a source. Returns the time that the event has to wait, zero if
    /// none; `None` if it is refused.
    pub fn take(&mut self, now: Instant, source: K) -> Option<Duration> {
        let limit = self.limit;
        if self.of.len() >= self.sources_max && !self.of.contains_key(&source) {
            self.of.retain(|_, tokens| {
                limit.settle(tokens, now);
                tokens.is_below(limit.full(now))
            });
            if self.of.len() >= self.sources_max {
                self.of.clear();
            }
        }
        limit.take(self.of.entry(source).or_insert(limit.full(now)), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: TokenLimit =
        TokenLimit { per_second: 10, burst: 20, patience: Duration::from_secs(2) };

    /// Promise: a burst does not wait, later events are admitted at the rate, and an event that
    /// would wait too long is refused without a cost. Other sources are not affected.
    #[test]
    fn a_burst_is_free_and_the_rest_comes_at_the_rate() {
        let mut buckets = TokenBuckets::new(LIMIT, 100);
        let now = Instant(0);
        for _ in 0..20 {
            assert_eq!(buckets.take(now, "a"), Some(Duration::ZERO));
        }
        for at in 1..=20 {
            assert_eq!(buckets.take(now, "a"), Some(Duration::from_millis(100 * at)));
        }
        for _ in 0..1000 {
            assert_eq!(buckets.take(now, "a"), None);
        }
        assert_eq!(buckets.take(now, "b"), Some(Duration::ZERO));
        let later = now.plus(Duration::from_secs(2));
        assert_eq!(buckets.take(later, "a"), Some(Duration::from_millis(100)));
        let rested = later.plus(Duration::from_secs(3600));
        let free = (0..1000).filter(|_| buckets.take(rested, "a") == Some(Duration::ZERO));
        assert_eq!(free.count(), 20, "a long pause gives one burst");
    }

    /// Promise (g): memory does not grow with the number of sources.
    #[test]
    fn sources_without_a_debt_are_forgotten() {
        let mut buckets = TokenBuckets::new(LIMIT, 100);
        for source in 0..10_000u32 {
            assert!(buckets.take(Instant(u64::from(source) * 1_000_000_000), source).is_some());
            assert!(buckets.of.len() <= 100);
        }
        for source in 0..1000u32 {
            assert!(buckets.take(Instant(u64::MAX / 2), source).is_some());
            assert!(buckets.of.len() <= 100);
        }
    }
}
