//! Whether a mount takes files without a name.

use std::sync::atomic::{AtomicU8, Ordering};

use penstock_sys::FileSystemKind;

/// The knowledge whether a mount takes files without a name. Threads share it.
#[derive(Debug)]
pub(crate) struct NamelessSupport(AtomicU8);

const NO: u8 = 0;
const YES: u8 = 1;
const UNKNOWN: u8 = 2;

impl NamelessSupport {
    /// Returns the knowledge before the first attempt on a file system of this kind.
    pub(crate) fn of(kind: FileSystemKind) -> Self {
        let worth = matches!(kind, FileSystemKind::Tmpfs | FileSystemKind::Ext4);
        Self(AtomicU8::new(if worth { UNKNOWN } else { NO }))
    }

    /// Returns the answer; `None` before the first attempt.
    pub(crate) fn known(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            NO => Some(false),
            YES => Some(true),
            _ => None,
        }
    }

    /// Records the result of an attempt.
    pub(crate) fn record(&self, takes: bool) {
        self.0.store(if takes { YES } else { NO }, Ordering::Relaxed);
    }
}
