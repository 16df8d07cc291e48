//! Entries of one directory of a store, for users who look into it.
//!
//! A directory of up to [`SORTED_NAMES_MAX`] names is sorted: each part reads its names again, and
//! keeps the entries of that part alone. A larger directory has the order of the file system, whose
//! own position is the cursor. No part costs more than its entries, and no directory is held in
//! memory. No state is kept between two requests. A slow store ends a part early ([`PART_TIME`]); a
//! caller bounds a store that hangs.
//!
//! Paths are walked as everywhere in a store: beneath its root and without following a link. [Own
//! names](penstock_proto::name::own) are left out: they can be no item of a transfer.
//!
//! | module | duty |
//! |---|---|
//! | `part` | one part: selection, order, attributes |
//! | `cursor` | the place where a part ended, as text |
//! | `error` | the reasons why a part cannot be listed |

mod cursor;
mod error;
mod part;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use penstock_api::problem::Problem;
use penstock_api::rest::{ENTRIES_MAX, EntriesQuery, EntryList, StoreSpace};
use penstock_proto::id::Name;
use penstock_proto::name::check_relative;
use penstock_store::{Source, StoreError};

use crate::stores::Stores;
use crate::stores::access::AccessError;
use error::EntriesError;
use part::Part;
pub(crate) use part::item_kind;

/// Time after which a part ends with the entries that it has.
const PART_TIME: Duration = Duration::from_secs(1);

/// Returns a part of the entries of a directory. Blocks on the store: bound it.
///
/// # Errors
/// `query`, `cursor`; `entry-unknown`, `entry-kind`, `entry-denied`; `store-unknown`,
/// `store-offline`, `store-denied`, `store-kind`, `host-short`; of a mapped store
/// `account-missing`.
pub fn list_entries(
    stores: &Stores,
    store: &Name,
    query: &EntriesQuery,
) -> Result<EntryList, Problem> {
    let listed = || {
        check_unmapped(stores, store)?;
        let source = stores.source(store, None)?;
        part_of(&source, store, query, Instant::now() + PART_TIME)
    };
    Ok(listed()?)
}

fn part_of(
    source: &Source,
    store: &Name,
    query: &EntriesQuery,
    until: Instant,
) -> Result<EntryList, EntriesError> {
    let limit = query.limit.unwrap_or(ENTRIES_MAX);
    if !(1..=ENTRIES_MAX).contains(&limit) {
        return Err(EntriesError::Limit(limit));
    }
    let path = &query.path.0;
    check_relative(path).map_err(|_| EntriesError::Path(path.clone()))?;
    let failed = |error: StoreError| EntriesError::of(store, path, &error);
    let dir = source.open_dir(path).map_err(failed)?;
    let inode = source.stat_reported(&dir, b"").map_err(failed)?.inode;
    let list = cursor::list_of(store, query);
    let from = match &query.cursor {
        Some(text) => Some(cursor::decode(text, list, inode)?),
        None => None,
    };
    let mut part = Part::new(source, dir, query, limit as usize, until);
    let (items, next, sorted) =
        part.list(from).map_err(failed)?.ok_or(cursor::CursorError::Grown)?;
    let next = next.map(|position| cursor::encode(list, inode, &position));
    Ok(EntryList { items, next, sorted })
}

/// Refuses a mapped store: a look would be with the rights of the daemon, and not of the user.
fn check_unmapped(stores: &Stores, store: &Name) -> Result<(), EntriesError> {
    if stores.spec(store)?.mapped {
        return Err(EntriesError::Mapped(store.clone()));
    }
    Ok(())
}

/// Makes one directory, whose parent exists. Blocks on the store: bound it.
///
/// # Errors
/// `query`; `entry-unknown` of its parent, `entry-kind`, `entry-exists`, `entry-denied`;
/// `store-unknown`, `store-offline`, `store-hung`, `store-read-only`, `store-kind`,
/// `target-full`; of a mapped store `account-missing`.
pub fn make_directory(stores: &Stores, store: &Name, path: &[u8]) -> Result<(), Problem> {
    let made = || {
        check_relative(path).map_err(|_| EntriesError::Path(path.to_vec()))?;
        check_unmapped(stores, store)?;
        let target = stores.target(store, None)?;
        // No directory is made beneath a mount point without a mount (A5).
        match target.identity() {
            Ok(_) | Err(penstock_store::StoreOffline::IdentityMissing { .. }) => {}
            Err(offline) => {
                stores.reopen(store);
                return Err(AccessError::gone(store, offline).into());
            }
        }
        target.make_directory(path).map_err(|error| EntriesError::of(store, path, &error))
    };
    Ok(made()?)
}

/// Returns the room in the file system of a store, after a check that the store is there; `None`
/// of one that has no file system. Blocks on the store: bound it.
///
/// # Errors
/// `store-unknown`, `store-offline`, `store-denied`, `host-short`.
pub fn store_space(stores: &Stores, store: &Name) -> Result<Option<StoreSpace>, Problem> {
    if matches!(stores.spec(store)?.kind, crate::stores::StoreKind::Null) {
        return Ok(None);
    }
    let space = stores.own_source(store)?.space();
    let space = space.map_err(|error| AccessError::unanswered(store, &error))?;
    Ok(space.map(|space| StoreSpace {
        free_bytes: space.free_bytes,
        total_bytes: space.total_bytes,
        free_files: space.free_inodes,
    }))
}
