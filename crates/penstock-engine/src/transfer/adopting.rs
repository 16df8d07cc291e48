//! Taking over what peers did for an earlier controller that could not commit it (A7).
//!
//! A new controller begins with the committed logs. Peers that go on with the transfer tell what
//! they wrote that no commit has taken up; it is put into the logs as if it had been there all the
//! time, and looked at again as everything is that was written before a restart: by the writer
//! itself without a doubt, if its circumstances are the same.
//!
//! Packs stand under names of their writer. An extent is another matter: somebody else may have
//! been given it since (B3). So an extent is taken over only if this controller has handed it out
//! to nobody, ever; the one before had it from the writer itself. And so that what is told is not
//! given to others in the meantime, nothing at all is, for a moment:
//! [`TransferMachine::wait_for_reports`].

use std::collections::BTreeMap;

use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::Incarnation;
use penstock_proto::task::Report;
use penstock_proto::units::Instant;

use super::TransferMachine;
use super::open::Under;
use crate::slice::Piece;

/// What writers did in pages that are not open yet.
#[derive(Debug, Default)]
pub(super) struct Early(BTreeMap<u32, Vec<(Incarnation, Report)>>);

impl TransferMachine {
    /// These writers are there, and may have written something that no log knows: until they have
    /// joined, or until `until`, nothing is handed out that they may have. That is for a moment;
    /// what they do not tell in time is fetched again.
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

    /// Whether a writer may still tell what it did.
    pub(super) fn waits_for_reports(&mut self, now: Instant) -> bool {
        if !self.awaited.is_empty() && now >= self.awaited_until {
            self.awaited.clear();
            self.end_waiting();
        }
        !self.awaited.is_empty()
    }

    /// A peer that has just joined tells what it wrote for an earlier controller and under the
    /// circumstances in which it joined. To be told before it asks for work, and once: what is told
    /// again changes nothing. Gives how many bytes need not be fetched again, pages left out that
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

    /// A new page was opened: what was told of it before counts from now on.
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
