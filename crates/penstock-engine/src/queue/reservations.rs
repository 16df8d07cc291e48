//! Places that promised deadlines need.
//!
//! A transfer whose deadline was promised has a latest start. At that time each limit that it
//! counts against must have a place for it, whatever starts before. No transfer therefore starts
//! that would still run then and hold the last place. By induction every promise holds under three
//! conditions. No transfer takes longer than its forecast. No operator lowers a limit, closes a
//! window or starts an urgent transfer. Each promise was checked when it was made
//! (`Queue::check_promise`).
//!
//! A transfer may start before its latest start: it then ends earlier too.

use std::collections::BTreeMap;

use penstock_proto::id::TransferId;

use super::request::{Counter, Request};
use super::wait::UnixMs;

/// Use of a place from one time until another.
#[derive(Clone, Debug)]
struct Use {
    id: TransferId,
    counters: Vec<Counter>,
    from: UnixMs,
    until: UnixMs,
}

/// The places that running transfers hold, and those that promises need.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    promised: Vec<Use>,
    running: Vec<Use>,
    limits: BTreeMap<Counter, u32>,
}

impl Reservations {
    /// Returns those that waiting transfers with a promise need, from their latest start on, beside
    /// `running` ones, which hold their places until their expected ends. Without a promise they
    /// are empty, and cost nothing.
    pub(super) fn new<'a>(
        promised: impl Iterator<Item = (&'a Request, UnixMs)>,
        running: impl Iterator<Item = (&'a Request, Option<UnixMs>)>,
        limits: &BTreeMap<Counter, u32>,
        now: UnixMs,
    ) -> Self {
        let promised: Vec<_> =
            promised.map(|(request, latest)| Use::of(request, latest.max(now))).collect();
        if promised.is_empty() {
            return Self::default();
        }
        let running = running.map(|(request, end)| {
            let until = end.filter(|end| *end > now).unwrap_or(UnixMs::MAX);
            Use { until, ..Use::of(request, now) }
        });
        Self { promised, running: running.collect(), limits: limits.clone() }
    }

    /// Returns whether all promises can be kept if a transfer starts now.
    pub(super) fn have_place(&self, request: &Request, now: UnixMs) -> bool {
        if self.promised.is_empty() {
            return true;
        }
        let started = Use::of(request, now);
        let others = self.promised.iter().filter(|other| other.id != request.id);
        others.filter(|other| other.from < started.until).all(|other| {
            let mut shared = other.counters.iter().filter(|it| started.counters.contains(*it));
            shared.all(|counter| self.count(counter, other.from, request.id) < self.limit(counter))
        })
    }

    /// Records a transfer that starts now.
    pub(super) fn handle_start(&mut self, request: &Request, now: UnixMs) {
        if !self.promised.is_empty() {
            self.promised.retain(|other| other.id != request.id);
            self.running.push(Use::of(request, now));
        }
    }

    /// Returns whether every promise has its place.
    pub(super) fn hold(&self) -> bool {
        self.promised.iter().all(|other| {
            let mut limited = other.counters.iter();
            limited.all(|it| self.count(it, other.from, TransferId([0; 16])) <= self.limit(it))
        })
    }

    /// Returns how many places are in use at a time, without that of one transfer.
    fn count(&self, counter: &Counter, at: UnixMs, but: TransferId) -> u32 {
        let all = self.running.iter().chain(&self.promised).filter(|it| it.id != but);
        let using = |it: &&Use| it.from <= at && it.until > at && it.counters.contains(counter);
        all.filter(using).count() as u32
    }

    /// Returns whether a transfer has a promise.
    pub(super) fn has(&self, id: TransferId) -> bool {
        self.promised.iter().any(|it| it.id == id)
    }

    /// Returns the other transfers that use one of these limits: those that run, the last to end
    /// first, then those with a promise.
    pub(super) fn others(&self, id: TransferId, counters: &[Counter]) -> Vec<TransferId> {
        let mut others = self.running.clone();
        others.sort_by_key(|it| std::cmp::Reverse(it.until));
        others.extend(self.promised.iter().cloned());
        others.retain(|it| it.id != id && it.counters.iter().any(|one| counters.contains(one)));
        others.into_iter().map(|it| it.id).collect()
    }

    fn limit(&self, counter: &Counter) -> u32 {
        self.limits.get(counter).copied().unwrap_or(u32::MAX)
    }

    /// Returns those without some transfers.
    pub(super) fn without(&self, ids: &[TransferId]) -> Self {
        let stay = |it: &&Use| !ids.contains(&it.id);
        Self {
            promised: self.promised.iter().filter(stay).cloned().collect(),
            running: self.running.iter().filter(stay).cloned().collect(),
            limits: self.limits.clone(),
        }
    }
}

impl Use {
    fn of(request: &Request, from: UnixMs) -> Self {
        let until = request.duration_ms().map_or(UnixMs::MAX, |ms| from.saturating_add(ms));
        Self { id: request.id, counters: request.counters().collect(), from, until }
    }
}
