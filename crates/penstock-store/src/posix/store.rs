//! A directory tree as a store: opens it, walks it, reads the attributes of entries, and makes all
//! of it durable.

use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use penstock_proto::name;
use penstock_sys::{Account, Acting, FileSystemKind, act_as_daemon};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom, StatVfsMountFlags, fstatvfs, openat,
    readlinkat, seek, syncfs,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use crate::dir::Dir;
use crate::error::{StoreError, StoreOffline};
use crate::item::{check_item_name, check_item_path};
use crate::meta::{DirEntry, Kind, Meta};
use crate::posix::file_system::durability_method::DurabilityMethod;
use crate::posix::file_system::io_mode::IoMode;
use crate::posix::file_system::mount::{FailedSyncs, Mount, Mounts, Ways, sync_names};
use crate::posix::sandbox::{Resolution, open_component, open_listable};
use crate::posix::stat::{directory_error, kind_of, stat_at, stat_fd, wrong_kind};
use crate::posix::write::rules::{WriteRules, unlock};
use crate::posix::write::writeback::Writeback;
use crate::read_file::{ListBuffer, ReadFile};

/// Options for opening a [`PosixStore`].
#[derive(Clone, Debug, Default)]
pub struct PosixOptions {
    /// Refuse every operation that writes.
    pub read_only: bool,
    /// The store is used by one transfer, and may be a directory of others: nothing identifies it
    /// but its [fingerprint](crate::StoreFingerprint), and it has no private directory.
    pub ephemeral: bool,
    /// Resolve paths in this way; `None` finds out which way works.
    pub resolution: Option<Resolution>,
    /// The time of write-back of large files; `None` chooses the best for each file system.
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
    pub(crate) shared: Arc<Shared>,
    /// The rules for the one data set that is written to it.
    pub(crate) rules: Arc<WriteRules>,
    /// Asked before everything that changes the store.
    pub(crate) gates: Gates,
}

/// Returns whether a store may be changed at this moment; must not block.
pub type Gate = Arc<dyn Fn() -> bool + Send + Sync>;

/// The checks before a store is changed.
#[derive(Clone, Default)]
pub(crate) struct Gates {
    /// The check before a write under a temporary name, which no other program's reader sees.
    bytes: Option<Gate>,
    /// The check before all other changes.
    names: Option<Gate>,
}

pub(crate) struct Shared {
    pub(crate) root_path: PathBuf,
    pub(crate) root: Dir,
    pub(crate) mounts: Arc<Mounts>,
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
        let mounts = Arc::new(mounts);
        let resolution = options.resolution.unwrap_or_else(|| Resolution::probe(fd.as_fd()));
        let shared = Shared {
            root_path,
            root: Dir::posix(b"", fd, Arc::clone(mounts.root()), None),
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

    /// Returns the same store, as an account of this host uses it: each call is judged by the
    /// account's own rights, beginning at the store's root (D10). The daemon's own files in the
    /// store, its identity and markers, stay the daemon's; so do syncs.
    ///
    /// # Errors
    /// `Io`: there is no descriptor for it.
    pub fn acting_as(&self, account: &Account) -> Result<Self, StoreError> {
        let shared = &*self.shared;
        if account.is_own() {
            return Ok(self.clone());
        }
        let failed = |errno: Errno| StoreError::io("open store", b"", errno);
        // A handle of its own, for the refusals of this account. No listing is read from it.
        let fd = fcntl_dupfd_cloexec(shared.root.own_fd()?, 0).map_err(failed)?;
        let mounts = Arc::new(Mounts::for_account(&shared.mounts));
        let root = Dir::posix(b"", fd, Arc::clone(mounts.root()), Some(account.clone()));
        let shared = Shared {
            root_path: shared.root_path.clone(),
            root,
            mounts,
            read_only: shared.read_only,
            ephemeral: shared.ephemeral,
            resolution: shared.resolution,
            leaves_access_times: AtomicBool::new(true),
        };
        Ok(Self { shared: Arc::new(shared), ..self.clone() })
    }

    /// Returns the account as which the store is used, if it is not that of the process.
    pub fn account(&self) -> Option<&Account> {
        self.root().account()
    }

    /// Has this thread act as the account of the store until the value is dropped: for many small
    /// calls one after the other, which then need not change it each.
    ///
    /// # Errors
    /// `Io`, see [`Account::act`].
    pub fn act(&self) -> Result<Acting, StoreError> {
        self.root().act()
    }

    /// Returns the same store, for writing the data set whose root is at `root`. Directories of the
    /// data set are unlocked where they reject writes. Without `sets_modes` the modes of new
    /// directories are not set later: they get the bits that the umask leaves. With
    /// `replaces_special` devices, pipes and sockets are replaced by an entry of the same name.
    pub fn for_data_set(&self, root: &[u8], sets_modes: bool, replaces_special: bool) -> Self {
        let rules = WriteRules::for_data_set(root, sets_modes, replaces_special);
        Self { rules: rules.into(), ..self.clone() }
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

    /// Returns the root directory.
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

    /// Returns the kind of the root's file system.
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
    /// followed. For a directory that may be entered and not listed, only [`PosixStore::list`]
    /// fails.
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
    pub(crate) fn open_dir_as(&self, path: &[u8], access: OFlags) -> Result<Dir, StoreError> {
        check_item_path(path)?;
        if path.is_empty() {
            return Ok(self.shared.root.clone());
        }
        let root = self.shared.root.fd()?;
        let fd = self
            .shared
            .resolution
            .open_dir(root.as_fd(), path, access)
            .map_err(|errno| directory_error("open directory", path, errno))?;
        let mount = self.shared.mounts.of(&fd);
        let mount = mount.map_err(|error| StoreError::io("stat", path, error))?;
        Ok(Dir::posix(path, fd, mount, self.account().cloned()))
    }

    /// Opens a directory as [`PosixStore::open_dir`] does, and unlocks directories that reject it
    /// on the way.
    pub(crate) fn open_dir_unlocked(&self, path: &[u8]) -> Result<Dir, StoreError> {
        match self.open_dir_as(path, OFlags::RDONLY) {
            Err(error) if error.is_denied() => {
                self.rules.unlock_path(self.root(), path);
                self.open_dir(path)
            }
            outcome => outcome,
        }
    }

    /// Adds the right to write to the root for this process's user, if the root has rejected a
    /// write and belongs to that user. Its mode must be set again by
    /// [`Target::set_dir_attributes`].
    ///
    /// [`Target::set_dir_attributes`]: crate::Target::set_dir_attributes
    pub fn unlock_root(&self) -> bool {
        self.root().fd().is_ok_and(|fd| unlock(fd.as_fd()))
    }

    /// Returns the attributes of `name` in `dir`; the empty name is `dir` itself. Links are not
    /// followed.
    ///
    /// # Errors
    /// `BadPath`; `Io`.
    pub fn stat(&self, dir: &Dir, name: &[u8]) -> Result<Meta, StoreError> {
        if name.is_empty() {
            return stat_fd(dir.fd()?.as_fd(), AtFlags::empty())
                .map_err(|errno| dir.error("stat", name, errno));
        }
        check_item_name(dir, name)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let told = stat_at(dir.fd()?.as_fd(), name, flags);
        told.map_err(|errno| dir.error("stat", name, errno))
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
            opened = open_component(parent.as_fd(), name, OFlags::RDONLY | OFlags::NOATIME);
            if opened.as_ref().is_err_and(|errno| *errno == Errno::PERM) {
                leaves_access_times.store(false, Ordering::Relaxed);
            }
        }
        if opened.as_ref().is_err_and(|errno| *errno == Errno::PERM) {
            opened = open_component(parent.as_fd(), name, OFlags::RDONLY);
        }
        match opened {
            Ok(fd) => Ok(ReadFile::posix(dir.clone(), name, fd)),
            Err(Errno::LOOP) => Err(wrong_kind(dir, name, Kind::Symlink)),
            Err(Errno::NXIO | Errno::NODEV) => Err(wrong_kind(dir, name, Kind::Other)),
            Err(errno) => Err(dir.error("open", name, errno)),
        }
    }

    /// Passes each entry of `dir` to `visit`, in the file system's order, until it breaks; `.` and
    /// `..` are left out. Names made or removed meanwhile may be included or not.
    ///
    /// # Errors
    /// `Io`: then the listing is not complete, and nothing may be deleted on its word (promise
    /// (e)).
    pub fn list(
        &self,
        dir: &Dir,
        buffer: &mut ListBuffer,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.list_from(dir, 0, buffer, &mut |entry, _| visit(entry))
    }

    /// Passes entries of `dir` to `visit` as [`PosixStore::list`] does, from a position on: 0 is
    /// the begin, and each entry comes with the position behind it. A position is good at any time
    /// and at any host, as long as the directory exists: names that stay are passed once.
    ///
    /// # Errors
    /// `Io`, with `EINVAL` of a position that cannot be.
    /// # Sources
    /// getdents64(2), `d_off`; lseek(2).
    pub fn list_from(
        &self,
        dir: &Dir,
        position: u64,
        buffer: &mut ListBuffer,
        visit: &mut dyn FnMut(DirEntry<'_>, u64) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let failed = |errno: Errno| dir.error("list", b"", errno);
        // A descriptor of its own: the position in a directory belongs to the open file.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let parent = dir.fd()?;
        let fd = open_component(parent.as_fd(), b".", flags).map_err(failed)?;
        // The visitor does the daemon's own work as well.
        drop(parent);
        if position != 0 {
            seek(&fd, SeekFrom::Start(position)).map_err(failed)?;
        }
        let mut entries = RawDir::new(fd, buffer.memory());
        loop {
            let acting = if entries.is_buffer_empty() { Some(dir.act()?) } else { None };
            let next = entries.next();
            drop(acting);
            let Some(next) = next else { break };
            let entry = match next {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if !name::is_component(name) {
                // No sound file system returns this. A hostile one must not choose paths for this
                // process.
                return Err(failed(Errno::IO));
            }
            let kind = match entry.file_type() {
                FileType::Unknown => None,
                told => kind_of(told),
            };
            let own = name::own(name);
            if visit(DirEntry { name, kind, own }, entry.next_entry_cookie()).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the room left in the root's file system.
    ///
    /// # Errors
    /// `Io`.
    pub fn space(&self) -> Result<Space, StoreError> {
        let told = fstatvfs(self.shared.root.own_fd()?);
        let told = told.map_err(|errno| StoreError::io("stat store", b"", errno))?;
        Ok(Space {
            free_bytes: told.f_bavail.saturating_mul(told.f_frsize),
            total_bytes: told.f_blocks.saturating_mul(told.f_frsize),
            free_inodes: (told.f_files > 0).then_some(told.f_favail),
            read_only: self.shared.read_only || told.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }

    /// Makes everything durable that was written before, on all mounts where syncfs serves; the
    /// others are served by [`WriteFile::finish`] and [`PosixStore::sync_dir`]. Blocks, for as
    /// long as the disk needs for everybody's data.
    ///
    /// [`WriteFile::finish`]: crate::WriteFile::finish
    ///
    /// # Errors
    /// `Io`: everything written since the last success is to be written again, never re-checked
    /// (A4).
    pub fn sync(&self) -> Result<(), StoreError> {
        self.shared.mounts.sync().map_err(|errno| StoreError::io("sync", b"", errno))
    }

    /// Syncs as [`PosixStore::sync`] does, for a caller that began to write when `since` syncs had
    /// failed ([`PosixStore::failed_syncs`]). Reports also an error that only another caller's sync
    /// received.
    ///
    /// # Errors
    /// Those of [`PosixStore::sync`]; `Io` with `EIO` if another sync has failed since.
    pub fn sync_since(&self, since: u32) -> Result<(), StoreError> {
        self.sync()?;
        // Read after it: one that came before and took its error has been counted by now (A4).
        if self.failed_syncs() == since {
            return Ok(());
        }
        Err(StoreError::io("sync after a failed sync of another transfer", b"", Errno::IO))
    }

    /// Returns how many syncs of this store have failed in this process.
    pub fn failed_syncs(&self) -> u32 {
        self.shared.mounts.failed().count()
    }

    /// Counts something else that has failed as a sync does, and may have taken an error that is
    /// about more than its own.
    pub fn note_failed_sync(&self) {
        self.shared.mounts.failed().note();
    }

    /// Makes the names in `dir` durable where that is done file by file; does nothing where
    /// [`PosixStore::sync`] does it for all.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync_dir(&self, dir: &Dir) -> Result<(), StoreError> {
        if !dir.durability().is_per_file() {
            return Ok(());
        }
        let _daemon = act_as_daemon();
        let fd = dir.own_fd()?;
        let (mounts, any) = (&self.shared.mounts, dir.mount().and_then(Mount::sync_fd));
        let synced = if dir.path().is_empty() {
            // All have one descriptor of the root.
            mounts.sync_by(|| sync_names(fd, || any.map(syncfs)))
        } else {
            let other = || any.map(|any| mounts.sync_by(|| syncfs(any)));
            sync_names(fd, other).inspect_err(|_| self.note_failed_sync())
        };
        synced.map_err(|errno| dir.error("sync directory", b"", errno))
    }

    /// Checks `name` in `dir` as [`PosixStore::check_writable`] does; its path is built for an
    /// error only.
    pub(crate) fn check_item_writable(
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
    pub(crate) fn check_bytes_writable(
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

    pub(crate) fn check_writable(
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
