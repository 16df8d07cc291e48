//! The files of a step, as pages of a data set.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::task::TaskPage;
use penstock_engine::slice::{Piece, slice};
use penstock_proto::id::TransferId;
use penstock_proto::manifest::{EntryDraft, Identity, PAGE_ENTRIES_MAX, PageBuilder, page_digest};
use penstock_proto::name;
use penstock_proto::slicing::Slicing;
use penstock_store::{MemSpec, MemStore, ReadFile, Source, StoreError};

/// A page and its pieces.
type PageOfFiles = (TaskPage, Arc<Vec<Piece>>);

/// Files of one size in directories of one page each. Their names are those of a generated data
/// set, for every reader.
pub(super) struct FileSet {
    id: TransferId,
    source: Source,
    root: Vec<u8>,
    files: u64,
    per_page: u64,
    pages: Mutex<BTreeMap<u32, PageOfFiles>>,
}

impl FileSet {
    /// Returns the files that are generated.
    pub(super) fn generated(id: TransferId, (files, size): (u64, u64), seed: u64) -> Self {
        let per_page = per_page(size);
        let dirs = files.div_ceil(per_page).max(1);
        let spec = MemSpec { files: dirs * per_page, size_min: size, size_max: size, dirs, seed };
        let (source, root, pages) =
            (Source::Mem(MemStore::new(spec)), Vec::new(), Mutex::default());
        Self { id, source, root, files, per_page, pages }
    }

    /// Returns the first files of those that were written below `root`.
    pub(super) fn written(
        id: TransferId,
        (files, size): (u64, u64),
        (source, root): (Source, Vec<u8>),
    ) -> Self {
        Self { id, source, root, files, per_page: per_page(size), pages: Mutex::default() }
    }

    /// Returns the store from which the files are read, and their root in it.
    pub(super) fn source(&self) -> (Source, Vec<u8>) {
        (self.source.clone(), self.root.clone())
    }

    /// Returns the number of pages.
    pub(super) fn pages(&self) -> u32 {
        self.files.div_ceil(self.per_page) as u32
    }

    /// Returns a page and its pieces. Looks at its files when it is first asked for.
    ///
    /// # Errors
    /// A file is not there.
    pub(super) fn page(&self, number: u32) -> Result<PageOfFiles, StoreError> {
        let known = self.pages.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut builder = PageBuilder::new(self.id, number, Slicing::default());
        let directory = directory_name(number);
        let dir = self.source.open_dir(&name::join(&self.root, &directory))?;
        let first = u64::from(number) * self.per_page;
        for file in first..(first + self.per_page).min(self.files) {
            let name = file_name(file);
            let meta = self.source.stat_reported(&dir, &name)?;
            let draft = EntryDraft {
                name: &name,
                mode: meta.mode,
                owner: meta.owner,
                size: meta.size,
                mtime: meta.mtime,
                identity: Identity { inode: meta.inode, ctime: meta.ctime },
                ..EntryDraft::default()
            };
            builder.push(&directory, &draft);
        }
        let page = builder.seal();
        let (pieces, digest) = (Arc::new(slice(&page)), page_digest(&page.encode()));
        let page = TaskPage { page: Arc::new(page), digest, left: Arc::default() };
        let made = (page, pieces);
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(pages.entry(number).or_insert(made).clone())
    }

    /// Opens the first of each `every` files in turn, until `visit` breaks off.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub(super) fn each_file(
        &self,
        every: u64,
        mut visit: impl FnMut(&ReadFile) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        for number in 0..self.pages() {
            let dir = self.source.open_dir(&name::join(&self.root, &directory_name(number)))?;
            let first = u64::from(number) * self.per_page;
            let page = first..(first + self.per_page).min(self.files);
            for file in page.filter(|file| file % every == 0) {
                if visit(&self.source.open_read(&dir, &file_name(file))?).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Returns how many files of a size a page has: as many as fit, but few of those that are cut into
/// many extents.
fn per_page(size: u64) -> u64 {
    let most = PAGE_ENTRIES_MAX as u64;
    (most / Slicing::default().extent_count(size)).clamp(1, most)
}

/// Returns the name of a directory, as a generated data set has it.
pub(super) fn directory_name(number: u32) -> Vec<u8> {
    format!("d{number:010}").into_bytes()
}

/// Returns the name of a file, as a generated data set has it.
pub(super) fn file_name(number: u64) -> Vec<u8> {
    format!("f{number:010}").into_bytes()
}
