//! A generated file: its bytes and attributes.

use std::sync::Arc;

use penstock_proto::attributes::{DeviceNumber, Owner};
use penstock_proto::units::FileTime;

use crate::meta::{Kind, Meta};

/// Bytes of noise; twice this fits into the second-level cache of the machines we know.
pub(crate) const BLOCK_BYTES: usize = 256 * 1024;
/// Distance of the stamps.
const STAMP_EVERY_BYTES: u64 = 4096;
const STAMP_BYTES: usize = 8;
/// Every generated entry was modified at this time: 2026-01-01 00:00 UTC.
const MTIME: FileTime = FileTime { seconds: 1_767_225_600, nanoseconds: 0 };
/// A generated file.
pub(crate) struct MemFile {
    key: u64,
    bytes: u64,
    inode: u64,
    noise: Arc<[u8]>,
}

impl MemFile {
    /// Returns the file of `bytes` bytes that follow from `key` and `noise`.
    pub(crate) fn new(key: u64, bytes: u64, inode: u64, noise: Arc<[u8]>) -> Self {
        Self { key, bytes, inode, noise }
    }

    pub(crate) fn meta(&self) -> Meta {
        Meta { size: self.bytes, blocks: self.bytes.div_ceil(512), ..generated(self.inode) }
    }

    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let mut filled = 0;
        while filled < count {
            let at = offset + filled as u64;
            let within = (at % BLOCK_BYTES as u64) as usize;
            let part = (BLOCK_BYTES - within).min(count - filled);
            let rotation = self.rotation(at / BLOCK_BYTES as u64);
            let noise = &self.noise[rotation + within..][..part];
            buffer[filled..filled + part].copy_from_slice(noise);
            filled += part;
        }
        self.stamp(offset, &mut buffer[..count]);
        count
    }

    /// Returns by how many bytes the noise of this block of the file is rotated: whole 64 bytes, a
    /// cache line.
    fn rotation(&self, block: u64) -> usize {
        (mix(self.key ^ block) % (BLOCK_BYTES as u64 / 64) * 64) as usize
    }

    fn stamp(&self, offset: u64, bytes: &mut [u8]) {
        let end = offset + bytes.len() as u64;
        let mut at = offset - offset % STAMP_EVERY_BYTES;
        while at < end {
            let stamp: [u8; STAMP_BYTES] = mix(self.key.wrapping_add(mix(at))).to_le_bytes();
            for (position, byte) in (at..).zip(stamp) {
                if (offset..end).contains(&position) {
                    bytes[(position - offset) as usize] ^= byte;
                }
            }
            at += STAMP_EVERY_BYTES;
        }
    }
}

/// Returns the attributes of a generated directory.
pub(crate) fn directory_meta(inode: u64) -> Meta {
    Meta { kind: Kind::Directory, size: 0, mode: 0o755, links: 2, ..generated(inode) }
}

fn generated(inode: u64) -> Meta {
    Meta {
        kind: Kind::File,
        size: 0,
        mode: 0o644,
        owner: Owner { uid: penstock_sys::own_numbers().0, gid: penstock_sys::own_numbers().1 },
        special: DeviceNumber::default(),
        mtime: MTIME,
        ctime: MTIME,
        inode,
        blocks: 0,
        links: 1,
        device: 0,
        made: false,
    }
}

/// Returns a permutation of 64 bits that spreads every input bit over all (splitmix64).
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
