//! Trying again what has failed, over another path first (A11).
//!
//! A peer of the source may have a bad disk, a mount that is half gone, or a view that is older
//! than the scan's. What it cannot read another one may: so an entry that has failed over one path
//! waits for a path it was not tried over, for as long as one carries. Only then are those asked
//! again that have failed. Which paths lead to one peer is not known here: with more cards than
//! attempts, all of these may go to the same one.

use penstock_proto::journal::{EntryFailure, FailurePhase};
use penstock_proto::units::Instant;

use super::{FetchMachine, Item};
use crate::flow::Flow;
use crate::paths::PathId;

/// An item that is tried again.
#[derive(Debug)]
pub(super) struct Later {
    pub(super) at: Instant,
    pub(super) item: Item,
    /// Over which paths it has failed.
    pub(super) tried: Vec<PathId>,
}

/// Whether a failure may pass if the entry is tried again, `elsewhere` perhaps: one peer of the
/// source may not see yet what another does. Of what the target did not take its error tells.
pub(super) fn may_pass(failure: &EntryFailure, elsewhere: bool) -> bool {
    match failure.phase {
        FailurePhase::Read | FailurePhase::Digest => true,
        FailurePhase::Vanished => elsewhere,
        FailurePhase::Write => failure.may_pass(),
        _ => false,
    }
}

/// What is asked for after an entry of `item` has failed: the same extent, or that file alone.
pub(super) fn retry_of(item: &Item, entry: u32) -> Item {
    if item.length > 0 {
        return Item { attempt: item.attempt + 1, fresh: false, ..*item };
    }
    let share = item.bytes / u64::from(item.end_entry - item.first_entry).max(1);
    Item {
        first_entry: entry,
        end_entry: entry + 1,
        bytes: share,
        attempt: item.attempt + 1,
        ..*item
    }
}

impl FetchMachine {
    /// Whether a path that carries is not among `tried`.
    pub(super) fn others_than(&self, tried: &[PathId]) -> bool {
        let carries = |flow: &Flow| flow.lanes > 0 && !flow.on_trial;
        self.flows.iter().any(|(path, flow)| carries(flow) && !tried.contains(path))
    }

    /// Something that has failed over other paths and may be tried over this one: another peer of
    /// the source may read what one cannot (A11).
    pub(super) fn due_over(&self, now: Instant, path: PathId) -> Option<usize> {
        let is_due = |later: &Later| {
            later.at <= now
                && !later.tried.is_empty()
                && !later.tried.contains(&path)
                && !self.is_still_written(&later.item)
        };
        self.later.iter().position(is_due)
    }

    /// Queues what may be tried over any path now; what has failed over some waits for the others.
    pub(super) fn wake_later(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.later.len() {
            let Later { at: due, item, tried } = &self.later[at];
            let anywhere = tried.is_empty() || !self.others_than(tried);
            if *due <= now && anywhere && !self.is_still_written(item) {
                let Later { item, .. } = self.later.swap_remove(at);
                self.later_bytes -= item.bytes;
                self.queued_bytes += item.bytes;
                self.queue.push_back(item);
            } else {
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::id::LaneId;
    use penstock_proto::slicing::PieceRef;

    use super::*;
    use crate::fetch::ATTEMPTS_MAX;

    const LANE: LaneId = LaneId(1);

    /// A pack of ten files.
    fn pack() -> Item {
        Item {
            piece: PieceRef { page: 0, piece: 0 },
            generation: 0,
            fresh: true,
            first_entry: 0,
            end_entry: 10,
            offset: 0,
            length: 0,
            bytes: 1000,
            attempt: 1,
        }
    }

    fn failure(phase: FailurePhase) -> EntryFailure {
        EntryFailure { entry: 4, phase, errno: 5 }
    }

    /// A machine with a lane over each of two paths, and a pack that it has asked for over the
    /// first; the number of that request.
    fn two_paths() -> (FetchMachine, u32) {
        let mut machine = FetchMachine::new();
        for (lane, path) in [(LANE, PathId(1)), (LaneId(2), PathId(2))] {
            machine.handle_lane_up_on(Instant(0), lane, path);
        }
        machine.handle_granted(pack());
        let request = machine.poll_request(Instant(0), LANE).unwrap().request;
        (machine, request)
    }

    /// A11: of a pack of ten files with one that cannot be read, nine are not sent again, and the
    /// piece does end.
    #[test]
    fn a11_only_the_failed_entry_is_tried_again() {
        let mut machine = FetchMachine::new();
        let mut now = Instant(0);
        machine.handle_lane_up(now, LANE);
        machine.handle_granted(pack());
        let mut request = machine.poll_request(now, LANE).unwrap();
        for attempt in 1..ATTEMPTS_MAX {
            let failed = vec![failure(FailurePhase::Read)];
            assert_eq!(machine.handle_answered(now, request.request, vec![], failed, 9), None);
            now = machine.poll_timeout().unwrap();
            request = machine.poll_request(now, LANE).unwrap();
            let Item { first_entry, end_entry, attempt: number, .. } = request.item;
            assert_eq!((first_entry, end_entry, number), (4, 5, attempt + 1));
        }
        let failed = vec![failure(FailurePhase::Read)];
        let piece = machine.handle_answered(now, request.request, vec![], failed, 0).unwrap();
        assert_eq!(piece.failures, [failure(FailurePhase::Read)]);
        assert!(machine.is_idle());
    }

    /// A11: what the target did not take is tried again for as often if it may pass, and not if it
    /// may not.
    #[test]
    fn a11_what_the_target_did_not_take_is_tried_again_if_that_may_pass() {
        const EMFILE: u16 = 24;
        const ENAMETOOLONG: u16 = 36;
        for (errno, attempts) in [(EMFILE, ATTEMPTS_MAX), (ENAMETOOLONG, 1)] {
            let mut machine = FetchMachine::new();
            machine.handle_lane_up(Instant(0), LANE);
            machine.handle_granted(pack());
            let failed = EntryFailure { entry: 4, phase: FailurePhase::Write, errno };
            for attempt in 1..=attempts {
                let now = machine.poll_timeout().unwrap_or_default();
                let asked = machine.poll_request(now, LANE).unwrap().request;
                let over = machine.handle_answered(now, asked, vec![], vec![failed], 9);
                assert_eq!(over.is_some(), attempt == attempts);
            }
            assert!(machine.is_idle());
        }
    }

    /// A11: what one peer of the source cannot read, or does not see, another is asked for; what is
    /// gone for all of them has failed.
    #[test]
    fn a11_what_failed_over_one_path_is_tried_over_another() {
        for (phase, attempts) in [(FailurePhase::Read, ATTEMPTS_MAX), (FailurePhase::Vanished, 2)] {
            let (mut machine, mut request) = two_paths();
            for attempt in 1..attempts {
                let failed = vec![failure(phase)];
                let now = machine.poll_timeout().unwrap_or_default();
                assert_eq!(machine.handle_answered(now, request, vec![], failed, 9), None);
                let now = machine.poll_timeout().unwrap();
                let again = machine.poll_request(now, LANE);
                assert!(attempt > 1 || again.is_none(), "the same path again: {again:?}");
                let again = again.or_else(|| machine.poll_request(now, LaneId(2)));
                request = again.unwrap().request;
            }
            let failed = vec![failure(phase)];
            let piece = machine.handle_answered(Instant(0), request, vec![], failed, 0).unwrap();
            assert_eq!(piece.failures, [failure(phase)]);
            assert!(machine.is_idle());
        }
    }

    /// A11: where the other path is gone, the one that is left is asked again.
    #[test]
    fn a11_the_only_path_is_tried_again() {
        let (mut machine, request) = two_paths();
        let failed = vec![failure(FailurePhase::Read)];
        assert_eq!(machine.handle_answered(Instant(0), request, vec![], failed, 9), None);
        let now = machine.poll_timeout().unwrap();
        assert_eq!(machine.poll_request(now, LANE), None);
        machine.handle_lane_down(LaneId(2));
        assert!(machine.poll_request(now, LANE).is_some());
    }
}
