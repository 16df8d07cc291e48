//! Filters of the list of transfers.

use penstock_api::rest::WaitingView;
use penstock_api::transfer::{TransferReport, TransferState};
use penstock_cluster::state::{ListKey, ListOrder};
use penstock_proto::id::Name;

/// Codes of waits that end without anybody's help, or that a person has asked for.
const CALM: [&str; 7] = ["turn", "share", "pause-rule", "window", "not-before", "drain", "user"];

/// The choice of transfers for a list. The default lets all through, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TransferFilter {
    /// States; empty for all of them.
    pub states: Vec<TransferState>,
    /// A site that is source or target.
    pub site: Option<Name>,
    /// The name of a store that is source or target.
    pub store: Option<Name>,
    /// The user that submitted it.
    pub owner: Option<Name>,
    /// Part of the label, in any case.
    pub label: String,
    /// Earliest submission, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Submissions before this time, in milliseconds since 1970.
    pub until_ms: Option<u64>,
    /// Only transfers that need a person: those that have failed, or that wait for what does not
    /// come by itself.
    pub needs_attention: bool,
    /// Order by the time of submission.
    pub order: ListOrder,
}

impl TransferFilter {
    /// Returns whether a transfer is in the list.
    pub(super) fn matches(&self, report: &TransferReport) -> bool {
        let (source, target) = (&report.source, &report.target);
        let is_any = |wanted: &Option<Name>, names: [&Name; 2]| {
            wanted.as_ref().is_none_or(|name| names.contains(&name))
        };
        let created_ms = report.created.saturating_mul(1000);
        (self.states.is_empty() || self.states.contains(&report.state))
            && is_any(&self.site, [&source.site, &target.site])
            && is_any(&self.store, [&source.store, &target.store])
            && (self.owner.is_none() || self.owner == report.owner)
            && (self.label.is_empty()
                || report.label.to_lowercase().contains(&self.label.to_lowercase()))
            && self.since_ms.is_none_or(|since| created_ms >= since)
            && self.until_ms.is_none_or(|until| created_ms < until)
            && (!self.needs_attention || needs_attention(report))
    }

    /// Returns whether no transfer behind a place can be in the list.
    pub(super) fn is_behind(&self, (created, _): ListKey) -> bool {
        let created_ms = created.saturating_mul(1000);
        match self.order {
            ListOrder::NewestFirst => self.since_ms.is_some_and(|since| created_ms < since),
            ListOrder::OldestFirst => self.until_ms.is_some_and(|until| created_ms >= until),
        }
    }
}

fn needs_attention(report: &TransferReport) -> bool {
    let waits = WaitingView::of(report);
    report.state == TransferState::Failed
        || waits.is_some_and(|waiting| !CALM.contains(&waiting.code.as_str()))
}
