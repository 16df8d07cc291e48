//! The records of a run directory, in format 1 (docs/evaluation.md).

#[cfg(test)]
pub(super) mod examples;

use std::collections::BTreeMap;
use std::path::Path;

use penstock_api::statistics::ProcessorTime;
use penstock_api::timestamp::Timestamp;
use penstock_proto::id::TransferId;
use serde::{Deserialize, Serialize};

use super::matrix::Direction;
use super::modes::Mode;
use crate::commands::bench::mover::Times;
use crate::dataset::Counts;

/// The format of run directories that this release writes and reads.
pub(super) const FORMAT: u32 = 1;
/// Begin of the name of a sweep's directory in a store; its id follows.
pub(super) const DIRECTORY: &str = ".penstock-sweep-";

/// `run.json`: the sweep as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) format: u32,
    /// Sixteen hexadecimal digits, also in the names of its directories in stores.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) begun: Timestamp,
    pub(super) ended: Option<Timestamp>,
    pub(super) seed: u64,
    /// Release of the program that measures.
    pub(super) penstock: String,
    pub(super) api: String,
    pub(super) source: String,
    pub(super) target: String,
    /// The site whose daemon is asked.
    pub(super) asked: String,
    pub(super) repeats: u32,
    pub(super) warmup: u32,
    pub(super) cool_down_s: u32,
    pub(super) verify: String,
    pub(super) directions: Vec<Direction>,
    pub(super) datasets: Vec<Dataset>,
    pub(super) modes: Vec<Mode>,
    /// Ids of all cells, in order.
    pub(super) cells: Vec<String>,
}

impl Run {
    /// Returns the begin of the labels of its transfers.
    pub(super) fn label(&self) -> String {
        format!("sweep {}", self.id)
    }

    /// Returns the directories of the sweep at its source and its target.
    pub(super) fn places(&self) -> [String; 2] {
        [&self.source, &self.target].map(|end| format!("{end}/{DIRECTORY}{}", self.id))
    }

    /// Returns a hint with the command that removes the directories of the sweep from both stores;
    /// the hint alone, if the sweep has ended. The results are in `path`.
    pub(super) fn with_removal(&self, hint: &str, path: &Path) -> String {
        if self.ended.is_some() {
            return hint.to_owned();
        }
        let ([source, target], path) = (self.places(), path.display());
        format!("{hint}; `penstock bench sweep --clean {path}` removes {source} and {target}")
    }
}

/// A data set by its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Dataset {
    pub(super) name: String,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) histogram: Vec<SizeClass>,
}

/// Files of sizes from a power of two, or 0, up to below its double.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SizeClass {
    pub(super) from_bytes: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Dataset {
    /// Returns the numbers of files that were counted.
    pub(super) fn of(name: &str, counts: &Counts) -> Self {
        let class = |class: crate::dataset::Class| SizeClass {
            from_bytes: class.from_bytes,
            files: class.files,
            bytes: class.bytes,
        };
        Self {
            name: name.to_owned(),
            files: counts.files(),
            bytes: counts.bytes(),
            histogram: counts.classes().into_iter().map(class).collect(),
        }
    }
}

/// A line of `cells.jsonl`: a transfer that was measured, or failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) id: String,
    pub(super) block: u32,
    pub(super) order: usize,
    pub(super) repeat: u32,
    pub(super) warmup: bool,
    pub(super) dataset: Dataset,
    pub(super) direction: Direction,
    pub(super) source: String,
    pub(super) target: String,
    pub(super) mode: Mode,
    pub(super) peers: Peers,
    pub(super) rtt_ms: Option<f64>,
    pub(super) t: Times,
    pub(super) bytes: Option<u64>,
    pub(super) files: Option<u64>,
    pub(super) rate: Option<Rates>,
    pub(super) files_per_s: Option<f64>,
    pub(super) resent_bytes: Option<u64>,
    /// Attempts beyond the first one.
    pub(super) retries: Option<u32>,
    /// By `site/peer`.
    pub(super) cpu: BTreeMap<String, Cpu>,
    pub(super) peak_rss: BTreeMap<String, f64>,
    pub(super) before: Before,
    /// Seconds of the transfer's threads by activity.
    pub(super) time: SideSeconds,
    pub(super) bottleneck: Option<String>,
    pub(super) flags: Vec<String>,
    pub(super) verify: Option<Verified>,
    pub(super) error: Option<CellError>,
    pub(super) transfer: Option<TransferId>,
    /// Release of the daemon.
    pub(super) penstock: String,
}

impl Cell {
    /// Returns whether its verification has found wrong data.
    pub(super) fn is_wrong(&self) -> bool {
        self.verify.as_ref().is_some_and(|verified| !verified.ok)
    }

    /// Returns whether it can be run again: it has failed, and has not moved wrong data, which no
    /// other run undoes.
    pub(super) fn is_retriable(&self) -> bool {
        self.error.is_some() && !self.is_wrong()
    }
}

/// Peers that worked for a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Peers {
    pub(super) source: Vec<String>,
    pub(super) target: Vec<String>,
}

/// Rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Rates {
    /// All bytes over the time from submission to end.
    pub(super) effective: f64,
    /// Between 20 % and 80 % of the bytes.
    pub(super) steady_20_80: Option<f64>,
    /// The greatest over about a second.
    pub(super) max_1s: f64,
}

/// Processor time of one peer. Times of the host are growth of the kernel's counters from the
/// submission to the end, or sums of samples, which cover whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cpu {
    pub(super) cores: Option<usize>,
    /// Of the whole host, as the next two.
    pub(super) busy_s: Option<f64>,
    pub(super) iowait_s: Option<f64>,
    pub(super) steal_s: Option<f64>,
    /// All time of the processors in that span; none where there are only samples.
    pub(super) available_s: Option<f64>,
    /// Of the threads of the transfer alone.
    pub(super) threads_s: Option<f64>,
}

impl Cpu {
    /// Returns the record of a host whose kernel has counted.
    pub(super) fn counted(host: &ProcessorTime, threads_s: Option<f64>) -> Self {
        Self {
            cores: Some(host.processors as usize),
            busy_s: Some(host.busy_s),
            iowait_s: Some(host.iowait_s),
            steal_s: Some(host.steal_s),
            available_s: Some(host.total_s),
            threads_s,
        }
    }
}

/// Observations before the transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Before {
    /// Processors in use, by `site/peer`.
    pub(super) busy_cores: BTreeMap<String, f64>,
}

/// Seconds by activity, of each side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SideSeconds {
    pub(super) source: BTreeMap<String, f64>,
    pub(super) target: BTreeMap<String, f64>,
}

/// What was verified after the transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Verified {
    pub(super) how: String,
    pub(super) ok: bool,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// The reason why a cell has no figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CellError {
    /// Name of the exit status, as `some-failed`.
    pub(super) code: String,
    pub(super) text: String,
}

impl CellError {
    /// Returns the record of an error.
    pub(super) fn of(error: &anyhow::Error) -> Self {
        let exit = penstock_exit::problem_of(error).exit;
        let code = serde_json::to_value(exit).ok();
        let code = code.and_then(|code| code.as_str().map(str::to_owned)).unwrap_or_default();
        Self { code, text: format!("{error:#}") }
    }
}
