//! How far a lock excludes others, by the file system and its mount.

use std::fs::File;

use crate::files::{FileSystemKind, mount_options};

/// `f_type` of further file systems that one kernel mounts at a time: F2FS, bcachefs, ZFS, ramfs,
/// FAT, JFS.
const LOCAL: [u32; 6] = [0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1, 0x8584_58f6, 0x4d44, 0x3153_464a];

/// The processes that a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockSort {
    /// The process holds no lock.
    None,
    /// All processes that reach the file reach it through this kernel.
    Local,
    /// The server keeps it for all hosts that mount the file system in this way.
    Server,
    /// The lock may exclude processes of this host only.
    Unproven,
}

impl LockSort {
    /// Returns the sort of a lock on `file`. Blocks while the table of mounts is read.
    pub(super) fn of(file: &File) -> Self {
        let Ok(kind) = FileSystemKind::of(file) else { return Self::Unproven };
        let options = || mount_options(file).unwrap_or_default();
        let has = |options: &str, wanted: &[&str]| {
            options.split([',', ' ']).any(|option| wanted.contains(&option))
        };
        match kind {
            FileSystemKind::Ext4
            | FileSystemKind::Xfs
            | FileSystemKind::Btrfs
            | FileSystemKind::Tmpfs
            | FileSystemKind::Overlay => Self::Local,
            FileSystemKind::Other(f_type) if LOCAL.contains(&f_type) => Self::Local,
            FileSystemKind::Nfs if has(&options(), &["local_lock=none"]) => Self::Server,
            FileSystemKind::Lustre if has(&options(), &["flock"]) => Self::Server,
            FileSystemKind::Gpfs | FileSystemKind::Ceph => Self::Server,
            _ => Self::Unproven,
        }
    }

    /// Returns whether a process that gets such a lock knows that no other one holds one of this
    /// sort.
    pub(super) fn excludes(self) -> bool {
        matches!(self, Self::Local | Self::Server)
    }

    /// Returns the sort as the name of a claim has it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local => "local",
            Self::Server => "server",
            Self::Unproven => "unproven",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let sorts = [Self::None, Self::Local, Self::Server, Self::Unproven];
        sorts.into_iter().find(|sort| sort.text() == text)
    }
}
