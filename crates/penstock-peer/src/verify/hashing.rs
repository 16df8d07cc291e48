//! Reads files and hashes them, outside of a transfer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::slicing::Slicing;
use penstock_store::checksum::Checksums;
use penstock_store::{Meta, ReadFile, StoreError};

/// Bytes per read: they fit a core's cache, so that several kinds of checksum cost one read.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// Feeds a file of `size` bytes to `checksums`, from its first byte to its last; with `sparse`,
/// holes are not read (D2). Returns the number of bytes read: fewer if the file became shorter.
pub(crate) fn feed(
    file: &ReadFile,
    size: u64,
    sparse: bool,
    checksums: &mut Checksums,
    buffer: &mut [u8],
) -> Result<u64, StoreError> {
    let mut at = 0;
    while at < size {
        if sparse {
            let data = file.next_data(at)?.unwrap_or(size).min(size);
            checksums.update_zeros(data - at);
            at = data;
            if at >= size {
                break;
            }
        }
        let length = (size - at).min(buffer.len() as u64) as usize;
        let read = file.read_at(at, &mut buffer[..length])?;
        checksums.update(&buffer[..read]);
        at += read as u64;
        if read < length {
            break;
        }
    }
    Ok(at)
}

/// Returns the BLAKE3 of an open file and its attributes; `None` if it changed while it was read.
/// `buffer` holds a stride.
pub(crate) fn digest_of_file(
    file: &ReadFile,
    buffer: &mut [u8],
) -> Result<Option<(Digest, Meta)>, StoreError> {
    let before = file.measured(true)?;
    let hash = TreeHash::new(DigestKind::Blake3, &Slicing::default(), before.size);
    let mut digest = None;
    for extent in 0..hash.count() {
        let read = |at, length, buffer: &mut [u8]| file.read_at(at, &mut buffer[..length]);
        if !hash.hash(extent, buffer, read, |_| {})? {
            return Ok(None);
        }
        digest = hash.end_extent();
    }
    let after = file.meta_read_to(before.size, true)?;
    let same = (after.size, after.mtime, after.ctime) == (before.size, before.mtime, before.ctime);
    Ok(digest.filter(|_| same).map(|digest| (digest, before)))
}

/// The digest of a file as transfers compute it: strides merge to extents, extents to the file. For
/// BLAKE3 this is the standard digest (D1). Several threads may hash extents in any order. The
/// thread that ends the last extent merges them.
pub(crate) struct TreeHash {
    kind: DigestKind,
    size: u64,
    stride_bytes: u64,
    extent_bytes: u64,
    extents: Mutex<Vec<Digest>>,
    left: AtomicU64,
}

impl TreeHash {
    /// Creates the hash of a file of `size` bytes, cut as in a page of `slicing`. Holds 32 bytes
    /// for each of at most [`penstock_proto::slicing::EXTENTS_PER_FILE_MAX`] extents.
    pub(crate) fn new(kind: DigestKind, slicing: &Slicing, size: u64) -> Self {
        let extent_bytes = slicing.extent_bytes_of(size);
        let count = size.div_ceil(extent_bytes).max(1);
        Self {
            kind,
            size,
            stride_bytes: u64::from(slicing.stride_bytes),
            extent_bytes,
            extents: Mutex::new(vec![Digest::default(); count as usize]),
            left: AtomicU64::new(count),
        }
    }

    /// Returns the number of extents.
    pub(crate) fn count(&self) -> u64 {
        self.size.div_ceil(self.extent_bytes).max(1)
    }

    /// Hashes one extent. `read` fills the start of the buffer, which holds a stride. It gets the
    /// number of bytes and the offset, and returns how many it has read. Each part is shown to
    /// `see`. Returns `false` if the file became shorter.
    pub(crate) fn hash(
        &self,
        extent: u64,
        buffer: &mut [u8],
        mut read: impl FnMut(u64, usize, &mut [u8]) -> Result<usize, StoreError>,
        mut see: impl FnMut(&[u8]),
    ) -> Result<bool, StoreError> {
        let start = extent * self.extent_bytes;
        let end = (start + self.extent_bytes).min(self.size);
        let mut strides = Vec::new();
        let mut at = start;
        loop {
            let length = (end - at).min(self.stride_bytes) as usize;
            if read(at, length, buffer)? < length {
                return Ok(false);
            }
            strides.push(self.kind.stride(self.size, at, &buffer[..length]));
            see(&buffer[..length]);
            at += length as u64;
            if at >= end {
                break;
            }
        }
        let whole = self.count() == 1;
        let digest = self.kind.merge(&strides, self.stride_bytes, end - start, whole);
        let mut extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        extents[extent as usize] = digest;
        Ok(true)
    }

    /// Ends an extent. Returns the digest of the file, if it was the last.
    pub(crate) fn end_extent(&self) -> Option<Digest> {
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        let extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        Some(self.kind.merge(&extents, self.extent_bytes, self.size, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_proto::checksum::ChecksumKind;
    use penstock_store::{PosixOptions, PosixStore};

    /// D1, D2: a file hashed in extents, and one whose holes were not read, have the standard
    /// digest.
    #[test]
    fn d1_d2_extents_and_holes_give_the_standard_digest() {
        use std::os::unix::fs::FileExt as _;
        let directory = tempfile::tempdir().unwrap();
        let size = (33 << 20) + 12_345;
        let path = directory.path().join("f");
        let made = std::fs::File::create(&path).unwrap();
        made.set_len(size).unwrap();
        for at in [0, 5 << 20, 17 << 20, size - 3] {
            made.write_all_at(b"abc", at).unwrap();
        }
        let expected = blake3::hash(&std::fs::read(&path).unwrap());
        let store = PosixStore::open(directory.path(), PosixOptions::default()).unwrap();
        let file = store.open_read(store.root(), b"f").unwrap();
        let mut buffer = vec![0; 1 << 20];
        let hash = TreeHash::new(DigestKind::Blake3, &Slicing::default(), size);
        assert!(hash.count() > 2);
        let mut found = None;
        for extent in (0..hash.count()).rev() {
            let read = |at, length, buffer: &mut [u8]| file.read_at(at, &mut buffer[..length]);
            assert!(hash.hash(extent, &mut buffer, read, |_| {}).unwrap());
            found = hash.end_extent();
        }
        assert_eq!(found.unwrap().0, *expected.as_bytes());
        let mut checksums = Checksums::new(&[ChecksumKind::Blake3]);
        assert_eq!(feed(&file, size, true, &mut checksums, &mut buffer).unwrap(), size);
        assert_eq!(checksums.finish()[0].value(), expected.as_bytes());
    }
}
