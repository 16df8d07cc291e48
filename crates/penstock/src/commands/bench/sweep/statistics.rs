//! Medians and their intervals, without any assumption on how values are spread.

use crate::median;

/// Least part of cases in which an interval has to cover the true median.
const COVER_MIN: f64 = 0.95;

/// A median, and the interval of order statistics that covers the true one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Median {
    pub(super) value: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
    /// Least and greatest value of the interval; none below six values.
    pub(super) interval: Option<(f64, f64)>,
}

impl Median {
    /// Returns the median of some values; none of no values.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let value = median::of_sorted(&sorted)?;
        let interval = interval(sorted.len());
        let interval = interval.map(|(rank, _)| (sorted[rank - 1], sorted[sorted.len() - rank]));
        Some(Self { value, least, greatest, interval })
    }
}

/// Returns the greatest rank k such that the k-th least and the k-th greatest of so many values
/// cover the median in 95 % of cases at least, with the true part; none where even the ends do not.
///
/// The number of values below the median has a binomial distribution with one half (H. A. David and
/// H. N. Nagaraja, Order Statistics, 2003, 7.1).
pub(super) fn interval(count: usize) -> Option<(usize, f64)> {
    let mut found = None;
    // Probability of exactly `below` values below the median, and of at most as many.
    let mut exactly = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut at_most = 0.0;
    for below in 0..count / 2 {
        at_most += exactly;
        let cover = 1.0 - 2.0 * at_most;
        if cover < COVER_MIN {
            break;
        }
        found = Some((below + 1, cover));
        exactly *= (count - below) as f64 / (below + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: intervals are the known ones: none below six values, the ends for six to eight, the
    /// second of each end for nine.
    #[test]
    fn intervals_are_exact() {
        assert!((0..6).all(|count| interval(count).is_none()));
        for (count, rank, cover) in [(6, 1, 0.96875), (8, 1, 0.992_187_5), (9, 2, 0.960_937_5)] {
            let found = interval(count).unwrap();
            assert!(found.0 == rank && (found.1 - cover).abs() < 1e-12, "{count}: {found:?}");
        }
    }

    /// Promise: a median is the middle value, or the mean of the two; nothing is dropped.
    #[test]
    fn medians_are_right() {
        assert_eq!(Median::of(&[]), None);
        let three = Median::of(&[84.0, 82.4, 80.0]).unwrap();
        assert_eq!((three.value, three.least, three.greatest), (82.4, 80.0, 84.0));
        assert_eq!(three.interval, None);
        let six = Median::of(&[1.0, 9.0, 2.0, 8.0, 3.0, 1000.0]).unwrap();
        assert_eq!((six.value, six.interval), (5.5, Some((1.0, 1000.0))));
    }
}
