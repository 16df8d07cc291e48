//! A data set that exists only as a rule: `mem:files=N,size=S,dirs=D,seed=K`.
//!
//! Names, sizes and bytes follow from the rule, so any peer, restart or test computes the same
//! ones and nothing is kept but one block of noise. Bytes are that block, rotated for each block of
//! each file, with a stamp every 4 KiB that depends on file and offset: they do not compress, no
//! two blocks are equal, and they cost one copy out of the cache.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

use penstock_proto::attributes::{DeviceNumber, Owner};
use penstock_proto::name;
use penstock_proto::units::{FileTime, parse_size};
use rustix::io::Errno;

use super::dir::Dir;
use super::error::StoreError;
use super::posix::wrong_kind;
use super::read::ReadFile;
use super::{DirEntry, Kind, Meta};

/// Bytes of noise; twice this fits into the second-level cache of the machines we know.
const BLOCK_BYTES: usize = 256 * 1024;
/// Distance of the stamps.
const STAMP_EVERY_BYTES: u64 = 4096;
const STAMP_BYTES: usize = 8;
/// Every generated entry was modified at this time: 2026-01-01 00:00 UTC.
const MTIME: FileTime = FileTime { seconds: 1_767_225_600, nanoseconds: 0 };
const ENTRIES_MAX: u64 = 1_000_000_000_000;
const FILE_BYTES_MAX: u64 = 1 << 60;

/// The rule of a generated data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemSpec {
    /// Number of files.
    pub files: u64,
    /// Smallest size of a file in bytes.
    pub size_min: u64,
    /// Largest size of a file in bytes; sizes between are equally likely.
    pub size_max: u64,
    /// Number of directories that share the files; 0: all files are in the root.
    pub dirs: u64,
    /// Seed of the bytes and sizes.
    pub seed: u64,
}

impl Default for MemSpec {
    /// Returns a data set of one file of 1 GiB.
    fn default() -> Self {
        Self { files: 1, size_min: 1 << 30, size_max: 1 << 30, dirs: 0, seed: 0 }
    }
}

/// The reason why a text is not the rule of a generated data set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {reason}; for example `mem:files=1000,size=64K,dirs=10,seed=1`")]
pub struct ParseMemSpecError {
    /// The part that was not understood.
    text: String,
    /// The expected text.
    reason: &'static str,
}

impl FromStr for MemSpec {
    type Err = ParseMemSpecError;

    /// Reads `mem:KEY=VALUE,…`, with or without `mem:`. `size` is one size or `MIN-MAX`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut spec = Self::default();
        let body = text.strip_prefix("mem:").unwrap_or(text);
        for part in body.split(',').filter(|part| !part.is_empty()) {
            let error = |reason| ParseMemSpecError { text: part.to_owned(), reason };
            let (key, value) = part.split_once('=').ok_or_else(|| error("expected KEY=VALUE"))?;
            let count = || value.parse::<u64>().map_err(|_| error("not a whole number"));
            match key {
                "files" => spec.files = count()?,
                "dirs" => spec.dirs = count()?,
                "seed" => spec.seed = count()?,
                "size" => {
                    let (low, high) = value.split_once('-').unwrap_or((value, value));
                    let size = |text| parse_size(text).map_err(|_| error("not a size"));
                    (spec.size_min, spec.size_max) = (size(low)?, size(high)?);
                }
                _ => return Err(error("unknown key: files, size, dirs or seed")),
            }
            if spec.files.max(spec.dirs) > ENTRIES_MAX || spec.size_max > FILE_BYTES_MAX {
                return Err(error("too large: at most 10^12 entries and 1 EiB a file"));
            }
            if spec.size_min > spec.size_max {
                return Err(error("the smaller size comes first"));
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for MemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mem:files={},size={}", self.files, self.size_min)?;
        if self.size_max != self.size_min {
            write!(f, "-{}", self.size_max)?;
        }
        write!(f, ",dirs={},seed={}", self.dirs, self.seed)
    }
}

impl MemSpec {
    fn files_per_dir(&self) -> u64 {
        self.files.div_ceil(self.dirs.max(1)).max(1)
    }

    /// Numbers of the files in the directory with this number, or in the root.
    fn files_in(&self, dir: Option<u64>) -> std::ops::Range<u64> {
        match dir {
            None if self.dirs == 0 => 0..self.files,
            None => 0..0,
            Some(number) => {
                let start = number.saturating_mul(self.files_per_dir()).min(self.files);
                start..start.saturating_add(self.files_per_dir()).min(self.files)
            }
        }
    }

    fn file_bytes(&self, file: u64) -> u64 {
        let spread = self.size_max - self.size_min;
        if spread == 0 {
            return self.size_min;
        }
        self.size_min + mix(mix(self.seed) ^ !file) % (spread + 1)
    }

    fn directory_meta(&self, number: u64) -> Meta {
        let links = 2;
        Meta { kind: Kind::Directory, size: 0, mode: 0o755, links, ..generated(number) }
    }
}

fn generated(inode: u64) -> Meta {
    Meta {
        kind: Kind::File,
        size: 0,
        mode: 0o644,
        owner: Owner { uid: crate::sys::own_numbers().0, gid: crate::sys::own_numbers().1 },
        special: DeviceNumber::default(),
        mtime: MTIME,
        ctime: MTIME,
        inode,
        blocks: 0,
        links: 1,
        device: 0,
        made: false,
    }
}

/// A generated data set; clones share the noise.
#[derive(Clone, Debug)]
pub struct MemStore {
    spec: MemSpec,
    root: Dir,
    noise: Arc<[u8]>,
}

enum Place {
    Root,
    Dir(u64),
}

impl MemStore {
    /// The data set that follows from `spec`; costs 512 KiB of memory whatever its size.
    pub fn new(spec: MemSpec) -> Self {
        let mut noise = vec![0; 2 * BLOCK_BYTES];
        let (first, second) = noise.split_at_mut(BLOCK_BYTES);
        let key = *blake3::hash(&spec.seed.to_le_bytes()).as_bytes();
        blake3::Hasher::new_keyed(&key).finalize_xof().fill(first);
        second.copy_from_slice(first);
        Self { spec, root: Dir::imagined(b""), noise: noise.into() }
    }

    /// The rule.
    pub fn spec(&self) -> &MemSpec {
        &self.spec
    }

    /// The root directory.
    pub fn root(&self) -> &Dir {
        &self.root
    }

    fn place(&self, path: &[u8]) -> Option<Place> {
        if path.is_empty() {
            return Some(Place::Root);
        }
        number(b'd', path).filter(|&number| number < self.spec.dirs).map(Place::Dir)
    }

    fn file_number(&self, dir: &Dir, name: &[u8]) -> Option<u64> {
        let parent = match self.place(dir.path())? {
            Place::Root => None,
            Place::Dir(number) => Some(number),
        };
        number(b'f', name).filter(|file| self.spec.files_in(parent).contains(file))
    }

    /// Opens a directory, see [`super::PosixStore::open_dir`].
    ///
    /// # Errors
    /// `BadPath`; `Io` with `ENOENT`.
    pub fn open_dir(&self, path: &[u8]) -> Result<Dir, StoreError> {
        if name::check_relative(path).is_err() {
            return Err(StoreError::bad_path(path));
        }
        match self.place(path) {
            Some(_) => Ok(Dir::imagined(path)),
            None => Err(StoreError::io("open directory", path, Errno::NOENT)),
        }
    }

    /// Lists a directory, see [`super::PosixStore::list`], in the order of numbers; nothing is held
    /// in memory.
    ///
    /// # Errors
    /// `Io` with `ENOENT` if `dir` is of another store.
    pub fn list(
        &self,
        dir: &Dir,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let place = self.place(dir.path()).ok_or_else(|| dir.error("list", b"", Errno::NOENT))?;
        let (dirs, files) = match place {
            Place::Root => (0..self.spec.dirs, self.spec.files_in(None)),
            Place::Dir(number) => (0..0, self.spec.files_in(Some(number))),
        };
        let dirs = dirs.map(|number| (b'd', number, Kind::Directory));
        for (letter, number, kind) in dirs.chain(files.map(|number| (b'f', number, Kind::File))) {
            let name = numbered(letter, number);
            if visit(DirEntry { name: &name, kind: Some(kind), own: None }).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the attributes of an entry, see [`super::PosixStore::stat`].
    ///
    /// # Errors
    /// `Io` with `ENOENT`.
    pub fn stat(&self, dir: &Dir, item: &[u8]) -> Result<Meta, StoreError> {
        if let Some(file) = self.file_number(dir, item) {
            return Ok(self.file(file).meta());
        }
        match self.place(&name::join(dir.path(), item)) {
            Some(Place::Root) => Ok(self.spec.directory_meta(1)),
            Some(Place::Dir(number)) => Ok(self.spec.directory_meta(2 + number)),
            None => Err(dir.error("stat", item, Errno::NOENT)),
        }
    }

    /// Opens a file, see [`super::PosixStore::open_read`].
    ///
    /// # Errors
    /// `WrongKind` for a directory; `Io` with `ENOENT`.
    pub fn open_read(&self, dir: &Dir, item: &[u8]) -> Result<ReadFile, StoreError> {
        match self.file_number(dir, item) {
            Some(file) => Ok(ReadFile::mem(dir.clone(), item, self.file(file))),
            None => {
                let kind = self.stat(dir, item)?.kind;
                Err(wrong_kind(dir, item, kind))
            }
        }
    }

    fn file(&self, number: u64) -> MemFile {
        MemFile {
            key: mix(mix(self.spec.seed) ^ number),
            bytes: self.spec.file_bytes(number),
            inode: 2 + self.spec.dirs + number,
            noise: Arc::clone(&self.noise),
        }
    }
}

/// `f0000000042`: enough digits that names sort by number up to 10^10.
fn numbered(letter: u8, number: u64) -> Vec<u8> {
    format!("{}{number:010}", char::from(letter)).into_bytes()
}

/// Returns the number in a name, if it is exactly the name that [`numbered`] returns.
fn number(letter: u8, name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(&[letter])?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (numbered(letter, number) == name).then_some(number)
}

/// A permutation of 64 bits that spreads every input bit over all (splitmix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A generated file.
pub(super) struct MemFile {
    key: u64,
    bytes: u64,
    inode: u64,
    noise: Arc<[u8]>,
}

impl MemFile {
    pub(super) fn meta(&self) -> Meta {
        Meta { size: self.bytes, blocks: self.bytes.div_ceil(512), ..generated(self.inode) }
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let mut filled = 0;
        while filled < count {
            let at = offset + filled as u64;
            let within = (at % BLOCK_BYTES as u64) as usize;
            let part = (BLOCK_BYTES - within).min(count - filled);
            let rotation = self.rotation(at / BLOCK_BYTES as u64);
            let noise = &self.noise[rotation + within..][..part];
            buffer[filled..filled + part].copy_from_slice(noise);
            filled += part;
        }
        self.stamp(offset, &mut buffer[..count]);
        count
    }

    /// Returns by how many bytes the noise of this block of the file is rotated: whole 64 bytes, a
    /// cache line.
    fn rotation(&self, block: u64) -> usize {
        (mix(self.key ^ block) % (BLOCK_BYTES as u64 / 64) * 64) as usize
    }

    fn stamp(&self, offset: u64, bytes: &mut [u8]) {
        let end = offset + bytes.len() as u64;
        let mut at = offset - offset % STAMP_EVERY_BYTES;
        while at < end {
            let stamp: [u8; STAMP_BYTES] = mix(self.key.wrapping_add(mix(at))).to_le_bytes();
            for (position, byte) in (at..).zip(stamp) {
                if (offset..end).contains(&position) {
                    bytes[(position - offset) as usize] ^= byte;
                }
            }
            at += STAMP_EVERY_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Promise: a typed rule means what it says, and a wrong one says what is wrong.
    #[test]
    fn rules_are_read_and_written() {
        let spec: MemSpec = "mem:files=1000,size=64K-1M,dirs=10,seed=7".parse().unwrap();
        assert_eq!((spec.files, spec.size_min, spec.size_max), (1000, 65_536, 1 << 20));
        assert_eq!(spec.to_string().parse(), Ok(spec));
        for bad in ["files", "files=x", "size=9Q", "colour=1", "size=2-1", "files=99999999999999"] {
            assert!(bad.parse::<MemSpec>().is_err(), "`{bad}` must be refused");
        }
    }

    /// Promise (g): ten million entries are listed without being held, each exactly once.
    #[test]
    fn every_file_is_in_exactly_one_directory() {
        let store = MemStore::new("files=1003,size=1-9,dirs=7".parse().unwrap());
        let mut seen = Vec::new();
        store
            .list(store.root(), &mut |entry| {
                assert_eq!(entry.kind, Some(Kind::Directory));
                let dir = store.open_dir(entry.name).unwrap();
                let listed = store.list(&dir, &mut |entry| {
                    let meta = store.stat(&dir, entry.name).unwrap();
                    assert!((1..=9).contains(&meta.size));
                    seen.push(meta.inode);
                    ControlFlow::Continue(())
                });
                listed.unwrap();
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen.len(), 1003);
        seen.dedup();
        assert_eq!(seen.len(), 1003);
        let elsewhere = store.open_dir(b"d0000000001").unwrap();
        assert!(store.stat(&elsewhere, b"f0000000000").unwrap_err().is_vanished());
    }

    /// Promise: bytes do not compress by repetition: no two 4 KiB of two files are equal.
    #[test]
    fn blocks_differ_between_files_and_offsets() {
        let store = MemStore::new("files=2,size=1M".parse().unwrap());
        let mut blocks = std::collections::HashSet::new();
        for name in [b"f0000000000", b"f0000000001"] {
            let file = store.open_read(store.root(), name).unwrap();
            let mut bytes = vec![0; 1 << 20];
            assert_eq!(file.read_at(0, &mut bytes).unwrap(), 1 << 20);
            assert!(bytes.chunks(4096).all(|block| blocks.insert(block.to_vec())));
        }
    }

    proptest! {
        /// Promise: a file has the same bytes in whatever pieces it is read.
        #[test]
        fn pieces_agree_with_the_whole(start in 0..600_000u64, length in 0..400_000usize) {
            let store = MemStore::new("files=1,size=700001,seed=3".parse().unwrap());
            let file = store.open_read(store.root(), b"f0000000000").unwrap();
            let mut whole = vec![0; 700_001];
            prop_assert_eq!(file.read_at(0, &mut whole).unwrap(), 700_001);
            let mut part = vec![0; length];
            let count = file.read_at(start, &mut part).unwrap();
            prop_assert_eq!(count, length.min(700_001 - start as usize));
            prop_assert_eq!(&part[..count], &whole[start as usize..][..count]);
        }
    }
}
