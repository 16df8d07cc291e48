//! The end of the source's list, as far as a run knows it.

use penstock_api::scan::ScanSummary;

/// The summary of a scan that has ended, and whether the heads have it.
#[derive(Debug, Default)]
pub(crate) struct ScanEnd {
    summary: Option<ScanSummary>,
    is_committed: bool,
}

impl ScanEnd {
    /// Begins with the summary in the heads, if an earlier run committed one.
    pub(crate) fn committed(summary: Option<ScanSummary>) -> Self {
        let is_committed = summary.is_some();
        Self { summary, is_committed }
    }

    /// Returns the summary; `None` before the scan has ended.
    pub(crate) fn summary(&self) -> Option<&ScanSummary> {
        self.summary.as_ref()
    }

    /// Returns the number of pages; 0 before the scan has ended.
    pub(crate) fn pages(&self) -> u32 {
        self.summary.as_ref().map_or(0, |summary| summary.pages)
    }

    /// Sets the summary that the source has given.
    pub(crate) fn set(&mut self, summary: ScanSummary) {
        self.summary = Some(summary);
    }

    /// Adds the further pages that the source has made of newer versions. `pages` counts all.
    /// Returns the number of pages known from now on.
    pub(crate) fn extend(&mut self, pages: u32) -> u32 {
        if let Some(summary) = &mut self.summary
            && summary.pages < pages
        {
            summary.amending += pages - summary.pages;
            summary.pages = pages;
            // Committed with the record that the source was asked about the older pages.
            self.is_committed = false;
        }
        pages.max(self.pages())
    }

    /// Returns the summary if the heads do not have it.
    pub(crate) fn uncommitted(&self) -> Option<ScanSummary> {
        self.summary.clone().filter(|_| !self.is_committed)
    }

    /// Records that the heads have the summary.
    pub(crate) fn note_committed(&mut self) {
        self.is_committed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a run that dies after it asked for newer versions finds the further pages (C1): the
    /// number of pages is committed again when it grows, and only then.
    #[test]
    fn c1_further_pages_are_committed_with_the_end_of_the_scan() {
        let summary = ScanSummary { pages: 3, ..ScanSummary::default() };
        let mut end = ScanEnd::committed(Some(summary.clone()));
        assert_eq!((end.uncommitted(), end.extend(2), end.pages()), (None, 3, 3));
        assert_eq!(end.uncommitted(), None, "an answer without further pages");
        assert_eq!(end.extend(5), 5);
        let further = end.uncommitted().unwrap();
        assert_eq!((further.pages, further.amending), (5, 2));
        end.note_committed();
        assert_eq!(end.uncommitted(), None);
        let mut first = ScanEnd::committed(None);
        assert_eq!((first.pages(), first.uncommitted()), (0, None));
        first.set(summary.clone());
        assert_eq!(first.uncommitted(), Some(summary), "an end that no head has");
    }
}
