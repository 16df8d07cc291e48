//! Adoption of work that peers did for an earlier controller that could not commit it (A7).
//!
//! A new controller begins with the committed logs. Peers that continue the transfer report data
//! that they wrote and no commit has recorded. It is put into the logs as if it had always been
//! there, and checked again like everything written before a restart. The writer itself checks it
//! without doubt, if its circumstances are the same.
//!
//! Packs have names of their writer. For an extent this is different: another peer may have been
//! given it since (B3). An extent is therefore adopted only if this controller has never handed it
//! out; the previous one had it from the writer itself. To keep reported extents from being given
//! to others in the meantime, nothing at all is handed out for a moment:
//! [`TransferMachine::wait_for_reports`].

use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::Incarnation;
use penstock_proto::task::Report;
use penstock_proto::units::Instant;

use super::TransferMachine;
use super::open::Under;
use crate::slice::Piece;

impl TransferMachine {
    /// Waits for writers that are present, and may have written data that no log knows. Until they
    /// have joined, or until `until`, no piece is handed out that they may have. That lasts a
    /// moment; data that they do not report in time is fetched again.
    pub fn wait_for_reports(
        &mut self,
        writers: impl IntoIterator<Item = WriterId>,
        until: Instant,
    ) {
        let joined =
            |writer: &WriterId| self.peers.values().any(|peer| peer.incarnation.writer == *writer);
        self.awaited = writers.into_iter().filter(|writer| !joined(writer)).collect();
        self.awaited_until = until;
    }

    /// Returns whether a writer may still report its work.
    pub(super) fn waits_for_reports(&mut self, now: Instant) -> bool {
        if !self.awaited.is_empty() && now >= self.awaited_until {
            self.awaited.clear();
            self.end_waiting();
        }
        !self.awaited.is_empty()
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
                let early = self.early.0.entry(piece.page).or_default();
                early.push((incarnation, report));
            }
        }
        self.bytes_resumed += bytes;
        bytes
    }

    /// Handles a page that was opened: earlier reports on it count from now on.
    pub(super) fn adopt_early(&mut self, page: u32) {
        for (incarnation, report) in self.early.0.remove(&page).unwrap_or_default() {
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
        if let (Some(writer), Piece::Extent { entry, .. }) = (self.last_own, kind) {
            self.late.insert((writer, piece.page, entry));
        }
        self.note_begun(piece);
        kind.bytes()
    }
}
