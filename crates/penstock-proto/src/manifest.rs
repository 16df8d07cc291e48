//! Entries and pages: the list that a scan produces.
//!
//! A *page* is immutable and bounded: at most [`PAGE_ENTRIES_MAX`] entries and
//! [`PAGE_BYTES_MAX`] encoded bytes, so that a data set of any size is worked on with a few pages
//! in memory. Pages are named by their digest; source and target site both keep them until the
//! receipt (hard case A12), and every request names the page's digest, so that two sites can
//! never mean different files by the same number.
//!
//! Within a page the directory paths are listed once, and an entry refers to its directory. A
//! directory's own entry always stands before the entries inside it, in the same or an earlier
//! page: walked backwards, children come before their parents.
//!
//! The entry with an empty directory and an empty name is the root of the data set itself; when it
//! is a file or a link, it is the only entry.

use crate::digest::Digest;
use crate::id::TransferId;
use crate::name;
use crate::slicing::{EXTENTS_PER_FILE_MAX, Slicing};
use crate::units::FileTime;
use crate::wire::{DecodeError, Reader, Writer};

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

const PAGE_MAGIC: &[u8; 8] = b"PSTPAGE1";

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, carried as a link and never followed.
    Symlink,
}

/// What tells one version of a file from another (hard case C1): never the device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Identity {
    /// Inode number; 0 where it is not stable.
    pub inode: u64,
    /// Change time.
    pub ctime: FileTime,
}

/// One file, directory or link. Its name and directory are in the page, see [`Page::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// Whether the scan saw fewer blocks allocated than the size needs, so that holes are likely.
    pub sparse: bool,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// Size in bytes; 0 unless a regular file.
    pub size: u64,
    /// Time of last modification.
    pub mtime: FileTime,
    /// Tells this version of the file from a later one.
    pub identity: Identity,
    directory: u32,
    name: Span,
    link: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Span {
    start: u32,
    length: u32,
}

/// One immutable, bounded page of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The transfer that it belongs to.
    pub transfer: TransferId,
    /// Its number, from 0, in the order in which pages were sealed.
    pub number: u32,
    /// How it is cut.
    pub slicing: Slicing,
    directories: Vec<Span>,
    entries: Vec<Entry>,
    text: Vec<u8>,
}

impl Page {
    /// The entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry at `index`.
    ///
    /// # Errors
    /// `Invalid` if there is none: an index from outside must be checked by this.
    pub fn entry(&self, index: u32) -> Result<&Entry, DecodeError> {
        self.entries.get(index as usize).ok_or(DecodeError::Invalid("entry"))
    }

    /// The relative path of the directory that holds `entry`; empty for the root's own entries.
    pub fn directory(&self, entry: &Entry) -> &[u8] {
        self.directories.get(entry.directory as usize).map_or(&[], |span| self.slice(*span))
    }

    /// A number that is equal for entries of this page in the same directory.
    pub fn directory_index(&self, entry: &Entry) -> u32 {
        entry.directory
    }

    /// The entry's name within its directory; empty for the root of the data set.
    pub fn name(&self, entry: &Entry) -> &[u8] {
        self.slice(entry.name)
    }

    /// The relative path of `entry`; empty for the root of the data set.
    pub fn path(&self, entry: &Entry) -> Vec<u8> {
        name::join(self.directory(entry), self.name(entry))
    }

    /// The text of a symbolic link; empty for other entries.
    pub fn link(&self, entry: &Entry) -> &[u8] {
        self.slice(entry.link)
    }

    fn slice(&self, span: Span) -> &[u8] {
        &self.text[span.start as usize..(span.start + span.length) as usize]
    }

    /// Sum of the sizes of all files; holes count, so it may be more than any disk holds.
    pub fn file_bytes(&self) -> u64 {
        self.entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.size))
    }

    /// Number of regular files.
    pub fn file_count(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.kind == EntryKind::File).count() as u64
    }

    /// The page as bytes; [`page_digest`] of these is its name.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::over(Vec::with_capacity(self.text.len() + self.entries.len() * 64));
        out.raw(PAGE_MAGIC);
        self.transfer.encode(&mut out);
        out.u32(self.number);
        self.slicing.encode(&mut out);
        out.u32(self.directories.len() as u32);
        for span in &self.directories {
            out.bytes(self.slice(*span));
        }
        out.u32(self.entries.len() as u32);
        for entry in &self.entries {
            self.encode_entry(entry, &mut out);
        }
        out.into_bytes()
    }

    fn encode_entry(&self, entry: &Entry, out: &mut Writer) {
        let kind = match entry.kind {
            EntryKind::File => 0,
            EntryKind::Directory => 1,
            EntryKind::Symlink => 2,
        };
        out.u8(kind);
        out.u8(u8::from(entry.sparse));
        out.u32(entry.directory);
        out.bytes(self.slice(entry.name));
        out.u32(entry.mode);
        out.u64(entry.size);
        entry.mtime.encode(out);
        out.u64(entry.identity.inode);
        entry.identity.ctime.encode(out);
        if entry.kind == EntryKind::Symlink {
            out.bytes(self.slice(entry.link));
        }
    }

    /// Reads a page and checks everything that later code relies on: bounds, paths that stay
    /// inside the root, names that are one component, no name twice in a directory.
    ///
    /// # Errors
    /// [`DecodeError`] for anything else; a hostile page costs no more memory than its own length.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > PAGE_BYTES_MAX {
            return Err(DecodeError::Invalid("page length"));
        }
        let mut input = Reader::new(bytes);
        if input.array::<8>("page magic")? != *PAGE_MAGIC {
            return Err(DecodeError::Invalid("page magic"));
        }
        let transfer = TransferId::decode(&mut input)?;
        let number = input.u32("page number")?;
        let slicing = Slicing::decode(&mut input)?;
        let mut builder = PageBuilder::new(transfer, number, slicing);
        let directory_count = input.u32("directory count")?;
        for _ in 0..directory_count {
            let path = input.bytes(name::PATH_BYTES_MAX, "directory")?;
            if builder.page.directories.len() >= PAGE_ENTRIES_MAX {
                return Err(DecodeError::Invalid("directory count"));
            }
            name::check_relative(path)?;
            let span = builder.push_text(path);
            builder.page.directories.push(span);
        }
        let entry_count = input.u32("entry count")?;
        if entry_count as usize > PAGE_ENTRIES_MAX {
            return Err(DecodeError::Invalid("entry count"));
        }
        for _ in 0..entry_count {
            decode_entry(&mut input, &mut builder, directory_count)?;
        }
        input.finish()?;
        let (page, pieces) = (builder.page, builder.pieces);
        if pieces > PAGE_PIECES_MAX {
            return Err(DecodeError::Invalid("size"));
        }
        page.check_names_once()?;
        Ok(page)
    }

    /// A name that stands twice would let one entry be written through another (C5).
    fn check_names_once(&self) -> Result<(), DecodeError> {
        let mut seen = std::collections::HashSet::with_capacity(self.entries.len());
        for entry in &self.entries {
            if !seen.insert((self.directory(entry), self.name(entry))) {
                return Err(DecodeError::Invalid("name twice"));
            }
        }
        Ok(())
    }
}

fn decode_entry(
    input: &mut Reader<'_>,
    builder: &mut PageBuilder,
    directory_count: u32,
) -> Result<(), DecodeError> {
    let kind = match input.u8("entry kind")? {
        0 => EntryKind::File,
        1 => EntryKind::Directory,
        2 => EntryKind::Symlink,
        _ => return Err(DecodeError::Invalid("entry kind")),
    };
    let sparse = match input.u8("sparse")? {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::Invalid("sparse")),
    };
    let directory = input.u32("directory")?;
    if directory >= directory_count {
        return Err(DecodeError::Invalid("directory"));
    }
    let name_bytes = input.bytes(name::NAME_BYTES_MAX, "name")?;
    let is_root = name_bytes.is_empty() && builder.page.directories[directory as usize].length == 0;
    if !is_root && !name::is_component(name_bytes) {
        return Err(DecodeError::Invalid("name"));
    }
    let mode = input.u32("mode")?;
    if mode > 0o7777 {
        return Err(DecodeError::Invalid("mode"));
    }
    let size = input.u64("size")?;
    if size > i64::MAX as u64 || (kind != EntryKind::File && size != 0) {
        return Err(DecodeError::Invalid("size"));
    }
    let mtime = FileTime::decode(input)?;
    let identity = Identity { inode: input.u64("inode")?, ctime: FileTime::decode(input)? };
    let link_bytes: &[u8] =
        if kind == EntryKind::Symlink { input.bytes(LINK_BYTES_MAX, "link")? } else { &[] };
    if kind == EntryKind::Symlink && (link_bytes.is_empty() || link_bytes.contains(&0)) {
        return Err(DecodeError::Invalid("link"));
    }
    if kind == EntryKind::File {
        builder.pieces += builder.page.slicing.extent_count(size);
    }
    let name = builder.push_text(name_bytes);
    let link = builder.push_text(link_bytes);
    builder.page.entries.push(Entry {
        kind,
        sparse,
        mode,
        size,
        mtime,
        identity,
        directory,
        name,
        link,
    });
    Ok(())
}

/// What a scan knows of one entry, before it is in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDraft<'a> {
    /// Its name within its directory; empty only for the root of the data set.
    pub name: &'a [u8],
    /// What it is.
    pub kind: EntryKind,
    /// See [`Entry::sparse`].
    pub sparse: bool,
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes; 0 unless a regular file.
    pub size: u64,
    /// Time of last modification.
    pub mtime: FileTime,
    /// See [`Identity`].
    pub identity: Identity,
    /// Text of a symbolic link; empty for other entries.
    pub link: &'a [u8],
}

/// Collects entries until the page is full.
#[derive(Debug)]
pub struct PageBuilder {
    page: Page,
    pieces: u64,
    encoded_bytes: usize,
}

impl PageBuilder {
    /// An empty page.
    pub fn new(transfer: TransferId, number: u32, slicing: Slicing) -> Self {
        Self {
            page: Page {
                transfer,
                number,
                slicing,
                directories: Vec::new(),
                entries: Vec::new(),
                text: Vec::new(),
            },
            pieces: 0,
            encoded_bytes: 64,
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.page.entries.is_empty()
    }

    /// Whether the page must be sealed before `entry` of `directory` is added.
    pub fn is_full_for(&self, directory: &[u8], entry: &EntryDraft<'_>) -> bool {
        let needed = directory.len() + entry.name.len() + entry.link.len() + 128;
        self.page.entries.len() >= PAGE_ENTRIES_MAX
            || self.pieces >= PAGE_PIECES_SOFT_MAX
            || self.encoded_bytes + needed > PAGE_BYTES_MAX
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
        self.encoded_bytes += entry.name.len() + entry.link.len() + 72;
        let name = self.push_text(entry.name);
        let link = self.push_text(entry.link);
        if entry.kind == EntryKind::File {
            self.pieces += self.page.slicing.extent_count(entry.size);
        }
        self.page.entries.push(Entry {
            kind: entry.kind,
            sparse: entry.sparse,
            mode: entry.mode,
            size: entry.size,
            mtime: entry.mtime,
            identity: entry.identity,
            directory: self.page.directories.len() as u32 - 1,
            name,
            link,
        });
    }

    /// The finished page.
    pub fn seal(self) -> Page {
        self.page
    }

    fn push_text(&mut self, text: &[u8]) -> Span {
        let start = self.page.text.len() as u32;
        self.page.text.extend_from_slice(text);
        Span { start, length: text.len() as u32 }
    }
}

/// The name of a page: the BLAKE3 of its encoded bytes.
pub fn page_digest(encoded: &[u8]) -> Digest {
    Digest(*blake3::hash(encoded).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn draft(name: &[u8], kind: EntryKind, size: u64) -> EntryDraft<'_> {
        EntryDraft {
            name,
            kind,
            sparse: false,
            mode: 0o644,
            size,
            mtime: FileTime { seconds: -5, nanoseconds: 999_999_999 },
            identity: Identity { inode: 7, ctime: FileTime { seconds: 1, nanoseconds: 2 } },
            link: if kind == EntryKind::Symlink { b"../elsewhere" } else { b"" },
        }
    }

    fn sample() -> Page {
        let mut builder = PageBuilder::new(TransferId([3; 16]), 9, Slicing::default());
        builder.push(b"", &draft(b"", EntryKind::Directory, 0));
        builder.push(b"", &draft(b"caf\xff\n", EntryKind::Directory, 0));
        builder.push(b"caf\xff\n", &draft(b"-rf", EntryKind::File, 1 << 40));
        builder.push(b"caf\xff\n", &draft(b"link", EntryKind::Symlink, 0));
        builder.seal()
    }

    /// Promise (j), A12: a page read back from disk or wire says what the scan saw, names included.
    #[test]
    fn a_page_survives_encoding() {
        let page = sample();
        let read = Page::decode(&page.encode()).unwrap();
        assert_eq!(read.encode(), page.encode());
        assert_eq!(read.path(&read.entries()[2]), b"caf\xff\n/-rf");
        assert_eq!(read.path(&read.entries()[0]), b"");
        assert_eq!(read.link(&read.entries()[3]), b"../elsewhere");
        assert_eq!(read.file_bytes(), 1 << 40);
    }

    /// C5: a manifest with a name twice could write through a link that it planted before.
    #[test]
    fn c5_a_name_twice_is_refused() {
        let mut builder = PageBuilder::new(TransferId([3; 16]), 0, Slicing::default());
        builder.push(b"", &draft(b"a", EntryKind::Symlink, 0));
        builder.push(b"", &draft(b"a", EntryKind::File, 1));
        let bytes = builder.seal().encode();
        assert_eq!(Page::decode(&bytes), Err(DecodeError::Invalid("name twice")));
    }

    /// Promise (g): a small page that claims huge files is refused before it is cut into pieces,
    /// and sums of their sizes do not overflow.
    #[test]
    fn a_page_of_impossible_sizes_is_refused() {
        let slicing = Slicing::default();
        let mut builder = PageBuilder::new(TransferId([3; 16]), 0, slicing);
        builder.push(b"", &draft(b"a", EntryKind::File, i64::MAX as u64));
        assert!(builder.is_full_for(b"", &draft(b"b", EntryKind::File, 1)));
        let mut page = builder.seal();
        assert!(Page::decode(&page.encode()).is_ok(), "one such file, sparse, is legitimate");
        for name in [b"b", b"c"] {
            let mut other = PageBuilder::new(TransferId([3; 16]), 0, slicing);
            other.push(b"", &draft(name, EntryKind::File, i64::MAX as u64));
            let start = page.text.len() as u32;
            page.text.extend_from_slice(name);
            page.entries.push(Entry { name: Span { start, length: 1 }, ..other.page.entries[0] });
        }
        assert_eq!(page.file_bytes(), u64::MAX);
        assert_eq!(Page::decode(&page.encode()), Err(DecodeError::Invalid("size")));
    }

    proptest! {
        /// Hostile bytes in a page end in an error or in a page that encodes again, never a panic.
        #[test]
        fn damaged_pages_never_panic(at in 0usize..400, value in any::<u8>(), cut in 0usize..400) {
            let mut bytes = sample().encode();
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.truncate(bytes.len().saturating_sub(cut % 8));
            if let Ok(page) = Page::decode(&bytes) {
                prop_assert_eq!(page.encode(), bytes);
            }
        }
    }
}
