//! Filters of the list of transfers.

use penstock_api::rest::WaitingView;
use penstock_api::transfer::{Location, TransferReport, TransferRequest, TransferState};
use penstock_cluster::state::{ListKey, ListOrder, TransferRecord};
use penstock_proto::id::Name;

/// Codes of waits that end without help, or that a person has asked for.
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
    /// Only transfers that need a person: those that have failed, or that wait for an event that
    /// does not occur by itself.
    pub needs_attention: bool,
    /// Order by the time of submission.
    pub order: ListOrder,
}

/// The properties of a transfer by which lists are filtered, but for its wait.
pub(super) struct Facts<'a> {
    pub(super) state: TransferState,
    pub(super) source: &'a Location,
    pub(super) target: &'a Location,
    pub(super) owner: Option<&'a Name>,
    pub(super) label: &'a str,
    /// Seconds since 1970.
    pub(super) created: u64,
}

impl<'a> Facts<'a> {
    fn of_report(report: &'a TransferReport) -> Self {
        let TransferReport { state, source, target, owner, label, created, .. } = report;
        let (state, owner, created) = (*state, owner.as_ref(), *created);
        Self { state, source, target, owner, label, created }
    }

    pub(super) fn of_record(record: &'a TransferRecord) -> Self {
        let TransferRequest { source, target, label, .. } = &record.request;
        let (state, owner, created) = (record.state, record.owner.as_ref(), record.created);
        Self { state, source, target, owner, label, created }
    }
}

impl TransferFilter {
    /// Returns whether a transfer is in the list.
    pub(super) fn matches(&self, report: &TransferReport) -> bool {
        self.may_match(&Facts::of_report(report))
            && (!self.needs_attention || needs_attention(report))
    }

    /// Returns whether a transfer is in the list as far as these facts tell.
    pub(super) fn may_match(&self, facts: &Facts<'_>) -> bool {
        let is_any = |wanted: &Option<Name>, names: [&Name; 2]| {
            wanted.as_ref().is_none_or(|name| names.contains(&name))
        };
        let created_ms = facts.created.saturating_mul(1000);
        (self.states.is_empty() || self.states.contains(&facts.state))
            && is_any(&self.site, [&facts.source.site, &facts.target.site])
            && is_any(&self.store, [&facts.source.store, &facts.target.store])
            && (self.owner.is_none() || self.owner.as_ref() == facts.owner)
            && self.since_ms.is_none_or(|since| created_ms >= since)
            && self.until_ms.is_none_or(|until| created_ms < until)
            && (self.label.is_empty()
                || facts.label.to_lowercase().contains(&self.label.to_lowercase()))
    }

    /// Returns the only states in which a transfer of the list can be; `None` for all of them.
    pub(super) fn only_states(&self) -> Option<Vec<TransferState>> {
        if self.states.is_empty() && !self.needs_attention {
            return None;
        }
        let may_be = |state: &TransferState| {
            (self.states.is_empty() || self.states.contains(state))
                && (!self.needs_attention || !is_over(*state))
        };
        Some(TransferState::ALL.into_iter().filter(may_be).collect())
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

/// Returns whether a transfer in this state needs no further attention.
fn is_over(state: TransferState) -> bool {
    matches!(state, TransferState::Done | TransferState::Cancelled)
}

fn needs_attention(report: &TransferReport) -> bool {
    let waits = WaitingView::of(report);
    report.state == TransferState::Failed
        || waits.is_some_and(|waiting| !CALM.contains(&waiting.code.as_str()))
}
