//! Owners of a page's pieces among the peers that share it, and the state of pieces after a peer
//! has left.

use std::ops::RangeInclusive;

use penstock_proto::id::PeerNumber;
use penstock_proto::journal::{EntryDigest, EntryFailure, Incarnation, JournalRecord};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;
use penstock_proto::units::MIB;

use super::{Handed, NOBODY, PageLedger, PieceState, Stale};
use crate::slice::Piece;

/// Most bytes of neighbouring extents of a file that are given to one peer: it reads and writes
/// them in order, and asks for them together.
const RUN_BYTES: u64 = 64 * MIB;

/// State of a page's pieces after a peer has left.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    /// Pieces that are missing, as in the log.
    pub(crate) free: Vec<u32>,
    /// Pieces that are missing once the log records that; finishes among them.
    pub(crate) again: Vec<u32>,
    /// Pieces that are probably written: another peer is to check them, when the log was read.
    pub(crate) unread: Vec<u32>,
    /// Entries of large files of which the peer held extents (B1).
    pub(crate) late: Vec<u32>,
}

impl PageLedger {
    /// Returns the weight of the missing pieces.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    /// Returns the weight of a piece.
    pub(crate) fn worth_of(&self, piece: u32) -> u64 {
        self.pieces.get(piece as usize).map_or(0, Piece::worth)
    }

    /// Takes the changes in the peers' work since the last call.
    pub(crate) fn take_handed(&mut self) -> impl Iterator<Item = Handed> + '_ {
        self.handed.drain(..)
    }

    /// Takes the peers that are to forget an attempt at a file, since the last call.
    pub(crate) fn take_stale(&mut self) -> impl Iterator<Item = Stale> + '_ {
        self.stale.drain(..)
    }

    pub(crate) fn is_owned(&self, piece: u32, peer: PeerNumber) -> bool {
        self.owners.get(piece as usize) == Some(&peer)
    }

    /// Makes a peer the owner of a granted piece.
    pub(crate) fn own(&mut self, piece: u32, peer: PeerNumber) {
        if self.state(piece) == PieceState::Granted {
            debug_assert_ne!(peer, NOBODY, "piece {piece} is given to nobody");
            let before = self.owners[piece as usize];
            debug_assert_eq!(before, NOBODY, "piece {piece} is given to two peers (B3)");
            self.owners[piece as usize] = peer;
            self.note_handed(piece, true);
        }
    }

    pub(super) fn note_handed(&mut self, piece: u32, taken: bool) {
        let peer = self.owners[piece as usize];
        if peer != NOBODY {
            let bytes = self.pieces[piece as usize].worth();
            self.handed.push(Handed { peer, bytes, taken });
        }
    }

    /// Records the owners of the pieces of a large file whose attempt is over.
    pub(super) fn note_stale(&mut self, pieces: RangeInclusive<u32>, entry: u32, generation: u32) {
        for piece in pieces {
            let peer = self.owners[piece as usize];
            let known = self.stale.iter().any(|it| (it.peer, it.entry) == (peer, entry));
            if self.state(piece) == PieceState::Granted && peer != NOBODY && !known {
                self.stale.push(Stale { peer, entry, generation });
            }
        }
    }

    /// Returns whether a peer may be given this piece: another one may be about to make its file.
    pub(crate) fn may_open(&self, piece: u32, peer: PeerNumber) -> bool {
        self.large_of(piece).and_then(|file| file.maker).is_none_or(|maker| maker == peer)
    }

    /// Handles a returned piece. If the peer was to make its file, and holds no piece of it now,
    /// the file may not exist.
    pub(super) fn note_unmade(&mut self, piece: u32) {
        let Some(Piece::Extent { entry, .. }) = self.pieces.get(piece as usize) else { return };
        let Some(file) = self.large.get_mut(entry).filter(|file| file.maker.is_some()) else {
            return;
        };
        let in_hand = |piece: u32| self.states[piece as usize] == PieceState::Granted;
        if !file.extents().any(in_hand) {
            (file.started, file.maker) = (false, None);
        }
    }

    /// Returns the extents that are given to one peer with this one, if they are missing; otherwise
    /// only itself.
    pub(crate) fn run_of(&self, piece: u32) -> std::ops::Range<u32> {
        let Some(file) = self.large_of(piece).filter(|file| file.extents().contains(&piece)) else {
            return piece..piece + 1;
        };
        let run = u32::try_from(RUN_BYTES / file.extent_bytes).unwrap_or(1).max(1);
        let start = file.first + (piece - file.first) / run * run;
        start..(start + run).min(file.finish)
    }

    /// Returns the finish piece of the large file of `piece`.
    pub(crate) fn finish_of(&self, piece: u32) -> Option<u32> {
        self.large_of(piece).map(|file| file.finish)
    }

    /// Returns the large files that were begun and have no name yet, as entries.
    pub(crate) fn begun_files(&self) -> impl Iterator<Item = u32> + '_ {
        let unnamed = |state| matches!(state, PieceState::Missing | PieceState::Granted);
        let begun = self.large.iter().filter(move |(_, file)| {
            file.started && !file.failed && unnamed(self.states[file.finish as usize])
        });
        begun.map(|(entry, _)| *entry)
    }

    /// Returns whether this peer holds pieces, or has written pieces that are not durable.
    pub(crate) fn has_of(&self, peer: PeerNumber) -> bool {
        self.owners.contains(&peer)
    }

    /// Returns whether a piece waits for a peer to check it again.
    pub(crate) fn is_recheck_of_nobody(&self, piece: u32) -> bool {
        self.rechecking.contains(&piece) && self.is_owned(piece, NOBODY)
    }

    /// Adopts a piece that a peer wrote, under this incarnation, for an earlier controller that did
    /// not commit it. Returns the work to check it, as if it were in the log. Returns `None` if the
    /// piece has another state since.
    pub(crate) fn adopt(
        &mut self,
        under: Incarnation,
        (piece, generation, epoch): (u32, u32, u64),
        digests: Vec<EntryDigest>,
        failures: Vec<EntryFailure>,
    ) -> Option<Work> {
        let free = self.state(piece) == PieceState::Missing;
        if !free || generation != self.generation_of(piece) {
            return None;
        }
        let others = self.given[piece as usize];
        match self.pieces[piece as usize] {
            Piece::Finish { .. } => return None,
            Piece::Extent { .. } if others || digests.len() != 1 || !failures.is_empty() => {
                return None;
            }
            Piece::Extent { entry, .. } => {
                if let Some(file) = self.large.get_mut(&entry) {
                    (file.started, file.maker) = (true, None);
                }
            }
            Piece::Pack { .. } => {}
        }
        let work = Work::Recheck {
            piece: PieceRef { page: self.number, piece },
            generation,
            doubt: true,
            digests: digests.clone(),
            failures: failures.clone(),
        };
        self.note_asks(&digests, &failures);
        let record = JournalRecord::Written { piece, generation, epoch, digests, failures };
        self.append_written(under, &record);
        self.set(piece, PieceState::Granted);
        self.rechecking.insert(piece);
        Some(work)
    }

    /// Handles the end of a peer. Its orders do not count, nor do the pieces that it wrote and did
    /// not name. The pieces that it named, and its extents, are to be checked again (A9).
    pub(crate) fn handle_gone(&mut self, peer: PeerNumber) -> Gone {
        let mut gone = Gone::default();
        let mut lost = Vec::new();
        for index in 0..self.pieces.len() as u32 {
            if !self.is_owned(index, peer) {
                continue;
            }
            let piece = self.pieces[index as usize];
            if let Piece::Extent { entry, .. } | Piece::Finish { entry } = piece
                && self.state(index) == PieceState::Granted
                && gone.late.last() != Some(&entry)
            {
                gone.late.push(entry);
            }
            match (piece, self.state(index)) {
                (_, PieceState::Granted) if self.rechecking.contains(&index) => {
                    self.note_handed(index, false);
                    self.owners[index as usize] = NOBODY;
                    gone.unread.push(index);
                }
                (Piece::Finish { .. }, PieceState::Granted) => {
                    self.set(index, PieceState::Missing);
                    gone.again.push(index);
                }
                (_, PieceState::Granted) => {
                    self.set(index, PieceState::Missing);
                    gone.free.push(index);
                }
                (Piece::Pack { .. }, PieceState::Published)
                | (Piece::Extent { .. }, PieceState::Written) => {
                    self.uncount(index);
                    self.set(index, PieceState::Granted);
                    self.rechecking.insert(index);
                    gone.unread.push(index);
                }
                _ => lost.push(index),
            }
        }
        gone.again.extend(self.lose(lost));
        self.begin_unmade(peer, &mut gone);
        gone
    }

    /// Renames files that this peer was to make: it may still make the old name (B1).
    fn begin_unmade(&mut self, peer: PeerNumber, gone: &mut Gone) {
        let its = self.large.iter().filter(|(_, file)| file.maker == Some(peer));
        let unmade: Vec<u32> = its.map(|(entry, _)| *entry).collect();
        for entry in unmade {
            let again = self.begin_generation(entry);
            gone.free.retain(|piece| !again.contains(piece));
            gone.again.extend(again);
        }
    }
}
