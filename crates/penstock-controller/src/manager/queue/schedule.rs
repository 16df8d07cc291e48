//! The order in which transfers start, and the reason for which each other one waits.
//!
//! The decisions are those of [`penstock_engine::queue`], which knows neither threads nor records.
//! This module sends the queue the changes since its last decision. It compares the table of
//! transfers with the queue's state, so that no other part of the manager has to report.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use penstock_api::deadline::DeadlinePolicy;
use penstock_api::queue::QueueRule;
use penstock_api::transfer::{Progress, TransferState, Waiting};
use penstock_cluster::state::{TransferRecord, Wish};
use penstock_engine::queue::rates::{RateNeed, divide};
use penstock_engine::queue::{
    Counter, Forecast, Hold, Limits, PRIORITY_DEFAULT, Queue, Request, UnixMs, Unkeepable, Wait,
    WaitCode, WaitMark,
};
use penstock_proto::id::{Name, TransferId};

use super::history::{History, Memory};
use super::live::Live;
use super::rules::{InForce, Rules};
use super::user_groups::UserGroups;

/// Least bits per second that a transfer is assumed to need, and factor by which that exceeds its
/// use.
const NEED_LEAST: u64 = 1_000_000;
const NEED_FACTOR: f64 = 2.0;
/// Seconds of a run after which its rate shows the bandwidth that it can use.
const NEED_KNOWN_S: f64 = 5.0;
/// Factor of a forecast by which a transfer starts earlier for its deadline, in percent.
const START_PERCENT: u64 = 125;

/// The queue, and its last facts about each transfer.
pub(crate) struct Schedule {
    queue: Queue,
    known: HashMap<TransferId, Known>,
    /// The own site, which is no pair of a transfer.
    site: Name,
    /// The limits that hold unless a rule sets others.
    base: Limits,
    rules: Rules,
    /// Number of changes of the rules in force.
    rules_version: u64,
    /// The groups with which users share the queue.
    groups: UserGroups,
    /// The limits that follow from the rules now.
    in_force: InForce,
    history: History,
}

/// The state of a transfer in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The transfer waits, and may be held until the time given.
    Waiting(Option<(WaitCode, Instant)>),
    /// The transfer runs, and has made so many bytes durable.
    Running(u64),
}

impl Schedule {
    /// Returns the schedule of a site. Shares count the bytes that the transfers of `memory` have
    /// moved, as of their ends.
    pub(crate) fn new(site: Name, base: Limits, memory: Memory, now_ms: UnixMs) -> Self {
        let rules = Rules::of(memory.rules);
        let in_force = rules.at(&base, now_ms);
        let mut queue = Queue::new(in_force.limits.clone());
        let mut history = History::default();
        let mut ended = memory.ended;
        ended.sort_by_key(ended_ms);
        for record in &ended {
            history.handle_ended(record);
            let (user, at) = (record.user_text(), ended_ms(record));
            let group = memory.groups.of_record(record);
            queue.handle_past(group, &user, record.progress.bytes_durable, at);
        }
        let (known, groups) = (HashMap::new(), memory.groups);
        Self { queue, known, site, base, rules, rules_version: 0, groups, in_force, history }
    }

    /// Sets the number of transfers of the site that run at a time, unless a rule sets another.
    /// Running transfers continue.
    pub(crate) fn set_running_max(&mut self, running_max: u32, now_ms: UnixMs) {
        self.base.running.insert(Counter::Site, running_max);
        self.follow_rules(now_ms);
    }

    /// Returns the transfers to start now, first ones first. A cancelled one starts whatever the
    /// limits are, as its run only removes temporary files.
    pub(crate) fn poll_starts(
        &mut self,
        live: &HashMap<TransferId, Live>,
        (now, now_ms): (Instant, UnixMs),
    ) -> Vec<TransferId> {
        if self.in_force.until.is_some_and(|until| until <= now_ms) {
            self.follow_rules(now_ms);
        }
        let mut starts = self.see(live, (now, now_ms));
        let decided = self.queue.poll_starts(now_ms);
        for id in &decided {
            let durable = live.get(id).map_or(0, |live| live.record.progress.bytes_durable);
            self.known.insert(*id, Known::Running(durable));
        }
        starts.extend(decided);
        starts
    }

    /// Brings the queue up to date. Returns the cancelled transfers that wait for their runs.
    fn see(
        &mut self,
        live: &HashMap<TransferId, Live>,
        (now, now_ms): (Instant, UnixMs),
    ) -> Vec<TransferId> {
        let queue = &mut self.queue;
        self.known.retain(|id, _| live.contains_key(id) || !queue.handle_ended(*id));
        let mut cancelled = Vec::new();
        for (id, live) in live {
            if live.record.state.is_ended() {
                // Its attempt leaves the table in a moment.
                self.forget(*id);
            } else if live.run.is_some() {
                self.see_running(*id, live, now_ms);
            } else if live.record.state != TransferState::Queued {
                self.forget(*id);
            } else if live.record.wish == Wish::Cancel {
                self.see_running(*id, live, now_ms);
                cancelled.push(*id);
            } else {
                self.see_waiting(*id, live, (now, now_ms));
            }
        }
        cancelled
    }

    /// Returns the running transfers that a rule or a window stops now.
    pub(crate) fn poll_stops(&self, now_ms: UnixMs) -> Vec<TransferId> {
        self.queue.poll_stops(now_ms)
    }

    /// Handles a rule that an operator has set.
    pub(crate) fn handle_rule(&mut self, rule: QueueRule, now_ms: UnixMs) {
        self.rules.put(rule);
        self.follow_rules(now_ms);
    }

    /// Handles a rule that an operator has removed.
    pub(crate) fn handle_rule_removed(&mut self, key: &str, now_ms: UnixMs) {
        self.rules.remove(key);
        self.follow_rules(now_ms);
    }

    fn follow_rules(&mut self, now_ms: UnixMs) {
        self.in_force = self.rules.at(&self.base, now_ms);
        self.rules_version += 1;
        self.queue.handle_limits(self.in_force.limits.clone());
    }

    /// Returns the number of changes of the rules in force.
    pub(crate) fn rules_version(&self) -> u64 {
        self.rules_version
    }

    /// Handles the end of a transfer.
    pub(crate) fn handle_ended(&mut self, record: &TransferRecord) {
        self.history.handle_ended(record);
    }

    /// Returns the rules of operators.
    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the limits that are in force.
    pub(super) fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Returns the limits that a transfer counts against.
    pub(super) fn counters(&self, record: &TransferRecord) -> Vec<Counter> {
        self.request_of(record).counters().collect()
    }

    /// Returns the users that were served lately or have transfers at work.
    pub(super) fn users(&self) -> impl Iterator<Item = &str> {
        self.queue.users()
    }

    /// Returns the decayed bytes that a user of a group was served, and those that its running
    /// transfers still have to move.
    pub(super) fn served(&self, group: &str, user: &str, now_ms: UnixMs) -> (u64, u64) {
        self.queue.served(group, user, now_ms)
    }

    /// Returns the same of all users of a group.
    pub(super) fn served_group(&self, group: &str, now_ms: UnixMs) -> (u64, u64) {
        self.queue.served_group(group, now_ms)
    }

    /// Returns the groups whose users were served lately or have transfers at work.
    pub(super) fn served_groups(&self) -> impl Iterator<Item = &str> {
        self.queue.groups()
    }

    /// Returns the groups of users.
    pub(super) fn groups(&self) -> &UserGroups {
        &self.groups
    }

    /// Handles a change of groups. Waiting transfers take turns by the new groups; running ones
    /// count for their former group until they end.
    pub(crate) fn handle_groups(&mut self, groups: UserGroups, live: &HashMap<TransferId, Live>) {
        if self.groups != groups {
            self.groups = groups;
            live.keys().for_each(|id| self.relearn(*id));
        }
    }

    /// Returns the rates that limits leave to running transfers, in bits per second.
    pub(crate) fn rates(&self, live: &HashMap<TransferId, Live>) -> BTreeMap<TransferId, u64> {
        if self.in_force.rates.is_empty() {
            return BTreeMap::new();
        }
        let runs = || live.values().filter(|live| live.run.is_some());
        let weights = &self.in_force.limits.weights;
        let mut of_user = HashMap::<String, u32>::new();
        // Weights of the users of a group that have running transfers.
        let mut of_group = HashMap::<&str, f64>::new();
        for live in runs() {
            let user = live.record.user_text();
            let count = of_user.entry(user.clone()).or_default();
            if *count == 0 {
                let group = of_group.entry(self.groups.of_record(&live.record)).or_default();
                *group += weights.of_user(&user);
            }
            *count += 1;
        }
        let need = |live: &Live| {
            let (user, group) = (live.record.user_text(), self.groups.of_record(&live.record));
            let in_group = weights.of_user(&user) / f64::from(of_user[&user]) / of_group[group];
            RateNeed {
                id: live.record.id(),
                counters: self.counters(&live.record),
                weight: weights.of_group(group) * in_group,
                most: live.record.request.options.limits.rate_bits_per_s,
                need: live.run.as_ref().and_then(|run| need_of(&run.view().progress)),
            }
        };
        divide(&runs().map(need).collect::<Vec<_>>(), &self.in_force.rates)
    }

    /// Returns the forecasts of running transfers, of those with a deadline, and of the next ones.
    pub(crate) fn forecast(&self, now_ms: UnixMs) -> BTreeMap<TransferId, Forecast> {
        self.queue.forecast(now_ms)
    }

    /// Checks whether the deadline of a transfer can be promised. Returns `None` if nothing is
    /// known of its duration.
    pub(crate) fn check_promise(
        &mut self,
        record: &TransferRecord,
        live: &HashMap<TransferId, Live>,
        (now, now_ms): (Instant, UnixMs),
    ) -> Option<Result<(), Unkeepable>> {
        self.see(live, (now, now_ms));
        let request = self.request_of(record);
        request.latest_start?;
        Some(self.queue.check_promise(&request, now_ms))
    }

    /// Updates the queue's facts about a transfer whose record was changed. A waiting transfer
    /// keeps its place.
    pub(crate) fn relearn(&mut self, id: TransferId) {
        if matches!(self.known.get(&id), Some(Known::Waiting(_))) {
            self.known.remove(&id);
        }
    }

    /// Returns the time of the next decision that needs no further event.
    pub(crate) fn poll_wake(&self, (now, now_ms): (Instant, UnixMs)) -> Option<Instant> {
        let turn = self.in_force.until.filter(|until| *until > now_ms);
        let due = self.queue.poll_wake(now_ms).into_iter().chain(turn).min()?;
        Some(now + Duration::from_millis(due.saturating_sub(now_ms)))
    }

    /// Returns the reason for which a transfer waits; `None` if it does not.
    pub(crate) fn waiting(&self, id: TransferId, now_ms: UnixMs) -> Option<Waiting> {
        self.queue.wait(id, now_ms).map(view_of)
    }

    /// Returns the marks of the waits of all waiting transfers, at little cost.
    pub(crate) fn wait_marks(
        &self,
        now_ms: UnixMs,
    ) -> impl Iterator<Item = (TransferId, WaitMark)> {
        self.queue.wait_marks(now_ms)
    }

    /// Returns up to `most` waiting transfers in the order in which they would start, with the
    /// reasons.
    pub(crate) fn order(&self, most: usize, now_ms: UnixMs) -> Vec<(TransferId, Waiting)> {
        let order = self.queue.order(most, now_ms).into_iter();
        order.map(|(id, wait)| (id, view_of(wait))).collect()
    }

    /// Numbers of waiting and of running transfers.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.queue.counts()
    }

    fn forget(&mut self, id: TransferId) {
        if self.known.remove(&id).is_some() {
            self.queue.handle_ended(id);
        }
    }

    fn see_running(&mut self, id: TransferId, live: &Live, now_ms: UnixMs) {
        let durable = match &live.run {
            Some(run) => run.view().progress.bytes_durable,
            None => live.record.progress.bytes_durable,
        };
        if !matches!(self.known.get(&id), Some(Known::Running(_))) {
            self.known.insert(id, Known::Running(durable));
            self.queue.handle_running(self.request_of(&live.record), now_ms);
        }
        let left = live.run.as_ref().and_then(|run| seconds_left(&run.view().progress));
        self.queue.handle_forecast(id, left, now_ms);
        self.handle_durable(id, durable, now_ms);
    }

    /// Counts the bytes that a running transfer has made durable since the last call as served to
    /// its user.
    pub(crate) fn handle_durable(&mut self, id: TransferId, durable: u64, now_ms: UnixMs) {
        if let Some(Known::Running(before)) = self.known.get_mut(&id) {
            let bytes = durable.saturating_sub(*before);
            // A new attempt shows nothing until it has read its ledger.
            *before = durable.max(*before);
            if bytes > 0 {
                self.queue.handle_served(id, bytes, now_ms);
            }
        }
    }

    fn see_waiting(&mut self, id: TransferId, live: &Live, (now, now_ms): (Instant, UnixMs)) {
        let code = if live.full.is_some() { WaitCode::Room } else { WaitCode::Retry };
        let held = live.not_before.filter(|until| *until > now).map(|until| (code, until));
        let before = self.known.insert(id, Known::Waiting(held));
        if before == Some(Known::Waiting(held)) {
            return;
        }
        if !matches!(before, Some(Known::Waiting(_))) {
            self.queue.handle_submitted(self.request_of(&live.record), now_ms);
        }
        let hold = held.map(|(code, until)| Hold {
            code,
            on: live.record.request.target.store.to_string(),
            // Rounded up, so that the hold is over when the thread wakes for it.
            until: Some(now_ms + (until - now).as_millis() as u64 + 1),
        });
        self.queue.handle_hold(id, hold, now_ms);
    }

    /// Returns a transfer in the form of the queue.
    fn request_of(&self, record: &TransferRecord) -> Request {
        let (own, wanted) = (&self.site, &record.request);
        let (source, target) = (&wanted.source, &wanted.target);
        let at_own = |site: &Name, store: &Name| (site == own).then(|| store.clone());
        let bytes = bytes_left(record);
        let seconds = bytes.and_then(|bytes| {
            let rate = self.history.rate(wanted)?;
            (rate > 0.0).then(|| (bytes as f64 * 8.0 / rate).ceil() as u64)
        });
        let typical_seconds = self.history.typical_seconds(wanted);
        let (start_by, latest_start) = starts_of(record, seconds, typical_seconds);
        Request {
            id: record.id(),
            user: record.user_text(),
            group: self.groups.of_record(record).to_owned(),
            pair: (source.site != *own).then(|| source.site.clone()),
            source_store: at_own(&source.site, &source.store),
            target_store: at_own(&target.site, &target.store),
            label: wanted.label.clone(),
            priority: wanted.priority.unwrap_or(PRIORITY_DEFAULT),
            urgent: wanted.urgent,
            created: record.created * 1000,
            not_before: wanted.not_before.map(|seconds| seconds.saturating_mul(1000)),
            start_by,
            latest_start,
            forecast_seconds: seconds,
            typical_seconds,
            forecast_bytes: bytes.filter(|bytes| *bytes > 0),
            nearly_done_items: nearly_done_items(record),
        }
    }
}

/// Returns the time at which a transfer has ended; of its submission if that is not known.
fn ended_ms(record: &TransferRecord) -> UnixMs {
    record.attempts.ended_ms.unwrap_or(record.created.saturating_mul(1000))
}

/// Returns the bytes that a transfer still has to move: as listed, else as its user has stated.
fn bytes_left(record: &TransferRecord) -> Option<u64> {
    let progress = &record.progress;
    let said = || record.request.deadline.and_then(|deadline| deadline.bytes);
    let whole = if progress.scan_complete { Some(progress.bytes_found) } else { said() };
    whole.map(|whole| whole.saturating_sub(progress.bytes_durable))
}

/// Returns the time from which a transfer with a deadline starts before fair shares, and the latest
/// start with which a promise is kept.
fn starts_of(
    record: &TransferRecord,
    seconds: Option<u64>,
    typical: Option<u64>,
) -> (Option<UnixMs>, Option<UnixMs>) {
    let Some(deadline) = record.request.deadline else { return (None, None) };
    let at = deadline.at.ms();
    let start_by = seconds
        .or(typical)
        .map(|seconds| at.saturating_sub(seconds.saturating_mul(1000) / 100 * START_PERCENT));
    let latest = seconds.map(|seconds| at.saturating_sub(seconds.saturating_mul(1000)));
    (start_by, latest.filter(|_| deadline.policy == DeadlinePolicy::Promise))
}

/// Returns the seconds that a run still needs at its mean rate, if its list is complete.
fn seconds_left(progress: &Progress) -> Option<u64> {
    let rate = progress.mean_bits_per_s();
    let left = progress.bytes_found.saturating_sub(progress.bytes);
    let is_known = progress.scan_complete && progress.seconds >= NEED_KNOWN_S && rate > 0.0;
    is_known.then(|| (left as f64 * 8.0 / rate).ceil() as u64)
}

/// Returns the bits per second that a run is known to be able to use.
fn need_of(progress: &Progress) -> Option<u64> {
    let uses = (progress.rate_bits_per_s * NEED_FACTOR) as u64;
    (progress.seconds >= NEED_KNOWN_S).then_some(uses.max(NEED_LEAST))
}

fn view_of(wait: Wait) -> Waiting {
    Waiting {
        code: wait.code.as_str().to_owned(),
        since_ms: wait.since,
        until_ms: wait.until,
        on: wait.on,
        position: wait.position,
    }
}

/// Returns the items that are left of a transfer of which nine tenths are done.
fn nearly_done_items(record: &TransferRecord) -> Option<u64> {
    let progress = &record.progress;
    let is_nearly_done = progress.scan_complete
        && progress.bytes >= progress.bytes_found / 10 * 9
        && progress.files > 0;
    is_nearly_done.then(|| progress.files_found.saturating_sub(progress.files))
}
