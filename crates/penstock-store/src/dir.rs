//! Handles of directories, and a small cache of them for each worker.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use penstock_proto::attributes::{AttributeClass, Owner};
use penstock_proto::name;
use penstock_proto::units::{FileTime, Instant};
use penstock_sys::{Account, Acting, FileSystemKind, act_as_daemon};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::error::StoreError;
use crate::meta::Meta;
use crate::posix::file_system::durability_method::DurabilityMethod;
use crate::posix::file_system::mount::Mount;
use crate::posix::file_system::stamps::Step;
use crate::posix::file_system::{mode, stamps};
use crate::posix::sandbox::shortages;

/// An open directory of a store; clones are the same handle.
///
/// It stays the same directory when it is renamed or removed, so keep it for seconds, not for a
/// transfer: [`DirCache`] does that.
#[derive(Clone)]
pub struct Dir(Arc<Inner>);

struct Inner {
    path: Box<[u8]>,
    handle: Option<Handle>,
}

struct Handle {
    fd: OwnedFd,
    mount: Arc<Mount>,
    /// The account as which it is used; `None` for that of the process.
    account: Option<Account>,
    /// Set if new files get the requested mode; determined once.
    plain: OnceLock<bool>,
    /// User and group of new files, as seen on the first one made here.
    gives_owner: OnceLock<Owner>,
}

/// The descriptor of a directory. While it is there, this thread acts as the account of the store.
pub(crate) struct DirFd<'a> {
    fd: BorrowedFd<'a>,
    _acting: Acting,
}

impl AsFd for DirFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}

impl Dir {
    pub(crate) fn posix(
        path: &[u8],
        fd: OwnedFd,
        mount: Arc<Mount>,
        account: Option<Account>,
    ) -> Self {
        let (plain, gives_owner) = (OnceLock::new(), OnceLock::new());
        let handle = Handle { fd, mount, account, plain, gives_owner };
        Self(Arc::new(Inner { path: path.into(), handle: Some(handle) }))
    }

    /// Returns a directory of a store that has no descriptors.
    pub(crate) fn imagined(path: &[u8]) -> Self {
        Self(Arc::new(Inner { path: path.into(), handle: None }))
    }

    /// Returns the path within the store by which it was opened; empty for the root.
    pub fn path(&self) -> &[u8] {
        &self.0.path
    }

    /// Returns the method that makes files in this directory durable. With
    /// [`DurabilityMethod::is_per_file`] their writer must sync them before they are renamed (A3).
    pub fn durability(&self) -> DurabilityMethod {
        self.0.handle.as_ref().map_or(DurabilityMethod::Nothing, |handle| handle.mount.method())
    }

    pub(crate) fn mount(&self) -> Option<&Mount> {
        self.0.handle.as_ref().map(|handle| &*handle.mount)
    }

    /// Returns whether a file made here with `mode` has exactly that mode. Blocks the first time.
    pub(crate) fn gives_mode(&self, mode: u32) -> bool {
        mode::is_exact(mode) && self.inherits_nothing()
    }

    /// Returns whether a file made here inherits nothing from the directory but its group. Blocks
    /// the first time.
    pub(crate) fn inherits_nothing(&self) -> bool {
        self.0.handle.as_ref().is_some_and(|Handle { fd, mount, plain, .. }| {
            *plain.get_or_init(|| {
                self.act().is_ok_and(|_acting| mode::inherits_nothing(fd.as_fd(), mount.kind()))
            })
        })
    }

    /// Returns the number of names that a thread makes or renames here before it lets others do so;
    /// 1 where turns do not pay. They pay on XFS
    /// ([measured](../../../bench/runs/2026-11-27-turns/README.md)), as the kernel lets one thread
    /// change a directory at a time, and the others spin. Each name may be an open file, so turns
    /// are not taken either where the limit of open files is below 8,192.
    pub fn names_per_turn(&self) -> usize {
        let is_xfs = self.mount().is_some_and(|mount| mount.kind() == FileSystemKind::Xfs);
        if is_xfs { *NAMES_PER_TURN } else { 1 }
    }

    /// Returns the group of new files here, once one was made.
    pub fn gives_group(&self) -> Option<u32> {
        let known = self.0.handle.as_ref().and_then(|handle| handle.gives_owner.get());
        known.map(|owner| owner.gid)
    }

    /// Returns the owner of `made`, a file that was made here and not touched since. It is read
    /// from the first such file, as setgid directories, mount options and servers influence it.
    pub(crate) fn owner_given(&self, made: BorrowedFd<'_>) -> Result<Owner, Errno> {
        let known = self.0.handle.as_ref().and_then(|handle| handle.gives_owner.get());
        if let Some(owner) = known {
            return Ok(*owner);
        }
        let told = fstat(made)?;
        let owner = Owner { uid: told.st_uid, gid: told.st_gid };
        if let Some(handle) = &self.0.handle {
            let _ = handle.gives_owner.set(owner);
        }
        Ok(owner)
    }

    /// Has this thread act as the account of the store: for open handles beneath it, or for many
    /// calls at once.
    ///
    /// # Errors
    /// `Io`, see [`Account::act`].
    pub(crate) fn act(&self) -> Result<Acting, StoreError> {
        match self.account() {
            None => Ok(act_as_daemon()),
            Some(account) => {
                let acting = account.act();
                acting.map_err(|error| StoreError::io("act as an account in", self.path(), error))
            }
        }
    }

    /// Returns the descriptor, as the account of the store; or an error if this directory is of
    /// another kind of store.
    pub(crate) fn fd(&self) -> Result<DirFd<'_>, StoreError> {
        Ok(DirFd { fd: self.own_fd()?, _acting: self.act()? })
    }

    /// Returns the descriptor for the daemon's own calls; the caller acts as the daemon.
    pub(crate) fn own_fd(&self) -> Result<BorrowedFd<'_>, StoreError> {
        match &self.0.handle {
            Some(handle) => Ok(handle.fd.as_fd()),
            None => Err(StoreError::io("open", self.path(), Errno::BADF)),
        }
    }

    pub(crate) fn account(&self) -> Option<&Account> {
        self.0.handle.as_ref().and_then(|handle| handle.account.as_ref())
    }

    /// Returns the descriptor as [`Dir::fd`] does, for calls that are repeated on an error of the
    /// system.
    pub(crate) fn fd_raw(&self) -> Result<DirFd<'_>, Errno> {
        self.fd().map_err(|error| error.errno().map_or(Errno::BADF, Errno::from_raw_os_error))
    }

    /// Returns whether files here may have the times that were set. Returns false once the file
    /// system has rejected a time for a file that this process made.
    pub fn takes_times(&self) -> bool {
        self.mount().is_none_or(|mount| mount.refusals().of(AttributeClass::Times).is_none())
    }

    /// Returns whether `there`, an item of this directory, has the time `wanted` as far as its file
    /// system can keep it. The source counts in steps of `source`, and differences below a step do
    /// not count.
    pub fn has_time(&self, there: &Meta, wanted: FileTime, source: Step) -> bool {
        if there.mtime == wanted {
            return true;
        }
        let Some(mount) = self.mount() else { return false };
        let step = mount.stamps().seen([there.ctime, there.mtime]).max(source);
        step.truncated(there.mtime) == step.truncated(wanted)
            || stamps::is_limit(mount.kind(), wanted, there.mtime)
    }

    /// Returns the step in which the file system of this directory counts time, after the stamps of
    /// `item` in it were seen.
    pub fn step(&self, item: &Meta) -> Step {
        self.mount().map_or(Step::EXACT, |mount| mount.stamps().seen([item.ctime, item.mtime]))
    }

    pub(crate) fn error(
        &self,
        operation: &'static str,
        item: &[u8],
        errno: impl Into<std::io::Error>,
    ) -> StoreError {
        StoreError::io(operation, &name::join(self.path(), item), errno)
    }
}

impl fmt::Debug for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dir({})", name::escape(self.path()))
    }
}

/// The directories that one worker used last, so that each file of a directory costs a lookup of
/// one component only (C5). At its limit the one not used for longest is closed. All caches of a
/// process together keep at most a quarter of the descriptors that the process may have. They drop
/// all of them when one of its opens finds no descriptor.
#[derive(Debug)]
pub struct DirCache {
    dirs_max: usize,
    age_max: Duration,
    /// Least recently used first.
    dirs: Vec<Kept>,
    /// The count of descriptor shortages when this cache was last used.
    shortages: u64,
}

/// Handles in all caches of this process.
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// The caches' share of the descriptors.
const SHARE_OF_DESCRIPTORS: u64 = 4;

/// Most names of a turn: 64 were no faster.
const NAMES_MAX: u64 = 16;
/// The share of the descriptors that the files of a turn may be, as lanes may be many.
const SHARE_OF_TURN: u64 = 4096;
/// Names of a turn, by the limit of open files, which is read once.
static NAMES_PER_TURN: LazyLock<usize> = LazyLock::new(|| {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (descriptors / SHARE_OF_TURN).clamp(1, NAMES_MAX) as usize
});

/// Returns how many handles all caches may keep. The limit is read once: raise it before
/// ([`penstock_sys::raise_file_limit`]).
fn kept_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        usize::try_from(descriptors / SHARE_OF_DESCRIPTORS).unwrap_or(usize::MAX)
    })
}

/// A handle in a cache, counted while it is there.
#[derive(Debug)]
struct Kept {
    opened: Instant,
    dir: Dir,
}

impl Kept {
    fn new(opened: Instant, dir: Dir) -> Self {
        KEPT.fetch_add(1, Ordering::Relaxed);
        Self { opened, dir }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DirCache {
    /// Default number of handles that a worker keeps.
    pub const DIRS_MAX: usize = 32;
    /// The longest time for which a handle is trusted to match its path (C5).
    pub const AGE_MAX: Duration = Duration::from_secs(5);

    /// Returns a cache of at most `dirs_max` handles (at least 1), none older than `age_max`.
    pub fn new(dirs_max: usize, age_max: Duration) -> Self {
        Self { dirs_max: dirs_max.max(1), age_max, dirs: Vec::new(), shortages: shortages() }
    }

    /// Returns the directory at `path`: kept from before, or opened by `open`, which is
    /// [`super::Source::open_dir`], [`super::Target::make_dirs`] or the like. Blocks if it opens.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get(
        &mut self,
        now: Instant,
        path: &[u8],
        mut open: impl FnMut(&[u8]) -> Result<Dir, StoreError>,
    ) -> Result<Dir, StoreError> {
        let age_max = self.age_max;
        let short = shortages();
        if std::mem::replace(&mut self.shortages, short) != short {
            self.dirs.clear();
        }
        if let Some(at) = self.dirs.iter().rposition(|kept| kept.dir.path() == path) {
            let kept = self.dirs.remove(at);
            if now.since(kept.opened) <= age_max {
                let dir = kept.dir.clone();
                self.dirs.push(kept);
                return Ok(dir);
            }
        }
        self.dirs.retain(|kept| now.since(kept.opened) <= age_max);
        let mut opened = open(path);
        if opened.as_ref().is_err_and(StoreError::is_passing) && !self.dirs.is_empty() {
            self.dirs.clear();
            opened = open(path);
        }
        let dir = opened?;
        let is_full = |dirs: &Vec<Kept>| {
            dirs.len() >= self.dirs_max || KEPT.load(Ordering::Relaxed) >= kept_max()
        };
        while is_full(&self.dirs) && !self.dirs.is_empty() {
            self.dirs.remove(0);
        }
        if !is_full(&self.dirs) {
            self.dirs.push(Kept::new(now, dir.clone()));
        }
        Ok(dir)
    }

    /// Forgets the handle of `path`, after an operation on it failed with
    /// [`StoreError::is_vanished`].
    pub fn forget(&mut self, path: &[u8]) {
        self.dirs.retain(|kept| kept.dir.path() != path);
    }

    /// Closes all handles without another holder, so that an idle worker keeps no mount busy.
    pub fn clear(&mut self) {
        self.dirs.clear();
    }
}

impl Default for DirCache {
    fn default() -> Self {
        Self::new(Self::DIRS_MAX, Self::AGE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (C5): a handle is reused while it is young and wanted, and no longer.
    #[test]
    fn c5_handles_age_and_are_bounded() {
        let mut cache = DirCache::new(2, Duration::from_secs(5));
        let mut opened = Vec::new();
        let mut get = |cache: &mut DirCache, seconds: u64, path: &[u8]| {
            let now = Instant(seconds * 1_000_000_000);
            let dir = cache.get(now, path, |path| {
                opened.push(path.to_vec());
                Ok(Dir::imagined(path))
            });
            assert_eq!(dir.unwrap().path(), path);
            opened.len()
        };
        assert_eq!(get(&mut cache, 0, b"a"), 1);
        assert_eq!(get(&mut cache, 1, b"a"), 1);
        assert_eq!(get(&mut cache, 1, b"b"), 2);
        assert_eq!(get(&mut cache, 2, b"a"), 2);
        assert_eq!(get(&mut cache, 2, b"c"), 3, "b was used least recently");
        assert_eq!(get(&mut cache, 2, b"a"), 3);
        assert_eq!(get(&mut cache, 6, b"a"), 4, "a is older than 5 s");
        cache.forget(b"a");
        assert_eq!(get(&mut cache, 6, b"a"), 5);
    }
}
