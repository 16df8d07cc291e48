//! The queue as operators see it.

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use super::rule::{PauseRule, QueueLimit, QueueWindow};
use crate::options::deadline::DeadlineView;
use crate::place::Location;
use crate::rest::WaitingView;
use crate::timestamp::Timestamp;

/// The queue of a site.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueView {
    /// Number of transfers that run.
    pub running: u64,
    /// Number of transfers that wait.
    pub waiting: u64,
    /// The first of those that wait, in the order in which they would start; at most
    /// [`crate::rest::LIST_MAX`].
    pub transfers: Vec<QueueEntry>,
    /// Groups that such users are in, or that have a share. `none` is that of all other users.
    #[serde(default)]
    pub groups: Vec<QueueGroupView>,
    /// Users that have transfers in the queue, were served lately, or have a share.
    #[serde(default)]
    pub users: Vec<QueueUserView>,
    /// Limits that an operator has set, and that of the site.
    #[serde(default)]
    pub limits: Vec<QueueLimitView>,
    /// Windows.
    #[serde(default)]
    pub windows: Vec<WindowView>,
    /// Pause rules.
    #[serde(default)]
    pub pause_rules: Vec<PauseRuleView>,
}

/// A transfer that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueEntry {
    /// The transfer.
    pub id: TransferId,
    /// Its user; absent where another site submitted it, or the administrator of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// Note of its user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub label: String,
    /// Source.
    pub source: Location,
    /// Target.
    pub target: Location,
    /// The reason for which it waits.
    pub waiting: WaitingView,
    /// True if an operator has put it before all fair shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineView>,
    /// Forecast start; absent where nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_start: Option<Timestamp>,
    /// Forecast end; absent where nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_end: Option<Timestamp>,
}

/// The share and the use of a group of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueGroupView {
    /// The group; `none` for the users without one.
    pub group: String,
    /// Weight of its share.
    pub weight: u32,
    /// Bytes that its users were served lately: a byte counts half after 12 hours.
    pub served_bytes: u64,
    /// Bytes that their running transfers still have to move.
    pub expected_bytes: u64,
    /// Number of their transfers that run.
    pub running: u64,
    /// Number of their transfers that wait.
    pub waiting: u64,
}

/// The share and the use of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueUserView {
    /// The user; `@SITE` for those that a paired site submits.
    pub user: String,
    /// Its group; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Name>,
    /// Weight of its share, within its group.
    pub weight: u32,
    /// Bytes that it was served lately: a byte counts half after 12 hours.
    pub served_bytes: u64,
    /// Bytes that its running transfers still have to move.
    pub expected_bytes: u64,
    /// Number of its transfers that run.
    pub running: u64,
    /// Number of its transfers that wait.
    pub waiting: u64,
}

/// A limit and its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QueueLimitView {
    /// The limit.
    #[serde(flatten)]
    pub limit: QueueLimit,
    /// Number of transfers that run under it now.
    pub running_now: u64,
    /// Bits of file content per second of them together, over the last second or so.
    pub rate_now_bits_per_s: u64,
    /// The window by which its values differ from those of the limit itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_window: Option<Name>,
}

/// A window and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WindowView {
    /// The window.
    #[serde(flatten)]
    pub window: QueueWindow,
    /// True if it is in force now.
    pub in_force: bool,
    /// Its next begin or end; absent if there is none within eight days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_at: Option<Timestamp>,
}

/// A pause rule and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PauseRuleView {
    /// The rule.
    #[serde(flatten)]
    pub rule: PauseRule,
    /// True if its time is not over.
    pub in_force: bool,
    /// Number of transfers that it holds.
    pub holds: u64,
}
