//! The machine: the transfers that wait, those that run, and the next one to start.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use penstock_proto::id::TransferId;

use super::fair_share::{FairShare, Weights};
use super::limits::Limits;
use super::request::{Counter, Request, TurnRank};
use super::reservations::Reservations;
use super::wait::{Hold, UnixMs, Wait, WaitCode};

/// A transfer that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) request: Request,
    /// Time since which it waits for the present reason.
    since: UnixMs,
    hold: Option<Hold>,
    /// Reason found by the last decision.
    code: WaitCode,
}

/// A mark that distinguishes one wait of a transfer from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitMark {
    code: WaitCode,
    since: UnixMs,
    until: Option<UnixMs>,
    /// Place among the limits of the one that is full.
    full: Option<usize>,
}

impl Waiting {
    /// Returns the reason for which a transfer must not start now, the object of it, and its end.
    fn obstacle<'a>(
        &'a self,
        limits: &'a Limits,
        now: UnixMs,
    ) -> Option<(WaitCode, &'a str, Option<UnixMs>)> {
        if let Some(hold) = self.hold.as_ref().filter(|hold| hold.until.is_none_or(|t| t > now)) {
            return Some((hold.code, &hold.on, hold.until));
        }
        if let Some(time) = self.request.not_before.filter(|time| *time > now) {
            return Some((WaitCode::NotBefore, "", Some(time)));
        }
        limits.closing(&self.request, now)
    }
}

/// The machine. See the module.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(super) limits: Limits,
    pub(super) waiting: BTreeMap<TransferId, Waiting>,
    pub(super) running: BTreeMap<TransferId, Request>,
    /// Expected ends of running transfers, as far as they are known.
    pub(super) ends: BTreeMap<TransferId, UnixMs>,
    pub(super) counts: BTreeMap<Counter, u32>,
    pub(super) shares: FairShare,
}

impl Queue {
    /// Returns an empty queue.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            ends: BTreeMap::new(),
            counts: BTreeMap::new(),
            shares: FairShare::default(),
        }
    }

    /// Replaces the limits in force. Running transfers continue, even above a new limit.
    pub fn handle_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Adds a transfer, or replaces the facts about a waiting one. A running transfer returns to
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
    pub fn handle_running(&mut self, request: Request, now: UnixMs) {
        self.waiting.remove(&request.id);
        self.remove_running(request.id);
        self.add_running(request, now);
    }

    /// Records the time that a running transfer still needs; `None` keeps the earlier value.
    pub fn handle_forecast(&mut self, id: TransferId, seconds_left: Option<u64>, now: UnixMs) {
        if self.running.contains_key(&id)
            && let Some(seconds) = seconds_left
        {
            self.ends.insert(id, now.saturating_add(seconds.saturating_mul(1000)));
        }
    }

    /// Records bytes that a running transfer has made durable since the last report.
    pub fn handle_served(&mut self, id: TransferId, bytes: u64, now: UnixMs) {
        if let Some(request) = self.running.get_mut(&id) {
            let expected = bytes.min(request.bytes());
            request.forecast_bytes = Some(request.bytes() - expected);
            self.shares.serve(&request.group, &request.user, (bytes, expected), now);
        }
    }

    /// Records bytes that a user was served at an earlier time, before the machine was made. Calls
    /// come in the order of time.
    pub fn handle_past(&mut self, group: &str, user: &str, bytes: u64, at: UnixMs) {
        self.shares.serve(group, user, (bytes, 0), at);
    }

    /// Forgets a transfer: it has ended, or waits for its user. Returns whether it was known.
    pub fn handle_ended(&mut self, id: TransferId) -> bool {
        let has_waited = self.waiting.remove(&id).is_some();
        self.remove_running(id) || has_waited
    }

    /// Returns the transfers to start now, first ones first, and counts them as running. Where none
    /// can start, it costs one look at each that waits, and no order is made.
    pub fn poll_starts(&mut self, now: UnixMs) -> Vec<TransferId> {
        self.shares.forget_idle(now);
        let mut starts = Vec::new();
        if self.may_start_any() {
            let mut order = Order::of(self, now);
            while !self.is_full()
                && let Some(id) = order.next(self, now)
            {
                let waiting = self.waiting.remove(&id).expect("the order holds waiting transfers");
                order.reservations.handle_start(&waiting.request, now);
                self.add_running(waiting.request, now);
                starts.push(id);
            }
        }
        for waiting in self.waiting.values_mut() {
            let obstacle = waiting.obstacle(&self.limits, now);
            let code = obstacle.map_or(WaitCode::Turn, |(code, ..)| code);
            if waiting.code != code {
                (waiting.code, waiting.since) = (code, now);
            }
        }
        starts
    }

    /// Returns the running transfers that must stop now: a pause rule holds them, or a window has
    /// closed. Each is returned until it is in the queue again.
    pub fn poll_stops(&self, now: UnixMs) -> Vec<TransferId> {
        if self.limits.pauses.is_empty() && self.limits.closed.is_empty() {
            return Vec::new();
        }
        let must_stop = |request: &&Request| self.limits.closing(request, now).is_some();
        self.running.values().filter(must_stop).map(|request| request.id).collect()
    }

    /// Returns the next time at which a decision may differ without any further event: the end of
    /// a hold, a start time, a window.
    pub fn poll_wake(&self, now: UnixMs) -> Option<UnixMs> {
        let of_transfers = self.waiting.values().flat_map(|waiting| {
            let hold = waiting.hold.as_ref().and_then(|hold| hold.until);
            let request = &waiting.request;
            [request.not_before, request.start_by, request.latest_start, hold]
        });
        let times = of_transfers.flatten().chain(self.limits.ends());
        times.filter(|time| *time > now).min()
    }

    /// Returns why a transfer waits; `None` if it runs or is unknown.
    pub fn wait(&self, id: TransferId, now: UnixMs) -> Option<Wait> {
        let waiting = self.waiting.get(&id)?;
        Some(self.wait_of(waiting, None, now))
    }

    /// Returns up to `most` waiting transfers in the order in which they would start as places
    /// become free one after the other, each with its reason. Transfers that must not start are
    /// last, by age.
    pub fn order(&self, most: usize, now: UnixMs) -> Vec<(TransferId, Wait)> {
        let mut order = Order::of(self, now);
        let mut shares = self.shares.clone();
        let mut listed = Vec::with_capacity(self.waiting.len().min(most));
        while listed.len() < most
            && let Some(id) = order.take_first(&shares, &self.limits.weights, now)
        {
            let waiting = &self.waiting[&id];
            let request = &waiting.request;
            shares.expect(&request.group, &request.user, request.bytes());
            listed.push((id, self.wait_of(waiting, Some(listed.len() as u64), now)));
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

    /// Returns the same of all users of a group.
    pub fn served_group(&self, group: &str, now: UnixMs) -> (u64, u64) {
        self.shares.group(group, now)
    }

    /// Returns the groups whose users were served lately or have running transfers.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.shares.group_names()
    }

    /// Returns the users that were served lately or have running transfers.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.shares.names()
    }

    /// Numbers of waiting and of running transfers.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.running.len())
    }

    /// Returns the marks of the waits of all waiting transfers, in the order of ids. Costs less
    /// than [`Queue::wait`] of each.
    pub fn wait_marks(&self, now: UnixMs) -> impl Iterator<Item = (TransferId, WaitMark)> {
        self.waiting.iter().map(move |(id, waiting)| {
            let since = waiting.since;
            let mark = match waiting.obstacle(&self.limits, now) {
                Some((code, _, until)) => WaitMark { code, since, until, full: None },
                None => {
                    let full = self.full_counter(&waiting.request).map(|(place, _)| place);
                    WaitMark { code: WaitCode::Turn, since, until: None, full }
                }
            };
            (*id, mark)
        })
    }

    /// Returns the places that promised deadlines need, and those that are in use.
    pub(super) fn reservations(&self, now: UnixMs) -> Reservations {
        let promised = self.waiting.values().filter_map(|waiting| {
            let latest = waiting.request.latest_start?;
            // A transfer that is held beyond its latest start needs no place: its promise is lost
            // already.
            let is_held = |until: Option<UnixMs>| until.is_none_or(|until| until > latest);
            let obstacle = waiting.obstacle(&self.limits, now);
            let is_lost = obstacle.is_some_and(|(_, _, until)| is_held(until));
            (!is_lost).then_some((&waiting.request, latest))
        });
        let running = self.running.values();
        let running = running.map(|request| (request, self.ends.get(&request.id).copied()));
        Reservations::new(promised, running, &self.limits.running, now)
    }

    fn wait_of(&self, waiting: &Waiting, position: Option<u64>, now: UnixMs) -> Wait {
        let (code, on, until) = waiting.obstacle(&self.limits, now).unwrap_or_else(|| {
            let full = self.full_counter(&waiting.request);
            (WaitCode::Turn, full.map(|(_, counter)| counter.name()).unwrap_or_default(), None)
        });
        Wait { code, since: waiting.since, until, on: on.to_owned(), position }
    }

    /// Returns whether the limit of the site leaves a place for one that waits.
    fn may_start_any(&self) -> bool {
        let most = self.limits.running.get(&Counter::Site).copied().unwrap_or(u32::MAX);
        let count = self.counts.get(&Counter::Site).copied().unwrap_or(0);
        let are_short = || self.waiting.values().any(|waiting| waiting.request.is_short());
        count < most || (!self.is_full() && are_short())
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
        let mut used = self.limits.running.iter().filter(|(counter, _)| request.uses(counter));
        used.all(|(counter, most)| {
            let count = self.counts.get(counter).copied().unwrap_or(0);
            count < most.saturating_add(if *most == 0 { 0 } else { extra })
        })
    }

    /// Returns a limit that has no place for a transfer, and its place among the limits.
    fn full_counter(&self, request: &Request) -> Option<(usize, &Counter)> {
        // The limit of the site is first in the order of counters, and is the least specific.
        let mut limits = self.limits.running.iter().enumerate().rev();
        let full = limits.find(|(_, (counter, most))| {
            request.uses(counter) && self.counts.get(*counter).copied().unwrap_or(0) >= **most
        });
        full.map(|(place, (counter, _))| (place, counter))
    }

    fn add_running(&mut self, request: Request, now: UnixMs) {
        for counter in request.counters() {
            *self.counts.entry(counter).or_insert(0) += 1;
        }
        self.shares.expect(&request.group, &request.user, request.bytes());
        let id = request.id;
        if let Some(duration) = request.duration_ms() {
            self.ends.insert(id, now.saturating_add(duration));
        }
        let before = self.running.insert(id, request);
        assert!(before.is_none(), "a transfer was started twice");
        self.check(id);
    }

    fn remove_running(&mut self, id: TransferId) -> bool {
        let Some(request) = self.running.remove(&id) else { return false };
        self.ends.remove(&id);
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
    /// Transfers by group and user. A decision takes few of many, so they are not sorted.
    of_user: BTreeMap<(String, String), BinaryHeap<Reverse<TurnRank>>>,
    /// The places that promised deadlines need.
    reservations: Reservations,
}

impl Order {
    fn of(queue: &Queue, now: UnixMs) -> Self {
        let mut first = Vec::new();
        let mut of_user: BTreeMap<(&str, &str), Vec<Reverse<TurnRank>>> = BTreeMap::new();
        for waiting in queue.waiting.values() {
            let request = &waiting.request;
            if waiting.obstacle(&queue.limits, now).is_some() {
                continue;
            }
            if request.is_before_shares(now) {
                first.push(request);
            } else {
                let user = (&*request.group, &*request.user);
                of_user.entry(user).or_default().push(Reverse(request.rank()));
            }
        }
        first.sort_by_key(|request| Reverse((!request.urgent, request.start_by, request.rank())));
        let of_user = of_user.into_iter().map(|((group, user), ranks)| {
            ((group.to_owned(), user.to_owned()), BinaryHeap::from(ranks))
        });
        Self {
            first: first.into_iter().map(|request| request.id).collect(),
            of_user: of_user.collect(),
            reservations: queue.reservations(now),
        }
    }

    /// Takes the first one by urgency, deadline and share out of the order.
    fn take_first(
        &mut self,
        shares: &FairShare,
        weights: &Weights,
        now: UnixMs,
    ) -> Option<TransferId> {
        if let Some(id) = self.first.pop() {
            return Some(id);
        }
        let users = self.of_user.iter_mut().filter(|(_, ranks)| !ranks.is_empty());
        let by_share = users.map(|((group, user), ranks)| {
            let id = ranks.peek().map(|Reverse((.., id))| *id);
            (shares.rank(weights, group, user, now), id, ranks)
        });
        let next =
            by_share.min_by(|(one, a, _), (other, b, _)| one.total_cmp(other).then(a.cmp(b)));
        next.and_then(|(.., ranks)| ranks.pop()).map(|Reverse((.., id))| id)
    }

    /// Takes the next transfer for which there is a place.
    fn next(&mut self, queue: &Queue, now: UnixMs) -> Option<TransferId> {
        loop {
            let id = self.take_first(&queue.shares, &queue.limits.weights, now)?;
            let request = &queue.waiting[&id].request;
            if queue.has_place(request)
                && (request.urgent || self.reservations.have_place(request, now))
            {
                return Some(id);
            }
        }
    }
}
