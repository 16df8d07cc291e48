//! The latest decisions of a task about lanes and paths, for its controller.

use std::collections::VecDeque;
use std::time::Duration;

use penstock_api::task::{TaskDecision, TaskDecisionKind};
use penstock_proto::units::Instant;

/// Most decisions that figures carry.
const DECISIONS_MAX: usize = 32;
/// Time for which figures repeat a decision.
const REPEATED_FOR: Duration = Duration::from_secs(10);

/// The latest decisions of a task.
#[derive(Debug, Default)]
pub(crate) struct TaskDecisions {
    latest: VecDeque<(Instant, TaskDecision)>,
    serial: u64,
}

impl TaskDecisions {
    /// Adds a decision.
    pub(crate) fn add(&mut self, now: Instant, kind: TaskDecisionKind, text: String) {
        self.serial += 1;
        self.latest.push_back((now, TaskDecision { serial: self.serial, kind, text }));
        if self.latest.len() > DECISIONS_MAX {
            self.latest.pop_front();
        }
    }

    /// Returns the decisions of the last seconds, oldest first.
    pub(crate) fn latest(&mut self, now: Instant) -> Vec<TaskDecision> {
        while self.latest.front().is_some_and(|(at, _)| now.since(*at) > REPEATED_FOR) {
            self.latest.pop_front();
        }
        self.latest.iter().map(|(_, decision)| decision.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: decisions are numbered, bounded, and not repeated for ever.
    #[test]
    fn decisions_are_repeated_for_some_seconds() {
        let mut decisions = TaskDecisions::default();
        for at in 0..100 {
            decisions.add(Instant(at), TaskDecisionKind::Lanes, at.to_string());
        }
        let latest = decisions.latest(Instant(100));
        assert_eq!((latest.len(), latest[0].serial), (DECISIONS_MAX, 69));
        let late = Instant(100).plus(REPEATED_FOR);
        decisions.add(late, TaskDecisionKind::Path, "dead".to_owned());
        let latest = decisions.latest(late.plus(Duration::from_secs(1)));
        assert_eq!(latest.iter().map(|it| it.serial).collect::<Vec<_>>(), [101]);
    }
}
