//! How much of the world a transfer may use.

use serde::{Deserialize, Serialize};

/// Least rate that can be set, in bits per second. Below it a frame of 1 MiB takes longer than a
/// lane may be silent.
pub const RATE_MIN: u64 = 500_000;

/// Limits of one transfer, whichever peers take part in it. None is set by default, and none
/// changes what is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Most bits of file content per second on average, at least [`RATE_MIN`]. Frames and TLS come
    /// on top of it, some 0.1 %. It is held at the target, and can be changed while it runs.
    pub rate_bits_per_s: Option<u64>,
    /// Most metadata operations per second at each side, whatever the number of its peers, at least
    /// 1: look-ups of names by the scan
    /// at the source; files, directories and links made, and names given, at the target.
    pub metadata_ops_per_s: Option<u32>,
}

impl Limits {
    /// The rate in bytes per second; 0 for none.
    pub fn rate_bytes_per_s(&self) -> u64 {
        bytes_of(self.rate_bits_per_s)
    }

    /// What is wrong with it, for people.
    ///
    /// # Errors
    /// A limit that nothing could move under.
    pub fn check(&self) -> Result<(), String> {
        if self.rate_bits_per_s.is_some_and(|rate| rate < RATE_MIN) {
            return Err(format!("a rate limit is at least {} kbit/s", RATE_MIN / 1000));
        }
        if self.metadata_ops_per_s == Some(0) {
            return Err("at least one metadata operation per second is needed".to_owned());
        }
        Ok(())
    }
}

/// What one target peer may use of the limits of its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Names it, so that it is known which one is in force; 0 for what the task began with.
    pub serial: u64,
    /// As in [`Limits`], but not bounded below.
    pub rate_bits_per_s: Option<u64>,
    /// As in [`Limits`].
    pub metadata_ops_per_s: Option<u32>,
    /// Most lanes at a time; 0 lets the engine decide.
    pub lanes_max: u32,
    /// Exactly so many lanes; 0 lets the engine decide.
    pub lanes: u32,
}

impl Share {
    /// The rate in bytes per second; 0 for none.
    pub fn rate_bytes_per_s(&self) -> u64 {
        bytes_of(self.rate_bits_per_s)
    }
}

/// What was used of a share that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareUsed {
    /// Bytes, or operations, since the task began.
    pub taken: u64,
    /// Whether something had to wait for the share lately.
    pub held: bool,
}

fn bytes_of(rate_bits_per_s: Option<u64>) -> u64 {
    rate_bits_per_s.map_or(0, |bits| (bits / 8).max(1))
}

/// Asks for another rate while a transfer runs, or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitRequest {
    /// The new limit in bits per second; `null` for none.
    pub rate_bits_per_s: Option<u64>,
}
