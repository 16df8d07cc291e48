//! Stores: where the bytes of a data set are read and written.
//!
//! Everything here blocks and is called from plain threads, never from an async task.
//!
//! **Inputs and outputs.** A source is listed ([`Source::list`]), its files are opened beneath the
//! root and read at any offset ([`ReadFile`]). A target receives directories, temporary files
//! ([`Target::create_temporary`]) and bytes at any offset ([`WriteFile`]). Then it receives
//! attributes, a sync and a rename ([`Target::publish`]). No code outside this module sees a
//! descriptor or builds a path.
//!
//! **The fence (promise (i), C5).** Callers name things by a [`Dir`] and one component, or by a
//! relative path of bytes. A path is walked from the root's handle by `openat2(RESOLVE_BENEATH |
//! RESOLVE_NO_SYMLINKS)`, or component by component with `O_NOFOLLOW` where a kernel or container
//! lacks it. Links are never followed, on either side. [Own names](name::own) are marked in
//! listings, and not accepted as names of items.
//!
//! **After a crash.** Data written before a [`Target::sync`] that returned without an error
//! survives, by the method that the file system honours ([`DurabilityMethod`]). The store's
//! identity, its sync markers and its fingerprint show later whether it is the same store
//! ([`StoreIdentity`], [`StoreFingerprint`]).

mod attributes;
mod device;
mod dir;
mod direct;
mod durability;
mod error;
mod identity;
mod inspect;
mod marker;
mod mem;
mod mode;
mod nameless;
mod nodes;
mod posix;
mod read;
mod read_back;
mod remove;
mod sandbox;
mod sizes;
mod source;
mod stamps;
mod take_away;
mod target;
mod temporary;
mod unlock;
mod write;
mod writeback;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;

use penstock_proto::attributes::{DeviceNumber, Owner};
use penstock_proto::manifest::{EntryKind, Identity};
use penstock_proto::name::{self, Own, OwnKind};
use penstock_proto::units::FileTime;

pub use attributes::{Attributes, NotSet};
pub use dir::{Dir, DirCache};
pub use direct::IoMode;
pub use durability::{DurabilityMethod, FailedSyncs, FileSystemKind};
pub use error::{StoreError, StoreOffline};
pub use identity::{ParseFingerprintError, StoreFingerprint, StoreIdentity};
pub use inspect::Inspection;
pub use mem::{MemSpec, MemStore, ParseMemSpecError};
pub use nameless::{Nameless, nameless_max};
pub use posix::{Gate, PosixOptions, PosixStore, Space};
pub use read::{ListBuffer, ReadFile};
pub use read_back::{DIRECT_ALIGNMENT, ReadBackFile};
pub use remove::Removal;
pub use sandbox::Resolution;
pub use source::Source;
pub use stamps::Step;
pub use take_away::{IsSame, Look};
pub use target::Target;
pub use temporary::{TemporaryKey, TemporaryName, aside_name, temporary_name};
pub use write::{LeftOver, WriteFile};
pub use writeback::Writeback;

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

    fn with_article(self) -> &'static str {
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
    /// Space allocated, in units of 512 bytes whatever the file system's block size.
    pub blocks: u64,
    /// Number of names.
    pub links: u32,
    /// Number of the device that it lies on; differs between hosts, so it is no part of an identity
    /// (C1).
    pub device: u64,
    /// Set if the kernel generates the content at each read, as in `/proc`: size and stamps then
    /// prove nothing about it. Known only once the file was measured ([`PosixStore::measure`]).
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
    /// The use of an [own name](name::own), which is no item; `None` for all others.
    pub own: Option<Own>,
}

/// Checks a path of items: relative, sound, and not one of our private names.
fn check_item_path(path: &[u8]) -> Result<(), StoreError> {
    let ours = |part: &[u8]| name::own(part).is_some();
    if name::check_relative(path).is_ok() && !path.split(|&byte| byte == b'/').any(ours) {
        Ok(())
    } else {
        Err(StoreError::bad_path(path))
    }
}

/// Checks the name of an item or temporary file within `dir`.
fn check_item_name(dir: &Dir, item: &[u8]) -> Result<(), StoreError> {
    let kind = name::own(item).map(|own| own.kind);
    let private = matches!(kind, Some(OwnKind::Run | OwnKind::Store));
    if name::is_component(item) && !private {
        Ok(())
    } else {
        Err(StoreError::bad_path(&name::join(dir.path(), item)))
    }
}
