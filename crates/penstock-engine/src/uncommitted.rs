//! Data that a peer has written and no ledger has committed yet, kept for another controller (A7).
//!
//! Reports count with the controller that received them. If that controller dies before its next
//! commit, they are lost. A peer that shares a transfer therefore keeps its reports of written
//! pieces until the controller confirms their commit. The next controller takes them over as if its
//! log had always contained them ([`crate::transfer::TransferMachine::handle_adopted`]).
//!
//! Only reports of written pieces are kept. Names, links and directories are made again, which
//! changes nothing that is there; durable data is synced once more.

use std::collections::BTreeMap;

use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Report;

/// Most digests that are kept, some 64 MiB of them. Pieces written beyond that are fetched again if
/// no commit comes.
pub const KEPT_DIGESTS_MAX: usize = 1 << 20;

/// The reports of one task that no commit contains.
#[derive(Debug, Default)]
pub struct UncommittedReports {
    /// Written pieces, with the number of the batch that reported them.
    written: BTreeMap<PieceRef, (u64, Report)>,
    digests: usize,
    batches: u64,
}

/// Returns the number of digests of a report; at least one for a written piece.
fn weight(report: &Report) -> usize {
    match report {
        Report::Written { digests, .. } => digests.len().max(1),
        _ => 0,
    }
}

impl UncommittedReports {
    /// Handles a batch of reports that is handed to the controller. Batches are numbered from 1.
    pub fn handle_reported(&mut self, reports: &[Report]) {
        self.batches += 1;
        for report in reports {
            match report {
                Report::Written { piece, .. } => {
                    self.forget(*piece);
                    if self.digests + weight(report) <= KEPT_DIGESTS_MAX {
                        self.digests += weight(report);
                        self.written.insert(*piece, (self.batches, report.clone()));
                    }
                }
                Report::Returned { piece, .. } => self.forget(*piece),
                Report::Lost { page, entry, .. } => self.retain(|_, report| match report {
                    Report::Written { piece, digests, .. } => {
                        piece.page != *page || digests.iter().all(|digest| digest.entry != *entry)
                    }
                    _ => false,
                }),
                // From then on only durable data is trusted (A4).
                Report::SyncFailed { .. } => self.clear(),
                Report::Published { .. }
                | Report::Synced { .. }
                | Report::LinksDone { .. }
                | Report::DirectoriesDone { .. } => {}
            }
        }
        self.check();
    }

    /// Asserts that the digests kept are counted, and bounded.
    fn check(&self) {
        debug_assert!(self.digests <= KEPT_DIGESTS_MAX, "{} digests are kept", self.digests);
        debug_assert!(self.written.len() <= self.digests, "a report has one digest at least");
        debug_assert!(
            self.written.values().all(|(batch, _)| *batch <= self.batches),
            "a report is of a batch to come"
        );
    }

    /// Handles the commit of so many batches.
    pub fn handle_committed(&mut self, batches: u64) {
        self.retain(|batch, _| batch > batches);
        self.check();
    }

    /// Forgets everything: the task has ended in order, or is out of the run.
    pub fn clear(&mut self) {
        self.written.clear();
        self.digests = 0;
    }

    /// Returns whether there is nothing to report to a controller.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Takes the reports of written pieces, by piece.
    pub fn take(&mut self) -> Vec<Report> {
        self.digests = 0;
        std::mem::take(&mut self.written).into_values().map(|(_, report)| report).collect()
    }

    fn forget(&mut self, piece: PieceRef) {
        if let Some((_, report)) = self.written.remove(&piece) {
            self.digests -= weight(&report);
        }
    }

    fn retain(&mut self, keeps: impl Fn(u64, &Report) -> bool) {
        let digests = &mut self.digests;
        self.written.retain(|_, (batch, report)| {
            let kept = keeps(*batch, report);
            if !kept {
                *digests -= weight(report);
            }
            kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_proto::digest::Digest;
    use penstock_proto::journal::{DigestForm, EntryDigest};

    fn piece(piece: u32) -> PieceRef {
        PieceRef { page: 0, piece }
    }

    fn written(at: u32, entry: u32) -> Report {
        let digest =
            EntryDigest { entry, form: DigestForm::Standard, digest: Digest([1; 32]), seen: None };
        Report::Written {
            piece: piece(at),
            generation: 0,
            epoch: 1,
            digests: vec![digest],
            failures: Vec::new(),
            fetched: true,
        }
    }

    fn kept(kept: &mut UncommittedReports) -> Vec<u32> {
        let piece = |report: &Report| match report {
            Report::Written { piece, .. } => piece.piece,
            other => panic!("{other:?}"),
        };
        kept.take().iter().map(piece).collect()
    }

    /// A7: a report is kept until its commit is reported, and no longer.
    #[test]
    fn a7_what_is_committed_is_kept_no_more() {
        let mut reports = UncommittedReports::default();
        reports.handle_reported(&[written(0, 0), written(1, 1)]);
        reports.handle_reported(&[written(2, 2), Report::Synced { epoch: 1 }]);
        reports.handle_committed(1);
        assert_eq!(kept(&mut reports), [2]);
        assert!(reports.is_empty());
    }

    /// A4, promise (a): reports of pieces that are gone, or may be lost, are handed to no
    /// controller.
    #[test]
    fn a4_what_does_not_stand_any_more_is_not_kept() {
        let mut reports = UncommittedReports::default();
        reports.handle_reported(&[written(0, 0), written(1, 5), written(2, 5), written(3, 6)]);
        reports.handle_reported(&[
            Report::Returned { piece: piece(0), generation: 0 },
            Report::Lost { page: 0, entry: 5, generation: 0 },
        ]);
        assert_eq!(kept(&mut reports), [3]);
        reports.handle_reported(&[written(0, 0), Report::SyncFailed { epoch: 1, errno: 5 }]);
        assert!(reports.is_empty());
        reports.handle_reported(&[written(4, 4)]);
        assert_eq!(kept(&mut reports), [4]);
    }

    /// Promise (g): however long no commit comes, memory is bounded.
    #[test]
    fn g_what_is_kept_is_bounded() {
        let mut reports = UncommittedReports::default();
        let Report::Written { piece, generation, epoch, digests, failures, .. } = written(0, 0)
        else {
            panic!("it is one");
        };
        let many = |at| Report::Written {
            piece: PieceRef { piece: at, ..piece },
            generation,
            epoch,
            digests: vec![digests[0]; KEPT_DIGESTS_MAX / 2],
            failures: failures.clone(),
            fetched: true,
        };
        reports.handle_reported(&[many(0), many(1), many(2), written(3, 3)]);
        assert_eq!(kept(&mut reports), [0, 1]);
        reports.handle_reported(&[written(3, 3)]);
        assert_eq!(kept(&mut reports), [3]);
    }
}
