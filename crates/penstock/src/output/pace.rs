//! The bytes of a transfer that have come, their rate, and the time that is left.

use std::time::{Duration, Instant};

use penstock_api::transfer::Progress;

/// The time over which the shown rate, and so the time left, is smoothed.
const SMOOTHING: Duration = Duration::from_secs(5);

/// Bytes that have come so far and how fast they come, as they are shown: steady, never backwards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Bytes that need not be moved any more, those of pieces that are not whole yet among them.
    pub(crate) settled: u64,
    seen: Option<Instant>,
    /// Bytes per second times their weight, and the weight: below 1 until [`SMOOTHING`] is over.
    rate: (f64, f64),
}

impl Pace {
    /// Returns a pace with known figures, for tests of what shows them.
    #[cfg(test)]
    pub(crate) fn known(settled: u64, bytes_per_s: f64) -> Self {
        Self { settled, seen: None, rate: (bytes_per_s, 1.0) }
    }

    /// Adds the figures of a moment.
    pub(crate) fn add(&mut self, now: Instant, progress: &Progress) {
        let before = self.settled;
        self.settled = progress.bytes_settled().max(before);
        let Some(seen) = self.seen.replace(now) else { return };
        let seconds = now.saturating_duration_since(seen).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let share = 1.0 - (-seconds / SMOOTHING.as_secs_f64()).exp();
        let new = (self.settled - before) as f64 / seconds;
        self.rate.0 += share * (new - self.rate.0);
        self.rate.1 += share * (1.0 - self.rate.1);
    }

    /// Returns whether there is a rate yet: it takes two moments.
    pub(crate) fn is_known(&self) -> bool {
        self.rate.1 > 0.0
    }

    /// Bytes per second; 0 before anything has come.
    pub(crate) fn bytes_per_s(&self) -> f64 {
        if self.rate.1 > 0.0 { self.rate.0 / self.rate.1 } else { 0.0 }
    }

    /// Bytes that have moved, in this run and before.
    pub(crate) fn moved(&self, progress: &Progress) -> u64 {
        self.settled.saturating_sub(progress.bytes_skipped).max(progress.bytes)
    }

    /// The seconds that the rest takes at this rate, once the total is known.
    pub(crate) fn seconds_left(&self, progress: &Progress) -> Option<u64> {
        let rate = self.bytes_per_s();
        let rest = progress.bytes_found.saturating_sub(self.settled);
        (progress.scan_complete && rate >= 1.0).then(|| (rest as f64 / rate) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (f): bytes count as they come, not a piece at a time; the count never goes back, and
    /// ends at the total.
    #[test]
    fn bytes_count_as_they_come() {
        let at = |bytes, come, again| Progress {
            bytes,
            bytes_found: 100,
            bytes_resumed: 20,
            bytes_verified: come,
            bytes_resent: again,
            scan_complete: true,
            ..Progress::default()
        };
        let (begun, mut pace) = (Instant::now(), Pace::default());
        let steps =
            [(20, 0, 0), (20, 15, 0), (20, 40, 0), (60, 40, 0), (60, 60, 30), (100, 110, 30)];
        let shown = [20, 35, 60, 60, 60, 100];
        for ((number, (bytes, come, again)), shown) in (0_u64..).zip(steps).zip(shown) {
            let progress = at(bytes, come, again);
            pace.add(begun + Duration::from_secs(number), &progress);
            assert_eq!(pace.moved(&progress), shown, "{progress:?}");
        }
    }

    /// Promise (f): the rate is the mean of some seconds, so that it and the time left are steady
    /// though bytes come in gusts.
    #[test]
    fn the_rate_is_steady_though_bytes_come_in_gusts() {
        let (begun, mut pace) = (Instant::now(), Pace::default());
        let mut rates = Vec::new();
        for step in 0..200_u64 {
            // 5 MB in one of five steps of 0.2 s: 5 MB/s.
            let come = step / 5 * 5_000_000;
            let progress = Progress {
                bytes_verified: come,
                bytes_found: 1 << 30,
                scan_complete: true,
                ..Progress::default()
            };
            pace.add(begun + Duration::from_millis(200 * step), &progress);
            rates.push(pace.bytes_per_s());
        }
        for rate in &rates[50..] {
            assert!((4e6..6e6).contains(rate), "{rates:?}");
        }
    }
}
