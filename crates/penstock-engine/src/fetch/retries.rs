//! Retries of failed entries, over another path first (A11).
//!
//! A peer of the source may have a bad disk, a mount that is half gone, or a view that is older
//! than the scan's. Another peer may read files that this one cannot. An entry that has failed over
//! one path therefore waits for a path over which it was not tried, for as long as one carries.
//! Only then are paths asked again that have failed. The machine does not know which paths lead to
//! one peer: with more cards than attempts, all attempts may go to the same peer.

use std::collections::BTreeMap;

use penstock_proto::journal::{EntryFailure, FailurePhase};
use penstock_proto::units::Instant;

use super::item::Item;
use crate::flow::Flow;
use crate::paths::PathId;

/// Time from which an item may be tried again, and a number that distinguishes items of one time.
pub(super) type RetryKey = (Instant, u64);

/// An item that is tried again.
#[derive(Debug)]
struct Retry {
    item: Item,
    /// Paths over which it has failed.
    tried: Vec<PathId>,
}

/// The items that wait to be asked for again, in the order of their times. There are many if
/// nothing of a data set can be read, and each request examines only the items that are due.
#[derive(Debug, Default)]
pub(super) struct Retries {
    waiting: BTreeMap<RetryKey, Retry>,
    next: u64,
    bytes: u64,
}

impl Retries {
    /// Returns how many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds an item that may be asked for at `at`, and has failed over the paths `tried`.
    pub(super) fn push(&mut self, at: Instant, item: Item, tried: Vec<PathId>) {
        self.bytes += item.bytes;
        self.waiting.insert((at, self.next), Retry { item, tried });
        self.next += 1;
    }

    /// Returns the sum of the bytes that the items are expected to bring.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes that the item of a key of [`Retries::due_over`] is expected to bring.
    pub(super) fn bytes_of(&self, key: RetryKey) -> u64 {
        self.waiting.get(&key).map_or(0, |retry| retry.item.bytes)
    }

    /// Returns whether no item waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns all items that wait.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.waiting.values().map(|retry| &retry.item)
    }

    /// Drops the items for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(&Item) -> bool) {
        self.waiting.retain(|_, retry| keep(&retry.item));
        self.bytes = self.waiting.values().map(|retry| retry.item.bytes).sum();
    }

    /// Drops all items.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }

    /// Returns when the first item may be asked for.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the key of an item that has failed over other paths and may be tried over `path`
    /// now: another peer of the source may read a file that one cannot (A11). Passes over items
    /// that are `blocked`.
    pub(super) fn due_over(
        &self,
        now: Instant,
        path: PathId,
        blocked: impl Fn(&Item) -> bool,
    ) -> Option<RetryKey> {
        let is_due = |retry: &Retry| {
            !retry.tried.is_empty() && !retry.tried.contains(&path) && !blocked(&retry.item)
        };
        let mut due = self.waiting.range(..=(now, u64::MAX));
        due.find(|(_, retry)| is_due(retry)).map(|(key, _)| *key)
    }

    /// Removes the item of a key of [`Retries::due_over`], and returns it with the paths over which
    /// it has failed.
    pub(super) fn take(&mut self, key: RetryKey) -> Option<(Item, Vec<PathId>)> {
        let Retry { item, tried } = self.waiting.remove(&key)?;
        self.bytes -= item.bytes;
        Some((item, tried))
    }

    /// Removes and returns the items that may be tried over any path now. Leaves those whose tried
    /// paths make them wait for another (`waits`), and those that are `blocked`.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        waits: impl Fn(&[PathId]) -> bool,
        blocked: impl Fn(&Item) -> bool,
    ) -> Vec<Item> {
        let due = self.waiting.range(..=(now, u64::MAX));
        let due = due.filter(|(_, retry)| !waits(&retry.tried) && !blocked(&retry.item));
        let due: Vec<RetryKey> = due.map(|(key, _)| *key).collect();
        due.into_iter().filter_map(|key| self.take(key)).map(|(item, _)| item).collect()
    }
}

/// Returns whether a path that carries is not among `tried`.
pub(super) fn has_other(flows: &BTreeMap<PathId, Flow>, tried: &[PathId]) -> bool {
    let carries = |flow: &Flow| flow.lanes > 0 && !flow.on_trial;
    flows.iter().any(|(path, flow)| carries(flow) && !tried.contains(path))
}

/// Returns whether a failure may pass if the entry is tried again, perhaps `elsewhere`: one peer of
/// the source may not see an entry yet that another does. For failed writes at the target the error
/// decides.
pub(super) fn may_pass(failure: &EntryFailure, elsewhere: bool) -> bool {
    match failure.phase {
        FailurePhase::Read | FailurePhase::Digest => true,
        FailurePhase::Vanished => elsewhere,
        FailurePhase::Write => failure.may_pass(),
        _ => false,
    }
}

/// Returns the item to ask for after an entry of `item` has failed: the same extent, or that file
/// alone.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use penstock_proto::id::LaneId;
    use penstock_proto::slicing::PieceRef;

    use super::*;
    use crate::fetch::{ATTEMPTS_MAX, FetchMachine};

    const LANE: LaneId = LaneId(1);

    /// Returns a pack of ten files.
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

    /// Returns a machine with a lane over each of two paths, and a pack that it has asked for over
    /// the first; the number of that request.
    fn two_paths() -> (FetchMachine, u32) {
        let mut machine = FetchMachine::new();
        for (lane, path) in [(LANE, PathId(1)), (LaneId(2), PathId(2))] {
            machine.handle_lane_up_on(Instant(0), lane, path);
        }
        machine.handle_granted(pack());
        let request = machine.poll_request(Instant(0), LANE).unwrap().request;
        (machine, request)
    }

    /// Promise (f): a path that has brought nothing, as where no file can be read, is asked for the
    /// rest, since no other path brings it.
    #[test]
    fn f_a_path_that_brings_nothing_is_asked_for_the_rest() {
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(Instant(0), LANE);
        let later = Instant(0).plus(Duration::from_millis(200));
        let flow = machine.flows.get_mut(&PathId::default()).unwrap();
        flow.handle_bytes(Instant(0), 0);
        flow.handle_bytes(later, 0);
        machine.handle_granted(pack());
        machine.handle_dry(later, true);
        assert!(machine.poll_request(later, LANE).is_some());
    }

    /// Promise (f): of a data set of which nothing can be read each request looks at the items that
    /// are due alone, however many wait.
    #[test]
    fn f_items_that_are_not_due_cost_a_request_nothing() {
        let mut retries = Retries::default();
        for number in 0..10_000 {
            let at = Instant(10 + u64::from(number % 7));
            retries.push(at, Item { first_entry: number, ..pack() }, vec![PathId(1)]);
        }
        let unasked = |_: &Item| -> bool { panic!("an item was looked at that is not due") };
        assert!(retries.take_due(Instant(9), |_| false, unasked).is_empty());
        assert_eq!(retries.due_over(Instant(9), PathId(2), unasked), None);
        assert_eq!(retries.next_at(), Some(Instant(10)));
        let due = retries.take_due(Instant(10), |_| false, |_| false);
        assert_eq!((due.len(), due[1].first_entry), (1_429, 7));
        let key = retries.due_over(Instant(11), PathId(2), |_| false).unwrap();
        assert_eq!((retries.bytes_of(key), retries.take(key).unwrap().0.first_entry), (1_000, 1));
        retries.retain(|item| item.first_entry < 2_000);
        assert_eq!(retries.bytes(), 1_000 * retries.items().count() as u64);
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

    /// A11: an entry that the target rejected is retried as often if the reason may pass, and not
    /// at all otherwise.
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

    /// A11: an entry that one peer of the source cannot read, or does not see, is asked for from
    /// another; an entry that is gone for all of them has failed.
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

    /// A11: where the other path is gone, the remaining one is asked again.
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
