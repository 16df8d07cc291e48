//! Transfers whose target is full: they wait in the queue, with one reason, until there is room.
//!
//! Each look costs a request to the target's file system, and starts no run. When the file system
//! reports more room than before, the transfer runs. Its answer is incomplete: it usually omits
//! quotas, and a file that needs more than the free space fails at once. So the transfer is also
//! retried at intervals, whatever the answer. Its visible state stays the same until more of it is
//! durable than when the target was full.

use std::time::{Duration, Instant};

use penstock_api::problem::Problem;
use penstock_api::task::Room;
use penstock_api::transfer::Progress;
use penstock_cluster::state::TransferRecord;
use penstock_proto::units::{MIB, format_bytes};

/// Interval at which the free room is polled.
const LOOK: Duration = Duration::from_secs(5);
/// Increase of the free room, in bytes, that justifies an attempt even if not everything fits.
const MORE_BYTES: u64 = 64 * MIB;
/// Increase of durable bytes that shows that there is room, if less than everything became durable.
const SHOWN_BYTES: u64 = 16 * MIB;

/// The state of a transfer that waits for room at its target.
pub(crate) struct Full {
    /// The free room at that time; `None` if it could not be determined.
    room: Option<Room>,
    /// Bytes that were not durable, as far as they were known.
    needed: u64,
    /// Bytes that were durable.
    durable: u64,
    /// Time of the next attempt, whatever the file system reports.
    attempt_at: Instant,
    /// Interval of the looks until then.
    look: Duration,
}

impl Full {
    /// Returns the wait of a transfer with this progress. `room` is the free space at which a run
    /// found the target full. `every` is the interval of attempts, whatever the file system
    /// reports.
    pub(super) fn new(progress: &Progress, room: Option<Room>, every: Duration) -> Self {
        let needed = progress.bytes_found.saturating_sub(progress.bytes_durable);
        let durable = progress.bytes_durable;
        let attempt_at = Instant::now() + every;
        Self { room, needed, durable, attempt_at, look: LOOK.min(every / 4) }
    }

    /// Returns the bytes that were not durable, as far as they were known.
    pub(super) fn needed(&self) -> u64 {
        self.needed
    }

    /// Returns whether an attempt is due, whatever the file system reports.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.attempt_at
    }

    /// Returns the time of the next look, if the last one is now.
    pub(super) fn next_look(&self) -> Instant {
        self.attempt_at.min(Instant::now() + self.look)
    }

    /// Returns whether there is room now, according to the file system.
    pub(super) fn has_room(&self, now: Room) -> bool {
        let Some(then) = self.room else { return false };
        if now.free_files == Some(0) {
            return false;
        }
        let more = now.free_bytes >= then.free_bytes.saturating_add(MORE_BYTES);
        // Room that seemed enough before, and was not, proves nothing.
        let enough = now.free_bytes >= self.needed && then.free_bytes < self.needed;
        more || enough || then.free_files == Some(0)
    }

    /// Returns whether a run has shown that there is room.
    pub(super) fn has_moved(&self, progress: &Progress) -> bool {
        let most = self.durable.saturating_add(SHOWN_BYTES.min(self.needed.max(1)));
        progress.bytes_durable >= most
    }

    /// Makes the transfer due for an attempt at once, whatever the file system reports.
    pub(super) fn try_now(&mut self) {
        self.attempt_at = Instant::now();
    }
}

/// Returns the reason why a transfer waits: the error of a run, the free space, and the bytes that
/// are `needed`. The next attempt follows when there is room, and in any case after `every`.
pub(super) fn reason_of_full(
    record: &TransferRecord,
    problem: &Problem,
    (needed, room): (u64, Option<Room>),
    every: Duration,
) -> String {
    let store = &record.request.target.store;
    let free = match room {
        None => String::new(),
        Some(Room { free_files: Some(0), .. }) => {
            format!("; store `{store}` has no room for more files")
        }
        Some(room) => format!("; store `{store}` has {} free", format_bytes(room.free_bytes)),
    };
    let least = if record.progress.scan_complete { "" } else { "at least " };
    let needed = match needed {
        0 => String::new(),
        needed => format!("; {least}{} are still to be written", format_bytes(needed)),
    };
    let hint = match problem.hint.as_str() {
        "" => String::new(),
        hint => format!("; {hint}"),
    };
    let seconds = every.as_secs_f64().max(1.0);
    format!(
        "{problem}{free}{needed}{hint}; next attempt when there is room, and every {seconds:.0} s"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E3: an attempt is made when all missing bytes fit, or when much more space is free than
    /// before. It is not made for a little more, nor for space that seemed enough and was not.
    #[test]
    fn e3_room_is_what_was_not_there_before() {
        let room = |free_bytes, free_files| Room { free_bytes, free_files };
        let full = |free, files, needed| Full {
            room: Some(room(free, files)),
            needed,
            durable: 0,
            attempt_at: Instant::now(),
            look: LOOK,
        };
        let small = full(MIB, Some(9), 500 * MIB);
        assert!(!small.has_room(room(MIB, Some(9))) && !small.has_room(room(60 * MIB, Some(9))));
        assert!(small.has_room(room(65 * MIB, Some(9))));
        assert!(full(MIB, None, 3 * MIB).has_room(room(3 * MIB, None)));
        let quota = full(900 * MIB, None, 500 * MIB);
        assert!(!quota.has_room(room(901 * MIB, None)));
        assert!(quota.has_room(room(965 * MIB, None)));
        let files = full(900 * MIB, Some(0), 500 * MIB);
        assert!(!files.has_room(room(2000 * MIB, Some(0))) && files.has_room(room(0, Some(1))));
        let untold = Full { room: None, ..full(0, None, 1) };
        assert!(!untold.has_room(room(u64::MAX, None)));
    }

    /// E3: a run that makes more bytes durable shows that there is room. Bytes that were durable
    /// before, or a few that just fit, do not.
    #[test]
    fn e3_a_run_shows_that_there_is_room() {
        let full = |needed| {
            let (attempt_at, look) = (Instant::now(), LOOK);
            Full { room: None, needed, durable: MIB, attempt_at, look }
        };
        let durable = |bytes_durable| Progress { bytes_durable, ..Progress::default() };
        assert!(!full(500 * MIB).has_moved(&durable(0)));
        assert!(!full(500 * MIB).has_moved(&durable(16 * MIB)));
        assert!(full(500 * MIB).has_moved(&durable(17 * MIB)));
        assert!(full(10).has_moved(&durable(MIB + 10)) && !full(0).has_moved(&durable(MIB)));
    }
}
