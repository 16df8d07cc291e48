//! The table of all transfers that have not ended, as the threads of a manager share it.
//!
//! Transfers of which something is being removed are in it too: no other caller may admit or change
//! them meanwhile. A removal may ask a store and another site, for as long as these take. That is
//! too long for the admission lock, for which every submit, pause and cancel waits.

use std::collections::HashMap;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::deadline::{DeadlinePolicy, Promise};
use penstock_api::limits::RATE_MIN;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::queue::QueueRule;
use penstock_api::rest::Action;
use penstock_api::transfer::{TransferReport, TransferState, Waiting};
use penstock_cluster::clock::now_ms;
use penstock_cluster::state::{SiteState, TransferRecord, Wish};
use penstock_engine::queue::{UnixMs, Unkeepable, WaitCode};
use penstock_proto::id::{Name, TransferId};

use super::history::Memory;
use super::live::Live;
use super::outlook::{news, outlook};
use super::schedule::Schedule;
use super::user_groups::UserGroups;
use crate::manager::caller::Caller;
use crate::manager::config::ManagerConfig;

/// Transfers that may wait at a time, beside those that run; more are refused until some have
/// begun.
pub const LIVE_MAX: usize = 10_000;
/// Waiting transfers that read from one other site, where that site submits one.
const LIVE_OF_SITE_MAX: usize = 1000;
/// Waiting transfers of one user.
const LIVE_OF_USER_MAX: usize = 1000;

/// Interval at which the outlook of deadlines is looked at: a forecast costs some milliseconds.
const OUTLOOK: Duration = Duration::from_secs(5);

/// Pauses that are ended at a time: each is written to the state under the lock of the table.
const PAUSES_ENDED_MAX: usize = 50;

/// A problem that a run has noted, with its transfer and the owner of that.
pub(crate) type Noted = (TransferId, Option<Name>, Problem);

/// The transfers of a manager.
pub(crate) struct Table {
    pub(crate) live: HashMap<TransferId, Live>,
    /// Transfers of which something is being removed; with a record, its claim is kept as well.
    busy: HashMap<TransferId, Option<TransferRecord>>,
    /// Attempts that have a thread.
    running: usize,
    pub(super) schedule: Schedule,
    /// Version of the rules at the last report of the reasons of waits.
    rules_told: u64,
    /// Time of the last look at deadlines.
    deadlines_looked: Option<Instant>,
    /// Time of the last decision about the queue.
    looked: Instant,
    /// Set when the manager ends.
    pub(crate) is_stopping: bool,
}

impl Table {
    pub(crate) fn new(
        config: &ManagerConfig,
        live: impl IntoIterator<Item = Live>,
        memory: Memory,
    ) -> Self {
        let (site, limits) = (config.site.clone(), config.limits.clone());
        Self {
            live: live.into_iter().map(|it| (it.record.id(), it)).collect(),
            busy: HashMap::new(),
            running: 0,
            schedule: Schedule::new(site, limits, memory, now_ms()),
            rules_told: 0,
            deadlines_looked: None,
            looked: Instant::now(),
            is_stopping: false,
        }
    }

    /// Runs this many transfers at a time from now on.
    pub(crate) fn set_running_max(&mut self, running_max: u32) {
        self.schedule.set_running_max(running_max, now_ms());
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
    /// further event. The others get the reasons of their waits. A cancelled transfer needs no
    /// turn.
    pub(crate) fn poll_due(
        &mut self,
        now: (Instant, UnixMs),
    ) -> (Vec<TransferId>, Option<Instant>) {
        self.looked = now.0;
        let begin = self.schedule.poll_starts(&self.live, now);
        for id in self.schedule.poll_stops(now.1) {
            let run = self.live.get(&id).filter(|live| live.record.wish == Wish::None);
            run.and_then(|live| live.run.as_ref()).inspect(|run| run.pause());
        }
        // A mark does not contain the names and the texts of rules.
        let is_told = self.rules_told == self.schedule.rules_version();
        self.rules_told = self.schedule.rules_version();
        for (id, mark) in self.schedule.wait_marks(now.1) {
            let Some(live) = self.live.get_mut(&id) else { continue };
            if is_told && live.wait_mark == Some(mark) {
                continue;
            }
            (live.wait_mark, live.waiting) = (Some(mark), self.schedule.waiting(id, now.1));
            if let Some(waiting) = live.waiting.as_ref().filter(|_| live.full.is_none()) {
                let reason = reason_of(waiting, &self.schedule);
                live.record.reason = reason.unwrap_or(mem::take(&mut live.record.reason));
            }
        }
        (begin, self.schedule.poll_wake(now))
    }

    /// Has running transfers keep to the rates that the limits leave them.
    pub(crate) fn steer_rates(&mut self) {
        let rates = self.schedule.rates(&self.live);
        for (id, live) in &mut self.live {
            // With less a lane would be silent for too long: many transfers may exceed a low limit.
            live.steer_rate(rates.get(id).map(|rate| (*rate).max(RATE_MIN)));
        }
    }

    /// Handles a rule of the queue that an operator has set.
    pub(crate) fn handle_rule(&mut self, rule: QueueRule) {
        self.schedule.handle_rule(rule, now_ms());
        self.steer_rates();
    }

    /// Handles a change of the groups of users.
    pub(crate) fn handle_groups(&mut self, groups: UserGroups) {
        self.schedule.handle_groups(groups, &self.live);
        self.steer_rates();
    }

    /// Handles a rule of the queue that an operator has removed.
    pub(crate) fn handle_rule_removed(&mut self, key: &str) {
        self.schedule.handle_rule_removed(key, now_ms());
        self.steer_rates();
    }

    /// Handles the end of an attempt, after which a transfer has this record.
    pub(crate) fn handle_ended(&mut self, record: &TransferRecord) {
        self.schedule.handle_ended(record);
    }

    /// Handles a transfer whose record was changed: its urgency, its deadline.
    pub(crate) fn handle_changed(&mut self, id: TransferId) {
        self.schedule.relearn(id);
        self.deadlines_looked = None;
    }

    /// Checks whether the deadline of a transfer can be promised. Returns `None` if nothing is
    /// known of its duration.
    pub(crate) fn check_promise(
        &mut self,
        record: &TransferRecord,
    ) -> Option<Result<(), Unkeepable>> {
        self.schedule.check_promise(record, &self.live, (Instant::now(), now_ms()))
    }

    /// Checks the outlook of all deadlines. Returns the notices for their users. Cancels transfers
    /// that are to be cancelled at their deadlines. A change that cannot be stored is retried at
    /// the next call.
    pub(crate) fn look_at_deadlines(&mut self, state: &dyn SiteState, now: Instant) -> Vec<Noted> {
        let is_due = self.deadlines_looked.is_none_or(|looked| now >= looked + OUTLOOK);
        let has_any = || self.live.values().any(|live| live.record.request.deadline.is_some());
        if !is_due || !has_any() {
            return Vec::new();
        }
        self.deadlines_looked = Some(now);
        let now_ms = now_ms();
        let forecasts = self.schedule.forecast(now_ms);
        let mut noted = Vec::new();
        for (id, live) in &mut self.live {
            let Some(deadline) = live.record.request.deadline else { continue };
            let end = forecasts.get(id).and_then(|forecast| forecast.end);
            live.show_forecast(end);
            if live.record.state.is_ended() {
                continue;
            }
            let before = live.record.promise.unwrap_or(Promise::Kept);
            let next = outlook(&deadline, before, end, now_ms);
            let cancels = next == Promise::Missed
                && deadline.policy == DeadlinePolicy::Cancel
                && live.record.wish != Wish::Cancel;
            if next == before && !cancels {
                continue;
            }
            let action = cancels
                .then(|| live.record_after(Action::Cancel.into(), "", |_| {}).ok())
                .flatten();
            let is_cancelled = action.is_some();
            let mut record = action.unwrap_or_else(|| live.record.clone());
            record.promise = Some(next);
            if let Err(error) = state.put_transfer(&record) {
                tracing::warn!(transfer = %id, %error, "the outlook of a deadline is not stored");
                continue;
            }
            match is_cancelled {
                true => live.handle_action(Action::Cancel, record),
                false => live.record = record,
            }
            let news = news(*id, &deadline, (before, next), end);
            noted.extend(news.map(|problem| (*id, live.record.owner.clone(), problem)));
        }
        noted
    }

    /// Returns whether the pause of any transfer is over.
    pub(crate) fn has_pause_over(&self) -> bool {
        let now_ms = now_ms();
        self.live.values().any(|live| live.is_pause_over(now_ms))
    }

    /// Resumes the oldest transfers whose pause is over, durably, up to [`PAUSES_ENDED_MAX`], and
    /// returns their states. A transfer that `may_resume` refuses stays paused, with the reason,
    /// which its user gets. `list_anew` has the next attempt list the source again. If a transfer
    /// cannot be stored, it and the others stay unchanged until the next call.
    pub(crate) fn end_pauses(
        &mut self,
        state: &dyn SiteState,
        may_resume: &dyn Fn(&TransferRecord) -> Result<(), Problem>,
        list_anew: &dyn Fn(&mut TransferRecord),
    ) -> (Vec<TransferReport>, Vec<Noted>) {
        let (action, now_ms) = (Action::Resume, now_ms());
        let over = self.live.iter().filter(|(_, live)| live.is_pause_over(now_ms));
        let mut over: Vec<_> = over.map(|(id, live)| (live.record.created, *id)).collect();
        over.sort_unstable();
        let (mut changed, mut noted) = (Vec::new(), Vec::new());
        for (_, id) in over.into_iter().take(PAUSES_ENDED_MAX) {
            let Some(live) = self.live.get_mut(&id) else { continue };
            let refused = may_resume(&live.record).err();
            let next = match &refused {
                Some(problem) => Ok(live.record_held(problem)),
                None => live.record_after(action.into(), "", list_anew),
            };
            let Ok(record) = next else { continue };
            if let Err(error) = state.put_transfer(&record) {
                tracing::warn!(transfer = %id, %error, "the end of a pause is not stored");
                break;
            }
            match refused {
                Some(problem) => {
                    live.record = record;
                    noted.push((id, live.record.owner.clone(), problem));
                }
                None => live.handle_action(action, record),
            }
            changed.push(live.report());
        }
        (changed, noted)
    }

    /// Counts the bytes that a running transfer has made durable as served to its user.
    pub(crate) fn handle_durable(&mut self, id: TransferId, bytes: u64) {
        self.schedule.handle_durable(id, bytes, now_ms());
    }

    /// Returns how many attempts have a thread, and the time since the last decision about the
    /// queue.
    pub(crate) fn activity(&self) -> (usize, Duration) {
        (self.running, self.looked.elapsed())
    }

    /// Handles the end of the manager: no run begins from then on, and all runs end with their
    /// ledgers committed.
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
        if self.live.len().saturating_sub(self.running) >= LIVE_MAX {
            let title = format!("{LIVE_MAX} transfers wait already");
            return Err(Problem::new(ProblemCode::QueueFull, title));
        }
        if let Some(owner) = caller.owner()
            && self.live_of(&owner) >= LIVE_OF_USER_MAX
        {
            let title = format!("{LIVE_OF_USER_MAX} transfers of `{owner}` wait already");
            return Err(Problem::new(ProblemCode::QueueFull, title));
        }
        if let Caller::Site { site, .. } = caller
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
        let now = Instant::now();
        self.live.values_mut().for_each(|live| {
            live.look_for_room();
            live.watch_progress(now);
        });
        self.steer_rates();
        let mut noted = Vec::new();
        for (id, live) in &self.live {
            let notes = live.run.as_ref().map(|run| run.take_notes()).unwrap_or_default();
            noted.extend(notes.into_iter().map(|note| (*id, live.record.owner.clone(), note)));
        }
        // The thread that stores the end of an attempt reports it, once.
        let runs = |live: &&Live| live.run.is_some() && !live.record.state.is_ended();
        let running = self.live.values().filter(runs);
        (noted, running.map(Live::brief).collect())
    }
}

/// Returns the reason of a wait that the queue decides; `None` if another reason is more specific.
fn reason_of(waiting: &Waiting, schedule: &Schedule) -> Option<String> {
    let of = |code: WaitCode| waiting.code == code.as_str();
    let on = &waiting.on;
    if of(WaitCode::Turn) {
        let full =
            if on.is_empty() { String::new() } else { format!(": the limit of `{on}` is full") };
        return Some(format!("waiting for its turn{full}"));
    }
    if of(WaitCode::PauseRule) {
        let mut rules = schedule.rules().pauses();
        let reason = rules.find(|(rule, _)| rule.name.as_str() == on);
        let reason = reason.map(|(rule, _)| rule.reason.as_str()).filter(|text| !text.is_empty());
        let reason = reason.map(|text| format!(": {text}")).unwrap_or_default();
        return Some(format!("held by the rule `{on}` of an operator{reason}"));
    }
    if of(WaitCode::Window) {
        let of = if on.is_empty() { "this site".to_owned() } else { format!("`{on}`") };
        return Some(format!("waiting for the end of a window in which nothing of {of} runs"));
    }
    of(WaitCode::NotBefore).then(|| "waiting for its start time".to_owned())
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
    use std::cell::Cell;

    use super::*;
    use crate::manager::record::record_of;
    use penstock_api::queue::{PauseRule, QueueFilter, QueueShare};
    use penstock_api::rest::Steering;
    use penstock_api::timestamp::Timestamp;
    use penstock_api::transfer::{PathText, TransferRequest};
    use penstock_cluster::state::{SqliteState, Wish};
    use penstock_engine::queue::{Counter, Limits};

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
            Memory::default(),
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

    /// Promise: pauses end in the order of submission, a bounded number at a time. A transfer that
    /// may not resume stays paused, with the reason. After the first error nothing is written.
    #[test]
    fn pauses_end_a_few_at_a_time() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("state.db");
        let state = SqliteState::open(&path).unwrap();
        let paused = |number: u8| {
            let mut live = live(number, u64::from(number), Wish::None);
            let until = Some(Timestamp::of_ms(1_000));
            let pause = Steering { action: Action::Pause, until };
            live.record = live.record_after(pause, "anna", |_| {}).unwrap();
            live
        };
        let all = (1..=120).map(paused);
        let mut table = Table::new(&config(2), all, Memory::default());
        let may = |record: &TransferRecord| match record.id().0[0] {
            2 => Err(Problem::new(ProblemCode::NotAuthorised, "`anna` may not write store `s`")),
            _ => Ok(()),
        };
        let (changed, held) = table.end_pauses(&state, &may, &|_| {});
        assert_eq!((changed.len(), changed[49].id.0[0], held.len()), (PAUSES_ENDED_MAX, 50, 1));
        let record = table.record(TransferId([2; 16])).unwrap();
        assert_eq!(state.transfer(record.id()).unwrap().as_ref(), Some(&record));
        assert_eq!(record.state, TransferState::Paused);
        assert!(record.reason.contains("may not write store `s`"), "{}", record.reason);
        assert_eq!(table.counts().1, 49);
        let asked = Cell::new(0);
        let count = |_: &TransferRecord| {
            asked.set(asked.get() + 1);
            Ok(())
        };
        let changed = |state: SqliteState, statement: &str| {
            drop(state);
            rusqlite::Connection::open(&path).unwrap().execute_batch(statement).unwrap();
            SqliteState::open(&path).unwrap()
        };
        let full = "CREATE TRIGGER full BEFORE INSERT ON transfer
                    BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
        let state = changed(state, full);
        assert!(table.end_pauses(&state, &count, &|_| {}).0.is_empty());
        assert_eq!(asked.get(), 1, "more is tried after an error");
        let state = changed(state, "DROP TRIGGER full");
        let rest = [50, 20].map(|_| table.end_pauses(&state, &may, &|_| {}).0.len());
        assert!((rest, table.has_pause_over()) == ([50, 20], false));
    }

    /// Promise: a wait has the present reason of its hold, even if nothing else has changed.
    #[test]
    fn a_wait_tells_the_present_reason_of_its_hold() {
        let mut table = Table::new(&config(2), [live(1, 1, Wish::None)], Memory::default());
        for reason in ["upgrade", "detector is off"] {
            table.handle_rule(QueueRule::PauseRule(PauseRule {
                name: "hold".parse().unwrap(),
                filter: QueueFilter::default(),
                reason: reason.to_owned(),
                until: None,
                by: "root".parse().unwrap(),
                since: Timestamp::of_seconds(1),
            }));
            table.poll_due((Instant::now(), now_ms()));
            let told = &table.live[&TransferId([1; 16])].record.reason;
            assert!(told.contains(reason), "{told}");
        }
    }

    /// Promise: only the thread that stores the end of an attempt reports it.
    #[test]
    fn an_attempt_that_has_ended_is_no_news() {
        let both = [live(1, 1, Wish::None), live(2, 2, Wish::None)];
        let mut table = Table::new(&config(2), both, Memory::default());
        table.live.values_mut().for_each(|live| drop(live.handle_begun()));
        let ended = TransferId([1; 16]);
        table.live.get_mut(&ended).unwrap().record.state = TransferState::Done;
        let told: Vec<_> = table.take_news().1.iter().map(|view| view.id).collect();
        assert_eq!(told, [TransferId([2; 16])]);
    }

    /// Promise: another limit of running transfers holds at once, and takes no rule away.
    #[test]
    fn a_changed_limit_keeps_the_rules() {
        let mut table = Table::new(&config(2), [], Memory::default());
        table.handle_rule(QueueRule::Share(QueueShare { user: "anna".to_owned(), weight: 4 }));
        table.set_running_max(3);
        let limits = &table.schedule.in_force().limits;
        assert_eq!((limits.running[&Counter::Site], limits.short_extra), (3, 0));
        assert_eq!(limits.weights.users["anna"], 4);
    }

    /// Promise: a transfer whose files are being removed accepts no other change meanwhile, and
    /// keeps its place (B8).
    #[test]
    fn b8_a_transfer_that_is_removed_keeps_its_place_until_then() {
        let table = TransferTable::new(Table::new(&config(2), [], Memory::default()));
        let (id, record) = (TransferId([1; 16]), live(1, 1, Wish::None).record);
        let busy = table.occupy(id, Some(record)).unwrap();
        assert_eq!(table.check_idle(id).unwrap_err().code, ProblemCode::TransferBusy);
        assert!(table.occupy(id, None).is_err());
        assert_eq!(table.lock().holders().count(), 1);
        drop(busy);
        assert!(table.check_idle(id).is_ok() && table.lock().holders().next().is_none());
    }
}
