//! Rates of the last minutes, a figure each second.

use std::collections::VecDeque;

/// Seconds that are kept.
const SECONDS_MAX: usize = 600;

/// Rates in bits per second, the latest one last; `None` where nothing is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RateHistory {
    rates: VecDeque<Option<f64>>,
}

impl RateHistory {
    /// Adds the rate of another second. The oldest one goes after [`SECONDS_MAX`].
    pub(super) fn add(&mut self, rate: Option<f64>) {
        if self.rates.len() == SECONDS_MAX {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
    }

    /// Returns the greatest rate of all.
    pub(super) fn max(&self) -> f64 {
        self.rates.iter().flatten().fold(0.0, |max, rate| max.max(*rate))
    }

    /// Returns the seconds of which there is a figure or a gap.
    pub(super) fn seconds(&self) -> usize {
        self.rates.len()
    }

    /// Returns a rate for each column: of one second, or the mean of several where all of them
    /// would not fit. Columns of which nothing is known yet are `None` before the others.
    pub(super) fn columns(&self, columns: usize) -> Vec<Option<f64>> {
        let step = self.rates.len().div_ceil(columns.max(1)).max(1);
        // The oldest seconds, too few for a column, are left out.
        let skipped = self.rates.len() % step;
        let rates: Vec<_> = self.rates.iter().skip(skipped).copied().collect();
        let means = rates.chunks(step).map(mean).collect::<Vec<_>>();
        let lack = columns.saturating_sub(means.len());
        let mut all = vec![None; lack];
        all.extend(means);
        all
    }
}

fn mean(rates: &[Option<f64>]) -> Option<f64> {
    let known: Vec<f64> = rates.iter().copied().flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a history is bounded, fits any width, and shows gaps as gaps.
    #[test]
    fn a_history_fits_any_width() {
        let mut history = RateHistory::default();
        assert_eq!(history.columns(3), [None; 3]);
        [Some(1.0), None, Some(3.0)].into_iter().for_each(|rate| history.add(rate));
        assert_eq!(history.columns(5), [None, None, Some(1.0), None, Some(3.0)]);
        assert_eq!(history.columns(1), [Some(2.0)], "a mean of what is known");
        assert_eq!((history.max(), history.seconds()), (3.0, 3));
        for second in 0..2000 {
            history.add(Some(f64::from(second)));
            for columns in [0, 1, 80] {
                assert!(history.columns(columns).len() >= columns);
            }
        }
        assert_eq!(history.seconds(), SECONDS_MAX);
    }
}
