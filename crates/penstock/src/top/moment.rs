//! The time of a message, by both clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use penstock_api::timestamp::Timestamp;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The time by the clock that never jumps.
    pub(super) at: Instant,
    /// Milliseconds since 1970, by the clock on the wall.
    pub(super) ms: u64,
}

impl Moment {
    /// Returns the present moment.
    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { at: Instant::now(), ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Returns the time on the wall.
    pub(super) fn timestamp(self) -> Timestamp {
        Timestamp::of_ms(self.ms)
    }
}
