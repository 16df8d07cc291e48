//! The write-back of large files: it starts soon, so that the sync of an epoch finds little left to
//! do. The page cache then does not fill with data that is not read again (docs/design/0006).
//!
//! The calls are advice: they make nothing durable, can fail without harm, and hide no failure. An
//! error of write-back stays with the file and the file system until the next sync reports it (A4).

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use penstock_sys::FileSystemKind;
use rustix::fs::{Advice, fadvise};

/// Bytes of a file after which its write-back is started. 8 and 32 MiB were as good.
const WINDOW_BYTES: u64 = 16 * 1024 * 1024;

/// The time at which data written to a store starts on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writeback {
    /// After every 16 MiB of a file, which leave the page cache once they are written.
    Early,
    /// At the time when the kernel or a sync requires it.
    Lazy,
}

impl Writeback {
    /// Returns the best choice for a file system. Memory has no disk behind it. Network file
    /// systems, which have rules of their own, were not measured.
    pub(crate) fn of(kind: FileSystemKind) -> Self {
        match kind {
            FileSystemKind::Ext4 | FileSystemKind::Xfs | FileSystemKind::Btrfs => Self::Early,
            _ => Self::Lazy,
        }
    }
}

/// Counts the bytes written to one file, by all its writers, and starts write-back.
#[derive(Debug, Default)]
pub(crate) struct Window {
    written: AtomicU64,
    refused: AtomicBool,
}

impl Window {
    /// Counts another `bytes` that were written to `fd`. Blocks while the disk's queue is full.
    pub(crate) fn note(&self, fd: impl AsFd, bytes: u64) {
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        let crossed = before / WINDOW_BYTES != (before + bytes) / WINDOW_BYTES;
        if !crossed || self.refused.load(Ordering::Relaxed) {
            return;
        }
        // Linux starts to write the dirty pages of the range back, which is the whole file, drops
        // the clean ones, and waits for neither (mm/fadvise.c). Pages on their way go next time.
        if let Err(errno) = fadvise(fd, 0, None, Advice::DontNeed) {
            self.refused.store(true, Ordering::Relaxed);
            tracing::debug!(%errno, "no early write-back: the system refuses advice");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: early write-back is for disks only.
    #[test]
    fn each_file_system_has_its_way() {
        use FileSystemKind as Kind;
        for disk in [Kind::Ext4, Kind::Xfs, Kind::Btrfs] {
            assert_eq!(Writeback::of(disk), Writeback::Early);
        }
        for other in [Kind::Tmpfs, Kind::Nfs, Kind::Lustre, Kind::Fuse, Kind::Other(1)] {
            assert_eq!(Writeback::of(other), Writeback::Lazy);
        }
    }

    /// Promise: a system that refuses the advice is not asked again for this file, and no write
    /// fails. Before a window is full, no call is made.
    #[test]
    fn refused_advice_is_given_up() {
        let (_reader, pipe) = rustix::pipe::pipe().unwrap();
        let window = Window::default();
        window.note(&pipe, WINDOW_BYTES - 1);
        assert!(!window.refused.load(Ordering::Relaxed));
        window.note(&pipe, 1);
        assert!(window.refused.load(Ordering::Relaxed));
        window.note(&pipe, 5 * WINDOW_BYTES);
    }
}
