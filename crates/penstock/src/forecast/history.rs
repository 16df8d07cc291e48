//! Forecasts from the transfers of the past between two stores, each of which grades the others.
//!
//! Pure: `evidence` fetches the records.

#[cfg(test)]
pub(super) mod examples;

use std::mem;

use penstock_api::rest::TransferView;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{Durability, Encryption, Location, TransferOptions, TransferState};
use penstock_proto::digest::DigestKind;
use penstock_proto::id::TransferId;
use serde::Serialize;

use super::cost_model::{CostModel, Observation};
use super::extent::Extent;
use super::small_files::{self, SmallFiles, file_share};
use crate::median;

/// Fewest transfers to which a line is fitted.
const FIT_MIN: usize = 3;
/// Factor between mean sizes of files up to which transfers are of one kind.
const ALIKE: f64 = 2.0;
/// Factor between the bytes of transfers from which on they tell a start from a cost of bytes.
const APART: f64 = 4.0;
/// A transfer of nothing, for a fit whose start is longer and is not told by transfers: the middle,
/// as logarithms, of 0.05 s between sites of one host, and of 0.4 s over 90 ms (0066).
const USUAL_START: Observation = Observation { files: 0.0, bytes: 0.0, seconds: 0.14 };
/// Of so many ratios the outermost one at each end is left out of an interval.
const OUTER: usize = 20;

/// The options of a transfer on which its speed depends most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Mode {
    pub(super) encryption: Encryption,
    pub(super) digest: DigestKind,
    pub(super) durability: Durability,
}

impl Mode {
    fn of(options: &TransferOptions) -> Self {
        let TransferOptions { encryption, digest, durability, .. } = *options;
        Self { encryption, digest, durability }
    }
}

/// A transfer of the past that moved all of its data set in one attempt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PastTransfer {
    pub(super) id: TransferId,
    pub(super) ended: Timestamp,
    pub(super) source: Location,
    pub(super) target: Location,
    pub(super) extent: Extent,
    pub(super) seconds: f64,
    /// Part of its threads' time that files took, whatever their sizes; none if it is not known.
    pub(super) file_share: Option<f64>,
    /// The cause that limited it, in words.
    pub(super) limit: Option<String>,
}

impl PastTransfer {
    /// Returns what a record says of a transfer whose mode is wanted; none if its time is not that
    /// of moving its data set: it failed, was tried twice, found files there, or was limited.
    pub(super) fn of(view: &TransferView, is_wanted: impl Fn(Mode) -> bool) -> Option<Self> {
        let (progress, options) = (&view.progress, &view.options);
        let is_whole = view.state == TransferState::Done && view.attempt <= 1;
        let moved_all = progress.bytes_resumed == 0
            && progress.bytes_skipped == 0
            && progress.skipped == 0
            && progress.deleted == 0
            && progress.errors == 0;
        let is_usual = options.lanes == 0
            && options.lanes_max == 0
            && options.networks.is_empty()
            && options.peers_max.is_none()
            && options.piece_bytes == 0
            && options.cipher_suite.is_none()
            && options.limits == Default::default()
            && view.limits == Default::default()
            && options.plan.is_none()
            && !options.remove_source
            && !options.update.delete;
        let seconds = seconds_of(view);
        let has_time = seconds > 0.0 && progress.files > 0;
        let is_of_use =
            is_whole && moved_all && is_usual && has_time && is_wanted(Mode::of(options));
        is_of_use.then(|| Self {
            id: view.id,
            ended: view.ended_at.unwrap_or(view.created_at),
            source: view.source.clone(),
            target: view.target.clone(),
            extent: Extent { files: progress.files, bytes: progress.bytes },
            seconds,
            file_share: file_share(&progress.time),
            limit: progress.bottleneck.as_ref().map(|cause| cause.words()),
        })
    }

    /// Returns it as the fit of a line sees it.
    pub(super) fn observation(&self) -> Observation {
        let Extent { files, bytes } = self.extent;
        let (files, bytes) = (files as f64, bytes as f64);
        Observation { files, bytes, seconds: self.seconds }
    }
}

/// Returns the seconds from the start of a transfer to its end, pauses included. Its own count
/// lacks the time before the first look at the source.
pub(crate) fn seconds_of(view: &TransferView) -> f64 {
    match (view.started_at, view.ended_at) {
        (Some(from), Some(to)) => to.ms().saturating_sub(from.ms()) as f64 / 1000.0,
        _ => view.progress.seconds,
    }
}

/// The way in which a forecast follows from transfers of the past.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "method")]
pub(super) enum Method {
    /// A line through all of them, and where they do not tell it, the cost of smaller files.
    Fit {
        #[serde(flatten)]
        line: CostModel,
        #[serde(skip_serializing_if = "Option::is_none")]
        small: Option<SmallFiles>,
    },
    /// The bound by measured stores and network, times what transfers took of theirs.
    Factor { factor: f64 },
    /// The time of each byte of transfers with files of about the same size.
    Rate { bytes_per_s: f64 },
}

/// A forecast of the transfers of the past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Predicted {
    pub(super) seconds: f64,
    pub(super) method: Method,
}

/// Forecasts a data set, by the classes of its files, from transfers of the past; none where they
/// do not tell. `bound` is the least time of a data set by measurements.
pub(super) fn predict(
    past: &[&PastTransfer],
    classes: &[Extent],
    bound: &dyn Fn(Extent) -> Option<f64>,
) -> Option<Predicted> {
    let extent = Extent::sum(classes);
    let means = past.iter().map(|one| one.extent.mean_bytes());
    let (least, greatest) =
        means.fold((f64::MAX, 0.0_f64), |(least, most), mean| (least.min(mean), most.max(mean)));
    let mean = extent.mean_bytes();
    let is_alike = mean >= least / ALIKE && mean <= greatest * ALIKE;
    if past.len() >= FIT_MIN && (greatest >= least * ALIKE || is_alike) {
        let line = line_through(past)?;
        let shares: Vec<_> = past.iter().map(|one| (one.observation(), one.file_share)).collect();
        let small = SmallFiles::of(&line, &shares);
        let seconds = small_files::seconds(&line, small, classes);
        return Some(Predicted { seconds, method: Method::Fit { line, small } });
    }
    let factors = past.iter().filter_map(|one| Some(one.seconds / bound(one.extent)?));
    let factors = factors.filter(|factor| factor.is_finite());
    if let (Some(factor), Some(bound)) = (median::of(factors.collect()), bound(extent)) {
        return Some(Predicted { seconds: factor * bound, method: Method::Factor { factor } });
    }
    let alike = past.iter().filter(|one| {
        let ratio = one.extent.mean_bytes() / mean;
        one.extent.bytes > 0 && (1.0 / ALIKE..=ALIKE).contains(&ratio)
    });
    let rates = alike.map(|one| one.extent.bytes as f64 / one.seconds);
    let bytes_per_s = median::of(rates.filter(|rate| rate.is_finite()).collect())?;
    let seconds = extent.bytes as f64 / bytes_per_s;
    Some(Predicted { seconds, method: Method::Rate { bytes_per_s } })
}

/// Returns the line through transfers, with a usual start if they do not tell a longer one.
fn line_through(past: &[&PastTransfer]) -> Option<CostModel> {
    let mut all: Vec<Observation> = past.iter().map(|one| one.observation()).collect();
    let line = CostModel::fit(&all)?;
    if line.start_s <= USUAL_START.seconds || tells_start(&all) {
        return Some(line);
    }
    all.push(USUAL_START);
    CostModel::fit(&all)
}

/// Returns whether transfers can tell a start from a cost of bytes: their bytes differ enough.
fn tells_start(all: &[Observation]) -> bool {
    let bytes = || all.iter().map(|one| one.bytes);
    bytes().fold(0.0, f64::max) >= bytes().fold(f64::MAX, f64::min) * APART
}

/// A transfer of the past beside its forecast by the others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Graded<'a> {
    pub(super) past: &'a PastTransfer,
    /// None where the others do not tell.
    pub(super) forecast: Option<Predicted>,
}

impl Graded<'_> {
    /// Returns by how much the forecast differs, as a part of the time that the transfer took.
    pub(super) fn error(&self) -> Option<f64> {
        Some(self.forecast?.seconds / self.past.seconds - 1.0)
    }
}

/// Forecasts each transfer from all others.
pub(super) fn grade<'a>(
    past: &[&'a PastTransfer],
    bound: &dyn Fn(Extent) -> Option<f64>,
) -> Vec<Graded<'a>> {
    let graded = |at: usize| {
        let others: Vec<&PastTransfer> = [&past[..at], &past[at + 1..]].concat();
        let forecast = predict(&others, &[past[at].extent], bound);
        Graded { past: past[at], forecast }
    };
    (0..past.len()).map(graded).collect()
}

/// Returns the median of the errors without their signs.
pub(super) fn median_error(graded: &[Graded<'_>]) -> Option<f64> {
    let errors = graded.iter().filter_map(Graded::error).filter(|error| error.is_finite());
    median::of(errors.map(f64::abs).collect())
}

/// Times between which a transfer is likely to end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Interval {
    pub(super) least_s: f64,
    pub(super) greatest_s: f64,
    /// Part of the cases that it covers, if the next transfer errs as the past ones did.
    pub(super) coverage: f64,
}

/// Returns the times between which the past forecasts of the same kind erred; none of fewer than
/// two. Without one transfer the others may allow another kind of forecast only, whose errors say
/// nothing of this one.
pub(super) fn interval(of: &Predicted, graded: &[Graded<'_>]) -> Option<Interval> {
    let seconds = of.seconds;
    let alike = graded.iter().filter_map(|one| Some((one.past, one.forecast?)));
    let alike = alike.filter(|(_, forecast)| {
        mem::discriminant(&forecast.method) == mem::discriminant(&of.method)
    });
    let ratios = alike.map(|(past, forecast)| past.seconds / forecast.seconds);
    let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    if ratios.len() < 2 {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let outer = ratios.len() / OUTER;
    let (least, greatest) = (ratios[outer], ratios[ratios.len() - 1 - outer]);
    // The next of n + 1 exchangeable values lies in each of the n + 1 gaps with the same chance.
    let gaps = ratios.len() - 1 - 2 * outer;
    let coverage = gaps as f64 / (ratios.len() + 1) as f64;
    // The forecast itself is between them, also where all of the past erred to one side.
    let (least_s, greatest_s) = (seconds * least.min(1.0), seconds * greatest.max(1.0));
    Some(Interval { least_s, greatest_s, coverage })
}

/// Returns the transfers to forecast from: those of the same places where they are enough for a
/// line, else all.
pub(super) fn nearest<'a>(
    past: &'a [PastTransfer],
    source: &Location,
    target: &Location,
) -> (Vec<&'a PastTransfer>, bool) {
    let is_same =
        |one: &&PastTransfer| one.source.path == source.path && one.target.path == target.path;
    let same: Vec<&PastTransfer> = past.iter().filter(is_same).collect();
    let means = || same.iter().map(|one| one.extent.mean_bytes());
    let least = means().fold(f64::MAX, f64::min);
    let is_enough = same.len() >= FIT_MIN && means().fold(0.0, f64::max) >= least * ALIKE;
    if is_enough { (same, true) } else { (past.iter().collect(), false) }
}

#[cfg(test)]
mod tests {
    use penstock_api::transfer::TransferReport;
    use proptest::prelude::*;
    use serde_json::json;

    use penstock_proto::frame::CipherSuite;

    use super::examples::past;
    use super::*;

    const NO_BOUND: &dyn Fn(Extent) -> Option<f64> = &|_| None;

    /// Sets of files with times that follow a line, in random order.
    fn on_a_line(line: CostModel) -> Vec<PastTransfer> {
        let sets = [(20_000, 4096), (40, 16 << 20), (2000, 1 << 20), (5000, 65_536), (9, 1 << 30)];
        let sets = sets.into_iter().zip(1..);
        sets.map(|((files, mean), at)| {
            past(files, mean, line.seconds(files as f64, (files * mean) as f64), at)
        })
        .collect()
    }

    proptest! {
        /// Promise: transfers whose time follows a line forecast each other exactly, and further
        /// ones; more files or bytes never take less time.
        #[test]
        fn a_line_is_found_and_is_monotone(
            start in 0.01..5.0_f64,
            file in 1e-5..2e-3_f64,
            byte in 1e-10..1e-7_f64,
            files in 1_u64..1_000_000,
            bytes in 1_u64..1_000_000_000_000,
            more in 0_u64..1_000_000,
        ) {
            let all = on_a_line(CostModel { start_s: start, file_s: file, byte_s: byte });
            let all: Vec<&PastTransfer> = all.iter().collect();
            for graded in grade(&all, NO_BOUND) {
                prop_assert!(graded.error().unwrap().abs() < 1e-6, "{graded:?}");
            }
            let of = |files, bytes| {
                predict(&all, &[Extent { files, bytes }], NO_BOUND).unwrap().seconds
            };
            let seconds = of(files, bytes);
            prop_assert!(seconds > 0.0);
            prop_assert!(of(files + more, bytes) >= seconds * (1.0 - 1e-12));
            prop_assert!(of(files, bytes + more) >= seconds * (1.0 - 1e-12));
        }
    }

    /// Promise: transfers of nearly equal bytes, which cannot tell a start from a cost of bytes,
    /// make no long start: a data set of twice the bytes takes nearly twice the time.
    #[test]
    fn equal_bytes_make_no_long_start() {
        let sets =
            [(1536, 1 << 20, 3.0), (96, 16 << 20, 2.6), (8, 256 << 20, 2.7), (6, 256 << 20, 2.6)];
        let all: Vec<PastTransfer> = sets
            .into_iter()
            .zip(1..)
            .map(|((files, mean, seconds), at)| past(files, mean, seconds, at))
            .collect();
        let all: Vec<&PastTransfer> = all.iter().collect();
        let twice = Extent { files: 16, bytes: 4 << 30 };
        let predicted = predict(&all, &[twice], NO_BOUND).unwrap();
        assert!(predicted.seconds > 4.5 && predicted.seconds < 6.5, "{predicted:?}");
    }

    /// Promise: records of large files forecast a set with many small ones, by the time that their
    /// threads spent on files, and that set took 5.0 s
    /// (bench/runs/2026-11-28-sizes-ext4); without that time the line is all that there is.
    #[test]
    fn large_files_tell_of_small_ones() {
        let sets = [
            (1536, 1 << 20, 3.34, 0.031),
            (96, 16 << 20, 2.81, 0.0024),
            (8, 256 << 20, 3.11, 0.0008),
        ];
        let sets = sets.into_iter().zip(1..);
        let mut all: Vec<PastTransfer> = sets
            .map(|((files, mean, seconds, share), at)| PastTransfer {
                file_share: Some(share),
                ..past(files, mean, seconds, at)
            })
            .collect();
        let mixed =
            [Extent { files: 30_000, bytes: 30_000 << 12 }, Extent { files: 4, bytes: 1 << 30 }];
        let seconds = |all: &[PastTransfer]| {
            let all: Vec<&PastTransfer> = all.iter().collect();
            predict(&all, &mixed, NO_BOUND).unwrap().seconds
        };
        let known = seconds(&all);
        assert!((4.0..6.0).contains(&known), "{known}");
        all.iter_mut().for_each(|one| one.file_share = None);
        assert!(seconds(&all) > 3.0 * known, "{}", seconds(&all));
    }

    /// Promise: too few transfers scale the bound by measurements; without one, they tell only of
    /// files of about their size.
    #[test]
    fn few_transfers_scale_what_was_measured() {
        let (one, other) = (past(100, 1 << 20, 4.0, 1), past(200, 1 << 20, 6.0, 2));
        let bound = |extent: Extent| Some(extent.bytes as f64 / f64::from(100 << 20));
        let asked = Extent { files: 7, bytes: 1000 << 20 };
        let predicted = predict(&[&one, &other], &[asked], &bound).unwrap();
        assert_eq!(predicted.method, Method::Factor { factor: 3.5 });
        assert!((predicted.seconds - 35.0).abs() < 1e-9);
        assert_eq!(predict(&[&one, &other], &[asked], NO_BOUND), None, "other files");
        let alike = Extent { files: 50, bytes: 50 << 20 };
        let predicted = predict(&[&one], &[alike], NO_BOUND).unwrap();
        assert!((predicted.seconds - 2.0).abs() < 1e-9, "{predicted:?}");
        assert_eq!(predict(&[], &[alike], &bound), None);
    }

    /// Promise: an interval is that of the past errors, holds the forecast, and says how often it
    /// is right; of many errors the outermost do not count.
    #[test]
    fn an_interval_is_of_past_errors() {
        let all: Vec<PastTransfer> = (1..=21).map(|at| past(10, 10, at as f64, at)).collect();
        let rate = |seconds| Predicted { seconds, method: Method::Rate { bytes_per_s: 1.0 } };
        let graded = |forecast: &dyn Fn(usize) -> f64, count: usize| -> Vec<Graded<'_>> {
            let one = |(at, past)| Graded { past, forecast: Some(rate(forecast(at))) };
            all.iter().enumerate().take(count).map(one).collect()
        };
        let seen = interval(&rate(10.0), &graded(&|at| (at + 1) as f64 / 1.5, 3)).unwrap();
        assert!((seen.least_s - 10.0).abs() < 1e-9 && (seen.greatest_s - 15.0).abs() < 1e-9);
        assert!((seen.coverage - 0.5).abs() < 1e-9);
        let one_is_off = |at| if at == 0 { 1e-6 } else { (at + 1) as f64 };
        let seen = interval(&rate(10.0), &graded(&one_is_off, 21)).unwrap();
        assert!((seen.greatest_s - 10.0).abs() < 1e-9, "{seen:?}");
        assert_eq!(interval(&rate(10.0), &graded(&one_is_off, 1)), None);
        let factor = Predicted { seconds: 10.0, method: Method::Factor { factor: 1.0 } };
        assert_eq!(interval(&factor, &graded(&one_is_off, 21)), None, "errors of another kind");
    }

    /// Promise: transfers between the very places count alone where they make a line, and all
    /// between the stores do where they do not.
    #[test]
    fn the_same_places_come_first() {
        let line = CostModel { start_s: 1.0, file_s: 1e-3, byte_s: 1e-8 };
        let mut all = on_a_line(line);
        let (source, target) = (all[0].source.clone(), all[0].target.clone());
        assert_eq!(nearest(&all, &source, &target), (all.iter().collect(), true));
        for other in &mut all[..3] {
            other.source = "lab:raw/other".parse().unwrap();
        }
        assert_eq!(nearest(&all, &source, &target).0.len(), 5);
        assert!(!nearest(&all, &source, &target).1);
    }

    /// Promise: a record counts only if its time is that of moving all of its files in its mode.
    #[test]
    fn only_whole_transfers_count() {
        let report = json!({
            "id": "07".repeat(16), "source": "lab:raw/a", "target": "hpc:scratch/a",
            "options": {}, "state": "done", "reason": "", "created": 1, "failures": [],
            "durable_by": "", "exit": null, "attempts": {"count": 1, "ended_ms": 9000},
            "progress": serde_json::to_value(penstock_api::transfer::Progress {
                files: 2, bytes: 20, seconds: 3.0, ..Default::default()
            }).unwrap(),
        });
        let report: TransferReport = serde_json::from_value(report).unwrap();
        let of = |change: &dyn Fn(&mut TransferReport)| {
            let mut report = report.clone();
            change(&mut report);
            PastTransfer::of(&TransferView::of(report, &"hpc".parse().unwrap()), |of| {
                of == Mode::default()
            })
        };
        let past = of(&|_| {}).unwrap();
        assert_eq!((past.extent, past.seconds), (Extent { files: 2, bytes: 20 }, 3.0));
        assert_eq!(past.ended, Timestamp::of_seconds(9));
        let timed = of(&|it| it.attempts.started_ms = Some(5500)).unwrap();
        assert_eq!(timed.seconds, 3.5);
        let changes: [&dyn Fn(&mut TransferReport); 8] = [
            &|it| it.state = TransferState::Failed,
            &|it| it.attempts.count = 2,
            &|it| it.progress.bytes_resumed = 1,
            &|it| it.progress.skipped = 1,
            &|it| it.options.limits.rate_bits_per_s = Some(1),
            &|it| it.options.encryption = Encryption::Off,
            &|it| it.options.lanes = 1,
            &|it| it.options.cipher_suite = Some(CipherSuite::Aes256Gcm),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert_eq!(of(change), None, "change {at}");
        }
    }
}
