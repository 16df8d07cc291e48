//! Handling of the reports of peers. A report of a piece that a peer could not write or name does
//! not count if another is to try: see [`RetryList`](super::retry_list::RetryList).

use std::collections::BTreeMap;

use penstock_proto::id::PeerNumber;
use penstock_proto::journal::{EntryFailure, FailurePhase, Incarnation};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Report, Work};
use penstock_proto::units::Instant;

use super::open::{Under, piece_of};
use super::{Phase, TransferMachine};
use crate::page::{Outcome, Returned};
use crate::slice::Piece;

impl TransferMachine {
    /// Handles the reports of a peer, in their order. Reports under a number that does not take
    /// part do not count.
    pub fn handle_reports(
        &mut self,
        peer: PeerNumber,
        reports: impl IntoIterator<Item = Report>,
        now: Instant,
    ) {
        let Some(from) = self.peers.get_mut(&peer) else { return };
        from.renew(now);
        for report in reports {
            self.handle_report(peer, report, now);
        }
        self.advance();
    }

    fn handle_report(&mut self, peer: PeerNumber, report: Report, now: Instant) {
        let Some(incarnation) = self.peers.get(&peer).map(|peer| peer.incarnation) else { return };
        let by = (peer, incarnation);
        match report {
            Report::Written { piece, generation, epoch, digests, failures, .. } => {
                let news = match self.judge_written(peer, (piece, generation), &failures, now) {
                    Some(news) => news,
                    None => return,
                };
                let mut worth = 0;
                let outcome = self.open.change(piece.page, |page| {
                    let ledger = &mut page.ledger;
                    let outcome = ledger.handle_written(
                        by,
                        piece.piece,
                        generation,
                        epoch,
                        digests,
                        failures,
                    );
                    page.missing.append(&mut page.unmade);
                    worth = page.ledger.worth_of(piece.piece);
                    outcome
                });
                if self.peers.len() > 1
                    && let Some(from) = self.peers.get_mut(&peer)
                {
                    from.speed.add(now, worth);
                }
                self.handle_outcome(peer, piece, epoch, outcome, &news, false);
            }
            Report::Published { piece, generation, epoch, failures } => {
                let news = match self.judge_published(peer, (piece, generation), &failures, now) {
                    Some(news) => news,
                    None => return,
                };
                let outcome = self.open.change(piece.page, |page| {
                    let ledger = &mut page.ledger;
                    ledger.handle_published(by, piece.piece, generation, epoch, &failures)
                });
                self.handle_outcome(peer, piece, epoch, outcome, &news, true);
            }
            Report::Returned { piece, generation } => {
                self.handle_returned(peer, piece, generation);
            }
            Report::Lost { page: number, entry, generation } => {
                let again =
                    self.open.change(number, |page| page.ledger.handle_lost(entry, generation));
                self.put_back(number, again.unwrap_or_default());
                self.forget_attempts(Some(peer));
            }
            Report::Synced { epoch } => self.handle_synced(peer, epoch),
            Report::SyncFailed { .. } => self.handle_sync_failed(by),
            Report::LinksDone { page, failures, epoch } => {
                self.handle_tail(peer, Phase::Links, page, &failures, (epoch, now));
            }
            Report::DirectoriesDone { page, failures, epoch } => {
                self.handle_tail(peer, Phase::Directories, page, &failures, (epoch, now));
            }
        }
    }

    /// Judges a report that a piece is written. Returns the failures to report, if the report
    /// counts as it is; `None` if the piece is retried instead.
    fn judge_written(
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
        self.untaken.withhold(piece, None);
        if again && packed {
            self.untaken.withhold(piece, Some(failures));
            return Some(Vec::new());
        }
        if again && self.take_away(peer, piece, generation, now) {
            return None;
        }
        Some(failures.to_vec())
    }

    /// Judges a report that a piece has its names, in the same way.
    fn judge_published(
        &mut self,
        peer: PeerNumber,
        (piece, generation): (PieceRef, u32),
        failures: &[EntryFailure],
        now: Instant,
    ) -> Option<Vec<EntryFailure>> {
        if !self.is_its(peer, piece) {
            return Some(failures.to_vec());
        }
        let mut all = self.untaken.take_withheld(piece);
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
        if !self.untaken.may_retry(piece, failures) || page.ledger.is_rechecking(piece.piece) {
            return false;
        }
        !self.is_packed(piece) || self.untaken.has_another(&self.peers, piece, Some(peer))
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

    fn handle_returned(&mut self, peer: PeerNumber, piece: PieceRef, generation: u32) {
        let (mut resumed, index) = (0, piece.piece);
        let returned = self.open.change(piece.page, |page| {
            let returned = page.ledger.handle_returned(index, generation, peer);
            if matches!(returned, Returned::Logged(_)) && page.resumed.remove(&index) {
                resumed = page.ledger.pieces()[index as usize].bytes();
            }
            returned
        });
        match returned.unwrap_or(Returned::Ignored) {
            Returned::Ignored => {}
            Returned::Free => self.take_back(piece),
            Returned::Logged(again) => {
                self.bytes_resumed -= resumed;
                self.put_back(piece.page, again);
            }
        }
        self.forget_attempts(Some(peer));
    }

    fn handle_outcome(
        &mut self,
        peer: PeerNumber,
        piece: PieceRef,
        epoch: u64,
        outcome: Option<Outcome>,
        failures: &[EntryFailure],
        published: bool,
    ) {
        let outcome = match outcome {
            None | Some(Outcome::Ignored) => return,
            Some(outcome) => outcome,
        };
        self.failures_news.extend(failures.iter().map(|failure| (piece.page, *failure)));
        if let Outcome::Discard { entry, generation } = outcome {
            // A peer that holds extents of it forgets it as well.
            if !self.forget_attempts(None) {
                let discard = Work::Discard { page: piece.page, entry, generation };
                self.discards.add((None, discard));
            }
            self.forget_begun(piece);
            return;
        }
        let Some(page) = self.open.get(piece.page) else { return };
        let kind = page.ledger.pieces()[piece.piece as usize];
        if (published || matches!(kind, Piece::Extent { .. }))
            && let Some(peer) = self.peers.get_mut(&peer)
        {
            peer.settling.entry(epoch).or_default().push(piece);
        }
        if matches!(kind, Piece::Finish { .. }) {
            self.forget_begun(piece);
        }
    }

    fn handle_synced(&mut self, peer: PeerNumber, epoch: u64) {
        let Some(by) = self.peers.get_mut(&peer) else { return };
        by.synced = by.synced.max(epoch);
        by.sync_failures = 0;
        self.synced_news.insert(by.incarnation.writer, by.synced);
        by.tail_unsynced.retain(|(made, _)| *made > epoch);
        let later = by.settling.split_off(&(epoch + 1));
        let settled = std::mem::replace(&mut by.settling, later);
        let mut by_page: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for piece in settled.into_values().flatten() {
            by_page.entry(piece.page).or_default().push(piece.piece);
        }
        let finishes = &mut self.finishes;
        for (number, mut pieces) in by_page {
            self.open.change(number, |page| {
                pieces.retain(|piece| page.ledger.handle_durable(*piece));
                if pieces.is_empty() {
                    return;
                }
                for piece in &pieces {
                    let Some(finish) = page.ledger.finish_of(*piece) else { continue };
                    let reference = PieceRef { page: number, piece: finish };
                    if page.ledger.is_finishable(finish) {
                        finishes.add_once(reference);
                    }
                }
                page.ledger.log_durable(pieces);
            });
        }
    }

    fn handle_sync_failed(&mut self, (peer, incarnation): (PeerNumber, Incarnation)) {
        let Some(by) = self.peers.get_mut(&peer) else { return };
        by.sync_failures += 1;
        by.incarnation.failed_syncs += 1;
        by.settling.clear();
        let tail = (std::mem::take(&mut by.tail_out), std::mem::take(&mut by.tail_unsynced));
        let believed = Under::Writer { incarnation, lost: false };
        for number in self.open.numbers() {
            let again = self.open.change(number, |page| {
                let unseen: Vec<u32> = page
                    .rechecks
                    .iter()
                    .filter(|rechecks| rechecks.under == believed)
                    .flat_map(|rechecks| rechecks.work.iter().filter_map(piece_of))
                    .map(|piece| piece.piece)
                    .collect();
                page.rechecks.retain(|rechecks| rechecks.under != believed);
                page.ledger.handle_sync_failed(peer, unseen.into_iter())
            });
            self.put_back(number, again.unwrap_or_default());
        }
        self.repeat_tail(tail.0, tail.1);
    }
}
