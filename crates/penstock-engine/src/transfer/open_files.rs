//! Large files that are begun and not finished: their number is bounded (E3). Files that have to
//! wait are put aside, so that a finished file costs only the extents of the file that takes its
//! place, however many wait.

use std::collections::BTreeMap;

use super::window::WindowLimits;

/// A large file by page and finish piece.
type File = (u32, u32);

/// The large files that are begun, and those that wait until they may be.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    pub(super) sizes: BTreeMap<File, u64>,
    pub(super) bytes: u64,
    /// Waiting files; some of them may have been started since.
    pub(super) waiting: Vec<File>,
}

impl OpenFiles {
    /// Records a file as begun; a repetition does not change anything.
    pub(super) fn insert(&mut self, file: File, bytes: u64) {
        let before = self.sizes.insert(file, bytes);
        self.bytes += bytes - before.unwrap_or(0);
    }

    pub(super) fn remove(&mut self, file: File) {
        self.bytes -= self.sizes.remove(&file).unwrap_or(0);
    }

    /// Returns whether a file of `bytes` may be begun beside these and `more`, which are files and
    /// bytes. A first file may be begun in any case.
    pub(super) fn has_room(&self, more: (usize, u64), bytes: u64, limits: &WindowLimits) -> bool {
        let (files, known) = (self.sizes.len() + more.0, self.bytes + more.1);
        files == 0 || (files < limits.files && known.saturating_add(bytes) <= limits.file_bytes)
    }

    /// Returns whether files wait for others to be finished.
    pub(super) fn holds_back(&self) -> bool {
        !self.waiting.is_empty()
    }
}
