//! Entries of a source that an interrupted move has set aside, neither removed nor named again.
//!
//! A process that is killed between the two steps of a removal ([`crate::source::removal`]) leaves
//! an entry under an own name, which follows from the list that the move used. A resumed move uses
//! that list and finishes the removal. If the list is dropped instead, because another copy
//! continues or none does, each entry first gets its name again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use penstock_proto::digest::Digest;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::manifest::{Entry, EntryKind, Page, page_digest};
use penstock_store::{
    DirCache, PosixStore, TemporaryKey, TemporaryName, aside_name, give_name_back,
};

use crate::source::read::place;
use crate::stores::chain;

/// Prefix of a list's number in the name of its directory; the first list has none.
pub(crate) const LISTING: &str = "listing-";
/// File in the directory of a list: the removal of its entries has begun.
pub(crate) const REMOVING: &str = "removing";
/// Directory in that of a list, with a file for each page that has an unfinished order.
const ORDERS: &str = "orders";
/// Generation of the temporary names at the source, which no attempt at the target reaches.
const ASIDE: u32 = u32::MAX;

/// Returns the name under which an entry of a page is checked before it is removed.
pub(crate) fn name_of(
    transfer: TransferId,
    page: Digest,
    index: u32,
    entry: &Entry,
) -> TemporaryName {
    aside_name(&TemporaryKey {
        transfer,
        of: page,
        number: index,
        size: entry.size,
        mtime: entry.mtime,
        identity: entry.identity,
        generation: ASIDE,
        writer: WriterId::SOLE,
    })
}

/// Returns whether a move has begun to remove entries of a list at its source. A source keeps the
/// lists of the transfer below `directory`.
pub fn has_begun_to_remove(directory: &Path, transfer: TransferId) -> bool {
    lists(&directory.join(transfer.to_string())).any(|list| list.join(REMOVING).exists())
}

/// Returns whether entries of a transfer's lists, which lie below `directory`, may be set aside.
pub(crate) fn may_be_left(directory: &Path) -> bool {
    lists(directory).any(|list| !entries_of(&list.join(ORDERS)).is_empty())
}

/// Records durably that an order begins to remove entries of a page of the list in `directory`.
///
/// # Errors
/// The record cannot be written.
pub(crate) fn note_order(directory: &Path, page: u32) -> io::Result<()> {
    let orders = directory.join(ORDERS);
    fs::create_dir_all(&orders)?;
    File::create(orders.join(number(page)))?;
    File::open(&orders)?.sync_all()
}

/// Records that no entry of a page of the list in `directory` is set aside.
///
/// # Errors
/// The record cannot be written: the page will then be searched once more.
pub(crate) fn note_order_done(directory: &Path, page: u32) -> io::Result<()> {
    match fs::remove_file(directory.join(ORDERS).join(number(page))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Restores the names of entries that were set aside in the data set at `root`. The transfer's
/// lists lie below `directory`. An entry that cannot be renamed is logged and stays: the next
/// listing names it. Blocks for a look-up of each entry in pages with an unfinished order.
pub(crate) fn give_names_back(
    store: &PosixStore,
    transfer: TransferId,
    root: &[u8],
    directory: &Path,
) {
    for list in lists(directory) {
        for order in entries_of(&list.join(ORDERS)) {
            let page = list.join("pages").join(order.file_name().unwrap_or_default());
            if let Ok(encoded) = fs::read(page.with_extension("page")) {
                give_page_back(store, transfer, root, &encoded);
            }
        }
    }
}

fn give_page_back(store: &PosixStore, transfer: TransferId, root: &[u8], encoded: &[u8]) {
    let Ok(page) = Page::decode(encoded) else { return };
    let (digest, mut dirs) = (page_digest(encoded), DirCache::default());
    let entries = (0..).zip(page.entries());
    for (index, entry) in entries.filter(|(_, entry)| entry.kind != EntryKind::Directory) {
        let (parent, leaf) = place(root, &page, entry);
        let aside = name_of(transfer, digest, index, entry);
        let opened = dirs.get(penstock_sys::boottime_now(), &parent, |path| store.open_dir(path));
        match opened.and_then(|dir| give_name_back(store, &dir, &leaf, &aside)) {
            Ok(_) => {}
            Err(error) if error.is_vanished() => {}
            Err(error) => {
                tracing::warn!(error = %chain(&error), "an item of the source stays put aside");
            }
        }
    }
}

fn number(page: u32) -> String {
    format!("{page:08}")
}

/// Returns the directories of a transfer's lists. The first list lies in the transfer's own.
fn lists(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let later = entries_of(directory).into_iter().filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(LISTING))
    });
    std::iter::once(directory.to_owned()).chain(later)
}

fn entries_of(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    found.map(|entry| entry.path()).collect()
}
