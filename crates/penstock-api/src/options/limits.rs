//! Limits to what a transfer may use.

use serde::{Deserialize, Serialize};

/// Least rate that can be set, in bits per second. Below it a frame of 1 MiB takes longer than a
/// lane may be silent.
pub const RATE_MIN: u64 = 500_000;

/// A limit under which nothing could move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The rate is below [`RATE_MIN`].
    #[error("a rate limit is at least {} kbit/s", RATE_MIN / 1000)]
    Rate,
    /// The number of metadata operations is 0.
    #[error("at least one metadata operation per second is needed")]
    MetadataOps,
}

/// Limits of one transfer, for all peers that take part in it together. None is set by default, and
/// none changes what is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Most bits of file content per second on average, at least [`RATE_MIN`]. Frames and TLS add
    /// some 0.1 %. The target enforces it; it can be changed while the transfer runs.
    #[cfg_attr(feature = "openapi", schemars(range(min = RATE_MIN)))]
    pub rate_bits_per_s: Option<u64>,
    /// Most metadata operations per second at each side, for any number of peers, at least 1. At
    /// the source they are look-ups of names by the scan; at the target, files, directories and
    /// links made, and names given.
    #[cfg_attr(feature = "openapi", schemars(range(min = 1)))]
    pub metadata_ops_per_s: Option<u32>,
}

impl Limits {
    /// Returns the rate in bytes per second; 0 for none.
    pub fn rate_bytes_per_s(&self) -> u64 {
        bytes_of(self.rate_bits_per_s)
    }

    /// Checks that something can move under the limits.
    ///
    /// # Errors
    /// The limit under which nothing could move.
    pub fn check(&self) -> Result<(), LimitError> {
        if self.rate_bits_per_s.is_some_and(|rate| rate < RATE_MIN) {
            return Err(LimitError::Rate);
        }
        if self.metadata_ops_per_s == Some(0) {
            return Err(LimitError::MetadataOps);
        }
        Ok(())
    }
}

/// Share of one target peer in the limits of its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Number of the share, to tell which one is in force; 0 for the share with which the task
    /// began.
    pub serial: u64,
    /// Rate, as in [`Limits`], but not bounded below.
    pub rate_bits_per_s: Option<u64>,
    /// Metadata operations, as in [`Limits`].
    pub metadata_ops_per_s: Option<u32>,
    /// Most lanes at a time; 0 lets the engine decide.
    pub lanes_max: u32,
    /// Exact number of lanes; 0 lets the engine decide.
    pub lanes: u32,
}

impl Share {
    /// Returns the rate in bytes per second; 0 for none.
    pub fn rate_bytes_per_s(&self) -> u64 {
        bytes_of(self.rate_bits_per_s)
    }
}

/// Use of a share that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareUsed {
    /// Bytes, or operations, since the task began.
    pub taken: u64,
    /// True if something had to wait for the share lately.
    pub held: bool,
}

fn bytes_of(rate_bits_per_s: Option<u64>) -> u64 {
    rate_bits_per_s.map_or(0, |bits| (bits / 8).max(1))
}

/// Request for another rate while a transfer runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LimitRequest {
    /// The new limit in bits per second; `null` for none.
    #[cfg_attr(feature = "openapi", schemars(range(min = RATE_MIN)))]
    pub rate_bits_per_s: Option<u64>,
}
