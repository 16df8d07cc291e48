//! A temporary file open for writing.

use std::os::fd::{AsFd as _, OwnedFd};
use std::{fmt, io};

use penstock_proto::attributes::Owner;
use penstock_proto::name;
use penstock_sys::{FileSystemKind, close_file};
use rustix::fs::{
    FallocateFlags, OFlags, Timestamps, fallocate, fstat, fsync, ftruncate, futimens,
};
use rustix::io::{Errno, pwrite};

use crate::dir::Dir;
use crate::error::StoreError;
use crate::meta::{Kind, Meta};
use crate::posix::file_system::mount::Mount;
use crate::posix::sandbox::open_component;
use crate::posix::stat::{stat_open, wrong_kind};
use crate::posix::write::attributes::{Attributes, Node, NodeKind, NotSet};
use crate::posix::write::direct::DirectFile;
use crate::posix::write::writeback::{Window, Writeback};

/// A temporary file open for writing. Writes at several offsets may run at once.
///
/// Dropping it closes it without hearing of errors: end it by [`WriteFile::finish`] or
/// [`WriteFile::close`].
pub struct WriteFile {
    dir: Dir,
    name: Box<[u8]>,
    /// `None` in a store that keeps nothing.
    fd: Option<OwnedFd>,
    created: bool,
    /// The mode that the file was made with, if that is known; also if the umask has decided it.
    mode: Option<u32>,
    /// The counter of written bytes, with early write-back.
    window: Option<Window>,
    /// A second descriptor, if whole blocks pass the page cache by.
    pub(crate) direct: Option<DirectFile>,
}

impl WriteFile {
    pub(crate) fn posix(
        dir: Dir,
        name: &[u8],
        fd: OwnedFd,
        created: bool,
        mode: Option<u32>,
    ) -> Self {
        let early = dir.mount().is_some_and(|mount| mount.writeback() == Writeback::Early);
        let window = early.then(Window::default);
        Self { dir, name: name.into(), fd: Some(fd), created, mode, window, direct: None }
    }

    /// Returns a file whose bytes go nowhere.
    pub(crate) fn null(dir: Dir, name: &[u8]) -> Self {
        let (name, window, direct) = (name.into(), None, None);
        Self { dir, name, fd: None, created: true, mode: None, window, direct }
    }

    fn error(&self, operation: &'static str, errno: impl Into<io::Error>) -> StoreError {
        self.dir.error(operation, &self.name, errno)
    }

    /// Leaves the time of write-back to the kernel: for data without required durability.
    pub fn make_lazy(&mut self) {
        self.window = None;
    }

    /// Writes whole blocks past the page cache from now on, where the store's [`IoMode`] and its
    /// file system allow it. For a large file, before its first byte is written: it costs four
    /// calls, and small files are better off in the cache. A file that cannot be opened a second
    /// time is written through the cache, such as one whose mode forbids its owner to write.
    ///
    /// [`IoMode`]: crate::IoMode
    ///
    /// # Errors
    /// `Io`. Rejected direct writes are no error.
    pub fn make_direct(&mut self) -> Result<(), StoreError> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let Some(mount) = self.dir.mount().filter(|mount| mount.is_direct()) else { return Ok(()) };
        let parent = self.dir.fd()?;
        match open_component(parent.as_fd(), &self.name, OFlags::WRONLY | OFlags::DIRECT) {
            Ok(direct) => {
                let same = |told: &rustix::fs::Stat| (told.st_dev, told.st_ino);
                let ours = fstat(fd).map_err(|errno| self.error("stat", errno))?;
                let theirs = fstat(&direct).map_err(|errno| self.error("stat", errno))?;
                // The name may have gone to a later attempt: this handle keeps to its own file.
                if same(&ours) == same(&theirs) {
                    self.direct = DirectFile::new(direct);
                }
            }
            Err(Errno::INVAL | Errno::OPNOTSUPP) => mount.refuse_direct(),
            Err(errno) => tracing::debug!(%errno, file = ?self, "not written directly"),
        }
        Ok(())
    }

    /// Returns whether whole blocks are written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.as_ref().is_some_and(|direct| !direct.is_refused())
    }

    /// Returns the directory that holds the file: publish it there.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the temporary name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns whether this open made the file; otherwise it existed, with the data of others.
    pub fn was_created(&self) -> bool {
        self.created
    }

    /// Returns the current attributes of the file; its inode distinguishes two temporary files of
    /// one name (B1). `None` in a store that keeps nothing.
    ///
    /// # Errors
    /// `WrongKind`; `Io`.
    pub fn meta(&self) -> Result<Option<Meta>, StoreError> {
        let Some(fd) = &self.fd else { return Ok(None) };
        let _acting = self.dir.act()?;
        let meta = stat_open(fd.as_fd(), &self.dir).map_err(|errno| self.error("stat", errno))?;
        match meta.kind {
            Kind::File => Ok(Some(meta)),
            other => Err(wrong_kind(&self.dir, &self.name, other)),
        }
    }

    /// Writes all of `bytes` at `offset`. Blocks, with early write-back ([`Writeback`]) also
    /// while the disk's queue is full.
    ///
    /// # Errors
    /// `Io`; see [`StoreError::is_out_of_space`]. Some of the bytes may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let _acting = self.dir.act()?;
        let direct = self.write_direct(offset, bytes)?;
        let mut written = direct;
        while written < bytes.len() {
            match pwrite(fd, &bytes[written..], offset + written as u64) {
                Ok(0) => return Err(self.error("write", io::ErrorKind::WriteZero)),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error("write", errno)),
            }
        }
        if let Some(window) = &self.window {
            window.note(fd, (written - direct) as u64);
        }
        Ok(())
    }

    /// Writes the bytes that may go past the page cache. Returns their number, counted from the
    /// begin of `bytes`.
    fn write_direct(&self, offset: u64, bytes: &[u8]) -> Result<usize, StoreError> {
        let Some(direct) = &self.direct else { return Ok(0) };
        let written = direct.write_at(offset, bytes).map_err(|errno| self.error("write", errno))?;
        if direct.is_refused()
            && let Some(mount) = self.dir.mount()
        {
            mount.refuse_direct();
        }
        Ok(written)
    }

    /// Sets the size to `bytes`: a hole is added, or the end is cut off.
    ///
    /// # Errors
    /// `Io`.
    pub fn set_len(&self, bytes: u64) -> Result<(), StoreError> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let _acting = self.dir.act()?;
        ftruncate(fd, bytes).map_err(|errno| self.error("set size", errno))
    }

    /// Returns whether direct writes of several threads need allocated blocks to run at once. ext4
    /// writes into a hole, past the page cache, under the exclusive lock of the file, and into
    /// allocated blocks under a shared one (fs/ext4/file.c, `ext4_dio_write_checks`, Linux 6.18).
    pub fn wants_allocation(&self) -> bool {
        let is_ext4 = |mount: &Mount| mount.kind() == FileSystemKind::Ext4;
        self.is_direct() && self.dir.mount().is_some_and(is_ext4)
    }

    /// Allocates blocks for `bytes` bytes from `offset` on, which must be within the size of the
    /// file. Written bytes stay, and others read as zeros. Waits for the direct writes of other
    /// threads. A refusal is no error: the write that follows tells of a full disk. Not for files
    /// with holes: they would be filled.
    ///
    /// # Errors
    /// The account may not act.
    pub fn allocate(&self, offset: u64, bytes: u64) -> Result<(), StoreError> {
        let Some(fd) = self.fd.as_ref().filter(|_| bytes > 0) else { return Ok(()) };
        let _acting = self.dir.act()?;
        while let Err(Errno::INTR) = fallocate(fd, FallocateFlags::KEEP_SIZE, offset, bytes) {}
        Ok(())
    }

    /// Sets the attributes `wanted`, after the data and in the order of B2, and closes the file.
    /// Returns the rejected attributes. With `sync`, all of it is on stable storage before: pass
    /// [`DurabilityMethod::is_per_file`] of the directory unless no durability is wanted. Publish
    /// the file afterwards.
    ///
    /// [`DurabilityMethod::is_per_file`]: crate::DurabilityMethod::is_per_file
    ///
    /// # Errors
    /// `Io`: the file must be written again, from the start (A4); an error from close counts.
    pub fn finish(self, wanted: &Attributes<'_>, sync: bool) -> Result<NotSet, StoreError> {
        let Some(fd) = &self.fd else { return Ok(NotSet::default()) };
        let _acting = self.dir.act()?;
        let network = self.dir.mount().is_some_and(|mount| mount.kind().is_network());
        if sync && network {
            // The flush of data would move the time that is set below (B2).
            fsync(fd).map_err(|errno| self.error("sync", errno))?;
        }
        let not_set = self.set(fd, wanted)?;
        self.close(sync).map(|()| not_set)
    }

    /// Sets the attributes `wanted`. Returns the rejected attributes.
    fn set(&self, fd: &OwnedFd, wanted: &Attributes<'_>) -> Result<NotSet, StoreError> {
        let owner = self.owner(fd, wanted).map_err(|errno| self.error("stat", errno))?;
        let mut node = Node {
            fd: fd.as_fd(),
            path_only: false,
            mount: self.dir.mount(),
            owner,
            mode: self.mode,
            inherits: !self.dir.inherits_nothing(),
            existed: !self.created,
            kind: NodeKind::File,
        };
        let mut not_set = node.set(wanted).map_err(|errno| self.error("set attributes", errno))?;
        if let Some(mtime) = wanted.mtime {
            let set = |times: &Timestamps| futimens(fd, times);
            let settled = node.set_time(mtime, &mut not_set, set, || fstat(fd));
            settled.map_err(|errno| self.error("set times", errno))?;
        }
        Ok(not_set)
    }

    /// Returns the owner that the file has, if it matters.
    fn owner(&self, fd: &OwnedFd, wanted: &Attributes<'_>) -> Result<Owner, Errno> {
        if wanted.uid.is_none() && wanted.gid.is_none() {
            return Ok(Owner::default());
        }
        if self.created {
            return self.dir.owner_given(fd.as_fd());
        }
        let told = fstat(fd)?;
        Ok(Owner { uid: told.st_uid, gid: told.st_gid })
    }

    /// Closes the file without finishing it; with `sync`, its data is on stable storage before.
    /// Each writer of a file of many extents ends in this way before it reports them written.
    ///
    /// # Errors
    /// `Io`: everything written through this handle is to be written again (A4).
    pub fn close(mut self, sync: bool) -> Result<(), StoreError> {
        let Some(fd) = self.fd.take() else { return Ok(()) };
        let _acting = self.dir.act()?;
        if sync {
            fsync(&fd).map_err(|errno| self.error("sync", errno))?;
        }
        close_file(fd).map_err(|error| self.error("close", error))
    }
}

impl fmt::Debug for WriteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteFile({})", name::escape(&name::join(self.dir.path(), &self.name)))
    }
}
