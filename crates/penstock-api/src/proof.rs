//! Proofs beyond the digests that check every byte: reading the data again, checksums for
//! catalogues, receipts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use penstock_proto::checksum::{Checksum, ChecksumKind};
use penstock_proto::journal::{EntryDigest, EntryFailure};
use serde::{Deserialize, Serialize};

use crate::run::task_page::TaskPage;

/// Proofs that a transfer is to give.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
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
    /// Returns whether the target's files are read again at the end.
    pub fn reads_again(&self) -> bool {
        self.readback || !self.also_digests.is_empty()
    }
}

/// A file that a transfer offers: the last decisions in any state, the others when it has ended.
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
    /// The last decisions: JSON of a [`crate::rest::FlightRecord`] a line.
    Flight,
}

impl Document {
    /// Returns its path below that of its transfer, in both APIs.
    pub fn path(self) -> String {
        match self {
            Self::Digests => "digests".to_owned(),
            Self::Checksums(kind) => format!("checksums/{kind}"),
            Self::Receipt => "receipt".to_owned(),
            Self::Failures => "failures".to_owned(),
            Self::Flight => "flight".to_owned(),
        }
    }
}

/// A page whose files are to be read again at the target. All of them are durable.
#[derive(Debug)]
pub struct ProofRequest<'a> {
    /// The page.
    pub page: &'a TaskPage,
    /// Digests of its files that the ledger knows; other files are skipped.
    pub digests: &'a [EntryDigest],
    /// True to read from storage rather than from the page cache.
    pub readback: bool,
    /// Checksums to compute.
    pub also: &'a [ChecksumKind],
    /// Progress, and the flag that stops the reading.
    pub progress: &'a ProofProgress,
}

/// Progress of the reading; shared with the code that shows or stops it.
#[derive(Debug, Default)]
pub struct ProofProgress {
    /// Bytes that were read again and compared.
    pub bytes: AtomicU64,
    /// Set to end the reading early: missing results are then left out.
    pub stop: AtomicBool,
}

impl ProofProgress {
    /// Returns whether the reading is to end early.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// Result of reading a page's files again.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PageProof {
    /// Bytes that were read and found right.
    pub bytes: u64,
    /// The bytes of these that were read by direct I/O, rather than through a cache that was
    /// dropped.
    pub bytes_direct: u64,
    /// Entries with their checksums, in the order of `also`, as lists write them.
    pub checksums: Vec<(u32, Vec<String>)>,
    /// Entries whose bytes are not what the ledger knows, or cannot be read: to be fetched again.
    #[serde(skip)]
    pub damaged: Vec<u32>,
    /// Entries that another program has changed since: nothing is known of them.
    #[serde(skip)]
    pub failures: Vec<EntryFailure>,
    /// True if it was stopped before its end.
    #[serde(skip)]
    pub stopped: bool,
}

impl PageProof {
    /// Adds the result of one file.
    pub fn add(&mut self, entry: u32, bytes: u64, direct: bool, checksums: &[Checksum]) {
        self.bytes += bytes;
        self.bytes_direct += if direct { bytes } else { 0 };
        if !checksums.is_empty() {
            let texts = checksums.iter().map(|checksum| checksum.to_text()).collect();
            self.checksums.push((entry, texts));
        }
    }
}
