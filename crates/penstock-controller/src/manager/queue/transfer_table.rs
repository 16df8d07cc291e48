//! The table of all transfers that have not ended, as the threads of a manager share it.
//!
//! Transfers of which something is being removed are in it too: no other caller may admit or change
//! them meanwhile. A removal may ask a store and another site, for as long as these take. That is
//! too long for the admission lock, for which every submit, pause and cancel waits.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{QueueEntry, QueueView, WaitingView};
use penstock_api::transfer::{TransferReport, TransferRequest, TransferState};
use penstock_cluster::clock::now_ms;
use penstock_cluster::state::TransferRecord;
use penstock_engine::queue::UnixMs;
use penstock_proto::id::{Name, TransferId};

use super::live::Live;
use super::schedule::Schedule;
use crate::manager::caller::Caller;
use crate::manager::config::ManagerConfig;

/// Transfers that may wait at a time; more are refused until some have ended.
pub const LIVE_MAX: usize = 10_000;
/// The same of those that read from one other site, where that site submits one.
const LIVE_OF_SITE_MAX: usize = 1000;
/// The same of one user.
const LIVE_OF_USER_MAX: usize = 1000;

/// The code of a transfer that waits for its turn.
const TURN: &str = "turn";

/// A problem that a run has noted, with its transfer and the owner of that.
type Noted = (TransferId, Option<Name>, Problem);

/// The transfers of a manager.
pub(crate) struct Table {
    pub(crate) live: HashMap<TransferId, Live>,
    /// Transfers of which something is being removed; with a record, its claim is kept as well.
    busy: HashMap<TransferId, Option<TransferRecord>>,
    /// Attempts that have a thread.
    running: usize,
    schedule: Schedule,
    /// Time of the last decision about the queue.
    looked: Instant,
    /// Set when the manager ends.
    pub(crate) is_stopping: bool,
}

impl Table {
    pub(crate) fn new(config: &ManagerConfig, live: impl IntoIterator<Item = Live>) -> Self {
        Self {
            live: live.into_iter().map(|it| (it.record.id(), it)).collect(),
            busy: HashMap::new(),
            running: 0,
            schedule: Schedule::new(config.site.clone(), config.limits.clone()),
            looked: Instant::now(),
            is_stopping: false,
        }
    }

    /// Runs this many transfers at a time from now on.
    pub(crate) fn set_running_max(&mut self, running_max: u32) {
        self.schedule.set_running_max(running_max);
    }

    /// Returns whether a transfer has not ended.
    pub(crate) fn is_live(&self, id: TransferId) -> bool {
        self.live.contains_key(&id)
    }

    /// Returns the record of a transfer that has not ended.
    pub(crate) fn record(&self, id: TransferId) -> Option<TransferRecord> {
        self.live.get(&id).map(|live| live.record.clone())
    }

    /// Returns how many attempts are at work, and how many transfers wait.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let is_queued = |live: &&Live| live.record.state == TransferState::Queued;
        (self.running, self.live.values().filter(is_queued).count())
    }

    /// Returns the transfers that are to begin now, and the time of the next decision that needs no
    /// further event. The others learn for what they wait. A cancelled transfer needs no turn.
    pub(crate) fn poll_due(
        &mut self,
        now: (Instant, UnixMs),
    ) -> (Vec<TransferId>, Option<Instant>) {
        self.looked = now.0;
        let begin = self.schedule.poll_starts(&self.live, now);
        for (id, live) in &mut self.live {
            live.waiting = self.schedule.waiting(*id, now.1);
            let waits_for_turn = live.waiting.as_ref().is_some_and(|waiting| waiting.code == TURN);
            if waits_for_turn && live.full.is_none() {
                live.record.reason =
                    format!("waiting for its turn: {} transfers run at this site", self.running);
            }
        }
        (begin, self.schedule.poll_wake(now))
    }

    /// Handles a change of what decides when a waiting transfer starts.
    pub(crate) fn handle_changed(&mut self, id: TransferId) {
        self.schedule.forget(id);
    }

    /// Counts what a running transfer has made durable as served to its user.
    pub(crate) fn handle_durable(&mut self, id: TransferId, bytes: u64) {
        self.schedule.handle_durable(id, bytes, now_ms());
    }

    /// Returns up to `most` transfers that wait, in the order in which they would start.
    pub(crate) fn queue(&self, most: usize) -> QueueView {
        let (waiting, running) = self.schedule.counts();
        let order = self.schedule.order(most, now_ms());
        let entry = |(id, waiting)| {
            let record = &self.live.get(&id)?.record;
            let TransferRequest { label, source, target, .. } = &record.request;
            Some(QueueEntry {
                id,
                owner: record.owner.clone(),
                label: label.clone(),
                source: source.clone(),
                target: target.clone(),
                waiting: WaitingView::from(waiting),
            })
        };
        let transfers = order.into_iter().filter_map(entry).collect();
        QueueView { running: running as u64, waiting: waiting as u64, transfers }
    }

    /// Returns whether the last decision about the queue was within this time.
    pub(crate) fn has_moved_within(&self, time: Duration) -> bool {
        self.looked.elapsed() <= time
    }

    /// Handles the end of the manager: nothing begins any more, and all runs end with their ledgers
    /// committed.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
        let runs = self.live.values().filter_map(|live| live.run.as_ref());
        runs.for_each(|run| run.pause());
    }

    /// Handles an attempt that has got a thread.
    pub(crate) fn handle_attempt(&mut self) {
        self.running += 1;
    }

    /// Handles the end of an attempt.
    pub(crate) fn handle_attempt_over(&mut self) {
        assert!(self.running > 0, "an attempt ends that never began");
        self.running -= 1;
    }

    /// Checks that there is room for one more transfer of a caller.
    ///
    /// # Errors
    /// Code `queue-full`.
    pub(crate) fn check_room(&self, caller: &Caller) -> Result<(), Problem> {
        if self.live.len() >= LIVE_MAX {
            let title = format!("{LIVE_MAX} transfers wait already");
            return Err(Problem::new(ProblemCode::QueueFull, title));
        }
        if let Some(owner) = caller.owner()
            && self.live_of(&owner) >= LIVE_OF_USER_MAX
        {
            let title = format!("{LIVE_OF_USER_MAX} transfers of `{owner}` wait already");
            return Err(Problem::new(ProblemCode::QueueFull, title));
        }
        if let Caller::Site(site) = caller
            && self.live_from(site) >= LIVE_OF_SITE_MAX
        {
            let title = format!("{LIVE_OF_SITE_MAX} transfers from `{site}` wait already");
            return Err(Problem::new(ProblemCode::QueueFull, title));
        }
        Ok(())
    }

    fn live_of(&self, owner: &Name) -> usize {
        self.live.values().filter(|live| live.record.owner.as_ref() == Some(owner)).count()
    }

    fn live_from(&self, site: &Name) -> usize {
        self.live.values().filter(|live| live.record.request.source.site == *site).count()
    }

    /// Returns the transfers that hold a place at a target: those that have not ended, and those of
    /// which files are being removed there.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &TransferRecord> {
        let live = self.live.values().map(|live| &live.record);
        live.filter(|record| !record.state.is_ended()).chain(self.busy.values().flatten())
    }

    /// Returns the events of runs since the last call, and the states of all runs.
    pub(crate) fn take_news(&mut self) -> (Vec<Noted>, Vec<TransferReport>) {
        self.live.values_mut().for_each(Live::look_for_room);
        let mut noted = Vec::new();
        for (id, live) in &self.live {
            let notes = live.run.as_ref().map(|run| run.take_notes()).unwrap_or_default();
            noted.extend(notes.into_iter().map(|note| (*id, live.record.owner.clone(), note)));
        }
        let running = self.live.values().filter(|live| live.run.is_some());
        (noted, running.map(Live::brief).collect())
    }
}

/// The table as threads share it.
pub(crate) struct TransferTable {
    table: Mutex<Table>,
    /// Notified when a transfer is added, ends, or is steered, and when the manager ends.
    changed: Condvar,
}

/// A transfer of which something is being removed, until this is dropped.
pub(crate) struct Busy<'a> {
    table: &'a TransferTable,
    id: TransferId,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.table.lock().busy.remove(&self.id);
    }
}

impl TransferTable {
    pub(crate) fn new(table: Table) -> Self {
        Self { table: Mutex::new(table), changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all that wait for a change.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change, up to `most`; the table is free meanwhile.
    pub(crate) fn wait<'a>(
        &self,
        table: MutexGuard<'a, Table>,
        most: Duration,
    ) -> MutexGuard<'a, Table> {
        self.changed.wait_timeout(table, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for `most`. Returns earlier, with `false`, if the manager ends.
    pub(crate) fn rest(&self, most: Duration) -> bool {
        let table = self.lock();
        let waited = self.changed.wait_timeout_while(table, most, |table| !table.is_stopping);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_stopping
    }

    /// Waits up to `most` for the end of all attempts. Returns whether they have ended.
    pub(crate) fn wait_for_attempts(&self, most: Duration) -> bool {
        let table = self.lock();
        let waited = self.changed.wait_timeout_while(table, most, |table| table.running > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.running == 0
    }

    /// Adds a transfer, whose turn may have come.
    pub(crate) fn add(&self, live: Live) {
        self.lock().live.insert(live.record.id(), live);
        self.notify();
    }

    /// Reserves a transfer that is not live, and with a record the place that its claim names as
    /// well (B8). The caller holds the admission lock.
    ///
    /// # Errors
    /// Code `transfer-busy`, temporary: another caller has reserved it.
    pub(crate) fn occupy(
        &self,
        id: TransferId,
        place: Option<TransferRecord>,
    ) -> Result<Busy<'_>, Problem> {
        self.check_idle(id)?;
        self.lock().busy.insert(id, place);
        Ok(Busy { table: self, id })
    }

    /// Checks that nothing of a transfer is being removed. The caller holds the admission lock.
    ///
    /// # Errors
    /// Code `transfer-busy`, temporary.
    pub(crate) fn check_idle(&self, id: TransferId) -> Result<(), Problem> {
        if !self.lock().busy.contains_key(&id) {
            return Ok(());
        }
        let title = format!("files of transfer {} are being removed", id.short());
        Err(Problem::new(ProblemCode::TransferBusy, title).hint("repeat the command in a moment"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::record::record_of;
    use penstock_api::transfer::PathText;
    use penstock_cluster::state::Wish;
    use penstock_engine::queue::Limits;

    fn config(running_max: u32) -> ManagerConfig {
        let config = ManagerConfig::new("hpc".parse().unwrap(), "journal".into());
        ManagerConfig {
            limits: Limits { short_extra: 0, ..Limits::of_site(running_max) },
            ..config
        }
    }

    fn live(id: u8, created: u64, wish: Wish) -> Live {
        let (source, target) = ("lab:raw/a".parse().unwrap(), "hpc:s/1".parse().unwrap());
        let id = TransferId([id; 16]);
        let request = TransferRequest::new(id, source, target, Default::default());
        let record = record_of(&request, "hpc".parse().unwrap(), PathText::default());
        let config = config(4);
        Live::new(TransferRecord { created, wish, ..record }, &config)
    }

    /// Promise: transfers begin in the order of their submission, as many as may run; a cancel does
    /// not wait for its turn.
    #[test]
    fn the_oldest_begin_and_a_cancel_needs_no_turn() {
        let now = Instant::now();
        let later = now + Duration::from_secs(5);
        let mut table = Table::new(
            &config(2),
            [
                live(1, 30, Wish::None),
                live(2, 10, Wish::None),
                live(3, 20, Wish::None),
                live(4, 40, Wish::Cancel),
                live(5, 5, Wish::None),
            ],
        );
        let put_off = table.live.get_mut(&TransferId([5; 16])).unwrap();
        put_off.not_before = Some(later);
        let (begin, next) = table.poll_due((now, now_ms()));
        let ids = |ids: &[u8]| ids.iter().map(|id| TransferId([*id; 16])).collect::<Vec<_>>();
        assert_eq!(begin, ids(&[4, 2]), "the cancelled one takes a place, and needs none");
        let wait = next.unwrap().saturating_duration_since(now);
        assert!((Duration::from_secs(5)..Duration::from_millis(5100)).contains(&wait), "{wait:?}");
        let waits = &table.live[&TransferId([1; 16])];
        assert!(waits.record.reason.starts_with("waiting for its turn"), "{}", waits.record.reason);
        assert_eq!(waits.waiting.as_ref().unwrap().code, "turn");
        assert_eq!(table.counts(), (0, 5));
    }

    /// Promise: a transfer of which files are being removed is changed by nobody else meanwhile,
    /// and keeps its place (B8).
    #[test]
    fn b8_a_transfer_that_is_removed_keeps_its_place_until_then() {
        let table = TransferTable::new(Table::new(&config(2), []));
        let (id, record) = (TransferId([1; 16]), live(1, 1, Wish::None).record);
        let busy = table.occupy(id, Some(record)).unwrap();
        assert_eq!(table.check_idle(id).unwrap_err().code, ProblemCode::TransferBusy);
        assert!(table.occupy(id, None).is_err());
        assert_eq!(table.lock().holders().count(), 1);
        drop(busy);
        assert!(table.check_idle(id).is_ok() && table.lock().holders().next().is_none());
    }
}
