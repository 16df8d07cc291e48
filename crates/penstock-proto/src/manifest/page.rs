//! Entries and a page of them, their limits and their encoded form.

use std::collections::BTreeMap;

use crate::attributes::{DeviceNumber, Owner, Xattrs};
use crate::digest::Digest;
use crate::id::TransferId;
use crate::name;
use crate::slicing::{EXTENTS_PER_FILE_MAX, Slicing};
use crate::units::FileTime;
use crate::wire::{DecodeError, Writer};

/// Most entries of one page.
pub const PAGE_ENTRIES_MAX: usize = 4096;
/// Most encoded bytes of one page (A12 allows 4 MiB).
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most pieces that the entries of one page should be cut into before it is sealed.
pub const PAGE_PIECES_SOFT_MAX: u64 = 16 * 1024;
/// Most pieces that a page may be cut into: the page was not full before its last entry.
pub const PAGE_PIECES_MAX: u64 = PAGE_PIECES_SOFT_MAX + EXTENTS_PER_FILE_MAX;
/// Longest target of a symbolic link (PATH_MAX, limits.h).
pub const LINK_BYTES_MAX: usize = 4096;

pub(super) const PAGE_MAGIC: &[u8; 8] = b"PSTPAGE3";
/// Offset of the round in an encoded page: after magic, transfer and number.
const ROUND_AT: usize = 8 + 16 + 4;
/// Flag of an entry: see [`Entry::sparse`].
pub(super) const SPARSE: u8 = 1;
/// Flag of an entry: see [`Entry::linked`].
pub(super) const LINKED: u8 = 2;
/// Flag of an entry: see [`Entry::special`].
pub(super) const SPECIAL: u8 = 4;
/// Flag of an entry: see [`Entry::hollow`].
pub(super) const HOLLOW: u8 = 8;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, carried as a link and never followed.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A further name of a file (or link, pipe, device) whose first name is an earlier entry of
    /// this or an earlier page: its *primary* (hard case B6).
    HardLink,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::Fifo,
        Self::CharDevice,
        Self::BlockDevice,
        Self::HardLink,
    ];

    pub(super) fn number(self) -> u8 {
        match self {
            Self::File => 0,
            Self::Directory => 1,
            Self::Symlink => 2,
            Self::Fifo => 3,
            Self::CharDevice => 4,
            Self::BlockDevice => 5,
            Self::HardLink => 6,
        }
    }
}

/// Identity of a version of a file (hard case C1). It never contains the device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Identity {
    /// Inode number; 0 where it is not stable.
    pub inode: u64,
    /// Change time.
    pub ctime: FileTime,
}

/// A file, directory, link or other node. Its name and directory are in the page, see
/// [`Page::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind.
    pub kind: EntryKind,
    /// True if the scan saw fewer blocks allocated than the size needs, so that holes are likely.
    pub sparse: bool,
    /// True if it is large and its holes are more than a hundred times its data, so that hashing
    /// them would cost more than all else (D2).
    pub hollow: bool,
    /// True if the source has other names of it, so that later entries may be hard links to it.
    pub linked: bool,
    /// Flag that depends on the kind. For a hard link: it is to a pipe or device, so that a target
    /// that accepts none of these accepts no further names of them either. For a directory: another
    /// file system is mounted there that was left out, so that its content is unknown. For a file:
    /// the source's kernel generates the content at each read, so that its timestamps prove
    /// nothing.
    pub special: bool,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// User and group at the source.
    pub owner: Owner,
    /// Size in bytes; 0 unless a regular file or a hard link to one.
    pub size: u64,
    /// Time of last modification.
    pub mtime: FileTime,
    /// Identity of this version of the file.
    pub identity: Identity,
    /// Number of a device; zeros for other entries.
    pub device: DeviceNumber,
    pub(super) directory: u32,
    pub(super) name: Span,
    pub(super) link: Span,
    pub(super) xattrs: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) length: u32,
}

/// Position of the name of a user or group in the text of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerName(pub(super) Span);

/// Reference to the entry of an earlier page of which an entry is a newer version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amends {
    /// Number of the earlier page.
    pub page: u32,
    /// Index of its entry.
    pub entry: u32,
    /// True if its bytes are those that were served: only its attributes have changed (C2).
    pub same_bytes: bool,
}

/// An immutable, bounded page of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The transfer to which it belongs.
    pub transfer: TransferId,
    /// Its number, from 0, in the order in which pages were sealed.
    pub number: u32,
    /// 0 for pages of the scan; else one more than the round of the entries that it amends.
    pub round: u8,
    /// Parameters by which it is cut.
    pub slicing: Slicing,
    pub(super) directories: Vec<Span>,
    /// Names of the users and groups that own its entries, if they are to travel.
    pub(super) users: BTreeMap<u32, OwnerName>,
    pub(super) groups: BTreeMap<u32, OwnerName>,
    pub(super) entries: Vec<Entry>,
    /// Amended entries, one for each entry, or none in round 0.
    pub(super) amends: Vec<Amends>,
    pub(super) text: Vec<u8>,
}

impl Page {
    /// Returns the entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entry at `index`.
    ///
    /// # Errors
    /// `Invalid` if there is none: an index from outside must be checked by this.
    pub fn entry(&self, index: u32) -> Result<&Entry, DecodeError> {
        self.entries.get(index as usize).ok_or(DecodeError::Invalid("entry"))
    }

    /// Returns the amended entry of each entry; empty in round 0.
    pub fn amends(&self) -> &[Amends] {
        &self.amends
    }

    /// Returns the relative path of the directory that holds `entry`; empty for the root's own
    /// entries.
    pub fn directory(&self, entry: &Entry) -> &[u8] {
        self.directories.get(entry.directory as usize).map_or(&[], |span| self.slice(*span))
    }

    /// Clears all inode numbers. The host that compares the page sees other numbers than the host
    /// that made it (C1).
    pub fn forget_inodes(&mut self) {
        for entry in &mut self.entries {
            entry.identity.inode = 0;
        }
    }

    /// Returns a number that is equal for entries of this page in the same directory.
    pub fn directory_index(&self, entry: &Entry) -> u32 {
        entry.directory
    }

    /// Returns the entry's name within its directory; empty for the root of the data set.
    pub fn name(&self, entry: &Entry) -> &[u8] {
        self.slice(entry.name)
    }

    /// Returns the relative path of `entry`; empty for the root of the data set.
    pub fn path(&self, entry: &Entry) -> Vec<u8> {
        name::join(self.directory(entry), self.name(entry))
    }

    /// Returns the text of a symbolic link; for a hard link the path of its primary, relative to
    /// the data set's root; empty for other entries.
    pub fn link(&self, entry: &Entry) -> &[u8] {
        self.slice(entry.link)
    }

    /// Returns the extended attributes of `entry`.
    pub fn xattrs(&self, entry: &Entry) -> Xattrs<'_> {
        Xattrs::of(self.slice(entry.xattrs))
    }

    /// Returns the name of a user at the source, if it travels.
    pub fn user(&self, uid: u32) -> Option<&[u8]> {
        self.users.get(&uid).map(|name| self.slice(name.0))
    }

    /// Returns the name of a group at the source, if it travels.
    pub fn group(&self, gid: u32) -> Option<&[u8]> {
        self.groups.get(&gid).map(|name| self.slice(name.0))
    }

    pub(super) fn slice(&self, span: Span) -> &[u8] {
        &self.text[span.start as usize..(span.start + span.length) as usize]
    }

    /// Returns the sum of the sizes of all files; holes count, so it may exceed the size of any
    /// disk.
    pub fn file_bytes(&self) -> u64 {
        let files = self.entries.iter().filter(|entry| entry.kind == EntryKind::File);
        files.fold(0, |sum, entry| sum.saturating_add(entry.size))
    }

    /// Returns the number of regular files.
    pub fn file_count(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.kind == EntryKind::File).count() as u64
    }

    /// Returns the page as bytes; [`page_digest`] of these is its name.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::over(Vec::with_capacity(self.text.len() + self.entries.len() * 64));
        out.raw(PAGE_MAGIC);
        self.transfer.encode(&mut out);
        out.u32(self.number);
        out.u8(self.round);
        self.slicing.encode(&mut out);
        out.u32(self.directories.len() as u32);
        for span in &self.directories {
            out.bytes(self.slice(*span));
        }
        for owners in [&self.users, &self.groups] {
            out.u32(owners.len() as u32);
            for (number, name) in owners {
                out.u32(*number);
                out.bytes(self.slice(name.0));
            }
        }
        out.u32(self.entries.len() as u32);
        for entry in &self.entries {
            self.encode_entry(entry, &mut out);
        }
        for amends in &self.amends {
            out.u32(amends.page);
            out.u32(amends.entry);
            out.u8(u8::from(amends.same_bytes));
        }
        out.into_bytes()
    }

    fn encode_entry(&self, entry: &Entry, out: &mut Writer) {
        out.u8(entry.kind.number());
        let sparse = if entry.sparse { SPARSE } else { 0 };
        let linked = if entry.linked { LINKED } else { 0 };
        let hollow = if entry.hollow { HOLLOW } else { 0 };
        out.u8(sparse | linked | hollow | if entry.special { SPECIAL } else { 0 });
        out.u32(entry.directory);
        out.bytes(self.slice(entry.name));
        out.u32(entry.mode);
        out.u32(entry.owner.uid);
        out.u32(entry.owner.gid);
        out.u64(entry.size);
        entry.mtime.encode(out);
        out.u64(entry.identity.inode);
        entry.identity.ctime.encode(out);
        if matches!(entry.kind, EntryKind::CharDevice | EntryKind::BlockDevice) {
            out.u32(entry.device.major);
            out.u32(entry.device.minor);
        }
        if matches!(entry.kind, EntryKind::Symlink | EntryKind::HardLink) {
            out.bytes(self.slice(entry.link));
        }
        out.bytes(self.slice(entry.xattrs));
    }
}

/// Returns whether an encoded page amends earlier ones, by its head alone; [`Page::decode`] checks
/// whether it is sound.
pub fn is_amending(encoded: &[u8]) -> bool {
    encoded.get(ROUND_AT).is_some_and(|round| *round > 0)
}

/// Returns the name of a page: the BLAKE3 of its encoded bytes.
pub fn page_digest(encoded: &[u8]) -> Digest {
    Digest(*blake3::hash(encoded).as_bytes())
}
