//! Names of Penstock's own files, distinguished from users' names by a check value.
//!
//! A prefix alone proves nothing: a user may call a file `.pst-2019`. A name is Penstock's own only
//! if a check value over the rest of the name is right. No name has that by accident (one in 2^30
//! of those that have the form). The check value protects against accidents, not against forgery.

use std::fmt;

use data_encoding::{BASE32_DNSSEC, HEXLOWER};
use twox_hash::XxHash3_64;

use crate::id::TransferId;

/// Prefix of each own name but [`STORE_PRIVATE_NAME`].
const PREFIX: &[u8] = b".pst-";
/// Bytes of a hash that an own name carries: two names of one run are equal once in 2^96.
pub const OWN_HASH_BYTES: usize = 12;
const TAG_BYTES: usize = 4;
const CHECK_BYTES: usize = 4;
/// Length in base 32 of the hash and the check value.
const TAIL_BYTES: usize = 26;
const OWN_NAME_BYTES: usize = PREFIX.len() + 2 * TAG_BYTES + TAIL_BYTES;
/// Seed that separates the check values from other uses of the same hash function.
const CHECK_SEED: u64 = u64::from_be_bytes(*b"penstock");

/// The directory in the root of a registered store that holds the store's identity and its sync
/// markers. The characters at its end are random, so that no user's directory has the name.
pub const STORE_PRIVATE_NAME: &[u8] = b".penstock-store-7q2mv0kd9j";

/// An own name: `.pst-`, the run's tag in hexadecimal, and 26 characters in base 32 (lower case) of
/// a hash and the check value. 39 bytes: Linux keeps a name of that length without an allocation.
pub type OwnName = [u8; OWN_NAME_BYTES];

/// The first four bytes of a transfer's id, as [`TransferId::short`] shows them: an own name shows
/// its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunTag(pub [u8; TAG_BYTES]);

impl RunTag {
    /// Returns the tag of a transfer.
    pub fn of(transfer: TransferId) -> Self {
        let [a, b, c, d, ..] = transfer.0;
        Self([a, b, c, d])
    }
}

impl fmt::Display for RunTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// The use of an own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnKind {
    /// A file that a copy has not finished.
    File,
    /// A file at the source that a move has put aside, and will remove.
    Aside,
    /// The sync marker of a copy.
    Marker,
    /// A directory with the state of a run.
    Run,
    /// The private directory of a registered store ([`STORE_PRIVATE_NAME`]).
    Store,
    /// An output of a command, such as a receipt, that is not complete.
    Output,
}

impl OwnKind {
    /// Returns whether files of this kind hold bytes of a user's file, so that a copy which leaves
    /// them out is incomplete. All other kinds are state.
    pub fn holds_data(self) -> bool {
        matches!(self, Self::File | Self::Aside)
    }
}

impl OwnKind {
    /// The kinds that a check value distinguishes.
    const CHECKED: [Self; 5] = [Self::File, Self::Aside, Self::Marker, Self::Run, Self::Output];
}

/// The content of an own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own {
    /// The use of the name.
    pub kind: OwnKind,
    /// The run that the name belongs to; zeros for a store's private directory.
    pub run: RunTag,
}

/// Returns the own name of `kind` in the run `run`; `hash` distinguishes it from others of the run.
///
/// A store's private directory has one name only, [`STORE_PRIVATE_NAME`]; the name that this
/// function returns for it is not an own name.
pub fn own_name(kind: OwnKind, run: RunTag, hash: [u8; OWN_HASH_BYTES]) -> OwnName {
    let mut name = [0; OWN_NAME_BYTES];
    let (prefix, rest) = name.split_at_mut(PREFIX.len());
    let (tag, tail) = rest.split_at_mut(2 * TAG_BYTES);
    prefix.copy_from_slice(PREFIX);
    HEXLOWER.encode_mut(&run.0, tag);
    let mut bytes = [0; OWN_HASH_BYTES + CHECK_BYTES];
    bytes[..OWN_HASH_BYTES].copy_from_slice(&hash);
    let check = check_value(kind, run, &hash);
    bytes[OWN_HASH_BYTES..].copy_from_slice(&check.to_le_bytes());
    BASE32_DNSSEC.encode_mut(&bytes, tail);
    name
}

/// Returns the kind and run of `name` if it is Penstock's own; `None` for all other names, even if
/// they have the prefix.
pub fn own(name: &[u8]) -> Option<Own> {
    if name == STORE_PRIVATE_NAME {
        return Some(Own { kind: OwnKind::Store, run: RunTag([0; TAG_BYTES]) });
    }
    let rest = name.strip_prefix(PREFIX)?;
    if rest.len() != OWN_NAME_BYTES - PREFIX.len() {
        return None;
    }
    let (tag, tail) = rest.split_at(2 * TAG_BYTES);
    let mut run = RunTag([0; TAG_BYTES]);
    HEXLOWER.decode_mut(tag, &mut run.0).ok()?;
    let mut bytes = [0; OWN_HASH_BYTES + CHECK_BYTES];
    BASE32_DNSSEC.decode_mut(tail, &mut bytes).ok()?;
    let (hash, check) = bytes.split_at(OWN_HASH_BYTES);
    let check = u32::from_le_bytes(check.try_into().ok()?);
    let kind = OwnKind::CHECKED.into_iter().find(|kind| check_value(*kind, run, hash) == check)?;
    // Only one spelling is valid: base 32 in capitals is a user's name.
    (own_name(kind, run, hash.try_into().ok()?) == name).then_some(Own { kind, run })
}

fn check_value(kind: OwnKind, run: RunTag, hash: &[u8]) -> u32 {
    let mut bytes = [0; TAG_BYTES + OWN_HASH_BYTES];
    bytes[..TAG_BYTES].copy_from_slice(&run.0);
    bytes[TAG_BYTES..].copy_from_slice(hash);
    (XxHash3_64::oneshot_with_seed(CHECK_SEED ^ kind as u64, &bytes) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::is_component;
    use proptest::prelude::*;

    /// Promise: a user's name is never taken for one of ours because of how it begins.
    #[test]
    fn names_of_users_are_not_own_names() {
        let names: [&[u8]; 9] = [
            b".pst-",
            b".pst-2019",
            b".pst-aside",
            b".pst-0123456789abcdefghijklmnop",
            b".pst-00000000abcdefghijklmnopqrstuvabcd",
            b".penstock",
            b".penstock-store",
            b".penstock-store-",
            b"",
        ];
        for name in names {
            assert_eq!(own(name), None, "{}", String::from_utf8_lossy(name));
        }
        assert_eq!(own(STORE_PRIVATE_NAME).map(|own| own.kind), Some(OwnKind::Store));
    }

    proptest! {
        /// Promise: every process recognises the names that another one makes, and a name with any
        /// one byte changed is a user's.
        #[test]
        fn own_names_are_recognised(
            tag: [u8; 4],
            hash: [u8; 12],
            kind in 0..5_usize,
            at in 0..39_usize,
            byte: u8,
        ) {
            let (kind, run) = (OwnKind::CHECKED[kind], RunTag(tag));
            let mut name = own_name(kind, run, hash);
            prop_assert!(is_component(&name));
            prop_assert_eq!(own(&name), Some(Own { kind, run }));
            if name[at] != byte {
                name[at] = byte;
                prop_assert_eq!(own(&name), None);
            }
        }
    }
}
