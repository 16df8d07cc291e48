//! The heads of a ledger: the few words per page that a state database commits.
//!
//! Pages and page logs are files in the journal store; a head says how much of them counts. The
//! content of a log beyond its head is a torn tail, or was never acknowledged. Heads are the same
//! for SQLite and etcd.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_proto::digest::Digest;
use penstock_proto::id::{TransferId, WriterId};

use crate::problem::Problem;
use crate::run::scan::ScanSummary;
use crate::run::task::MountSeen;

/// Longest time between two commits of the ledger, unless the budget asks for more (A7).
pub const COMMIT_INTERVAL: Duration = Duration::from_millis(900);

/// Committed state of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHead {
    /// Number of the page.
    pub page: u32,
    /// Digest of the encoded page.
    pub digest: Digest,
    /// Epoch of the controller that began the page's log file, part of the file's name (B4). 0
    /// where one daemon is the whole site.
    pub log: u64,
    /// Bytes of the page log that count.
    pub log_bytes: u64,
    /// True if all pieces are durable or excepted: such a page is never examined again.
    pub complete: bool,
    /// Files in the page that are written.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Failed entries in the page.
    pub failures: u64,
    /// Files in the page that stay as they are at the target.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// True if the source is to be asked about entries of the page that have changed, or may have.
    pub asks: bool,
}

/// Committed state of a whole ledger.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LedgerHead {
    /// All pages known, in order of their numbers.
    pub pages: Vec<PageHead>,
    /// Result of the scan, once it is complete.
    pub scan: Option<ScanSummary>,
    /// The last sync epoch of each writer that is known to have succeeded; the writer's marker in
    /// the store is at least this. Contains all writers that ever had work.
    pub epochs: BTreeMap<WriterId, u64>,
    /// Random id of the target store when the transfer first wrote there; 0 before (A5).
    pub store: u64,
    /// File systems that were mounted then below the data set's root (A5).
    pub mounts: Vec<MountSeen>,
}

impl LedgerHead {
    /// Returns the last sync epoch of a writer that is known to have succeeded; 0 if there is none.
    pub fn epoch_of(&self, writer: WriterId) -> u64 {
        self.epochs.get(&writer).copied().unwrap_or(0)
    }
}

/// A commit: replaces the heads of the named pages.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HeadCommit {
    /// New heads.
    pub pages: Vec<PageHead>,
    /// Set when the scan is complete.
    pub scan: Option<ScanSummary>,
    /// Writers that had a sync epoch succeed, or are about to get their first work.
    pub epochs: Vec<(WriterId, u64)>,
    /// Set when the transfer first writes to its target store.
    pub store: Option<u64>,
    /// Set then, and when everything was examined again because more is mounted.
    pub mounts: Option<Vec<MountSeen>>,
    /// True if this commit must survive a power cut: the caller has synced the logs before (A8).
    pub durable: bool,
}

/// Keeps heads. Blocks for the length of a database transaction.
pub trait HeadStore: Send + Sync {
    /// Returns the committed state of the transfer's ledger; an empty head if there is none.
    ///
    /// # Errors
    /// The database cannot be read.
    fn load(&self, transfer: TransferId) -> Result<LedgerHead, Problem>;

    /// Commits all or nothing. With `durable` unset the commit survives `kill -9`; with it set, a
    /// power cut as well.
    ///
    /// # Errors
    /// The database cannot be written: nothing was committed, the caller stops the transfer.
    fn commit(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem>;

    /// Returns how soon and how late after the last commit the next one is due. Heads that are
    /// stored far away are written within a budget (E6). Urgent commits wait for the first time,
    /// all others for the second.
    fn pace(&self) -> (Duration, Duration) {
        (Duration::ZERO, COMMIT_INTERVAL)
    }

    /// Forgets the ledger of a transfer, and commits the head of another one in its place: all or
    /// nothing.
    ///
    /// # Errors
    /// The database cannot be written: the ledger is what it was.
    fn replace(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem>;

    /// Forgets the ledger of a transfer.
    ///
    /// # Errors
    /// The database cannot be written.
    fn remove(&self, transfer: TransferId) -> Result<(), Problem>;
}
