//! The time in which a transfer makes no progress: its reason is printed, and it has an end.

use std::mem;
use std::time::Duration;

use penstock_api::rest::TransferEvent;
use penstock_api::transfer::TransferState;

use crate::progress_mark::ProgressMark;

/// Time of a wait after which its reason is printed.
pub(super) const SHOWN_AFTER: Duration = Duration::from_secs(3);
/// Longest time that counts between two events: a daemon that does not answer is another matter.
const GAP_MAX: Duration = Duration::from_secs(10);
/// Time without a change of its seconds after which a running transfer is no longer at work, as
/// where another site owns it and cannot be reached.
const WORK_GAP: Duration = Duration::from_secs(30);

/// The time in which a transfer has made no progress, while its daemon has answered.
#[derive(Debug)]
pub(super) struct Stall {
    most: Duration,
    mark: ProgressMark,
    idle: Duration,
    seconds: f64,
    unchanged: Duration,
    is_shown: bool,
}

/// The state of a transfer by its last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It makes progress, has waited for a short time only, or its reason was returned before.
    Usual,
    /// A wait has begun, for this reason.
    Waits(String),
    /// It has made no progress for the longest time, for this reason.
    Stalled(String),
}

impl Stall {
    /// Returns the time of a transfer that begins now. It stalls after `most` without progress.
    pub(super) fn new(most: Duration) -> Self {
        Self {
            most,
            mark: ProgressMark::default(),
            idle: Duration::ZERO,
            seconds: 0.0,
            unchanged: Duration::ZERO,
            is_shown: false,
        }
    }

    /// Handles a status that came `gap` after the event before.
    ///
    /// The time in which a running transfer is at work does not count: no figure shows a comparison
    /// of contents. The daemon itself ends an attempt without progress; the transfer waits then.
    pub(super) fn handle_status(&mut self, event: &TransferEvent, gap: Duration) -> Standing {
        let gap = gap.min(GAP_MAX);
        self.unchanged += gap;
        if mem::replace(&mut self.seconds, event.progress.seconds) != event.progress.seconds {
            self.unchanged = Duration::ZERO;
        }
        if self.mark.rises(&event.progress) {
            (self.idle, self.is_shown) = (Duration::ZERO, false);
            return Standing::Usual;
        }
        if event.state == TransferState::Running && self.unchanged < WORK_GAP {
            return Standing::Usual;
        }
        self.idle += gap;
        if self.idle >= self.most {
            return Standing::Stalled(reason_of(event));
        }
        if self.idle >= SHOWN_AFTER && !mem::replace(&mut self.is_shown, true) {
            return Standing::Waits(reason_of(event));
        }
        Standing::Usual
    }
}

fn reason_of(event: &TransferEvent) -> String {
    match event.reason.as_str() {
        "" => format!("it is {}", event.state.as_str()),
        reason => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::transfer::Progress;
    use penstock_proto::id::TransferId;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn event(state: TransferState, progress: Progress) -> TransferEvent {
        TransferEvent {
            v: 1,
            id: TransferId([1; 16]),
            state,
            reason: "held by the rule `r`".to_owned(),
            progress,
            durable_by: String::new(),
            exit: None,
            failures: Vec::new(),
        }
    }

    /// Returns the standings but the usual ones, each with its second, of events of one second.
    fn standings(
        stall: &mut Stall,
        seconds: u64,
        of: impl Fn(u64) -> TransferEvent,
    ) -> Vec<(u64, Standing)> {
        let all = (1..=seconds).map(|at| (at, stall.handle_status(&of(at), SECOND)));
        all.filter(|(_, standing)| *standing != Standing::Usual).collect()
    }

    /// Promise: the reason of a wait is printed once; after the longest time the transfer stalls,
    /// and bytes that settle begin the time anew.
    #[test]
    fn a_wait_is_shown_once_and_has_an_end() {
        let reason = || "held by the rule `r`".to_owned();
        let waits = |_| event(TransferState::Queued, Progress::default());
        let mut stall = Stall::new(20 * SECOND);
        let shown = standings(&mut stall, 19, waits);
        assert_eq!(shown, [(SHOWN_AFTER.as_secs(), Standing::Waits(reason()))]);
        let moved = Progress { bytes: 5, bytes_found: 9, ..Progress::default() };
        let moved = |_| event(TransferState::Queued, moved.clone());
        let shown = standings(&mut stall, 21, moved);
        let waits = (SHOWN_AFTER.as_secs() + 1, Standing::Waits(reason()));
        assert_eq!(shown, [waits, (21, Standing::Stalled(reason()))]);
    }

    /// Promise: a transfer that compares contents is at work although no figure changes; one whose
    /// owner cannot be reached is not, whatever state it had.
    #[test]
    fn work_without_figures_is_no_stall() {
        let at_work = |at: u64| {
            let progress = Progress { seconds: at as f64, ..Progress::default() };
            event(TransferState::Running, progress)
        };
        let mut stall = Stall::new(20 * SECOND);
        assert_eq!(standings(&mut stall, 100, at_work), []);
        let last_seen = |_| at_work(100);
        let lost = standings(&mut stall, WORK_GAP.as_secs() + 19, last_seen);
        let [(_, Standing::Waits(_)), (49, Standing::Stalled(_))] = lost[..] else {
            panic!("{lost:?}")
        };
    }

    /// Promise: a transfer that is retried at a full target stalls, although each attempt ends with
    /// other figures.
    #[test]
    fn attempts_that_find_no_more_are_no_progress() {
        let mut stall = Stall::new(20 * SECOND);
        let retried = |at: u64| {
            let bytes = if at.is_multiple_of(2) { 40 } else { 39 };
            let progress = Progress { bytes, bytes_found: 90, ..Progress::default() };
            event(TransferState::Queued, progress)
        };
        let shown = standings(&mut stall, 22, retried);
        assert!(matches!(shown[..], [(_, Standing::Waits(_)), (22, Standing::Stalled(_))]));
    }

    /// Promise: the restart of a daemon does not count as a wait of the transfer.
    #[test]
    fn a_gap_between_events_counts_for_little() {
        let waits = event(TransferState::Queued, Progress::default());
        let mut stall = Stall::new(20 * SECOND);
        let standing = stall.handle_status(&waits, 500 * SECOND);
        assert!(matches!(standing, Standing::Waits(_)), "{standing:?}");
    }
}
