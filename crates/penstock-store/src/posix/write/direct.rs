//! Writing large files past the page cache (docs/design/0016).
//!
//! Bytes that are whole blocks, in memory and in the file, go to the disk from the buffer they are
//! in. They are not copied into the page cache, and no page has to be found for them and written
//! back later. Other bytes, such as the last partial block of a file, go through the cache, on the
//! same file by a second descriptor. The kernel keeps the two apart by blocks, and no block is
//! written in both ways (B7).
//!
//! A direct write makes nothing durable by itself. The sync that ends an epoch flushes the disk's
//! own cache, and makes the blocks part of the file for good (A1).

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io::{Errno, pwrite};

/// Least alignment of offsets, lengths and addresses of direct writes: the size that disks with
/// sectors of 4 KiB require (open(2), O_DIRECT), and a page of most machines.
const ALIGNMENT_BYTES: u64 = 4096;

/// A descriptor that writes past the page cache.
#[derive(Debug)]
pub(crate) struct DirectFile {
    fd: OwnedFd,
    alignment: u64,
    /// The file system took the flag and refused a write.
    refused: AtomicBool,
}

impl DirectFile {
    /// Makes a writer for a file opened with `O_DIRECT`; `None` if the kernel reports that this
    /// file cannot do it, such as one that is encrypted or journalled.
    pub(crate) fn new(fd: OwnedFd) -> Option<Self> {
        let told = statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
        let alignment = told.map_or(Some(ALIGNMENT_BYTES), |told| alignment_of(&told))?;
        Some(Self::aligned(fd, alignment))
    }

    /// Makes a writer for a file opened with `O_DIRECT` that takes multiples of `alignment` bytes.
    pub(crate) fn aligned(fd: OwnedFd, alignment: u64) -> Self {
        Self { fd, alignment, refused: AtomicBool::new(false) }
    }

    /// Writes the whole blocks at the begin of `bytes`. Returns the number of bytes written; the
    /// rest must go through the page cache. Blocks until the disk has them.
    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let aligned = |value: u64| value.is_multiple_of(self.alignment);
        if self.refused.load(Ordering::Relaxed)
            || !aligned(offset)
            || !aligned(bytes.as_ptr() as u64)
        {
            return Ok(0);
        }
        let end = bytes.len() - bytes.len() % self.alignment as usize;
        let mut written = 0;
        while written < end && aligned(written as u64) {
            match pwrite(&self.fd, &bytes[written..end], offset + written as u64) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                    self.refused.store(true, Ordering::Relaxed);
                    break;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(written)
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Returns the alignment that the kernel requires (Linux 6.1); `None` if the file cannot be written
/// directly.
fn alignment_of(told: &Statx) -> Option<u64> {
    if told.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Some(ALIGNMENT_BYTES);
    }
    let asked = u64::from(told.stx_dio_offset_align.max(told.stx_dio_mem_align));
    (asked > 0).then_some(asked.max(ALIGNMENT_BYTES))
}
