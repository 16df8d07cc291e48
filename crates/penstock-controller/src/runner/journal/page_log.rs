//! Facts that a page and its log state together: failures, digests, newer versions.
//!
//! All functions are pure. A caller reads page and log from the journal store.

use std::collections::{BTreeMap, BTreeSet};

use penstock_api::task::TaskPage;
use penstock_api::transfer::PathText;
use penstock_engine::slice::{Piece, slice_without, travels_whole};
use penstock_engine::transfer::compared_of;
use penstock_proto::journal::{DigestForm, EntryDigest, EntryFailure, JournalRecord};
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_proto::name;
use penstock_proto::units::FileTime;

/// Values by the index of their entry, as lists write them.
pub(crate) type Values = BTreeMap<u32, String>;

/// Returns the failures at the end of a log. A later record about a piece replaces an earlier one:
/// an entry of a pack that was fetched again has failed only if it failed then. Large files lie
/// between the entries of packs and do not belong to them; neither do rejected entries.
pub(crate) fn failures_of(log: &[JournalRecord], pieces: &[Piece]) -> Vec<EntryFailure> {
    let mut failed = BTreeMap::new();
    let mut apart: BTreeSet<u32> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Finish { entry } => Some(*entry),
            _ => None,
        })
        .collect();
    let refused = compared_of(log).map(|compared| compared.failed.as_slice()).unwrap_or_default();
    for failure in refused {
        apart.insert(failure.entry);
        failed.insert(failure.entry, *failure);
    }
    let forget = |failed: &mut BTreeMap<u32, EntryFailure>, piece: u32| {
        if let Some(Piece::Pack { first, end, .. }) = pieces.get(piece as usize) {
            failed.retain(|entry, _| apart.contains(entry) || !(first..end).contains(&entry));
        }
    };
    for record in log {
        match record {
            JournalRecord::Written { piece, failures, .. } => {
                forget(&mut failed, *piece);
                failed.extend(failures.iter().map(|failure| (failure.entry, *failure)));
            }
            JournalRecord::Missing { pieces } => {
                for piece in pieces {
                    forget(&mut failed, *piece);
                }
            }
            JournalRecord::Failed(failure) => {
                failed.insert(failure.entry, *failure);
            }
            _ => {}
        }
    }
    // These entries count in a later page, even if they are read here once more (a repair).
    for entry in amended_entries(log) {
        failed.remove(&entry);
    }
    failed.into_values().collect()
}

/// Returns the entries of which a later page has a newer version.
pub(crate) fn amended_entries(log: &[JournalRecord]) -> impl Iterator<Item = u32> + '_ {
    let entries = log.iter().filter_map(|record| match record {
        JournalRecord::Amended(amendment) => Some(&amendment.entries),
        _ => None,
    });
    entries.flatten().copied()
}

/// Returns the digests that a page's log ends with: of whole files, in the order of the entries,
/// without those that failed.
pub(crate) fn digests_of(page: &TaskPage, log: &[JournalRecord]) -> Vec<EntryDigest> {
    let pieces = slice_without(&page.page, &page.left);
    let carried = compared_of(log).map(|compared| compared.carried.clone());
    let mut digests: Vec<EntryDigest> = carried.unwrap_or_default();
    for record in log {
        if let JournalRecord::Written { piece, digests: found, .. } = record {
            let of_extent = matches!(pieces.get(*piece as usize), Some(Piece::Extent { .. }));
            if !of_extent {
                digests.extend(found);
            }
        }
    }
    // The last record of an entry counts. The stable sort puts it first among those of the entry.
    digests.reverse();
    digests.sort_by_key(|digest| digest.entry);
    digests.dedup_by_key(|digest| digest.entry);
    let failed = failures_of(log, &pieces);
    let mut out: BTreeSet<u32> = failed.iter().map(|failure| failure.entry).collect();
    out.extend(amended_entries(log));
    if !out.is_empty() {
        digests.retain(|digest| !out.contains(&digest.entry));
    }
    digests
}

/// Returns the name of an entry in lists. A data set that is one file has the name that it got at
/// the target.
pub(crate) fn listed_name(page: &Page, entry: &Entry, root: &PathText) -> Vec<u8> {
    let name = page.path(entry);
    if name.is_empty() {
        return name::split(&root.0).map(|(_, leaf)| leaf.to_vec()).unwrap_or_default();
    }
    name
}

/// Returns the entries of a page that its log ends with as failed.
pub(crate) fn failed_entries(page: &TaskPage, log: &[JournalRecord]) -> BTreeSet<u32> {
    let pieces = slice_without(&page.page, &page.left);
    failures_of(log, &pieces).iter().map(|failure| failure.entry).collect()
}

/// Returns whether a file that failed is in no pack: it travels in extents, or was refused when the
/// page was compared.
pub(crate) fn is_apart(log: &[JournalRecord], page: &TaskPage, entry: u32) -> bool {
    let refused = compared_of(log).map(|compared| compared.failed.as_slice()).unwrap_or_default();
    let of = page.page.entry(entry).ok().filter(|of| of.kind == EntryKind::File);
    of.is_some_and(|of| {
        !travels_whole(&page.page.slicing, of)
            || refused.iter().any(|failure| failure.entry == entry)
    })
}

/// Returns those digests of files that are standard, in the form that lists use.
pub(crate) fn listed(digests: &[EntryDigest]) -> Values {
    digests
        .iter()
        .filter(|digest| digest.form == DigestForm::Standard)
        .map(|digest| (digest.entry, digest.digest.to_hex()))
        .collect()
}

/// Returns the entries that are to be looked at again, and the change time under which they were
/// read.
pub(crate) fn seen_entries(log: &[JournalRecord]) -> BTreeMap<u32, FileTime> {
    let written = log.iter().filter_map(|record| match record {
        JournalRecord::Written { digests, .. } => Some(digests),
        _ => None,
    });
    let carried = compared_of(log).into_iter().flat_map(|compared| &compared.carried);
    let all = carried.chain(written.flatten());
    all.filter_map(|digest| Some((digest.entry, digest.seen?))).collect()
}

#[cfg(test)]
mod tests {
    use penstock_proto::journal::FailurePhase;

    use super::*;

    /// Promise (c): a large file that failed stays failed, whatever later record there is of its
    /// entry's pack. An entry of a pack has failed only if its last attempt failed.
    #[test]
    fn c_a_pack_does_not_take_back_the_failure_of_a_large_file() {
        let pieces = [
            Piece::Pack { first: 0, end: 3, files: 2, bytes: 2 },
            Piece::Extent { entry: 1, offset: 0, length: 1 },
            Piece::Finish { entry: 1 },
        ];
        let failure = |entry| EntryFailure { entry, phase: FailurePhase::Vanished, errno: 2 };
        let written = |failures| JournalRecord::Written {
            piece: 0,
            generation: 0,
            epoch: 1,
            digests: Vec::new(),
            failures,
        };
        let log = [
            written(vec![failure(0), failure(2)]),
            JournalRecord::Failed(failure(1)),
            JournalRecord::Missing { pieces: vec![0] },
            written(vec![failure(2)]),
        ];
        assert_eq!(failures_of(&log, &pieces), [failure(1), failure(2)]);
    }
}
