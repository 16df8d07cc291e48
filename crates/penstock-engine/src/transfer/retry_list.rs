//! Retries of pieces that a target peer could not write or name, by another peer, if the failure
//! may pass (A11).
//!
//! One peer's client of a network file system may have lost a server, or its host may lack a
//! resource, while the others work. A piece that fails so at one peer, which has tried its writes
//! several times itself, goes to a peer that has not failed at it yet. Where all have, extents and
//! finishes of large files are tried again after a pause by any peer: they cost little, and the
//! file much. A pack has failed then for those of its entries that failed the last time. So has
//! everything after [`TRIES_MAX`].
//!
//! A pack is taken from its peer only when that has named the files that it could write. The peer
//! names its files when its sync is done, and two peers would do that at a time (B3).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::EntryFailure;
use penstock_proto::slicing::PieceRef;
use penstock_proto::units::Instant;

use super::peer::Peer;

/// Tries of a piece, by any peers, before a failure that may pass is final.
const TRIES_MAX: u32 = 4;
/// Number for the links of a page, which are no piece.
pub(super) const LINKS: u32 = u32::MAX;

/// Pause before the first try by a peer that has failed at the piece before; doubled each time.
/// With the tries that a peer makes by itself that is half a minute.
const PAUSE: Duration = Duration::from_secs(4);

/// Tries of a piece so far.
#[derive(Debug, Default)]
struct Tried {
    times: u32,
    by: BTreeSet<WriterId>,
    /// Failures of a pack that is not named yet: they are not reported if it is tried again.
    withheld: Vec<EntryFailure>,
}

/// Pieces of open pages that peers could not write or name.
#[derive(Debug, Default)]
pub(super) struct RetryList {
    tried: BTreeMap<PieceRef, Tried>,
    /// Pieces that no peer holds, and the time from which any peer may have them.
    waiting: BTreeMap<PieceRef, Instant>,
}

impl RetryList {
    /// Returns whether a piece is handed out in the order of these, not as other missing pieces.
    pub(super) fn waits(&self, piece: PieceRef) -> bool {
        self.waiting.contains_key(&piece)
    }

    /// Returns whether a peer could not write or name it before.
    pub(super) fn was_tried(&self, piece: PieceRef) -> bool {
        self.tried.contains_key(&piece)
    }

    /// Keeps a missing piece if it was tried before, for any reason why it is missing again: a peer
    /// returned it unbegun, or left it behind.
    pub(super) fn keeps(&mut self, piece: PieceRef) -> bool {
        let was_tried = self.was_tried(piece);
        if was_tried {
            self.waiting.entry(piece).or_default();
        }
        was_tried
    }

    /// Returns the first waiting piece from `from` on.
    pub(super) fn next_waiting(&self, from: PieceRef) -> Option<PieceRef> {
        self.waiting.range(from..).next().map(|(piece, _)| *piece)
    }

    /// Handles a piece that is handed out, or can no longer be.
    pub(super) fn end_waiting(&mut self, piece: PieceRef) {
        self.waiting.remove(&piece);
    }

    /// Returns whether a piece that failed so may be tried once more.
    pub(super) fn may_retry(&self, piece: PieceRef, failures: &[EntryFailure]) -> bool {
        let times = self.tried.get(&piece).map_or(0, |tried| tried.times);
        failures.iter().any(EntryFailure::may_pass) && times + 1 < TRIES_MAX
    }

    /// Returns whether a peer is there that has not failed at the piece, beside a peer that has
    /// failed just now.
    pub(super) fn has_another(
        &self,
        peers: &BTreeMap<PeerNumber, Peer>,
        piece: PieceRef,
        failed: Option<PeerNumber>,
    ) -> bool {
        let tried = self.tried.get(&piece);
        peers.iter().any(|(number, peer)| {
            let writer = &peer.incarnation.writer;
            let has_met = tried.is_some_and(|tried| tried.by.contains(writer));
            peer.takes_work() && Some(*number) != failed && !has_met
        })
    }

    /// Returns whether a writer may retry a piece now: another that has not failed at it comes
    /// first, if there is one.
    pub(super) fn is_for(
        &self,
        writer: WriterId,
        piece: PieceRef,
        now: Instant,
        has_another: impl FnOnce() -> bool,
    ) -> bool {
        let Some(tried) = self.tried.get(&piece) else { return true };
        let at = self.waiting.get(&piece).copied().unwrap_or_default();
        !tried.by.contains(&writer) || (now >= at && !has_another())
    }

    /// Withholds the failures of a pack until it has its names; `None` forgets those of an earlier
    /// try.
    pub(super) fn withhold(&mut self, piece: PieceRef, failures: Option<&[EntryFailure]>) {
        match failures {
            Some(failures) => {
                self.tried.entry(piece).or_default().withheld = failures.to_vec();
            }
            None => drop(self.take_withheld(piece)),
        }
    }

    /// Takes the failures that were withheld.
    pub(super) fn take_withheld(&mut self, piece: PieceRef) -> Vec<EntryFailure> {
        let tried = self.tried.get_mut(&piece);
        tried.map(|tried| std::mem::take(&mut tried.withheld)).unwrap_or_default()
    }

    /// Forgets a page that is complete.
    pub(super) fn forget_page(&mut self, page: u32) {
        let all = PieceRef { page, piece: 0 }..=PieceRef { page, piece: u32::MAX };
        while let Some((piece, _)) = self.tried.range(all.clone()).next() {
            let piece = *piece;
            self.tried.remove(&piece);
            self.waiting.remove(&piece);
        }
    }

    /// Handles a failed try of a piece: it waits for another peer, and for a time that grows.
    pub(super) fn note(&mut self, piece: PieceRef, writer: WriterId, now: Instant) {
        let tried = self.tried.entry(piece).or_default();
        tried.times += 1;
        tried.by.insert(writer);
        debug_assert!(tried.by.len() <= tried.times as usize, "more peers than tries");
        self.waiting.insert(piece, now.plus(PAUSE * 2u32.pow(tried.times - 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_proto::journal::FailurePhase;

    const PIECE: PieceRef = PieceRef { page: 1, piece: 2 };
    const A: WriterId = WriterId(1);
    const B: WriterId = WriterId(2);

    /// A failure that may pass: EAGAIN.
    const PASSES: EntryFailure = EntryFailure { entry: 0, errno: 11, phase: FailurePhase::Write };

    /// Promise: a piece that one peer could not write goes to another at once, comes back to the
    /// first after a pause only, and is not tried for ever (A11).
    #[test]
    fn a11_another_peer_comes_first_and_tries_have_an_end() {
        let mut list = RetryList::default();
        let mut now = Instant(0);
        for times in 1..TRIES_MAX {
            assert!(list.may_retry(PIECE, &[PASSES]), "{times}");
            list.note(PIECE, A, now);
            assert!(list.waits(PIECE) && list.is_for(B, PIECE, now, || true));
            assert!(!list.is_for(A, PIECE, now, || false), "its pause is not over");
            now = now.plus(PAUSE * 2u32.pow(times - 1));
            assert!(!list.is_for(A, PIECE, now, || true), "another one may have it");
            assert!(list.is_for(A, PIECE, now, || false));
            list.end_waiting(PIECE);
        }
        assert!(!list.may_retry(PIECE, &[PASSES]), "that was the last try");
        assert!(
            list.keeps(PIECE) && list.next_waiting(PieceRef { page: 0, piece: 0 }) == Some(PIECE)
        );
        list.forget_page(PIECE.page);
        assert!(!list.was_tried(PIECE) && !list.waits(PIECE));
    }

    /// Promise: failures of a pack that is tried again are not reported, and none is lost if it is
    /// not (A11).
    #[test]
    fn a11_failures_of_a_pack_are_withheld_until_it_is_named() {
        let mut list = RetryList::default();
        assert!(list.take_withheld(PIECE).is_empty());
        list.withhold(PIECE, Some(&[PASSES]));
        assert_eq!(list.take_withheld(PIECE), [PASSES]);
        list.withhold(PIECE, Some(&[PASSES]));
        list.withhold(PIECE, None);
        assert!(list.take_withheld(PIECE).is_empty());
    }
}
