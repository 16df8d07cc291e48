//! The least time for which a store works on a data set, from the kept results of
//! `penstock bench storage`.
//!
//! Pure. The time of a file is interpolated between the sizes that were measured, both as
//! logarithms, and summed over the classes of the data set.

#[cfg(test)]
pub(super) mod examples;

use penstock_api::benchmark::{Benchmark, BenchmarkPoint, BenchmarkRate};
use penstock_api::timestamp::Timestamp;
use penstock_proto::benchmark::BenchmarkOperation;
use penstock_proto::id::TransferId;
use penstock_proto::units::{KIB, MIB};

use super::extent::Extent;
use crate::commands::transfer::measured::usable;

/// Factor beyond the sizes that were measured up to which their time is taken.
const REACH: f64 = 4.0;
/// Size below which a file costs what a block does.
const BLOCK_BYTES: u64 = 4 * KIB;
/// Size from which on files are alike: the time of each byte is the same.
const LARGE_BYTES: u64 = 16 * MIB;

/// The time of a data set by a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// By the median of the repeats.
    pub(super) seconds: f64,
    /// By the fastest and by the slowest of them.
    pub(super) least_s: f64,
    pub(super) greatest_s: f64,
    pub(super) at: Timestamp,
    pub(super) id: TransferId,
}

/// The size of a file for which no measurement tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unmeasured(pub(super) u64);

/// Returns the time of a data set by the newest usable result that has its sizes.
///
/// # Errors
/// No result has files of about the size that is returned.
pub(super) fn storage_time(
    classes: &[Extent],
    newest_first: &[Benchmark],
    operation: BenchmarkOperation,
) -> Result<Measured, Unmeasured> {
    let mut left = newest_first;
    let mut missing = None;
    while let Some(result) = usable(left) {
        let all = [least, median, greatest].map(|rate| seconds(classes, result, operation, rate));
        match all {
            [Ok(greatest_s), Ok(seconds), Ok(least_s)] => {
                let (at, id) = (result.began, result.id);
                return Ok(Measured { seconds, least_s, greatest_s, at, id });
            }
            [_, Err(size), _] | [Err(size), ..] | [.., Err(size)] => {
                missing = missing.or(Some(size))
            }
        }
        let at = left.iter().position(|one| one.id == result.id).unwrap_or(left.len() - 1);
        left = &left[at + 1..];
    }
    let largest = classes.iter().filter(|class| class.files > 0).map(mean_of).max();
    Err(missing.unwrap_or(Unmeasured(largest.unwrap_or_default())))
}

fn least(rate: &BenchmarkRate) -> f64 {
    rate.least
}

fn median(rate: &BenchmarkRate) -> f64 {
    rate.median
}

fn greatest(rate: &BenchmarkRate) -> f64 {
    rate.greatest
}

fn mean_of(class: &Extent) -> u64 {
    class.bytes / class.files.max(1)
}

/// Returns the time of all classes by one of the rates.
fn seconds(
    classes: &[Extent],
    result: &Benchmark,
    operation: BenchmarkOperation,
    rate: fn(&BenchmarkRate) -> f64,
) -> Result<f64, Unmeasured> {
    let is_sound = |point: &&BenchmarkPoint| {
        point.operation == operation
            && point.size_bytes > 0
            && point.marks.is_empty()
            && rate(&point.bytes_per_s) > 0.0
    };
    let known = result.points.iter().filter(is_sound);
    let time = |point: &BenchmarkPoint| {
        let size = point.size_bytes as f64;
        (size, size / rate(&point.bytes_per_s))
    };
    let mut known: Vec<(f64, f64)> = known.map(time).collect();
    known.sort_by(|one, other| one.0.total_cmp(&other.0));
    let classes = classes.iter().filter(|class| class.files > 0);
    classes
        .map(|class| {
            let size = class.bytes as f64 / class.files as f64;
            let of_file = file_seconds(&known, size).ok_or(Unmeasured(size as u64))?;
            Ok(of_file * class.files as f64)
        })
        .sum()
}

/// Returns the seconds of a file of a size, by known sizes and times in the order of sizes.
fn file_seconds(known: &[(f64, f64)], size: f64) -> Option<f64> {
    let (first, last) = (*known.first()?, *known.last()?);
    if size <= first.0 {
        let is_known = first.0 <= BLOCK_BYTES as f64 || size >= first.0 / REACH;
        return is_known.then_some(first.1);
    }
    if size >= last.0 {
        let is_known = last.0 >= LARGE_BYTES as f64 || size <= last.0 * REACH;
        return is_known.then(|| last.1 * size / last.0);
    }
    let at = known.partition_point(|(known, _)| *known < size);
    let (low, high) = (known[at - 1], known[at]);
    let part = (size / low.0).ln() / (high.0 / low.0).ln();
    Some((low.1.ln() + part * (high.1 / low.1).ln()).exp())
}

#[cfg(test)]
mod tests {
    use penstock_proto::benchmark::BenchmarkMark;

    use super::examples::written;
    use super::*;

    fn time(size: u64, files: u64, results: &[Benchmark]) -> Result<f64, Unmeasured> {
        let classes = [Extent { files, bytes: files * size }, Extent::default()];
        storage_time(&classes, results, BenchmarkOperation::Write).map(|it| it.seconds)
    }

    /// Promise: what was measured is forecast exactly, sizes between follow the power law between
    /// their neighbours, large files are alike, and nothing is told of sizes far from any.
    #[test]
    fn sizes_between_are_interpolated() {
        // 1 ms a file of 4 KiB, 10 ms of 1 MiB, 100 ms of 16 MiB.
        let points = [(4096, 4_096_000.0), (1 << 20, 104_857_600.0), (16 << 20, 167_772_160.0)];
        let all = [written(1, &points)];
        let is = |got: Result<f64, Unmeasured>, wanted: f64| {
            assert!((got.unwrap() / wanted - 1.0).abs() < 1e-9, "{got:?} {wanted}");
        };
        is(time(4096, 1000, &all), 1.0);
        is(time(1 << 20, 10, &all), 0.1);
        is(time(65_536, 1, &all), 10_f64.powf(-2.5));
        is(time(64 << 20, 1, &all), 0.4);
        is(time(1, 1000, &all), 1.0);
        let both = [Extent { files: 1000, bytes: 4_096_000 }, Extent { files: 1, bytes: 16 << 20 }];
        let measured = storage_time(&both, &all, BenchmarkOperation::Write).unwrap();
        assert!((measured.seconds - 1.1).abs() < 1e-9);
        assert!((measured.least_s - 0.55).abs() < 1e-9 && (measured.greatest_s - 2.2).abs() < 1e-9);
        let large = [written(1, &points[1..])];
        assert_eq!(time(4096, 1, &large), Err(Unmeasured(4096)));
        let small = [written(1, &points[..1])];
        assert_eq!(time(1 << 20, 1, &small), Err(Unmeasured(1 << 20)));
        assert!(storage_time(&both, &all, BenchmarkOperation::Read).is_err());
        assert_eq!(time(4096, 1, &[]), Err(Unmeasured(4096)));
    }

    /// Promise: points with a mark count for nothing, and the newest result that has the sizes is
    /// taken.
    #[test]
    fn the_newest_sound_result_is_taken() {
        let mut marked = written(1, &[(4096, 1e6)]);
        marked.points[0].marks.push(BenchmarkMark::Short);
        let (large, sound) = (written(2, &[(1 << 20, 1e8)]), written(3, &[(4096, 4_096_000.0)]));
        let classes = [Extent { files: 1000, bytes: 4_096_000 }];
        let all = [marked, large, sound.clone()];
        let measured = storage_time(&classes, &all, BenchmarkOperation::Write).unwrap();
        assert_eq!((measured.id, measured.seconds), (sound.id, 1.0));
    }
}
