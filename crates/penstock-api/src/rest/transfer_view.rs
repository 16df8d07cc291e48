//! Transfers as users see them: in lists, and one by one.

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use super::waiting_view::WaitingView;
use crate::bottleneck::Bottleneck;
use crate::deadline::DeadlineView;
use crate::limits::Limits;
use crate::outcome::FailedItem;
use crate::place::Location;
use crate::problem::Exit;
use crate::timestamp::Timestamp;
use crate::transfer::{Progress, TransferOptions, TransferReport, TransferState};

/// Direction of a transfer, as seen from the site that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From another site to this one.
    In,
    /// From this site to another one.
    Out,
    /// Within this site.
    Within,
}

impl Direction {
    fn of(report: &TransferReport, own: &Name) -> Self {
        match (report.source.site == *own, report.target.site == *own) {
            (true, true) => Self::Within,
            (true, false) => Self::Out,
            (false, _) => Self::In,
        }
    }
}

/// Figures of a transfer in a list. All counts are of payload.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ProgressSummary {
    /// Files found so far.
    pub files_found: u64,
    /// Bytes of files found so far.
    pub bytes_found: u64,
    /// True if the scan is complete, so that the two above are totals.
    pub scan_complete: bool,
    /// Files verified and written.
    pub files: u64,
    /// Bytes verified and written, in this run and before.
    pub bytes: u64,
    /// Bytes durable under the stated policy.
    pub bytes_durable: u64,
    /// Bytes that need not be moved any more: verified, parts of files too, or left as they are.
    #[serde(default)]
    pub bytes_settled: u64,
    /// Items that failed.
    pub errors: u64,
    /// Bits per second now, over the last second or so; 0 if it does not run.
    pub rate_bits_per_s: f64,
    /// Seconds since the transfer was started, pauses left out.
    pub seconds: f64,
    /// Seconds until its end at the rate of now; absent where that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

impl ProgressSummary {
    /// Returns the figures that lists show of a transfer in a state.
    pub fn of(progress: &Progress, state: TransferState) -> Self {
        let runs = state == TransferState::Running;
        Self {
            files_found: progress.files_found,
            bytes_found: progress.bytes_found,
            scan_complete: progress.scan_complete,
            files: progress.files,
            bytes: progress.bytes,
            bytes_durable: progress.bytes_durable,
            bytes_settled: progress.bytes_settled(),
            errors: progress.errors,
            rate_bits_per_s: if runs { progress.rate_bits_per_s } else { 0.0 },
            seconds: progress.seconds,
            eta_seconds: if runs { eta_seconds(progress) } else { None },
        }
    }
}

/// Returns the seconds until the end at the rate of now.
fn eta_seconds(progress: &Progress) -> Option<u64> {
    if !progress.scan_complete || progress.rate_bits_per_s <= 0.0 {
        return None;
    }
    let left = progress.bytes_found.saturating_sub(progress.bytes_settled());
    // A cast of a float saturates.
    Some((left as f64 * 8.0 / progress.rate_bits_per_s).ceil() as u64)
}

/// Failed items of a transfer in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FailureCount {
    /// Number of failed items.
    pub count: u64,
}

/// Failed items of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FailureSummary {
    /// Number of failed items.
    pub count: u64,
    /// The first of them; all are in the failure list.
    #[serde(default)]
    pub first: Vec<FailedItem>,
}

/// A transfer as lists show it: without lists of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TransferSummary {
    /// Its id.
    pub id: TransferId,
    /// Note of its user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub label: String,
    /// User that submitted it; absent where another site did, or the administrator of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// Source.
    pub source: Location,
    /// Target.
    pub target: Location,
    /// Direction, as seen from the site that answers.
    pub direction: Direction,
    /// State.
    pub state: TransferState,
    /// The reason for which it waits; absent if it moves or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingView>,
    /// Reason of the state in words. May be empty.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub reason: String,
    /// Time of its submission.
    pub created_at: Timestamp,
    /// Begin of its first attempt; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time of its end; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Earliest start, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Priority among the transfers of one user, 0 to 100; absent for the usual one, 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// True if an operator has put it before all fair shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Time by which it has to be done, and the outlook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineView>,
    /// Number of attempts that were begun.
    pub attempt: u32,
    /// Figures.
    pub progress: ProgressSummary,
    /// The cause that limits its rate; absent if it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// Number of failed items.
    pub failures: FailureCount,
    /// Number of paths in the request; 0 for a whole directory.
    pub files_from_count: u64,
    /// Exit status of `--wait`, once the transfer has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}

impl TransferSummary {
    /// Returns what a list of the site `own` shows of a transfer.
    pub fn of(report: &TransferReport, own: &Name) -> Self {
        Self {
            id: report.id,
            label: report.label.clone(),
            owner: report.owner.clone(),
            source: report.source.clone(),
            target: report.target.clone(),
            direction: Direction::of(report, own),
            state: report.state,
            waiting: WaitingView::of(report),
            reason: report.reason.clone(),
            created_at: Timestamp::of_seconds(report.created),
            started_at: report.attempts.started_ms.map(Timestamp::of_ms),
            ended_at: report.attempts.ended_ms.map(Timestamp::of_ms),
            not_before: report.not_before.map(Timestamp::of_seconds),
            priority: report.priority,
            urgent: report.urgent,
            deadline: report.deadline,
            attempt: report.attempts.count,
            progress: ProgressSummary::of(&report.progress, report.state),
            bottleneck: bottleneck_of(report).filter(|_| report.state == TransferState::Running),
            failures: FailureCount { count: report.progress.errors },
            files_from_count: report.files_from_count,
            exit: report.exit,
        }
    }
}

/// A transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TransferView {
    /// Its id.
    pub id: TransferId,
    /// Note of its user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub label: String,
    /// User that submitted it; absent where another site did, or the administrator of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// Source.
    pub source: Location,
    /// Target.
    pub target: Location,
    /// Direction, as seen from the site that answers.
    pub direction: Direction,
    /// State.
    pub state: TransferState,
    /// The reason for which it waits; absent if it moves or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingView>,
    /// Reason of the state in words. May be empty.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub reason: String,
    /// Time of its submission.
    pub created_at: Timestamp,
    /// Begin of its first attempt; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time of its end; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Earliest start, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Priority among the transfers of one user, 0 to 100; absent for the usual one, 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// True if an operator has put it before all fair shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Time by which it has to be done, and the outlook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineView>,
    /// Limits that hold now.
    pub limits: Limits,
    /// Number of attempts that were begun.
    pub attempt: u32,
    /// Options of the request. `files_from` is left out, unless the query has `include=options`.
    pub options: TransferOptions,
    /// Number of paths in `options.files_from`; 0 for a whole directory.
    pub files_from_count: u64,
    /// Figures.
    pub progress: Progress,
    /// Seconds until its end at the rate of now; absent where that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
    /// The cause that limits its rate; of one that has ended, what limited it as a whole. Absent
    /// where it waits for its turn or is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// Failed items.
    pub failures: FailureSummary,
    /// Exit status of `--wait`, once the transfer has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Method by which the data was made durable, in words; empty before the first sync.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub durable_by: String,
}

impl TransferView {
    /// Returns what the site `own` shows of a transfer, without the paths of the request.
    pub fn of(report: TransferReport, own: &Name) -> Self {
        Self::with_paths(report.without_paths(), own)
    }

    /// Returns what the site `own` shows of a transfer, with the paths of the request.
    pub fn with_paths(report: TransferReport, own: &Name) -> Self {
        let runs = report.state == TransferState::Running;
        Self {
            direction: Direction::of(&report, own),
            waiting: WaitingView::of(&report),
            created_at: Timestamp::of_seconds(report.created),
            started_at: report.attempts.started_ms.map(Timestamp::of_ms),
            ended_at: report.attempts.ended_ms.map(Timestamp::of_ms),
            not_before: report.not_before.map(Timestamp::of_seconds),
            limits: report.options.limits,
            attempt: report.attempts.count,
            files_from_count: report.files_from_count.max(report.options.files_from.len() as u64),
            eta_seconds: if runs { eta_seconds(&report.progress) } else { None },
            bottleneck: bottleneck_of(&report),
            failures: FailureSummary { count: report.progress.errors, first: report.failures },
            id: report.id,
            label: report.label,
            owner: report.owner,
            source: report.source,
            target: report.target,
            state: report.state,
            reason: report.reason,
            priority: report.priority,
            urgent: report.urgent,
            deadline: report.deadline,
            options: report.options,
            progress: report.progress,
            exit: report.exit,
            durable_by: report.durable_by,
        }
    }
}

/// Returns what limits a transfer, or has limited one that has ended.
fn bottleneck_of(report: &TransferReport) -> Option<Bottleneck> {
    let Progress { bottleneck, limit, .. } = &report.progress;
    match report.state {
        TransferState::Queued | TransferState::Paused => None,
        TransferState::Running => bottleneck.clone().or_else(|| Bottleneck::of(limit)),
        _ => bottleneck.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what is verified, in parts of files too, or stays counts as done, once and never
    /// beyond what was found; the time left is that of the rest.
    #[test]
    fn the_time_left_is_of_what_is_to_move() {
        let mut progress = Progress {
            bytes_found: 1000,
            scan_complete: true,
            rate_bits_per_s: 80.0,
            bytes: 100,
            bytes_resumed: 50,
            bytes_verified: 300,
            bytes_resent: 20,
            bytes_skipped: 170,
            ..Progress::default()
        };
        assert_eq!((progress.bytes_settled(), eta_seconds(&progress)), (500, Some(50)));
        progress.bytes_skipped = 900;
        assert_eq!((progress.bytes_settled(), eta_seconds(&progress)), (1000, Some(0)));
        progress.scan_complete = false;
        assert_eq!(eta_seconds(&progress), None);
    }
}
