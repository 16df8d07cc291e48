//! How long certificates are valid.

use std::time::Duration;

/// Validity of a peer's certificate in days; its daemon issues another in good time before it ends.
pub const PEER_CERTIFICATE_DAYS: u64 = 730;
/// A day.
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
