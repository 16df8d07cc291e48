//! The part of a file that is in the page cache.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Bytes of the pages that are counted; a larger page of the machine counts as several.
const PAGE_BYTES: usize = 4096;

/// Returns which pages of 4 KiB of a file that is not empty the page cache holds. Reads none of
/// them: the kernel would fetch a page that is not there. Tests of writes past the cache need that.
///
/// # Errors
/// Those of mmap(2), for an empty file as well, and of mincore(2).
pub fn cached_pages(file: &File) -> io::Result<Vec<bool>> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut pages = vec![0u8; length.div_ceil(PAGE_BYTES)];
    // SAFETY: a new mapping, whose address is the kernel's to choose.
    let at = unsafe {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0)
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping has this length, and only this function has it. The vector has a byte for
    // each of its pages, and spare bytes where pages are larger than 4 KiB (mincore(2)).
    let told = unsafe { libc::mincore(at, length, pages.as_mut_ptr()) };
    let outcome = if told == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the mapping is of this length, and nothing refers to it any more.
    unsafe { libc::munmap(at, length) };
    outcome.map(|()| pages.iter().map(|page| page & 1 == 1).collect())
}
