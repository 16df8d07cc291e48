//! What proves, beyond the digests that every byte is checked by, that the data is right: reading
//! it again, checksums for catalogues, receipts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use penstock_proto::checksum::{Checksum, ChecksumKind};
use penstock_proto::journal::{EntryDigest, EntryFailure};
use serde::{Deserialize, Serialize};

use crate::task_page::TaskPage;

/// Which proofs a transfer is to give.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Proof {
    /// Read every file again from storage after its sync, past the page cache, and compare it with
    /// its digest. Costs one read of all data at the target, and its hashing.
    pub readback: bool,
    /// Checksums of every file to compute besides the digest, for catalogues. Costs one read of all
    /// data at the target, mostly from its page cache, and their hashing.
    pub also_digests: Vec<ChecksumKind>,
    /// Make a signed receipt when the transfer ends.
    pub receipt: bool,
}

impl Proof {
    /// Whether the target's files are read again at the end.
    pub fn reads_again(&self) -> bool {
        self.readback || !self.also_digests.is_empty()
    }
}

/// A file that a transfer leaves when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// The digest list.
    Digests,
    /// The list of another checksum.
    Checksums(ChecksumKind),
    /// The receipt.
    Receipt,
    /// All items that failed: JSON of a [`crate::outcome::FailedItem`] a line.
    Failures,
}

impl Document {
    /// Its path below that of its transfer, in both APIs.
    pub fn path(self) -> String {
        match self {
            Self::Digests => "digests".to_owned(),
            Self::Checksums(kind) => format!("checksums/{kind}"),
            Self::Receipt => "receipt".to_owned(),
            Self::Failures => "failures".to_owned(),
        }
    }
}

/// One page whose files are to be read again at the target. All of them are durable.
#[derive(Debug)]
pub struct ProofRequest<'a> {
    /// The page.
    pub page: &'a TaskPage,
    /// What the ledger knows of its files; others are left out.
    pub digests: &'a [EntryDigest],
    /// Whether to read from storage rather than from the page cache.
    pub readback: bool,
    /// Which checksums to compute.
    pub also: &'a [ChecksumKind],
    /// How far it is, and whether to stop.
    pub progress: &'a ProofProgress,
}

/// How far reading again is; shared with whoever shows or stops it.
#[derive(Debug, Default)]
pub struct ProofProgress {
    /// Bytes that were read again and compared.
    pub bytes: AtomicU64,
    /// Set to end the reading early: what is missing then is left out.
    pub stop: AtomicBool,
}

impl ProofProgress {
    /// Whether the reading is to end early.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// What reading a page's files again gave.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PageProof {
    /// Bytes that were read and found right.
    pub bytes: u64,
    /// Those of them that were read by direct I/O, rather than through a cache that was dropped.
    pub bytes_direct: u64,
    /// Entries with their checksums, in the order of `also`, as lists write them.
    pub checksums: Vec<(u32, Vec<String>)>,
    /// Entries whose bytes are not what the ledger knows, or cannot be read: to be fetched again.
    #[serde(skip)]
    pub damaged: Vec<u32>,
    /// Entries that somebody else has changed since: nothing is known of them.
    #[serde(skip)]
    pub failures: Vec<EntryFailure>,
    /// Whether it was stopped before its end.
    #[serde(skip)]
    pub stopped: bool,
}

impl PageProof {
    /// Notes what one file gave.
    pub fn add(&mut self, entry: u32, bytes: u64, direct: bool, checksums: &[Checksum]) {
        self.bytes += bytes;
        self.bytes_direct += if direct { bytes } else { 0 };
        if !checksums.is_empty() {
            let texts = checksums.iter().map(|checksum| checksum.to_text()).collect();
            self.checksums.push((entry, texts));
        }
    }
}
