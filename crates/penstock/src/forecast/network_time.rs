//! The least time for which the way between two sites works on a data set, from the transfers of
//! `penstock bench network`.
//!
//! Pure. These transfers read generated data and keep nothing, so stores cost them no time.

use super::cost_model::CostModel;
use super::extent::Extent;
use super::history::PastTransfer;
use super::storage_time::Measured;
use crate::median;

/// First word of the labels of its transfers; the second one is the id of the run.
pub(crate) const LABEL: &str = "bench-network";
/// Word in the labels of transfers that prepare a run, and count for nothing.
pub(crate) const WARM_UP: &str = "warm-up";
/// Part of a data set's mean size that files of a measurement have at least: with smaller ones the
/// way takes longer, so they give no least time.
const SMALLER: f64 = 4.0;
/// Factor between mean sizes of files from which on a line tells files from bytes.
const APART: f64 = 2.0;
/// Fewest transfers for a line.
const FIT_MIN: usize = 3;

/// Returns the time of a data set by the transfers of a benchmark, newest first; none where all of
/// them had much smaller files.
pub(super) fn network_time(extent: Extent, measured: &[PastTransfer]) -> Option<Measured> {
    let mean = extent.mean_bytes();
    let means = || measured.iter().map(|one| one.extent.mean_bytes());
    let least = means().fold(f64::MAX, f64::min);
    let is_line = measured.len() >= FIT_MIN && means().fold(0.0, f64::max) >= least * APART;
    let is_near = |one: &&PastTransfer| one.extent.mean_bytes() >= mean / SMALLER;
    let used: Vec<&PastTransfer> = measured.iter().filter(|one| is_line || is_near(one)).collect();
    let newest = used.first()?;
    let model = match is_line {
        true => CostModel::fit(&used.iter().map(|one| one.observation()).collect::<Vec<_>>())?,
        false => {
            let of = |one: &&PastTransfer| one.seconds / one.extent.bytes.max(1) as f64;
            let byte_s = median::of(used.iter().map(of).collect())?;
            CostModel { byte_s, ..CostModel::default() }
        }
    };
    let time = |extent: Extent| model.seconds(extent.files as f64, extent.bytes as f64);
    let seconds = time(extent);
    let ratios = || used.iter().map(|one| one.seconds / time(one.extent));
    let ratios = || ratios().filter(|ratio| ratio.is_finite());
    Some(Measured {
        seconds,
        least_s: seconds * ratios().fold(1.0, f64::min),
        greatest_s: seconds * ratios().fold(1.0, f64::max),
        at: newest.ended,
        id: newest.id,
    })
}

/// Returns the run to which a transfer belongs by its label; none of one that measures nothing.
pub(super) fn run_of(label: &str) -> Option<&str> {
    let mut words = label.split(' ');
    let run = (words.next() == Some(LABEL)).then(|| words.next()).flatten()?;
    (words.next() != Some(WARM_UP)).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::super::history::examples::past;
    use super::*;

    /// Promise: large files tell the time of bytes alone, also for small ones, as a least time;
    /// small files tell nothing of large ones; both together tell the cost of a file.
    #[test]
    fn the_way_has_a_cost_of_files_where_it_was_measured() {
        let large = [past(10, 100_000_000, 1.0, 3), past(10, 100_000_000, 1.5, 2)];
        let set = Extent { files: 1_000_000, bytes: 1_000_000_000 };
        let measured = network_time(set, &large).unwrap();
        assert!((measured.seconds - 1.25).abs() < 1e-9, "{measured:?}");
        assert!((measured.least_s - 1.0).abs() < 1e-9 && (measured.greatest_s - 1.5).abs() < 1e-9);
        let small = [past(10_000, 1000, 1.0, 1)];
        assert_eq!(network_time(Extent { files: 1, bytes: 1_000_000 }, &small), None);
        let both = [large[0].clone(), past(20_000, 1000, 2.0, 2), past(10_000, 1000, 1.0, 1)];
        let measured = network_time(set, &both).unwrap();
        assert!((measured.seconds - 100.0).abs() < 1e-6, "{measured:?}");
        assert_eq!(network_time(set, &[]), None);
    }

    /// Promise: transfers of one run are known by their label, and those that prepare it are not.
    #[test]
    fn runs_are_known_by_labels() {
        assert_eq!(run_of("bench-network 12ab lab:mem/ to hpc:null/"), Some("12ab"));
        assert_eq!(run_of("bench-network 12ab warm-up lab:mem/ to hpc:null/"), None);
        assert_eq!(run_of("my bench-network 12ab"), None);
        assert_eq!(run_of(""), None);
    }
}
