//! Figures of paths that transfers have measured.

use std::time::Duration;

use penstock_proto::id::Name;

/// A path whose figures transfers have measured.
pub struct Measured {
    /// The other site.
    pub site: Name,
    /// The path, in words.
    pub path: String,
    /// Least round trip.
    pub rtt: Duration,
    /// The measured rate of the path, or the stated rate of the link if that is higher; in bits per
    /// second.
    pub rate_bits_per_s: f64,
}
