//! The state of a scan, which its threads share.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use penstock_api::fence::Fence;
use penstock_api::preserve::Preserve;
use penstock_api::scan::{ScanFailure, ScanSummary};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::manifest::PageBuilder;
use penstock_proto::name::{self};
use penstock_proto::select::Selector;
use penstock_proto::slicing::Slicing;
use tokio::sync::watch;

use super::found::WantedAttributes;
use super::hard_links::LinkTable;
use super::helpers::Helpers;
use super::units::{Passed, Walk};
use crate::source::error::SourceError;
use crate::stores::Stores;
use crate::stores::guard::Guard;
use crate::stores::pacer::Pacer;
use crate::stores::single_flight::SingleFlight;

/// The parameters of a scan.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// The transfer.
    pub transfer: TransferId,
    /// Root of the data set within the store.
    pub root: Vec<u8>,
    /// Rules for cutting pages.
    pub slicing: Slicing,
    /// Only these paths below the root; empty for all.
    pub files_from: Vec<Vec<u8>>,
    /// Rules that select entries.
    pub selector: Selector,
    /// Most names looked up per second; 0 for no limit.
    pub lookups_per_s: u32,
    /// Attributes to be read of each entry.
    pub preserve: Preserve,
    /// Reads the names of owners too.
    pub owner_names: bool,
    /// Threads that list.
    pub workers: usize,
    /// Lease of the own controller, which decides whether it may still act. With an epoch, other
    /// peers may continue the scan.
    pub fence: Fence,
}

/// A scan: its pages so far and its waiters.
pub(crate) struct Scan {
    pub(super) directory: PathBuf,
    pub(super) lookups: Pacer,
    pub(super) options: ScanOptions,
    pub(super) wants: WantedAttributes,
    pub(super) state: Mutex<State>,
    pub(super) marks: Arc<Marks>,
    /// Permit for questions about changed entries: one at a time.
    pub(super) asking: SingleFlight,
    /// Random mark that distinguishes this scan's temporary files from those of another.
    pub(super) mark: u64,
    pub(super) wake: Condvar,
    /// Changes with the results of [`Scan::page`].
    pub(super) news: watch::Sender<()>,
    /// Wakes the threads that have other peers list.
    pub(super) lend: Condvar,
    pub(super) guard: OnceLock<(Arc<Guard>, Arc<Stores>)>,
    /// Other peers of the site, and the name of the store there.
    pub(super) helpers: OnceLock<(Name, Arc<dyn Helpers>)>,
    /// The paths of `files_from`, built at the first use.
    pub(super) named: OnceLock<HashSet<Vec<u8>>>,
}

/// The status of a scan outside of its lock. The lock is held while a store is examined, and ending
/// a scan must wait for no store (E2).
#[derive(Default)]
pub(super) struct Marks {
    pub(super) stopped: AtomicBool,
    /// All workers have ended, and the scan is not complete: another scan may resume from its
    /// sealed pages.
    pub(super) broken_off: AtomicBool,
    /// The scan is complete, or broken off.
    pub(super) ended: AtomicBool,
}

impl Marks {
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn is_broken_off(&self) -> bool {
        self.broken_off.load(Ordering::Acquire)
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) builder: Option<PageBuilder>,
    pub(super) sealed: u32,
    /// Times at which this process sealed its first and its last page.
    pub(super) seals: Option<(Instant, Instant)>,
    /// Files with several names, once there was one.
    pub(super) links: Option<LinkTable>,
    pub(super) walk: Walk,
    /// Directories completed since the last page was sealed.
    pub(super) done: Vec<(Vec<u8>, Passed)>,
    /// Hashes of paths that sealed pages hold of directories that are listed again.
    pub(super) emitted: HashSet<u64>,
    /// Device of the root, if the scan must stay on it.
    pub(super) device: Option<u64>,
    pub(super) summary: ScanSummary,
    pub(super) failed: FailedPart,
    pub(super) complete: bool,
    pub(super) error: Option<SourceError>,
    pub(super) marks: Arc<Marks>,
}

impl State {
    /// Returns whether a page that is not full may be sealed now. Each page has some time to fill
    /// since the last one.
    pub(super) fn seals_early(&self, now: Instant) -> bool {
        let Some((first, last)) = self.seals else { return true };
        let time = ((last - first) / FILLING.0).clamp(EARLY_SEAL, FILLING.1);
        now.saturating_duration_since(last) >= time
    }

    /// Takes the whole state, and leaves the part that waiters for pages see.
    pub(super) fn set_aside(&mut self) -> Self {
        let told = Self { sealed: self.sealed, marks: Arc::clone(&self.marks), ..Self::default() };
        std::mem::replace(self, told)
    }

    /// Returns whether nothing more will be listed.
    pub(super) fn is_at_end(&self) -> bool {
        self.marks.is_stopped() || self.error.is_some() || self.walk.is_over()
    }

    pub(super) fn pass(&mut self, passed: Passed) {
        self.summary.excluded += passed.excluded;
        self.summary.skipped += passed.skipped;
        self.summary.own_state += passed.own_state;
    }
}

/// Time after which a page with a waiter is sealed, full or not.
pub(super) const EARLY_SEAL: Duration = Duration::from_millis(20);

/// Time that a page has to fill: a share of the scan's time so far, and the longest time. It bounds
/// the number of small pages of a slow scan.
pub(super) const FILLING: (u32, Duration) = (50, Duration::from_secs(1));

/// Returns whether any directory that contains `path` is wanted as a whole.
pub(super) fn lies_below(path: &[u8], wanted: impl Fn(&[u8]) -> bool) -> bool {
    let mut at = path;
    while let Some((parent, _)) = name::split(at) {
        if wanted(parent) {
            return true;
        }
        at = parent;
    }
    false
}

pub(super) fn hash(path: &[u8]) -> u64 {
    let digest = blake3::hash(path);
    let bytes = digest.as_bytes();
    u64::from_le_bytes([
        bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
    ])
}

/// The part that is not full yet.
#[derive(Default)]
pub(super) struct FailedPart {
    pub(super) items: Vec<ScanFailure>,
    /// Memory that it takes.
    pub(super) bytes: usize,
}
