//! Bounds of the work in progress.

use penstock_proto::units::{GIB, MIB};

/// Number of peers whose bounds of the controller's memory are added up; more peers share these.
const WINDOWS_MAX: usize = 32;

/// Bounds of the work in progress at a time: of one peer, and with [`WindowLimits::of_peers`] of
/// all that share a transfer.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// Open pages; each costs some tens of KiB.
    pub pages: usize,
    /// Pieces of open pages that are not settled; each costs some 130 bytes.
    pub pieces: usize,
    /// Bytes that can be handed out before another page is opened.
    pub ahead_bytes: u64,
    /// Large files begun and not finished (E3).
    pub files: usize,
    /// Bytes of large files begun and not finished (E3).
    pub file_bytes: u64,
}

impl Default for WindowLimits {
    fn default() -> Self {
        Self {
            pages: 1024,
            pieces: 256 * 1024,
            ahead_bytes: 256 * MIB,
            files: 256,
            file_bytes: 64 * GIB,
        }
    }
}

impl WindowLimits {
    /// Returns the bounds of `count` peers together: so many times as much. Bounds of memory here,
    /// pages and pieces, do not grow beyond those of 32 peers (promise (g)).
    #[must_use]
    pub fn of_peers(self, count: usize) -> Self {
        let count = count.max(1);
        let windows = count.min(WINDOWS_MAX);
        Self {
            pages: self.pages.saturating_mul(windows),
            pieces: self.pieces.saturating_mul(windows),
            ahead_bytes: self.ahead_bytes.saturating_mul(count as u64),
            files: self.files.saturating_mul(count),
            file_bytes: self.file_bytes.saturating_mul(count as u64),
        }
    }
}
