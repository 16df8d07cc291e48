//! Orders of a controller to a peer that takes part in a benchmark of a store, and the replies.
//!
//! The controller sends each order to all peers at once and waits for all replies, so that the
//! peers begin each step together.

use penstock_proto::benchmark::{BenchmarkOperation, CacheState};
use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::access::AccountName;
use crate::operate::benchmark::{BenchmarkCleaned, BenchmarkFileSystem, BenchmarkPeer};
use crate::place::PathText;
use crate::task::MountSeen;

/// A directory of a store in which benchmarks make their files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkPlace {
    /// The store.
    pub store: Name,
    /// Path of the directory within it.
    pub path: PathText,
    /// Account as which a mapped store is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
}

/// The part of a peer in a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkPart {
    /// The benchmark.
    pub id: TransferId,
    /// The place.
    pub place: BenchmarkPlace,
    /// Number of the peer in it, from 0.
    pub part: u32,
    /// Number of peers.
    pub parts: u32,
    /// Longest time for which a step grants small files, and extents of large ones, in seconds.
    pub seconds: u32,
    /// Random id of the store; 0 for the first peer, which makes one in a new store.
    pub store_id: u64,
    /// True to give up the caches of all files of the host before reading.
    pub drop_caches: bool,
    /// File systems on the way to the files, as the peer found them when it began: all of them have
    /// to be there. The controller knows none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountSeen>,
}

/// A step of a benchmark, for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkStep {
    /// The operation.
    pub operation: BenchmarkOperation,
    /// Size of each file in bytes.
    pub size_bytes: u64,
    /// Number of files: the most that are made, or those that are there.
    pub files: u64,
    /// Threads; 0 lets the peer decide.
    pub threads: u32,
    /// Number of the peer whose files are read.
    pub of_part: u32,
    /// Seed of the bytes that are written.
    pub seed: u64,
}

/// An order to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchmarkOrder {
    /// Look at the store; changes nothing. Reply: [`BenchmarkReply::Looked`].
    Look(BenchmarkPlace),
    /// Begin a benchmark; another one may not run. Reply: [`BenchmarkReply::Begun`].
    Begin(BenchmarkPart),
    /// Make all ready for a step. Reply: [`BenchmarkReply::Prepared`].
    Prepare(TransferId, BenchmarkStep),
    /// Do the step that is ready. Reply: [`BenchmarkReply::Ran`].
    Run(TransferId),
    /// Stop a step that runs. Reply: [`BenchmarkReply::Done`].
    Cancel(TransferId),
    /// Take this for a sign of life of the controller. Reply: [`BenchmarkReply::Done`].
    Touch(TransferId),
    /// End the benchmark and remove its files. Reply: [`BenchmarkReply::Done`].
    End(TransferId),
    /// Name the benchmark in which the peer takes part. Reply: [`BenchmarkReply::Present`].
    Present,
    /// Remove what benchmarks have left, but for these. Reply: [`BenchmarkReply::Cleaned`].
    Clean(BenchmarkPlace, Vec<TransferId>),
}

/// Facts about a peer and a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkFacts {
    /// The host.
    pub peer: BenchmarkPeer,
    /// The file system.
    pub file_system: BenchmarkFileSystem,
}

/// Work of a block device below the store while a peer did a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTraffic {
    /// Name of the device, as in the facts about the peer.
    pub device: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with at least one request in work, in milliseconds.
    pub busy_ms: u64,
}

/// What a peer did in a step, with times since it was told to begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkTimes {
    /// Bytes of payload.
    pub bytes: u64,
    /// Files that are complete, or names.
    pub files: u64,
    /// Whole files, extents of larger ones, or names: the work that threads divide.
    pub units: u64,
    /// Time until its last byte or name was done, in seconds.
    pub done_s: f64,
    /// Time until all was durable, in seconds.
    pub durable_s: f64,
    /// Work of the block devices below the store in that time. Empty where there are none, and from
    /// peers of releases that did not look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<DeviceTraffic>,
}

/// A reply of a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchmarkReply {
    /// It is done, and there is nothing to report.
    Done,
    /// It has begun in the store of this id.
    Begun(u64),
    /// The facts.
    Looked(Box<BenchmarkFacts>),
    /// The step is ready.
    Prepared {
        /// State of the cache before files are read.
        cache: Option<CacheState>,
        /// Threads of the step.
        threads: u32,
        /// Reason why the caches of all files of the host were not given up, as they were to be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caches_kept: Option<String>,
    },
    /// The step is over.
    Ran(BenchmarkTimes),
    /// The benchmark in which the peer takes part.
    Present(Option<TransferId>),
    /// What was removed.
    Cleaned(BenchmarkCleaned),
}
