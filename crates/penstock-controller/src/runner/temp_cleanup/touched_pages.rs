//! Pages in which one peer may have left temporary files that no other peer would find.
//!
//! While pages are open, their heads and the pages kept in the journal without a head show where
//! such files may be. The journal records the writers before such pages are committed as complete,
//! and when links are made in them after that. A run that begins where links may have been begun
//! searches all pages that have some.

use std::collections::BTreeSet;

use penstock_api::heads::LedgerHead;
use penstock_api::peers::Peers;
use penstock_api::problem::Problem;
use penstock_api::task::{Report, Work};

use crate::runner::journal::Journal;

/// The pages of a transfer that a peer worked on.
#[derive(Debug, Default)]
pub(crate) struct PagesTouched {
    /// Open pages of which the peer received something to write.
    open: BTreeSet<u32>,
    /// Pages of which the peer returned some work, begun or not. Another peer did that work under
    /// names of its own, so files begun by this one are left when the page is complete.
    given_back: BTreeSet<u32>,
}

impl PagesTouched {
    /// Records the pages of work that the peer receives.
    pub(crate) fn handle_work(&mut self, work: &[Work]) {
        let pages = work.iter().filter_map(|work| match work {
            Work::Fetch { piece, .. } | Work::Recheck { piece, .. } => Some(piece.page),
            Work::Links { page } | Work::Directories { page } => Some(*page),
            Work::Finish { .. } | Work::Discard { .. } => None,
        });
        self.open.extend(pages);
    }

    /// Updates the pages by the reports of the peer.
    pub(crate) fn handle_reports(&mut self, reports: &[Report]) {
        for report in reports {
            match report {
                Report::Returned { piece, .. } => {
                    self.given_back.insert(piece.page);
                }
                // Other peers may receive all work that this peer did since its last good sync
                // (A4).
                Report::SyncFailed { .. } => self.given_back.extend(&self.open),
                Report::LinksDone { page, .. } | Report::DirectoriesDone { page, .. } => {
                    self.open.remove(page);
                }
                _ => {}
            }
        }
    }

    /// Records pages that the peer wrote for an earlier controller: the run may not take over all
    /// of them.
    pub(crate) fn handle_adopted(&mut self, reports: &[Report]) {
        let pages = reports.iter().filter_map(|report| match report {
            Report::Written { piece, .. } => Some(piece.page),
            _ => None,
        });
        self.given_back.extend(pages);
    }

    /// Handles a complete page.
    pub(crate) fn handle_complete(&mut self, page: u32) {
        self.open.remove(&page);
    }

    /// Returns those of the pages about to be complete in which the peer may have left something.
    /// If the peer `is_over`, other peers got the work that it had.
    pub(crate) fn left_in(&self, complete: &BTreeSet<u32>, is_over: bool) -> BTreeSet<u32> {
        let mut left: BTreeSet<u32> = self.given_back.intersection(complete).copied().collect();
        if is_over {
            left.extend(self.open.intersection(complete));
        }
        left
    }

    /// Returns all pages in which the peer may have left something, and forgets them.
    pub(crate) fn take(&mut self) -> BTreeSet<u32> {
        let mut all = std::mem::take(&mut self.open);
        all.append(&mut self.given_back);
        all
    }
}

/// The places where writers of an earlier run may have left something, in a site of several peers.
pub(crate) struct InWork {
    /// Pages that it has not completed.
    pub(crate) pages: BTreeSet<u32>,
    /// Set if the earlier run may have begun to make links, and left some of them incomplete.
    pub(crate) links: bool,
}

/// Returns these places as far as heads and pages show them.
pub(crate) fn in_work(
    peers: &dyn Peers,
    journal: &Journal,
    head: &LedgerHead,
) -> Result<InWork, Problem> {
    if peers.grant().is_none() {
        return Ok(InWork { pages: BTreeSet::new(), links: false });
    }
    let pages = journal.pages_in_work(&head.pages)?;
    let links = head.scan.is_some() && pages.is_empty();
    Ok(InWork { pages, links })
}

#[cfg(test)]
mod tests {
    use penstock_proto::slicing::PieceRef;

    use super::*;

    /// Promise: nothing temporary is left by a transfer that is done, wherever a piece went: one
    /// that its peer gave back after it was begun lies in a page that others have completed.
    #[test]
    fn b1_what_was_given_back_is_looked_for_when_the_page_is_complete() {
        let mut touched = PagesTouched::default();
        let piece = |page| PieceRef { page, piece: 3 };
        let fetch = |page| Work::Fetch { piece: piece(page), generation: 0, fresh: true };
        touched.handle_work(&[fetch(1), fetch(2), fetch(3), Work::Links { page: 4 }]);
        touched.handle_reports(&[Report::Returned { piece: piece(2), generation: 0 }]);
        let complete = BTreeSet::from([1, 2, 4]);
        assert_eq!(touched.left_in(&complete, false), BTreeSet::from([2]));
        assert_eq!(touched.left_in(&complete, true), complete, "others have done it all");
        for page in complete {
            touched.handle_complete(page);
        }
        assert_eq!(touched.take(), BTreeSet::from([2, 3]));
        assert!(touched.take().is_empty());
    }

    /// Promise: the same after a failed sync, when all of it is given to others (A4).
    #[test]
    fn a4_after_a_failed_sync_all_of_it_is_looked_for() {
        let mut touched = PagesTouched::default();
        touched.handle_work(&[Work::Links { page: 7 }, Work::Links { page: 8 }]);
        touched.handle_complete(7);
        touched.handle_reports(&[Report::SyncFailed { epoch: 2, errno: 5 }]);
        touched.handle_complete(8);
        assert_eq!(touched.take(), BTreeSet::from([8]));
    }
}
