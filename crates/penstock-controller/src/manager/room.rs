//! Transfers whose target is full: they wait in the queue, with one reason, until there is room.
//!
//! Each look costs a request to the target's file system, and starts no run. When the file system
//! reports more room than before, the transfer runs. Its answer is incomplete: it usually omits
//! quotas, and a file that needs more than the free space fails at once. So the transfer is also
//! retried at intervals, whatever the answer. Its visible state stays the same until more of it is
//! durable than when the target was full.

use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::Room;
use penstock_api::transfer::{Progress, TransferState};
use penstock_cluster::state::Wish;
use penstock_proto::id::TransferId;
use penstock_proto::units::{MIB, format_bytes};

use super::{Inner, Live, ManagerConfig};
use crate::runner::{RunControl, RunOutcome};

/// Interval at which the free room is polled.
const LOOK: Duration = Duration::from_secs(5);
/// Increase of the free room, in bytes, that justifies an attempt even if not everything fits.
const MORE_BYTES: u64 = 64 * MIB;
/// Increase of durable bytes that shows that there is room, if less than everything became durable.
const SHOWN_BYTES: u64 = 16 * MIB;

/// The state of a transfer that waits for room at its target.
pub(super) struct Full {
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
    /// Returns whether there is room now, according to the file system.
    fn has_room(&self, now: Room) -> bool {
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
    fn has_moved(&self, progress: &Progress) -> bool {
        let most = self.durable.saturating_add(SHOWN_BYTES.min(self.needed.max(1)));
        progress.bytes_durable >= most
    }

    /// Makes the transfer due for an attempt at once, whatever the file system reports.
    pub(super) fn try_now(&mut self) {
        self.attempt_at = Instant::now();
    }
}

impl Live {
    /// Queues a transfer whose target is full. Returns the problem if it is new. `before` is the
    /// earlier wait, if the transfer waited already.
    pub(super) fn wait_for_room(
        &mut self,
        problem: Problem,
        before: Option<Full>,
        room: Option<Room>,
        config: &ManagerConfig,
    ) -> Option<Problem> {
        let progress = &self.record.progress;
        let needed = progress.bytes_found.saturating_sub(progress.bytes_durable);
        let durable = progress.bytes_durable;
        let now = Instant::now();
        let attempt_at = now + config.retry_most;
        let look = LOOK.min(config.retry_most / 4);
        self.not_before = Some(now + look);
        let is_news = before.is_none();
        if is_news {
            self.record.reason = self.reason_of_full(&problem, needed, room, config.retry_most);
        } else {
            tracing::info!(transfer = %self.record.id(), %problem, "the target is full still");
        }
        self.full = Some(Full { room, needed, durable, attempt_at, look });
        is_news.then_some(problem)
    }

    fn reason_of_full(
        &self,
        problem: &Problem,
        needed: u64,
        room: Option<Room>,
        every: Duration,
    ) -> String {
        let store = &self.record.request.target.store;
        let free = match room {
            None => String::new(),
            Some(Room { free_files: Some(0), .. }) => {
                format!("; store `{store}` has no room for more files")
            }
            Some(room) => format!("; store `{store}` has {} free", format_bytes(room.free_bytes)),
        };
        let least = if self.record.progress.scan_complete { "" } else { "at least " };
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
            "{problem}{free}{needed}{hint}; next attempt when there is room, and every \
             {seconds:.0} s"
        )
    }

    /// Marks the transfer as running again, since there seems to be room.
    fn leave_queue(&mut self) {
        self.full = None;
        self.record.state = TransferState::Running;
        self.record.reason.clear();
    }

    /// Looks whether a run has shown that there is room.
    pub(super) fn look_for_room(&mut self) {
        let moves = match (&self.full, &self.run) {
            (Some(full), Some(run)) => full.has_moved(&run.view().progress),
            _ => false,
        };
        if moves {
            self.leave_queue();
        }
    }
}

impl Inner {
    /// Returns the free room at a target that a run has found full.
    pub(super) fn room_of(&self, id: TransferId, outcome: &RunOutcome) -> Option<Room> {
        let is_full = |problem: &Problem| problem.code == ProblemCode::TargetFull;
        if !matches!(outcome, RunOutcome::Failed(problem) if is_full(problem)) {
            return None;
        }
        let store = self.lock().live.get(&id)?.record.request.target.store.clone();
        self.parts.target.room(&store).ok()
    }

    /// Checks for room before an attempt at a transfer that waits for it. If there is none, puts it
    /// back into the queue and returns `true`.
    pub(super) fn is_without_room(&self, id: TransferId, control: &Arc<RunControl>) -> bool {
        let store = match self.lock().live.get(&id) {
            Some(Live { full: Some(full), record, .. })
                if record.wish == Wish::None && Instant::now() < full.attempt_at =>
            {
                record.request.target.store.clone()
            }
            _ => return false,
        };
        let room = self.parts.target.room(&store);
        let mut table = self.lock();
        let Some(live) = table.live.get_mut(&id) else { return false };
        let Some(full) = live.full.as_ref().filter(|_| live.record.wish == Wish::None) else {
            return false;
        };
        if room.is_ok_and(|room| full.has_room(room)) {
            live.leave_queue();
            return false;
        }
        live.not_before = Some(full.attempt_at.min(Instant::now() + full.look));
        if live.run.as_ref().is_some_and(|run| Arc::ptr_eq(run, control)) {
            live.run = None;
        }
        table.running -= 1;
        drop(table);
        self.changed.notify_all();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E3: an attempt is worth it when all that is missing fits, or much more than before; not for
    /// a little, nor where what is free was enough and did not do.
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

    /// A run that makes something durable shows that there is room; what was durable before, or a
    /// little that just fits, does not.
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
