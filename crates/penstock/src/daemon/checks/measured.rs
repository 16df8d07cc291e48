//! Figures of paths that transfers have measured.

use std::time::Duration;

use penstock_proto::id::Name;

/// A path whose figures transfers have measured.
pub(crate) struct Measured {
    /// The other site.
    pub(crate) site: Name,
    /// The path, in words.
    pub(crate) path: String,
    /// Least round trip.
    pub(crate) rtt: Duration,
    /// What it carried, or what the link is said to carry if that is more; in bits per second.
    pub(crate) rate_bits_per_s: f64,
}
