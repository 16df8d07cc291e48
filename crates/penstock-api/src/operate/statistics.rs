//! Statistics of transfers and peers: their figures over time, in columns, and summaries of these.
//!
//! Each peer keeps what it has seen itself, every second of it, thinned as it becomes older. A view
//! has a part for each peer that has something, and names the peers that did not answer.

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

/// Points of a series in an answer unless the request says another number.
pub const POINTS_DEFAULT: u32 = 600;
/// Most points of a series in an answer.
pub const POINTS_MAX: u32 = 5000;

/// The part of a series that a request wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SeriesQuery {
    /// The peer that is asked; all of the site unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Name>,
    /// Names of columns, with commas between; all unless it is said. Of a column for each card or
    /// disk the name alone takes all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub columns: String,
    /// Begin of the time; of a transfer its own, of peers an hour ago unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// End of the time; now unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Most points, 1 to [`POINTS_MAX`]; neighbours are put together until they fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(range(min = 1, max = POINTS_MAX)))]
    pub points: Option<u32>,
    /// The form of the answer: `json`, or `csv` for a table with a line for each peer and point. A
    /// table has the peers that did not answer in the header `penstock-silent-peers`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schemars(extend("enum" = ["", "json", "csv"])))]
    pub format: String,
}

/// One figure over time. The lists are as long as `at` of its series; `null` is where it is
/// unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SeriesColumn {
    /// Name of the figure, with its unit at the end, as `rate_bits_per_s`.
    #[serde(deserialize_with = "crate::text::field")]
    pub name: String,
    /// The card or the disk, where each has a column; empty for figures of the whole host.
    #[serde(default, deserialize_with = "crate::text::field")]
    pub of: String,
    /// Least value within each point.
    pub min: Vec<Option<f64>>,
    /// Mean value within each point.
    pub mean: Vec<Option<f64>>,
    /// Greatest value within each point.
    pub max: Vec<Option<f64>>,
}

/// The figures of one peer over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerSeries {
    /// The peer that has seen them.
    pub peer: Name,
    /// Begin of each point, in seconds since 1970, ascending.
    pub at: Vec<u64>,
    /// Length of each point, in seconds.
    pub seconds: Vec<u64>,
    /// The figures.
    pub columns: Vec<SeriesColumn>,
}

/// The figures of a transfer over time, as the peers of this site have seen them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TransferSeries {
    /// The transfer.
    pub transfer: TransferId,
    /// The peers that have worked for it.
    pub peers: Vec<PeerSeries>,
    /// Peers that were asked and did not answer.
    pub silent: Vec<Name>,
}

/// Spread of a figure, over the seconds in which it was known.
///
/// Quantiles are those of Hyndman and Fan's type 7, as NumPy and R have by default: linear between
/// the two values next to them. Least, greatest and mean value are of all seconds; quantiles of
/// those that are kept one by one, and of means of longer points for what is older.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Number of seconds.
    pub seconds: u64,
    /// Least value.
    pub min: f64,
    /// 5 % of the values are below it.
    pub p5: f64,
    /// A quarter of the values is below it.
    pub q1: f64,
    /// Half of the values is below it.
    pub median: f64,
    /// Three quarters of the values are below it.
    pub q3: f64,
    /// 95 % of the values are below it.
    pub p95: f64,
    /// 99 % of the values are below it.
    pub p99: f64,
    /// Greatest value.
    pub max: f64,
    /// Mean value.
    pub mean: f64,
}

/// Spread of one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ColumnSpread {
    /// Name of the figure, with its unit at the end, as `rate_bits_per_s`.
    #[serde(deserialize_with = "crate::text::field")]
    pub name: String,
    /// Its spread.
    pub spread: Spread,
}

/// Spread of the time that one processor was busy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CoreSpread {
    /// Number of the processor.
    pub core: u32,
    /// Spread of its busy time, in percent of each second, rounded to whole ones.
    pub busy_percent: Spread,
}

/// Energy that a host used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Energy {
    /// True if the host counts its energy.
    pub is_available: bool,
    /// Reason why energy is not measurable there; empty if it is.
    #[serde(deserialize_with = "crate::text::field")]
    pub why: String,
    /// The energy with each cipher that protected lanes; of a transfer one.
    pub ciphers: Vec<CipherEnergy>,
}

/// Energy that a host used while it moved payload under one cipher.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CipherEnergy {
    /// `AES-128-GCM`, `AES-256-GCM`, `ChaCha20-Poly1305`; `clear` for lanes that are authenticated
    /// and not sealed; `none` where there were no lanes.
    #[serde(deserialize_with = "crate::text::field")]
    pub cipher: String,
    /// Bytes of payload that the peer moved meanwhile.
    pub bytes: u64,
    /// Seconds.
    pub seconds: u64,
    /// Seconds of these in which the peer worked for other transfers too. The energy is that of the
    /// whole host, so figures with such seconds are too great.
    pub shared_seconds: u64,
    /// Energy of the processors, in joules.
    pub package_joules: Option<f64>,
    /// Energy of the memory, in joules; none where the processor does not count it.
    pub dram_joules: Option<f64>,
    /// Energy of the processors for each TiB of payload.
    pub package_joules_per_tib: Option<f64>,
    /// Energy of the memory for each TiB of payload.
    pub dram_joules_per_tib: Option<f64>,
}

/// Summary of the figures of a transfer at one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerStatistics {
    /// The peer that has seen them.
    pub peer: Name,
    /// Cipher of its lanes, as `AES-128-GCM`; `clear` without encryption, `none` where it moved
    /// within its host, empty before the first lane.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cipher: String,
    /// Begin of the first second.
    pub since: Timestamp,
    /// Begin of the last second.
    pub until: Timestamp,
    /// The figures.
    pub columns: Vec<ColumnSpread>,
    /// The processors.
    pub cores: Vec<CoreSpread>,
    /// Energy of the host while it worked for the transfer.
    pub energy: Energy,
}

/// Summary of the figures of a transfer, as the peers of this site have seen them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TransferStatistics {
    /// The transfer.
    pub transfer: TransferId,
    /// The peers that have worked for it.
    pub peers: Vec<PeerStatistics>,
    /// Peers that were asked and did not answer.
    pub silent: Vec<Name>,
}

/// Time of all processors of a host together, since its boot, as its kernel counts it. Two of them
/// make exact figures of the time between: `busy_s` by `total_s` is the share that was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ProcessorTime {
    /// Processors that are online.
    pub processors: u32,
    /// Time of user code, the kernel, interrupts and guests.
    pub busy_s: f64,
    /// Idle time in which a disk was awaited.
    pub iowait_s: f64,
    /// Time that the hypervisor gave to others.
    pub steal_s: f64,
    /// All time of all processors, idle time included.
    pub total_s: f64,
}

/// A peer over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerHistory {
    /// Its figures over time.
    pub series: PeerSeries,
    /// Summaries of the figures that are of the whole host, over the same time.
    pub columns: Vec<ColumnSpread>,
    /// Its processors over the last ten minutes.
    pub cores: Vec<CoreSpread>,
    /// Time of its processors until this answer. Absent where the kernel does not show it, or the
    /// peer is of an earlier release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorTime>,
    /// Its energy by cipher, over all transfers that are kept.
    pub energy: Energy,
}

/// The peers of the site over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SiteStatistics {
    /// The site.
    pub site: Name,
    /// Its peers that have answered.
    pub peers: Vec<PeerHistory>,
    /// Peers that were asked and did not answer.
    pub silent: Vec<Name>,
}
