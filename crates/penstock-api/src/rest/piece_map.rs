//! The piece map of a transfer: what became of its bytes, in planned order.

use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

/// Most buckets of a map. With [`FILES_MAX`] files its JSON has 16 KiB at most, of a transfer of up
/// to 8 PiB in any number of files.
pub const BUCKETS_MAX: usize = 128;

/// Most files of a transfer whose map names each of them.
pub const FILES_MAX: usize = 12;

/// Most bytes of a path in a map; a longer one loses its middle.
pub const PATH_BYTES_MAX: usize = 80;

/// The origin of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MapBasis {
    /// The ledger in the memory of the controller. It is a second old at most, or 200 times as old
    /// as the map takes to be made.
    Ledger,
    /// The ledger as it was when the last attempt ended.
    End,
    /// The totals of the transfer alone: its ledger is not kept, or no attempt has read it since
    /// the controller began. The order of what is done is not known.
    Totals,
    /// An origin of another release.
    #[serde(other)]
    Other,
}

/// What became of bytes. Each byte is counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PieceBytes {
    /// At the target on stable storage, or there before and unchanged.
    pub done: u64,
    /// Written, and not durable yet; or written before a restart, and to be checked again.
    pub written: u64,
    /// In the hands of a peer: it fetches them, or is to.
    pub in_hand: u64,
    /// To be sent again: a peer had them, and they were given back, lost, damaged, or changed.
    pub again: u64,
    /// Failed for good. Files that fail in a pack of small files are counted as the pack is.
    pub failed: u64,
    /// Not asked for yet.
    pub left: u64,
}

impl PieceBytes {
    /// Returns the sum.
    pub fn sum(&self) -> u64 {
        let Self { done, written, in_hand, again, failed, left } = self;
        done + written + in_hand + again + failed + left
    }
}

/// Buckets of a map, as columns: the n-th values of all columns are of the n-th bucket. The buckets
/// of a map have equal sizes up to one byte.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PieceBuckets {
    /// Bytes that are done; see [`PieceBytes`].
    pub done: Vec<u64>,
    /// Bytes that are written.
    pub written: Vec<u64>,
    /// Bytes in the hands of peers.
    pub in_hand: Vec<u64>,
    /// Bytes to be sent again.
    pub again: Vec<u64>,
    /// Bytes that failed.
    pub failed: Vec<u64>,
    /// Bytes that are left.
    pub left: Vec<u64>,
    /// Items that failed. Those of up to 4,096 items that are all settled are in the bucket in
    /// which these begin.
    pub failures: Vec<u64>,
}

impl PieceBuckets {
    /// Adds a bucket.
    pub fn push(&mut self, bytes: PieceBytes, failures: u64) {
        self.done.push(bytes.done);
        self.written.push(bytes.written);
        self.in_hand.push(bytes.in_hand);
        self.again.push(bytes.again);
        self.failed.push(bytes.failed);
        self.left.push(bytes.left);
        self.failures.push(failures);
    }
}

/// A file in a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PieceFile {
    /// Its path below the root of the data set; a long one lacks its middle. Its name, if the file
    /// is the data set.
    #[serde(deserialize_with = "crate::text::field")]
    pub path: String,
    /// What became of its bytes.
    pub bytes: PieceBytes,
    /// True if it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// What became of the bytes of a transfer, in the order of the source's list. Its size does not
/// depend on that of the transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PieceMap {
    /// Time of the map, by the clock of the controller.
    pub at: Timestamp,
    /// Its origin.
    pub basis: MapBasis,
    /// True if the source is listed to its end; else more may follow behind the last bucket.
    pub listed: bool,
    /// Bytes of all buckets.
    pub bytes: u64,
    /// What became of them.
    pub totals: PieceBytes,
    /// Items that failed.
    pub failures: u64,
    /// The buckets, 128 at most, and no more than bytes.
    pub buckets: PieceBuckets,
    /// The files in planned order, if there are up to 12 and the source is listed; else empty. A
    /// part of the list that no attempt has taken up yet is missing: a run of large files takes up
    /// the next part when little of the present one is left to hand out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PieceFile>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a map has 16 KiB at most, also of a transfer of 8 PiB whose buckets and files have
    /// all kinds of bytes.
    #[test]
    fn a_map_has_a_bound() {
        let part = (1 << 53) / BUCKETS_MAX as u64 / 3;
        let bytes = PieceBytes {
            done: part,
            written: 1 << 35,
            in_hand: 1 << 35,
            again: 1 << 35,
            failed: part,
            left: part,
        };
        let mut buckets = PieceBuckets::default();
        (0..BUCKETS_MAX).for_each(|_| buckets.push(bytes, 99_999));
        let file = PieceFile { path: "\\".repeat(PATH_BYTES_MAX), bytes, failed: true };
        let map = PieceMap {
            at: Timestamp::of_ms(1),
            basis: MapBasis::Ledger,
            listed: true,
            bytes: u64::MAX,
            totals: bytes,
            failures: u64::MAX,
            buckets,
            files: vec![file; FILES_MAX],
        };
        let length = serde_json::to_vec(&map).unwrap().len();
        assert!(length <= 16 * 1024, "{length}");
    }
}
