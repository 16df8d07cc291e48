//! Finished files that have no name yet, until their piece gets its names.
//!
//! A small file whose name waits for no disk is written without one
//! (`penstock_io::store::Nameless`); its lane hands it over with the answer, and the publisher
//! gives it its name when the epoch is over. What is dropped here is gone, as a temporary file is
//! that is removed: the ledger learns from the publisher that it is to be fetched again.

use std::collections::BTreeMap;

use penstock_engine::fetch::Item;
use penstock_io::store::Nameless;
use penstock_proto::slicing::PieceRef;

/// Files without a name that one answer brought, by ascending entries.
pub(crate) type NamelessFiles = Vec<(u32, Nameless)>;

/// Those of a task, by piece; bounded by `penstock_io::store::nameless_max`.
#[derive(Debug, Default)]
pub(crate) struct Held(BTreeMap<PieceRef, NamelessFiles>);

impl Held {
    /// Takes what an answer to `item` has brought. What an earlier answer brought of the same
    /// entries goes: each has one file (B1).
    pub(crate) fn put(&mut self, item: &Item, files: NamelessFiles) {
        let entries = item.first_entry..item.end_entry;
        if let Some(known) = self.0.get_mut(&item.piece) {
            known.retain(|(entry, _)| !entries.contains(entry));
        }
        if !files.is_empty() {
            self.0.entry(item.piece).or_default().extend(files);
        }
    }

    /// How many files of a piece have no name.
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
    /// That of `entry`, if it has none; to be asked for ascending entries.
    pub(crate) fn file_of(&mut self, entry: u32) -> Option<Nameless> {
        while self.0.next_if(|(held, _)| *held < entry).is_some() {}
        self.0.next_if(|(held, _)| *held == entry).map(|(_, file)| file)
    }
}
