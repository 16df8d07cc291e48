//! Benchmarks of stores: what one is to measure, and what it has measured.

use penstock_proto::benchmark::{BenchmarkMark, BenchmarkOperation, BlockDeviceKind, CacheState};
use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::place::PathText;
use crate::timestamp::Timestamp;

/// Most results that a site keeps of one store; an older one makes room.
pub const BENCHMARKS_KEPT: usize = 8;
/// Most sizes of files in one benchmark.
pub const BENCHMARK_SIZES_MAX: usize = 40;
/// Most repeats of each step.
pub const BENCHMARK_REPEATS_MAX: u32 = 20;
/// Longest time for which a step grants files and extents, in seconds.
pub const BENCHMARK_SECONDS_MAX: u32 = 300;
/// Most threads of each peer.
pub const BENCHMARK_THREADS_MAX: u32 = 256;
/// Most points of one benchmark. With all repeats the result stays below a MiB, which the state of
/// a site takes.
pub const BENCHMARK_POINTS_MAX: usize = 160;
/// Most entries on the traffic of devices in one benchmark, all runs together, for the same reason.
/// A run for which there is no room has none.
pub const BENCHMARK_TRAFFIC_MAX: usize = 3000;

/// What a benchmark can be asked to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BenchmarkKind {
    /// Writing, as a target does it.
    Write,
    /// Reading, as a source does it. The files are written first, and that is shown too.
    Read,
    /// Making, naming, looking at, listing and removing empty files.
    Meta,
}

impl BenchmarkKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Meta];
}

impl std::str::FromStr for BenchmarkKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "write" => Ok(Self::Write),
            "read" => Ok(Self::Read),
            "meta" => Ok(Self::Meta),
            _ => Err(format!("`{text}` is not `write`, `read` or `meta`")),
        }
    }
}

/// Request for a benchmark of a store. A field that is absent lets the site choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BenchmarkRequest {
    /// Directory of the store within which the files are made; empty for the store's root. It
    /// exists.
    #[serde(default)]
    pub path: PathText,
    /// Number of peers that measure together; all that reach the store if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<u32>,
    /// What to measure; all if it is empty.
    #[serde(default)]
    pub operations: Vec<BenchmarkKind>,
    /// Sizes of files in bytes; six from 4 KiB to 1 GiB if it is empty.
    #[serde(default)]
    pub sizes: Vec<u64>,
    /// Numbers of threads of each peer, each of which is measured; as many threads as a transfer
    /// within the host has if it is empty.
    #[serde(default)]
    pub threads: Vec<u32>,
    /// Longest time for which a step grants small files, and extents of large ones, in seconds; 10
    /// if it is absent. All that was granted is completed. A large file of which an extent was not
    /// granted gets no name, and cannot be read. A step whose files are done early is repeated
    /// within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// Number of times that each step is done; 3 if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Bytes that the files may take at a time; a twentieth of the free bytes if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// True to measure although transfers read from the store or write to it.
    #[serde(default)]
    pub with_load: bool,
    /// True to have each host give up the caches of all its files before it reads. That slows down
    /// other programs of the hosts for a while.
    #[serde(default)]
    pub drop_caches: bool,
}

/// State of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BenchmarkState {
    /// It measures, or removes its files.
    Running,
    /// It has measured all steps.
    Done,
    /// A user has ended it.
    Cancelled,
    /// It has ended early; `problem` says why.
    Failed,
}

impl BenchmarkState {
    /// Returns its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// A host that has measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkPeer {
    /// The peer.
    pub peer: Name,
    /// Its processors.
    pub processors: u32,
    /// Its memory in bytes; 0 if that is not known.
    pub memory_bytes: u64,
    /// Most threads that read or wrote at a time; those that worked on names where no bytes moved.
    pub threads: u32,
    /// Reason why the host could not give up the caches of all its files, as the request wanted;
    /// absent where it did, or was not to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "crate::text::optional_field")]
    pub caches_kept: Option<String>,
    /// The block devices below the files, in ascending order of depth and at most 32. Empty where
    /// the store is on none, as on a network file system, and for peers of releases that did not
    /// look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<BenchmarkDevice>,
}

/// A block device below the files of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkDevice {
    /// Its name, as the kernel has it, such as `nvme0n1` or `dm-3`.
    #[serde(deserialize_with = "crate::text::field")]
    pub name: String,
    /// Its kind.
    pub kind: BlockDeviceKind,
    /// The level of an array, such as `raid5`; the origin and the name of a mapped device, such as
    /// `LVM vg-data`; empty of others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub label: String,
    /// Number of devices between it and the file system.
    pub depth: u32,
}

/// Work of a block device in a run. The kernel counts for the whole host: other programs that use
/// the device are counted too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkTraffic {
    /// The peer that has the device.
    pub peer: Name,
    /// The name of the device among those of the peer.
    #[serde(deserialize_with = "crate::text::field")]
    pub device: String,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Time with at least one request in work, in milliseconds.
    pub busy_ms: u64,
}

/// The file system of a store, as a benchmark found it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkFileSystem {
    /// Its kind, such as `XFS`.
    #[serde(deserialize_with = "crate::text::field")]
    pub kind: String,
    /// Options of its mount; empty if they are not known.
    #[serde(default, deserialize_with = "crate::text::field")]
    pub options: String,
    /// The store's fingerprint: another one means another file system.
    #[serde(deserialize_with = "crate::text::field")]
    pub fingerprint: String,
    /// Calls that made data durable, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub durable_by: String,
    /// True if whole blocks of large files were written past the page cache.
    pub direct: bool,
    /// Bytes that could be written before the benchmark.
    pub free_bytes: u64,
    /// Bytes that it holds in all.
    pub total_bytes: u64,
    /// Files that could be made before the benchmark; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_files: Option<u64>,
}

/// One run of a step, with times since the barrier at which all peers began. A step that was done
/// early was repeated: times and numbers are sums over its passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkRun {
    /// Bytes that all peers moved.
    pub bytes: u64,
    /// Files that all peers completed, or names that they dealt with.
    pub files: u64,
    /// Time until the first peer was done, in seconds.
    pub first_done_s: f64,
    /// Time until the last peer was done, in seconds.
    pub last_done_s: f64,
    /// Time until all was durable under final names, in seconds; `last_done_s` where nothing is
    /// written.
    pub durable_s: f64,
    /// Number of passes over a set of files.
    pub passes: u32,
    /// State of the readers' caches before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheState>,
    /// Reasons why it says less than it seems to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<BenchmarkMark>,
    /// Work of the block devices below the store, from the barrier on until all of their peer was
    /// durable, without the time between passes. A device that went or came meanwhile is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<BenchmarkTraffic>,
}

/// The median of the runs of a step, with both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkRate {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

/// A measured point: an operation on files of one size, with one number of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkPoint {
    /// The operation.
    pub operation: BenchmarkOperation,
    /// Size of each file in bytes; 0 for operations on names.
    pub size_bytes: u64,
    /// Threads of the peer that had the most; 0 in results of releases that did not record them.
    #[serde(default)]
    pub threads: u32,
    /// Bytes per second until all was durable; zeros for operations on names.
    pub bytes_per_s: BenchmarkRate,
    /// Files per second until all was durable.
    pub files_per_s: BenchmarkRate,
    /// The marks that any of its runs has. Nothing is forecast from a point with a mark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<BenchmarkMark>,
    /// Its runs, oldest first.
    pub runs: Vec<BenchmarkRun>,
}

/// A benchmark of a store: one that runs, or a result that the site keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Benchmark {
    /// Its id.
    pub id: TransferId,
    /// The store.
    pub store: Name,
    /// The directory within which its files were.
    pub path: PathText,
    /// Its state.
    pub state: BenchmarkState,
    /// The user who began it.
    #[serde(deserialize_with = "crate::text::field")]
    pub user: String,
    /// Its begin.
    pub began: Timestamp,
    /// Its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Release of the program.
    #[serde(deserialize_with = "crate::text::field")]
    pub version: String,
    /// Steps that are done, and all of them.
    pub steps_done: u32,
    /// Number of all steps.
    pub steps: u32,
    /// The present step in words; empty once it has ended.
    #[serde(default, deserialize_with = "crate::text::field")]
    pub step: String,
    /// Longest time for which a step granted small files, and extents of large ones, in seconds.
    pub seconds: u32,
    /// Number of repeats of each step.
    pub repeats: u32,
    /// Bytes that its files might take at a time.
    pub budget_bytes: u64,
    /// True if transfers used the store when it began, or before one of its steps.
    pub with_load: bool,
    /// The hosts that measured together.
    pub peers: Vec<BenchmarkPeer>,
    /// Numbers of threads that the request wanted; empty where the peers chose, as transfers do,
    /// and in results of releases that did not record them. What is measured with others is not
    /// what the store can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads_asked: Vec<u32>,
    /// Number of peers that reached the store, and did not measure since the request wanted fewer.
    /// Unless it is 0 the result is not what the store can do.
    #[serde(default)]
    pub peers_left_out: u32,
    /// The file system.
    pub file_system: BenchmarkFileSystem,
    /// Sizes of which the budget of a peer holds no file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<u64>,
    /// Sizes of which at least one read was left out: no file was written whole within `seconds`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<u64>,
    /// The points that are measured by now.
    pub points: Vec<BenchmarkPoint>,
    /// Reason of an early end, and of files that could not be removed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "crate::text::optional_field")]
    pub problem: Option<String>,
    /// Reason why the result is not true any more; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "crate::text::optional_field")]
    pub stale: Option<String>,
}

/// The benchmarks of a store: one that runs first, then results, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkList {
    /// The benchmarks.
    pub items: Vec<Benchmark>,
}

/// Request to remove what benchmarks have left in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BenchmarkCleanup {
    /// Directory within which the benchmark made its files; empty for the store's root.
    #[serde(default)]
    pub path: PathText,
}

/// What a cleanup has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BenchmarkCleaned {
    /// Files that were removed.
    pub files: u64,
    /// Directories that were removed.
    pub directories: u64,
}
