//! Result of comparing a page with the target, before the page is opened in the ledger.
//!
//! Comparing is done once for a page. The result is the first record of the page's log, and no
//! piece of the page is handed out before that is committed. A resumed run therefore cuts the same
//! pieces, even if the target has changed meanwhile.

use serde::{Deserialize, Serialize};

use crate::journal::entry::{
    EntryDigest, EntryFailure, FailurePhase, decode_digests, encode_digests,
};
use crate::manifest::PAGE_ENTRIES_MAX;
use crate::wire::{DecodeError, Reader, Writer};

/// A set of entries of one page, stored as ascending runs: a page of equal entries costs one run.
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct EntrySet {
    runs: Vec<(u32, u32)>,
}

impl EntrySet {
    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns whether `entry` is in the set.
    pub fn contains(&self, entry: u32) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= entry);
        after > 0 && entry < self.runs[after - 1].1
    }

    /// Returns the entries, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|(first, end)| *first..*end)
    }

    /// Returns the entries as ascending runs: the first of each, and the index behind its last.
    pub fn runs(&self) -> &[(u32, u32)] {
        &self.runs
    }

    /// Appends the set to a message.
    pub fn encode(&self, out: &mut Writer) {
        out.u32(self.runs.len() as u32);
        for (first, end) in &self.runs {
            out.u32(*first);
            out.u32(*end);
        }
    }

    /// Takes a set from a message.
    ///
    /// # Errors
    /// [`DecodeError`] if the runs do not fit into a page.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = input.u32("run count")? as usize;
        if count > PAGE_ENTRIES_MAX {
            return Err(DecodeError::Invalid("run count"));
        }
        let mut runs: Vec<(u32, u32)> = Vec::with_capacity(count.min(input.remaining() / 8));
        for _ in 0..count {
            runs.push((input.u32("run")?, input.u32("run")?));
        }
        Self::try_from(runs)
    }
}

impl TryFrom<Vec<(u32, u32)>> for EntrySet {
    type Error = DecodeError;

    /// Takes over ascending runs that do not touch, and that fit into a page.
    fn try_from(runs: Vec<(u32, u32)>) -> Result<Self, DecodeError> {
        let mut free = 0;
        for (first, end) in &runs {
            if *first < free || end <= first || *end as usize > PAGE_ENTRIES_MAX {
                return Err(DecodeError::Invalid("run"));
            }
            free = end + 1;
        }
        Ok(Self { runs })
    }
}

impl From<EntrySet> for Vec<(u32, u32)> {
    fn from(entries: EntrySet) -> Self {
        entries.runs
    }
}

impl FromIterator<u32> for EntrySet {
    fn from_iter<T: IntoIterator<Item = u32>>(entries: T) -> Self {
        let mut entries: Vec<u32> = entries.into_iter().collect();
        entries.sort_unstable();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for entry in entries {
            match runs.last_mut() {
                Some((_, end)) if entry < *end => {}
                Some((_, end)) if entry == *end => *end += 1,
                _ => runs.push((entry, entry + 1)),
            }
        }
        Self { runs }
    }
}

/// Decisions on the entries of one page.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// Files and links that stay as they are at the target.
    pub kept: EntrySet,
    /// Entries that may not be touched, and are reported as failed.
    pub failed: Vec<EntryFailure>,
    /// Entries whose name was taken at the target before the transfer made anything.
    pub existed: EntrySet,
    /// Files that an earlier attempt of the same transfer has moved, ascending. The source still
    /// has the version that was read, and the target has the file that was made of it.
    pub carried: Vec<EntryDigest>,
    /// Entries that cannot be made because a directory has their name, or something else the name
    /// of a directory that they need. Never logged: the page is not opened before `--delete` has
    /// removed the obstacle, or has been refused.
    pub in_the_way: u32,
}

impl Comparison {
    /// Returns the entries that are in no piece, and of which no link is made.
    pub fn left(&self) -> EntrySet {
        if self.failed.is_empty() && self.carried.is_empty() {
            return self.kept.clone();
        }
        let failed = self.failed.iter().map(|failure| failure.entry);
        let carried = self.carried.iter().map(|digest| digest.entry);
        self.kept.iter().chain(failed).chain(carried).collect()
    }

    /// Appends the comparison, except `in_the_way`, to a message or a record of a log.
    pub fn encode(&self, out: &mut Writer) {
        self.kept.encode(out);
        self.existed.encode(out);
        out.u32(self.failed.len() as u32);
        for failure in &self.failed {
            out.u32(u32::from(failure.errno) << 16 | failure.entry);
        }
        encode_digests(&self.carried, out);
    }

    /// Reads a comparison from a message or a record.
    ///
    /// # Errors
    /// [`DecodeError`] if there is none.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kept = EntrySet::decode(input)?;
        let existed = EntrySet::decode(input)?;
        let count = input.u32("failure count")? as usize;
        if count > input.remaining() / 4 {
            return Err(DecodeError::Truncated("failures"));
        }
        let failed = (0..count)
            .map(|_| input.u32("entry").map(|both| refused(both & 0xffff, (both >> 16) as u16)))
            .collect::<Result<_, DecodeError>>()?;
        let carried = decode_digests(input)?;
        Ok(Self { kept, failed, existed, carried, in_the_way: 0 })
    }
}

const _: () = assert!(PAGE_ENTRIES_MAX <= 1 << 16, "an index leaves room for an errno");

/// Returns the failure of an entry whose name is taken, where the user asked for that. With an
/// errno(3), the name may be taken, since it cannot be examined.
pub fn refused(entry: u32, errno: u16) -> EntryFailure {
    EntryFailure { entry, phase: FailurePhase::Exists, errno }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::journal::DigestForm;
    use proptest::prelude::*;

    fn carried(entry: u32) -> EntryDigest {
        let digest = Digest([entry as u8; 32]);
        EntryDigest { entry, form: DigestForm::Standard, digest, seen: None }
    }

    proptest! {
        /// Promise (c): the decisions are known again after a crash, entry by entry.
        #[test]
        fn a_comparison_survives_its_log(
            kept in proptest::collection::btree_set(0u32..4096, 0..300),
            failed in proptest::collection::vec((0u32..4096, 0u16..200), 0..20),
            existed in proptest::collection::btree_set(0u32..4096, 0..300),
            moved in proptest::collection::btree_set(0u32..4096, 0..20),
        ) {
            let comparison = Comparison {
                kept: kept.iter().copied().collect(),
                failed: failed.iter().map(|(entry, errno)| refused(*entry, *errno)).collect(),
                existed: existed.iter().copied().collect(),
                carried: moved.iter().map(|entry| carried(*entry)).collect(),
                in_the_way: 0,
            };
            prop_assert_eq!(comparison.kept.iter().collect::<Vec<_>>(),
                kept.iter().copied().collect::<Vec<_>>());
            let all = comparison.left();
            for entry in 0..4096 {
                let refused = failed.iter().any(|(failed, _)| *failed == entry);
                let left = kept.contains(&entry) || refused || moved.contains(&entry);
                prop_assert_eq!(all.contains(entry), left);
            }
            let mut out = Writer::new();
            comparison.encode(&mut out);
            let bytes = out.into_bytes();
            let read = Comparison::decode(&mut Reader::new(&bytes)).unwrap();
            prop_assert_eq!(read, comparison);
        }
    }
}
