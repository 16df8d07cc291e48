//! One action on many transfers.

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::problem::ProblemDetails;
use crate::rest::Action;
use crate::timestamp::Timestamp;
use crate::transfer::TransferState;

/// Most transfers of one request.
pub const BULK_MAX: usize = 500;

/// A choice of transfers that have not ended, or have failed: those that fit all that is given.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BulkFilter {
    /// The user; `@SITE` for those that a paired site submitted.
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
    /// The state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TransferState>,
}

/// Request for one action on many transfers: by their ids, or by a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// The action.
    pub action: Action,
    /// Of a pause, the time at which the transfers resume by themselves. Transfers that are named
    /// have this end if they are paused already; a filter finds those of them that have an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The transfers, up to [`BULK_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<TransferId>,
    /// The transfers of this site that fit the action and this filter, the oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<BulkFilter>,
    /// With a filter: the place behind which the action continues, `next` of the reply before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What came of the action on one transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkItem {
    /// The transfer.
    pub id: TransferId,
    /// Its state now; absent if the action failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TransferState>,
    /// The reason why the action failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemDetails>,
}

/// What came of an action on many transfers.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkReply {
    /// Each transfer, in the order of the request.
    pub items: Vec<BulkItem>,
    /// True if more than [`BULK_MAX`] fit the filter.
    pub more: bool,
    /// The place of the last transfer, if there are more. As `after` of the same request it leads
    /// to the next ones, past those that were refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
