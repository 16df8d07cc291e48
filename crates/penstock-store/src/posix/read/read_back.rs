//! Reads from storage the data that lies in the page cache: for `--readback`.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, pread};

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::check_item_name;
use crate::meta::{Kind, Meta};
use crate::posix::sandbox::open_component;
use crate::posix::stat::{stat_open, wrong_kind};

/// Alignment of offsets, lengths and memory of direct reads: the size that file systems on disks of
/// 4 KiB sectors require (open(2), O_DIRECT).
pub const DIRECT_ALIGNMENT: usize = 4096;

/// A file that is read from storage, past the page cache.
///
/// Where the file system can, reads are direct. Elsewhere the cache of the file is dropped when it
/// is opened: after a sync only pages that another process has mapped remain.
#[derive(Debug)]
pub struct ReadBackFile {
    dir: Dir,
    name: Box<[u8]>,
    fd: OwnedFd,
    direct: bool,
}

/// Implements [`Target::open_read_back`] for a directory tree.
///
/// [`Target::open_read_back`]: crate::Target::open_read_back
pub(crate) fn open_read_back(dir: &Dir, name: &[u8]) -> Result<ReadBackFile, StoreError> {
    check_item_name(dir, name)?;
    let parent = dir.fd()?;
    let mut opened = open_component(parent.as_fd(), name, OFlags::RDONLY | OFlags::DIRECT);
    let direct = opened.is_ok();
    if opened.as_ref().is_err_and(|errno| *errno == Errno::INVAL) {
        opened = open_component(parent.as_fd(), name, OFlags::RDONLY);
    }
    let fd = match opened {
        Ok(fd) => fd,
        Err(Errno::LOOP) => return Err(wrong_kind(dir, name, Kind::Symlink)),
        Err(errno) => return Err(dir.error("open", name, errno)),
    };
    let file = ReadBackFile { dir: dir.clone(), name: name.into(), fd, direct };
    file.drop_cache();
    Ok(file)
}

impl ReadBackFile {
    /// Returns the current attributes of the open file.
    ///
    /// # Errors
    /// `WrongKind` if it is not a regular file; `Io`.
    pub fn meta(&self) -> Result<Meta, StoreError> {
        let _acting = self.dir.act()?;
        let meta = stat_open(self.fd.as_fd(), &self.dir)
            .map_err(|errno| self.dir.error("stat", &self.name, errno))?;
        match meta.kind {
            Kind::File => Ok(meta),
            other => Err(wrong_kind(&self.dir, &self.name, other)),
        }
    }

    /// Returns whether reads are direct, rather than through a cache that was dropped.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Reads `length` bytes at `offset` into the begin of `buffer`, which must hold that rounded up
    /// to [`DIRECT_ALIGNMENT`] and be aligned to it; `offset` is a multiple of it. Returns the
    /// bytes read, fewer at the end of the file. Blocks.
    ///
    /// # Errors
    /// `Io`, for instance `EIO` of a broken disk.
    pub fn read_at(
        &mut self,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> Result<usize, StoreError> {
        let _acting = self.dir.act()?;
        let mut filled = 0;
        while filled < length {
            let end = if self.direct { length.next_multiple_of(DIRECT_ALIGNMENT) } else { length };
            match pread(&self.fd, &mut buffer[filled..end], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    // Only the end of the file leaves a part of a block.
                    if self.direct && filled % DIRECT_ALIGNMENT != 0 {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if self.direct => self.give_up_direct()?,
                Err(errno) => return Err(self.dir.error("read back", &self.name, errno)),
            }
        }
        Ok(filled.min(length))
    }

    /// Changes to reads through the cache: some file systems accept the flag and reject the reads.
    fn give_up_direct(&mut self) -> Result<(), StoreError> {
        let failed = |errno| self.dir.error("read back", &self.name, errno);
        let flags = fcntl_getfl(&self.fd).map_err(failed)?;
        fcntl_setfl(&self.fd, flags - OFlags::DIRECT).map_err(failed)?;
        self.direct = false;
        self.drop_cache();
        Ok(())
    }

    fn drop_cache(&self) {
        // Advice: where it is not taken, direct reads pass the cache by anyway.
        if let Err(errno) = fadvise(&self.fd, 0, None, Advice::DontNeed) {
            tracing::debug!(%errno, "page cache not dropped");
        }
    }
}
