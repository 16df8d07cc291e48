//! The facts about a transfer that the queue uses, and the limits that count it.

use penstock_proto::id::{Name, TransferId};

use super::wait::UnixMs;

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

/// Rank among the transfers of one user; see [`Request::rank`].
pub(super) type TurnRank = (bool, u8, UnixMs, TransferId);

/// The facts about one transfer that the queue decides by.
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
    /// Note of its user, which pause rules may choose by.
    pub label: String,
    /// Time from which it starts before fair shares, for the sake of a promised deadline.
    pub start_by: Option<UnixMs>,
    /// Latest start with which a promised deadline is kept: a place is reserved from then on.
    pub latest_start: Option<UnixMs>,
    /// Expected duration in seconds, of the rest if it runs; `None` if no forecast exists.
    pub forecast_seconds: Option<u64>,
    /// Duration of others like it, for forecasts of those behind it; `None` if nothing is known.
    pub typical_seconds: Option<u64>,
    /// Expected bytes still to move; `None` if nothing is known.
    pub forecast_bytes: Option<u64>,
    /// Items still to move, of a transfer of which at least nine tenths are done.
    pub nearly_done_items: Option<u64>,
}

impl Request {
    /// Returns whether it starts before fair shares: it is urgent, or its deadline is promised and
    /// its time has come. A deadline without a promise grants no such place, or any user could take
    /// it.
    pub(super) fn is_before_shares(&self, now: UnixMs) -> bool {
        let has_promise = self.latest_start.is_some();
        self.urgent || (has_promise && self.start_by.is_some_and(|time| time <= now))
    }

    /// Returns whether it may use a place reserved for short transfers.
    pub(super) fn is_short(&self) -> bool {
        self.forecast_seconds.is_some_and(|seconds| seconds <= SHORT_SECONDS)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.forecast_bytes.unwrap_or(UNKNOWN_BYTES).min(FORECAST_BYTES_MAX)
    }

    /// Returns the rank among the transfers of one user; the least starts first.
    pub(super) fn rank(&self) -> TurnRank {
        let is_nearly_done = self.nearly_done_items.is_some_and(|items| items <= NEARLY_ITEMS);
        (!is_nearly_done, 100 - self.priority.min(100), self.created, self.id)
    }

    /// Returns the counters of limits that the transfer uses.
    pub fn counters(&self) -> impl Iterator<Item = Counter> + '_ {
        let other = self.target_store.as_ref().filter(|it| self.source_store.as_ref() != Some(*it));
        let named = [
            self.pair.clone().map(Counter::Pair),
            self.source_store.clone().map(Counter::Store),
            other.cloned().map(Counter::Store),
            Some(Counter::User(self.user.clone())),
            Some(Counter::Site),
        ];
        named.into_iter().flatten()
    }

    /// Returns whether it counts against the limit of a counter.
    pub(super) fn uses(&self, counter: &Counter) -> bool {
        match counter {
            Counter::Site => true,
            Counter::Pair(pair) => self.pair.as_ref() == Some(pair),
            Counter::Store(store) => {
                self.source_store.as_ref() == Some(store)
                    || self.target_store.as_ref() == Some(store)
            }
            Counter::User(user) => self.user == *user,
        }
    }

    /// Returns the expected duration in milliseconds, of it or of others like it.
    pub(super) fn duration_ms(&self) -> Option<u64> {
        self.forecast_seconds.or(self.typical_seconds).map(|seconds| seconds.saturating_mul(1000))
    }
}

/// Something of which only so many transfers run at a time, or use so much together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// All transfers of this site.
    Site,
    /// Transfers with another site.
    Pair(Name),
    /// Transfers that read or write a store of this site.
    Store(Name),
    /// Transfers of a user.
    User(String),
}

impl Counter {
    /// Returns the name of the object; empty for the site.
    pub fn name(&self) -> &str {
        match self {
            Self::Site => "",
            Self::Pair(name) | Self::Store(name) => name.as_str(),
            Self::User(user) => user,
        }
    }
}
