//! The passes of a step over its files.
//!
//! A fast store finishes a set of files before the time of a step is over, and a short time is a
//! poor measure. The step then processes the set again, from the barrier on, and its times are
//! sums.
//!
//! May not: count the time between two passes, in which caches are dropped.

use super::summary::StepTimes;

/// Time that a step may take with the preparations between its passes, as a multiple of the time
/// for which it measures.
const WITH_PREPARATIONS: f64 = 3.0;

/// The passes of a step that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passes {
    count: u32,
    sum: StepTimes,
}

impl Passes {
    /// Handles the end of a pass.
    pub fn handle_pass(&mut self, of: &StepTimes) {
        let StepTimes { bytes, files, first_done_s, last_done_s, durable_s } = *of;
        self.count += 1;
        self.sum.bytes += bytes;
        self.sum.files += files;
        self.sum.first_done_s += first_done_s;
        self.sum.last_done_s += last_done_s;
        self.sum.durable_s += durable_s;
    }

    /// Returns the number of passes.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the work of all passes, and their times.
    pub fn sum(&self) -> StepTimes {
        self.sum
    }

    /// Returns whether another pass fits into `seconds`, as far as those before tell. `elapsed_s`
    /// have passed since the begin of the first one.
    pub fn has_time(&self, seconds: f64, elapsed_s: f64) -> bool {
        let with_one_more = f64::from(self.count + 1) / f64::from(self.count.max(1));
        let has_done = self.sum.files > 0 || self.sum.bytes > 0;
        has_done
            && self.sum.last_done_s * with_one_more <= seconds
            && elapsed_s * with_one_more <= seconds * WITH_PREPARATIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(done_s: f64) -> StepTimes {
        StepTimes {
            bytes: 100,
            files: 10,
            first_done_s: done_s / 2.0,
            last_done_s: done_s,
            durable_s: done_s * 2.0,
        }
    }

    /// Promise: passes are repeated until more than half of the time was measured, and no pass is
    /// begun that would not end in time.
    #[test]
    fn passes_fill_the_time() {
        for done_s in [0.3, 1.0, 2.6, 4.9, 5.1, 9.0, 12.0] {
            let mut passes = Passes::default();
            passes.handle_pass(&pass(done_s));
            while passes.has_time(10.0, passes.sum().last_done_s) {
                passes.handle_pass(&pass(done_s));
            }
            let all = passes.sum();
            assert!(all.last_done_s > 5.0, "{done_s}");
            assert!(passes.count() == 1 || all.last_done_s < 10.1, "{done_s}");
            assert_eq!(all.files, u64::from(passes.count()) * 10);
            assert_eq!(
                (all.first_done_s, all.durable_s),
                (all.last_done_s / 2.0, all.last_done_s * 2.0)
            );
        }
    }

    /// Promise: a step ends in time where the preparation of a pass takes longer than the pass, and
    /// where there is nothing to do.
    #[test]
    fn preparations_are_bounded() {
        let mut passes = Passes::default();
        passes.handle_pass(&pass(0.1));
        assert!(passes.has_time(10.0, 14.9) && !passes.has_time(10.0, 15.1));
        let mut empty = Passes::default();
        empty.handle_pass(&StepTimes::default());
        assert!(!empty.has_time(10.0, 0.0));
    }
}
