//! The facts about an entry: its kind, its attributes, its place in a listing.

use penstock_proto::attributes::{DeviceNumber, Owner};
use penstock_proto::manifest::{EntryKind, Identity};
use penstock_proto::name::Own;
use penstock_proto::units::FileTime;

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A socket, which is never carried; or a device or pipe, where only that much is known.
    Other,
}

impl Kind {
    /// Returns the kind in a manifest; `None` for entries that manifests do not carry.
    pub fn entry_kind(self) -> Option<EntryKind> {
        match self {
            Self::File => Some(EntryKind::File),
            Self::Directory => Some(EntryKind::Directory),
            Self::Symlink => Some(EntryKind::Symlink),
            Self::Fifo => Some(EntryKind::Fifo),
            Self::CharDevice => Some(EntryKind::CharDevice),
            Self::BlockDevice => Some(EntryKind::BlockDevice),
            Self::Other => None,
        }
    }

    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Directory => "a directory",
            Self::Symlink => "a link",
            Self::Fifo => "a pipe",
            Self::CharDevice | Self::BlockDevice => "a device",
            Self::Other => "a device, pipe or socket",
        }
    }
}

/// The attributes of a file, directory or link from statx(2); links are never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The kind of entry.
    pub kind: Kind,
    /// Size in bytes, of a link the length of its target.
    pub size: u64,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// User and group.
    pub owner: Owner,
    /// The device, if the entry is one; zeros for all others.
    pub special: DeviceNumber,
    /// Time of last modification of the content.
    pub mtime: FileTime,
    /// Time of last change of content or attributes.
    pub ctime: FileTime,
    /// Inode number.
    pub inode: u64,
    /// Space allocated, in units of 512 bytes, for any block size of the file system.
    pub blocks: u64,
    /// Number of names.
    pub links: u32,
    /// Number of the device that it lies on; differs between hosts, so it is no part of an identity
    /// (C1).
    pub device: u64,
    /// Set if the kernel generates the content at each read, as in `/proc`: size and stamps then
    /// prove nothing about it. Known only once the file was measured
    /// ([`crate::ReadFile::measured`]).
    pub made: bool,
}

impl Meta {
    /// Returns the identity that distinguishes this version from another (C1), besides size and
    /// mtime.
    pub fn identity(&self) -> Identity {
        Identity { inode: self.inode, ctime: self.ctime }
    }

    /// Returns whether less space is allocated than the size needs, so that holes are likely. It is
    /// also true of files that the file system compresses or keeps in their inode.
    pub fn is_sparse(&self) -> bool {
        self.kind == Kind::File && self.blocks.saturating_mul(512) < self.size
    }

    /// Returns whether the file is larger than [`HOLLOW_BYTES_MIN`] and not a hundredth of its
    /// holes is allocated. Hashing zeros for these would take more than a hundred times as long as
    /// its data (D2).
    pub fn is_hollow(&self) -> bool {
        let data = self.blocks.saturating_mul(512);
        let holes = self.size.saturating_sub(data);
        self.is_sparse() && self.size > HOLLOW_BYTES_MIN && holes > data.saturating_mul(100)
    }
}

/// Below this hashing all of a file takes a tenth of a second at most, and its holes do not matter.
pub const HOLLOW_BYTES_MIN: u64 = 64 << 20;

/// An entry of a directory, as a listing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Its name: one component, any bytes.
    pub name: &'a [u8],
    /// The kind of entry; `None` where the file system does not report it in a listing.
    pub kind: Option<Kind>,
    /// The use of an [own name](penstock_proto::name::own), which is no item; `None` for all
    /// others.
    pub own: Option<Own>,
}
