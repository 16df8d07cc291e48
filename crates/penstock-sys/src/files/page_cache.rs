//! The part of a file that is in the page cache.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _};

/// Returns which pages of a file that is not empty the page cache holds; see
/// [`cached_pages_in`].
///
/// # Errors
/// Those of mmap(2), for an empty file as well, and of mincore(2).
pub fn cached_pages(file: &File) -> io::Result<Vec<bool>> {
    cached_pages_in(file, 0..file.metadata()?.len())
}

/// Returns which pages of a range that is not empty the page cache holds. The first page is the one
/// in which the range begins. Reads none of them: the kernel would fetch a page that is not there.
/// Since Linux 5.2 the kernel reports all pages as held to a process that neither owns the file nor
/// may write to it (mincore(2)).
///
/// # Errors
/// Those of mmap(2), for an empty range as well, and of mincore(2).
pub fn cached_pages_in(file: impl AsFd, range: Range<u64>) -> io::Result<Vec<bool>> {
    let page_bytes = rustix::param::page_size();
    let begin = range.start - range.start % page_bytes as u64;
    let length = usize::try_from(range.end - begin).map_err(io::Error::other)?;
    let start = libc::off_t::try_from(begin).map_err(io::Error::other)?;
    let mut pages = vec![0u8; length.div_ceil(page_bytes)];
    // SAFETY: a new mapping, whose address is the kernel's to choose.
    let at = unsafe {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        let fd = file.as_fd().as_raw_fd();
        libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, start)
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping has this length, and only this function has it. The vector has a byte for
    // each of its pages (mincore(2)).
    let told = unsafe { libc::mincore(at, length, pages.as_mut_ptr()) };
    let outcome = if told == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the mapping is of this length, and nothing refers to it any more.
    unsafe { libc::munmap(at, length) };
    outcome.map(|()| pages.iter().map(|page| page & 1 == 1).collect())
}
