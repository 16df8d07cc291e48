//! The stores that a data set can come from, behind one set of operations.

use std::ops::ControlFlow;

use penstock_proto::attributes::ClassSet;
use penstock_sys::{Account, Acting, act_as_daemon};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::{StoreError, StoreOffline};
use crate::mem::store::MemStore;
use crate::meta::{DirEntry, Meta};
use crate::posix::identity::StoreFingerprint;
use crate::posix::read::sizes::measure;
use crate::posix::read::xattrs;
use crate::posix::store::{PosixStore, Space};
use crate::read_file::{ListBuffer, ReadFile};

/// A store that is listed and read. Clones are the same store; all methods block, and may be called
/// from many threads at once.
#[derive(Clone, Debug)]
pub enum Source {
    /// A directory tree.
    Posix(PosixStore),
    /// Generated entries.
    Mem(MemStore),
}

impl Source {
    /// See [`PosixStore::acting_as`]; a store without files has no rights to judge.
    ///
    /// # Errors
    /// `Io`.
    pub fn acting_as(&self, account: &Account) -> Result<Self, StoreError> {
        match self {
            Self::Posix(store) => store.acting_as(account).map(Self::Posix),
            Self::Mem(store) => Ok(Self::Mem(store.clone())),
        }
    }

    /// See [`PosixStore::act`].
    ///
    /// # Errors
    /// `Io`.
    pub fn act(&self) -> Result<Acting, StoreError> {
        match self {
            Self::Posix(store) => store.act(),
            Self::Mem(_) => Ok(act_as_daemon()),
        }
    }

    /// Returns the root directory.
    pub fn root(&self) -> &Dir {
        match self {
            Self::Posix(store) => store.root(),
            Self::Mem(store) => store.root(),
        }
    }

    /// See [`PosixStore::reads_directly`].
    pub fn reads_directly(&self) -> bool {
        match self {
            Self::Posix(store) => store.reads_directly(),
            Self::Mem(_) => false,
        }
    }

    /// See [`PosixStore::open_dir`].
    ///
    /// # Errors
    /// `BadPath`; `NotDirectory`; `Io`.
    pub fn open_dir(&self, path: &[u8]) -> Result<Dir, StoreError> {
        match self {
            Self::Posix(store) => store.open_dir(path),
            Self::Mem(store) => store.open_dir(path),
        }
    }

    /// See [`PosixStore::list`].
    ///
    /// # Errors
    /// `Io`: the listing is not complete.
    pub fn list(
        &self,
        dir: &Dir,
        buffer: &mut ListBuffer,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.list_from(dir, 0, buffer, &mut |entry, _| visit(entry))
    }

    /// See [`PosixStore::list_from`].
    ///
    /// # Errors
    /// `Io`: the listing is not complete.
    pub fn list_from(
        &self,
        dir: &Dir,
        position: u64,
        buffer: &mut ListBuffer,
        visit: &mut dyn FnMut(DirEntry<'_>, u64) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.list_from(dir, position, buffer, visit),
            Self::Mem(store) => store.list_from(dir, position, visit),
        }
    }

    /// See [`PosixStore::stat`]; the empty name is `dir` itself. The size of a file is the one that
    /// the file system reports, without a read.
    ///
    /// # Errors
    /// `BadPath`; `Io`.
    pub fn stat_reported(&self, dir: &Dir, name: &[u8]) -> Result<Meta, StoreError> {
        match self {
            Self::Posix(store) => store.stat(dir, name),
            Self::Mem(store) => store.stat(dir, name),
        }
    }

    /// Returns the room left in the file system of the root; `None` for generated entries.
    ///
    /// # Errors
    /// `Io`.
    pub fn space(&self) -> Result<Option<Space>, StoreError> {
        match self {
            Self::Posix(store) => store.space().map(Some),
            Self::Mem(_) => Ok(None),
        }
    }

    /// See [`PosixStore::stat`]; the empty name is `dir` itself. The size of a file is that of its
    /// content, which is read where the file system does not report it ([`ReadFile::measured`]).
    ///
    /// # Errors
    /// `BadPath`; `Io`, with `EFBIG` of a file without an end.
    pub fn stat(&self, dir: &Dir, name: &[u8]) -> Result<Meta, StoreError> {
        self.stat_as_sure(dir, name, false)
    }

    /// Returns the attributes of a file that differed from the result of [`Source::stat`]. Its size
    /// is doubted too, even if that costs a read. Blocks.
    ///
    /// # Errors
    /// Those of [`Source::stat`].
    pub fn stat_certain(&self, dir: &Dir, name: &[u8]) -> Result<Meta, StoreError> {
        self.stat_as_sure(dir, name, true)
    }

    fn stat_as_sure(&self, dir: &Dir, name: &[u8], certain: bool) -> Result<Meta, StoreError> {
        match self {
            Self::Posix(store) => {
                store.stat(dir, name).and_then(|meta| measure(store, dir, name, meta, certain))
            }
            Self::Mem(store) => store.stat(dir, name),
        }
    }

    /// See [`PosixStore::read_link`].
    ///
    /// # Errors
    /// `BadPath`; `Io`, with `EINVAL` if it is not a link.
    pub fn read_link(&self, dir: &Dir, name: &[u8]) -> Result<Vec<u8>, StoreError> {
        match self {
            Self::Posix(store) => store.read_link(dir, name),
            Self::Mem(_) => Err(dir.error("read link", name, Errno::INVAL)),
        }
    }

    /// Returns the extended attributes of `name` in `dir` (the empty name is `dir` itself),
    /// encoded, if they are in `classes` and fit. Returns also how many were left out because they
    /// do not fit or may not be read. Links are not followed. Makes one call for an entry without
    /// attributes, and none on a file system that has no attributes.
    ///
    /// # Errors
    /// `BadPath`; `Io`, with `E2BIG` where user attributes are wanted and the names of all take
    /// more than 64 KiB.
    /// # Sources
    /// xattr(7); listxattrat since Linux 6.13. Before that proc_pid_fd(5): a descriptor's path
    /// leads to its open file, so that only the last component is looked up, and `l*xattr` do not
    /// follow that.
    pub fn xattrs(
        &self,
        dir: &Dir,
        name: &[u8],
        classes: ClassSet,
    ) -> Result<(Vec<u8>, usize), StoreError> {
        match self {
            Self::Posix(_) => xattrs::xattrs(dir, name, classes),
            Self::Mem(_) => Ok((Vec::new(), 0)),
        }
    }

    /// See [`PosixStore::open_read`].
    ///
    /// # Errors
    /// `BadPath`; `WrongKind`; `Io`.
    pub fn open_read(&self, dir: &Dir, name: &[u8]) -> Result<ReadFile, StoreError> {
        match self {
            Self::Posix(store) => store.open_read(dir, name),
            Self::Mem(store) => store.open_read(dir, name),
        }
    }

    /// Returns the fingerprint of the mount at the root, which is recorded when a scan begins;
    /// zeros for generated entries.
    ///
    /// # Errors
    /// The way in which the store is offline.
    pub fn fingerprint(&self) -> Result<StoreFingerprint, StoreOffline> {
        match self {
            Self::Posix(store) => store.fingerprint(),
            Self::Mem(_) => {
                let (file_system_type, file_system_id, root_inode) = (0, 0, 0);
                let root_birth_ns = None;
                Ok(StoreFingerprint { file_system_type, file_system_id, root_inode, root_birth_ns })
            }
        }
    }

    /// Checks that the root matches the recorded fingerprint (C3).
    ///
    /// # Errors
    /// The way in which the store is offline: no item has vanished.
    pub fn check_fingerprint(&self, expected: &StoreFingerprint) -> Result<(), StoreOffline> {
        match self {
            Self::Posix(store) => store.check_fingerprint(expected),
            Self::Mem(_) => Ok(()),
        }
    }
}
