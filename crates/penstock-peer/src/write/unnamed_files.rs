//! Finished files that have no name yet, until their piece gets its names.
//!
//! A small file whose name waits for no disk is written without one
//! (`penstock_store::Nameless`). Its lane hands the file over with the answer, and the
//! publisher names it when the epoch is over. A file that is dropped here is gone, like a removed
//! temporary file: the publisher reports to the ledger that it must be fetched again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use penstock_api::task::TaskSpec;
use penstock_api::transfer::Durability;
use penstock_engine::epoch::EpochLimits;
use penstock_engine::fetch::Item;
use penstock_proto::slicing::PieceRef;
use penstock_store::{Nameless, nameless_max};

/// The pages of a task whose small files are made without names.
///
/// A file under a temporary name is always of the last attempt at it (B1), so that it has the bytes
/// that the ledger counts as written. A page in which one file has such a name therefore gets no
/// more files without. The same holds for a task that follows another of its transfer. Both make
/// the temporary file anew where an earlier attempt may have left one.
#[derive(Debug)]
pub(crate) struct NamedLater {
    allowed: AtomicBool,
    /// Set if there is any page in `pages`.
    any: AtomicBool,
    pages: Mutex<BTreeSet<u32>>,
}

impl NamedLater {
    /// Creates the rule of a task, which `follows` another of its transfer or does not.
    pub(crate) fn of(spec: &TaskSpec, follows: bool) -> Self {
        let synced = spec.durability == Durability::Fsync;
        Self::new(!follows && !synced && spec.update.backup_dir.is_none())
    }

    pub(crate) fn new(allowed: bool) -> Self {
        Self { allowed: allowed.into(), any: AtomicBool::new(false), pages: Mutex::default() }
    }

    /// Returns whether files of this page are made without names.
    pub(crate) fn is_for(&self, page: u32) -> bool {
        let pages = || self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        self.allowed.load(Ordering::Relaxed)
            && !(self.any.load(Ordering::Acquire) && pages().contains(&page))
    }

    /// Notes that a file of this page is about to get a temporary name.
    pub(crate) fn end_in(&self, page: u32) {
        if self.allowed.load(Ordering::Relaxed) {
            self.pages.lock().unwrap_or_else(PoisonError::into_inner).insert(page);
            self.any.store(true, Ordering::Release);
        }
    }

    /// Makes no more files without names: their names would wait for a disk.
    pub(crate) fn end(&self) {
        self.allowed.store(false, Ordering::Relaxed);
    }
}

/// Returns the limits of epochs. Where fewer files than usual may lack a name, epochs are smaller:
/// while the files of one wait for their sync, those of the next are written. Where another
/// controller may take over (`elected`), no first epoch is short. A sync that is refused at the end
/// of a tenure costs the reports that the peer keeps for the next controller (A7).
pub(crate) fn epoch_limits(elected: bool) -> EpochLimits {
    let limits = EpochLimits::default();
    let first_age = if elected { limits.age } else { limits.first_age };
    let nameless = limits.nameless.min(nameless_max() as u64 / 2);
    EpochLimits { nameless, first_age, ..limits }
}

/// Files without a name that arrived with one answer, by ascending entries.
pub(crate) type NamelessFiles = Vec<(u32, Nameless)>;

/// Files of a task without names, by piece; bounded by `penstock_store::nameless_max`.
#[derive(Debug, Default)]
pub(crate) struct UnnamedFiles(BTreeMap<PieceRef, NamelessFiles>);

impl UnnamedFiles {
    /// Takes the files that arrived with an answer to `item`. Files of an earlier answer for the
    /// same entries are dropped: each entry has one file (B1).
    pub(crate) fn put(&mut self, item: &Item, files: NamelessFiles) {
        let entries = item.first_entry..item.end_entry;
        if let Some(known) = self.0.get_mut(&item.piece) {
            known.retain(|(entry, _)| !entries.contains(entry));
        }
        if !files.is_empty() {
            self.0.entry(item.piece).or_default().extend(files);
        }
    }

    /// Returns the number of files of a piece that have no name.
    pub(crate) fn count(&self, piece: PieceRef) -> u64 {
        self.0.get(&piece).map_or(0, |files| files.len() as u64)
    }

    /// Gives the files of a piece, to be named.
    pub(crate) fn take(&mut self, piece: PieceRef) -> HeldPack {
        let mut files = self.0.remove(&piece).unwrap_or_default();
        files.sort_by_key(|(entry, _)| *entry);
        HeldPack(files.into_iter().peekable())
    }

    /// Gives up all: they are not to be believed any more (A4).
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The files of one piece that have no name.
pub(crate) struct HeldPack(std::iter::Peekable<std::vec::IntoIter<(u32, Nameless)>>);

impl HeldPack {
    /// Returns the file of `entry`, if it has no name. Call it for ascending entries.
    pub(crate) fn file_of(&mut self, entry: u32) -> Option<Nameless> {
        while self.0.next_if(|(held, _)| *held < entry).is_some() {}
        self.0.next_if(|(held, _)| *held == entry).map(|(_, file)| file)
    }
}
