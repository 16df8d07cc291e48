//! Sync markers: they show how much of a transfer its storage still has.
//!
//! A counter in the same file system as the data, one for each transfer and writer, is written
//! before each sync. If a later read finds an older counter than the ledger has, the storage was
//! rolled back. The marker lies in the store's private directory. An ephemeral store has none:
//! there the marker is a file with an [own name](penstock_proto::name::own) in the root, which only
//! its user may write.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::name;
use penstock_proto::name::{OWN_HASH_BYTES, OwnKind, RunTag, STORE_PRIVATE_NAME, own_name};
use penstock_sys::act_as_daemon;
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, accessat, fchmod, fstat,
    fsync, futimens, syncfs, unlinkat,
};
use rustix::io::{Errno, pread, pwrite};
use rustix::process::geteuid;

use crate::error::StoreError;
use crate::posix::file_system::mount::{Mount, sync_names};
use crate::posix::sandbox::{create_component, open_component};
use crate::posix::store::PosixStore;

const MAGIC: &[u8; 8] = b"PSTMARK1";
/// Magic, counter, first half of their BLAKE3.
const RECORD_BYTES: usize = 32;
/// Two records, written in turn and far enough apart that a torn write spoils only one.
const SLOT_BYTES: u64 = 4096;

/// The directory that holds a marker.
enum MarkerDirectory<'a> {
    Root(BorrowedFd<'a>),
    Private(OwnedFd),
}

impl AsFd for MarkerDirectory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Private(directory) => directory.as_fd(),
        }
    }
}

/// The place of a marker.
struct Place<'a> {
    directory: MarkerDirectory<'a>,
    name: Vec<u8>,
    /// Path of the marker below the root, for errors.
    path: Vec<u8>,
}

impl PosixStore {
    /// Makes room for the transfer's sync marker, so that it can be written when the disk is full.
    /// Otherwise the last data written could never be called durable. Where a file system writes
    /// every change to a new place, that cannot be promised. Call it before work. An existing
    /// marker is left as it is.
    ///
    /// # Errors
    /// The errors of [`PosixStore::write_marker`], but a denied one is always returned; `Io` with
    /// `ENOSPC` if there is no room even for this.
    pub fn reserve_marker(&self, of: (TransferId, WriterId)) -> Result<(), StoreError> {
        let _daemon = act_as_daemon();
        let Some(place) = self.marker_place("make marker", of)? else {
            return Err(self.identity_missing().into());
        };
        let reserve = || -> Result<(), Errno> {
            let before = self.ephemeral_root()?;
            let flags = OFlags::WRONLY | OFlags::CREATE;
            let file = create_component(place.directory.as_fd(), &place.name, flags, own_mode())?;
            let mut end = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
            let was_there = end > 0;
            let zeros = [0; SLOT_BYTES as usize];
            while end < 2 * SLOT_BYTES {
                let part = (2 * SLOT_BYTES - end).min(SLOT_BYTES);
                match pwrite(&file, &zeros[..part as usize], end)? {
                    0 => return Err(Errno::IO),
                    count => end += count as u64,
                }
            }
            if let Some(before) = before.filter(|_| !was_there) {
                put_back_time(&place.directory, &before);
            }
            Ok(())
        };
        reserve().map_err(|errno| StoreError::io("make marker", &place.path, errno))
    }

    /// Writes the transfer's sync marker. Call it before the sync that shall cover it; where files
    /// are synced one by one, it is durable on return. An ephemeral store whose root this user may
    /// not write goes without.
    ///
    /// # Errors
    /// `Offline` if the store no longer has a private directory; `ReadOnly`; `Io`.
    pub fn write_marker(&self, of: (TransferId, WriterId), counter: u64) -> Result<(), StoreError> {
        let _daemon = act_as_daemon();
        let Some(place) = self.marker_place("write marker", of)? else {
            return Err(self.identity_missing().into());
        };
        let per_file = self.root().durability().is_per_file();
        let write = || -> Result<(), Errno> {
            let flags = OFlags::WRONLY | OFlags::CREATE;
            let made = create_component(place.directory.as_fd(), &place.name, flags, own_mode());
            let file = match made {
                Err(Errno::ACCESS | Errno::PERM) if self.is_ephemeral() => return Ok(()),
                made => made?,
            };
            let slot = (counter & 1) * SLOT_BYTES;
            if pwrite(&file, &record(counter), slot)? != RECORD_BYTES {
                return Err(Errno::IO);
            }
            if per_file {
                fsync(&file)?;
                let any = self.root().mount().and_then(Mount::sync_fd);
                let other = || any.map(|any| self.shared.mounts.sync_by(|| syncfs(any)));
                sync_names(place.directory.as_fd(), other)?;
            }
            Ok(())
        };
        write().map_err(|errno| StoreError::io("write marker", &place.path, errno))
    }

    /// Returns the last counter that was written whole; `None` if there is none. Less than the
    /// ledger's counter means that everything since that counter is missing.
    ///
    /// # Errors
    /// `Io`.
    pub fn read_marker(&self, of: (TransferId, WriterId)) -> Result<Option<u64>, StoreError> {
        let _daemon = act_as_daemon();
        let Some(place) = self.place_of(of)? else { return Ok(None) };
        let failed = |errno| StoreError::io("read marker", &place.path, errno);
        let file = match open_component(place.directory.as_fd(), &place.name, OFlags::RDONLY) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let mut newest = None;
        for slot in [0, SLOT_BYTES] {
            let mut read = [0; RECORD_BYTES];
            let count = pread(&file, &mut read, slot).map_err(failed)?;
            if count == RECORD_BYTES {
                newest = newest.max(counter_of(&read));
            }
        }
        Ok(newest)
    }

    /// Removes the transfer's sync marker; nothing happens if there is none. The root of an
    /// ephemeral store keeps its time of modification, and its mode.
    ///
    /// # Errors
    /// `ReadOnly`; `Io`.
    pub fn remove_marker(&self, of: (TransferId, WriterId)) -> Result<(), StoreError> {
        let _daemon = act_as_daemon();
        self.check_writable("remove marker", STORE_PRIVATE_NAME)?;
        let Some(place) = self.place_of(of)? else { return Ok(()) };
        let remove = || -> Result<(), Errno> {
            let before = self.ephemeral_root()?;
            let unlink = || unlinkat(&place.directory, &place.name[..], AtFlags::empty());
            let mut removed = unlink();
            if let Some(before) = &before {
                if removed == Err(Errno::ACCESS) && self.unlock_root() {
                    removed = unlink();
                    let mode = Mode::from_raw_mode(before.st_mode & 0o7777);
                    let _ = fchmod(&place.directory, mode);
                }
                if removed.is_ok() {
                    put_back_time(&place.directory, before);
                }
                // Without it nothing was written there.
                if matches!(removed, Err(Errno::ACCESS | Errno::PERM)) {
                    return Ok(());
                }
            }
            match removed {
                Err(Errno::NOENT) => Ok(()),
                removed => removed,
            }
        };
        remove().map_err(|errno| StoreError::io("remove marker", &place.path, errno))
    }

    /// Returns whether the store can have no marker: it is ephemeral, its root belongs to others,
    /// and this user may not write there. A file system that was set back is then not noticed;
    /// another root still has another identity.
    pub fn goes_without_marker(&self) -> bool {
        if !self.is_ephemeral() {
            return false;
        }
        let Ok(root) = self.root().own_fd() else { return false };
        let is_own = fstat(root).is_ok_and(|meta| meta.st_uid == geteuid().as_raw());
        let may_write = accessat(root, c".", Access::WRITE_OK, AtFlags::EACCESS);
        !is_own && may_write == Err(Errno::ACCESS)
    }

    fn marker_place(
        &self,
        operation: &'static str,
        of: (TransferId, WriterId),
    ) -> Result<Option<Place<'_>>, StoreError> {
        let place = self.place_of(of)?;
        let path = place.as_ref().map_or(STORE_PRIVATE_NAME, |place| &place.path);
        self.check_bytes_writable(operation, path)?;
        Ok(place)
    }

    /// Returns the place of the marker, whether it exists or not; `None` if the store has no
    /// private directory.
    fn place_of(&self, of: (TransferId, WriterId)) -> Result<Option<Place<'_>>, StoreError> {
        if self.is_ephemeral() {
            let directory = MarkerDirectory::Root(self.root().own_fd()?);
            let name = own_marker_name(of);
            return Ok(Some(Place { directory, path: name.clone(), name }));
        }
        let name = marker_name(of);
        let path = name::join(STORE_PRIVATE_NAME, &name);
        let private = self.open_private()?.map(MarkerDirectory::Private);
        Ok(private.map(|directory| Place { directory, name, path }))
    }

    /// Returns the state of the root, if the store is ephemeral: a marker must not change its time.
    fn ephemeral_root(&self) -> Result<Option<Stat>, Errno> {
        if !self.is_ephemeral() {
            return Ok(None);
        }
        fstat(self.root().own_fd().map_err(|_| Errno::BADF)?).map(Some)
    }
}

/// Sets the time of modification that the root had; where it belongs to others, that is refused.
fn put_back_time(root: impl AsFd, before: &Stat) {
    let modified = Timespec { tv_sec: before.st_mtime, tv_nsec: before.st_mtime_nsec as _ };
    let accessed = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let _ = futimens(root, &Timestamps { last_access: accessed, last_modification: modified });
}

fn own_mode() -> Mode {
    Mode::RUSR | Mode::WUSR
}

/// Returns the name of a marker. Each writer has one of its own: the sync of one peer proves
/// nothing about another's cache (A9).
fn marker_name((transfer, writer): (TransferId, WriterId)) -> Vec<u8> {
    match writer {
        WriterId::SOLE => format!("marker-{transfer}"),
        writer => format!("marker-{transfer}-{writer}"),
    }
    .into_bytes()
}

fn own_marker_name(of: (TransferId, WriterId)) -> Vec<u8> {
    let hash = blake3::hash(&marker_name(of));
    let mut cut = [0; OWN_HASH_BYTES];
    cut.copy_from_slice(&hash.as_bytes()[..OWN_HASH_BYTES]);
    own_name(OwnKind::Marker, RunTag::of(of.0), cut).to_vec()
}

fn record(counter: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(MAGIC);
    record[8..16].copy_from_slice(&counter.to_le_bytes());
    let check = blake3::hash(&record[..16]);
    record[16..].copy_from_slice(&check.as_bytes()[..16]);
    record
}

fn counter_of(read: &[u8; RECORD_BYTES]) -> Option<u64> {
    let mut counter = [0; 8];
    counter.copy_from_slice(&read[8..16]);
    let counter = u64::from_le_bytes(counter);
    (record(counter) == *read).then_some(counter)
}
