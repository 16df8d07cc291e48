//! The thread of a manager: begins transfers whose turn has come, and publishes their states.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use penstock_cluster::clock::now_ms;
use penstock_cluster::state::TransferRecord;
use penstock_proto::id::TransferId;

use super::attempt::{Attempt, AttemptParts};
use super::caller::check_owner;
use super::queue::{Noted, Table};

/// Interval at which the states of running transfers are published.
const TICK: Duration = Duration::from_secs(1);

/// Least time between two decisions, as a multiple of the time of the last one, but no more than
/// the longest. Changes in between are decided on together.
const IDLE_FACTOR: u32 = 4;
const IDLE_MAX: Duration = Duration::from_millis(200);

/// Begins attempts.
pub(super) struct Scheduler {
    parts: Arc<AttemptParts>,
}

impl Scheduler {
    /// Starts the thread of the manager, which ends when the table is closed.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(parts: AttemptParts) -> std::io::Result<thread::JoinHandle<()>> {
        let scheduler = Self { parts: Arc::new(parts) };
        thread::Builder::new().name("transfers".to_owned()).spawn(move || scheduler.schedule())
    }

    fn schedule(&self) {
        let shared = &self.parts.table;
        let mut next_tick = Instant::now() + TICK;
        loop {
            let began = Instant::now();
            let mut table = shared.lock();
            if table.is_stopping {
                return;
            }
            let (due, next) = table.poll_due((Instant::now(), now_ms()));
            if !due.is_empty() {
                due.into_iter().for_each(|id| self.begin(&mut table, id));
                table.steer_rates();
            }
            let took = began.elapsed();
            let wake = next.map_or(next_tick, |due| due.min(next_tick));
            let table = shared.wait(table, wake.saturating_duration_since(Instant::now()));
            drop(table);
            // With many transfers a decision takes milliseconds, and others want the table too.
            if !shared.rest((took * IDLE_FACTOR).min(IDLE_MAX)) {
                return;
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.tick();
            }
        }
    }

    fn begin(&self, table: &mut Table, id: TransferId) {
        let Some(live) = table.live.get_mut(&id) else { return };
        let attempt = Attempt::new(Arc::clone(&self.parts), id, live.handle_begun());
        let thread = thread::Builder::new().name(format!("transfer-{}", id.short()));
        match thread.spawn(move || attempt.make()) {
            Ok(_) => table.handle_attempt(),
            Err(error) => live.handle_not_begun(&error),
        }
    }

    /// Ends pauses whose time is over, where the owners of the transfers still have the grants for
    /// them. Returns the problems of those that stay paused.
    fn end_pauses(&self) -> Vec<Noted> {
        if !self.parts.table.lock().has_pause_over() {
            return Vec::new();
        }
        let site = &self.parts.site;
        let users = match site.state.users() {
            Ok(users) => users,
            Err(error) => {
                tracing::warn!(%error, "pauses do not end: the users cannot be read");
                return Vec::new();
            }
        };
        let may_resume = |record: &TransferRecord| check_owner(record, &users);
        let anew = |record: &mut TransferRecord| self.parts.sources.list_anew(record);
        let mut table = self.parts.table.lock();
        let (changed, held) = table.end_pauses(&*site.state, &may_resume, &anew);
        self.parts.events.tell_all(&changed);
        held
    }

    /// Ends pauses whose time is over, publishes the state of running transfers and the news of
    /// deadlines, and retries the removal of files that are left.
    fn tick(&self) {
        self.parts.cancelled.clean_when_due();
        let held = self.end_pauses();
        let mut table = self.parts.table.lock();
        let deadlines = table.look_at_deadlines(&*self.parts.site.state, Instant::now());
        let (mut noted, running) = table.take_news();
        // Under the lock of the table: a later end is reported later.
        self.parts.events.tell_all(&running);
        drop(table);
        noted.extend(held.into_iter().chain(deadlines));
        for (id, owner, problem) in noted {
            self.parts.events.tell_problem(id, owner, &problem);
        }
    }
}
