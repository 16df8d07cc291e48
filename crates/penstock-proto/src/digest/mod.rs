//! Digests of strides, and their merging.
//!
//! The source hashes each stride as it reads it; the target hashes the stride that arrived and
//! compares. Strides of a file are aligned subtrees of its BLAKE3 tree. Their chaining values
//! therefore merge into those of extents, and these into the standard BLAKE3 of the whole file,
//! without another pass over the data (hard case D1). A file of one stride has its root hash at
//! once.
//!
//! XXH3-128 does not merge: the value of an extent or a file is the hash of its strides' hashes. It
//! detects accidents, not attackers (D3), and is never written to a digest list.
//!
//! Sources: the BLAKE3 paper, section 2.1; `blake3::hazmat`.

use std::fmt;

use blake3::hazmat::{self, HasherExt as _, Mode};

mod many;
mod value;

use crate::wire::{DecodeError, Reader, Writer};

pub use value::Digest;

/// Hash that verifies the data of a transfer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Default, Hash, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub enum DigestKind {
    /// BLAKE3: detects accidents and attackers, yields standard file digests.
    #[default]
    #[serde(rename = "blake3")]
    Blake3,
    /// XXH3-128: detects accidents only, yields no file digests.
    #[serde(rename = "xxh3-128")]
    Xxh3,
}

/// Largest size of a file, in bytes, that gains by [`DigestKind::whole_files`]. Larger files are
/// better hashed as soon as they were read, while they are in the nearest cache.
pub const TOGETHER_BYTES_MAX: u64 = many::MESSAGE_BYTES_MAX as u64;

impl DigestKind {
    pub(crate) fn encode(self, out: &mut Writer) {
        out.u8(match self {
            Self::Blake3 => 0,
            Self::Xxh3 => 1,
        });
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match input.u8("digest kind")? {
            0 => Ok(Self::Blake3),
            1 => Ok(Self::Xxh3),
            _ => Err(DecodeError::Invalid("digest kind")),
        }
    }

    /// Returns the digest of one stride: `bytes` at `offset` of a file of `file_bytes`.
    ///
    /// For BLAKE3 this is the root hash if the stride is the whole file, else the chaining value of
    /// the subtree. `offset` must be a multiple of the stride size, and `bytes` a whole stride or
    /// the end of the file.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 1,024, or an empty stride is not an empty file.
    pub fn stride(self, file_bytes: u64, offset: u64, bytes: &[u8]) -> Digest {
        match self {
            Self::Blake3 if bytes.len() as u64 == file_bytes => {
                Digest(*blake3::hash(bytes).as_bytes())
            }
            Self::Blake3 => {
                assert!(!bytes.is_empty(), "only an empty file has an empty stride");
                let mut hasher = blake3::Hasher::new();
                hasher.set_input_offset(offset);
                hasher.update(bytes);
                Digest(hasher.finalize_non_root())
            }
            Self::Xxh3 => xxh3(bytes),
        }
    }

    /// Adds the digests of whole files to `digests`, each as [`DigestKind::stride`] returns it.
    /// Small files are hashed several at a time, which takes half the time where vectors are wide.
    pub fn whole_files<'a>(
        self,
        files: impl IntoIterator<Item = &'a [u8]>,
        digests: &mut Vec<Digest>,
    ) {
        match self {
            Self::Blake3 => many::hash_many(files, digests),
            Self::Xxh3 => digests.extend(files.into_iter().map(xxh3)),
        }
    }

    /// Merges the digests of consecutive parts of `part_bytes` each (the last may be shorter) that
    /// together are `total_bytes` long.
    ///
    /// With `root`, the parts are the whole of a file and the result is its digest; else they are
    /// one extent and the result is its chaining value. A single part is its own result: it was
    /// hashed with the knowledge whether it was the whole file.
    ///
    /// # Panics
    /// If `part_bytes` is not a power of two of at least 1,024, or the number of parts does not
    /// match the lengths: both follow from the page, never from outside.
    pub fn merge(self, parts: &[Digest], part_bytes: u64, total_bytes: u64, root: bool) -> Digest {
        assert!(part_bytes.is_power_of_two() && part_bytes >= 1024, "parts are aligned subtrees");
        assert_eq!(
            parts.len() as u64,
            total_bytes.div_ceil(part_bytes).max(1),
            "one digest a part"
        );
        if let [single] = parts {
            return *single;
        }
        match self {
            Self::Blake3 => {
                let split = (hazmat::left_subtree_len(total_bytes) / part_bytes) as usize;
                let left = subtree(&parts[..split], part_bytes, split as u64 * part_bytes);
                let rest_bytes = total_bytes - split as u64 * part_bytes;
                let right = subtree(&parts[split..], part_bytes, rest_bytes);
                if root {
                    Digest(*hazmat::merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
                } else {
                    Digest(hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash))
                }
            }
            Self::Xxh3 => {
                let mut all = Vec::with_capacity(parts.len() * 16);
                for part in parts {
                    all.extend_from_slice(&part.0[..16]);
                }
                xxh3(&all)
            }
        }
    }
}

impl fmt::Display for DigestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blake3 => "blake3",
            Self::Xxh3 => "xxh3-128",
        })
    }
}

fn subtree(parts: &[Digest], part_bytes: u64, total_bytes: u64) -> [u8; 32] {
    if let [single] = parts {
        return single.0;
    }
    let split = (hazmat::left_subtree_len(total_bytes) / part_bytes) as usize;
    let left_bytes = split as u64 * part_bytes;
    let left = subtree(&parts[..split], part_bytes, left_bytes);
    let right = subtree(&parts[split..], part_bytes, total_bytes - left_bytes);
    hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash)
}

fn xxh3(bytes: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.0[..16].copy_from_slice(&twox_hash::xxhash3_128::Hasher::oneshot(bytes).to_be_bytes());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRIDE: u64 = 16 * 1024;
    const EXTENT: u64 = 64 * 1024;

    fn by_strides_and_extents(kind: DigestKind, file: &[u8]) -> Digest {
        let size = file.len() as u64;
        let mut extents = Vec::new();
        let mut start = 0;
        loop {
            let end = (start + EXTENT).min(size);
            let mut strides = Vec::new();
            let mut at = start;
            loop {
                let stop = (at + STRIDE).min(end);
                strides.push(kind.stride(size, at, &file[at as usize..stop as usize]));
                at = stop;
                if at >= end {
                    break;
                }
            }
            let whole = start == 0 && end == size;
            extents.push(kind.merge(&strides, STRIDE, end - start, whole));
            start = end;
            if start >= size {
                break;
            }
        }
        kind.merge(&extents, EXTENT, size, true)
    }

    fn file_of(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8 ^ (at >> 8) as u8).collect()
    }

    /// D1: digests that travelled stride by stride merge to the file's digest by `b3sum`.
    #[test]
    fn d1_strides_merge_to_the_standard_digest_at_every_border() {
        let mut lengths = vec![0, 1, 1023, 1024, 1025];
        for power in 11..=20 {
            let border = 1usize << power;
            lengths.extend([border - 1, border, border + 1]);
        }
        for length in lengths {
            let file = file_of(length);
            let expected = Digest(*blake3::hash(&file).as_bytes());
            let merged = by_strides_and_extents(DigestKind::Blake3, &file);
            assert_eq!(merged, expected, "length {length}");
        }
    }

    proptest! {
        /// D1 again, at random lengths.
        #[test]
        fn d1_strides_merge_at_random_lengths(length in 0usize..700_000) {
            let file = file_of(length);
            let expected = Digest(*blake3::hash(&file).as_bytes());
            prop_assert_eq!(by_strides_and_extents(DigestKind::Blake3, &file), expected);
        }

        /// Promise: a flipped bit anywhere changes the digest, whichever hash was chosen.
        #[test]
        fn a_flipped_bit_is_found(length in 1usize..300_000, at in any::<u64>(), bit in 0u8..8) {
            let file = file_of(length);
            let mut damaged = file.clone();
            let at = (at % length as u64) as usize;
            damaged[at] ^= 1 << bit;
            for kind in [DigestKind::Blake3, DigestKind::Xxh3] {
                prop_assert_ne!(
                    by_strides_and_extents(kind, &file),
                    by_strides_and_extents(kind, &damaged)
                );
            }
        }
    }
}
