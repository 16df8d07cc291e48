//! The rules of operators, and the limits that follow from them at a time.

use std::collections::BTreeMap;

use penstock_api::queue::{
    LimitKind, PauseRule, QueueFilter, QueueLimit, QueueRule, QueueWindow, QueueWindowRequest,
};
use penstock_api::timestamp::Timestamp;
use penstock_engine::queue::{Counter, Limits, Pause, UnixMs, Weights};
use penstock_proto::id::Name;

use super::calendar::{Turn, WeekTimes};

/// A window with its times.
struct Window {
    window: QueueWindow,
    /// The reason why it never is in force, if its zone is not known to this host.
    times: Result<WeekTimes, String>,
}

/// All rules of a site.
#[derive(Default)]
pub(super) struct Rules {
    limits: BTreeMap<Counter, QueueLimit>,
    weights: Weights,
    windows: BTreeMap<Name, Window>,
    pauses: BTreeMap<Name, PauseRule>,
}

/// The limits that are in force at a time.
pub(super) struct InForce {
    /// Numbers of running transfers, closed counters, pauses, weights.
    pub(super) limits: Limits,
    /// Most bits per second.
    pub(super) rates: BTreeMap<Counter, u64>,
    /// The windows by which values differ from those of the limits themselves.
    pub(super) by_window: BTreeMap<Counter, Name>,
    /// The time until which this holds.
    pub(super) until: Option<UnixMs>,
}

impl Rules {
    /// Returns these rules.
    pub(super) fn of(rules: Vec<QueueRule>) -> Self {
        let mut all = Self::default();
        rules.into_iter().for_each(|rule| all.put(rule));
        all
    }

    /// Adds a rule, or replaces the one of its key.
    pub(super) fn put(&mut self, rule: QueueRule) {
        match rule {
            QueueRule::Limit(limit) => {
                if let Some(counter) = counter_of(limit.kind, &limit.name) {
                    self.limits.insert(counter, limit);
                }
            }
            QueueRule::Share(share) => drop(self.weights.users.insert(share.user, share.weight)),
            QueueRule::GroupShare(share) => {
                self.weights.groups.insert(share.group.into(), share.weight);
            }
            QueueRule::Window(window) => {
                let times = WeekTimes::of(&window.rule);
                if let Err(why) = &times {
                    tracing::error!(window = %window.name, why, "a window is never in force");
                }
                self.windows.insert(window.name.clone(), Window { window, times });
            }
            QueueRule::PauseRule(rule) => drop(self.pauses.insert(rule.name.clone(), rule)),
        }
    }

    /// Removes a rule; returns whether there was one.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        let before = self.count();
        self.limits.retain(|_, it| QueueRule::limit_key(it.kind, &it.name) != key);
        self.weights.users.retain(|user, _| QueueRule::share_key(user) != key);
        self.weights.groups.retain(|group, _| QueueRule::group_share_key(group) != key);
        self.windows.retain(|name, _| QueueRule::window_key(name) != key);
        self.pauses.retain(|name, _| QueueRule::pause_key(name) != key);
        self.count() < before
    }

    /// Returns whether there is a rule of this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.limits.values().any(|it| QueueRule::limit_key(it.kind, &it.name) == key)
            || self.weights.users.keys().any(|user| QueueRule::share_key(user) == key)
            || self.weights.groups.keys().any(|group| QueueRule::group_share_key(group) == key)
            || self.windows.keys().any(|name| QueueRule::window_key(name) == key)
            || self.pauses.keys().any(|name| QueueRule::pause_key(name) == key)
    }

    /// Returns the number of all rules.
    pub(super) fn count(&self) -> usize {
        let shares = self.weights.users.len() + self.weights.groups.len();
        self.limits.len() + shares + self.windows.len() + self.pauses.len()
    }

    /// Returns the weights that an operator has set.
    pub(super) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the windows, and their states at a time.
    pub(super) fn windows(&self, now: UnixMs) -> impl Iterator<Item = (&QueueWindow, Turn)> {
        self.windows.values().map(move |window| (&window.window, window.turn(now)))
    }

    /// Returns the pause rules, each with its form in the queue.
    pub(super) fn pauses(&self) -> impl Iterator<Item = (&PauseRule, Pause)> {
        self.pauses.values().map(|rule| (rule, pause_of(rule)))
    }

    /// Returns the limits in force at a time. `base` holds unless a rule sets another limit.
    pub(super) fn at(&self, base: &Limits, now: UnixMs) -> InForce {
        let mut limits = Limits { weights: self.weights.clone(), ..base.clone() };
        let (mut rates, mut by_window) = (BTreeMap::new(), BTreeMap::new());
        for (counter, limit) in &self.limits {
            if let Some(running) = limit.running {
                limits.running.insert(counter.clone(), running);
            }
            if let Some(rate) = limit.rate_bits_per_s {
                rates.insert(counter.clone(), rate);
            }
        }
        let mut until = None;
        for (name, window) in &self.windows {
            let turn = window.turn(now);
            until = until.into_iter().chain(turn.next).min();
            if !turn.is_in {
                continue;
            }
            let rule = &window.window.rule;
            let counter = window_counter(rule);
            if rule.running == Some(0) {
                let opens = turn.next.unwrap_or(UnixMs::MAX);
                let before = limits.closed.entry(counter.clone()).or_insert(opens);
                *before = opens.max(*before);
            }
            if let Some(running) = rule.running.filter(|running| *running > 0)
                && limits.running.get(&counter).is_none_or(|before| running < *before)
            {
                limits.running.insert(counter.clone(), running);
                by_window.insert(counter.clone(), name.clone());
            }
            if let Some(rate) = rule.rate_bits_per_s
                && rates.get(&counter).is_none_or(|before| rate < *before)
            {
                rates.insert(counter.clone(), rate);
                by_window.insert(counter, name.clone());
            }
        }
        let pauses: Vec<_> = self.pauses.values().map(pause_of).collect();
        let ends = pauses.iter().filter_map(|pause| pause.until).filter(|end| *end > now);
        until = until.into_iter().chain(ends).min();
        limits.pauses = pauses;
        InForce { limits, rates, by_window, until }
    }
}

impl Window {
    fn turn(&self, now: UnixMs) -> Turn {
        let never = Turn { is_in: false, next: None };
        self.times.as_ref().map_or(never, |times| times.at(now))
    }
}

/// Returns the counter of an object; `None` if its name is not valid.
pub(super) fn counter_of(kind: LimitKind, name: &str) -> Option<Counter> {
    match kind {
        LimitKind::Site => Some(Counter::Site),
        LimitKind::Pair => name.parse().ok().map(Counter::Pair),
        LimitKind::Store => name.parse().ok().map(Counter::Store),
        LimitKind::User => Some(Counter::User(name.to_owned())),
    }
}

/// Returns the kind of the object of a counter.
pub(super) fn kind_of(counter: &Counter) -> LimitKind {
    match counter {
        Counter::Site => LimitKind::Site,
        Counter::Pair(_) => LimitKind::Pair,
        Counter::Store(_) => LimitKind::Store,
        Counter::User(_) => LimitKind::User,
    }
}

/// Returns the counter that a window limits.
fn window_counter(rule: &QueueWindowRequest) -> Counter {
    let named = [
        rule.pair.clone().map(Counter::Pair),
        rule.store.clone().map(Counter::Store),
        rule.user.clone().map(Counter::User),
    ];
    named.into_iter().flatten().next().unwrap_or(Counter::Site)
}

/// Returns a pause rule in the form of the queue.
fn pause_of(rule: &PauseRule) -> Pause {
    let QueueFilter { user, store, site, label } = rule.filter.clone();
    Pause {
        name: rule.name.to_string(),
        user,
        store,
        pair: site,
        label,
        until: rule.until.map(Timestamp::ms),
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::queue::{Day, QueueGroupShare, QueueShare};

    use super::*;

    /// 2026-11-28T12:00:00Z.
    const NOON: UnixMs = 1_795_867_200_000;

    fn window(name: &str, rule: QueueWindowRequest) -> QueueRule {
        QueueRule::Window(QueueWindow { name: name.parse().unwrap(), rule })
    }

    fn nightly() -> QueueWindowRequest {
        QueueWindowRequest {
            days: Day::ALL.to_vec(),
            from: "08:00".parse().unwrap(),
            to: "18:00".parse().unwrap(),
            zone: "UTC".to_owned(),
            pair: Some("lab".parse().unwrap()),
            store: None,
            user: None,
            running: None,
            rate_bits_per_s: Some(2_000_000),
        }
    }

    /// Promise Q5: within a window its limits hold where they are narrower, and the set is looked
    /// at again when it ends.
    #[test]
    fn q5_a_window_narrows_limits_until_it_ends() {
        let pair = Counter::Pair("lab".parse().unwrap());
        let limit = QueueLimit {
            kind: LimitKind::Pair,
            name: "lab".to_owned(),
            running: Some(3),
            rate_bits_per_s: Some(9_000_000),
        };
        let mut rules = Rules::of(vec![
            QueueRule::Limit(limit),
            QueueRule::Share(QueueShare { user: "anna".to_owned(), weight: 4 }),
            window("office", nightly()),
        ]);
        let base = Limits::of_site(4);
        let noon = rules.at(&base, NOON);
        assert_eq!(noon.rates[&pair], 2_000_000);
        assert_eq!(noon.by_window[&pair].as_str(), "office");
        assert_eq!((noon.limits.running[&pair], noon.limits.running[&Counter::Site]), (3, 4));
        assert_eq!(noon.limits.weights.users["anna"], 4);
        let group = QueueGroupShare { group: "beam".parse().unwrap(), weight: 2 };
        rules.put(QueueRule::GroupShare(group));
        assert_eq!(rules.at(&base, NOON).limits.weights.groups["beam"], 2);
        assert!(rules.has("group-shares/beam") && rules.remove("group-shares/beam"));
        let evening = noon.until.unwrap();
        assert_eq!(evening, NOON + 6 * 3_600_000);
        assert_eq!(rules.at(&base, evening).rates[&pair], 9_000_000);
        let closed = QueueWindowRequest { running: Some(0), rate_bits_per_s: None, ..nightly() };
        rules.put(window("office", closed));
        assert_eq!(rules.at(&base, NOON).limits.closed[&pair], evening);
        assert!(rules.at(&base, evening).limits.closed.is_empty());
        assert!(rules.has("windows/office") && rules.remove("windows/office"));
        assert!(!rules.remove("windows/office"));
        assert_eq!(rules.count(), 2);
    }
}
