//! Kinds of file systems.

use std::os::fd::AsFd;
use std::{fmt, io};

use rustix::fs::fstatfs;

/// The kind of a file system, by `f_type` of statfs(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant is the name of the file system")]
pub enum FileSystemKind {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
    Overlay,
    Nfs,
    Smb,
    Lustre,
    Gpfs,
    Ceph,
    BeeGfs,
    Fuse,
    /// Any other, with its `f_type`.
    Other(u32),
}

impl FileSystemKind {
    /// Returns the kind with this `f_type` (linux/magic.h; GPFS, Lustre and BeeGFS from their
    /// clients).
    pub fn from_f_type(f_type: u32) -> Self {
        match f_type {
            0xEF53 => Self::Ext4,
            0x5846_5342 => Self::Xfs,
            0x9123_683E => Self::Btrfs,
            0x0102_1994 => Self::Tmpfs,
            0x794C_7630 => Self::Overlay,
            0x6969 => Self::Nfs,
            0xFE53_4D42 | 0xFF53_4D42 => Self::Smb,
            0x0BD0_0BD0 => Self::Lustre,
            0x4750_4653 => Self::Gpfs,
            0x00C3_6400 => Self::Ceph,
            0x1983_0326 => Self::BeeGfs,
            0x6573_5546 => Self::Fuse,
            other => Self::Other(other),
        }
    }

    /// Returns the kind of the file system that `fd` is on.
    ///
    /// # Errors
    /// Those of fstatfs(2).
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self::from_f_type(fstatfs(fd)?.f_type as u32))
    }

    /// Returns whether attributes may come from a cache that other hosts do not see. A stamp must
    /// then be requested from the server (C1), and a writer's flush may move a stamp set by another
    /// (B2).
    pub fn is_network(self) -> bool {
        let local = matches!(
            self,
            Self::Ext4 | Self::Xfs | Self::Btrfs | Self::Tmpfs | Self::Overlay | Self::Other(_)
        );
        !local
    }
}

impl fmt::Display for FileSystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "XFS",
            Self::Btrfs => "Btrfs",
            Self::Tmpfs => "tmpfs",
            Self::Overlay => "overlayfs",
            Self::Nfs => "NFS",
            Self::Smb => "SMB",
            Self::Lustre => "Lustre",
            Self::Gpfs => "GPFS",
            Self::Ceph => "CephFS",
            Self::BeeGfs => "BeeGFS",
            Self::Fuse => "FUSE",
            Self::Other(f_type) => return write!(f, "file system 0x{f_type:x}"),
        };
        f.write_str(text)
    }
}
