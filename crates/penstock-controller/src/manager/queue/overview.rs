//! The queue as operators see it: waits with their reasons, shares, limits, windows, rules.

use std::collections::{BTreeMap, BTreeSet};

use penstock_api::queue::{
    NO_GROUP, PauseRule, PauseRuleView, QueueEntry, QueueGroupView, QueueLimit, QueueLimitView,
    QueueUserView, QueueView, QueueWindow, WindowView,
};
use penstock_api::rest::WaitingView;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::Waiting;
use penstock_cluster::clock::now_ms;
use penstock_cluster::state::TransferRecord;
use penstock_engine::queue::{Counter, Forecast, Pause, UnixMs, WaitCode};
use penstock_proto::id::{Name, TransferId};

use super::calendar::Turn;
use super::rules::kind_of;
use super::transfer_table::Table;

impl Table {
    /// Returns the queue, with up to `most` transfers that wait, in the order in which they would
    /// start. `site` is the own one.
    pub(crate) fn queue(&self, site: &Name, most: usize) -> QueueView {
        let now = now_ms();
        let (waiting, running) = self.schedule.counts();
        let (order, forecasts) = (self.schedule.order(most, now), self.schedule.forecast(now));
        let entry = |(id, waiting)| self.entry(id, waiting, forecasts.get(&id));
        QueueView {
            running: running as u64,
            waiting: waiting as u64,
            transfers: order.into_iter().filter_map(entry).collect(),
            groups: self.groups(now),
            users: self.users(now),
            limits: self.limits(site),
            windows: self.windows(now),
            pause_rules: self.pause_rules(now),
        }
    }

    fn entry(
        &self,
        id: TransferId,
        waiting: Waiting,
        forecast: Option<&Forecast>,
    ) -> Option<QueueEntry> {
        let live = self.live.get(&id)?;
        // Not as a whole: it may name many paths.
        let request = &live.record.request;
        Some(QueueEntry {
            id,
            owner: live.record.owner.clone(),
            label: request.label.clone(),
            source: request.source.clone(),
            target: request.target.clone(),
            waiting: WaitingView::from(waiting),
            urgent: request.urgent,
            deadline: request.deadline.and_then(|_| live.brief().deadline),
            forecast_start: forecast.and_then(|it| it.start).map(Timestamp::of_ms),
            forecast_end: forecast.and_then(|it| it.end).map(Timestamp::of_ms),
        })
    }

    fn users(&self, now: UnixMs) -> Vec<QueueUserView> {
        // Counts by owner, or by submitter if there is no owner. A text for each transfer would
        // cost more.
        let mut of_owner: BTreeMap<_, (&TransferRecord, u64, u64)> = BTreeMap::new();
        for live in self.live.values() {
            let record = &live.record;
            let submitter = record.owner.is_none().then_some(&record.submitter);
            let count = of_owner.entry((&record.owner, submitter)).or_insert((record, 0, 0));
            count.1 += u64::from(live.run.is_some());
            count.2 += u64::from(live.is_waiting());
        }
        let texts =
            of_owner.into_values().map(|(record, runs, waits)| (record.user_text(), (runs, waits)));
        let counts: BTreeMap<String, (u64, u64)> = texts.collect();
        let weights = &self.schedule.rules().weights().users;
        let named = self.schedule.users().chain(weights.keys().map(String::as_str));
        let names: BTreeSet<_> = named.chain(counts.keys().map(String::as_str)).collect();
        let view = |user: &str| {
            let name = user.parse::<Name>().ok();
            let group = self.schedule.groups().of_owner(name.as_ref());
            let (served_bytes, expected_bytes) = self.schedule.served(group, user, now);
            let (running, waiting) = counts.get(user).copied().unwrap_or_default();
            QueueUserView {
                user: user.to_owned(),
                group: group.parse().ok().filter(|_| group != NO_GROUP),
                weight: weights.get(user).copied().unwrap_or(1),
                served_bytes,
                expected_bytes,
                running,
                waiting,
            }
        };
        names.into_iter().map(view).collect()
    }

    fn groups(&self, now: UnixMs) -> Vec<QueueGroupView> {
        let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for live in self.live.values() {
            let count = counts.entry(self.schedule.groups().of_record(&live.record)).or_default();
            count.0 += u64::from(live.run.is_some());
            count.1 += u64::from(live.is_waiting());
        }
        let weights = &self.schedule.rules().weights().groups;
        let named = self.schedule.served_groups().chain(weights.keys().map(String::as_str));
        let names: BTreeSet<_> = named.chain(counts.keys().copied()).collect();
        let view = |group: &str| {
            let (served_bytes, expected_bytes) = self.schedule.served_group(group, now);
            let (running, waiting) = counts.get(group).copied().unwrap_or_default();
            let weight = weights.get(group).copied().unwrap_or(1);
            let group = group.to_owned();
            QueueGroupView { group, weight, served_bytes, expected_bytes, running, waiting }
        };
        names.into_iter().map(view).collect()
    }

    fn limits(&self, site: &Name) -> Vec<QueueLimitView> {
        let in_force = self.schedule.in_force();
        let mut used: BTreeMap<Counter, (u64, u64)> = BTreeMap::new();
        for live in self.live.values() {
            let Some(run) = &live.run else { continue };
            let rate = run.view().progress.rate_bits_per_s as u64;
            for counter in self.schedule.counters(&live.record) {
                let of = used.entry(counter).or_default();
                *of = (of.0 + 1, of.1 + rate);
            }
        }
        let limits = &in_force.limits;
        let counters = limits.running.keys().chain(limits.closed.keys());
        let counters: BTreeSet<_> = counters.chain(in_force.rates.keys()).collect();
        let view = |counter: &Counter| {
            let is_closed = limits.closed.contains_key(counter);
            let running = limits.running.get(counter).copied();
            let name = if *counter == Counter::Site { site.as_str() } else { counter.name() };
            let (running_now, rate_now) = used.get(counter).copied().unwrap_or_default();
            QueueLimitView {
                limit: QueueLimit {
                    kind: kind_of(counter),
                    name: name.to_owned(),
                    running: if is_closed { Some(0) } else { running },
                    rate_bits_per_s: in_force.rates.get(counter).copied(),
                },
                running_now,
                rate_now_bits_per_s: rate_now,
                by_window: in_force.by_window.get(counter).cloned(),
            }
        };
        counters.into_iter().map(view).collect()
    }

    fn windows(&self, now: UnixMs) -> Vec<WindowView> {
        let windows = self.schedule.rules().windows(now);
        let view = |(window, turn): (&QueueWindow, Turn)| WindowView {
            window: window.clone(),
            in_force: turn.is_in,
            turns_at: turn.next.map(Timestamp::of_ms),
        };
        windows.map(view).collect()
    }

    fn pause_rules(&self, now: UnixMs) -> Vec<PauseRuleView> {
        let waits = self.live.values().filter_map(|live| live.waiting.as_ref());
        let held = waits.filter(|waiting| waiting.code == WaitCode::PauseRule.as_str());
        let mut holds: BTreeMap<&str, u64> = BTreeMap::new();
        held.for_each(|waiting| *holds.entry(&waiting.on).or_default() += 1);
        let rules = self.schedule.rules().pauses();
        let view = |(rule, pause): (&PauseRule, Pause)| PauseRuleView {
            rule: rule.clone(),
            in_force: pause.until.is_none_or(|until| until > now),
            holds: holds.get(rule.name.as_str()).copied().unwrap_or_default(),
        };
        rules.map(view).collect()
    }
}
