//! Pages that a source returns: the check of one, and the counts of all.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::TransferId;
use penstock_proto::manifest::Page;

/// The entries, files and bytes that a scan has found so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) entries: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Found {
    /// Adds a page of the first list. Entries of further pages are newer versions, which do not
    /// count again.
    pub(crate) fn add(&mut self, page: &Page) {
        if page.round > 0 {
            return;
        }
        self.entries += page.entries().len() as u64;
        self.files += page.file_count();
        self.bytes += page.file_bytes();
    }
}

/// Decodes a page, and checks that it is the one that was asked for.
pub(crate) fn checked_page(id: TransferId, number: u32, encoded: &[u8]) -> Result<Page, Problem> {
    let page = Page::decode(encoded).map_err(|cause| {
        let title = format!("page {number} of the data set is broken");
        Problem::new(ProblemCode::Manifest, title).because(cause)
    })?;
    if page.transfer != id || page.number != number {
        let title = format!("the source gave another page than number {number}");
        return Err(Problem::new(ProblemCode::Manifest, title));
    }
    Ok(page)
}
