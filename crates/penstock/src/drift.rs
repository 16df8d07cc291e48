//! The drift of a figure over time: the slope of Theil and Sen, with an interval by order
//! statistics of all slopes between two points.
//!
//! P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, Journal of the
//! American Statistical Association 63 (1968). The variance is that of Kendall's score without
//! ties, which makes the interval wider where there are ties. It holds for points that do not
//! depend on each other. Samples of one process depend on those just before them. The points are
//! therefore medians of up to 24 blocks of samples.

use serde::Serialize;

use crate::median;

/// Most blocks. More of them would be shorter, and neighbours more alike.
const BLOCKS_MAX: usize = 24;
/// Fewest points that have an interval of 95 %.
const POINTS_MIN: usize = 6;
/// Quantile of the normal distribution for 95 %.
const Z_95: f64 = 1.96;

/// The slope of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Drift {
    /// Number of points: blocks of samples, or the samples themselves where they are few.
    pub(crate) points: usize,
    /// Median of the figure.
    pub(crate) median: f64,
    /// Change per hour.
    pub(crate) per_hour: f64,
    /// Least change per hour that the points allow, with 95 %.
    pub(crate) least: f64,
    /// Greatest change per hour that they allow.
    pub(crate) greatest: f64,
}

impl Drift {
    /// Returns the drift of samples of seconds and values; none of fewer than six.
    pub(crate) fn of(samples: &[(f64, f64)]) -> Option<Self> {
        let points = blocks(samples);
        if points.len() < POINTS_MIN {
            return None;
        }
        let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
        for (at, (begin, low)) in points.iter().enumerate() {
            let later = points[at + 1..].iter().filter(|(end, _)| end > begin);
            slopes.extend(later.map(|(end, high)| (high - low) / (end - begin) * 3600.0));
        }
        slopes.sort_by(f64::total_cmp);
        let last = slopes.len().checked_sub(1)?;
        let count = points.len() as f64;
        let spread = Z_95 * (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
        let all = slopes.len() as f64;
        // The ranks lie as far from one end as from the other.
        let high = (((all + spread) / 2.0).ceil() as usize).min(last);
        let low = last - high;
        Some(Self {
            points: points.len(),
            median: median::of(points.iter().map(|(_, value)| *value).collect())?,
            per_hour: median::of_sorted(&slopes)?,
            least: slopes[low],
            greatest: slopes[high],
        })
    }

    /// Returns whether the interval excludes that nothing changes.
    pub(crate) fn is_certain(&self) -> bool {
        self.least > 0.0 || self.greatest < 0.0
    }
}

/// Returns the medians of blocks of samples that follow each other.
fn blocks(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let length = samples.len().div_ceil(BLOCKS_MAX).max(1);
    let middle = |block: &[(f64, f64)]| {
        let seconds = median::of(block.iter().map(|(seconds, _)| *seconds).collect())?;
        let value = median::of(block.iter().map(|(_, value)| *value).collect())?;
        Some((seconds, value))
    };
    samples.chunks(length).filter_map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a leak is found with its size in spite of outliers, and noise is no drift.
    #[test]
    fn a_leak_is_found_and_noise_is_not() {
        let noise = |at: u64| ((at * 2_654_435_761) % 1000) as f64;
        let leak = |at: u64| if at % 10 == 3 { 9e6 } else { 1e5 + 2.0 * (at * 60) as f64 };
        let points = |value: &dyn Fn(u64) -> f64| -> Vec<(f64, f64)> {
            (0..100).map(|at| ((at * 60) as f64, value(at) + noise(at) / 10.0)).collect()
        };
        let leaking = Drift::of(&points(&leak)).unwrap();
        assert!((7000.0..7400.0).contains(&leaking.per_hour), "{leaking:?}");
        assert!(leaking.is_certain() && leaking.least < 7200.0 && leaking.greatest > 7200.0);
        let quiet = Drift::of(&points(&|_| 0.0)).unwrap();
        assert!(!quiet.is_certain(), "{quiet:?}");
    }

    /// Promise: samples that depend on those before them are no drift, as where a cache fills up
    /// and empties again.
    #[test]
    fn waves_are_no_drift() {
        let wave = |at: u64| (at as f64 / 40.0).sin() * 1e6;
        let points: Vec<_> = (0..1000).map(|at| ((at * 10) as f64, wave(at))).collect();
        let drift = Drift::of(&points).unwrap();
        assert!(!drift.is_certain(), "{drift:?}");
    }

    /// Promise: an exact line has its slope without a doubt, few points have no drift, and many
    /// points become blocks.
    #[test]
    fn slopes_are_exact() {
        let line = |count: u32| -> Vec<(f64, f64)> {
            (0..count).map(|at| (f64::from(at), f64::from(at) * 2.0)).collect()
        };
        assert_eq!(Drift::of(&line(5)), None);
        let drift = Drift::of(&line(6)).unwrap();
        assert_eq!((drift.per_hour, drift.least, drift.greatest), (7200.0, 7200.0, 7200.0));
        assert_eq!((drift.points, drift.median), (6, 5.0));
        assert_eq!(Drift::of(&line(2500)).unwrap().points, 24);
        assert_eq!(Drift::of(&[(1.0, 1.0); 9]), None);
    }
}
