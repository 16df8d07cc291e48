//! The mounts of a store: their syncs, and the facts that the first attempts on each have shown.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_sys::{FileSystemKind, act_as_daemon, kernel_version};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fsync, makedev, openat, statx, sync, syncfs};
use rustix::io::Errno;

use crate::posix::file_system::durability_method::DurabilityMethod;
use crate::posix::file_system::io_mode::IoMode;
use crate::posix::file_system::refusals::Refusals;
use crate::posix::file_system::stamps::Stamps;
use crate::posix::write::writeback::Writeback;

/// The number of failed syncs of a store in this process, by any caller.
///
/// The kernel reports an error of write-back once for each open file description (syncfs(2)), and
/// all writers of a store share one description for each mount. The first caller of a sync receives
/// the error, even if it concerns the writes of another. So a caller that relies on a sync checks
/// whether any has failed since it began to write ([`PosixStore::sync_since`], A4). Clones count
/// together. A store that is opened again continues the count of the earlier handle, if it receives
/// that.
///
/// [`PosixStore::sync_since`]: crate::PosixStore::sync_since
#[derive(Clone, Debug, Default)]
pub struct FailedSyncs(Arc<AtomicU32>);

impl FailedSyncs {
    /// Returns the number of failed syncs; it never falls.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts a failed sync.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// A mount at or below the root of a store, with the attributes that it has refused one account.
#[derive(Debug)]
pub(crate) struct Mount {
    facts: Arc<MountFacts>,
    refusals: Refusals,
}

/// The facts about a mount that hold for every account.
///
/// Its descriptor is opened when the store first meets the mount, which is before the first write
/// there, and kept for all syncs: an error of write-back is reported once for each descriptor, and
/// one opened later would miss it (A4).
#[derive(Debug)]
struct MountFacts {
    key: MountKey,
    kind: FileSystemKind,
    method: DurabilityMethod,
    writeback: Writeback,
    /// Set if large files are written past the page cache; cleared when the system rejects that.
    direct: AtomicBool,
    /// The same for reads.
    direct_reads: AtomicBool,
    /// `None` where nothing on the mount may be opened: then nothing is synced by it.
    sync_fd: Option<OwnedFd>,
    stamps: Stamps,
}

/// The choice of an operator or a test for the ways of writing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    /// The write-back; `None` chooses the best for each file system.
    pub(crate) writeback: Option<Writeback>,
    pub(crate) io: IoMode,
}

/// Device number and, where the kernel reports it (5.8), mount id: unique among open mounts.
type MountKey = (u64, u64);

impl Mount {
    fn open(dir: impl AsFd, key: MountKey, ways: Ways) -> io::Result<Self> {
        // Only the daemon syncs, and it does so for the files of all accounts.
        let _daemon = act_as_daemon();
        let dir = dir.as_fd();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let sync_fd = match openat(dir, c".", flags, Mode::empty()) {
            Err(Errno::ACCESS) => nameless_in(dir).ok(),
            opened => Some(opened?),
        };
        let kind = FileSystemKind::of(dir)?;
        let writeback = ways.writeback.unwrap_or_else(|| Writeback::of(kind));
        let direct = AtomicBool::new(ways.io.tries_writes(kind, key.0));
        let direct_reads = AtomicBool::new(ways.io.tries_reads(kind, key.0));
        let method = match (DurabilityMethod::of(kind, kernel_version()), &sync_fd) {
            (DurabilityMethod::Syncfs(kind), None) => DurabilityMethod::Fsync(kind),
            (method, _) => method,
        };
        let stamps = Stamps::of(kind);
        let facts =
            MountFacts { key, kind, method, writeback, direct, direct_reads, sync_fd, stamps };
        Ok(Self { facts: Arc::new(facts), refusals: Refusals::default() })
    }

    /// Returns the same mount for an account, to which it may reject other attributes.
    fn for_account(&self) -> Self {
        Self { facts: Arc::clone(&self.facts), refusals: Refusals::default() }
    }

    pub(crate) fn kind(&self) -> FileSystemKind {
        self.facts.kind
    }

    /// Returns the descriptor that is open on the mount for all syncs.
    pub(crate) fn sync_fd(&self) -> Option<BorrowedFd<'_>> {
        self.facts.sync_fd.as_ref().map(AsFd::as_fd)
    }

    /// Returns the number of its device.
    pub(crate) fn device(&self) -> u64 {
        self.facts.key.0
    }

    pub(crate) fn method(&self) -> DurabilityMethod {
        self.facts.method
    }

    pub(crate) fn writeback(&self) -> Writeback {
        self.facts.writeback
    }

    /// Returns whether large files are written past the page cache here, as far as is known.
    pub(crate) fn is_direct(&self) -> bool {
        self.facts.direct.load(Ordering::Relaxed)
    }

    /// Records that the file system does not take direct writes: they are not tried again.
    pub(crate) fn refuse_direct(&self) {
        if self.facts.direct.swap(false, Ordering::Relaxed) {
            let kind = self.facts.kind;
            tracing::info!(%kind, "no direct writes here: the page cache is used");
        }
    }

    /// Returns whether large files are read past the page cache here, as far as is known.
    pub(crate) fn reads_directly(&self) -> bool {
        self.facts.direct_reads.load(Ordering::Relaxed)
    }

    /// Records that the file system does not take direct reads: they are not tried again.
    pub(crate) fn refuse_direct_reads(&self, errno: Errno) {
        if self.facts.direct_reads.swap(false, Ordering::Relaxed) {
            let kind = self.facts.kind;
            tracing::info!(%kind, %errno, "no direct reads here: the page cache is used");
        }
    }

    /// Returns the attributes that the mount rejects.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Returns the steps in which the mount counts time.
    pub(crate) fn stamps(&self) -> &Stamps {
        &self.facts.stamps
    }
}

/// Opens a file without a name in a directory: a descriptor on its file system where the directory
/// may be written and not read.
fn nameless_in(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    openat(dir, c".", flags, Mode::RUSR | Mode::WUSR)
}

/// Makes the names in a directory durable, by fsync(2). If the directory may not be read, uses
/// syncfs(2) of a file without a name in it. The next way is `other`, which syncs its file system
/// in another way, or returns `None` if it cannot. If no way is permitted, sync(2) writes all file
/// systems.
///
/// # Errors
/// Those of fsync(2) and syncfs(2), and of opening a file without a name for another reason.
pub(crate) fn sync_names(
    dir: BorrowedFd<'_>,
    other: impl FnOnce() -> Option<Result<(), Errno>>,
) -> Result<(), Errno> {
    match fsync(dir) {
        Err(Errno::BADF) => {}
        synced => return synced,
    }
    let errno = match nameless_in(dir) {
        Ok(fd) => return syncfs(fd),
        Err(errno) => errno,
    };
    if let Some(synced) = other() {
        return synced;
    }
    match errno {
        // No right to write there, or no files without names on this file system or kernel.
        Errno::ACCESS
        | Errno::PERM
        | Errno::ROFS
        | Errno::OPNOTSUPP
        | Errno::ISDIR
        | Errno::INVAL
        | Errno::NOSYS => {
            sync();
            Ok(())
        }
        errno => Err(errno),
    }
}

fn mount_key(dir: impl AsFd) -> io::Result<MountKey> {
    let told = statx(dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let known = told.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let mount_id = if known { told.stx_mnt_id } else { 0 };
    Ok((makedev(told.stx_dev_major, told.stx_dev_minor), mount_id))
}

/// All mounts at and below the root on which directories were opened.
#[derive(Debug)]
pub(crate) struct Mounts {
    root: Arc<Mount>,
    /// Mounts below the root; most stores have none.
    nested: Mutex<Vec<Arc<Mount>>>,
    ways: Ways,
    /// Allows one sync at a time. Of two on one descriptor only one receives an error, and the
    /// other must not return before that is counted.
    syncing: Mutex<()>,
    failed: FailedSyncs,
    /// The daemon's own, where these are of an account: all syncs are done there.
    base: Option<Arc<Self>>,
}

impl Mounts {
    pub(crate) fn open(root: impl AsFd, ways: Ways, failed: FailedSyncs) -> io::Result<Self> {
        let root = Arc::new(Mount::open(&root, mount_key(&root)?, ways)?);
        let (nested, syncing) = (Mutex::default(), Mutex::default());
        Ok(Self { root, nested, ways, syncing, failed, base: None })
    }

    /// Returns the same mounts for an account.
    pub(crate) fn for_account(base: &Arc<Self>) -> Self {
        let base = Arc::clone(base.base.as_ref().unwrap_or(base));
        let (nested, syncing) = (Mutex::default(), Mutex::default());
        let (root, ways, failed) = (base.root.for_account(), base.ways, base.failed.clone());
        Self { root: Arc::new(root), nested, ways, syncing, failed, base: Some(base) }
    }

    /// Returns the count of failed syncs.
    pub(crate) fn failed(&self) -> &FailedSyncs {
        &self.failed
    }

    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.syncing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one sync through a descriptor that others use as well; counts it if it fails.
    pub(crate) fn sync_by(&self, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        if let Some(base) = &self.base {
            return base.sync_by(sync);
        }
        let _one_at_a_time = self.one_at_a_time();
        sync().inspect_err(|_| self.failed.note())
    }

    pub(crate) fn root(&self) -> &Arc<Mount> {
        &self.root
    }

    /// Returns the mount that `dir` is on, met for the first time or not.
    pub(crate) fn of(&self, dir: impl AsFd) -> io::Result<Arc<Mount>> {
        let key = mount_key(&dir)?;
        if key == self.root.facts.key {
            return Ok(Arc::clone(&self.root));
        }
        let mut nested = self.nested.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = nested.iter().find(|mount| mount.facts.key == key) {
            return Ok(Arc::clone(known));
        }
        let mount = match &self.base {
            Some(base) => base.of(dir)?.for_account(),
            None => Mount::open(dir, key, self.ways)?,
        };
        let mount = Arc::new(mount);
        nested.push(Arc::clone(&mount));
        Ok(mount)
    }

    fn all(&self) -> Vec<Arc<Mount>> {
        let nested = self.nested.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.root).chain(nested.iter()).cloned().collect()
    }

    /// Returns the methods in use, each once, the root's first.
    pub(crate) fn methods(&self) -> Vec<DurabilityMethod> {
        let mut methods = Vec::new();
        for mount in self.all() {
            if !methods.contains(&mount.facts.method) {
                methods.push(mount.facts.method);
            }
        }
        methods
    }

    /// Syncs every mount that is made durable by syncfs, and reports the first error after all.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        if let Some(base) = &self.base {
            return base.sync();
        }
        self.sync_by(|| {
            let mut outcome = Ok(());
            for mount in self.all() {
                let facts = &mount.facts;
                if let (DurabilityMethod::Syncfs(_), Some(fd)) = (facts.method, &facts.sync_fd) {
                    outcome = outcome.and(syncfs(fd));
                }
            }
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (A4, a): names in a directory that cannot be read are synced in another way, or the
    /// error is reported.
    #[test]
    fn a4_names_that_cannot_be_synced_are_told() {
        let open = |path: &std::path::Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).unwrap()
        };
        // No file can be made there.
        let made = open(std::path::Path::new("/proc"));
        let failed = sync_names(made.as_fd(), || Some(Err(Errno::IO)));
        assert_eq!(failed, Err(Errno::IO));
        assert_eq!(sync_names(made.as_fd(), || Some(Ok(()))), Ok(()));
        let writable = tempfile::tempdir().unwrap();
        assert_eq!(sync_names(open(writable.path()).as_fd(), || None), Ok(()));
    }
}
