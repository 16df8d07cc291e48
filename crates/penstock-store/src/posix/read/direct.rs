//! Reading large files past the page cache (docs/design/0068).
//!
//! A direct read brings blocks from the disk into the buffer that they are hashed and sent from. It
//! copies nothing, and makes no pages that the kernel must find memory for and drop again. The page
//! cache of other programs stays as it is.
//!
//! Bytes that the cache has are read there: it is faster than a disk, and holds the newest data of
//! a file that was just written. A direct read of blocks that are dirty in the cache waits until
//! the kernel has written them (`filemap_write_and_wait_range` in mm/filemap.c).

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use penstock_sys::cached_pages_in;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, pread};

use crate::posix::read::read_back::DIRECT_ALIGNMENT;

/// Whether the reads of one descriptor pass the page cache by.
#[derive(Debug, Default)]
pub(crate) struct DirectReads {
    is_on: AtomicBool,
}

impl DirectReads {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Reads past the cache from now on, unless the cache has half of `range` or more. Blocks for
    /// five system calls. A process that neither owns the file nor may write to it gets no facts of
    /// the cache (mincore(2)), and reads through it.
    ///
    /// # Errors
    /// `EINVAL` if the file system takes no direct I/O; others if the kernel does not tell which
    /// pages the cache has, as in a sandbox that forbids mincore(2).
    pub(crate) fn begin(&self, fd: BorrowedFd<'_>, range: Range<u64>) -> Result<(), Errno> {
        let pages = cached_pages_in(fd, range).map_err(|error| {
            // An error of another kind has no number.
            Errno::from_io_error(&error).unwrap_or(Errno::OVERFLOW)
        })?;
        let cached = pages.iter().filter(|is_cached| **is_cached).count();
        if cached * 2 < pages.len() {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::DIRECT)?;
            self.is_on.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads through the cache from now on.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub(crate) fn end(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.is_on() {
            fcntl_setfl(fd, fcntl_getfl(fd)? - OFlags::DIRECT)?;
            self.is_on.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads `length` bytes into the begin of `buffer`, if reads are direct and offset and memory
    /// are aligned. Where the buffer has room, the last block is read whole. Returns the bytes
    /// read. Fewer than `length` are for the caller to read through the cache: the file ends there,
    /// or the file system refuses, and reads are direct no longer.
    ///
    /// # Errors
    /// `EINVAL` if the file system refuses the read of a whole block: then nothing was read. Else
    /// those of pread(2) and fcntl(2).
    pub(crate) fn read_into(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> Result<usize, Errno> {
        if !self.is_on() {
            return Ok(0);
        }
        let is_aligned = |value: u64| value.is_multiple_of(DIRECT_ALIGNMENT as u64);
        let mut end = length.next_multiple_of(DIRECT_ALIGNMENT);
        if end > buffer.len() {
            end = length - length % DIRECT_ALIGNMENT;
        }
        if !is_aligned(offset) || !is_aligned(buffer.as_ptr() as u64) {
            end = 0;
        }
        let mut filled = 0;
        // A read ends within a block at the end of the file only.
        while filled < end && is_aligned(filled as u64) {
            match pread(fd, &mut buffer[filled..end], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    self.end(fd)?;
                    return Err(errno);
                }
            }
        }
        if filled < length {
            self.end(fd)?;
        }
        Ok(filled.min(length))
    }
}
