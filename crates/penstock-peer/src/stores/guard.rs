//! The identity of a store and of a data set's place in it. A store that is gone is thereby never
//! taken for missing items (C3).
//!
//! An unmounted disk leaves an empty directory behind, and a dead file server errors of all kinds.
//! When an entry is missing, the guard checks whether the store is still the one that was opened.
//! If it is not, the transfer waits, and no item has vanished.

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use penstock_proto::frame::{EntryStatus, Record};
use penstock_proto::id::Name;
use penstock_proto::name;
use penstock_store::{Source, StoreError, StoreFingerprint};

use crate::stores::Stores;
use crate::stores::access::{Absence, AccessError};

/// A store and a data set in it, as they were when the guard was made.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    source: Source,
    store: Name,
    root: Vec<u8>,
    fingerprint: StoreFingerprint,
    ground: Option<Ground>,
}

/// The directory that the data set is, or the one that contains it.
#[derive(Clone, Debug)]
struct Ground {
    path: Vec<u8>,
    /// Device of the file or directory, which may be a mount within the store, or lie in one.
    device: u64,
    nested: bool,
}

impl Guard {
    /// Records the present state; the caller checks afterwards that it is the right one.
    ///
    /// # Errors
    /// The store is offline.
    pub(crate) fn new(source: &Source, store: &Name, root: &[u8]) -> Result<Self, AccessError> {
        let fingerprint =
            source.fingerprint().map_err(|offline| AccessError::gone(store, offline))?;
        let ground =
            ground_of(source, root).map_err(|error| AccessError::unanswered(store, &error))?;
        let (source, store, root) = (source.clone(), store.clone(), root.to_vec());
        Ok(Self { source, store, root, fingerprint, ground })
    }

    /// Returns whether the data set is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.ground.as_ref().is_some_and(|ground| ground.path == self.root)
    }

    /// Returns whether the data set is, or lies in, another file system than the store's root.
    /// Returns `None` if even the directory that contains it is missing.
    pub(crate) fn is_nested(&self) -> Option<bool> {
        self.ground.as_ref().map(|ground| ground.nested)
    }

    /// Checks that the store and the data set's root are as they were. Takes some ten system calls;
    /// on network file systems a round trip.
    ///
    /// # Errors
    /// The store is offline: findings since the last check prove nothing.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
        self.source
            .check_fingerprint(&self.fingerprint)
            .map_err(|offline| AccessError::gone(&self.store, offline))?;
        let Some(Ground { path, device, .. }) = &self.ground else { return Ok(()) };
        let now = device_of(&self.source, path).map_err(|error| match is_missing(&error) {
            true => AccessError::offline(&self.store, Absence::DirectoryGone(path.clone())),
            false => AccessError::unanswered(&self.store, &error),
        })?;
        if *device != now {
            let other = Absence::OtherFileSystem(path.clone());
            return Err(AccessError::offline(&self.store, other));
        }
        Ok(())
    }

    /// Checks like [`Guard::check`] for a store that may hang: on another thread and for a limited
    /// time.
    ///
    /// # Errors
    /// The same, and `store-hung`.
    pub(crate) fn check_by(self: &Arc<Self>, stores: &Stores) -> Result<(), AccessError> {
        let guard = Arc::clone(self);
        stores.look(&self.store, move || guard.check())?
    }

    /// Checks the store if one of these records reports a file that is missing or could not be
    /// read.
    ///
    /// # Errors
    /// As [`Guard::check`]: then no record of them counts.
    pub(crate) fn check_records(&self, records: &[Record]) -> Result<(), AccessError> {
        let bad = [EntryStatus::Vanished, EntryStatus::Failed];
        let asks = records.iter().any(|record| bad.contains(&record.status));
        if asks { self.check() } else { Ok(()) }
    }
}

/// Returns the root of a data set, or else the directory that contains it. Returns `None` if
/// neither exists or may be opened.
fn ground_of(source: &Source, root: &[u8]) -> Result<Option<Ground>, StoreError> {
    let parent = name::split(root).map(|(parent, _)| parent);
    for path in [Some(root), parent].into_iter().flatten() {
        match device_of(source, path) {
            Ok(device) => {
                let nested = device != device_of(source, b"")?;
                return Ok(Some(Ground { path: path.to_vec(), device, nested }));
            }
            Err(error) if is_missing(&error) || is_of_wrong_kind(&error) || error.is_denied() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn kind_of(error: &StoreError) -> Option<ErrorKind> {
    error.errno().map(|errno| Error::from_raw_os_error(errno).kind())
}

/// Returns whether the error means that no entry has that name.
pub(crate) fn is_missing(error: &StoreError) -> bool {
    kind_of(error) == Some(ErrorKind::NotFound)
}

/// Returns whether the entry has another kind than was asked for, or its name can be no item's: a
/// retry will not help.
pub(crate) fn is_of_wrong_kind(error: &StoreError) -> bool {
    use ErrorKind::{InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
    let kinds = [NotADirectory, IsADirectory, InvalidFilename, InvalidInput];
    matches!(error, StoreError::WrongKind { .. })
        || kind_of(error).is_some_and(|kind| kinds.contains(&kind))
}

/// Returns the device of a directory.
fn device_of(source: &Source, path: &[u8]) -> Result<u64, StoreError> {
    let dir = source.open_dir(path)?;
    source.stat(&dir, b"").map(|meta| meta.device)
}
