//! A file open for reading, and memory for listings.

use std::fmt;
use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use penstock_proto::name;
use penstock_sys::cached_pages;
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::{Errno, pread};

use crate::dir::Dir;
use crate::error::StoreError;
use crate::mem::file::MemFile;
use crate::meta::{Kind, Meta};
use crate::posix::read::direct::DirectReads;
use crate::posix::stat::{stat_open, wrong_kind};

/// Size of the buffer of one getdents(2) call: some 1,600 entries with names of 16 bytes.
const LIST_BUFFER_BYTES: usize = 64 * 1024;

/// Memory for listing, 64 KiB; one per worker, used again for each directory.
pub struct ListBuffer(Vec<u8>);

impl ListBuffer {
    /// Returns the memory for one listing at a time.
    pub fn new() -> Self {
        Self(Vec::with_capacity(LIST_BUFFER_BYTES))
    }

    pub(crate) fn memory(&mut self) -> &mut [MaybeUninit<u8>] {
        self.0.spare_capacity_mut()
    }
}

impl Default for ListBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ListBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListBuffer").finish_non_exhaustive()
    }
}

/// A file open for reading. Reads at several offsets may run at once on one `ReadFile`.
pub struct ReadFile {
    pub(crate) dir: Dir,
    pub(crate) name: Box<[u8]>,
    pub(crate) handle: Handle,
    direct: DirectReads,
    /// A descriptor and its position, for a file that takes no offset.
    pub(crate) stream: Mutex<Option<(OwnedFd, u64)>>,
}

pub(crate) enum Handle {
    Posix(OwnedFd),
    Mem(MemFile),
}

impl ReadFile {
    pub(crate) fn posix(dir: Dir, name: &[u8], fd: OwnedFd) -> Self {
        Self::new(dir, name, Handle::Posix(fd))
    }

    pub(crate) fn mem(dir: Dir, name: &[u8], file: MemFile) -> Self {
        Self::new(dir, name, Handle::Mem(file))
    }

    fn new(dir: Dir, name: &[u8], handle: Handle) -> Self {
        let (direct, stream) = (DirectReads::default(), Mutex::default());
        Self { dir, name: name.into(), handle, direct, stream }
    }

    pub(crate) fn error(&self, operation: &'static str, errno: Errno) -> StoreError {
        self.dir.error(operation, &self.name, errno)
    }

    /// Returns the current attributes of the open file; on network file systems from the server
    /// (C1). Read them before and after reading: same size, mtime and identity mean the same
    /// version.
    ///
    /// # Errors
    /// `WrongKind` if it is not a regular file; `Io`.
    pub fn meta(&self) -> Result<Meta, StoreError> {
        let meta = match &self.handle {
            Handle::Posix(fd) => {
                let _acting = self.dir.act()?;
                stat_open(fd.as_fd(), &self.dir).map_err(|errno| self.error("stat", errno))?
            }
            Handle::Mem(file) => file.meta(),
        };
        match meta.kind {
            Kind::File => Ok(meta),
            other => Err(wrong_kind(&self.dir, &self.name, other)),
        }
    }

    /// Lets [`ReadFile::read_into`] read `range` past the page cache, where the store's [`IoMode`]
    /// and its file system allow it, unless the cache has half of the range. For a large file,
    /// before its first byte is read: it costs five calls.
    ///
    /// [`IoMode`]: crate::IoMode
    pub fn make_direct(&self, range: Range<u64>) {
        let Handle::Posix(fd) = &self.handle else { return };
        let Some(mount) = self.dir.mount().filter(|mount| mount.reads_directly()) else { return };
        if let Err(errno) = self.direct.begin(fd.as_fd(), range) {
            mount.refuse_direct_reads(errno);
        }
    }

    /// Returns whether whole blocks are read past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_on()
    }

    /// Reads `length` bytes at `offset`, or those until the file ends, into the begin of `buffer`;
    /// returns the bytes read. Past the page cache, if [`ReadFile::make_direct`] has allowed it, as
    /// far as `offset` and `buffer` are aligned to [`DIRECT_ALIGNMENT`]. The last block is then
    /// read whole, and overwrites bytes of `buffer` beyond `length`. Use memory of a
    /// [`BufferPool`], which no child process shares (open(2), O_DIRECT). Blocks.
    ///
    /// [`DIRECT_ALIGNMENT`]: crate::DIRECT_ALIGNMENT
    /// [`BufferPool`]: penstock_sys::buffer::BufferPool
    ///
    /// # Errors
    /// Those of [`ReadFile::read_at`].
    ///
    /// # Panics
    /// If `buffer` is shorter than `length`.
    pub fn read_into(
        &self,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> Result<usize, StoreError> {
        let mut filled = 0;
        if let Handle::Posix(fd) = &self.handle {
            let _acting = self.dir.act()?;
            filled = match self.direct.read_into(fd.as_fd(), offset, length, buffer) {
                Err(errno @ (Errno::INVAL | Errno::OPNOTSUPP)) => {
                    self.dir.mount().inspect(|mount| mount.refuse_direct_reads(errno));
                    0
                }
                read => read.map_err(|errno| self.error("read", errno))?,
            };
        }
        if filled == length {
            return Ok(filled);
        }
        Ok(filled + self.read_at(offset + filled as u64, &mut buffer[filled..length])?)
    }

    /// Reads at `offset` through the page cache until `buffer` is full or the file ends; returns
    /// the bytes read. Fewer than asked for means that the file ends there now. Blocks.
    ///
    /// # Errors
    /// `Io`, for instance `EIO` of a broken disk or `ESTALE` of a lost server; `EFBIG` of a file
    /// that makes its readers wait, as logs of the kernel do.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        match &self.handle {
            Handle::Posix(fd) => {
                let _acting = self.dir.act()?;
                self.direct.end(fd.as_fd()).map_err(|errno| self.error("read", errno))?;
                let read = match read_fully(fd.as_fd(), offset, buffer) {
                    Err(Errno::SPIPE) => self.read_streamed(offset, buffer),
                    read => read,
                };
                read.map_err(|errno| match errno {
                    Errno::AGAIN => self.error("read to its end", Errno::FBIG),
                    errno => self.error("read", errno),
                })
            }
            Handle::Mem(file) => Ok(file.read_at(offset, buffer)),
        }
    }

    /// Drops the clean pages of the file from this host's cache, so that the next read asks the
    /// file system. Where other hosts write to the file, a page read before their write shows the
    /// old content (A9). The call is advice (posix_fadvise(2)): pages that a process has mapped
    /// stay, and so do those in the cache of the file system's own client.
    pub fn drop_cache(&self) {
        if let Handle::Posix(fd) = &self.handle
            && let Err(errno) = fadvise(fd, 0, None, Advice::DontNeed)
        {
            tracing::debug!(%errno, file = ?self, "page cache not dropped");
        }
    }

    /// Returns the share of the file's pages that this host's page cache holds, from 0 to 1. `None`
    /// if that cannot be known, as for an empty file, or a file system whose client has a cache of
    /// its own. Reads nothing.
    pub fn cached_share(&self) -> Option<f64> {
        let Handle::Posix(fd) = &self.handle else { return None };
        let pages = cached_pages(&File::from(fd.try_clone().ok()?)).ok()?;
        let cached = pages.iter().filter(|is_cached| **is_cached).count();
        (!pages.is_empty()).then(|| cached as f64 / pages.len() as f64)
    }

    /// Returns the begin of the next data at or after `offset`; `None` if only a hole, or nothing,
    /// is left. File systems without this knowledge report that everything is data.
    ///
    /// # Errors
    /// `Io`.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>, StoreError> {
        let _acting = self.dir.act()?;
        let size = match &self.handle {
            Handle::Mem(file) => file.meta().size,
            Handle::Posix(fd) => match seek(fd, SeekFrom::Data(offset)) {
                Ok(data) => return Ok(Some(data)),
                Err(Errno::NXIO) => return Ok(None),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => self.meta()?.size,
                Err(errno) => return Err(self.error("seek data", errno)),
            },
        };
        Ok((offset < size).then_some(offset))
    }

    /// Returns the begin of the next hole at or after `offset`; the end of the file counts as one.
    ///
    /// # Errors
    /// `Io`.
    pub fn next_hole(&self, offset: u64) -> Result<u64, StoreError> {
        let _acting = self.dir.act()?;
        let size = match &self.handle {
            Handle::Mem(file) => file.meta().size,
            Handle::Posix(fd) => match seek(fd, SeekFrom::Hole(offset)) {
                Ok(hole) => return Ok(hole),
                // The offset lies at or after the end.
                Err(Errno::NXIO) => return Ok(offset),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => self.meta()?.size,
                Err(errno) => return Err(self.error("seek hole", errno)),
            },
        };
        Ok(size.max(offset))
    }
}

impl fmt::Debug for ReadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadFile({})", name::escape(&name::join(self.dir.path(), &self.name)))
    }
}

fn read_fully(fd: BorrowedFd<'_>, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(fd, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}
