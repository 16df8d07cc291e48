//! Cuts a page into pieces: the same page yields the same pieces, everywhere and for ever (A10).
//!
//! Files that are not larger than an extent travel whole, packed together in the order of the page
//! (so that a directory's files remain together). Larger ones are cut into aligned extents,
//! followed by one *finish* piece, which is never fetched: it represents the file's attributes and
//! name. Directories and links are no pieces; they are made once all files are there.

use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::KIB;

/// Least weight of a piece in bytes: opening and naming files costs as well.
const PIECE_WORTH: u64 = 64 * KIB;

/// A unit of work, verification, repair and resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The whole files among the entries `first..end`.
    Pack {
        /// First entry.
        first: u32,
        /// Index behind the last entry.
        end: u32,
        /// Number of files.
        files: u32,
        /// Sum of their sizes.
        bytes: u64,
    },
    /// A range of one large file.
    Extent {
        /// Index of the file's entry.
        entry: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// Attributes and name of a large file.
    Finish {
        /// Index of the file's entry.
        entry: u32,
    },
}

impl Piece {
    /// Returns the bytes of payload.
    pub fn bytes(&self) -> u64 {
        match *self {
            Self::Pack { bytes, .. } => bytes,
            Self::Extent { length, .. } => length,
            Self::Finish { .. } => 0,
        }
    }

    /// Returns the number of files that are complete once the piece is.
    pub fn files(&self) -> u32 {
        match *self {
            Self::Pack { files, .. } => files,
            Self::Extent { .. } => 0,
            Self::Finish { .. } => 1,
        }
    }

    /// Returns the weight of the piece in bytes when work is shared out: its payload, at least
    /// `PIECE_WORTH`; 0 for a finish.
    pub(crate) fn worth(&self) -> u64 {
        match self {
            Self::Finish { .. } => 0,
            Self::Pack { .. } | Self::Extent { .. } => self.bytes().max(PIECE_WORTH),
        }
    }
}

/// Returns whether an entry's bytes travel in a pack.
pub fn travels_whole(slicing: &Slicing, entry: &Entry) -> bool {
    entry.kind == EntryKind::File && !slicing.is_split(entry.size)
}

/// Cuts `page`. Takes time and memory in proportion to its entries and extents.
pub fn slice(page: &Page) -> Vec<Piece> {
    slice_without(page, &EntrySet::default())
}

/// Cuts `page` without the entries `left`, which stay as they are at the target: a pack ends at
/// such a small file, so that it contains every file between its first and its last entry.
pub fn slice_without(page: &Page, left: &EntrySet) -> Vec<Piece> {
    let slicing = &page.slicing;
    let mut pieces = Vec::new();
    let mut pack: Option<(u32, u32, u32, u64)> = None;
    let close = |pack: &mut Option<(u32, u32, u32, u64)>, pieces: &mut Vec<Piece>| {
        if let Some((first, end, files, bytes)) = pack.take() {
            pieces.push(Piece::Pack { first, end, files, bytes });
        }
    };
    for (index, entry) in page.entries().iter().enumerate() {
        let index = index as u32;
        if entry.kind != EntryKind::File {
            continue;
        }
        if left.contains(index) {
            if travels_whole(slicing, entry) {
                close(&mut pack, &mut pieces);
            }
            continue;
        }
        if slicing.is_split(entry.size) {
            push_extents(index, entry.size, slicing, &mut pieces);
            continue;
        }
        let full = pack.is_some_and(|(_, _, files, bytes)| {
            files >= slicing.files_per_pack() || bytes + entry.size > slicing.pack_bytes
        });
        if full {
            close(&mut pack, &mut pieces);
        }
        let (first, _, files, bytes) = pack.unwrap_or((index, index, 0, 0));
        pack = Some((first, index + 1, files + 1, bytes + entry.size));
    }
    close(&mut pack, &mut pieces);
    // The pieces are kept for as long as the page is open.
    pieces.shrink_to_fit();
    pieces
}

fn push_extents(entry: u32, size: u64, slicing: &Slicing, pieces: &mut Vec<Piece>) {
    let extent = slicing.extent_bytes_of(size);
    let mut offset = 0;
    while offset < size {
        let length = extent.min(size - offset);
        debug_assert!(length > 0, "an extent of no bytes would be cut for ever");
        pieces.push(Piece::Extent { entry, offset, length });
        offset += length;
    }
    pieces.push(Piece::Finish { entry });
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use penstock_proto::id::TransferId;
    use penstock_proto::manifest::{EntryDraft, PageBuilder};
    use penstock_proto::units::MIB;
    use proptest::prelude::*;

    pub(crate) fn page_of(number: u32, slicing: Slicing, sizes: &[u64]) -> Page {
        let mut builder = PageBuilder::new(TransferId([1; 16]), number, slicing);
        for (index, size) in sizes.iter().enumerate() {
            let name = format!("p{number}-f{index}");
            let draft = EntryDraft { name: name.as_bytes(), size: *size, ..EntryDraft::default() };
            builder.push(b"", &draft);
        }
        builder.seal()
    }

    proptest! {
        /// Promise (c): for any sizes, every byte of every file that is not left out is in exactly
        /// one piece, and no byte of the others is.
        #[test]
        fn pieces_cover_every_byte_once(
            sizes in proptest::collection::vec(
                prop_oneof![0u64..5000, 0u64..40 * MIB, 0u64..(1 << 33)], 0..20),
            pack_files in 1u32..10,
            left in proptest::collection::btree_set(0u32..20, 0..20),
        ) {
            let slicing = Slicing { pack_files, ..Slicing::default() };
            let page = page_of(0, slicing, &sizes);
            let there = |at: &u32| (*at as usize) < sizes.len();
            let left: EntrySet = left.into_iter().filter(there).collect();
            let mut covered = vec![0u64; sizes.len()];
            let mut finished = vec![0u32; sizes.len()];
            for piece in slice_without(&page, &left) {
                match piece {
                    Piece::Pack { first, end, files, bytes } => {
                        let inside: Vec<u32> = (first..end)
                            .filter(|at| travels_whole(&slicing, &page.entries()[*at as usize]))
                            .collect();
                        prop_assert_eq!(inside.len() as u32, files);
                        prop_assert!(files <= pack_files);
                        prop_assert!(files == 1 || bytes <= slicing.pack_bytes);
                        for at in inside {
                            covered[at as usize] += sizes[at as usize];
                            finished[at as usize] += 1;
                        }
                    }
                    Piece::Extent { entry, offset, length } => {
                        prop_assert_eq!(offset, covered[entry as usize]);
                        prop_assert!(length > 0);
                        covered[entry as usize] += length;
                    }
                    Piece::Finish { entry } => finished[entry as usize] += 1,
                }
            }
            for at in 0..sizes.len() {
                let moved = !left.contains(at as u32);
                prop_assert_eq!(covered[at], if moved { sizes[at] } else { 0 });
                prop_assert_eq!(finished[at], u32::from(moved));
            }
        }
    }
}
