//! Figures of a manager: its transfers now, and counters since it began to lead.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_api::problem::ProblemCode;
use penstock_api::transfer::{Progress, TransferState};
use penstock_cluster::clock::{now_ms, now_seconds};
use penstock_proto::id::{Name, TransferId};

use super::live::Live;
use crate::manager::event_ring::EventFigures;

/// Running transfers that have figures of their own; further ones are in the sums alone.
pub const RUNNING_SHOWN_MAX: usize = 200;

/// The code of problems that this release does not know.
const OTHER: &str = "other";

/// Figures of a manager.
#[derive(Clone, Debug, Default)]
pub struct ManagerFigures {
    /// Transfers that have not ended, by state.
    pub states: BTreeMap<&'static str, u64>,
    /// Transfers that wait, by the code of the reason.
    pub waiting: BTreeMap<String, WaitFigures>,
    /// Attempts that have a thread.
    pub attempts: u64,
    /// Running transfers, up to [`RUNNING_SHOWN_MAX`].
    pub running: Vec<RunningFigures>,
    /// Transfers that have ended, attempts and retries, since the manager began.
    pub outcomes: Outcomes,
    /// Events, and their readers.
    pub events: EventFigures,
    /// Time since the last decision about the queue.
    pub undecided: Duration,
}

/// Transfers that wait for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitFigures {
    /// Their number.
    pub transfers: u64,
    /// The longest of their waits.
    pub longest: Duration,
}

/// Figures of one running transfer.
#[derive(Clone, Debug)]
pub struct RunningFigures {
    /// The transfer.
    pub id: TransferId,
    /// The site that its data comes from.
    pub source: Name,
    /// Its progress.
    pub progress: Progress,
}

/// Ends of attempts and of transfers since a manager began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Attempts that have ended.
    pub attempts: u64,
    /// Transfers that have ended, by state.
    pub ended: BTreeMap<&'static str, u64>,
    /// Transfers that have failed, by the code of their problem.
    pub failures: BTreeMap<String, u64>,
    /// Items that failed in transfers that have ended.
    pub failed_items: u64,
    /// Attempts that are repeated, by the code of their problem.
    pub retries: BTreeMap<String, u64>,
    /// Seconds since 1970 of the last end as done.
    pub last_done: Option<u64>,
}

/// Counts the ends of attempts.
#[derive(Debug, Default)]
pub(crate) struct OutcomeTally(Mutex<Outcomes>);

impl OutcomeTally {
    fn lock(&self) -> MutexGuard<'_, Outcomes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the end of an attempt, after which its transfer is in `state` and has this many
    /// failed items. `failed` is the code of the problem, if the attempt failed.
    pub(crate) fn handle_end(
        &self,
        state: TransferState,
        failed_items: u64,
        failed: Option<&ProblemCode>,
    ) {
        let mut outcomes = self.lock();
        outcomes.attempts += 1;
        if state.is_ended() {
            *outcomes.ended.entry(state.as_str()).or_default() += 1;
            outcomes.failed_items += failed_items;
        }
        let by_code = match state {
            TransferState::Failed => Some(&mut outcomes.failures),
            TransferState::Queued => Some(&mut outcomes.retries),
            _ => None,
        };
        if let (Some(by_code), Some(code)) = (by_code, failed) {
            // Codes of later releases come from other sites: they are no label of ours.
            let code = if let ProblemCode::Other(_) = code { OTHER } else { code.as_str() };
            *by_code.entry(code.to_owned()).or_default() += 1;
        }
        if state == TransferState::Done {
            outcomes.last_done = Some(now_seconds());
        }
    }

    pub(crate) fn figures(&self) -> Outcomes {
        self.lock().clone()
    }
}

impl ManagerFigures {
    /// Adds a transfer that has not ended.
    pub(crate) fn add(&mut self, live: &Live) {
        let state = live.record.state;
        *self.states.entry(state.as_str()).or_default() += 1;
        if let Some(waiting) = live.waiting.as_ref().filter(|_| live.is_waiting()) {
            let wait = self.waiting.entry(waiting.code.clone()).or_default();
            wait.transfers += 1;
            let lasts = Duration::from_millis(now_ms().saturating_sub(waiting.since_ms));
            wait.longest = wait.longest.max(lasts);
        }
        if let Some(run) = live.run.as_ref().filter(|_| self.running.len() < RUNNING_SHOWN_MAX) {
            self.running.push(RunningFigures {
                id: live.record.id(),
                source: live.record.request.source.site.clone(),
                progress: run.view().progress,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each end, and each retry with its reason, is counted once; a pause is neither.
    #[test]
    fn ends_and_retries_are_counted() {
        let tally = OutcomeTally::default();
        let offline = ProblemCode::StoreOffline;
        tally.handle_end(TransferState::Queued, 0, Some(&offline));
        tally.handle_end(TransferState::Queued, 7, Some(&offline));
        tally.handle_end(TransferState::Paused, 7, Some(&offline));
        tally.handle_end(TransferState::Queued, 7, None);
        assert_eq!(tally.figures().last_done, None);
        tally.handle_end(TransferState::Done, 0, None);
        tally.handle_end(TransferState::Failed, 7, Some(&ProblemCode::StoreReadOnly));
        let figures = tally.figures();
        assert_eq!(figures.attempts, 6);
        assert_eq!(figures.ended, BTreeMap::from([("done", 1), ("failed", 1)]));
        assert_eq!(figures.retries, BTreeMap::from([("store-offline".to_owned(), 2)]));
        assert_eq!(figures.failures, BTreeMap::from([("store-read-only".to_owned(), 1)]));
        assert_eq!(figures.failed_items, 7);
        assert!(figures.last_done.is_some());
    }
}
