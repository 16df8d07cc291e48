//! Removal of temporary files and sync markers when a run ends.

use std::collections::BTreeSet;

use penstock_api::problem::Problem;
use penstock_api::task::{TaskPage, TaskSpec};
use penstock_proto::id::WriterId;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::EntryKind;

use crate::runner::{Run, earlier};

impl Run {
    /// Removes files that peers which take part no more may have left, and the markers of all.
    /// Failures are logged.
    pub(crate) fn clean_left_overs(&mut self) -> Result<(), Problem> {
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

    /// Removes all temporary files, of every writer. Returns whether the store could be asked for
    /// all of it.
    pub(crate) fn clean_all(&mut self) -> Result<bool, Problem> {
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

    /// Removes the files that a writer has left in these pages, and its marker. Returns whether the
    /// store could be asked for all of it.
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

/// Returns whether an entry of this kind is made when all pages are complete.
fn is_made_last(kind: EntryKind) -> bool {
    !matches!(kind, EntryKind::File | EntryKind::Directory)
}
