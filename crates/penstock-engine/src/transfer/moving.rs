//! Handing out of work while pieces are fetched, and recording of pieces that are missing again.

use std::collections::BTreeSet;

use penstock_proto::id::PeerNumber;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Work, WorkReply};
use penstock_proto::units::Instant;
use rand::RngExt as _;

use super::open::{OpenPage, PIECE_BYTES_FLOOR, Under, piece_of};
use super::peer::Look;
use super::rates::Rates;
use super::{Phase, TransferMachine};
use crate::page::PieceState;
use crate::slice::Piece;

/// Finishes and discards handed to one of several peers at a time, at least and at most: the peers
/// shall share them, independent of the order in which they ask.
const URGENT_SHARE: (usize, usize) = (8, 64);

impl TransferMachine {
    /// Returns work for a peer that can take about `bytes` more, asked for now. Returns no work for
    /// a peer that does not take part.
    pub fn poll_work(&mut self, peer: PeerNumber, bytes: u64, now: Instant) -> WorkReply {
        let mut reply = WorkReply::default();
        let share = self.share_of_urgent();
        let Some(asks) = self.peers.get_mut(&peer) else { return reply };
        asks.renew(now);
        reply.work.extend(asks.urgent.drain(..));
        let takes = asks.takes_work();
        if takes {
            for work in self.urgent.drain(..share) {
                if let Work::Finish { piece, .. } = work {
                    self.open.change(piece.page, |page| page.ledger.own(piece.piece, peer));
                }
                reply.work.push(work);
            }
        }
        match self.phase {
            Phase::Moving => self.poll_moving(peer, takes, bytes, now, &mut reply),
            Phase::Links | Phase::Directories => self.poll_tail(peer, takes, now, &mut reply),
            Phase::Asking | Phase::Deleting | Phase::Done => {}
        }
        reply.give_back = self.take_give_back(peer, now);
        reply
    }

    /// Returns the number of finishes and discards that one peer is handed now.
    fn share_of_urgent(&self) -> usize {
        let all = self.urgent.len();
        match self.peers.values().filter(|peer| peer.takes_work()).count() {
            0 | 1 => all,
            peers => all.div_ceil(peers).clamp(URGENT_SHARE.0, URGENT_SHARE.1).min(all),
        }
    }

    fn poll_moving(
        &mut self,
        peer: PeerNumber,
        takes: bool,
        bytes: u64,
        now: Instant,
        reply: &mut WorkReply,
    ) {
        self.end_waits(now);
        let waits = self.earlier.may_report();
        let several = self.peers.len() > 1;
        if several {
            self.note_asking(peer, now);
        }
        let mut given = self.hand_over_rechecks(peer, bytes, reply);
        if takes && !waits {
            given += self.hand_over_untaken(peer, bytes, now, reply);
        }
        let most = match self.knows_all_pages() {
            true => Rates::new(&self.peers, &self.open, now).share_of_rest(peer, bytes),
            false => bytes,
        };
        let mut missing = true;
        while takes && !waits && missing && given < bytes {
            let Some(page) = self.open.random_page(&mut self.rng) else {
                missing = false;
                break;
            };
            let next = self.open.get(page).map_or(0, OpenPage::next_worth);
            let is_soonest = || Rates::new(&self.peers, &self.open, now).is_soonest(peer, next);
            if most < bytes && given + next > most && !is_soonest() {
                break;
            }
            let left = most.saturating_sub(given).max(1);
            given += self.grant_from(page, peer, left, &mut reply.work);
        }
        if several
            && given > 0
            && let Some(asks) = self.peers.get_mut(&peer)
        {
            asks.speed.work(now);
        }
        if several && reply.work.is_empty() && !missing {
            self.steal(peer, bytes, now);
        }
        reply.flush = reply.work.is_empty() && self.must_flush(peer, takes);
    }

    /// Returns whether all pages were opened.
    fn knows_all_pages(&self) -> bool {
        self.pages_total.is_some_and(|total| self.next_page >= total)
    }

    /// Records that a peer asks, and may have no work: it is not slow because of that.
    fn note_asking(&mut self, peer: PeerNumber, now: Instant) {
        let rests = self.open.in_hand(peer).bytes == 0;
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        peer.speed.asked = Some(now);
        if rests {
            peer.speed.rest();
        }
    }

    /// Asks the peer that needs longest for its work to return a part of it for `peer`, which is
    /// idle: at most `bytes`.
    fn steal(&mut self, peer: PeerNumber, bytes: u64, now: Instant) {
        let slowest = Rates::new(&self.peers, &self.open, now).slowest_for(peer);
        if let Some((from, wanted)) = slowest
            && let Some(from) = self.peers.get_mut(&from)
        {
            from.give_back.ask(wanted.min(bytes));
        }
    }

    /// Takes the number of bytes that a peer is to return; the request is sent now.
    fn take_give_back(&mut self, peer: PeerNumber, now: Instant) -> u64 {
        let in_hand = self.open.in_hand(peer).pieces > 0;
        let Some(asked) = self.peers.get_mut(&peer) else { return 0 };
        match asked.takes_work() {
            true => asked.give_back.take(now),
            false if in_hand => u64::MAX,
            false => 0,
        }
    }

    /// Hands out pieces that others could not write or name, worth about `bytes`; returns their
    /// worth.
    fn hand_over_untaken(
        &mut self,
        peer: PeerNumber,
        bytes: u64,
        now: Instant,
        reply: &mut WorkReply,
    ) -> u64 {
        let Some(writer) = self.peers.get(&peer).map(|it| it.incarnation.writer) else { return 0 };
        let (mut given, mut next) = (0, PieceRef { page: 0, piece: 0 });
        while given < bytes {
            let Some(piece) = self.untaken.next_waiting(next) else { break };
            next = PieceRef { piece: piece.piece + 1, ..piece };
            let has_another = || self.untaken.has_another(&self.peers, piece, None);
            if self.untaken.is_for(writer, piece, now, has_another) {
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
            // Its file has failed, or is started again.
            self.untaken.end_waiting(piece);
            return 0;
        }
        if page.barred.contains(&index) || !page.ledger.may_open(index, peer) {
            return 0;
        }
        self.untaken.end_waiting(piece);
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

    /// Hands out pieces to be checked again, worth about `bytes`; returns their worth.
    fn hand_over_rechecks(&mut self, peer: PeerNumber, bytes: u64, reply: &mut WorkReply) -> u64 {
        if self.open.rechecks == 0 {
            return 0;
        }
        let looks = self.open.waiting().map(|under| (under, self.look_of(peer, under)));
        let looks: Vec<(Under, Look)> = looks.filter(|(_, look)| *look != Look::NotHere).collect();
        let look_of = |under: Under| {
            let known = looks.iter().find(|(of, _)| *of == under);
            known.map_or(Look::NotHere, |(_, look)| *look)
        };
        let (mut given, mut from) = (0, 0);
        let may = |under: Under| look_of(under) != Look::NotHere;
        while let Some(number) = self.open.next_waiting(from, may) {
            let hopeless = self.open.change(number, |page| {
                let mut hopeless = Vec::new();
                for at in 0..page.rechecks.len() {
                    given += match look_of(page.rechecks[at].under) {
                        Look::NotHere => 0,
                        Look::Believing => page.hand_over(at, peer, false, bytes, given, reply),
                        Look::Doubting => page.hand_over(at, peer, true, bytes, given, reply),
                        Look::Hopeless => {
                            let work = page.rechecks[at].work.drain(..);
                            hopeless.extend(work.filter_map(|work| Some(piece_of(&work)?.piece)));
                            0
                        }
                    };
                }
                page.rechecks.retain(|rechecks| !rechecks.work.is_empty());
                page.ledger.lose(hopeless)
            });
            self.put_back(number, hopeless.unwrap_or_default());
            // The rest of this page, and other pages, are for the next peer that asks.
            match number.checked_add(1).filter(|_| bytes == 0 || given < bytes) {
                Some(next) => from = next,
                None => break,
            }
        }
        given
    }

    /// Takes one missing piece off a page, and its neighbours in the file where there are several
    /// peers; returns the worth handed out. 0 if the piece was put aside or is no longer missing.
    fn grant_from(
        &mut self,
        number: u32,
        peer: PeerNumber,
        bytes: u64,
        work: &mut Vec<Work>,
    ) -> u64 {
        let several = self.peers.len() > 1;
        let Some(Some(index)) = self.open.change(number, |page| page.missing.pop()) else {
            return 0;
        };
        let Some(page) = self.open.get(number) else { return 0 };
        if page.ledger.state(index) != PieceState::Missing || page.barred.contains(&index) {
            return 0;
        }
        let waits = self.earlier.may_write() && page.ledger.finish_of(index).is_some();
        if waits || !page.ledger.may_open(index, peer) {
            self.open.change(number, |page| page.unmade.push(index));
            return 0;
        }
        let piece = PieceRef { page: number, piece: index };
        if self.untaken.keeps(piece) || !self.may_begin(piece) {
            return 0;
        }
        let untaken = &self.untaken;
        let others = |piece| !untaken.was_tried(PieceRef { page: number, piece });
        let grant = |page: &mut OpenPage| {
            page.grant_run(index, several.then_some(&others), (peer, bytes), work)
        };
        self.open.change(number, grant).unwrap_or(0)
    }

    /// Returns whether only a sync helps the transfer, for this peer: everything that can be
    /// fetched is fetched, or the window is full of data that is not durable.
    fn must_flush(&self, peer: PeerNumber, takes: bool) -> bool {
        let full = self.open.len() >= self.limits.pages
            || self.open.pieces >= self.limits.pieces
            || self.begun.holds_back();
        (self.knows_all_pages() || full || !takes)
            && !self.open.is_empty()
            && self.open.rechecks == 0
            && self.open.in_hand(peer).pieces == 0
    }

    /// Records pieces that are missing again. Data that an earlier attempt wrote of them must not
    /// be called durable by the sync for which it waited (A9).
    pub(super) fn put_back(&mut self, number: u32, pieces: Vec<u32>) {
        if pieces.is_empty() {
            return;
        }
        let gone: BTreeSet<u32> = pieces.into_iter().collect();
        for settling in self.peers.values_mut().flat_map(|peer| peer.settling.values_mut()) {
            settling.retain(|piece| piece.page != number || !gone.contains(&piece.piece));
        }
        let (finishes, again) = (&mut self.finishes, &mut self.again);
        self.open.change(number, |page| {
            for rechecks in &mut page.rechecks {
                let gone = |work: &Work| piece_of(work).is_some_and(|it| gone.contains(&it.piece));
                rechecks.work.retain(|work| !gone(work));
            }
            for piece in gone {
                let reference = PieceRef { page: number, piece };
                match page.ledger.pieces()[piece as usize] {
                    Piece::Finish { .. } => finishes.add(reference),
                    _ => {
                        page.barred.insert(piece);
                        again.add(reference);
                    }
                }
            }
        });
    }

    /// Allows pieces that are missing again to be handed out.
    pub(super) fn hand_out_again(&mut self) {
        let (rng, untaken) = (&mut self.rng, &self.untaken);
        for piece in self.again.take_committed() {
            self.open.change(piece.page, |page| {
                page.barred.remove(&piece.piece);
                if untaken.waits(piece) {
                    return;
                }
                if page.ledger.state(piece.piece) == PieceState::Missing {
                    let at = rng.random_range(0..=page.missing.len());
                    page.missing.insert(at, piece.piece);
                }
            });
        }
    }

    /// Handles a piece that was returned before any of it was written: it may be handed out at
    /// once.
    pub(super) fn take_back(&mut self, piece: PieceRef) {
        let rng = &mut self.rng;
        self.open.change(piece.page, |page| {
            let at = rng.random_range(0..=page.missing.len());
            page.missing.insert(at, piece.piece);
            page.missing.append(&mut page.unmade);
        });
    }

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

    /// Records that the large file of a piece is begun (E3).
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
