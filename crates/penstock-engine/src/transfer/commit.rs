//! Commits of the ledger, and the figures of pages and of the whole transfer.

use std::collections::BTreeMap;

use penstock_proto::digest::Digest;
use penstock_proto::id::WriterId;

/// Commit of a page: its head, and the bytes appended to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCommit {
    /// Number of the page.
    pub page: u32,
    /// Digest of the encoded page.
    pub digest: Digest,
    /// Bytes to append to the page's log; may be empty.
    pub append: Vec<u8>,
    /// Length of the log after that.
    pub log_bytes: u64,
    /// True if the page is settled.
    pub complete: bool,
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Failed entries.
    pub failures: u64,
    /// Files that stay as they are at the target.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// True if the source is to be asked about entries that have changed, or may have.
    pub asks: bool,
}

/// A commit of the ledger: append to the logs, then commit the heads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerCommit {
    /// Pages with changes.
    pub pages: Vec<PageCommit>,
    /// The last epochs that peers have synced, if they are new. The logs are to be synced before
    /// the heads are committed, and the heads durably (A8).
    pub synced: BTreeMap<WriterId, u64>,
}

/// Facts about a page that a restarted transfer reads from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStanding {
    /// Digest of the encoded page.
    pub digest: Digest,
    /// Length of the log that counts.
    pub log_bytes: u64,
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Failed entries.
    pub failures: u64,
    /// Files that stay as they are at the target.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// True if the source is to be asked about entries that have changed, or may have.
    pub asks: bool,
}

/// Phase of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Pieces are fetched.
    Moving,
    /// The edge asks the source about entries that have changed: see
    /// [`super::TransferMachine::asking`].
    Asking,
    /// Links are made.
    Links,
    /// The edge deletes items at the target that are not in the data set.
    Deleting,
    /// Attributes of directories are set.
    Directories,
    /// Everything is durable.
    Done,
}

/// Totals of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Bytes durable.
    pub bytes_durable: u64,
    /// Bytes found in the ledger when the transfer was resumed, without those of pieces that were
    /// checked and are not at the target.
    pub bytes_resumed: u64,
    /// Failed entries.
    pub failures: u64,
    /// Files that stay as they are at the target.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
}

impl LedgerCommit {
    /// Returns whether the commit must survive a power cut, with its logs synced before (A8): data
    /// was made durable, or a page is never examined again.
    pub fn is_durable(&self) -> bool {
        !self.synced.is_empty() || self.pages.iter().any(|page| page.complete)
    }
}
