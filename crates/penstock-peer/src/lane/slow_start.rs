//! Small first frames of a lane over distance, so that their content can be checked and written
//! early.
//!
//! A new connection sends ten segments and then doubles in each round trip (RFC 6928; RFC 5681,
//! 3.1). A frame with a whole stride of 512 KiB is complete five round trips after its first
//! segment. A lane therefore begins with [`FIRST_FRAME_BYTES`] and doubles with each frame until a
//! frame holds a stride. A stride that is longer than its frame travels in *parts*. Only BLAKE3
//! allows this, since the digests of aligned parts merge to that of the stride. Measured:
//! docs/design/0007.

use std::time::Duration;

use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::frame::Record;

/// Payload of a far lane's first frame. With its header and the overhead of TLS it fits into ten
/// segments.
pub(crate) const FIRST_FRAME_BYTES: usize = 8 * 1024;
/// From this round trip on a lane begins with small frames.
pub(crate) const FAR: Duration = Duration::from_millis(2);
/// Shortest part of a stride that is taken.
const PART_BYTES_MIN: u64 = 4096;

/// Returns the length of the part of a full stride that begins `into` it, if frames hold
/// `frame_bytes`.
pub(crate) fn part_bytes(into: u64, frame_bytes: u64) -> u64 {
    if into == 0 { frame_bytes } else { into & into.wrapping_neg() }
}

/// Returns whether strides of a file of `file_bytes` may travel in parts.
pub(crate) fn may_part(kind: DigestKind, file_bytes: u64, stride: u64) -> bool {
    kind == DigestKind::Blake3 && file_bytes > stride
}

/// Returns whether a record begins or ends within a stride, not at its borders or the file's end.
pub(crate) fn is_part(record: &Record, file_bytes: u64, stride: u64) -> bool {
    let end = record.offset + record.length;
    let ends_within = end != file_bytes && !end.is_multiple_of(stride);
    ends_within || !record.offset.is_multiple_of(stride)
}

/// Returns whether [`Parts`] can join a partial record. The record must be an aligned power of two
/// of a stride, and lie wholly before `end`, the end of the request.
pub(crate) fn is_sound_part(record: &Record, stride: u64, end: u64) -> bool {
    let length = record.length;
    !record.hole
        && length.is_power_of_two()
        && (PART_BYTES_MIN..stride).contains(&length)
        && record.offset.is_multiple_of(length)
        && record.runs.is_empty()
        && record.offset - record.offset % stride + stride <= end
}

/// The digests of the parts of one stride, merged as the parts arrive.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Aligned subtrees, each smaller than the one before: length and chaining value.
    open: Vec<(u64, Digest)>,
}

impl Parts {
    /// Adds the next part. Returns the digest of the stride when it is complete.
    pub(crate) fn add(&mut self, length: u64, digest: Digest, stride: u64) -> Option<Digest> {
        let (mut length, mut digest) = (length, digest);
        while let Some((_, left)) = self.open.pop_if(|(left, _)| *left == length) {
            digest = DigestKind::Blake3.merge(&[left, digest], length, 2 * length, false);
            length *= 2;
        }
        if length == stride {
            return Some(digest);
        }
        self.open.push((length, digest));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIDE: u64 = 512 * 1024;

    fn record(offset: u64, length: u64) -> Record {
        let digest = Digest::default();
        let status = penstock_proto::frame::EntryStatus::Ok;
        let (entry, errno, end, hole, runs) = (0, 0, false, false, Vec::new());
        Record { entry, status, errno, end, hole, offset, length, digest, runs, seen: None }
    }

    /// Decision 5: a stride that arrives in parts, of any lengths, has the digest of the whole
    /// stride. The ledger has only that digest, and the file's standard digest is computed from it.
    #[test]
    fn parts_have_the_digest_of_their_stride() {
        let file_bytes = 3 * STRIDE + 5;
        let bytes: Vec<u8> = (0..STRIDE).map(|at| (at * 7 % 251) as u8).collect();
        let whole = DigestKind::Blake3.stride(file_bytes, STRIDE, &bytes);
        for first in [4096, 8192, 65536, STRIDE / 2] {
            let (mut parts, mut into, mut merged) = (Parts::default(), 0, None);
            while into < STRIDE {
                assert_eq!(merged, None);
                let length = part_bytes(into, first);
                let one = record(STRIDE + into, length);
                assert!(is_part(&one, file_bytes, STRIDE));
                assert!(is_sound_part(&one, STRIDE, 2 * STRIDE));
                let part = &bytes[into as usize..(into + length) as usize];
                let digest = DigestKind::Blake3.stride(file_bytes, STRIDE + into, part);
                merged = parts.add(length, digest, STRIDE);
                into += length;
            }
            assert_eq!(merged, Some(whole), "first part {first}");
            assert!(parts.open.is_empty());
        }
    }

    /// A hostile source cannot send parts that do not make a stride: not aligned, too short, over
    /// a border, of a stride that was not asked for as a whole, or with holes.
    #[test]
    fn unsound_parts_are_refused() {
        for (offset, length) in
            [(0, 12_288), (8192, 16_384), (0, 2048), (STRIDE - 4096, 8192), (STRIDE, 8192)]
        {
            let one = record(offset, length);
            assert!(!is_sound_part(&one, STRIDE, STRIDE), "{length} at {offset}");
        }
        // A hole behind a part would leave its stride without a digest.
        let hole = Record { hole: true, ..record(8192, STRIDE - 8192) };
        assert!(is_part(&hole, 3 * STRIDE, STRIDE) && !is_sound_part(&hole, STRIDE, STRIDE));
        let holed = Record { runs: vec![(0, 1)], ..record(0, 8192) };
        assert!(!is_sound_part(&holed, STRIDE, STRIDE));
        assert!(is_sound_part(&record(0, 8192), STRIDE, STRIDE));
    }
}
