//! Expected starts and ends: the queue's own decisions, played forward.
//!
//! A copy of the machine starts and ends transfers as if each took its forecast duration. Windows
//! that close later, and transfers that are submitted later, are not foreseen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use penstock_proto::id::TransferId;

use super::machine::{Queue, Waiting};
use super::request::Request;
use super::wait::UnixMs;

/// Most waiting transfers of which a forecast is made, beside all with a deadline.
pub const FORECASTS_MAX: usize = 200;
/// Most steps of a forecast for each transfer: its start, its end, and times between.
const STEPS_PER_TRANSFER: usize = 4;

/// Expected times of a transfer. A time is absent where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Forecast {
    /// Its start; absent if it runs.
    pub start: Option<UnixMs>,
    /// Its end.
    pub end: Option<UnixMs>,
}

impl Queue {
    /// Returns the forecasts of running transfers, of those with a deadline, and of the first
    /// [`FORECASTS_MAX`] others. Costs about as many decisions over so many transfers.
    pub fn forecast(&self, now: UnixMs) -> BTreeMap<TransferId, Forecast> {
        let first: BTreeSet<_> =
            self.order(FORECASTS_MAX, now).into_iter().map(|(id, _)| id).collect();
        let mut copy = Self {
            limits: self.limits.clone(),
            waiting: BTreeMap::new(),
            running: self.running.clone(),
            ends: self.ends.clone(),
            counts: self.counts.clone(),
            shares: self.shares.clone(),
        };
        let is_seen = |id: &TransferId, waiting: &Waiting| {
            first.contains(id) || waiting.request.start_by.is_some()
        };
        let seen = self.waiting.iter().filter(|(id, waiting)| is_seen(id, waiting));
        copy.waiting = seen.map(|(id, waiting)| (*id, waiting.clone())).collect();
        copy.play(now)
    }

    fn play(&mut self, mut now: UnixMs) -> BTreeMap<TransferId, Forecast> {
        let mut found: BTreeMap<TransferId, Forecast> = BTreeMap::new();
        let known = |ends: &BTreeMap<TransferId, UnixMs>, id: TransferId, now: UnixMs| {
            ends.get(&id).copied().filter(|end| *end >= now).map(|end| Reverse((end, id)))
        };
        let running = self.running.keys().filter_map(|id| known(&self.ends, *id, now));
        let mut ends: BinaryHeap<_> = running.collect();
        let steps = STEPS_PER_TRANSFER * (self.waiting.len() + self.running.len() + 1);
        for _ in 0..steps {
            for id in self.poll_starts(now) {
                found.entry(id).or_default().start = Some(now);
                ends.extend(known(&self.ends, id, now));
            }
            let end = ends.peek().map(|Reverse((end, _))| *end);
            let wake = if self.waiting.is_empty() { None } else { self.poll_wake(now) };
            let Some(next) = end.into_iter().chain(wake).min() else { break };
            now = next;
            while let Some(Reverse((end, id))) = ends.peek().copied()
                && end <= now
            {
                ends.pop();
                found.entry(id).or_default().end = Some(end);
                let bytes = self.running.get(&id).map_or(0, Request::bytes);
                self.handle_served(id, bytes, now);
                self.handle_ended(id);
            }
        }
        found
    }
}
