//! The root digest of a data set: one Merkle tree over the digests of all its files, independent of
//! their order (docs/protocol.md, "Root digest").
//!
//! A leaf is the BLAKE3 of a file's line in the digest list. The leaves are sorted, and the root is
//! the BLAKE3 of all of them behind each other, which is itself a binary tree. Up to
//! `LEAVES_MAX` leaves are sorted in memory; more go to files of 32 bytes a leaf that have no
//! name, and are merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use penstock_proto::checksum::format_line;
use penstock_proto::digest::Digest;

/// Leaves that are sorted in memory: 32 MiB.
const LEAVES_MAX: usize = 1 << 20;

type Leaf = [u8; 32];

/// Computes the root digest from the digests of files, in any order.
#[derive(Debug)]
pub struct RootHasher {
    directory: PathBuf,
    leaves_max: usize,
    leaves: Vec<Leaf>,
    runs: Vec<File>,
    count: u64,
}

impl RootHasher {
    /// Makes a hasher that stores the leaves that do not fit memory in files below `directory`.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            leaves_max: LEAVES_MAX,
            leaves: Vec::new(),
            runs: Vec::new(),
            count: 0,
        }
    }

    /// Takes the BLAKE3 of one file, under its name in the digest list. Blocks where memory is
    /// full.
    ///
    /// # Errors
    /// A file cannot be written below the directory.
    pub fn add(&mut self, digest: Digest, name: &[u8]) -> io::Result<()> {
        self.add_line(&format_line(&digest.to_hex(), name))
    }

    /// Takes one line of a digest list, with its line break.
    ///
    /// # Errors
    /// As [`RootHasher::add`].
    pub fn add_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.leaves.push(*blake3::hash(line).as_bytes());
        self.count += 1;
        if self.leaves.len() < self.leaves_max {
            return Ok(());
        }
        self.leaves.sort_unstable();
        let path = self.directory.join(format!("leaves-{:016x}", rand::random::<u64>()));
        let mut run =
            File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        std::fs::remove_file(&path)?;
        run.write_all(self.leaves.as_flattened())?;
        run.rewind()?;
        self.runs.push(run);
        self.leaves.clear();
        Ok(())
    }

    /// Returns the number of files.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the root digest. Blocks.
    ///
    /// # Errors
    /// The written leaves cannot be read again.
    pub fn finish(mut self) -> io::Result<Digest> {
        self.leaves.sort_unstable();
        let mut runs: Vec<Box<dyn Read>> = Vec::new();
        for run in self.runs {
            runs.push(Box::new(BufReader::with_capacity(64 << 10, run)));
        }
        runs.push(Box::new(io::Cursor::new(self.leaves.into_flattened())));
        let mut heads = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            if let Some(leaf) = next(run)? {
                heads.push(Reverse((leaf, index)));
            }
        }
        let mut hasher = blake3::Hasher::new();
        while let Some(Reverse((leaf, index))) = heads.pop() {
            hasher.update(&leaf);
            if let Some(leaf) = next(&mut runs[index])? {
                heads.push(Reverse((leaf, index)));
            }
        }
        Ok(Digest(*hasher.finalize().as_bytes()))
    }
}

fn next(run: &mut impl Read) -> io::Result<Option<Leaf>> {
    let mut leaf = [0; 32];
    match run.read_exact(&mut leaf) {
        Ok(()) => Ok(Some(leaf)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the root does not depend on the order of the files, nor on how many fit memory.
    #[test]
    fn the_root_is_the_same_in_any_order_and_memory() {
        let directory = tempfile::tempdir().unwrap();
        let root = |leaves_max: usize, backwards: bool| {
            let mut hasher = RootHasher { leaves_max, ..RootHasher::new(directory.path()) };
            for at in 0..100_u8 {
                let at = if backwards { 99 - at } else { at };
                hasher.add(Digest([at; 32]), &[b'f', at]).unwrap();
            }
            assert_eq!(hasher.count(), 100);
            hasher.finish().unwrap()
        };
        let expected = root(1000, false);
        assert_eq!(root(1000, true), expected);
        assert_eq!(root(7, true), expected);
        assert_eq!(root(100, false), expected);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "files are left");
    }
}
