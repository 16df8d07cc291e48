//! Large files that are begun and not finished: their number is bounded (E3). Files that have to
//! wait are put aside, so that a finished file costs only the extents of the file that takes its
//! place, however many wait.

use std::collections::BTreeMap;

use penstock_proto::slicing::PieceRef;
use rand::RngExt as _;

use super::open::OpenPage;
use super::{TransferMachine, WindowLimits};
use crate::page::PieceState;

/// A large file by page and finish piece.
type File = (u32, u32);

/// The large files that are begun, and those that wait until they may be.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    sizes: BTreeMap<File, u64>,
    bytes: u64,
    /// Waiting files; some of them may have been started since.
    waiting: Vec<File>,
}

impl OpenFiles {
    /// Notes a file as begun; a repetition does not change anything.
    pub(super) fn insert(&mut self, file: File, bytes: u64) {
        let before = self.sizes.insert(file, bytes);
        self.bytes += bytes - before.unwrap_or(0);
    }

    fn remove(&mut self, file: File) {
        self.bytes -= self.sizes.remove(&file).unwrap_or(0);
    }

    /// Returns whether a file of `bytes` may be begun beside these and `more`, which are files and
    /// bytes. One file may be begun in any case.
    fn has_room(&self, more: (usize, u64), bytes: u64, limits: &WindowLimits) -> bool {
        let (files, known) = (self.sizes.len() + more.0, self.bytes + more.1);
        files == 0 || (files < limits.files && known.saturating_add(bytes) <= limits.file_bytes)
    }

    /// Returns whether files wait for others to be finished.
    pub(super) fn holds_back(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl TransferMachine {
    /// Returns whether an extent may be handed out, as far as its file is concerned, and notes that
    /// the file is begun. If it may not, the extent is put aside.
    pub(super) fn may_begin(&mut self, piece: PieceRef) -> bool {
        let Some(page) = self.open.get(piece.page) else { return false };
        let Some((bytes, started)) = page.ledger.large_file(piece.piece) else { return true };
        let Some(finish) = page.ledger.finish_of(piece.piece) else { return false };
        let file = (piece.page, finish);
        if started {
            return true;
        }
        let begun = self.begun.sizes.contains_key(&file);
        if begun || self.begun.has_room((0, 0), bytes, &self.limits) {
            self.note_begun(piece);
            return true;
        }
        let first = self.open.change(piece.page, |page| page.put_aside(finish, piece.piece));
        if first == Some(true) {
            self.begun.waiting.push(file);
        }
        false
    }

    /// Notes that the large file of a piece is begun (E3).
    pub(super) fn note_begun(&mut self, piece: PieceRef) {
        let Some(page) = self.open.get(piece.page) else { return };
        let Some((bytes, _)) = page.ledger.large_file(piece.piece) else { return };
        let Some(finish) = page.ledger.finish_of(piece.piece) else { return };
        let waits = page.aside.contains_key(&finish);
        self.begun.insert((piece.page, finish), bytes);
        if waits {
            self.open.change(piece.page, |page| page.take_up(finish));
        }
    }

    /// Handles a large file that is finished, or has failed: others may be begun.
    pub(super) fn forget_begun(&mut self, piece: PieceRef) {
        let Some(page) = self.open.get(piece.page) else { return };
        let Some(finish) = page.ledger.finish_of(piece.piece) else { return };
        self.begun.remove((piece.page, finish));
        self.take_up_waiting();
    }

    /// Starts as many waiting files as there is room for, in random order. Files that are begun
    /// before them may have them put aside again.
    pub(super) fn take_up_waiting(&mut self) {
        let mut taken = (0, 0);
        while self.begun.holds_back() {
            let at = self.rng.random_range(0..self.begun.waiting.len());
            let (number, finish) = self.begun.waiting[at];
            let file = self.open.get(number).and_then(|page| page.ledger.large_file(finish));
            let bytes = file.map_or(0, |(bytes, _)| bytes);
            if !self.begun.has_room(taken, bytes, &self.limits) {
                return;
            }
            self.begun.waiting.swap_remove(at);
            if self.open.change(number, |page| page.take_up(finish)) == Some(true) {
                taken = (taken.0 + 1, taken.1 + bytes);
            }
        }
    }
}

impl OpenPage {
    /// Puts an extent aside whose file may not be begun yet; returns whether it is the first.
    fn put_aside(&mut self, finish: u32, piece: u32) -> bool {
        self.aside_bytes += self.ledger.worth_of(piece);
        let pieces = self.aside.entry(finish).or_default();
        pieces.push(piece);
        pieces.len() == 1
    }

    /// Allows the extents of a file to be handed out; returns whether there are any.
    fn take_up(&mut self, finish: u32) -> bool {
        let pieces = self.aside.remove(&finish).unwrap_or_default();
        self.aside_bytes -= pieces.iter().map(|piece| self.ledger.worth_of(*piece)).sum::<u64>();
        let before = self.missing.len();
        let missing = |piece: &u32| self.ledger.state(*piece) == PieceState::Missing;
        self.missing.extend(pieces.into_iter().filter(missing));
        self.missing.len() > before
    }
}
