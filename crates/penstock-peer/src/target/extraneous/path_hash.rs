//! Hashes of paths, by which the lists of the manifest and of the target are joined.

use std::io;
use std::path::Path;

use penstock_api::select::Selection;
use penstock_api::task::TaskSpec;
use penstock_api::update::UpdateOptions;

use crate::task::error::TaskError;

pub(super) type PathHash = [u8; 16];

/// Returns the hash of a path, as a directory's or as that of anything else: they differ in one
/// bit.
pub(super) fn hash_of(path: &[u8], directory: bool) -> PathHash {
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    hash[15] = hash[15] & !1 | u8::from(directory);
    hash
}

/// Returns the hash of the same path as the other kind of entry.
pub(super) fn other_kind(mut hash: PathHash) -> PathHash {
    hash[15] ^= 1;
    hash
}

pub(super) fn spill_failed(path: &Path, source: io::Error) -> TaskError {
    TaskError::Spill { path: path.to_owned(), source }
}

/// Hashes of paths that are kept in memory at a time: some 48 MiB.
pub(super) const HASHES_MAX: u64 = 1 << 20;

/// The parts of a task that finding needs.
#[derive(Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) root: &'a [u8],
    pub(super) update: &'a UpdateOptions,
    pub(super) select: &'a Selection,
}

impl<'a> Wish<'a> {
    pub(super) fn of(spec: &'a TaskSpec) -> Self {
        Self { root: &spec.root.0, update: &spec.update, select: &spec.select }
    }
}
