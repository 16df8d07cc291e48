//! Compares the bytes of two files, large ones in extents by several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use penstock_store::{Meta, ReadFile, StoreError};

use crate::verify::hashing::CHUNK_BYTES;

/// Size above which idle threads compare a file in parts of this size.
const EXTENT_BYTES: u64 = 64 << 20;
/// Most parts of a file, so that a huge one does not fill the memory.
const EXTENTS_MAX: u64 = 256;

/// Two buffers of one thread.
pub(super) struct Buffers {
    source: Vec<u8>,
    target: Vec<u8>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { source: vec![0; CHUNK_BYTES], target: vec![0; CHUNK_BYTES] }
    }
}

/// Two open files of one size.
pub(super) struct FilePair {
    pub(super) path: Vec<u8>,
    source: (ReadFile, Meta),
    target: (ReadFile, Meta),
    /// Offset of the first known difference; the size if there is none.
    differs_at: AtomicU64,
    extents_left: AtomicU64,
    broken: AtomicBool,
}

/// An operation that failed, and at which side.
pub(super) type SideError = (&'static str, StoreError);

/// The result of comparing two files.
pub(super) enum Verdict {
    Same,
    DiffersAt(u64),
    Changed,
    /// Told already.
    Broken,
}

impl FilePair {
    /// Creates a pair of files that have the same size; their attributes are checked again at the
    /// end.
    pub(super) fn new(path: Vec<u8>, source: (ReadFile, Meta), target: (ReadFile, Meta)) -> Self {
        let size = source.1.size;
        Self {
            path,
            source,
            target,
            differs_at: AtomicU64::new(size),
            extents_left: AtomicU64::new(size.div_ceil(extent_bytes(size)).max(1)),
            broken: AtomicBool::new(false),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.source.1.size
    }

    /// Returns the number of parts that are compared at a time; one for a small file.
    pub(super) fn extents(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (size, step) = (self.size(), extent_bytes(self.size()));
        let count = size.div_ceil(step).max(1);
        (0..count).map(move |at| at * step..((at + 1) * step).min(size))
    }

    /// Compares a part. Returns whether it was the last of all, whose caller asks for the verdict.
    pub(super) fn compare(
        &self,
        range: Range<u64>,
        buffers: &mut Buffers,
    ) -> Result<(), SideError> {
        let mut at = range.start;
        let sparse = self.source.1.is_sparse() && self.target.1.is_sparse();
        while at < range.end && at < self.differs_at.load(Ordering::Relaxed) {
            if self.broken.load(Ordering::Relaxed) {
                return Ok(());
            }
            if sparse {
                at = self.next_data(at, range.end)?;
                if at >= range.end {
                    return Ok(());
                }
            }
            let length = (range.end - at).min(CHUNK_BYTES as u64) as usize;
            let (left, right) = (&mut buffers.source[..length], &mut buffers.target[..length]);
            let read_left = self.source.0.read_at(at, left).map_err(|error| ("source", error))?;
            let read_right = self.target.0.read_at(at, right).map_err(|error| ("target", error))?;
            // A file that became shorter is found by its size at the end.
            let read = read_left.min(read_right);
            if left[..read] != right[..read] {
                let same = left.iter().zip(right.iter()).take_while(|(left, right)| left == right);
                self.differs_at.fetch_min(at + same.count() as u64, Ordering::Relaxed);
                return Ok(());
            }
            if read < length {
                self.differs_at.fetch_min(at + read as u64, Ordering::Relaxed);
                return Ok(());
            }
            at += length as u64;
        }
        Ok(())
    }

    /// Returns the offset of the next byte that is not in a hole of both files (D2).
    fn next_data(&self, at: u64, end: u64) -> Result<u64, SideError> {
        let find = |file: &ReadFile, side| {
            file.next_data(at).map(|data| data.unwrap_or(end)).map_err(|error| (side, error))
        };
        Ok(find(&self.source.0, "source")?.min(find(&self.target.0, "target")?).min(end))
    }

    /// Abandons the pair of files. Returns whether this is the first call.
    pub(super) fn give_up(&self) -> bool {
        !self.broken.swap(true, Ordering::Relaxed)
    }

    /// Ends a part. Returns the verdict, if it was the last.
    pub(super) fn end_extent(&self) -> Option<Result<Verdict, SideError>> {
        (self.extents_left.fetch_sub(1, Ordering::AcqRel) == 1).then(|| self.verdict())
    }

    fn verdict(&self) -> Result<Verdict, SideError> {
        if self.broken.load(Ordering::Relaxed) {
            return Ok(Verdict::Broken);
        }
        let after = |(file, before): &(ReadFile, Meta), side| {
            let now = file.meta_read_to(before.size, true).map_err(|error| (side, error))?;
            Ok((now.size, now.mtime, now.ctime) != (before.size, before.mtime, before.ctime))
        };
        if after(&self.source, "source")? || after(&self.target, "target")? {
            return Ok(Verdict::Changed);
        }
        let differs_at = self.differs_at.load(Ordering::Acquire);
        Ok(if differs_at < self.size() { Verdict::DiffersAt(differs_at) } else { Verdict::Same })
    }
}

fn extent_bytes(size: u64) -> u64 {
    EXTENT_BYTES.max(size.div_ceil(EXTENTS_MAX).next_multiple_of(CHUNK_BYTES as u64))
}
