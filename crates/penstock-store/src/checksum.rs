//! Checksums of whole files for catalogues: several kinds in one pass over the bytes.
//!
//! They are for lists that catalogues ask for. Transfers are verified by `penstock_proto::digest`,
//! whose values merge over extents. Of the kinds here only the CRCs and Adler-32 would, so a file
//! is fed here from its first byte to its last (docs/design/0010).

use std::fmt;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
use crc_fast::CrcAlgorithm;
use md5::Digest as _;
use penstock_proto::checksum::{Checksum, ChecksumKind};
use twox_hash::{XxHash3_64, XxHash64, xxhash3_128};

/// Zeros for holes are fed from here, so that they come from the cache.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Computes checksums of one file, fed in order.
pub struct Checksums(Vec<(ChecksumKind, State)>);

enum State {
    Blake3(Box<blake3::Hasher>),
    Sha(Context),
    Md5(md5::Md5),
    Xxh128(Box<xxhash3_128::Hasher>),
    Xxh3(Box<XxHash3_64>),
    Xxh64(XxHash64),
    Crc(Box<crc_fast::Digest>),
    Adler32(simd_adler32::Adler32),
}

impl State {
    fn new(kind: ChecksumKind) -> Self {
        match kind {
            ChecksumKind::Blake3 => Self::Blake3(Box::default()),
            ChecksumKind::Sha256 => Self::Sha(Context::new(&SHA256)),
            ChecksumKind::Sha512 => Self::Sha(Context::new(&SHA512)),
            ChecksumKind::Sha1 => Self::Sha(Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            ChecksumKind::Md5 => Self::Md5(md5::Md5::new()),
            ChecksumKind::Xxh128 => Self::Xxh128(Box::new(xxhash3_128::Hasher::new())),
            ChecksumKind::Xxh3 => Self::Xxh3(Box::new(XxHash3_64::new())),
            ChecksumKind::Xxh64 => Self::Xxh64(XxHash64::with_seed(0)),
            ChecksumKind::Crc32 => {
                Self::Crc(Box::new(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)))
            }
            ChecksumKind::Crc32c => {
                Self::Crc(Box::new(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)))
            }
            ChecksumKind::Adler32 => Self::Adler32(simd_adler32::Adler32::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        use std::hash::Hasher as _;
        match self {
            Self::Blake3(state) => drop(state.update(bytes)),
            Self::Sha(state) => state.update(bytes),
            Self::Md5(state) => state.update(bytes),
            Self::Xxh128(state) => state.write(bytes),
            Self::Xxh3(state) => state.write(bytes),
            Self::Xxh64(state) => state.write(bytes),
            Self::Crc(state) => state.update(bytes),
            Self::Adler32(state) => state.write(bytes),
        }
    }

    fn finish(self, kind: ChecksumKind) -> Checksum {
        use std::hash::Hasher as _;
        match self {
            Self::Blake3(state) => Checksum::new(kind, state.finalize().as_bytes()),
            Self::Sha(state) => Checksum::new(kind, state.finish().as_ref()),
            Self::Md5(state) => Checksum::new(kind, &state.finalize()),
            Self::Xxh128(state) => Checksum::new(kind, &state.finish_128().to_be_bytes()),
            Self::Xxh3(state) => Checksum::new(kind, &state.finish().to_be_bytes()),
            Self::Xxh64(state) => Checksum::new(kind, &state.finish().to_be_bytes()),
            Self::Crc(state) => Checksum::new(kind, &(state.finalize() as u32).to_be_bytes()),
            Self::Adler32(state) => Checksum::new(kind, &state.finish().to_be_bytes()),
        }
    }
}

impl Checksums {
    /// Begins a file of which all of `kinds` are wanted.
    pub fn new(kinds: &[ChecksumKind]) -> Self {
        Self(kinds.iter().map(|kind| (*kind, State::new(*kind))).collect())
    }

    /// Takes the next bytes. Hand over parts that fit a core's cache, some 256 KiB: each kind
    /// passes over them once.
    pub fn update(&mut self, bytes: &[u8]) {
        for (_, state) in &mut self.0 {
            state.update(bytes);
        }
    }

    /// Takes `length` zeros: a hole.
    pub fn update_zeros(&mut self, mut length: u64) {
        while length > 0 {
            let part = length.min(ZEROS.len() as u64);
            self.update(&ZEROS[..part as usize]);
            length -= part;
        }
    }

    /// Returns the checksums of all that was taken, in the order of the kinds.
    pub fn finish(self) -> Vec<Checksum> {
        self.0.into_iter().map(|(kind, state)| state.finish(kind)).collect()
    }
}

impl fmt::Debug for Checksums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(kind, _)| kind)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each kind is the one that other tools mean. The values are the check values of
    /// "123456789" of the CRC catalogue (reveng), of `md5sum`, `sha1sum`, `sha256sum`,
    /// `sha512sum`, `b3sum` and `xxhsum`, and of zlib.
    #[test]
    fn every_kind_has_its_check_value() {
        let mut checksums = Checksums::new(&ChecksumKind::ALL);
        checksums.update(b"1234");
        checksums.update(b"");
        checksums.update(b"56789");
        let found: Vec<_> = checksums.finish().into_iter().map(Checksum::to_text).collect();
        let expected = [
            "b7d65b48420d1033cb2595293263b6f72eabee20d55e699d0df1973b3c9deed1",
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
            concat!(
                "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a",
                "d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85"
            ),
            "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
            "25f9e794323b453885f5181f1b624d0b",
            "33119477ede5dcd5e9716427681d5860",
            "XXH3_72dcb18b67a17dff",
            "8cb841db40e6ae83",
            "cbf43926",
            "e3069283",
            "091e01de",
        ];
        assert_eq!(found, expected);
    }

    /// D2: a hole counts as the zeros that it reads as.
    #[test]
    fn d2_a_hole_is_its_zeros() {
        let (mut whole, mut holes) =
            (Checksums::new(&ChecksumKind::ALL), Checksums::new(&ChecksumKind::ALL));
        whole.update(&vec![0; 200_000]);
        whole.update(b"x");
        holes.update_zeros(200_000);
        holes.update(b"x");
        assert_eq!(whole.finish(), holes.finish());
    }
}
