//! The closed pages: counts, and the sums over them.
//!
//! A transfer of 10^9 files has some 250,000 of them; no frequent operation visits each.

use std::collections::{BTreeMap, BTreeSet};

use super::commit::{PageCommit, PageStanding, Totals};

#[derive(Clone, Debug)]
struct ClosedPage {
    standing: PageStanding,
    /// Bytes of its failed large files, and of refused entries.
    failed_bytes: u64,
    log: Vec<u8>,
}

/// The closed pages by number.
#[derive(Debug, Default)]
pub(super) struct ClosedPages {
    pages: BTreeMap<u32, ClosedPage>,
    totals: Totals,
    /// Number of pages about which the source is to be asked.
    asks: usize,
    /// Pages with something to commit.
    news: BTreeSet<u32>,
}

impl ClosedPages {
    /// Adds a page that is done, and was not before, with the bytes of its failed pieces.
    pub(super) fn insert(&mut self, number: u32, standing: PageStanding, failed_bytes: u64) {
        self.count(&standing);
        let page = ClosedPage { standing, failed_bytes, log: Vec::new() };
        let before = self.pages.insert(number, page);
        debug_assert!(before.is_none(), "page {number} is closed twice");
        debug_assert!(self.asks <= self.pages.len());
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.pages.contains_key(&number)
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Returns the sums over all pages; resumed bytes are not known here.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the numbers of the pages, ascending.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.keys().copied()
    }

    /// Returns of each page in order: number, bytes that are done, bytes and entries that failed.
    pub(super) fn shares(&self) -> impl Iterator<Item = (u32, u64, u64, u64)> + '_ {
        self.pages.iter().map(|(number, page)| {
            let standing = &page.standing;
            let done = standing.bytes + standing.kept_bytes;
            (*number, done, page.failed_bytes, standing.failures)
        })
    }

    pub(super) fn has_to_ask(&self) -> bool {
        self.asks > 0
    }

    /// Returns the pages about which the source is to be asked, with the lengths of their logs.
    pub(super) fn asking(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let asking = self.pages.iter().filter(|(_, page)| page.standing.asks);
        asking.map(|(number, page)| (*number, page.standing.log_bytes))
    }

    /// Changes the facts about a page, and appends to its log.
    pub(super) fn change(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut PageStanding, &mut Vec<u8>),
    ) {
        let Some(page) = self.pages.get_mut(&number) else { return };
        let before = page.standing;
        change(&mut page.standing, &mut page.log);
        let after = page.standing;
        if !page.log.is_empty() {
            self.news.insert(number);
        }
        self.uncount(&before);
        self.count(&after);
    }

    /// Changes the bytes that failed in a page, for the piece map.
    pub(super) fn change_failed_bytes(&mut self, number: u32, change: impl FnOnce(u64) -> u64) {
        if let Some(page) = self.pages.get_mut(&number) {
            page.failed_bytes = change(page.failed_bytes);
        }
    }

    /// Adds the commits of the pages with changes.
    pub(super) fn take_commits(&mut self, commits: &mut Vec<PageCommit>) {
        for number in std::mem::take(&mut self.news) {
            let Some(page) = self.pages.get_mut(&number) else { continue };
            let append = std::mem::take(&mut page.log);
            debug_assert!(!append.is_empty(), "page {number} has nothing to commit");
            page.standing.log_bytes += append.len() as u64;
            commits.push(PageCommit {
                page: number,
                digest: page.standing.digest,
                append,
                log_bytes: page.standing.log_bytes,
                complete: true,
                files: page.standing.files,
                bytes: page.standing.bytes,
                failures: page.standing.failures,
                kept: page.standing.kept,
                kept_bytes: page.standing.kept_bytes,
                asks: page.standing.asks,
            });
        }
    }

    fn count(&mut self, standing: &PageStanding) {
        let totals = &mut self.totals;
        totals.files += standing.files;
        totals.bytes += standing.bytes;
        totals.bytes_durable += standing.bytes;
        totals.failures += standing.failures;
        totals.kept += standing.kept;
        totals.kept_bytes += standing.kept_bytes;
        self.asks += usize::from(standing.asks);
    }

    fn uncount(&mut self, standing: &PageStanding) {
        let totals = &mut self.totals;
        totals.files -= standing.files;
        totals.bytes -= standing.bytes;
        totals.bytes_durable -= standing.bytes;
        totals.failures -= standing.failures;
        totals.kept -= standing.kept;
        totals.kept_bytes -= standing.kept_bytes;
        self.asks -= usize::from(standing.asks);
    }
}
