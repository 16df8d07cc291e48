//! The disks that the stores of this host are on.
//!
//! A look at the root of a store may never return (E2), so a thread of its own looks, one at a
//! time; the sampler uses its last result.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_sys::{DeviceNumber, device_of};

/// The disks, as they were found last.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreDevices {
    found: Arc<Mutex<BTreeSet<DeviceNumber>>>,
    /// Set while a thread looks.
    busy: Arc<AtomicBool>,
}

impl StoreDevices {
    /// Returns the disks that were found last.
    pub(super) fn found(&self) -> BTreeSet<DeviceNumber> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has a thread look at the directories of stores, unless one still does. Does not block.
    pub(super) fn look(&self, stores: Vec<PathBuf>) {
        if self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let its = self.clone();
        let thread = std::thread::Builder::new().name("store-devices".to_owned());
        let started = thread.spawn(move || {
            // A store that is not there has no disk now.
            let devices = stores.iter().filter_map(|store| device_of(store).ok().flatten());
            let devices = devices.collect();
            *its.found.lock().unwrap_or_else(PoisonError::into_inner) = devices;
            its.busy.store(false, Ordering::Release);
        });
        if started.is_err() {
            self.busy.store(false, Ordering::Release);
        }
    }
}
