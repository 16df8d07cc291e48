//! A directory tree as a store: opens it, walks it, and reads the attributes of entries.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use penstock_proto::attributes::{DeviceNumber, Owner};
use penstock_proto::name;
use penstock_proto::units::FileTime;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatVfsMountFlags, Statx, StatxFlags, StatxTimestamp,
    fstatvfs, makedev, openat, readlinkat, statx,
};
use rustix::io::Errno;

use super::dir::Dir;
use super::direct::IoMode;
use super::durability::{DurabilityMethod, FailedSyncs, FileSystemKind, Mounts, Ways};
use super::error::{StoreError, StoreOffline};
use super::read::ReadFile;
use super::sandbox::{Resolution, open_component, open_listable};
use super::unlock::WriteRules;
use super::writeback::Writeback;
use super::{Kind, Meta, check_item_name, check_item_path};

/// The mask for statx: all fields of [`Meta`], and no access time, which costs network file systems
/// a round trip.
const META_MASK: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::MODE)
    .union(StatxFlags::NLINK)
    .union(StatxFlags::UID)
    .union(StatxFlags::GID)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::CTIME)
    .union(StatxFlags::INO)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::BLOCKS);
/// `AT_STATX_FORCE_SYNC`: ask the server, not the cache.
const FORCE_SYNC: AtFlags = AtFlags::from_bits_retain(0x2000);

/// Options for opening a [`PosixStore`].
#[derive(Clone, Debug, Default)]
pub struct PosixOptions {
    /// Refuse every operation that writes.
    pub read_only: bool,
    /// The store is used by one transfer, and may be a directory of others: nothing identifies it
    /// but its [fingerprint](super::StoreFingerprint), and it has no private directory.
    pub ephemeral: bool,
    /// Resolve paths in this way; `None` finds out which way works.
    pub resolution: Option<Resolution>,
    /// The time of write-back of large files; `None` takes what is best for each file system.
    pub writeback: Option<Writeback>,
    /// The way in which the bytes of large files are written.
    pub io: IoMode,
    /// The counter of failed syncs: that of an earlier handle, if there was one.
    pub failed_syncs: FailedSyncs,
}

/// Room in a file system, as statvfs(2) reports it to users without privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that we may still write.
    pub free_bytes: u64,
    /// Bytes that it holds in all.
    pub total_bytes: u64,
    /// Files that may still be made; `None` where their number has no limit of its own.
    pub free_inodes: Option<u64>,
    /// Set if the file system is mounted read-only.
    pub read_only: bool,
}

/// A directory tree. Clones are the same store; all methods may be called from many threads.
#[derive(Clone)]
pub struct PosixStore {
    pub(super) shared: Arc<Shared>,
    /// The rules for the one data set that is written to it.
    pub(super) rules: Arc<WriteRules>,
    /// Asked before everything that changes the store.
    pub(super) gates: Gates,
}

/// Returns whether a store may be changed at this moment; must not block.
pub type Gate = Arc<dyn Fn() -> bool + Send + Sync>;

/// The checks before a store is changed.
#[derive(Clone, Default)]
pub(super) struct Gates {
    /// The check before a write under a temporary name, which no other program's reader sees.
    bytes: Option<Gate>,
    /// The check before all other changes.
    names: Option<Gate>,
}

pub(super) struct Shared {
    pub(super) root_path: PathBuf,
    pub(super) root: Dir,
    pub(super) mounts: Mounts,
    read_only: bool,
    ephemeral: bool,
    resolution: Resolution,
    /// Cleared when the system first refuses `O_NOATIME`: the files are not ours.
    leaves_access_times: AtomicBool,
}

impl PosixStore {
    /// Opens the tree below `root`. Links in `root` itself are followed: the operator wrote it. A
    /// root that may be entered and not listed serves for all but listing it.
    ///
    /// # Errors
    /// `Io`, for instance `ENOENT` or `EACCES`; `NotDirectory` if `root` is no directory.
    pub fn open(root: &Path, options: PosixOptions) -> Result<Self, StoreError> {
        let text = root.as_os_str().as_bytes();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open_listable(|access| openat(CWD, root, access | flags, Mode::empty()));
        let fd = opened.map_err(|errno| match errno {
            Errno::NOTDIR => StoreError::NotDirectory { path: name::escape(text) },
            other => StoreError::io("open store", text, other),
        })?;
        let failed = |error| StoreError::io("open store", text, error);
        let root_path = std::path::absolute(root).map_err(failed)?;
        let ways = Ways { writeback: options.writeback, io: options.io };
        let mounts = Mounts::open(&fd, ways, options.failed_syncs).map_err(failed)?;
        let resolution = options.resolution.unwrap_or_else(|| Resolution::probe(fd.as_fd()));
        let shared = Shared {
            root_path,
            root: Dir::posix(b"", fd, Arc::clone(mounts.root())),
            mounts,
            read_only: options.read_only,
            ephemeral: options.ephemeral,
            resolution,
            leaves_access_times: AtomicBool::new(true),
        };
        Ok(Self { shared: Arc::new(shared), rules: Arc::default(), gates: Gates::default() })
    }

    /// Returns the same store, changed only while `gate` allows it. Any other change is rejected as
    /// [`StoreOffline::Fenced`]. Before bytes go to a file that is open already, the writer calls
    /// [`PosixStore::check_gate`].
    pub fn guarded(&self, gate: Gate) -> Self {
        let gates = Gates { bytes: Some(Arc::clone(&gate)), names: Some(gate) };
        Self { gates, ..self.clone() }
    }

    /// Returns the same store, in which making temporary files and writing to them requires `grant`
    /// alone. All other changes require `grant` and the earlier gate. A writer without contact to
    /// its controller may thus continue, but finishes nothing (B4).
    pub fn granted(&self, grant: Gate) -> Self {
        let bytes = Some(Arc::clone(&grant));
        let names: Gate = match self.gates.names.clone() {
            Some(gate) => Arc::new(move || grant() && gate()),
            None => grant,
        };
        Self { gates: Gates { bytes, names: Some(names) }, ..self.clone() }
    }

    /// Checks whether temporary files may be written at this moment ([`PosixStore::guarded`]).
    ///
    /// # Errors
    /// [`StoreOffline::Fenced`].
    pub fn check_gate(&self) -> Result<(), StoreError> {
        ask(self.gates.bytes.as_ref())
    }

    fn check_names(&self) -> Result<(), StoreError> {
        ask(self.gates.names.as_ref())
    }

    /// Returns the path of the root on this host, absolute, as the caller passed it.
    pub fn root_path(&self) -> &Path {
        &self.shared.root_path
    }

    /// The root directory.
    pub fn root(&self) -> &Dir {
        &self.shared.root
    }

    /// Returns whether the store was opened as [`PosixOptions::ephemeral`].
    pub fn is_ephemeral(&self) -> bool {
        self.shared.ephemeral
    }

    /// Returns the way in which paths are resolved.
    pub fn resolution(&self) -> Resolution {
        self.shared.resolution
    }

    /// Kind of the root's file system.
    pub fn file_system(&self) -> FileSystemKind {
        self.shared.mounts.root().kind()
    }

    /// Returns the methods that make data durable: that of the root first, then those of other
    /// mounts below it that were met since the store was opened.
    pub fn durability(&self) -> Vec<DurabilityMethod> {
        self.shared.mounts.methods()
    }

    /// Returns the time of write-back for large files of the root's file system.
    pub fn writeback(&self) -> Writeback {
        self.shared.mounts.root().writeback()
    }

    /// Opens the directory at the relative `path`; the empty path is the root. Links are not
    /// followed. Of one that may be entered and not listed only [`PosixStore::list`] fails.
    ///
    /// # Errors
    /// `BadPath`; `NotDirectory`; `Io`.
    pub fn open_dir(&self, path: &[u8]) -> Result<Dir, StoreError> {
        match self.open_dir_as(path, OFlags::RDONLY) {
            Err(error) if error.is_denied() => self.open_dir_as(path, OFlags::PATH),
            opened => opened,
        }
    }

    /// Opens a directory as [`PosixStore::open_dir`] does, with `access`: `O_RDONLY` or `O_PATH`.
    pub(super) fn open_dir_as(&self, path: &[u8], access: OFlags) -> Result<Dir, StoreError> {
        check_item_path(path)?;
        if path.is_empty() {
            return Ok(self.shared.root.clone());
        }
        let root = self.shared.root.fd()?;
        let fd = self
            .shared
            .resolution
            .open_dir(root, path, access)
            .map_err(|errno| directory_error("open directory", path, errno))?;
        let mount = self.shared.mounts.of(&fd);
        let mount = mount.map_err(|error| StoreError::io("stat", path, error))?;
        Ok(Dir::posix(path, fd, mount))
    }

    /// Returns the attributes of `name` in `dir`; the empty name is `dir` itself. Links are not
    /// followed.
    ///
    /// # Errors
    /// `BadPath`; `Io`.
    pub fn stat(&self, dir: &Dir, name: &[u8]) -> Result<Meta, StoreError> {
        if name.is_empty() {
            return stat_fd(dir.fd()?, AtFlags::empty())
                .map_err(|errno| dir.error("stat", name, errno));
        }
        check_item_name(dir, name)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let told = statx(dir.fd()?, name, flags, META_MASK);
        told.map(|told| meta_of(&told)).map_err(|errno| dir.error("stat", name, errno))
    }

    /// Returns the attributes as [`PosixStore::stat`] does, and `None` for a missing entry.
    ///
    /// # Errors
    /// `BadPath`; `Io` but `ENOENT`.
    pub fn stat_if_exists(&self, dir: &Dir, name: &[u8]) -> Result<Option<Meta>, StoreError> {
        match self.stat(dir, name) {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if error.errno() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the target of the link `name` in `dir`, as bytes without interpretation.
    ///
    /// # Errors
    /// `BadPath`; `Io`, with `EINVAL` if it is not a link.
    pub fn read_link(&self, dir: &Dir, name: &[u8]) -> Result<Vec<u8>, StoreError> {
        check_item_name(dir, name)?;
        let target = readlinkat(dir.fd()?, name, Vec::new());
        target
            .map(std::ffi::CString::into_bytes)
            .map_err(|errno| dir.error("read link", name, errno))
    }

    /// Opens the file `name` in `dir` for reading. Does not follow a link or wait for the other end
    /// of a pipe, and does not change the access time of a file that this process's user owns.
    /// [`ReadFile::meta`], which every reader calls first, shows whether it is a regular file.
    ///
    /// # Errors
    /// `BadPath`; `WrongKind` for a link or a device that is not there; `Io`.
    pub fn open_read(&self, dir: &Dir, name: &[u8]) -> Result<ReadFile, StoreError> {
        check_item_name(dir, name)?;
        let leaves_access_times = &self.shared.leaves_access_times;
        let parent = dir.fd()?;
        let mut opened = Err(Errno::PERM);
        if leaves_access_times.load(Ordering::Relaxed) {
            opened = open_component(parent, name, OFlags::RDONLY | OFlags::NOATIME);
            if opened.as_ref().is_err_and(|errno| *errno == Errno::PERM) {
                leaves_access_times.store(false, Ordering::Relaxed);
            }
        }
        if opened.as_ref().is_err_and(|errno| *errno == Errno::PERM) {
            opened = open_component(parent, name, OFlags::RDONLY);
        }
        match opened {
            Ok(fd) => Ok(ReadFile::posix(dir.clone(), name, fd)),
            Err(Errno::LOOP) => Err(wrong_kind(dir, name, Kind::Symlink)),
            Err(Errno::NXIO | Errno::NODEV) => Err(wrong_kind(dir, name, Kind::Other)),
            Err(errno) => Err(dir.error("open", name, errno)),
        }
    }

    /// Room left in the root's file system.
    ///
    /// # Errors
    /// `Io`.
    pub fn space(&self) -> Result<Space, StoreError> {
        let told = fstatvfs(self.shared.root.fd()?);
        let told = told.map_err(|errno| StoreError::io("stat store", b"", errno))?;
        Ok(Space {
            free_bytes: told.f_bavail.saturating_mul(told.f_frsize),
            total_bytes: told.f_blocks.saturating_mul(told.f_frsize),
            free_inodes: (told.f_files > 0).then_some(told.f_favail),
            read_only: self.shared.read_only || told.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }

    /// Checks `name` in `dir` as [`PosixStore::check_writable`] does; its path is built for an
    /// error only.
    pub(super) fn check_item_writable(
        &self,
        operation: &'static str,
        dir: &Dir,
        name: &[u8],
    ) -> Result<(), StoreError> {
        if self.shared.read_only {
            return self.check_writable(operation, &name::join(dir.path(), name));
        }
        if self.gates.names.is_none() {
            return Ok(());
        }
        if name::own(name).is_some() { self.check_gate() } else { self.check_names() }
    }

    /// Checks as [`PosixStore::check_writable`] does, for changes to temporary files, which no
    /// reader sees.
    pub(super) fn check_bytes_writable(
        &self,
        operation: &'static str,
        path: &[u8],
    ) -> Result<(), StoreError> {
        self.check_mounted_writable(operation, path)?;
        self.check_gate()
    }

    fn check_mounted_writable(
        &self,
        operation: &'static str,
        path: &[u8],
    ) -> Result<(), StoreError> {
        if self.shared.read_only {
            return Err(StoreError::ReadOnly { operation, path: name::escape(path) });
        }
        Ok(())
    }

    pub(super) fn check_writable(
        &self,
        operation: &'static str,
        path: &[u8],
    ) -> Result<(), StoreError> {
        self.check_mounted_writable(operation, path)?;
        self.check_names()
    }
}

impl fmt::Debug for PosixStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PosixStore")
            .field("root", &self.shared.root_path)
            .field("file_system", &self.file_system())
            .field("resolution", &self.shared.resolution)
            .finish_non_exhaustive()
    }
}

fn ask(gate: Option<&Gate>) -> Result<(), StoreError> {
    if gate.is_some_and(|gate| !gate()) {
        return Err(StoreOffline::Fenced.into());
    }
    Ok(())
}

/// Returns the error of a failed walk: whether an entry on the way was no directory.
pub(super) fn directory_error(operation: &'static str, path: &[u8], errno: Errno) -> StoreError {
    match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => {
            StoreError::NotDirectory { path: name::escape(path) }
        }
        other => StoreError::io(operation, path, other),
    }
}

pub(super) fn wrong_kind(dir: &Dir, item: &[u8], found: Kind) -> StoreError {
    let path = name::escape(&name::join(dir.path(), item));
    StoreError::WrongKind { path, found: found.with_article(), expected: "a file" }
}

/// Returns the attributes of an open file or directory, on network file systems from the server.
pub(super) fn stat_open(fd: BorrowedFd<'_>, dir: &Dir) -> Result<Meta, Errno> {
    let network = dir.mount().is_some_and(|mount| mount.kind().is_network());
    stat_fd(fd, if network { FORCE_SYNC } else { AtFlags::empty() })
}

fn stat_fd(fd: BorrowedFd<'_>, flags: AtFlags) -> Result<Meta, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH | flags, META_MASK).map(|told| meta_of(&told))
}

fn meta_of(told: &Statx) -> Meta {
    let mode = u32::from(told.stx_mode);
    let time = |stamp: StatxTimestamp| FileTime {
        seconds: stamp.tv_sec,
        // A hostile FUSE server may return anything; pages reject more than this.
        nanoseconds: stamp.tv_nsec.min(999_999_999),
    };
    Meta {
        kind: kind_of(FileType::from_raw_mode(mode)).unwrap_or(Kind::Other),
        size: told.stx_size,
        mode: mode & 0o7777,
        owner: Owner { uid: told.stx_uid, gid: told.stx_gid },
        special: DeviceNumber { major: told.stx_rdev_major, minor: told.stx_rdev_minor },
        mtime: time(told.stx_mtime),
        ctime: time(told.stx_ctime),
        inode: told.stx_ino,
        blocks: told.stx_blocks,
        links: told.stx_nlink,
        device: makedev(told.stx_dev_major, told.stx_dev_minor),
        made: false,
    }
}

/// Returns the kind, or `None` where the system did not report it.
pub(super) fn kind_of(file_type: FileType) -> Option<Kind> {
    Some(match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => return None,
        _ => Kind::Other,
    })
}
