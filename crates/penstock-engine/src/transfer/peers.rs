//! Target peers that share a transfer: their joining, with earlier work; their grants; their
//! leaving.
//!
//! A peer has a number for as long as it takes part. While its grant holds, the granted pieces
//! belong to that peer alone (B3). When the grant has lapsed, or the peer has left, its unfinished
//! work is missing at once, as it is in the log. Data that it wrote and had not made durable is
//! different (A9): its page cache is out of reach. Packs under its own temporary names are missing.
//! Packs that have their names, and extents, are checked by another peer, whose sync makes them
//! durable. Their digests are in the log, which the edge reads again:
//! [`TransferMachine::wants_log`]. If only the writer is there, its own cache would prove nothing,
//! and they are missing.

use std::collections::BTreeSet;

use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::{Incarnation, JournalRecord};
use penstock_proto::task::{Report, Work};
use penstock_proto::units::Instant;

use super::TransferMachine;
use super::open::{InHand, OpenPage, Under};
use super::peer::{Joining, Look, Peer};
use crate::slice::Piece;

impl TransferMachine {
    /// Handles a peer that takes part. Its number is a new one; the order relative to pages does
    /// not matter.
    pub fn handle_joined(&mut self, peer: PeerNumber, joining: Joining, now: Instant) {
        let before = self.peers.insert(peer, Peer::new(joining, now));
        debug_assert!(before.is_none(), "the number {peer} is in use");
        self.fit_window();
        if self.earlier.handle_joined(joining.incarnation.writer) {
            self.end_waiting();
        }
    }

    /// Adapts the bounds of the work in progress to the number of peers.
    fn fit_window(&mut self) {
        self.limits = self.window.of_peers(self.peers.len());
        self.take_up_waiting();
    }

    /// Waits for writers to which an earlier controller may have given work. They may write until
    /// `until` at the latest ([`crate::lease::lapse_after`] from now), or until they join, which
    /// ends their earlier work. Until then no extent of a file that several may write to is handed
    /// out, and none is checked by another peer (B3). Packs are, for each writer has its own.
    pub fn wait_for_writers(
        &mut self,
        writers: impl IntoIterator<Item = WriterId>,
        until: Instant,
    ) {
        let writers = writers.into_iter().filter(|writer| !self.has_joined(*writer)).collect();
        self.earlier.wait_for_writing(writers, until);
    }

    /// Waits for writers that are present, and may have written data that no log knows. Until they
    /// have joined, or until `until`, no piece is handed out that they may have. That lasts a
    /// moment; data that they do not report in time is fetched again.
    pub fn wait_for_reports(
        &mut self,
        writers: impl IntoIterator<Item = WriterId>,
        until: Instant,
    ) {
        let writers = writers.into_iter().filter(|writer| !self.has_joined(*writer)).collect();
        self.earlier.wait_for_reports(writers, until);
    }

    fn has_joined(&self, writer: WriterId) -> bool {
        self.peers.values().any(|peer| peer.incarnation.writer == writer)
    }

    /// Returns the latest time until which the machine waits for writers of an earlier controller,
    /// and whether any work waits for that; `None` if it waits for none.
    pub fn waits_until(&self) -> Option<(Instant, bool)> {
        let until = self.earlier.writing_until()?;
        let held = |page: &OpenPage| !page.unmade.is_empty() || !page.rechecks.is_empty();
        Some((until, self.open.iter().any(|(_, page)| held(page))))
    }

    /// Ends the waits for writers of an earlier controller whose time is over. Those that were
    /// silent may write late.
    pub(super) fn end_waits(&mut self, now: Instant) {
        let silent = self.earlier.poll_silent(now);
        if !silent.is_empty() {
            self.late_of(&silent);
        }
        if self.earlier.poll_reports_over(now) || !silent.is_empty() {
            self.end_waiting();
        }
    }

    /// Records that the previous controller's own peer did not end in order. It had no grant, and
    /// the machine does not wait for it: its orders ended with the controller's tenure. But a call
    /// in which it was stopped continues when it wakes, in a file that others have finished by
    /// then. Any file that was begun before now and has no name yet may be written late, also in
    /// pages that are opened later (B1).
    pub fn note_last_own(&mut self, writer: WriterId) {
        self.earlier.handle_stopped(writer);
        self.late_of(&BTreeSet::from([writer]));
    }

    /// Records all files that were begun and have no name yet as late: the work of these writers is
    /// unknown.
    fn late_of(&mut self, silent: &BTreeSet<WriterId>) {
        let begun = self.open.iter().flat_map(|(number, page)| {
            page.ledger.begun_files().map(move |entry| (*number, entry))
        });
        let late =
            begun.flat_map(|(page, entry)| silent.iter().map(move |writer| (*writer, page, entry)));
        self.late.extend(late.collect::<Vec<_>>());
    }

    /// Allows work to be handed out that waited for a writer.
    fn end_waiting(&mut self) {
        for number in self.open.numbers() {
            self.open.change(number, |page| page.missing.append(&mut page.unmade));
        }
    }

    /// Returns whether a peer takes part: reports under another number do not count.
    pub fn is_joined(&self, peer: PeerNumber) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Returns the bytes of the pieces that a peer holds.
    pub fn bytes_in_hand(&self, peer: PeerNumber) -> u64 {
        self.open.in_hand(peer).bytes
    }

    /// Handles a sign of life of a peer: its grant is renewed.
    pub fn handle_alive(&mut self, peer: PeerNumber, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.renew(now);
        }
    }

    /// Drains a peer: it gets no new work, returns the pieces that it has not begun, and makes its
    /// writes durable. See [`TransferMachine::is_drained`].
    pub fn handle_draining(&mut self, peer: PeerNumber) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.draining = true;
        }
    }

    /// Returns whether no work waits for a peer, so that it can leave without a loss. Examines all
    /// open pages.
    pub fn is_drained(&self, peer: PeerNumber) -> bool {
        self.peers.get(&peer).is_none_or(|it| {
            it.urgent.is_empty()
                && it.tail_out.is_empty()
                && it.tail_unsynced.is_empty()
                && !self.open.iter().any(|(_, page)| page.ledger.has_of(peer))
        })
    }

    /// Handles a peer that has stopped in order and handed in its last reports.
    pub fn handle_left(&mut self, peer: PeerNumber) {
        self.end_peer(peer, false);
    }

    /// Handles a lost peer: it was not heard until its grant lapsed, or its host is known to be
    /// dead. Never called merely because a connection broke: the peer may still write.
    pub fn handle_lost(&mut self, peer: PeerNumber) {
        self.end_peer(peer, true);
    }

    /// Returns the peers whose grants have lapsed; they are lost.
    pub fn poll_lapsed(&mut self, now: Instant) -> Vec<PeerNumber> {
        let lapsed = |(_, peer): &(&PeerNumber, &Peer)| {
            peer.grant.is_some_and(|grant| grant.lapses() <= now)
        };
        let lapsed: Vec<_> = self.peers.iter().filter(lapsed).map(|(peer, _)| *peer).collect();
        for peer in &lapsed {
            self.handle_lost(*peer);
        }
        lapsed
    }

    /// Returns when [`TransferMachine::poll_lapsed`] may return a peer, if no peer is heard until
    /// then.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.peers.values().filter_map(|peer| Some(peer.grant?.lapses())).min()
    }

    /// Returns the peers whose stores failed to sync too often: they get no more work, and are to
    /// be stopped.
    pub fn unfit(&self) -> Vec<PeerNumber> {
        let unfit = self.peers.iter().filter(|(_, peer)| peer.is_unfit());
        unfit.map(|(number, _)| *number).collect()
    }

    /// Returns whether no peer is fit to write to the store, and one has shown that.
    pub fn is_broken(&self) -> bool {
        !self.peers.is_empty() && self.peers.values().all(Peer::is_unfit)
    }

    /// Returns the large files of which lost peers held extents, as writer, page and entry. A late
    /// write of such a peer repeats the same bytes, but changes mode and times (B1).
    pub fn late_files(&self) -> impl Iterator<Item = (WriterId, u32, u32)> + '_ {
        self.late.iter().copied()
    }

    fn end_peer(&mut self, peer: PeerNumber, lost: bool) {
        let Some(gone) = self.peers.remove(&peer) else { return };
        self.fit_window();
        let under = Under::Writer { incarnation: gone.incarnation, lost };
        for number in self.open.numbers() {
            let Some(left) = self.open.change(number, |page| {
                let left = page.ledger.handle_gone(peer);
                page.missing.extend(&left.free);
                page.missing.append(&mut page.unmade);
                page.unread.extend(left.unread.iter().map(|piece| (*piece, under)));
                left
            }) else {
                continue;
            };
            if !left.unread.is_empty() {
                self.logs.add(number);
            }
            if lost {
                let writer = gone.incarnation.writer;
                self.late.extend(left.late.iter().map(|entry| (writer, number, *entry)));
            }
            self.put_back(number, left.again);
        }
        let owns = || self.open.iter().any(|(_, page)| page.ledger.has_of(peer));
        debug_assert!(!owns(), "{peer} has left, and owns a piece (B3)");
        debug_assert_eq!(self.open.in_hand(peer), InHand::default(), "{peer} has left");
        self.forget_attempts(None);
        self.repeat_tail(gone.tail_out, gone.tail_unsynced);
        self.tail.handle_gone(peer);
        self.advance();
    }

    /// Returns a page whose log the edge is to read up to its committed length, which is this many
    /// bytes, for [`TransferMachine::handle_log`]. There are some only after a peer has left.
    pub fn wants_log(&mut self) -> Option<(u32, u64)> {
        self.log_ready.pop_front()
    }

    /// Handles the committed log of a page: data that a departed peer wrote is checked again.
    pub fn handle_log(&mut self, page: u32, log: impl IntoIterator<Item = JournalRecord>) {
        let lost = self.open.change(page, |page| {
            let mut unread = std::mem::take(&mut page.unread);
            unread.retain(|piece, _| page.ledger.is_recheck_of_nobody(*piece));
            let pieces = unread.keys().copied().collect();
            let (works, unknown) = page.ledger.read_again(&pieces, log);
            for (piece, incarnation, work) in works {
                let Some(under) = unread.get(&piece).copied() else { continue };
                // A piece that the lost peer was checking belongs to another writer, whose cache
                // proves no more now.
                let its = Under::Writer { incarnation, lost: false } == under
                    || Under::Writer { incarnation, lost: true } == under;
                let others = Under::Writer { incarnation, lost: true };
                page.add_recheck(if its { under } else { others }, work);
            }
            page.ledger.lose(unknown)
        });
        self.put_back(page, lost.unwrap_or_default());
    }

    /// Returns the way in which a peer checks data that was written so.
    pub(super) fn look_of(&self, peer: PeerNumber, under: Under) -> Look {
        let Some(asks) = self.peers.get(&peer) else { return Look::NotHere };
        let may = asks.takes_work() && !self.earlier.may_write();
        let takes = if may { Look::Doubting } else { Look::NotHere };
        let Under::Writer { incarnation, lost } = under else { return takes };
        let mut others = self.peers.iter().filter(|(number, _)| **number != peer);
        if asks.incarnation == incarnation && !lost {
            return Look::Believing;
        }
        if asks.incarnation.shares_cache(&incarnation) {
            let able = |it: &Peer| it.takes_work() && !it.incarnation.shares_cache(&incarnation);
            let wait = self.earlier.may_write() || others.any(|(_, it)| able(it));
            return if wait { Look::NotHere } else { Look::Hopeless };
        }
        let its = others.any(|(_, it)| it.incarnation == incarnation);
        if its && !lost { Look::NotHere } else { takes }
    }

    /// Makes all peers but `knows` forget ended attempts at files of which they hold extents, once
    /// the log records the end.
    pub(super) fn forget_attempts(&mut self, knows: Option<PeerNumber>) -> bool {
        let mut any = false;
        for (page, stale) in self.open.take_stale() {
            if Some(stale.peer) == knows || !self.is_joined(stale.peer) {
                continue;
            }
            let (entry, generation) = (stale.entry, stale.generation);
            self.discards.add((Some(stale.peer), Work::Discard { page, entry, generation }));
            any = true;
        }
        any
    }

    /// Handles the work that a peer, which has just joined, did for an earlier controller under the
    /// circumstances in which it joined. To be called before it asks for work, and once: repeated
    /// reports change nothing. Returns the bytes that need not be fetched again, without pages that
    /// are not open yet.
    pub fn handle_adopted(
        &mut self,
        peer: PeerNumber,
        reports: impl IntoIterator<Item = Report>,
    ) -> u64 {
        let Some(incarnation) = self.peers.get(&peer).map(|by| by.incarnation) else { return 0 };
        let mut bytes = 0;
        for report in reports {
            let Report::Written { piece, .. } = &report else { continue };
            if self.open.get(piece.page).is_some() {
                bytes += self.adopt(incarnation, report);
            } else if !self.closed.contains(piece.page) {
                self.earlier.keep_early(piece.page, incarnation, report);
            }
        }
        self.bytes_resumed += bytes;
        bytes
    }

    /// Handles a page that was opened: earlier reports on it count from now on.
    pub(super) fn adopt_early(&mut self, page: u32) {
        for (incarnation, report) in self.earlier.take_early(page) {
            self.bytes_resumed += self.adopt(incarnation, report);
        }
    }

    fn adopt(&mut self, incarnation: Incarnation, report: Report) -> u64 {
        let Report::Written { piece, generation, epoch, digests, failures, .. } = report else {
            return 0;
        };
        let adopted = self.open.change(piece.page, |page| {
            let kind = page.ledger.pieces().get(piece.piece as usize).copied()?;
            if page.barred.contains(&piece.piece) {
                return None;
            }
            let of = (piece.piece, generation, epoch);
            let work = page.ledger.adopt(incarnation, of, digests, failures)?;
            page.add_recheck(Under::Writer { incarnation, lost: false }, work);
            page.resumed.insert(piece.piece);
            Some(kind)
        });
        let Some(kind) = adopted.flatten() else { return 0 };
        if let (Some(writer), Piece::Extent { entry, .. }) = (self.earlier.stopped(), kind) {
            self.late.insert((writer, piece.page, entry));
        }
        self.note_begun(piece);
        kind.bytes()
    }
}
