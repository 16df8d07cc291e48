//! Attributes that a mount rejects.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use penstock_proto::attributes::AttributeClass;
use rustix::io::Errno;

/// Groups that are remembered as refused to us, at most.
const GROUPS_MAX: usize = 1024;

/// The classes that a mount, or the rights on it, reject as a whole: tried once.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    classes: [AtomicI32; AttributeClass::COUNT],
    /// Set if there are no extended attributes at all, so that no call for them is needed.
    nothing_listed: AtomicBool,
    groups: Mutex<BTreeSet<u32>>,
}

impl Refusals {
    pub(crate) fn of(&self, class: AttributeClass) -> Option<Errno> {
        match self.classes[class as usize].load(Ordering::Relaxed) {
            0 => None,
            errno => Some(Errno::from_raw_os_error(errno)),
        }
    }

    pub(crate) fn note(&self, class: AttributeClass, errno: Errno) {
        self.classes[class as usize].store(errno.raw_os_error(), Ordering::Relaxed);
    }

    pub(crate) fn refuses_group(&self, gid: u32) -> bool {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).contains(&gid)
    }

    pub(crate) fn note_group(&self, gid: u32) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.len() < GROUPS_MAX {
            groups.insert(gid);
        }
    }

    /// Returns whether the mount has no extended attributes at all.
    pub(crate) fn lists_nothing(&self) -> bool {
        self.nothing_listed.load(Ordering::Relaxed)
    }

    /// Records that the mount has no extended attributes at all.
    pub(crate) fn note_nothing_listed(&self) {
        self.nothing_listed.store(true, Ordering::Relaxed);
    }
}
