//! Pages in which one peer may have left temporary files that nobody else would find.
//!
//! While pages are open, their heads and the pages that the journal keeps without one say where
//! that may be. Before they are committed as complete, and when links are made in them after that,
//! it is kept in the journal who may have left something ([`Kept`](super::epochs::Kept)); and a run
//! that begins where links may have been begun looks through all pages that have some.

use std::collections::BTreeSet;

use penstock_api::heads::LedgerHead;
use penstock_api::peers::Peers;
use penstock_api::problem::Problem;
use penstock_api::task::{Report, TaskPage, TaskSpec, Work};
use penstock_proto::id::WriterId;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::EntryKind;

use super::journal::Journal;
use super::{Run, earlier};

/// What a peer had of a transfer's pages.
#[derive(Debug, Default)]
pub(super) struct PagesTouched {
    /// Open pages of which it was given something to write.
    open: BTreeSet<u32>,
    /// Pages of which it gave something back, begun or not: another peer did that under names of
    /// its own, so what this one has begun is left there when the page is complete.
    given_back: BTreeSet<u32>,
}

impl PagesTouched {
    /// It is given work.
    pub(super) fn handle_work(&mut self, work: &[Work]) {
        let pages = work.iter().filter_map(|work| match work {
            Work::Fetch { piece, .. } | Work::Recheck { piece, .. } => Some(piece.page),
            Work::Links { page } | Work::Directories { page } => Some(*page),
            Work::Finish { .. } | Work::Discard { .. } => None,
        });
        self.open.extend(pages);
    }

    /// It says what it has done.
    pub(super) fn handle_reports(&mut self, reports: &[Report]) {
        for report in reports {
            match report {
                Report::Returned { piece, .. } => {
                    self.given_back.insert(piece.page);
                }
                // All that it wrote since the last good sync may be given to others (A4).
                Report::SyncFailed { .. } => self.given_back.extend(&self.open),
                Report::LinksDone { page, .. } | Report::DirectoriesDone { page, .. } => {
                    self.open.remove(page);
                }
                _ => {}
            }
        }
    }

    /// It tells what it wrote for an earlier controller: not all of it may be taken over.
    pub(super) fn handle_adopted(&mut self, reports: &[Report]) {
        let pages = reports.iter().filter_map(|report| match report {
            Report::Written { piece, .. } => Some(piece.page),
            _ => None,
        });
        self.given_back.extend(pages);
    }

    /// A page is complete.
    pub(super) fn handle_complete(&mut self, page: u32) {
        self.open.remove(&page);
    }

    /// Of pages that are about to be complete, those in which it may have left something. Of one
    /// that `is_over`, what it was given went to others.
    pub(super) fn left_in(&self, complete: &BTreeSet<u32>, is_over: bool) -> BTreeSet<u32> {
        let mut left: BTreeSet<u32> = self.given_back.intersection(complete).copied().collect();
        if is_over {
            left.extend(self.open.intersection(complete));
        }
        left
    }

    /// Where it may have left something; nothing is known from then on.
    pub(super) fn take(&mut self) -> BTreeSet<u32> {
        let mut all = std::mem::take(&mut self.open);
        all.append(&mut self.given_back);
        all
    }
}

impl Run {
    /// Removes what those that take part no more may have left, and the markers of all. What cannot
    /// be removed is logged.
    pub(super) fn clean_left_overs(&mut self) -> Result<(), Problem> {
        let left = self.tasks.left_overs();
        let generation_max = self.generation_in(left.values().flatten().copied().collect())?;
        let total = self.scan.as_ref().map_or(0, |scan| scan.pages);
        let (earlier, most) = earlier::left_pages(&self.journal);
        for (writer, pages) in left {
            let mut all = pages;
            if self.tasks.links_in_doubt() {
                let with_links = |page: &u32| {
                    let page = self.shared.peek_page(*page);
                    page.is_ok_and(|page| {
                        page.page.entries().iter().any(|it| is_made_last(it.kind))
                    })
                };
                all.extend((0..total).filter(with_links));
            }
            let pages = all.iter().filter_map(|page| self.shared.peek_page(*page).ok());
            let mut pages = pages.chain(earlier.iter().filter_map(|page| earlier::left_page(page)));
            self.clean(writer, &mut pages, generation_max.max(most));
        }
        Ok(())
    }

    /// Removes all that is temporary, of every writer; gives whether the store could be asked for
    /// all of it.
    pub(super) fn clean_all(&mut self) -> Result<bool, Problem> {
        // All pages that were opened, by whatever run, may have temporary files.
        let pages = self.shared.journal().pages_in_work(&[])?;
        let generation_max = self.generation_in(pages.clone())?;
        let (earlier, most) = earlier::left_pages(&self.journal);
        let mut all = true;
        for writer in self.tasks.left_overs().into_keys() {
            let pages = pages.iter().filter_map(|page| self.shared.peek_page(*page).ok());
            let mut pages = pages.chain(earlier.iter().filter_map(|page| earlier::left_page(page)));
            all &= self.clean(writer, &mut pages, generation_max.max(most));
        }
        Ok(all)
    }

    /// The greatest attempt at any file of these pages, some of which this run has not opened.
    fn generation_in(&self, pages: BTreeSet<u32>) -> Result<u32, Problem> {
        let mut most = self.shared.generation_max();
        if pages.is_empty() {
            return Ok(most);
        }
        let heads = self.heads.load(self.id)?.pages;
        for head in heads.iter().filter(|head| pages.contains(&head.page)) {
            for record in self.shared.journal().read_log(head.page, head.log_bytes)?.0 {
                if let JournalRecord::Generation { generation, .. } = record {
                    most = most.max(generation);
                }
            }
        }
        Ok(most)
    }

    /// Removes what a writer has left in these pages, and its marker; gives whether the store could
    /// be asked for all of it.
    fn clean(
        &self,
        writer: WriterId,
        pages: &mut dyn Iterator<Item = TaskPage>,
        generation_max: u32,
    ) -> bool {
        let spec = TaskSpec { writer, ..self.spec.clone() };
        let cleaned = self.peer.clean(&spec, pages, generation_max);
        cleaned
            .inspect_err(|problem| tracing::warn!(%problem, "temporary files may be left"))
            .is_ok()
    }
}

/// Whether it is made when all pages are complete.
fn is_made_last(kind: EntryKind) -> bool {
    !matches!(kind, EntryKind::File | EntryKind::Directory)
}

/// Where writers of an earlier run may have left something, where there can be several.
pub(super) struct InWork {
    /// Pages that it has not completed.
    pub(super) pages: BTreeSet<u32>,
    /// It may have begun to make links, and have left some of them half made.
    pub(super) links: bool,
}

/// Where that is as far as heads and pages tell.
pub(super) fn in_work(
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
