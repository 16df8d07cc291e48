//! Builder that fills a page with the results of a scan.

use std::collections::BTreeMap;

use super::page::{Amends, Entry, EntryKind, Identity, OwnerName, Page, Span};
use super::page::{PAGE_BYTES_MAX, PAGE_ENTRIES_MAX, PAGE_PIECES_SOFT_MAX};
use crate::attributes::{DeviceNumber, Owner};
use crate::id::TransferId;
use crate::name;
use crate::slicing::Slicing;
use crate::units::FileTime;

/// Most encoded bytes of an entry beside its texts.
const ENTRY_BYTES: usize = 96;

/// Facts of a scan about one entry, before it is in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDraft<'a> {
    /// Its name within its directory; empty only for the root of the data set.
    pub name: &'a [u8],
    /// Kind.
    pub kind: EntryKind,
    /// See [`Entry::sparse`].
    pub sparse: bool,
    /// See [`Entry::hollow`].
    pub hollow: bool,
    /// See [`Entry::linked`].
    pub linked: bool,
    /// See [`Entry::special`].
    pub special: bool,
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: Owner,
    /// Names of user and group, if they are to travel; empty if unknown.
    pub owner_names: [&'a [u8]; 2],
    /// Size in bytes; 0 unless a regular file or a hard link to one.
    pub size: u64,
    /// Time of last modification.
    pub mtime: FileTime,
    /// See [`Identity`].
    pub identity: Identity,
    /// Number of a device; zeros for other entries.
    pub device: DeviceNumber,
    /// Text of a symbolic link, or path of a hard link's primary; empty for other entries.
    pub link: &'a [u8],
    /// Extended attributes, encoded by [`crate::attributes::encode_xattrs`].
    pub xattrs: &'a [u8],
}

impl Default for EntryDraft<'_> {
    /// Returns an empty file without a name that all users may read.
    fn default() -> Self {
        Self {
            name: b"",
            kind: EntryKind::File,
            sparse: false,
            hollow: false,
            linked: false,
            special: false,
            mode: 0o644,
            owner: Owner::default(),
            owner_names: [b""; 2],
            size: 0,
            mtime: FileTime::default(),
            identity: Identity::default(),
            device: DeviceNumber::default(),
            link: b"",
            xattrs: b"",
        }
    }
}

/// Collects entries until the page is full.
#[derive(Debug)]
pub struct PageBuilder {
    pub(super) page: Page,
    pub(super) pieces: u64,
    encoded_bytes: usize,
}

impl PageBuilder {
    /// Returns a builder of an empty page.
    pub fn new(transfer: TransferId, number: u32, slicing: Slicing) -> Self {
        Self {
            page: Page {
                transfer,
                number,
                round: 0,
                slicing,
                directories: Vec::new(),
                users: BTreeMap::new(),
                groups: BTreeMap::new(),
                entries: Vec::new(),
                amends: Vec::new(),
                text: Vec::new(),
            },
            pieces: 0,
            encoded_bytes: 64,
        }
    }

    /// Returns a builder of an empty page of a round beyond the first: add entries with
    /// [`PageBuilder::push_amending`].
    pub fn amending(transfer: TransferId, number: u32, round: u8, slicing: Slicing) -> Self {
        let mut builder = Self::new(transfer, number, slicing);
        builder.page.round = round;
        builder
    }

    /// Adds a newer version of an entry of an earlier page.
    ///
    /// # Panics
    /// See [`PageBuilder::push`].
    pub fn push_amending(&mut self, directory: &[u8], entry: &EntryDraft<'_>, amends: Amends) {
        self.push(directory, entry);
        self.page.amends.push(amends);
    }

    /// Returns whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.page.entries.is_empty()
    }

    /// Returns whether the page must be sealed before `entry` of `directory` is added.
    pub fn is_full_for(&self, directory: &[u8], entry: &EntryDraft<'_>) -> bool {
        self.page.entries.len() >= PAGE_ENTRIES_MAX
            || self.pieces >= PAGE_PIECES_SOFT_MAX
            || self.encoded_bytes + directory.len() + 4 + texts(entry) > PAGE_BYTES_MAX
    }

    /// Adds an entry of the directory with the relative path `directory`. Entries of one directory
    /// are added together, so that its path is stored once.
    ///
    /// # Panics
    /// If the page is full or the draft breaks the rules that [`Page::decode`] checks: both would
    /// be our own fault.
    pub fn push(&mut self, directory: &[u8], entry: &EntryDraft<'_>) {
        assert!(!self.is_full_for(directory, entry), "a full page is sealed, not added to");
        assert!(name::check_relative(directory).is_ok(), "the scan hands over relative paths");
        let known = self.page.directories.last().map(|span| self.page.slice(*span));
        if known != Some(directory) {
            let span = self.push_text(directory);
            self.page.directories.push(span);
            self.encoded_bytes += directory.len() + 4;
        }
        self.encoded_bytes += texts(entry);
        let name = self.push_text(entry.name);
        let link = self.push_text(entry.link);
        let xattrs = self.push_text(entry.xattrs);
        if entry.kind == EntryKind::File {
            self.pieces += self.page.slicing.extent_count(entry.size);
        }
        let [user, group] = entry.owner_names;
        if !user.is_empty() && !self.page.users.contains_key(&entry.owner.uid) {
            let span = self.push_text(user);
            self.page.users.insert(entry.owner.uid, OwnerName(span));
        }
        if !group.is_empty() && !self.page.groups.contains_key(&entry.owner.gid) {
            let span = self.push_text(group);
            self.page.groups.insert(entry.owner.gid, OwnerName(span));
        }
        self.page.entries.push(Entry {
            kind: entry.kind,
            sparse: entry.sparse,
            hollow: entry.hollow,
            linked: entry.linked,
            special: entry.special,
            mode: entry.mode,
            owner: entry.owner,
            size: entry.size,
            mtime: entry.mtime,
            identity: entry.identity,
            device: entry.device,
            directory: self.page.directories.len() as u32 - 1,
            name,
            link,
            xattrs,
        });
    }

    /// Returns the finished page.
    pub fn seal(self) -> Page {
        self.page
    }

    pub(super) fn push_text(&mut self, text: &[u8]) -> Span {
        if text.is_empty() {
            return Span::default();
        }
        let start = self.page.text.len() as u32;
        self.page.text.extend_from_slice(text);
        Span { start, length: text.len() as u32 }
    }
}

/// Returns the most encoded bytes of an entry.
fn texts(entry: &EntryDraft<'_>) -> usize {
    let owners = entry.owner_names.iter().map(|name| name.len() + 8).sum::<usize>();
    ENTRY_BYTES + entry.name.len() + entry.link.len() + entry.xattrs.len() + owners
}
