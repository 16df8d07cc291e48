//! The generated data set and the answers of its source.
//!
//! Bytes are symbolic: a *cell* of 256 KiB of a file is one number that encodes file, version and
//! place, so that any mixture, hole or shift shows when cells are compared.

use penstock_engine::fetch::Part;
use penstock_proto::digest::Digest;
use penstock_proto::id::TransferId;
use penstock_proto::journal::{DigestForm, EntryDigest};
use penstock_proto::manifest::{EntryDraft, EntryKind, Identity, Page, PageBuilder, page_digest};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::{FileTime, KIB, MIB};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// Bytes of a file that one cell represents.
pub(crate) const CELL_BYTES: u64 = 256 * KIB;

/// An entry at the source, in its present state.
#[derive(Clone, Debug)]
pub(crate) struct SourceEntry {
    pub(crate) id: u32,
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    /// The present version; the scan saw version 1.
    pub(crate) version: u16,
    pub(crate) present: bool,
    pub(crate) denied: bool,
    /// True if reading it fails more often than it is tried.
    pub(crate) unreadable: bool,
    /// True if the target cannot name the file.
    pub(crate) unnameable: bool,
}

impl SourceEntry {
    /// Returns the cells of version `version`.
    pub(crate) fn cells(&self, version: u16) -> Vec<u64> {
        (0..self.size.div_ceil(CELL_BYTES)).map(|at| cell(self.id, version, at)).collect()
    }
}

fn cell(id: u32, version: u16, at: u64) -> u64 {
    u64::from(id) << 32 | u64::from(version) << 16 | (at + 1)
}

/// The version of everything that the scan saw.
pub(crate) const SCANNED: u16 = 1;

/// Result of the scan, and the present state of the source.
#[derive(Debug)]
pub(crate) struct DataSet {
    pub(crate) pages: Vec<(Page, Digest)>,
    pub(crate) entries: Vec<Vec<SourceEntry>>,
}

impl DataSet {
    /// Generates a few to some dozen files in small pages, with directories and links.
    pub(crate) fn generate(rng: &mut ChaCha8Rng, trouble: bool) -> Self {
        let slicing = Slicing {
            stride_bytes: 16 * KIB as u32,
            extent_bytes: MIB,
            pack_bytes: MIB,
            pack_files: 16,
            ..Slicing::default()
        };
        let mut data = Self { pages: Vec::new(), entries: Vec::new() };
        let mut id = 0;
        for number in 0..rng.random_range(1..16u32) {
            let mut builder = PageBuilder::new(TransferId([7; 16]), number, slicing);
            let mut entries = Vec::new();
            for _ in 0..rng.random_range(1..12) {
                let entry = Self::entry(rng, id, trouble);
                id += 1;
                let name = format!("n{}", entry.id);
                let link: &[u8] = match entry.kind {
                    EntryKind::Symlink | EntryKind::HardLink => b"away",
                    _ => b"",
                };
                let draft = EntryDraft {
                    name: name.as_bytes(),
                    kind: entry.kind,
                    size: entry.size,
                    mtime: FileTime { seconds: i64::from(SCANNED), nanoseconds: 0 },
                    identity: Identity { inode: u64::from(entry.id), ..Identity::default() },
                    link,
                    ..EntryDraft::default()
                };
                builder.push(b"", &draft);
                entries.push(entry);
            }
            let page = builder.seal();
            let digest = page_digest(&page.encode());
            data.pages.push((page, digest));
            data.entries.push(entries);
        }
        data
    }

    fn entry(rng: &mut ChaCha8Rng, id: u32, trouble: bool) -> SourceEntry {
        let kind = match rng.random_range(0..12) {
            0 => EntryKind::Directory,
            1 => EntryKind::Symlink,
            2 => EntryKind::HardLink,
            _ => EntryKind::File,
        };
        let size = match (kind, rng.random_range(0..10)) {
            (EntryKind::File, 0) => 0,
            (EntryKind::File, 1..6) => rng.random_range(1..60 * KIB),
            (EntryKind::File, 6) => rng.random_range(1..=MIB),
            (EntryKind::File, 7) => MIB,
            (EntryKind::File, _) => rng.random_range(MIB + 1..6 * MIB),
            _ => 0,
        };
        let mut odd = |one_in: u32| trouble && rng.random_range(0..one_in) == 0;
        SourceEntry {
            id,
            kind,
            size,
            version: SCANNED,
            present: !odd(40),
            denied: odd(40),
            unreadable: odd(40),
            unnameable: odd(30),
        }
    }

    pub(crate) fn entry_of(&self, page: u32, entry: u32) -> &SourceEntry {
        &self.entries[page as usize][entry as usize]
    }

    pub(crate) fn page(&self, number: u32) -> &Page {
        &self.pages[number as usize].0
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.iter().map(Vec::len).sum()
    }

    /// Returns a random entry that is a file, if one was drawn.
    pub(crate) fn random_file(&mut self, rng: &mut ChaCha8Rng) -> Option<(u32, u32)> {
        let page = rng.random_range(0..self.entries.len());
        let entry = rng.random_range(0..self.entries[page].len());
        let file = self.entries[page][entry].kind == EntryKind::File;
        file.then_some((page as u32, entry as u32))
    }
}

/// Returns a substitute for the digest of these cells.
pub(crate) fn digest_of(entry: u32, cells: &[u64]) -> EntryDigest {
    let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
    EntryDigest { entry, form: DigestForm::Standard, digest: page_digest(&bytes), seen: None }
}

/// Returns a substitute for the digest of a stride: the cell itself.
pub(crate) fn stride_of(cell: u64) -> Digest {
    let mut digest = Digest::default();
    digest.0[..8].copy_from_slice(&cell.to_le_bytes());
    digest
}

/// Returns the cells of an extent, from its parts in order.
pub(crate) fn cells_of_parts(parts: &[Part]) -> Vec<u64> {
    let strides = parts.iter().flat_map(|part| &part.strides);
    let cell = |digest: &Digest| digest.0.first_chunk().map_or(0, |cell| u64::from_le_bytes(*cell));
    strides.map(cell).collect()
}

/// Returns the cells that the bytes `offset..offset + length` fill.
pub(crate) fn cells_of(offset: u64, length: u64) -> std::ops::Range<usize> {
    (offset / CELL_BYTES) as usize..(offset + length).div_ceil(CELL_BYTES) as usize
}
