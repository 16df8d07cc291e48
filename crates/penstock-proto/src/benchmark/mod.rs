//! Nouns of a benchmark of a store: its operations, and what limits the worth of a measurement.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An operation that a benchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BenchmarkOperation {
    /// Files are written as a target does: a temporary name, a sync, the final name, a sync.
    Write,
    /// Files are read as a source does; where several peers measure, those of the next peer.
    Read,
    /// Empty files are made under temporary names.
    Create,
    /// These files get their final names.
    Rename,
    /// The attributes of each are asked for.
    Stat,
    /// The directories are listed.
    List,
    /// The files are removed.
    Unlink,
}

impl BenchmarkOperation {
    /// The operations on names and attributes, in the order in which a benchmark does them.
    pub const METADATA: [Self; 5] =
        [Self::Create, Self::Rename, Self::Stat, Self::List, Self::Unlink];

    /// Returns its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Create => "create",
            Self::Rename => "rename",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Unlink => "unlink",
        }
    }

    /// Returns whether bytes of files are read or written.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }
}

impl fmt::Display for BenchmarkOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// State of the reader's cache before files were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// The host gave up the caches of all files.
    Dropped,
    /// The host gave up its cache of these files, and a sample showed that it had.
    Dontneed,
    /// Bytes may have come from a cache, of the host or of a server.
    Unknown,
}

impl CacheState {
    /// Returns its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Dontneed => "dontneed",
            Self::Unknown => "unknown",
        }
    }
}

/// A reason why a measurement says less than it seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BenchmarkMark {
    /// It took less than 5 s, or a thread had fewer than 16 files or extents.
    Short,
    /// The bytes may have come from a cache: they were fewer than twice the host's memory.
    Cached,
}

impl BenchmarkMark {
    /// Returns its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Cached => "cached",
        }
    }
}

/// The kind of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BlockDeviceKind {
    /// A disk, or another device with no device below it that the kernel knows.
    Disk,
    /// A part of a disk.
    Partition,
    /// An array of the kernel's software RAID (md).
    Md,
    /// A device of the device mapper, as a logical volume, an encrypted device or several paths.
    Dm,
    /// A file that is used as a device.
    Loop,
}

impl BlockDeviceKind {
    /// Returns its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Partition => "partition",
            Self::Md => "md",
            Self::Dm => "dm",
            Self::Loop => "loop",
        }
    }
}
