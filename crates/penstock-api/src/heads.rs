//! The heads of a ledger: the few words per page that a state database commits.
//!
//! Pages and page logs are files in the journal store; a head says how much of them counts. What a
//! log holds beyond its head is a torn tail, or was never acknowledged. Heads are the same for
//! SQLite and etcd.

use penstock_proto::digest::Digest;
use penstock_proto::id::TransferId;

use crate::problem::Problem;
use crate::scan::ScanSummary;

/// What is committed of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHead {
    /// Number of the page.
    pub page: u32,
    /// Digest of the encoded page.
    pub digest: Digest,
    /// Bytes of the page log that count.
    pub log_bytes: u64,
    /// Whether all pieces are durable or excepted: such a page is never looked at again.
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
    /// Whether the source is to be asked about entries of it that have changed, or may have.
    pub asks: bool,
}

/// What is committed of a whole ledger.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LedgerHead {
    /// All pages known, in order of their numbers.
    pub pages: Vec<PageHead>,
    /// What the scan found, once it is complete.
    pub scan: Option<ScanSummary>,
    /// The last sync epoch that is known to have succeeded: the store's marker is at least this.
    pub epoch: u64,
    /// Random id of the target store when the transfer first wrote there; 0 before (A5).
    pub store: u64,
}

/// One commit: replaces the heads of the named pages.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HeadCommit {
    /// New heads.
    pub pages: Vec<PageHead>,
    /// Set when the scan is complete.
    pub scan: Option<ScanSummary>,
    /// Set when a sync epoch has succeeded.
    pub epoch: Option<u64>,
    /// Set when the transfer first writes to its target store.
    pub store: Option<u64>,
    /// Whether this commit must survive a power cut: the caller has synced the logs before (A8).
    pub durable: bool,
}

/// Keeps heads. Blocks for the length of a database transaction.
pub trait HeadStore: Send + Sync {
    /// What is committed of the transfer's ledger; an empty head if nothing is.
    ///
    /// # Errors
    /// The database cannot be read.
    fn load(&self, transfer: TransferId) -> Result<LedgerHead, Problem>;

    /// Commits all or nothing. With `durable` unset the commit survives `kill -9`, with it a power
    /// cut as well.
    ///
    /// # Errors
    /// The database cannot be written: nothing was committed, the caller stops the transfer.
    fn commit(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem>;

    /// Forgets the ledger of a transfer.
    ///
    /// # Errors
    /// The database cannot be written.
    fn remove(&self, transfer: TransferId) -> Result<(), Problem>;
}
