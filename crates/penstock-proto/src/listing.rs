//! Listing by one peer for another of its site, and the results: messages of `/peer/v1/list`
//! (`docs/protocol.md`, *Listing for another peer*).
//!
//! A request is one [`ListWork`]. The answer is a stream of [`ListPart`]s, each after its length
//! ([`ListPart::encode_framed`], [`PartBuffer`]). Every message is bounded, whatever the named
//! directories contain.

use crate::attributes::{
    DeviceNumber, OWNER_NAME_BYTES_MAX, Owner, XATTRS_BYTES_MAX, check_xattrs,
};
use crate::manifest::LINK_BYTES_MAX;
use crate::name::{self, NAME_BYTES_MAX};
use crate::units::FileTime;
use crate::wire::{DecodeError, Reader, Writer};

/// Version of these messages. A peer of another version lists for itself only.
pub const LIST_VERSION: u8 = 2;
/// Most directories of one request.
pub const LIST_DIRECTORIES_MAX: usize = 64;
/// Most names of one request.
pub const LIST_NAMES_MAX: usize = 1024;
/// Longest path of a directory that is named in a request.
pub const LIST_PATH_BYTES_MAX: usize = 16 * 1024;
/// Longest request: all directories with the longest paths.
pub const LIST_REQUEST_BYTES_MAX: usize = LIST_DIRECTORIES_MAX * (LIST_PATH_BYTES_MAX + 4) + 64;
/// Most entries of one part. A peer with more names in a directory answers [`ListPart::Left`].
pub const LISTED_ENTRIES_MAX: usize = 8192;
/// Bytes of entries at which a part is full.
pub const LISTED_BYTES_MAX: usize = 4 << 20;
/// Longest part: one more entry, with the longest link and attributes.
pub const PART_BYTES_MAX: usize = LISTED_BYTES_MAX + XATTRS_BYTES_MAX + 16 * 1024;
/// Bytes of an entry on the wire beside its name, link, attributes and owners' names.
const ENTRY_BYTES: usize = 1 + 8 + 4 + 8 + 8 + 12 + 12 + 8 + 8 + 4 + 8 + 1 + 4 + 5 * 4;

const _: () =
    assert!(LIST_NAMES_MAX * (NAME_BYTES_MAX + 5) < LIST_REQUEST_BYTES_MAX, "names fit a request");
const _: () = assert!(LIST_NAMES_MAX <= LISTED_ENTRIES_MAX, "a part holds what a request names");

/// Kind of a directory entry, as a listing or a look reports it; numbers of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedKind {
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
    /// A kind that is never carried.
    Other,
}

impl ListedKind {
    const ALL: [Self; 7] = [
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::Fifo,
        Self::CharDevice,
        Self::BlockDevice,
        Self::Other,
    ];

    fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Reads a kind; `None` where a file system does not report it while listing.
    fn decode(number: u8) -> Result<Option<Self>, DecodeError> {
        match number {
            0 => Ok(None),
            number => {
                let kind = Self::ALL.get(usize::from(number) - 1).copied();
                kind.map(Some).ok_or(DecodeError::Invalid("kind"))
            }
        }
    }
}

/// Request of a listing: paths are relative to the root of the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWork {
    /// All of these directories, at most [`LIST_DIRECTORIES_MAX`].
    Directories(Vec<Vec<u8>>),
    /// Names of one directory, at most [`LIST_NAMES_MAX`], each with the kind that the listing
    /// reported.
    Names {
        /// The directory.
        directory: Vec<u8>,
        /// The names.
        names: Vec<(Vec<u8>, Option<ListedKind>)>,
    },
}

impl ListWork {
    /// Returns the body of a request.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u8(LIST_VERSION);
        match self {
            Self::Directories(directories) => {
                out.u8(1);
                out.u32(directories.len() as u32);
                for directory in directories {
                    out.bytes(directory);
                }
            }
            Self::Names { directory, names } => {
                out.u8(2);
                out.bytes(directory);
                out.u32(names.len() as u32);
                for (name, kind) in names {
                    out.u8(kind.map_or(0, ListedKind::number));
                    out.bytes(name);
                }
            }
        }
        out.into_bytes()
    }

    /// Parses a request's body.
    ///
    /// # Errors
    /// `Invalid("version")` for another version; malformed, too much, or a path that could lead out
    /// of the data set.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        if input.u8("version")? != LIST_VERSION {
            return Err(DecodeError::Invalid("version"));
        }
        let path = |input: &mut Reader<'_>| {
            let path = input.bytes(LIST_PATH_BYTES_MAX, "path")?;
            name::check_relative(path)?;
            Ok::<_, DecodeError>(path.to_vec())
        };
        let count = |input: &mut Reader<'_>, most: usize| match input.u32("count")? as usize {
            count if count <= most => Ok(count),
            _ => Err(DecodeError::Invalid("count")),
        };
        let work = match input.u8("work")? {
            1 => {
                let count = count(&mut input, LIST_DIRECTORIES_MAX)?;
                Self::Directories((0..count).map(|_| path(&mut input)).collect::<Result<_, _>>()?)
            }
            2 => {
                let directory = path(&mut input)?;
                let count = count(&mut input, LIST_NAMES_MAX)?;
                let name = |_| {
                    let kind = ListedKind::decode(input.u8("kind")?)?;
                    Ok((component(&mut input)?, kind))
                };
                let names = (0..count).map(name).collect::<Result<_, DecodeError>>()?;
                Self::Names { directory, names }
            }
            _ => return Err(DecodeError::Invalid("work")),
        };
        input.finish()?;
        Ok(work)
    }
}

fn component(input: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let found = input.bytes(NAME_BYTES_MAX, "name")?;
    if !name::is_component(found) {
        return Err(DecodeError::Invalid("name"));
    }
    Ok(found.to_vec())
}

/// A name and all that a manifest may hold of it, as the listing peer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its name within its directory.
    pub name: Vec<u8>,
    /// Kind.
    pub kind: ListedKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// User and group.
    pub owner: Owner,
    /// Number of a device.
    pub special: DeviceNumber,
    /// Time of last modification.
    pub mtime: FileTime,
    /// Time of last change.
    pub ctime: FileTime,
    /// Inode number, as that peer sees it: another peer may see another one (C1).
    pub inode: u64,
    /// Space allocated, in units of 512 bytes.
    pub blocks: u64,
    /// Number of names.
    pub links: u32,
    /// Number of the device at that peer, without meaning anywhere else.
    pub device: u64,
    /// True if the kernel of that peer generates the content at each read.
    pub made: bool,
    /// Text of a symbolic link.
    pub link: Vec<u8>,
    /// Extended attributes, encoded ([`crate::attributes::encode_xattrs`]).
    pub xattrs: Vec<u8>,
    /// Extended attributes that were left out.
    pub left_out: u32,
    /// Names of user and group; empty if they do not travel.
    pub owner_names: [Vec<u8>; 2],
}

impl ListedEntry {
    /// Returns the bytes that it takes on the wire.
    pub fn wire_bytes(&self) -> usize {
        let [user, group] = &self.owner_names;
        let lengths = [&self.name, &self.link, &self.xattrs, user, group].map(Vec::len);
        ENTRY_BYTES + lengths.iter().sum::<usize>()
    }

    fn encode(&self, out: &mut Writer) {
        out.u8(self.kind.number());
        out.u64(self.size);
        out.u32(self.mode);
        out.u32(self.owner.uid);
        out.u32(self.owner.gid);
        out.u32(self.special.major);
        out.u32(self.special.minor);
        self.mtime.encode(out);
        self.ctime.encode(out);
        out.u64(self.inode);
        out.u64(self.blocks);
        out.u32(self.links);
        out.u64(self.device);
        out.u8(u8::from(self.made));
        out.u32(self.left_out);
        let [user, group] = &self.owner_names;
        for bytes in [&self.name, &self.link, &self.xattrs, user, group] {
            out.bytes(bytes);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = ListedKind::decode(input.u8("kind")?)?;
        let entry = Self {
            name: Vec::new(),
            kind: kind.ok_or(DecodeError::Invalid("kind"))?,
            size: input.u64("size")?,
            mode: input.u32("mode")?,
            owner: Owner { uid: input.u32("uid")?, gid: input.u32("gid")? },
            special: DeviceNumber { major: input.u32("major")?, minor: input.u32("minor")? },
            mtime: FileTime::decode(input)?,
            ctime: FileTime::decode(input)?,
            inode: input.u64("inode")?,
            blocks: input.u64("blocks")?,
            links: input.u32("links")?,
            device: input.u64("device")?,
            made: match input.u8("made")? {
                made @ (0 | 1) => made == 1,
                _ => return Err(DecodeError::Invalid("made")),
            },
            left_out: input.u32("left out")?,
            link: Vec::new(),
            xattrs: Vec::new(),
            owner_names: Default::default(),
        };
        if entry.mode > 0o7777 {
            return Err(DecodeError::Invalid("mode"));
        }
        let mut bytes = |most, field| input.bytes(most, field).map(<[u8]>::to_vec);
        let name = bytes(NAME_BYTES_MAX, "name")?;
        if !name::is_component(&name) {
            return Err(DecodeError::Invalid("name"));
        }
        let (link, xattrs) = (bytes(LINK_BYTES_MAX, "link")?, bytes(XATTRS_BYTES_MAX, "xattrs")?);
        // A page must not hold unsound attributes.
        check_xattrs(&xattrs)?;
        if link.contains(&0) {
            return Err(DecodeError::Invalid("link"));
        }
        Ok(Self {
            name,
            link,
            xattrs,
            owner_names: [
                bytes(OWNER_NAME_BYTES_MAX, "user")?,
                bytes(OWNER_NAME_BYTES_MAX, "group")?,
            ],
            ..entry
        })
    }
}

/// A part of the answer. [`ListPart::Found`] and [`ListPart::Left`] answer the directories of the
/// request in turn; names have one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// Start of the answer: the device of the data set's root, as that peer sees it.
    Begun {
        /// Device number.
        device: u64,
    },
    /// Sign of life, with the number of names that the peer has examined since it began.
    Alive {
        /// Names.
        looked: u64,
    },
    /// Content of the next directory; or entries for the first `names` of the names.
    Found {
        /// Number of names that are answered: 0 for a directory.
        names: u32,
        /// Entries that are not chosen.
        excluded: u64,
        /// The chosen entries.
        entries: Vec<ListedEntry>,
    },
    /// Refusal: the asking peer must list the next directory, or the names, itself. Either there is
    /// too much in it, or an error has occurred, for which the result of the asking peer counts.
    Left,
    /// Early end: the store is not there at that peer (C3), and nothing since the last part that
    /// was sent counts.
    Ended {
        /// Reason, for people.
        why: String,
    },
    /// End: the answer is complete.
    Done,
}

/// Longest reason that is accepted, in bytes.
const WHY_BYTES_MAX: usize = 4096;

impl ListPart {
    /// Appends its length and content, as sent in the stream.
    pub fn encode_framed(&self, out: Vec<u8>) -> Vec<u8> {
        let at = out.len();
        let mut out = Writer::over(out);
        out.u32(0);
        self.encode(&mut out);
        let mut bytes = out.into_bytes();
        let length = (bytes.len() - at - 4) as u32;
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Begun { device } => {
                out.u8(1);
                out.u64(*device);
            }
            Self::Alive { looked } => {
                out.u8(2);
                out.u64(*looked);
            }
            Self::Found { names, excluded, entries } => {
                out.u8(3);
                out.u32(*names);
                out.u64(*excluded);
                out.u32(entries.len() as u32);
                for entry in entries {
                    entry.encode(out);
                }
            }
            Self::Left => out.u8(4),
            Self::Ended { why } => {
                out.u8(5);
                let mut end = why.len().min(WHY_BYTES_MAX);
                while !why.is_char_boundary(end) {
                    end -= 1;
                }
                out.bytes(&why.as_bytes()[..end]);
            }
            Self::Done => out.u8(6),
        }
    }

    /// Parses one part, without its length.
    ///
    /// # Errors
    /// The part is malformed, or larger than the limits.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let part = match input.u8("part")? {
            1 => Self::Begun { device: input.u64("device")? },
            2 => Self::Alive { looked: input.u64("looked")? },
            3 => {
                let (names, excluded) = (input.u32("names")?, input.u64("excluded")?);
                let count = input.u32("count")? as usize;
                if count > LISTED_ENTRIES_MAX || count * ENTRY_BYTES > input.remaining() {
                    return Err(DecodeError::Invalid("count"));
                }
                let entries = (0..count).map(|_| ListedEntry::decode(&mut input));
                Self::Found { names, excluded, entries: entries.collect::<Result<_, _>>()? }
            }
            4 => Self::Left,
            5 => Self::Ended { why: input.text(WHY_BYTES_MAX, "why")?.to_owned() },
            6 => Self::Done,
            _ => return Err(DecodeError::Invalid("part")),
        };
        input.finish()?;
        Ok(part)
    }
}

/// Decoder of the parts of an answer. Holds at most one part and the bytes that arrived with its
/// end.
#[derive(Debug, Default)]
pub struct PartBuffer {
    bytes: Vec<u8>,
    taken: usize,
}

impl PartBuffer {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next part, if all of it is here.
    ///
    /// # Errors
    /// The part is malformed, or longer than [`PART_BYTES_MAX`].
    pub fn next_part(&mut self) -> Result<Option<ListPart>, DecodeError> {
        let held = &self.bytes[self.taken..];
        let Some((length, rest)) = held.split_first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > PART_BYTES_MAX {
            return Err(DecodeError::Invalid("length"));
        }
        let Some(part) = rest.get(..length) else { return Ok(None) };
        let part = ListPart::decode(part)?;
        self.taken += 4 + length;
        Ok(Some(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..most)
    }

    fn component() -> impl Strategy<Value = Vec<u8>> {
        let byte = any::<u8>().prop_filter("no slash, no zero", |byte| ![0, b'/'].contains(byte));
        let name = proptest::collection::vec(byte, 1..=255);
        name.prop_filter("a component", |found| name::is_component(found))
    }

    fn kind() -> impl Strategy<Value = ListedKind> {
        (0..ListedKind::ALL.len()).prop_map(|at| ListedKind::ALL[at])
    }

    fn time() -> impl Strategy<Value = FileTime> {
        let seconds = any::<i64>();
        (seconds, 0..1_000_000_000u32)
            .prop_map(|(seconds, nanoseconds)| FileTime { seconds, nanoseconds })
    }

    prop_compose! {
        fn entry()(
            name in component(),
            kind in kind(),
            numbers in any::<[u64; 4]>(),
            small in any::<[u32; 6]>(),
            mode in 0..=0o7777u32,
            times in (time(), time()),
            texts in (bytes(64), bytes(300), bytes(20), bytes(20)),
        ) -> ListedEntry {
            let [size, inode, blocks, device] = numbers;
            let [uid, gid, major, minor, links, left_out] = small;
            let (link, value, user, group) = texts;
            let link: Vec<u8> = link.into_iter().filter(|byte| *byte != 0).collect();
            let pair = (&b"user.some"[..], value.as_slice());
            let (xattrs, _) = crate::attributes::encode_xattrs(std::iter::once(pair));
            ListedEntry {
                name, kind, size, mode, inode, blocks, links, device, link, xattrs, left_out,
                made: links == 3,
                owner: Owner { uid, gid },
                special: DeviceNumber { major, minor },
                mtime: times.0,
                ctime: times.1,
                owner_names: [user, group],
            }
        }
    }

    proptest! {
        /// Promise (j): every name, attribute and stamp comes back as it was, in any cut of the
        /// stream.
        #[test]
        fn j_parts_come_back_from_any_cut(
            entries in proptest::collection::vec(entry(), 0..5),
            names in any::<u32>(),
            excluded in any::<u64>(),
            cut in 1..200usize,
        ) {
            let parts = [
                ListPart::Begun { device: excluded },
                ListPart::Alive { looked: excluded },
                ListPart::Found { names, excluded, entries: entries.clone() },
                ListPart::Left,
                ListPart::Ended { why: "the disk is gone".to_owned() },
                ListPart::Done,
            ];
            let stream = parts.iter().fold(Vec::new(), |out, part| part.encode_framed(out));
            let expected: usize = entries.iter().map(ListedEntry::wire_bytes).sum();
            let found = parts[2].encode_framed(Vec::new());
            prop_assert_eq!(found.len(), 4 + 1 + 4 + 8 + 4 + expected);
            let mut buffer = PartBuffer::default();
            let mut came = Vec::new();
            for bytes in stream.chunks(cut) {
                buffer.push(bytes);
                while let Some(part) = buffer.next_part().unwrap() {
                    came.push(part);
                }
            }
            prop_assert_eq!(&came[..], &parts[..]);
        }

        /// Promise: hostile bytes are refused, never a panic.
        #[test]
        fn hostile_messages_are_refused(bytes in bytes(300)) {
            let _ = ListWork::decode(&bytes);
            let _ = ListPart::decode(&bytes);
        }

        /// Promise (j): a request comes back as it was.
        #[test]
        fn j_requests_come_back(
            names in proptest::collection::vec((component(), proptest::option::of(kind())), 0..9),
        ) {
            let directory = b"some/where".to_vec();
            let work = ListWork::Names { directory, names: names.clone() };
            prop_assert_eq!(ListWork::decode(&work.encode()).unwrap(), work);
            let paths = names.into_iter().map(|(name, _)| name::join(b"some", &name)).collect();
            let work = ListWork::Directories(paths);
            prop_assert_eq!(ListWork::decode(&work.encode()).unwrap(), work);
        }
    }

    /// Promise (i): no peer is asked to list anything outside of the data set.
    #[test]
    fn i_paths_that_lead_out_are_refused() {
        for path in ["../etc", "/etc", "a//b", "a/../../b"] {
            let work = ListWork::Directories(vec![path.as_bytes().to_vec()]);
            assert!(ListWork::decode(&work.encode()).is_err(), "{path}");
            let names = vec![(path.as_bytes().to_vec(), None)];
            let work = ListWork::Names { directory: Vec::new(), names };
            assert!(ListWork::decode(&work.encode()).is_err(), "{path}");
        }
    }
}
