//! Limits in force: the number of transfers that may run at a time, and those that must not start.

use std::collections::BTreeMap;

use penstock_proto::id::Name;

use super::fair_share::Weights;
use super::request::{Counter, Request};
use super::wait::{UnixMs, WaitCode};

/// A rule of an operator that holds the transfers which fit all that it names.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Pause {
    /// Name of the rule.
    pub name: String,
    /// Their user.
    pub user: Option<String>,
    /// A store of this site that they read or write.
    pub store: Option<Name>,
    /// Their other site.
    pub pair: Option<Name>,
    /// A part of their label.
    pub label: Option<String>,
    /// End of the rule.
    pub until: Option<UnixMs>,
}

impl Pause {
    /// Returns whether the rule holds a transfer, while it lasts.
    pub fn fits(&self, request: &Request) -> bool {
        let fits = |wanted: Option<&Name>, found: &[&Option<Name>]| {
            wanted.is_none_or(|wanted| found.iter().any(|found| found.as_ref() == Some(wanted)))
        };
        self.user.as_ref().is_none_or(|user| *user == request.user)
            && fits(self.pair.as_ref(), &[&request.pair])
            && fits(self.store.as_ref(), &[&request.source_store, &request.target_store])
            && self.label.as_ref().is_none_or(|part| request.label.contains(part))
    }

    fn lasts(&self, now: UnixMs) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// Limits in force. The caller replaces them when a window turns or an operator changes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most running transfers by counter; a counter without a limit has none.
    pub running: BTreeMap<Counter, u32>,
    /// Places beyond each limit that only short transfers may use.
    pub short_extra: u32,
    /// Rules that hold transfers.
    pub pauses: Vec<Pause>,
    /// Counters of which no transfer may run, and the time when that ends.
    pub closed: BTreeMap<Counter, UnixMs>,
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
            pauses: Vec::new(),
            closed: BTreeMap::new(),
            weights: Weights::default(),
        }
    }

    /// Returns the rule that holds a transfer now.
    fn pause_of(&self, request: &Request, now: UnixMs) -> Option<&Pause> {
        self.pauses.iter().find(|pause| pause.lasts(now) && pause.fits(request))
    }

    /// Returns the counter of a transfer that is closed now, and the time when it opens.
    fn closed_of(&self, request: &Request, now: UnixMs) -> Option<(&Counter, UnixMs)> {
        let mut closed = self.closed.iter().filter(|(_, opens)| **opens > now);
        closed.find(|(counter, _)| request.uses(counter)).map(|(counter, opens)| (counter, *opens))
    }

    /// Returns the rule of an operator by which a transfer must not run now, its object and end.
    pub(super) fn closing(
        &self,
        request: &Request,
        now: UnixMs,
    ) -> Option<(WaitCode, &str, Option<UnixMs>)> {
        if let Some(pause) = self.pause_of(request, now) {
            return Some((WaitCode::PauseRule, &pause.name, pause.until));
        }
        let (counter, opens) = self.closed_of(request, now)?;
        Some((WaitCode::Window, counter.name(), Some(opens)))
    }

    /// Returns the times at which a rule or a closed window ends.
    pub(super) fn ends(&self) -> impl Iterator<Item = UnixMs> + '_ {
        let pauses = self.pauses.iter().filter_map(|pause| pause.until);
        pauses.chain(self.closed.values().copied())
    }
}
