//! Bytes that users were served lately, per weight.

use std::collections::BTreeMap;

use super::wait::UnixMs;

/// Time in which a served byte loses half of its weight: 12 hours.
pub const HALF_LIFE_MS: u64 = 12 * 3600 * 1000;

/// Weights of groups and users; one that is not named has 1.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Weights {
    /// By name of the group, at least 1.
    pub groups: BTreeMap<String, u32>,
    /// By name of the user, at least 1.
    pub users: BTreeMap<String, u32>,
}

impl Weights {
    /// Returns the weight of a group.
    pub fn of_group(&self, name: &str) -> f64 {
        Self::of(&self.groups, name)
    }

    /// Returns the weight of a user within its group.
    pub fn of_user(&self, name: &str) -> f64 {
        Self::of(&self.users, name)
    }

    fn of(map: &BTreeMap<String, u32>, name: &str) -> f64 {
        f64::from(map.get(name).copied().unwrap_or(1).max(1))
    }
}

/// Bytes served to one user or group.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    bytes: f64,
    at: UnixMs,
    /// Bytes that running transfers still have to move.
    expected: u64,
}

impl Served {
    fn decayed(&self, now: UnixMs) -> f64 {
        let age = now.saturating_sub(self.at) as f64;
        self.bytes * (-age / HALF_LIFE_MS as f64).exp2()
    }

    fn add(&mut self, bytes: u64, expected: u64, now: UnixMs) {
        self.bytes = self.decayed(now) + bytes as f64;
        self.at = now.max(self.at);
        self.take(expected);
    }

    fn take(&mut self, expected: u64) {
        assert!(expected <= self.expected, "only what was expected is served or taken back");
        self.expected -= expected;
    }

    fn load(&self, now: UnixMs) -> f64 {
        self.decayed(now) + self.expected as f64
    }

    /// Returns whether the remaining load is negligible: less than a byte.
    fn is_idle(&self, now: UnixMs) -> bool {
        self.expected == 0 && self.decayed(now) < 1.0
    }
}

/// The ledger of fair shares.
#[derive(Clone, Debug, Default)]
pub(super) struct FairShare {
    groups: BTreeMap<String, Served>,
    /// By group and name.
    users: BTreeMap<String, BTreeMap<String, Served>>,
}

/// Position of a user: by its group, then by itself. The least is served next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rank(f64, f64);

impl Rank {
    pub(super) fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.total_cmp(&other.1))
    }
}

impl FairShare {
    /// Records bytes that a user was served, of which `expected` were expected.
    pub(super) fn serve(
        &mut self,
        group: &str,
        user: &str,
        (bytes, expected): (u64, u64),
        now: UnixMs,
    ) {
        self.of_both(group, user).for_each(|served| served.add(bytes, expected, now));
    }

    /// Forgets users and groups whose load is negligible.
    pub(super) fn forget_idle(&mut self, now: UnixMs) {
        self.groups.retain(|_, served| !served.is_idle(now));
        self.users.retain(|_, users| {
            users.retain(|_, served| !served.is_idle(now));
            !users.is_empty()
        });
    }

    /// Records bytes that a transfer of a user will move.
    pub(super) fn expect(&mut self, group: &str, user: &str, bytes: u64) {
        self.of_both(group, user).for_each(|served| served.expected += bytes);
    }

    /// Subtracts the bytes that a transfer was expected to move and did not.
    pub(super) fn unexpect(&mut self, group: &str, user: &str, bytes: u64) {
        self.of_both(group, user).for_each(|served| served.take(bytes));
    }

    pub(super) fn rank(&self, weights: &Weights, group: &str, user: &str, now: UnixMs) -> Rank {
        let of_group = self.groups.get(group).map_or(0.0, |served| served.load(now));
        let of_user = self.one(group, user).map_or(0.0, |served| served.load(now));
        Rank(of_group / weights.of_group(group), of_user / weights.of_user(user))
    }

    /// Returns the decayed and the expected bytes of a user.
    pub(super) fn user(&self, group: &str, user: &str, now: UnixMs) -> (u64, u64) {
        let served = self.one(group, user);
        served.map_or((0, 0), |served| (served.decayed(now) as u64, served.expected))
    }

    /// Returns the decayed and the expected bytes of a group.
    pub(super) fn group(&self, group: &str, now: UnixMs) -> (u64, u64) {
        let served = self.groups.get(group);
        served.map_or((0, 0), |served| (served.decayed(now) as u64, served.expected))
    }

    /// Returns the names of all groups in the ledger.
    pub(super) fn group_names(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    /// Returns the names of all users in the ledger.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.users.values().flat_map(BTreeMap::keys).map(String::as_str)
    }

    fn one(&self, group: &str, user: &str) -> Option<&Served> {
        self.users.get(group)?.get(user)
    }

    fn of_both(&mut self, group: &str, user: &str) -> impl Iterator<Item = &mut Served> {
        let of_group = self.groups.entry(group.to_owned()).or_default();
        let users = self.users.entry(group.to_owned()).or_default();
        let of_user = users.entry(user.to_owned()).or_default();
        [of_group, of_user].into_iter()
    }
}
