//! The cost of files that are smaller than those of past transfers.
//!
//! Pure. A line through transfers of large files takes what slows their bytes for a cost of each
//! file, so it makes small files too dear. The records have another measure: the time in which
//! threads opened, made and named files (docs/design/0066-forecasts.md).

use penstock_api::time_use::{PeerTime, TransferTime, sum_of};
use penstock_proto::time_use::Activity;
use serde::Serialize;

use super::cost_model::{CostModel, Observation};
use super::extent::Extent;

/// Activities that each file needs once, whatever its size.
const OF_FILES: [Activity; 2] = [Activity::Metadata, Activity::Publish];
/// Waits of a thread that has nothing to do.
const OF_NOTHING: [Activity; 4] =
    [Activity::Idle, Activity::WaitGrant, Activity::WaitDisk, Activity::WaitTarget];
/// Share of files from which on the time of a transfer tells what a file costs: files of 64 KiB
/// have up to 0.22, and those of 4 KiB have 0.46 and more (0066).
const TELLING_SHARE: f64 = 0.25;
/// Part of its time that a transfer spends on files and bytes by the line, to tell of their sizes:
/// the time of the others is their start.
const MOVING_PART: f64 = 0.5;

/// The cost of files below a size. A file of that size costs what the line says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct SmallFiles {
    pub(super) below_bytes: f64,
    /// Seconds of each file.
    pub(super) file_s: f64,
    /// Seconds of each byte.
    pub(super) byte_s: f64,
}

impl SmallFiles {
    /// Returns the cost of files below the sizes of past transfers, each with its [`file_share`];
    /// none where the line through them tells it, or where no record has a share.
    pub(super) fn of(line: &CostModel, past: &[(Observation, Option<f64>)]) -> Option<Self> {
        let shares = || past.iter().filter_map(|(of, share)| Some((of, (*share)?)));
        if shares().any(|(_, share)| share >= TELLING_SHARE) {
            return None;
        }
        let moves = |of: &&Observation| {
            line.seconds(of.files, of.bytes) - line.start_s >= of.seconds * MOVING_PART
        };
        let telling = past.iter().map(|(of, _)| of).filter(moves);
        let means = telling.map(|of| (of.bytes / of.files.max(1.0)).max(1.0));
        let below_bytes = means.reduce(f64::min)?;
        let files: f64 = shares().map(|(of, _)| of.files).sum();
        let seconds: f64 = shares().map(|(of, share)| of.seconds * share).sum();
        let greatest_s = line.file_s + line.byte_s * below_bytes;
        let file_s = (seconds / files).min(greatest_s);
        let byte_s = (greatest_s - file_s) / below_bytes;
        (files > 0.0).then_some(Self { below_bytes, file_s, byte_s })
    }
}

/// Returns the seconds for the classes of a data set, by a line and the cost of small files.
pub(super) fn seconds(line: &CostModel, small: Option<SmallFiles>, classes: &[Extent]) -> f64 {
    let of_class = |class: &Extent| {
        let (files, bytes) = (class.files as f64, class.bytes as f64);
        let (file_s, byte_s) = match small {
            Some(small) if bytes < small.below_bytes * files => (small.file_s, small.byte_s),
            _ => (line.file_s, line.byte_s),
        };
        file_s * files + byte_s * bytes
    };
    line.start_s + classes.iter().map(of_class).sum::<f64>()
}

/// Returns the part of their time in which threads opened, made and named files, at the end where
/// it is greater. Time in which they had nothing to do is left out. None if no thread reported.
pub(super) fn file_share(time: &TransferTime) -> Option<f64> {
    let (source, target) = (Busy::of(&time.source), Busy::of(&time.target));
    // A thread that reads and writes has its time at both ends.
    let ends = if time.is_local { vec![source.and(target)] } else { vec![source, target] };
    let shares = ends.into_iter().filter(|end| end.all_s > 0.0).map(|end| end.files_s / end.all_s);
    shares.reduce(f64::max)
}

/// The time of the threads at one end in which they have something to do.
struct Busy {
    files_s: f64,
    all_s: f64,
}

impl Busy {
    fn of(peers: &[PeerTime]) -> Self {
        let PeerTime { lanes, publishers, .. } = sum_of(peers);
        let seconds = |one: &Activity| lanes.get(*one) + publishers.get(*one);
        let all = Activity::ALL.iter().filter(|one| !one.is_part() && !OF_NOTHING.contains(one));
        Self { files_s: OF_FILES.iter().map(seconds).sum(), all_s: all.map(seconds).sum() }
    }

    fn and(self, other: Self) -> Self {
        Self { files_s: self.files_s + other.files_s, all_s: self.all_s + other.all_s }
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::time_use::ActivitySeconds;
    use proptest::prelude::*;

    use super::*;

    fn observed(files: f64, mean_bytes: f64, seconds: f64) -> Observation {
        Observation { files, bytes: files * mean_bytes, seconds }
    }

    const MIB: f64 = 1048576.0;

    /// Promise: files below all of the history cost what threads spent on each file, and their
    /// share of the bytes; those of the history and larger ones cost what the line says.
    #[test]
    fn small_files_cost_the_time_of_their_names() {
        let line = CostModel { start_s: 0.1, file_s: 6e-4, byte_s: 1e-9 };
        let past = [
            (observed(1500.0, MIB, 2.5), Some(0.06)),
            (observed(100.0, 16.0 * MIB, 2.5), Some(0.004)),
        ];
        let small = SmallFiles::of(&line, &past).unwrap();
        assert_eq!(small.below_bytes, MIB);
        assert!((small.file_s - 1e-4).abs() < 1e-12, "0.16 s for 1600 files: {small:?}");
        let of = |files, bytes| seconds(&line, Some(small), &[Extent { files, bytes }]);
        assert!((of(10_000, 0) - 1.1).abs() < 1e-9);
        assert!((of(10_000, 10_000 << 20) - line.seconds(1e4, 1e4 * MIB)).abs() < 1e-9);
        assert!((of(1, 1 << 30) - line.seconds(1.0, 1024.0 * MIB)).abs() < 1e-9);
        let both = [Extent { files: 10_000, bytes: 0 }, Extent { files: 1, bytes: 1 << 30 }];
        let sum = of(10_000, 0) + of(1, 1 << 30) - line.start_s;
        assert!((seconds(&line, Some(small), &both) - sum).abs() < 1e-9);
    }

    /// Promise: transfers that spent much of their time on files tell the cost of one, and so the
    /// line holds for all sizes, as it does without times of threads.
    #[test]
    fn the_line_holds_where_it_tells() {
        let line = CostModel { start_s: 0.1, file_s: 1e-4, byte_s: 1e-9 };
        let large = observed(1500.0, MIB, 2.5);
        let small = observed(20_000.0, 4096.0, 2.2);
        let of = |share, other| SmallFiles::of(&line, &[(large, share), (small, other)]);
        assert_eq!(of(Some(0.05), Some(0.5)), None);
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(0.05), Some(0.2)).map(|small| small.below_bytes), Some(4096.0));
        // The time of one file is that of the start, so it tells nothing of its size.
        let one = [(large, Some(0.05)), (observed(1.0, 1024.0, 0.1), Some(0.1))];
        assert_eq!(SmallFiles::of(&line, &one).map(|small| small.below_bytes), Some(MIB));
    }

    proptest! {
        /// Promise: whatever the shares, a time is never negative, and further files, or further
        /// bytes in them, never take less.
        #[test]
        fn more_never_takes_less(
            parts in (0.0..1.0_f64, 0.0..1e-2_f64, 0.0..1e-7_f64),
            share in 0.0..0.25_f64,
            mean in 1.0..1e9_f64,
            took in 0.01..1e4_f64,
            (files, bytes) in (1_u64..1_000_000, 0_u64..1_000_000_000_000),
            (more_files, more_bytes) in (0_u64..1_000_000, 0_u64..1_000_000_000_000),
        ) {
            let line = CostModel { start_s: parts.0, file_s: parts.1, byte_s: parts.2 };
            let small = SmallFiles::of(&line, &[(observed(100.0, mean, took), Some(share))]);
            let of = |classes: &[Extent]| seconds(&line, small, classes);
            let least = of(&[Extent { files, bytes }]);
            prop_assert!(least >= 0.0 && least.is_finite());
            let same = least * (1.0 - 1e-9);
            let larger = of(&[Extent { files, bytes: bytes + more_bytes }]);
            prop_assert!(larger >= same, "{larger} {least} {small:?}");
            let further = Extent { files: more_files, bytes: more_bytes };
            let longer = of(&[Extent { files, bytes }, further]);
            prop_assert!(longer >= same, "{longer} {least} {small:?}");
        }
    }

    /// Promise: the share is that of the end where it is greater, of time in which threads had
    /// something to do; one thread at both ends counts once.
    #[test]
    fn a_share_is_of_busy_threads() {
        let peer = |lanes, publishers| PeerTime { lanes, publishers, ..PeerTime::default() };
        let lanes = ActivitySeconds {
            write: 3.0,
            wait_source: 2.0,
            metadata: 0.5,
            idle: 50.0,
            cpu: 4.0,
            ..ActivitySeconds::default()
        };
        let publishers = ActivitySeconds { sync: 4.0, publish: 0.5, ..ActivitySeconds::default() };
        let read = ActivitySeconds { read: 9.0, metadata: 1.0, ..ActivitySeconds::default() };
        let mut time = TransferTime {
            is_local: false,
            source: vec![peer(read, ActivitySeconds::default())],
            target: vec![peer(lanes, publishers)],
        };
        let share = |time: &TransferTime| file_share(time).unwrap();
        assert!((share(&time) - 0.1).abs() < 1e-12, "1 of 10 s at either end");
        time.source[0].lanes.metadata = 3.0;
        assert!((share(&time) - 0.25).abs() < 1e-12, "3 of 12 s at the source");
        time.is_local = true;
        assert!((share(&time) - 4.0 / 22.0).abs() < 1e-12);
        assert_eq!(file_share(&TransferTime::default()), None);
    }
}
