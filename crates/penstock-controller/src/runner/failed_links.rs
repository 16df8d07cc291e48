//! Files with several names of which the first failed. No further name of such a file may link to
//! the entry under the first name, which may be an older file of the same size (B6, promise (c)).

use std::collections::HashSet;

use penstock_api::heads::PageHead;
use penstock_api::problem::Problem;
use penstock_proto::manifest::EntryKind;

use super::control::Shared;
use super::outcome::{amended_entries, failed_entries};

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
    /// Reads the logs of the pages in which anything has failed: their failures are committed, and
    /// no file is waited for any more. Where there are `amended` entries, the logs of all pages: a
    /// first name that has come in a newer version may be another file by now.
    ///
    /// # Errors
    /// The journal store cannot be read.
    pub(super) fn read(
        shared: &Shared,
        heads: &[PageHead],
        amended: bool,
    ) -> Result<Self, Problem> {
        let mut found = Self::default();
        for head in heads.iter().filter(|head| head.failures > 0 || amended) {
            let page = shared.read_page(head.page)?;
            let log = shared.journal().read_log(head.page, head.log_bytes)?.0;
            for index in failed_entries(&page, &log).into_iter().chain(amended_entries(&log)) {
                let Ok(entry) = page.page.entry(index) else { continue };
                if entry.linked && entry.kind != EntryKind::HardLink {
                    found.add(&page.page.path(entry));
                }
            }
        }
        Ok(found)
    }

    /// Returns whether no first name of a file has failed.
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.too_many
    }

    fn add(&mut self, path: &[u8]) {
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
