//! The table of all transfers that have not ended, as the threads of a manager share it.
//!
//! Transfers of which something is being removed are in it too: no other caller may admit or change
//! them meanwhile. A removal may ask a store and another site, for as long as these take. That is
//! too long for the admission lock, for which every submit, pause and cancel waits.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::{TransferState, TransferView};
use penstock_cluster::state::{TransferRecord, Wish};
use penstock_proto::id::{Name, TransferId};

use super::live::Live;
use crate::manager::caller::Caller;

/// Transfers that may wait at a time; more are refused until some have ended.
pub const LIVE_MAX: usize = 10_000;
/// The same of those that read from one other site, where that site submits one.
const LIVE_OF_SITE_MAX: usize = 1000;

/// The transfers of a manager.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) live: HashMap<TransferId, Live>,
    /// Transfers of which something is being removed; with a record, its claim is kept as well.
    busy: HashMap<TransferId, Option<TransferRecord>>,
    /// Attempts that have a thread.
    running: usize,
    /// Set when the manager ends.
    pub(crate) is_stopping: bool,
}

impl Table {
    pub(crate) fn new(live: impl IntoIterator<Item = Live>) -> Self {
        let live = live.into_iter().map(|it| (it.record.id(), it)).collect();
        Self { live, ..Self::default() }
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

    /// Returns the transfers that are to begin now, oldest first, of which so many may run, and the
    /// time when the next one is due. The others learn for what they wait. A cancelled transfer
    /// needs no turn.
    pub(crate) fn poll_due(
        &mut self,
        running_max: usize,
        now: Instant,
    ) -> (Vec<TransferId>, Option<Instant>) {
        let waiting = self.live.values().filter(|live| live.is_waiting());
        let (mut due, later): (Vec<_>, Vec<_>) =
            waiting.partition(|live| live.not_before.is_none_or(|time| time <= now));
        let next = later.iter().filter_map(|live| live.not_before).min();
        due.sort_by_key(|live| (live.record.created, live.record.id()));
        let due: Vec<_> = due.iter().map(|live| live.record.id()).collect();
        let (mut begin, mut running) = (Vec::new(), self.running);
        for id in due {
            let Some(live) = self.live.get_mut(&id) else { continue };
            if live.record.wish == Wish::Cancel || running < running_max {
                running += 1;
                begin.push(id);
            } else if live.full.is_none() {
                live.record.reason = format!(
                    "waiting for its turn: {running_max} transfers run, which is the limit"
                );
            }
        }
        (begin, next)
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
        if let Caller::Site(site) = caller
            && self.live_from(site) >= LIVE_OF_SITE_MAX
        {
            let title = format!("{LIVE_OF_SITE_MAX} transfers from `{site}` wait already");
            return Err(Problem::new(ProblemCode::QueueFull, title));
        }
        Ok(())
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
    pub(crate) fn take_news(&mut self) -> (Vec<(TransferId, Problem)>, Vec<TransferView>) {
        self.live.values_mut().for_each(Live::look_for_room);
        let runs = self.live.iter().filter_map(|(id, live)| Some((*id, live.run.as_ref()?)));
        let noted = runs.flat_map(|(id, run)| run.take_notes().into_iter().map(move |it| (id, it)));
        let noted = noted.collect();
        let running = self.live.values().filter(|live| live.run.is_some());
        (noted, running.map(Live::view).collect())
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
    use crate::manager::config::ManagerConfig;
    use crate::manager::record::record_of;
    use penstock_api::transfer::{PathText, TransferRequest};

    fn live(id: u8, created: u64, wish: Wish) -> Live {
        let request = TransferRequest {
            id: TransferId([id; 16]),
            source: "lab:raw/a".parse().unwrap(),
            target: "hpc:s/1".parse().unwrap(),
            options: Default::default(),
        };
        let record = record_of(&request, "hpc".parse().unwrap(), PathText::default());
        let config = ManagerConfig::new("hpc".parse().unwrap(), "journal".into());
        Live::new(TransferRecord { created, wish, ..record }, &config)
    }

    /// Promise: transfers begin in the order of their submission, as many as may run; a cancel does
    /// not wait for its turn.
    #[test]
    fn the_oldest_begin_and_a_cancel_needs_no_turn() {
        let now = Instant::now();
        let later = now + Duration::from_secs(5);
        let mut table = Table::new([
            live(1, 30, Wish::None),
            live(2, 10, Wish::None),
            live(3, 20, Wish::None),
            live(4, 40, Wish::Cancel),
            live(5, 5, Wish::None),
        ]);
        let put_off = table.live.get_mut(&TransferId([5; 16])).unwrap();
        put_off.not_before = Some(later);
        let (begin, next) = table.poll_due(2, now);
        assert_eq!(begin, [2, 3, 4].map(|id| TransferId([id; 16])));
        assert_eq!(next, Some(later));
        let waits = &table.live[&TransferId([1; 16])].record.reason;
        assert!(waits.starts_with("waiting for its turn: 2 transfers run"), "{waits}");
        assert_eq!(table.counts(), (0, 5));
        table.handle_attempt();
        assert_eq!(table.poll_due(2, later).0, [5, 4].map(|id| TransferId([id; 16])));
    }

    /// Promise: a transfer of which files are being removed is changed by nobody else meanwhile,
    /// and keeps its place (B8).
    #[test]
    fn b8_a_transfer_that_is_removed_keeps_its_place_until_then() {
        let table = TransferTable::new(Table::default());
        let (id, record) = (TransferId([1; 16]), live(1, 1, Wish::None).record);
        let busy = table.occupy(id, Some(record)).unwrap();
        assert_eq!(table.check_idle(id).unwrap_err().code, ProblemCode::TransferBusy);
        assert!(table.occupy(id, None).is_err());
        assert_eq!(table.lock().holders().count(), 1);
        drop(busy);
        assert!(table.check_idle(id).is_ok() && table.lock().holders().next().is_none());
    }
}
