//! What a data set lies on, so that a store that is gone is never taken for items that are (C3).
//!
//! An unmounted disk leaves an empty directory behind, and a dead file server errors of all kinds.
//! Whoever finds something missing asks here whether the store is still the one that was opened;
//! if not, the transfer waits, and no item has vanished.

use std::sync::Arc;

use penstock_api::problem::Problem;
use penstock_io::store::{Kind, Source, StoreFingerprint, StoreOffline};
use penstock_proto::frame::{EntryStatus, Record};
use penstock_proto::id::Name;
use penstock_proto::name;

use crate::stores::{Stores, store_offline};

/// A store and a data set in it, as they were when the guard was made.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    source: Source,
    store: Name,
    root: Vec<u8>,
    fingerprint: StoreFingerprint,
    /// Device of the data set's directory: it may be a file system of its own within the store.
    device: Option<u64>,
}

impl Guard {
    /// Takes note of what is there now: the caller has checked that it is what it should be.
    ///
    /// # Errors
    /// The store is offline.
    pub(crate) fn new(source: &Source, store: &Name, root: &[u8]) -> Result<Self, Problem> {
        let offline = |why: StoreOffline| store_offline(store, why);
        let fingerprint = source.fingerprint().map_err(offline)?;
        let device = device_of(source, root);
        let (source, store, root) = (source.clone(), store.clone(), root.to_vec());
        Ok(Self { source, store, root, fingerprint, device })
    }

    /// Whether all is as it was. Some ten system calls; on network file systems a round trip.
    ///
    /// # Errors
    /// The store is offline: what was found since the last check proves nothing.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.source
            .check_fingerprint(&self.fingerprint)
            .map_err(|why| store_offline(&self.store, why))?;
        let Some(device) = self.device else { return Ok(()) };
        let Some(now) = device_of(&self.source, &self.root) else {
            let why = format!("the directory `{}` is not there now", name::escape(&self.root));
            return Err(store_offline(&self.store, why));
        };
        if device != now {
            let why = format!("another file system is at `{}` now", name::escape(&self.root));
            return Err(store_offline(&self.store, why));
        }
        Ok(())
    }

    /// As [`Guard::check`], of a store that may hang: on another thread, and not without end.
    ///
    /// # Errors
    /// The same, and `store-hung`.
    pub(crate) fn check_by(self: &Arc<Self>, stores: &Stores) -> Result<(), Problem> {
        let guard = Arc::clone(self);
        stores.look(&self.store, move || guard.check())?
    }

    /// Checks the store if one of these records says that a file could not be read or has vanished.
    ///
    /// # Errors
    /// As [`Guard::check`]: then no record of them counts.
    pub(crate) fn check_records(&self, records: &[Record]) -> Result<(), Problem> {
        let bad = [EntryStatus::Vanished, EntryStatus::Failed];
        let asks = records.iter().any(|record| bad.contains(&record.status));
        if asks { self.check() } else { Ok(()) }
    }
}

/// Device of a directory; `None` if it is none, or is not there.
fn device_of(source: &Source, root: &[u8]) -> Option<u64> {
    let dir = source.open_dir(root).ok()?;
    let meta = source.stat(&dir, b"").ok()?;
    (meta.kind == Kind::Directory).then_some(meta.device)
}
