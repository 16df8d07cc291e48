//! Lists a generated data set and opens its files.

use std::ops::ControlFlow;
use std::sync::Arc;

use penstock_proto::name;
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::mem::file::{BLOCK_BYTES, MemFile, directory_meta, mix};
use crate::mem::spec::MemSpec;
use crate::meta::{DirEntry, Kind, Meta};
use crate::posix::stat::wrong_kind;
use crate::read_file::ReadFile;

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
    /// Returns the data set that follows from `spec`; costs 512 KiB of memory for any size.
    pub fn new(spec: MemSpec) -> Self {
        let mut noise = vec![0; 2 * BLOCK_BYTES];
        let (first, second) = noise.split_at_mut(BLOCK_BYTES);
        let key = *blake3::hash(&spec.seed.to_le_bytes()).as_bytes();
        blake3::Hasher::new_keyed(&key).finalize_xof().fill(first);
        second.copy_from_slice(first);
        Self { spec, root: Dir::imagined(b""), noise: noise.into() }
    }

    /// Returns the rule.
    pub fn spec(&self) -> &MemSpec {
        &self.spec
    }

    /// Returns the root directory.
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

    /// Opens a directory, see [`Source::open_dir`].
    ///
    /// # Errors
    /// `BadPath`; `Io` with `ENOENT`.
    ///
    /// [`Source::open_dir`]: crate::Source::open_dir
    pub fn open_dir(&self, path: &[u8]) -> Result<Dir, StoreError> {
        if name::check_relative(path).is_err() {
            return Err(StoreError::bad_path(path));
        }
        match self.place(path) {
            Some(_) => Ok(Dir::imagined(path)),
            None => Err(StoreError::io("open directory", path, Errno::NOENT)),
        }
    }

    /// Lists a directory from a position on, see [`Source::list_from`], in the order of numbers;
    /// nothing is held in memory.
    ///
    /// # Errors
    /// `Io` with `ENOENT` if `dir` is of another store.
    ///
    /// [`Source::list_from`]: crate::Source::list_from
    pub fn list_from(
        &self,
        dir: &Dir,
        position: u64,
        visit: &mut dyn FnMut(DirEntry<'_>, u64) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let place = self.place(dir.path()).ok_or_else(|| dir.error("list", b"", Errno::NOENT))?;
        let (mut dirs, mut files) = match place {
            Place::Root => (0..self.spec.dirs, self.spec.files_in(None)),
            Place::Dir(number) => (0..0, self.spec.files_in(Some(number))),
        };
        let skipped = position.min(dirs.end);
        dirs.start = skipped;
        files.start = files.start.saturating_add(position - skipped).min(files.end);
        let dirs = dirs.map(|number| (b'd', number, Kind::Directory));
        let all = dirs.chain(files.map(|number| (b'f', number, Kind::File)));
        for (next, (letter, number, kind)) in (position.saturating_add(1)..).zip(all) {
            let name = numbered(letter, number);
            if visit(DirEntry { name: &name, kind: Some(kind), own: None }, next).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the attributes of an entry, see [`Source::stat`].
    ///
    /// # Errors
    /// `Io` with `ENOENT`.
    ///
    /// [`Source::stat`]: crate::Source::stat
    pub fn stat(&self, dir: &Dir, item: &[u8]) -> Result<Meta, StoreError> {
        if let Some(file) = self.file_number(dir, item) {
            return Ok(self.file(file).meta());
        }
        match self.place(&name::join(dir.path(), item)) {
            Some(Place::Root) => Ok(directory_meta(1)),
            Some(Place::Dir(number)) => Ok(directory_meta(2 + number)),
            None => Err(dir.error("stat", item, Errno::NOENT)),
        }
    }

    /// Opens a file, see [`Source::open_read`].
    ///
    /// # Errors
    /// `WrongKind` for a directory; `Io` with `ENOENT`.
    ///
    /// [`Source::open_read`]: crate::Source::open_read
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
        let key = mix(mix(self.spec.seed) ^ number);
        let inode = 2 + self.spec.dirs + number;
        MemFile::new(key, self.spec.file_bytes(number), inode, Arc::clone(&self.noise))
    }
}

/// Returns a name such as `f0000000042`: it has enough digits that names sort by number up to
/// 10^10.
fn numbered(letter: u8, number: u64) -> Vec<u8> {
    format!("{}{number:010}", char::from(letter)).into_bytes()
}

/// Returns the number in a name, if it is exactly the name that [`numbered`] returns.
fn number(letter: u8, name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(&[letter])?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (numbered(letter, number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Promise (g): ten million entries are listed without being held, each exactly once.
    #[test]
    fn every_file_is_in_exactly_one_directory() {
        let store = MemStore::new("files=1003,size=1-9,dirs=7".parse().unwrap());
        let mut seen = Vec::new();
        store
            .list_from(store.root(), 0, &mut |entry, _| {
                assert_eq!(entry.kind, Some(Kind::Directory));
                let dir = store.open_dir(entry.name).unwrap();
                let listed = store.list_from(&dir, 0, &mut |entry, _| {
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
        /// Promise: a file has the same bytes, in any pieces that it is read.
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
