//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time of day in seconds since 1970; 0 before that.
pub fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the time of day in milliseconds since 1970; 0 before that.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
