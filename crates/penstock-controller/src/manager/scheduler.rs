//! The thread of a manager: begins transfers whose turn has come, and publishes their states.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use penstock_cluster::clock::now_ms;
use penstock_proto::id::TransferId;

use super::attempt::{Attempt, AttemptParts};
use super::queue::Table;

/// Interval at which the states of running transfers are published.
const TICK: Duration = Duration::from_secs(1);

/// Begins attempts.
pub(super) struct Scheduler {
    parts: Arc<AttemptParts>,
}

impl Scheduler {
    /// Starts the thread of the manager, which ends when the table says so.
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
            let mut table = shared.lock();
            if table.is_stopping {
                return;
            }
            let (due, next) = table.poll_due((Instant::now(), now_ms()));
            due.into_iter().for_each(|id| self.begin(&mut table, id));
            let wake = next.map_or(next_tick, |due| due.min(next_tick));
            let table = shared.wait(table, wake.saturating_duration_since(Instant::now()));
            drop(table);
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

    /// Publishes the state of running transfers, and tries again to remove what is left.
    fn tick(&self) {
        self.parts.cancelled.clean_when_due();
        let (noted, running) = self.parts.table.lock().take_news();
        for (id, owner, problem) in noted {
            self.parts.events.tell_problem(id, owner, &problem);
        }
        running.iter().for_each(|view| self.parts.events.tell(view));
    }
}
