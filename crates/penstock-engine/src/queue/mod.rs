//! The queue of a site: which transfer starts next, and the reason why each other one waits.
//!
//! ```text
//!            submit                 poll_starts              end
//!  (user) ───────────▶  waiting  ───────────────▶ running ───────▶ (gone)
//!                          ▲                          │
//!                          └──────── requeue ─────────┘   after a pause, a retry, a new controller
//! ```
//!
//! A start is decided in this order:
//!
//! 1. A transfer that must not start is passed over: its time has not come, a pause rule or a hold
//!    names it, or a limit that it counts against is full ([`Limits`]).
//! 2. Urgent transfers start first, then those whose latest start for their deadline has come.
//! 3. The others share by group, then by user: the one with the fewest bytes served per weight
//!    comes first. Served bytes lose half of their weight in [`HALF_LIFE_MS`]. Bytes of running
//!    transfers that are still to come count as served, so that one user's burst does not take all
//!    places (fair share as in FTS3 and Slurm's priority/multifactor).
//! 4. Among one user's transfers: nearly finished ones, then by priority, then by age. A transfer
//!    that comes back keeps its age.
//!
//! The machine has no clock: times are milliseconds since 1970, as windows are wall-clock times.
//! One decision costs one pass over the waiting transfers and a sort; 10,000 take some
//! milliseconds (`benches/engine.rs`).

mod fair_share;
mod wait;

use std::collections::{BTreeMap, BTreeSet};

use penstock_proto::id::{Name, TransferId};

use fair_share::FairShare;
pub use fair_share::{HALF_LIFE_MS, Weights};
pub use wait::{Hold, UnixMs, Wait, WaitCode};

/// A transfer that is forecast to take no longer may use the places reserved for short ones.
pub const SHORT_SECONDS: u64 = 60;
/// Priority of a transfer that names none; the greatest is 100.
pub const PRIORITY_DEFAULT: u8 = 50;
/// Bytes that a transfer without a forecast counts as.
const UNKNOWN_BYTES: u64 = 1 << 30;
/// Greatest forecast that counts, so that no sum of forecasts overflows.
const FORECAST_BYTES_MAX: u64 = 1 << 50;
/// Items left, at most, of a transfer that counts as nearly finished.
const NEARLY_ITEMS: u64 = 100;

/// What the queue knows of one transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its id.
    pub id: TransferId,
    /// Name of the principal that submitted it.
    pub user: String,
    /// Group of that user; empty if it has none.
    pub group: String,
    /// The other site; `None` within one site.
    pub pair: Option<Name>,
    /// Store that it reads at this site, if it does.
    pub source_store: Option<Name>,
    /// Store that it writes at this site, if it does.
    pub target_store: Option<Name>,
    /// 0 to 100, among the transfers of one user.
    pub priority: u8,
    /// Set by an operator: before all fair shares.
    pub urgent: bool,
    /// Time of its submission.
    pub created: UnixMs,
    /// Earliest start.
    pub not_before: Option<UnixMs>,
    /// Latest start by which its deadline can be kept.
    pub start_by: Option<UnixMs>,
    /// Expected duration in seconds; `None` if nothing is known.
    pub forecast_seconds: Option<u64>,
    /// Expected bytes still to move; `None` if nothing is known.
    pub forecast_bytes: Option<u64>,
    /// Items still to move, of a transfer of which at least nine tenths are done.
    pub nearly_done_items: Option<u64>,
}

impl Request {
    /// Returns whether it may use a place reserved for short transfers.
    fn is_short(&self) -> bool {
        self.forecast_seconds.is_some_and(|seconds| seconds <= SHORT_SECONDS)
    }

    fn bytes(&self) -> u64 {
        self.forecast_bytes.unwrap_or(UNKNOWN_BYTES).min(FORECAST_BYTES_MAX)
    }

    /// Rank among the transfers of one user; the least starts first.
    fn rank(&self) -> (bool, u8, UnixMs, TransferId) {
        let is_nearly_done = self.nearly_done_items.is_some_and(|items| items <= NEARLY_ITEMS);
        (!is_nearly_done, 100 - self.priority.min(100), self.created, self.id)
    }

    /// The counters of limits that it uses.
    fn counters(&self) -> impl Iterator<Item = Counter> + '_ {
        let named = [
            self.pair.clone().map(Counter::Pair),
            self.source_store.clone().map(Counter::Source),
            self.target_store.clone().map(Counter::Target),
            Some(Counter::User(self.user.clone())),
            Some(Counter::Site),
        ];
        named.into_iter().flatten()
    }
}

/// Something of which only so many transfers run at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// All transfers of this site.
    Site,
    /// Transfers with another site.
    Pair(Name),
    /// Transfers that read a store.
    Source(Name),
    /// Transfers that write a store.
    Target(Name),
    /// Transfers of a user.
    User(String),
}

/// Limits in force. The caller replaces them when a window turns or an operator changes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most running transfers by counter; a counter without a limit has none.
    pub running: BTreeMap<Counter, u32>,
    /// Places beyond each limit that only short transfers may use.
    pub short_extra: u32,
    /// Transfers of these pairs must not start: a rule of an operator, by its name.
    pub paused_pairs: BTreeMap<Name, String>,
    /// Transfers of these users must not start: a rule of an operator, by its name.
    pub paused_users: BTreeMap<String, String>,
    /// Pairs whose window is closed, and the time when it opens.
    pub closed: BTreeMap<Name, UnixMs>,
    /// Weights of fair shares.
    pub weights: Weights,
}

impl Limits {
    /// Returns limits of `running_max` transfers at a time, one more for short ones, and nothing
    /// else.
    pub fn of_site(running_max: u32) -> Self {
        Self {
            running: BTreeMap::from([(Counter::Site, running_max)]),
            short_extra: 1,
            paused_pairs: BTreeMap::new(),
            paused_users: BTreeMap::new(),
            closed: BTreeMap::new(),
            weights: Weights::default(),
        }
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    request: Request,
    /// Time since which it waits for the present reason.
    since: UnixMs,
    hold: Option<Hold>,
    /// Reason found by the last decision.
    code: WaitCode,
}

/// The machine. See the module.
#[derive(Clone, Debug)]
pub struct Queue {
    limits: Limits,
    waiting: BTreeMap<TransferId, Waiting>,
    running: BTreeMap<TransferId, Request>,
    counts: BTreeMap<Counter, u32>,
    shares: FairShare,
}

impl Queue {
    /// Returns an empty queue.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            counts: BTreeMap::new(),
            shares: FairShare::default(),
        }
    }

    /// Replaces the limits in force. Running transfers go on, over a new limit too.
    pub fn handle_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Adds a transfer, or replaces what is known of a waiting one. A running one comes back into
    /// the queue with its age.
    pub fn handle_submitted(&mut self, request: Request, now: UnixMs) {
        self.remove_running(request.id);
        let (id, code) = (request.id, WaitCode::Turn);
        let since = self.waiting.get(&id).map_or(now, |waiting| waiting.since);
        self.waiting.insert(id, Waiting { request, since, hold: None, code });
        self.check(id);
    }

    /// Keeps a waiting transfer from starting for a reason outside the queue, or lets it go.
    /// Without effect on a transfer that does not wait.
    pub fn handle_hold(&mut self, id: TransferId, hold: Option<Hold>, now: UnixMs) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            if waiting.hold.as_ref().map(|hold| hold.code) != hold.as_ref().map(|hold| hold.code) {
                waiting.since = now;
            }
            waiting.hold = hold;
        }
    }

    /// Records a transfer that runs already: after a restart, or after a change of the controller.
    pub fn handle_running(&mut self, request: Request) {
        self.waiting.remove(&request.id);
        self.remove_running(request.id);
        self.add_running(request);
    }

    /// Records bytes that a running transfer has made durable since the last report.
    pub fn handle_served(&mut self, id: TransferId, bytes: u64, now: UnixMs) {
        if let Some(request) = self.running.get_mut(&id) {
            let expected = bytes.min(request.bytes());
            request.forecast_bytes = Some(request.bytes() - expected);
            self.shares.serve(&request.group, &request.user, (bytes, expected), now);
        }
    }

    /// Forgets a transfer: it has ended, or waits for its user. Returns whether it was known.
    pub fn handle_ended(&mut self, id: TransferId) -> bool {
        let has_waited = self.waiting.remove(&id).is_some();
        self.remove_running(id) || has_waited
    }

    /// Returns the transfers to start now, first ones first, and counts them as running.
    pub fn poll_starts(&mut self, now: UnixMs) -> Vec<TransferId> {
        self.shares.forget_idle(now);
        let mut starts = Vec::new();
        let mut order = Order::of(self, now);
        while !self.is_full()
            && let Some(id) = order.next(self, now)
        {
            let waiting = self.waiting.remove(&id).expect("the order holds waiting transfers");
            self.add_running(waiting.request);
            starts.push(id);
        }
        let rest = order.rest().map(|id| (id, WaitCode::Turn));
        for (id, code) in rest.collect::<Vec<_>>().into_iter().chain(order.passed_over) {
            if let Some(waiting) = self.waiting.get_mut(&id)
                && waiting.code != code
            {
                (waiting.code, waiting.since) = (code, now);
            }
        }
        starts
    }

    /// Returns the next time at which a decision may differ without any further event: the end of
    /// a hold, a start time, a window.
    pub fn poll_wake(&self, now: UnixMs) -> Option<UnixMs> {
        let of_transfers = self.waiting.values().flat_map(|waiting| {
            let hold = waiting.hold.as_ref().and_then(|hold| hold.until);
            [waiting.request.not_before, waiting.request.start_by, hold]
        });
        let times = of_transfers.flatten().chain(self.limits.closed.values().copied());
        times.filter(|time| *time > now).min()
    }

    /// Returns why a transfer waits; `None` if it runs or is unknown.
    pub fn wait(&self, id: TransferId, now: UnixMs) -> Option<Wait> {
        let waiting = self.waiting.get(&id)?;
        Some(self.wait_of(waiting, None, now))
    }

    /// Returns up to `most` waiting transfers in the order in which they would start if places came
    /// free one after the other, each with its reason. Those that must not start come last, by age.
    pub fn order(&self, most: usize, now: UnixMs) -> Vec<(TransferId, Wait)> {
        let mut order = Order::of(self, now);
        let mut shares = self.shares.clone();
        let mut listed = Vec::with_capacity(self.waiting.len().min(most));
        while listed.len() < most
            && let Some(id) = order.first(&shares, &self.limits.weights, now)
        {
            let waiting = &self.waiting[&id];
            let request = &waiting.request;
            shares.expect(&request.group, &request.user, request.bytes());
            listed.push((id, self.wait_of(waiting, Some(listed.len() as u64), now)));
            order.pass(id);
        }
        let seen: BTreeSet<_> = listed.iter().map(|(id, _)| *id).collect();
        let mut others: Vec<_> = self.waiting.values().collect();
        others.retain(|waiting| listed.len() < most && !seen.contains(&waiting.request.id));
        others.sort_by_key(|waiting| (waiting.request.created, waiting.request.id));
        let of_others = |waiting: &Waiting| (waiting.request.id, self.wait_of(waiting, None, now));
        let room = most - listed.len();
        listed.extend(others.into_iter().take(room).map(of_others));
        listed
    }

    /// Returns the decayed bytes that a user was served, and those that its running transfers
    /// still have to move.
    pub fn served(&self, group: &str, user: &str, now: UnixMs) -> (u64, u64) {
        self.shares.user(group, user, now)
    }

    /// Numbers of waiting and of running transfers.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.running.len())
    }

    fn wait_of(&self, waiting: &Waiting, position: Option<u64>, now: UnixMs) -> Wait {
        let found = self.obstacle(waiting, now);
        let (code, on, until) = found.unwrap_or((WaitCode::Turn, String::new(), None));
        Wait { code, since: waiting.since, until, on, position }
    }

    /// Returns the reason for which a transfer must not start now, the object of it, and its end.
    fn obstacle(
        &self,
        waiting: &Waiting,
        now: UnixMs,
    ) -> Option<(WaitCode, String, Option<UnixMs>)> {
        if let Some(hold) = waiting.hold.as_ref().filter(|hold| hold.until.is_none_or(|t| t > now))
        {
            return Some((hold.code, hold.on.clone(), hold.until));
        }
        let request = &waiting.request;
        if let Some(time) = request.not_before.filter(|time| *time > now) {
            return Some((WaitCode::NotBefore, String::new(), Some(time)));
        }
        if let Some(rule) = self.limits.paused_users.get(&request.user) {
            return Some((WaitCode::PauseRule, rule.clone(), None));
        }
        if let Some(pair) = &request.pair {
            if let Some(rule) = self.limits.paused_pairs.get(pair) {
                return Some((WaitCode::PauseRule, rule.clone(), None));
            }
            if let Some(opens) = self.limits.closed.get(pair).filter(|opens| **opens > now) {
                return Some((WaitCode::Window, pair.to_string(), Some(*opens)));
            }
        }
        None
    }

    /// Returns whether no transfer can start, a short one neither: then the order of those that
    /// wait is of no matter.
    fn is_full(&self) -> bool {
        let most = self.limits.running.get(&Counter::Site);
        most.is_some_and(|most| {
            let extra = if *most == 0 { 0 } else { self.limits.short_extra };
            let count = self.counts.get(&Counter::Site).copied().unwrap_or(0);
            count >= most.saturating_add(extra)
        })
    }

    /// Returns whether every limit that a transfer counts against has a place for it.
    fn has_place(&self, request: &Request) -> bool {
        let extra = if request.is_short() { self.limits.short_extra } else { 0 };
        request.counters().all(|counter| {
            let most = self.limits.running.get(&counter);
            let count = self.counts.get(&counter).copied().unwrap_or(0);
            most.is_none_or(|most| count < most.saturating_add(if *most == 0 { 0 } else { extra }))
        })
    }

    fn add_running(&mut self, request: Request) {
        for counter in request.counters() {
            *self.counts.entry(counter).or_insert(0) += 1;
        }
        self.shares.expect(&request.group, &request.user, request.bytes());
        let id = request.id;
        let before = self.running.insert(id, request);
        assert!(before.is_none(), "a transfer was started twice");
        self.check(id);
    }

    fn remove_running(&mut self, id: TransferId) -> bool {
        let Some(request) = self.running.remove(&id) else { return false };
        for counter in request.counters() {
            let count = self.counts.get_mut(&counter).expect("a running transfer is counted");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&counter);
            }
        }
        self.shares.unexpect(&request.group, &request.user, request.bytes());
        true
    }

    /// Checks the invariants that concern one transfer, and the count of all.
    fn check(&self, id: TransferId) {
        let is_both = self.waiting.contains_key(&id) && self.running.contains_key(&id);
        assert!(!is_both, "a transfer waits and runs");
        let counted = self.counts.get(&Counter::Site).copied().unwrap_or(0);
        assert_eq!(counted as usize, self.running.len(), "running transfers are counted once");
    }
}

/// The order of one decision: the transfers that may start, by user.
struct Order {
    /// Urgent ones and those with a deadline to keep, first ones last.
    first: Vec<TransferId>,
    /// Of each group and user, first ones last.
    of_user: BTreeMap<(String, String), Vec<TransferId>>,
    /// Those that do not start in this decision, and the reasons.
    passed_over: Vec<(TransferId, WaitCode)>,
}

impl Order {
    fn of(queue: &Queue, now: UnixMs) -> Self {
        let (mut first, mut passed_over) = (Vec::new(), Vec::new());
        let mut of_user: BTreeMap<(String, String), Vec<&Request>> = BTreeMap::new();
        for (id, waiting) in &queue.waiting {
            let request = &waiting.request;
            if let Some((code, _, _)) = queue.obstacle(waiting, now) {
                passed_over.push((*id, code));
            } else if request.urgent || request.start_by.is_some_and(|time| time <= now) {
                first.push(request);
            } else {
                let key = (request.group.clone(), request.user.clone());
                of_user.entry(key).or_default().push(request);
            }
        }
        first.sort_by_key(|request| (!request.urgent, request.start_by, request.rank()));
        let ids = |requests: Vec<&Request>| -> Vec<_> {
            requests.into_iter().rev().map(|request| request.id).collect()
        };
        let of_user = of_user.into_iter().map(|(key, mut requests)| {
            requests.sort_by_key(|request| request.rank());
            (key, ids(requests))
        });
        Self { first: ids(first), of_user: of_user.collect(), passed_over }
    }

    /// Returns the first one by urgency, deadline and share.
    fn first(&self, shares: &FairShare, weights: &Weights, now: UnixMs) -> Option<TransferId> {
        if let Some(id) = self.first.last() {
            return Some(*id);
        }
        let users = self.of_user.iter().filter_map(|(key, ids)| Some((key, *ids.last()?)));
        let by_share =
            users.map(|((group, user), id)| (shares.rank(weights, group, user, now), id));
        by_share
            .min_by(|(one, a), (other, b)| one.total_cmp(other).then(a.cmp(b)))
            .map(|(_, id)| id)
    }

    /// Returns those that are left in the order.
    fn rest(&self) -> impl Iterator<Item = TransferId> + '_ {
        self.first.iter().chain(self.of_user.values().flatten()).copied()
    }

    /// Takes the first one out of the order.
    fn pass(&mut self, id: TransferId) {
        if self.first.last() == Some(&id) {
            self.first.pop();
            return;
        }
        for ids in self.of_user.values_mut() {
            if ids.last() == Some(&id) {
                ids.pop();
                return;
            }
        }
    }

    /// Returns the next transfer for which there is a place.
    fn next(&mut self, queue: &Queue, now: UnixMs) -> Option<TransferId> {
        loop {
            let id = self.first(&queue.shares, &queue.limits.weights, now)?;
            self.pass(id);
            if queue.has_place(&queue.waiting[&id].request) {
                return Some(id);
            }
            self.passed_over.push((id, WaitCode::Turn));
        }
    }
}

#[cfg(test)]
mod tests;
