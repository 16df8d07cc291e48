//! Names of temporary files: computable by every peer, never reused for other bytes (B1).

use penstock_proto::digest::Digest;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::manifest::Identity;
use penstock_proto::name::{OWN_HASH_BYTES, OwnKind, OwnName, RunTag, own_name};
use penstock_proto::units::FileTime;

/// A temporary name.
pub type TemporaryName = OwnName;

/// The facts that define one attempt at one version of one source file: one inode, one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemporaryKey {
    /// The transfer.
    pub transfer: TransferId,
    /// Digest of the page that lists the entry; of a file that several lists may name, digest of
    /// its path.
    pub of: Digest,
    /// Index of the entry in its page; of a file that several lists may name, how often the source
    /// was asked again before this version was listed.
    pub number: u32,
    /// Size of the source file in bytes.
    pub size: u64,
    /// Its time of last modification.
    pub mtime: FileTime,
    /// Its inode and change time.
    pub identity: Identity,
    /// Attempt: raised when the source changed or a committed digest did not hold.
    pub generation: u32,
    /// The writer, if that is one peer alone; [`WriterId::SOLE`] if several peers write the file
    /// together, and where there is one peer.
    pub writer: WriterId,
}

/// Returns the name under which the bytes of `key` gather, in the directory of the final name: an
/// [own name](penstock_proto::name::own) with the tag of the transfer and 96 bits of BLAKE3.
///
/// The digest, changed by the writer, is the key of the hash, and the rest fills just one block of
/// it: a name costs one compression, and each file asks for its name twice.
///
/// Any difference in the key makes another name, but for 96-bit collisions. A final name of 255
/// bytes leaves no room for a suffix, so the final name is no part of it.
pub fn temporary_name(key: &TemporaryKey) -> TemporaryName {
    name_of(OwnKind::File, key)
}

/// Returns the name under which a move puts aside a file of the source before it removes the file,
/// as [`temporary_name`].
pub fn aside_name(key: &TemporaryKey) -> TemporaryName {
    name_of(OwnKind::Aside, key)
}

fn name_of(kind: OwnKind, key: &TemporaryKey) -> TemporaryName {
    let mut input = [0; 64];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        input[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&key.transfer.0);
    put(&key.number.to_le_bytes());
    put(&key.size.to_le_bytes());
    for time in [key.mtime, key.identity.ctime] {
        put(&time.seconds.to_le_bytes());
        put(&time.nanoseconds.to_le_bytes());
    }
    put(&key.identity.inode.to_le_bytes());
    put(&key.generation.to_le_bytes());
    let mut keyed_by = key.of.0;
    for (byte, writer) in keyed_by.iter_mut().zip(key.writer.0.to_le_bytes()) {
        *byte ^= writer;
    }
    let hash = blake3::keyed_hash(&keyed_by, &input);
    let mut cut = [0; OWN_HASH_BYTES];
    cut.copy_from_slice(&hash.as_bytes()[..OWN_HASH_BYTES]);
    own_name(kind, RunTag::of(key.transfer), cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_proto::name::{Own, is_component, own};
    use proptest::prelude::*;

    fn key() -> TemporaryKey {
        TemporaryKey {
            transfer: TransferId([7; 16]),
            of: Digest([9; 32]),
            number: 3,
            size: 4096,
            mtime: FileTime { seconds: 5, nanoseconds: 6 },
            identity: Identity { inode: 11, ctime: FileTime { seconds: 7, nanoseconds: 8 } },
            generation: 0,
            writer: WriterId::SOLE,
        }
    }

    /// Promise (B1): a changed source, another entry or another attempt never shares an inode with
    /// the one before.
    #[test]
    fn b1_any_difference_gives_another_name() {
        let base = temporary_name(&key());
        let run = RunTag::of(key().transfer);
        assert_eq!(own(&base), Some(Own { kind: OwnKind::File, run }));
        assert!(is_component(&base));
        let changed: [fn(&mut TemporaryKey); 10] = [
            |key| key.transfer.0[0] ^= 1,
            |key| key.of.0[0] ^= 1,
            |key| key.number += 1,
            |key| key.size += 1,
            |key| key.mtime.nanoseconds += 1,
            |key| key.mtime.seconds += 1,
            |key| key.identity.inode += 1,
            |key| key.identity.ctime.nanoseconds += 1,
            |key| key.generation += 1,
            |key| key.writer.0 += 1,
        ];
        for change in changed {
            let mut other = key();
            change(&mut other);
            assert_ne!(temporary_name(&other), base);
        }
    }

    proptest! {
        /// Promise (B1): every peer computes the same name, and it is always a plain component.
        #[test]
        fn b1_names_are_computable(entry: u32, generation: u32, size: u64) {
            let key = TemporaryKey { number: entry, generation, size, ..key() };
            let name = temporary_name(&key);
            prop_assert_eq!(name, temporary_name(&key));
            prop_assert!(name.iter().all(|b| b.is_ascii_alphanumeric() || b".-".contains(b)));
        }
    }
}
