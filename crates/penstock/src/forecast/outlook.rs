//! A forecast, and what it is based on: the transfers of the past where they tell, else the least
//! time by measurements.
//!
//! Pure: `evidence` asks the daemons.

use penstock_api::benchmark::Benchmark;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{Durability, Encryption, Location};
use penstock_proto::benchmark::BenchmarkOperation;
use penstock_proto::id::Name;
use penstock_proto::units::{format_bytes, format_rate};
use serde::Serialize;

use super::extent::Extent;
use super::history::{
    Graded, Interval, Method, Mode, PastTransfer, grade, interval, nearest, predict,
};
use super::network_time::network_time;
use super::storage_time::{Measured, Unmeasured, storage_time};

/// What is known of one of the stores.
#[derive(Clone, Debug)]
pub(super) enum StoreEvidence {
    /// The results that its site keeps, newest first.
    Results(Vec<Benchmark>),
    /// It generates or discards data, which costs no time of a device.
    Virtual,
    /// The reason why its site was not asked.
    Unknown(String),
}

/// All that is known of transfers between two places.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub(super) source: Location,
    pub(super) target: Location,
    pub(super) mode: Mode,
    /// The site that is not the one that was asked.
    pub(super) other: Option<Name>,
    /// Transfers between the two stores, newest first.
    pub(super) past: Vec<PastTransfer>,
    /// Transfers of the newest benchmark of the way, newest first.
    pub(super) network: Vec<PastTransfer>,
    pub(super) read: StoreEvidence,
    pub(super) write: StoreEvidence,
}

/// A part of the way of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    Read,
    Network,
    Write,
}

impl Part {
    /// Returns its name, one word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Network => "network",
            Self::Write => "write",
        }
    }

    /// Returns it in the words in which transfers name what limits them.
    fn words(self) -> &'static str {
        match self {
            Self::Read => "reading at the source",
            Self::Network => "the network",
            Self::Write => "writing at the target",
        }
    }
}

/// The least time for one part, or the reason why it is not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PartTime {
    pub(super) part: Part,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) least_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) greatest_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) measured_at: Option<Timestamp>,
    /// The measurement, or the reason why there is none.
    pub(super) basis: String,
    /// The command that would measure it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
}

/// The transfers that a forecast follows from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct HistoryBasis {
    #[serde(flatten)]
    pub(super) method: Method,
    pub(super) transfers: usize,
    pub(super) newest: Timestamp,
    pub(super) oldest: Timestamp,
    /// True if all of them had these places, false if some had others in the same stores.
    pub(super) same_places: bool,
    /// False if none of them had files of about this size.
    pub(super) is_within: bool,
}

/// A forecast for one data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Forecast {
    pub(super) source: Location,
    pub(super) target: Location,
    pub(super) mode: Mode,
    #[serde(flatten)]
    pub(super) extent: Extent,
    /// None where nothing tells.
    pub(super) seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interval: Option<Interval>,
    /// True if it is the least time by measurements, false if it follows from transfers.
    pub(super) is_lower_bound: bool,
    /// The part that limits the rate, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<String>,
    /// Where that is known from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit_basis: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<HistoryBasis>,
    pub(super) parts: Vec<PartTime>,
}

/// Factor beyond the mean sizes of past transfers up to which a data set is like them.
const BEYOND: f64 = 4.0;

impl Evidence {
    /// Returns the forecast for a data set by the classes of its files.
    pub(super) fn forecast(&self, classes: &[Extent]) -> Forecast {
        let extent = Extent::sum(classes);
        let parts = self.parts(classes);
        let slowest = parts.iter().filter(|part| part.seconds.is_some());
        let slowest = slowest.max_by(|one, other| {
            one.seconds.unwrap_or(0.0).total_cmp(&other.seconds.unwrap_or(0.0))
        });
        let (used, same_places) = nearest(&self.past, &self.source, &self.target);
        let bound = |extent| self.bound(extent);
        let predicted = predict(&used, classes, &bound);
        let mut forecast = Forecast {
            source: self.source.clone(),
            target: self.target.clone(),
            mode: self.mode,
            extent,
            seconds: slowest.and_then(|part| part.seconds),
            interval: None,
            is_lower_bound: true,
            limit: slowest.map(|part| part.part.words().to_owned()),
            limit_basis: slowest.map(|_| "the greatest of the times that were measured".to_owned()),
            history: None,
            parts: Vec::new(),
        };
        if let Some(predicted) = predicted {
            forecast.seconds = Some(predicted.seconds);
            forecast.is_lower_bound = false;
            forecast.history = basis(&used, predicted.method, same_places, extent);
            // Past errors tell nothing of other files.
            let is_within = forecast.history.as_ref().is_some_and(|history| history.is_within);
            forecast.interval =
                is_within.then(|| interval(&predicted, &grade(&used, &bound))).flatten();
            if let Some((limit, basis)) = limit_of(&used, extent) {
                (forecast.limit, forecast.limit_basis) = (Some(limit), Some(basis));
            }
        }
        forecast.parts = parts;
        forecast
    }

    /// Forecasts each transfer of the past that a forecast would follow from, from the others.
    pub(super) fn grade(&self) -> Vec<Graded<'_>> {
        let (used, _) = nearest(&self.past, &self.source, &self.target);
        grade(&used, &|extent| self.bound(extent))
    }

    /// Returns the least time of files of one size by the parts that are measured.
    fn bound(&self, extent: Extent) -> Option<f64> {
        let parts = self.parts(&[extent]);
        parts.iter().filter_map(|part| part.seconds).reduce(f64::max)
    }

    fn parts(&self, classes: &[Extent]) -> Vec<PartTime> {
        let read = store_part(Part::Read, &self.read, &self.source, classes);
        let write = match (self.mode.durability, &self.write) {
            // `bench storage` measures until all is durable.
            (Durability::None, StoreEvidence::Results(_)) => {
                let basis = "writing is measured until it is durable, which this transfer is not";
                Some(PartTime::missing(Part::Write, basis.to_owned(), None))
            }
            _ => store_part(Part::Write, &self.write, &self.target, classes),
        };
        let is_far = self.source.site != self.target.site;
        let network = is_far.then(|| self.network_part(Extent::sum(classes)));
        read.into_iter().chain(network).chain(write).collect()
    }

    fn network_part(&self, extent: Extent) -> PartTime {
        match network_time(extent, &self.network) {
            Some(measured) => {
                let rate = format_rate(extent.bytes as f64 * 8.0 / measured.seconds.max(1e-9));
                let basis = format!("{rate} by `penstock bench network`");
                PartTime::measured(Part::Network, measured, basis)
            }
            None => {
                let basis = match self.network.is_empty() {
                    true => "the way was not measured",
                    false => "the way was measured with much smaller files only",
                };
                let site = self.other.as_ref().map(|site| format!(" {site}")).unwrap_or_default();
                let mode = match self.mode.encryption {
                    Encryption::Off => " --encryption off",
                    _ => "",
                };
                let command = format!("penstock bench network{site}{mode}");
                PartTime::missing(Part::Network, basis.to_owned(), Some(command))
            }
        }
    }
}

impl PartTime {
    fn measured(part: Part, by: Measured, basis: String) -> Self {
        Self {
            part,
            seconds: Some(by.seconds),
            least_s: Some(by.least_s),
            greatest_s: Some(by.greatest_s),
            measured_at: Some(by.at),
            basis,
            command: None,
        }
    }

    fn missing(part: Part, basis: String, command: Option<String>) -> Self {
        let (seconds, least_s, greatest_s, measured_at) = (None, None, None, None);
        Self { part, seconds, least_s, greatest_s, measured_at, basis, command }
    }
}

fn store_part(
    part: Part,
    evidence: &StoreEvidence,
    place: &Location,
    classes: &[Extent],
) -> Option<PartTime> {
    let (site, store): (&Name, &Name) = (&place.site, &place.store);
    let operation = match part {
        Part::Write => BenchmarkOperation::Write,
        Part::Read | Part::Network => BenchmarkOperation::Read,
    };
    let results = match evidence {
        StoreEvidence::Virtual => return None,
        StoreEvidence::Unknown(why) => return Some(PartTime::missing(part, why.clone(), None)),
        StoreEvidence::Results(results) => results,
    };
    Some(match storage_time(classes, results, operation) {
        Ok(measured) => {
            let basis = format!("store `{store}` of {site}, benchmark {}", measured.id.short());
            PartTime::measured(part, measured, basis)
        }
        Err(Unmeasured(size)) => {
            let of = format!("store `{store}` of {site}");
            let (basis, sizes) = match results.is_empty() {
                true => (format!("{of} was not measured"), String::new()),
                false => {
                    let files = format_bytes(size);
                    let basis = format!("{of} has no sound result for files of {files}");
                    (basis, format!(" --sizes {}", size.max(1)))
                }
            };
            let command = format!("penstock bench storage {store}{sizes}");
            PartTime::missing(part, format!("{basis}, at site {site}"), Some(command))
        }
    })
}

fn basis(
    used: &[&PastTransfer],
    method: Method,
    same_places: bool,
    extent: Extent,
) -> Option<HistoryBasis> {
    let times = || used.iter().map(|one| one.ended);
    let is_near = |one: &&PastTransfer| {
        let ratio = one.extent.mean_bytes() / extent.mean_bytes();
        (1.0 / BEYOND..=BEYOND).contains(&ratio)
    };
    Some(HistoryBasis {
        method,
        transfers: used.len(),
        newest: times().max()?,
        oldest: times().min()?,
        same_places,
        is_within: is_between(used, extent) || used.iter().any(is_near),
    })
}

/// Returns whether some transfers had files of a smaller mean size, and some of a greater one.
fn is_between(used: &[&PastTransfer], extent: Extent) -> bool {
    let mean = extent.mean_bytes();
    let has = |is: fn(f64, f64) -> bool| used.iter().any(|one| is(one.extent.mean_bytes(), mean));
    has(|one, mean| one <= mean) && has(|one, mean| one >= mean)
}

/// Returns what limited the transfer with the nearest mean size, and which one that was.
fn limit_of(used: &[&PastTransfer], extent: Extent) -> Option<(String, String)> {
    let far = |one: &PastTransfer| (one.extent.mean_bytes() / extent.mean_bytes()).ln().abs();
    let known = used.iter().filter(|one| one.limit.is_some());
    let nearest = known.min_by(|one, other| far(one).total_cmp(&far(other)))?;
    let (id, mean) = (nearest.id.short(), format_bytes(nearest.extent.mean_bytes() as u64));
    let basis = format!("as in transfer {id}, with files of {mean} in the mean");
    Some((nearest.limit.clone()?, basis))
}

#[cfg(test)]
mod tests {
    use super::super::history::examples::past;
    use super::super::storage_time::examples::written;
    use super::*;

    fn evidence(past: Vec<PastTransfer>, write: StoreEvidence) -> Evidence {
        Evidence {
            source: "lab:raw/set".parse().unwrap(),
            target: "hpc:scratch/set".parse().unwrap(),
            mode: Mode::default(),
            other: Some("hpc".parse().unwrap()),
            past,
            network: Vec::new(),
            read: StoreEvidence::Unknown("site lab was not asked".to_owned()),
            write,
        }
    }

    const SET: [Extent; 1] = [Extent { files: 1000, bytes: 4_096_000 }];

    /// Promise: without a transfer the greatest measured time is the lower bound. Each part that is
    /// not known names the reason and the command; with nothing at all there is no number.
    #[test]
    fn nothing_is_invented() {
        let results = StoreEvidence::Results(vec![written(1, &[(4096, 4_096_000.0)])]);
        let forecast = evidence(Vec::new(), results).forecast(&SET);
        assert_eq!((forecast.seconds, forecast.is_lower_bound), (Some(1.0), true));
        assert_eq!(forecast.limit.as_deref(), Some("writing at the target"));
        let known = forecast.parts.iter().map(|part| (part.part.as_str(), part.seconds));
        assert!(known.eq([("read", None), ("network", None), ("write", Some(1.0))]));
        assert_eq!(forecast.parts[1].command.as_deref(), Some("penstock bench network hpc"));
        let none = evidence(Vec::new(), StoreEvidence::Results(Vec::new())).forecast(&SET);
        assert_eq!((none.seconds, &none.limit), (None, &None));
        let command = none.parts[2].command.as_deref();
        assert_eq!(command, Some("penstock bench storage scratch"));
        let far = StoreEvidence::Results(vec![written(1, &[(1 << 30, 1e8)])]);
        let far = evidence(Vec::new(), far).forecast(&SET);
        let command = far.parts[2].command.as_deref();
        assert_eq!(command, Some("penstock bench storage scratch --sizes 4096"));
        let results = StoreEvidence::Results(vec![written(1, &[(4096, 4_096_000.0)])]);
        let mut volatile = evidence(Vec::new(), results);
        volatile.mode = Mode { durability: Durability::None, ..Mode::default() };
        assert_eq!(volatile.forecast(&SET).seconds, None, "a durable write is no bound of it");
        let virtual_store = evidence(Vec::new(), StoreEvidence::Virtual).forecast(&SET);
        assert!(virtual_store.parts.iter().all(|part| part.part != Part::Write));
    }

    /// Promise: transfers of the past outweigh measurements; what limited the one with the nearest
    /// files is named, and files beyond all of theirs are said to be.
    #[test]
    fn transfers_outweigh_measurements() {
        let mut all =
            vec![past(1000, 4096, 3.0, 3), past(100, 1 << 20, 2.0, 2), past(2000, 4096, 5.0, 1)];
        all[1].limit = Some("the network".to_owned());
        let results = StoreEvidence::Results(vec![written(1, &[(4096, 4_096_000.0)])]);
        let evidence = evidence(all, results);
        let forecast = evidence.forecast(&SET);
        assert!(!forecast.is_lower_bound && (forecast.seconds.unwrap() - 3.0).abs() < 1e-6);
        assert_eq!(forecast.limit.as_deref(), Some("writing at the target"));
        assert!(forecast.history.unwrap().is_within);
        let large = evidence.forecast(&[Extent { files: 1, bytes: 1 << 30 }]);
        assert_eq!(large.limit.as_deref(), Some("the network"));
        assert!(!large.history.unwrap().is_within);
        assert_eq!(evidence.grade().len(), 3);
    }

    /// Promise: JSON has the parts of the line, and the cost of files below those of the history
    /// where the records tell it.
    #[test]
    fn json_has_the_cost_of_small_files() {
        let mut all = vec![past(100, 1 << 20, 1.0, 2), past(10, 64 << 20, 4.0, 1)];
        all.push(past(200, 1 << 20, 1.6, 3));
        let json = |all: &[PastTransfer]| {
            let forecast = evidence(all.to_vec(), StoreEvidence::Virtual).forecast(&SET);
            serde_json::to_value(forecast).unwrap()["history"].take()
        };
        let history = json(&all);
        assert_eq!(history["method"], "fit");
        assert!(history["byte_s"].as_f64().unwrap() > 0.0 && history.get("small").is_none());
        all.iter_mut().for_each(|one| one.file_share = Some(0.01));
        assert_eq!(json(&all)["small"]["below_bytes"], 1048576.0);
    }
}
