//! Target peers that share a transfer: joining, grants, leaving.
//!
//! A peer has a number for as long as it takes part. While its grant holds, the pieces that it was
//! given belong to it alone (B3). When the grant has lapsed, or the peer has left, its work in hand
//! is missing at once, since the log never said otherwise. Data that it wrote and had not made
//! durable is different (A9): its page cache is out of reach. Packs under its own temporary names
//! are missing. Packs that have their names, and extents, are checked by another peer, whose sync
//! makes them durable. Their digests are in the log, which the edge reads again:
//! [`TransferMachine::wants_log`]. If only the writer is there, its own cache would prove nothing,
//! and they are missing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::JournalRecord;
use penstock_proto::task::Work;
use penstock_proto::units::Instant;

use super::TransferMachine;
use super::open::{InHand, OpenPage, Under};
use super::peer::{GiveBack, Joining, Look, Peer, Speed};
use crate::lease::GivenLease;

impl TransferMachine {
    /// Handles a peer that takes part. Its number is a new one; the order relative to pages does
    /// not matter.
    pub fn handle_joined(&mut self, peer: PeerNumber, joining: Joining, now: Instant) {
        let writer = joining.incarnation.writer;
        let (former, awaited) = (self.former.remove(&writer), self.awaited.remove(&writer));
        let joined = Peer {
            incarnation: joining.incarnation,
            grant: joining.grant.map(|duration| GivenLease::new(duration, now)),
            synced: joining.epoch,
            settling: BTreeMap::new(),
            sync_failures: 0,
            draining: false,
            urgent: VecDeque::new(),
            speed: Speed::default(),
            give_back: GiveBack::new(now),
            tail_out: BTreeSet::new(),
            tail_unsynced: Vec::new(),
        };
        let before = self.peers.insert(peer, joined);
        debug_assert!(before.is_none(), "the number {peer} is in use");
        self.fit_window();
        if former || awaited {
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
        let joined =
            |writer: &WriterId| self.peers.values().any(|peer| peer.incarnation.writer == *writer);
        self.former = writers.into_iter().filter(|writer| !joined(writer)).collect();
        self.former_until = until;
    }

    /// Returns the latest time until which the machine waits for writers of an earlier controller,
    /// and whether any work waits for that; `None` if it waits for none.
    pub fn waits_until(&self) -> Option<(Instant, bool)> {
        if self.former.is_empty() {
            return None;
        }
        let held = |page: &OpenPage| !page.unmade.is_empty() || !page.rechecks.is_empty();
        Some((self.former_until, self.open.iter().any(|(_, page)| held(page))))
    }

    /// Returns whether a writer may still write pieces that an earlier controller gave out.
    pub(super) fn waits_for_writers(&mut self, now: Instant) -> bool {
        if !self.former.is_empty() && now >= self.former_until {
            let silent = std::mem::take(&mut self.former);
            self.late_of(&silent);
            self.end_waiting();
        }
        !self.former.is_empty()
    }

    /// Records that the previous controller's own peer did not end in order. It had no grant, and
    /// the machine does not wait for it: its orders ended with the controller's tenure. But a call
    /// in which it was stopped continues when it wakes, in a file that others have finished by
    /// then. Any file that was begun before now and has no name yet may be written late, also in
    /// pages that are opened later (B1).
    pub fn note_last_own(&mut self, writer: WriterId) {
        self.last_own = Some(writer);
        self.late_of(&BTreeSet::from([writer]));
    }

    /// Records all files that were begun and have no name yet as late: the work in hand of these
    /// writers is unknown.
    fn late_of(&mut self, silent: &BTreeSet<WriterId>) {
        let begun = self.open.iter().flat_map(|(number, page)| {
            page.ledger.begun_files().map(move |entry| (*number, entry))
        });
        let late =
            begun.flat_map(|(page, entry)| silent.iter().map(move |writer| (*writer, page, entry)));
        self.late.extend(late.collect::<Vec<_>>());
    }

    pub(super) fn end_waiting(&mut self) {
        for number in self.open.numbers() {
            self.open.change(number, |page| page.missing.append(&mut page.unmade));
        }
    }

    /// Returns whether a peer takes part: reports under another number do not count.
    pub fn is_joined(&self, peer: PeerNumber) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Handles a sign of life of a peer: its grant is renewed.
    pub fn handle_alive(&mut self, peer: PeerNumber, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.renew(now);
        }
    }

    /// Drains a peer: it gets nothing new, gives back what it has not begun, and makes its writes
    /// durable. See [`TransferMachine::is_drained`].
    pub fn handle_draining(&mut self, peer: PeerNumber) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.draining = true;
        }
    }

    /// Returns whether nothing waits for a peer any more, so that it can leave without a loss.
    /// Examines all open pages.
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

    /// Returns the large files of which lost peers had some in hand, as writer, page and entry: a
    /// late write of theirs repeats the same bytes, but changes mode and times (B1).
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
                self.log_next.insert(number);
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
        self.tail_again(gone.tail_out, gone.tail_unsynced);
        self.end_director(peer);
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
                // A piece that the lost peer was checking is another writer's, whose cache proves
                // no more now.
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
        let may = asks.takes_work() && self.former.is_empty();
        let takes = if may { Look::Doubting } else { Look::NotHere };
        let Under::Writer { incarnation, lost } = under else { return takes };
        let mut others = self.peers.iter().filter(|(number, _)| **number != peer);
        if asks.incarnation == incarnation && !lost {
            return Look::Believing;
        }
        if asks.incarnation.shares_cache(&incarnation) {
            let able = |it: &Peer| it.takes_work() && !it.incarnation.shares_cache(&incarnation);
            let wait = !self.former.is_empty() || others.any(|(_, it)| able(it));
            return if wait { Look::NotHere } else { Look::Hopeless };
        }
        let its = others.any(|(_, it)| it.incarnation == incarnation);
        if its && !lost { Look::NotHere } else { takes }
    }

    /// Makes all peers but `knows` forget attempts at files that are over, if they have some of
    /// them in hand, once the log says so.
    pub(super) fn forget_attempts(&mut self, knows: Option<PeerNumber>) -> bool {
        let mut any = false;
        for (page, stale) in self.open.take_stale() {
            if Some(stale.peer) == knows || !self.is_joined(stale.peer) {
                continue;
            }
            let (entry, generation) = (stale.entry, stale.generation);
            self.discard_next.push((Some(stale.peer), Work::Discard { page, entry, generation }));
            any = true;
        }
        any
    }
}
