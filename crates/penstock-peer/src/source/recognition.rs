//! Recognises a data set that another host has listed, or this host before a restart.
//!
//! Inode numbers are compared only where they were found to be the same (C1). On some network and
//! FUSE file systems each mount has its own numbers of files, and every file would seem changed
//! after a failover. Where the marks of a store do not prove its identity, some listed entries must
//! exist: another disk below the same path would look like vanished files (C3). A look at a few
//! entries of each page decides both, when the page is read.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use penstock_proto::id::Name;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_store::{Meta, Source};

use crate::source::read::place;
use crate::stores::access::{Absence, AccessError};

/// Entries of a page that are looked at, evenly spread: of some 4,000.
const LOOKED_AT: usize = 8;
/// Number of entries to look at where none of them is as listed, and the store may be another one.
const LOOKED_AT_MAX: usize = 64;

/// The knowledge of a store that was listed by another host, or earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provenance {
    /// This process has listed it.
    Listed,
    /// The store's marks prove that it is the same.
    Proven,
    /// The store is probably the listed one: nothing contradicts it.
    Likely,
}

/// The view of one data set on this host.
#[derive(Debug)]
pub(crate) struct Sight {
    claim: Provenance,
    /// Something was seen that was listed.
    seen: AtomicBool,
    /// The reason why this is taken for another store.
    stranger: OnceLock<AccessError>,
}

impl Sight {
    pub(crate) fn new(claim: Provenance) -> Self {
        Self {
            claim,
            seen: AtomicBool::new(claim != Provenance::Likely),
            stranger: OnceLock::new(),
        }
    }

    /// Returns an error if the store was found to be another one.
    ///
    /// # Errors
    /// The store is another one: it is offline at this peer.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
        self.stranger.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Returns whether nothing has proven yet that this host sees the listed store.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.seen.load(Ordering::Acquire)
    }

    /// Returns whether this process has listed the store that it sees.
    pub(crate) fn is_own(&self) -> bool {
        self.claim == Provenance::Listed
    }

    /// Returns a page in a form that is comparable with this host's store: without inode numbers,
    /// where they differ here. Blocks for a look at a few entries, unless this process has listed
    /// them.
    ///
    /// # Errors
    /// None of its entries exists here, and none of other pages did: the store is offline at this
    /// peer.
    pub(crate) fn of(
        &self,
        source: &Source,
        store: &Name,
        root: &[u8],
        mut page: Page,
    ) -> Result<Page, AccessError> {
        self.check()?;
        if self.claim == Provenance::Listed {
            return Ok(page);
        }
        let mut found = Comparison::default();
        for looks in [LOOKED_AT, LOOKED_AT_MAX] {
            found = compare(source, root, &page, looks);
            if found.same > 0 || self.seen.load(Ordering::Acquire) {
                break;
            }
        }
        if found.same > 0 {
            self.seen.store(true, Ordering::Release);
        } else if found.looked > 0 && !self.seen.load(Ordering::Acquire) {
            let other = AccessError::offline(store, Absence::NothingListed(found.looked));
            return Err(self.stranger.get_or_init(|| other).clone());
        }
        if found.other_inodes {
            page.forget_inodes();
        }
        Ok(page)
    }
}

/// Returns whether this host sees the inode numbers that the listing host saw. Compares entries
/// whose stamps are unchanged: if none of them has the recorded inode, the numbers differ. With no
/// unchanged entry, assumes that they are the same. Looks at `entries` until [`LOOKED_AT`] of them
/// have answered.
pub(crate) fn shares_inodes<'a>(
    source: &Source,
    root: &[u8],
    page: &Page,
    entries: impl Iterator<Item = &'a Entry>,
) -> bool {
    let (mut same, mut other) = (0, 0);
    for entry in entries.filter(|entry| entry.identity.inode != 0) {
        let (parent, leaf) = place(root, page, entry);
        let meta = source.open_dir(&parent).and_then(|dir| source.stat(&dir, &leaf));
        let Some(meta) = meta.ok().filter(|meta| is_alike(entry, meta)) else { continue };
        if entry.identity.ctime != meta.ctime {
            continue;
        }
        match entry.identity.inode == meta.inode {
            true => same += 1,
            false => other += 1,
        }
        if same + other >= LOOKED_AT {
            break;
        }
    }
    same > 0 || other == 0
}

/// The result of comparing some entries of a page with the store.
#[derive(Default)]
struct Comparison {
    looked: usize,
    same: usize,
    /// An entry is the same except for its inode number.
    other_inodes: bool,
}

fn compare(source: &Source, root: &[u8], page: &Page, looks: usize) -> Comparison {
    // An entry that another peer has listed may have no inode number: only the others show whether
    // numbers are the same.
    let numbered = page.entries().iter().filter(|entry| entry.identity.inode != 0).count();
    let tells = |entry: &&Entry| numbered == 0 || entry.identity.inode != 0;
    let count = if numbered == 0 { page.entries().len() } else { numbered };
    let step = count.div_ceil(looks).max(1);
    let mut found = Comparison::default();
    for entry in page.entries().iter().filter(tells).step_by(step) {
        found.looked += 1;
        let (parent, leaf) = place(root, page, entry);
        let meta = source.open_dir(&parent).and_then(|dir| source.stat(&dir, &leaf));
        let Some(meta) = meta.ok().filter(|meta| is_alike(entry, meta)) else { continue };
        found.same += 1;
        let identity = entry.identity;
        found.other_inodes |=
            identity.ctime == meta.ctime && identity.inode != 0 && identity.inode != meta.inode;
    }
    found
}

/// Returns whether something matches its listed entry, its inode left aside.
fn is_alike(entry: &Entry, meta: &Meta) -> bool {
    let sizes = entry.kind != EntryKind::File || entry.size == meta.size;
    let kinds = match entry.kind {
        EntryKind::HardLink => true,
        kind => meta.kind.entry_kind() == Some(kind),
    };
    kinds && sizes && entry.mtime == meta.mtime
}
