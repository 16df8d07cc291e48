//! Pieces that peers could not write or name, and their tries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use penstock_proto::id::WriterId;
use penstock_proto::journal::EntryFailure;
use penstock_proto::slicing::PieceRef;
use penstock_proto::units::Instant;

/// Pause before the first try by a peer that has failed at the piece before; doubled each time.
/// With the tries that a peer makes by itself that is half a minute.
const PAUSE: Duration = Duration::from_secs(4);

/// Tries of a piece so far.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) times: u32,
    pub(super) by: BTreeSet<WriterId>,
    /// Failures of a pack that is not named yet: they are not reported if it is tried again.
    pub(super) withheld: Vec<EntryFailure>,
}

/// Pieces of open pages that peers could not write or name.
#[derive(Debug, Default)]
pub(super) struct RetryList {
    pub(super) tried: BTreeMap<PieceRef, Tried>,
    /// Pieces that no peer has in hand, and the time from which any peer may have them.
    pub(super) waiting: BTreeMap<PieceRef, Instant>,
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

    /// Keeps a missing piece if it was tried before, for any reason why it is missing again: given
    /// back by a peer that had not begun it, or left behind.
    pub(super) fn keeps(&mut self, piece: PieceRef) -> bool {
        let was_tried = self.was_tried(piece);
        if was_tried {
            self.waiting.entry(piece).or_default();
        }
        was_tried
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

    pub(super) fn note(&mut self, piece: PieceRef, writer: WriterId, now: Instant) {
        let tried = self.tried.entry(piece).or_default();
        tried.times += 1;
        tried.by.insert(writer);
        debug_assert!(tried.by.len() <= tried.times as usize, "more peers than tries");
        self.waiting.insert(piece, now.plus(PAUSE * 2u32.pow(tried.times - 1)));
    }
}
