//! Rules of operators about the queue: limits, shares, windows, pauses.

use std::fmt;
use std::str::FromStr;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

/// Greatest weight of a share.
pub const WEIGHT_MAX: u32 = 1000;
/// The group of all users that have none.
pub const NO_GROUP: &str = "none";

/// The kind of object that a limit holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LimitKind {
    /// All transfers of this site.
    Site,
    /// Transfers with a paired site.
    Pair,
    /// Transfers that read or write a store of this site.
    Store,
    /// Transfers of a user.
    User,
}

impl LimitKind {
    /// All kinds, in the order of the reference.
    pub const ALL: [Self; 4] = [Self::Site, Self::Pair, Self::Store, Self::User];

    /// Returns the name of the kind, as JSON and paths have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Pair => "pair",
            Self::Store => "store",
            Self::User => "user",
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LimitKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        kind.ok_or_else(|| format!("`{text}` has no limits: site, pair, store and user have"))
    }
}

/// A limit to set. At least one of the two is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct QueueLimitRequest {
    /// Most transfers that run at a time, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Most bits of file content per second, of all of them together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bits_per_s: Option<u64>,
}

/// A limit of what the transfers of one object use together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueLimit {
    /// Kind of the object.
    pub kind: LimitKind,
    /// Name of the object.
    pub name: String,
    /// Most transfers that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Most bits of file content per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bits_per_s: Option<u64>,
}

/// A share to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct QueueShareRequest {
    /// Weight beside those of other users or groups, 1 to [`WEIGHT_MAX`]. What has no share has 1.
    pub weight: u32,
}

/// The share of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueShare {
    /// The user.
    pub user: String,
    /// Its weight.
    pub weight: u32,
}

/// The share of a group of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueGroupShare {
    /// The group; [`NO_GROUP`] for the users without one.
    pub group: Name,
    /// Its weight.
    pub weight: u32,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl Day {
    /// All days, from Monday on.
    pub const ALL: [Self; 7] =
        [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];

    /// Returns the name of the day, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mon => "mon",
            Self::Tue => "tue",
            Self::Wed => "wed",
            Self::Thu => "thu",
            Self::Fri => "fri",
            Self::Sat => "sat",
            Self::Sun => "sun",
        }
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let day = Self::ALL.into_iter().find(|day| day.as_str() == text);
        day.ok_or_else(|| format!("`{text}` is no day: mon, tue, wed, thu, fri, sat or sun"))
    }
}

/// A time of day by the wall clock, to the minute: `08:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeOfDay {
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
}

/// A text that is no time of day.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no time of day from 00:00 to 23:59")]
pub struct TimeOfDayError(String);

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.hour, self.minute)
    }
}

impl FromStr for TimeOfDay {
    type Err = TimeOfDayError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: &str, end: u8| {
            let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| part.parse().ok()).flatten().filter(|value: &u8| *value < end)
        };
        text.split_once(':')
            .and_then(|(hour, minute)| {
                Some(Self { hour: number(hour, 24)?, minute: number(minute, 60)? })
            })
            .ok_or_else(|| TimeOfDayError(text.to_owned()))
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = TimeOfDayError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TimeOfDay> for String {
    fn from(time: TimeOfDay) -> Self {
        time.to_string()
    }
}

/// A window to set. It holds for one of `pair`, `store` and `user`, or for the whole site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct QueueWindowRequest {
    /// Days on which it begins.
    pub days: Vec<Day>,
    /// Its begin.
    pub from: TimeOfDay,
    /// Its end: on the next day if that is not after `from`.
    pub to: TimeOfDay,
    /// Time zone of both, as in the IANA database: `Europe/Zurich`.
    pub zone: String,
    /// Paired site whose transfers it limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Name>,
    /// Store of this site whose transfers it limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Name>,
    /// User whose transfers it limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Most transfers that run at a time within it. With 0 none runs: those that do are stopped
    /// when it begins, and resume at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Most bits of file content per second within it, of all of them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bits_per_s: Option<u64>,
}

/// A time of the week in which other limits hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueWindow {
    /// Its name.
    pub name: Name,
    /// Its times and limits.
    #[serde(flatten)]
    pub rule: QueueWindowRequest,
}

/// A choice of transfers: those that fit all that is given. An empty one fits every transfer.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct QueueFilter {
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A store of this site that the transfer reads or writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Name>,
    /// The other site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<Name>,
    /// A part of the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A pause rule to set.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PauseRuleRequest {
    /// The transfers that it holds.
    pub filter: QueueFilter,
    /// The reason, for their users; up to 200 characters.
    pub reason: String,
    /// Its end; without one it holds until it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A rule that holds transfers: those that fit it do not start, and those that run are stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PauseRule {
    /// Its name.
    pub name: Name,
    /// The transfers that it holds.
    pub filter: QueueFilter,
    /// The reason, for their users.
    #[serde(deserialize_with = "crate::text::field")]
    pub reason: String,
    /// Its end; absent if it holds until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The principal that made it.
    pub by: Name,
    /// Time when it was made, or changed last.
    pub since: Timestamp,
}

/// A rule as the site keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum QueueRule {
    /// A limit.
    Limit(QueueLimit),
    /// A share of a user.
    Share(QueueShare),
    /// A share of a group.
    GroupShare(QueueGroupShare),
    /// A window.
    Window(QueueWindow),
    /// A pause rule.
    PauseRule(PauseRule),
}

impl QueueRule {
    /// Returns the key under which the site keeps it: one of each key.
    pub fn key(&self) -> String {
        match self {
            Self::Limit(limit) => Self::limit_key(limit.kind, &limit.name),
            Self::Share(share) => Self::share_key(&share.user),
            Self::GroupShare(share) => Self::group_share_key(share.group.as_str()),
            Self::Window(window) => Self::window_key(&window.name),
            Self::PauseRule(rule) => Self::pause_key(&rule.name),
        }
    }

    /// Returns the key of the limit of an object.
    pub fn limit_key(kind: LimitKind, name: &str) -> String {
        format!("limits/{kind}/{name}")
    }

    /// Returns the key of the share of a user.
    pub fn share_key(user: &str) -> String {
        format!("shares/{user}")
    }

    /// Returns the key of the share of a group.
    pub fn group_share_key(group: &str) -> String {
        format!("group-shares/{group}")
    }

    /// Returns the key of a window.
    pub fn window_key(name: &Name) -> String {
        format!("windows/{name}")
    }

    /// Returns the key of a pause rule.
    pub fn pause_key(name: &Name) -> String {
        format!("pause-rules/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a time of day is read as `HH:MM` and nothing else, and written as it was read.
    #[test]
    fn times_of_day_are_read() {
        let time: TimeOfDay = "08:05".parse().unwrap();
        assert_eq!((time.hour, time.minute, time.to_string()), (8, 5, "08:05".to_owned()));
        for bad in ["", "8:00", "24:00", "08:60", "08", "08:00:00", "+8:00"] {
            assert!(bad.parse::<TimeOfDay>().is_err(), "`{bad}`");
        }
    }

    /// Promise: each kind of rule survives its form at rest, under a key of its own.
    #[test]
    fn rules_are_kept_as_they_are() {
        let name: Name = "one".parse().unwrap();
        let window = QueueWindowRequest {
            days: vec![Day::Mon, Day::Sun],
            from: "22:00".parse().unwrap(),
            to: "06:00".parse().unwrap(),
            zone: "Europe/Zurich".to_owned(),
            pair: Some("hpc".parse().unwrap()),
            store: None,
            user: None,
            running: Some(0),
            rate_bits_per_s: None,
        };
        let rules = [
            QueueRule::Limit(QueueLimit {
                kind: LimitKind::Store,
                name: "one".to_owned(),
                running: Some(2),
                rate_bits_per_s: Some(1_000_000),
            }),
            QueueRule::Share(QueueShare { user: "one".to_owned(), weight: 3 }),
            QueueRule::GroupShare(QueueGroupShare { group: name.clone(), weight: 3 }),
            QueueRule::Window(QueueWindow { name: name.clone(), rule: window }),
            QueueRule::PauseRule(PauseRule {
                name: name.clone(),
                filter: QueueFilter { label: Some("run".to_owned()), ..QueueFilter::default() },
                reason: "maintenance".to_owned(),
                until: Some(Timestamp::of_seconds(9)),
                by: name,
                since: Timestamp::of_seconds(1),
            }),
        ];
        let keys: std::collections::BTreeSet<_> = rules.iter().map(QueueRule::key).collect();
        assert_eq!(keys.len(), rules.len());
        for rule in rules {
            let text = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<QueueRule>(&text).unwrap(), rule);
        }
    }
}
