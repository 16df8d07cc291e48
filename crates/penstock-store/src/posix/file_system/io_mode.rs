//! The files that pass the page cache by, and the file systems on which they do.

use penstock_sys::FileSystemKind;
use rustix::fs::Dev;

use crate::posix::file_system::device::wants_collecting;

/// Size in bytes from which on a file is read and written past the page cache, where the store's
/// [`IoMode`] allows it (docs/design/0068).
pub const DIRECT_BYTES_MIN: u64 = 1 << 20;

/// The way in which the bytes of large files reach a store and come from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// Past the page cache where that was measured to be good: writes on ext4, reads on ext4 and
    /// XFS, but for arrays with parity and disks that rotate.
    #[default]
    Auto,
    /// Through the page cache.
    Buffered,
    /// Past the page cache wherever the file system takes that.
    Direct,
}

impl IoMode {
    /// Returns whether direct writes are tried on a file system of this kind on that device.
    pub(crate) fn tries_writes(self, kind: FileSystemKind, device: Dev) -> bool {
        self.tries(kind == FileSystemKind::Ext4, device)
    }

    /// Returns whether direct reads are tried on a file system of this kind on that device.
    pub(crate) fn tries_reads(self, kind: FileSystemKind, device: Dev) -> bool {
        self.tries(matches!(kind, FileSystemKind::Ext4 | FileSystemKind::Xfs), device)
    }

    fn tries(self, is_good: bool, device: Dev) -> bool {
        match self {
            Self::Auto => is_good && !wants_collecting(device),
            Self::Buffered => false,
            Self::Direct => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: by itself a store passes the cache by where that was measured, and an operator may
    /// choose otherwise.
    #[test]
    fn each_file_system_has_its_way() {
        use FileSystemKind as Kind;
        // No device has this number, so it is neither an array nor a disk that rotates.
        let device = 0;
        let of = |io: IoMode, kind| (io.tries_reads(kind, device), io.tries_writes(kind, device));
        assert_eq!(of(IoMode::Auto, Kind::Ext4), (true, true));
        assert_eq!(of(IoMode::Auto, Kind::Xfs), (true, false));
        for kind in [Kind::Tmpfs, Kind::Nfs, Kind::Lustre, Kind::Fuse, Kind::Btrfs] {
            assert_eq!(of(IoMode::Auto, kind), (false, false), "{kind}");
        }
        for kind in [Kind::Ext4, Kind::Xfs, Kind::Nfs] {
            assert_eq!(of(IoMode::Buffered, kind), (false, false), "{kind}");
            assert_eq!(of(IoMode::Direct, kind), (true, true), "{kind}");
        }
    }
}
