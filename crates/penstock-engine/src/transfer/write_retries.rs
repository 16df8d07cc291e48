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

use std::collections::BTreeSet;

use penstock_proto::id::PeerNumber;
use penstock_proto::journal::{EntryFailure, FailurePhase};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::WorkReply;
use penstock_proto::units::Instant;

use super::TransferMachine;
use super::moving::PIECE_BYTES_FLOOR;
use crate::page::PieceState;
use crate::slice::Piece;

/// Tries of a piece, by any peers, before a failure that may pass is final.
const TRIES_MAX: u32 = 4;
/// Number for the links of a page, which are no piece.
const LINKS: u32 = u32::MAX;

impl TransferMachine {
    /// Judges a report that a piece is written. Returns the failures to report, if the report
    /// counts as it is; `None` if the piece is tried again instead.
    pub(super) fn judge_written(
        &mut self,
        peer: PeerNumber,
        (piece, generation): (PieceRef, u32),
        failures: &[EntryFailure],
        now: Instant,
    ) -> Option<Vec<EntryFailure>> {
        if !self.is_its(peer, piece) {
            return Some(failures.to_vec());
        }
        // Data that could be written and not synced fails the epoch of all at every try (A4).
        let written = |it: &&EntryFailure| it.phase == FailurePhase::Write;
        let unwritten: Vec<_> = failures.iter().filter(written).copied().collect();
        let again = self.is_tried_again(peer, piece, &unwritten);
        let packed = self.is_packed(piece);
        if let Some(tried) = self.untaken.tried.get_mut(&piece) {
            tried.withheld.clear();
        }
        if again && packed {
            self.untaken.tried.entry(piece).or_default().withheld = failures.to_vec();
            return Some(Vec::new());
        }
        if again && self.take_away(peer, piece, generation, now) {
            return None;
        }
        Some(failures.to_vec())
    }

    /// Judges a report that a piece has its names, in the same way.
    pub(super) fn judge_published(
        &mut self,
        peer: PeerNumber,
        (piece, generation): (PieceRef, u32),
        failures: &[EntryFailure],
        now: Instant,
    ) -> Option<Vec<EntryFailure>> {
        if !self.is_its(peer, piece) {
            return Some(failures.to_vec());
        }
        let tried = self.untaken.tried.get_mut(&piece);
        let mut all = tried.map(|it| std::mem::take(&mut it.withheld)).unwrap_or_default();
        all.extend_from_slice(failures);
        if self.is_tried_again(peer, piece, &all) && self.take_away(peer, piece, generation, now) {
            return None;
        }
        Some(all)
    }

    fn is_its(&self, peer: PeerNumber, piece: PieceRef) -> bool {
        self.open.get(piece.page).is_some_and(|page| page.ledger.is_owned(piece.piece, peer))
    }

    fn is_packed(&self, piece: PieceRef) -> bool {
        let page = self.open.get(piece.page);
        let kind = page.and_then(|page| page.ledger.pieces().get(piece.piece as usize));
        matches!(kind, Some(Piece::Pack { .. }))
    }

    /// Returns whether a piece that failed so at a peer is to be tried once more.
    fn is_tried_again(&self, peer: PeerNumber, piece: PieceRef, failures: &[EntryFailure]) -> bool {
        let Some(page) = self.open.get(piece.page) else { return false };
        let may_pass = failures.iter().any(EntryFailure::may_pass);
        if !may_pass || page.ledger.is_rechecking(piece.piece) {
            return false;
        }
        let times = self.untaken.tried.get(&piece).map_or(0, |tried| tried.times);
        times + 1 < TRIES_MAX && (!self.is_packed(piece) || self.has_another(piece, Some(peer)))
    }

    /// Returns whether a peer is there that has not failed at the piece, beside a peer that has
    /// failed just now.
    fn has_another(&self, piece: PieceRef, met: Option<PeerNumber>) -> bool {
        let tried = self.untaken.tried.get(&piece);
        self.peers.iter().any(|(number, peer)| {
            let writer = &peer.incarnation.writer;
            let has_met = tried.is_some_and(|tried| tried.by.contains(writer));
            peer.takes_work() && Some(*number) != met && !has_met
        })
    }

    /// Takes a piece back, to be tried again. Returns whether the peer owned it.
    fn take_away(
        &mut self,
        peer: PeerNumber,
        piece: PieceRef,
        generation: u32,
        now: Instant,
    ) -> bool {
        let Some(writer) = self.peers.get(&peer).map(|it| it.incarnation.writer) else {
            return false;
        };
        let mut extent = None;
        let missing = self.open.change(piece.page, |page| {
            let missing = page.ledger.handle_untaken(piece.piece, generation, peer)?;
            page.missing.append(&mut page.unmade);
            if let Piece::Extent { entry, .. } = page.ledger.pieces()[piece.piece as usize] {
                extent = Some(entry);
            }
            Some(missing)
        });
        let Some(missing) = missing.flatten() else { return false };
        self.untaken.note(piece, writer, now);
        // Part of it may be dirty in that host's cache, and be written late (B2).
        self.late.extend(extent.map(|entry| (writer, piece.page, entry)));
        self.put_back(piece.page, missing);
        true
    }

    /// Returns whether the links of a page, of which some failed so at a peer, are to be made once
    /// more.
    pub(super) fn is_tail_tried_again(
        &mut self,
        peer: PeerNumber,
        page: u32,
        failures: &[EntryFailure],
        now: Instant,
    ) -> bool {
        let links = PieceRef { page, piece: LINKS };
        let times = self.untaken.tried.get(&links).map_or(0, |tried| tried.times);
        let again = failures.iter().any(EntryFailure::may_pass) && times + 1 < TRIES_MAX;
        if let Some(peer) = self.peers.get(&peer).filter(|_| again) {
            self.untaken.note(links, peer.incarnation.writer, now);
        }
        again
    }

    /// Returns the pages whose links a peer may make again now.
    pub(super) fn untaken_links(&self, peer: PeerNumber, now: Instant) -> BTreeSet<u32> {
        let its = |page: &&u32| self.is_for(peer, PieceRef { page: **page, piece: LINKS }, now);
        self.tail_again.iter().filter(its).copied().collect()
    }

    /// Returns whether a peer may retry a piece now: another that has not failed at it comes first.
    fn is_for(&self, peer: PeerNumber, piece: PieceRef, now: Instant) -> bool {
        let (Some(tried), Some(by)) = (self.untaken.tried.get(&piece), self.peers.get(&peer))
        else {
            return true;
        };
        let at = self.untaken.waiting.get(&piece).copied().unwrap_or_default();
        let met = tried.by.contains(&by.incarnation.writer);
        !met || (now >= at && !self.has_another(piece, None))
    }

    /// Hands out pieces that others could not write or name, worth about `bytes`; returns their
    /// worth.
    pub(super) fn hand_over_untaken(
        &mut self,
        peer: PeerNumber,
        bytes: u64,
        now: Instant,
        reply: &mut WorkReply,
    ) -> u64 {
        let (mut given, mut next) = (0, PieceRef { page: 0, piece: 0 });
        while given < bytes {
            let Some((&piece, _)) = self.untaken.waiting.range(next..).next() else { break };
            next = PieceRef { piece: piece.piece + 1, ..piece };
            if self.is_for(peer, piece, now) {
                given += self.hand_over_one(peer, piece, reply);
            }
        }
        given
    }

    fn hand_over_one(&mut self, peer: PeerNumber, piece: PieceRef, reply: &mut WorkReply) -> u64 {
        let index = piece.piece;
        let Some(page) = self.open.get(piece.page) else { return 0 };
        let is_finish = page.ledger.finish_of(index) == Some(index);
        let missing = page.ledger.state(index) == PieceState::Missing;
        if !missing || (is_finish && !page.ledger.is_finishable(index)) {
            // Its file has failed, or is begun anew.
            self.untaken.waiting.remove(&piece);
            return 0;
        }
        if page.barred.contains(&index) || !page.ledger.may_open(index, peer) {
            return 0;
        }
        self.untaken.waiting.remove(&piece);
        if !is_finish && !self.may_begin(piece) {
            return 0;
        }
        let worth = self.open.change(piece.page, |page| {
            let work = match is_finish {
                true => page.ledger.begin_finish(index),
                false => page.ledger.grant(index, peer),
            };
            if is_finish {
                page.ledger.own(index, peer);
            }
            reply.work.extend(work);
            page.ledger.worth_of(index).max(PIECE_BYTES_FLOOR)
        });
        worth.unwrap_or(0)
    }
}
