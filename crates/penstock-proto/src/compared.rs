//! What comparing a page with the target has decided, before the page is opened in the ledger.
//!
//! Comparing is done once for a page. Its outcome is the first thing that the page's log says, and
//! no piece of the page is handed out before that is committed: so a resume cuts the same pieces,
//! whatever has become of the target meanwhile.

use crate::journal::entry::{
    EntryDigest, EntryFailure, FailurePhase, decode_digests, encode_digests,
};
use crate::manifest::PAGE_ENTRIES_MAX;
use crate::wire::{DecodeError, Reader, Writer};

/// A set of entries of one page, kept as ascending runs: a page that is all the same costs one.
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash)]
pub struct EntrySet {
    runs: Vec<(u32, u32)>,
}

impl EntrySet {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether `entry` is in it.
    pub fn contains(&self, entry: u32) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= entry);
        after > 0 && entry < self.runs[after - 1].1
    }

    /// The entries, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|(first, end)| *first..*end)
    }

    /// The entries as ascending runs: the first of each, and the one behind its last.
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
    /// [`DecodeError`] if the runs are none of a page.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = input.u32("run count")? as usize;
        if count > PAGE_ENTRIES_MAX {
            return Err(DecodeError::Invalid("run count"));
        }
        let mut runs: Vec<(u32, u32)> = Vec::with_capacity(count.min(input.remaining() / 8));
        for _ in 0..count {
            let (first, end) = (input.u32("run")?, input.u32("run")?);
            let free = runs.last().map_or(0, |(_, end)| end + 1);
            if first < free || end <= first || end as usize > PAGE_ENTRIES_MAX {
                return Err(DecodeError::Invalid("run"));
            }
            runs.push((first, end));
        }
        Ok(Self { runs })
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

/// What was decided of the entries of one page.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Files and links that stay as they are at the target.
    pub kept: EntrySet,
    /// Entries that may not be touched, and are told as failed.
    pub failed: Vec<EntryFailure>,
    /// Entries with something under their name at the target before the transfer made anything.
    pub existed: EntrySet,
    /// Files that an earlier attempt of the same transfer has moved, ascending: the source still
    /// has the version that was read, and the target has what was made of it.
    pub carried: Vec<EntryDigest>,
    /// Entries that cannot be made because a directory has their name, or something else the name
    /// of a directory that they need. Never logged: the page is not opened before `--delete` has
    /// taken that away, or has been refused.
    pub in_the_way: u32,
}

impl Comparison {
    /// The entries that are in no piece, and of which no link is made.
    pub fn left(&self) -> EntrySet {
        if self.failed.is_empty() && self.carried.is_empty() {
            return self.kept.clone();
        }
        let failed = self.failed.iter().map(|failure| failure.entry);
        let carried = self.carried.iter().map(|digest| digest.entry);
        self.kept.iter().chain(failed).chain(carried).collect()
    }

    /// Appends it, but for what is in the way, to a message or a record of a log.
    pub fn encode(&self, out: &mut Writer) {
        self.kept.encode(out);
        self.existed.encode(out);
        out.u32(self.failed.len() as u32);
        for failure in &self.failed {
            out.u32(u32::from(failure.errno) << 16 | failure.entry);
        }
        encode_digests(&self.carried, out);
    }

    /// Takes it from there.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
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

/// The failure of an entry whose name is taken, where the user wants that to be one; with errno(3),
/// of one whose name may be, as it cannot be looked at.
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
        /// Promise (c): what was kept is known again after a crash, entry by entry.
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
