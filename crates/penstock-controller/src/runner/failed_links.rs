//! Files with several names of which the first failed. No further name of such a file may link to
//! the entry under the first name, which may be an older file of the same size (B6, promise (c)).

use std::collections::HashSet;

/// Paths that are kept: some 32 MiB. If more have failed, all count as failed.
const PATHS_MAX: usize = 1 << 20;

/// First names that have failed, by the hash of their path.
#[derive(Debug, Default)]
pub(crate) struct FailedLinks {
    paths: HashSet<[u8; 16]>,
    too_many: bool,
}

fn hash(path: &[u8]) -> [u8; 16] {
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    hash
}

impl FailedLinks {
    /// Returns whether no first name of a file has failed.
    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.too_many
    }

    /// Adds the first name of a file that has failed.
    pub(crate) fn add(&mut self, path: &[u8]) {
        self.too_many |= self.paths.len() >= PATHS_MAX;
        if !self.too_many {
            self.paths.insert(hash(path));
        }
    }

    /// Returns whether the file that has `path` as its first name has failed.
    pub(crate) fn hold(&self, path: &[u8]) -> bool {
        self.too_many || !self.paths.is_empty() && self.paths.contains(&hash(path))
    }
}
