//! Items of a source that a move has put aside, and neither removed nor named again.
//!
//! A process that is killed between the two steps of a removal ([`crate::source::removal`]) leaves
//! an item under an own name, which follows from the list that the move worked on. The same move
//! goes on with that list and finishes the removal. Where the list is given up instead, because
//! another copy or nobody goes on, each item gets its name back first.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use penstock_io::store::{DirCache, PosixStore, TemporaryKey, TemporaryName, aside_name};
use penstock_io::sys;
use penstock_proto::digest::Digest;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::manifest::{Entry, EntryKind, Page, page_digest};

use crate::source::read::place;
use crate::stores::chain;

/// Before the number of a list in the name of its directory; the first list has none.
pub(crate) const LISTING: &str = "listing-";
/// In the directory of a list: removing what it names has begun.
pub(crate) const REMOVING: &str = "removing";
/// In the directory of a list: files with the numbers of pages of which an order is under way.
const ORDERS: &str = "orders";
/// Generation of the temporary names at the source: no attempt at the target comes so far.
const ASIDE: u32 = u32::MAX;

/// The name under which an entry of a page is looked at before it is removed.
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

/// Whether a move has begun to remove at its source what a list names, where a source keeps the
/// lists of the transfer below `directory`.
pub fn has_begun_to_remove(directory: &Path, transfer: TransferId) -> bool {
    lists(&directory.join(transfer.to_string())).any(|list| list.join(REMOVING).exists())
}

/// Whether items may be put aside that a list of a transfer names, which are all kept below
/// `directory`.
pub(crate) fn may_be_left(directory: &Path) -> bool {
    lists(directory).any(|list| !entries_of(&list.join(ORDERS)).is_empty())
}

/// Notes durably that an order begins to remove what a page of the list in `directory` names.
///
/// # Errors
/// It cannot be noted.
pub(crate) fn note_order(directory: &Path, page: u32) -> io::Result<()> {
    let orders = directory.join(ORDERS);
    fs::create_dir_all(&orders)?;
    File::create(orders.join(number(page)))?;
    File::open(&orders)?.sync_all()
}

/// Notes that nothing is put aside of what a page of the list in `directory` names.
///
/// # Errors
/// It cannot be noted: then the page is looked through once more.
pub(crate) fn note_order_done(directory: &Path, page: u32) -> io::Result<()> {
    match fs::remove_file(directory.join(ORDERS).join(number(page))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Gives their names back to the items that lists of a transfer, kept below `directory`, have put
/// aside in the data set at `root`. An item that cannot be renamed is logged and stays: the next
/// listing names it. Blocks: it looks for each entry of the pages of which an order was cut short.
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
        let opened = dirs.get(sys::boottime_now(), &parent, |path| store.open_dir(path));
        match opened.and_then(|dir| store.give_name_back(&dir, &leaf, &aside)) {
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

/// The directories of a transfer's lists: the first is the one of them all.
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
