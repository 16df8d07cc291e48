//! The pieces that a peer was granted in a step of a benchmark, and how far they are.
//!
//! The rules are those of a transfer: a large file gets its name when all its extents are durable,
//! and a name counts when the sync after it has succeeded.

use std::collections::BTreeMap;

use penstock_proto::slicing::PieceRef;
use penstock_proto::units::Instant;

use crate::slice::Piece;

/// A large file of which extents were granted.
#[derive(Debug, Default)]
struct LargeFile {
    /// Extents that were granted and are not written.
    open: u32,
    /// Epoch of the last of those that are written.
    epoch: u64,
    /// The piece that names the file, once all extents are granted.
    finish: Option<PieceRef>,
}

/// Counts of the files that a step processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Bytes of payload.
    pub bytes: u64,
    /// Files that are complete.
    pub files: u64,
    /// Whole files, and extents of larger ones: the work that threads divide.
    pub units: u64,
}

/// The granted pieces of one peer.
#[derive(Debug, Default)]
pub struct GrantedWork {
    pieces: BTreeMap<PieceRef, Piece>,
    large: BTreeMap<(u32, u32), LargeFile>,
    /// Names that were granted, or belong to written packs, and are not given.
    nameless: usize,
    is_closed: bool,
    /// The last epoch that something belongs to, and the last one that is durable.
    epochs: (u64, u64),
    counts: FileCounts,
    written: Option<Instant>,
    durable: Option<Instant>,
}

impl GrantedWork {
    /// Records that a pack or an extent was granted.
    pub fn handle_granted(&mut self, reference: PieceRef, piece: Piece) {
        match piece {
            Piece::Pack { .. } => self.nameless += 1,
            Piece::Extent { entry, .. } => {
                self.large.entry((reference.page, entry)).or_default().open += 1;
            }
            Piece::Finish { entry } => {
                self.large.entry((reference.page, entry)).or_default().finish = Some(reference);
                return;
            }
        }
        self.pieces.insert(reference, piece);
    }

    /// Handles a written piece, in a sync epoch.
    pub fn handle_written(&mut self, now: Instant, reference: PieceRef, epoch: u64) {
        let Some(piece) = self.pieces.remove(&reference) else { return };
        self.epochs.0 = self.epochs.0.max(epoch);
        self.counts.bytes += piece.bytes();
        match piece {
            Piece::Pack { files, .. } => {
                self.counts.files += u64::from(files);
                self.counts.units += u64::from(files);
            }
            Piece::Extent { entry, .. } => {
                self.counts.units += 1;
                // A file that was cut off has gone from the table.
                if let Some(file) = self.large.get_mut(&(reference.page, entry)) {
                    file.open = file.open.saturating_sub(1);
                    file.epoch = file.epoch.max(epoch);
                }
            }
            Piece::Finish { .. } => {}
        }
        self.look(now);
    }

    /// Handles a piece whose files have their names, in a sync epoch.
    pub fn handle_published(&mut self, now: Instant, epoch: u64) {
        self.nameless = self.nameless.saturating_sub(1);
        self.epochs.0 = self.epochs.0.max(epoch);
        self.look(now);
    }

    /// Handles that all epochs up to this one are durable.
    pub fn handle_synced(&mut self, now: Instant, epoch: u64) {
        self.epochs.1 = self.epochs.1.max(epoch);
        self.look(now);
    }

    /// Returns the number of granted pieces that are not written.
    pub fn open_pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the names of large files that can be given now, once each.
    pub fn take_finishes(&mut self) -> Vec<PieceRef> {
        let synced = self.epochs.1;
        let is_ready = |file: &LargeFile| {
            file.open == 0 && file.epoch <= synced && file.epoch > 0 && file.finish.is_some()
        };
        let ready: Vec<_> =
            self.large.iter().filter(|(_, file)| is_ready(file)).map(|(key, _)| *key).collect();
        let files = ready.iter().filter_map(|key| self.large.remove(key));
        let finishes: Vec<PieceRef> = files.filter_map(|file| file.finish).collect();
        self.nameless += finishes.len();
        self.counts.files += finishes.len() as u64;
        finishes
    }

    /// Records that nothing more is granted. A large file of which extents are missing never gets a
    /// name.
    pub fn close(&mut self, now: Instant) {
        if !self.is_closed {
            self.is_closed = true;
            self.large.retain(|_, file| file.finish.is_some());
            self.look(now);
        }
    }

    /// Returns whether the store is to be synced now, since nothing else is left to do.
    pub fn needs_flush(&self) -> bool {
        self.is_closed && self.pieces.is_empty() && self.epochs.0 > self.epochs.1
    }

    /// Returns when the last byte was written, and when all was durable under final names.
    pub fn times(&self) -> (Option<Instant>, Option<Instant>) {
        (self.written, self.durable)
    }

    /// Returns the counts.
    pub fn counts(&self) -> FileCounts {
        self.counts
    }

    fn look(&mut self, now: Instant) {
        if !self.is_closed || !self.pieces.is_empty() {
            return;
        }
        self.written.get_or_insert(now);
        if self.large.is_empty() && self.nameless == 0 && self.epochs.1 >= self.epochs.0 {
            self.durable.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(number: u32) -> PieceRef {
        PieceRef { page: 0, piece: number }
    }

    /// Promise: files count as durable when the sync after their names has succeeded, not before.
    #[test]
    fn small_files_are_durable_after_the_second_sync() {
        let mut work = GrantedWork::default();
        work.handle_granted(piece(0), Piece::Pack { first: 0, end: 4, files: 4, bytes: 40 });
        work.handle_written(Instant(5), piece(0), 1);
        assert!(!work.needs_flush(), "more may be granted");
        work.close(Instant(6));
        assert_eq!(work.times(), (Some(Instant(6)), None));
        assert!(work.needs_flush());
        work.handle_synced(Instant(7), 1);
        assert!(!work.needs_flush(), "the files get their names now");
        work.handle_published(Instant(8), 2);
        assert!(work.needs_flush() && work.times().1.is_none());
        work.handle_synced(Instant(9), 2);
        assert_eq!(work.times(), (Some(Instant(6)), Some(Instant(9))));
        assert_eq!(work.counts(), FileCounts { bytes: 40, files: 4, units: 4 });
    }

    /// Promise: a large file gets its name after its last extent is durable; one that was cut off
    /// by the end of the step counts with its bytes, and gets none.
    #[test]
    fn large_files_get_their_names_when_they_are_durable() {
        let mut work = GrantedWork::default();
        let extent = |entry, offset| Piece::Extent { entry, offset, length: 10 };
        work.handle_granted(piece(0), extent(0, 0));
        work.handle_granted(piece(1), extent(0, 10));
        work.handle_granted(piece(2), Piece::Finish { entry: 0 });
        work.handle_granted(piece(3), extent(1, 0));
        work.handle_written(Instant(1), piece(0), 1);
        work.handle_synced(Instant(2), 1);
        assert!(work.take_finishes().is_empty(), "an extent is missing");
        work.handle_written(Instant(3), piece(1), 2);
        work.handle_written(Instant(3), piece(3), 2);
        work.close(Instant(4));
        assert!(work.take_finishes().is_empty(), "an extent is not durable");
        work.handle_synced(Instant(5), 2);
        assert!(work.times().1.is_none(), "the file has no name");
        assert_eq!(work.take_finishes(), [piece(2)]);
        assert!(work.take_finishes().is_empty());
        work.handle_published(Instant(6), 3);
        work.handle_synced(Instant(7), 3);
        assert_eq!(work.times(), (Some(Instant(4)), Some(Instant(7))));
        assert_eq!(work.counts(), FileCounts { bytes: 30, files: 1, units: 3 });
    }

    /// Promise: a step without a file ends.
    #[test]
    fn nothing_is_durable_at_once() {
        let mut work = GrantedWork::default();
        work.close(Instant(1));
        assert_eq!(work.times(), (Some(Instant(1)), Some(Instant(1))));
        assert!(!work.needs_flush());
    }
}
