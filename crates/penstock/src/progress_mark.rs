//! The high-water mark of a transfer's progress.
//!
//! A later attempt counts again from zero, and finds again what earlier ones have moved. So only a
//! figure beyond its greatest value is progress.

use penstock_api::transfer::Progress;

/// The greatest value of each figure that grows by progress alone.
#[derive(Debug, Default)]
pub(crate) struct ProgressMark([u64; 9]);

impl ProgressMark {
    /// Takes the figures of a transfer. Returns whether one is beyond its greatest value so far.
    pub(crate) fn rises(&mut self, progress: &Progress) -> bool {
        let mut rises = false;
        for (greatest, now) in self.0.iter_mut().zip(figures_of(progress)) {
            rises |= now > *greatest;
            *greatest = now.max(*greatest);
        }
        rises
    }
}

fn figures_of(progress: &Progress) -> [u64; 9] {
    [
        progress.entries_found,
        progress.files,
        progress.skipped,
        progress.deleted,
        progress.removed,
        progress.errors,
        progress.bytes_settled(),
        progress.bytes_durable,
        progress.bytes_read_back,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what an attempt finds again is no progress, and one byte more is.
    #[test]
    fn only_more_is_progress() {
        let mut mark = ProgressMark::default();
        let mut rises =
            |bytes| mark.rises(&Progress { bytes, bytes_found: 90, ..Progress::default() });
        let seen = [40, 40, 0, 39, 40, 41].map(&mut rises);
        assert_eq!(seen, [true, false, false, false, false, true]);
    }
}
