//! Breaches of the protocol by the other end of lanes: frames that no sound peer sends.
//!
//! The first breaches cost their lanes, as a cut does. A source that repeats them is dialled after
//! growing pauses, and in the end not at all: the transfer fails with that reason. A source treats
//! its targets in the same way: it refuses their lanes during the pauses, and in the end all of
//! them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use penstock_net::{ConnectError, LaneError};
use penstock_proto::units::Instant;

/// The pause after the first breach, which doubles with each further one, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(16));
/// Breaches that end a transfer.
const BREACHES_MAX: u32 = 8;
/// Time without a breach after which counting starts again.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// The breaches of one other end: of a task's source, or of a peer to which lanes are served.
#[derive(Debug, Default)]
pub struct Breaches(Mutex<Counted>);

/// The time during which no lane to the other end is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Until this time.
    Until(Instant),
    /// An hour after the last breach: there were too many.
    ForLong,
}

#[derive(Debug, Default)]
struct Counted {
    count: u32,
    /// Time before which no lane is dialled.
    until: Instant,
}

impl Breaches {
    /// Counts a breach. Returns the time before which no lane may be dialled; `None` if it was one
    /// too many. Breaches of lanes that were open at the same time count as one.
    pub fn note(&self, now: Instant) -> Option<Instant> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now < counted.until {
            return Some(counted.until);
        }
        if now.since(counted.until) > FORGOTTEN {
            counted.count = 0;
        }
        counted.count += 1;
        if counted.count >= BREACHES_MAX {
            counted.until = now;
            return None;
        }
        let pause = (PAUSE.0 * 2u32.pow(counted.count - 1)).min(PAUSE.1);
        counted.until = now.plus(pause);
        Some(counted.until)
    }

    /// Returns how long nothing is begun with the other end; `None` if it may begin now.
    pub fn held(&self, now: Instant) -> Option<Held> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.count >= BREACHES_MAX && now.since(counted.until) <= FORGOTTEN {
            return Some(Held::ForLong);
        }
        (counted.count < BREACHES_MAX && now < counted.until).then_some(Held::Until(counted.until))
    }
}

/// Returns whether the network cannot have caused an error of a lane.
pub fn is_breach(error: &LaneError) -> bool {
    matches!(error, LaneError::Decode(_) | LaneError::OutOfTurn(_))
}

/// Returns whether the network cannot have kept a lane from opening.
pub(crate) fn is_breach_of_opening(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Lane { source, .. } if is_breach(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: pauses grow, lanes that break together count as one, and there is an end.
    #[test]
    fn breaches_have_growing_pauses_and_an_end() {
        let breaches = Breaches::default();
        let mut now = Instant(0).plus(FORGOTTEN * 3);
        let mut pauses = Vec::new();
        while let Some(until) = breaches.note(now) {
            assert_eq!(breaches.note(now), Some(until), "another lane of the same moment");
            pauses.push(until.since(now));
            now = until;
        }
        assert_eq!(pauses.len() as u32, BREACHES_MAX - 1);
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!((pauses[0], *pauses.last().unwrap()), PAUSE);
        assert_eq!(breaches.note(now.plus(FORGOTTEN * 2)), Some(now.plus(FORGOTTEN * 2 + PAUSE.0)));
    }
}
