//! Looks at what was moved once more at the target, before it is removed at the source.
//!
//! The ledger says that it is durable; this says that it still stands there: nobody has removed or
//! changed it meanwhile, and nothing was passed over that the ledger does not tell of, as a device
//! that the target's store does not take (D7).

use std::collections::BTreeMap;

use penstock_api::problem::Problem;
use penstock_api::task::TaskSpec;
use penstock_api::update::UpdateOptions;
use penstock_io::store::{Kind, Meta, Target};
use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_proto::units::FileTime;

use crate::compare::Comparer;
use crate::read::place;

/// Steps in which file systems count time, in nanoseconds: 1 ns, 100 ns (NTFS), 1 us, 1 ms, 1 s
/// (ext3, HFS+), 2 s (FAT).
const STEPS_NS: [i128; 6] = [1, 100, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000];

/// Those of `wanted` that stand at the target as they were made. Blocks for a stat of each entry of
/// the page, by a few threads.
///
/// # Errors
/// The store is at fault.
pub(crate) fn confirm(
    target: Target,
    spec: &TaskSpec,
    page: &Page,
    wanted: &EntrySet,
) -> Result<EntrySet, Problem> {
    // Asked in this way it looks at nothing but what is there.
    let look = TaskSpec { update: UpdateOptions::default(), ..spec.clone() };
    let others = (0..page.entries().len() as u32).filter(|index| !wanted.contains(*index));
    let comparer = Comparer::new(target.clone(), &look, false, false);
    let found = comparer.verdicts(page, &others.collect())?;
    // Two files that have become one, as where a target folds names, do not both stand.
    let mut inodes = BTreeMap::new();
    for index in
        wanted.iter().filter(|index| page.entries()[*index as usize].kind == EntryKind::File)
    {
        if let Some(there) = found.get(index as usize).and_then(|compared| compared.there) {
            *inodes.entry((there.device, there.inode)).or_insert(0u32) += 1;
        }
    }
    let is_shared = |entry: &Entry, there: &Meta| {
        let count = inodes.get(&(there.device, there.inode)).copied();
        entry.kind == EntryKind::File && count.is_some_and(|count| count > 1)
    };
    let stands = |index: &u32| {
        let there = found.get(*index as usize).and_then(|compared| compared.there);
        let entry = &page.entries()[*index as usize];
        there.is_some_and(|there| {
            is_made(entry, &there, spec.preserve.times) && !is_shared(entry, &there)
        }) && (entry.kind != EntryKind::Symlink || has_text(&target, spec, page, entry))
    };
    Ok(wanted.iter().filter(stands).collect())
}

/// Whether the link at the target leads where that at the source does.
fn has_text(target: &Target, spec: &TaskSpec, page: &Page, entry: &Entry) -> bool {
    let (parent, leaf) = place(&spec.root.0, page, entry);
    let text = target.open_dir(&parent).and_then(|dir| target.read_link(&dir, &leaf));
    text.is_ok_and(|text| text == page.link(entry))
}

/// Whether `there` is what was made of `entry`, the text of links left aside.
fn is_made(entry: &Entry, there: &Meta, times: bool) -> bool {
    if entry.kind == EntryKind::Directory {
        return there.kind == Kind::Directory;
    }
    // The source's own, by another way: two mounts of one tree, or a host that is reached from
    // itself. Who made a copy made another inode, or has changed this one's attributes.
    let itself = entry.identity.inode == there.inode && entry.identity.ctime == there.ctime;
    if itself {
        return false;
    }
    let dated = !times || is_dated(entry.mtime, there.mtime);
    match entry.kind {
        EntryKind::HardLink => {
            let sized = there.kind != Kind::File || there.size == entry.size;
            there.kind != Kind::Directory && sized && dated
        }
        EntryKind::File => there.kind == Kind::File && there.size == entry.size && dated,
        EntryKind::Symlink => there.kind == Kind::Symlink,
        kind => there.kind.entry_kind() == Some(kind) && there.special == entry.device,
    }
}

/// Whether a time that was set to `wanted` is read back as `found`, in the steps that the target's
/// file system has.
fn is_dated(wanted: FileTime, found: FileTime) -> bool {
    let ns =
        |time: FileTime| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let (wanted, found) = (ns(wanted), ns(found));
    STEPS_NS.iter().any(|step| wanted - wanted.rem_euclid(*step) == found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a target that counts time in larger steps is no reason to keep the source, and a
    /// later change at the target is.
    #[test]
    fn times_are_read_back_in_the_steps_of_the_target() {
        let time = |seconds, nanoseconds| FileTime { seconds, nanoseconds };
        let wanted = time(1_001, 123_456_789);
        for found in [(1_001, 123_456_789), (1_001, 123_456_700), (1_001, 123_456_000)] {
            assert!(is_dated(wanted, time(found.0, found.1)), "{found:?}");
        }
        for found in [(1_001, 123_000_000), (1_001, 0), (1_000, 0)] {
            assert!(is_dated(wanted, time(found.0, found.1)), "{found:?}");
        }
        for found in [(1_001, 123_456_790), (1_001, 123_456_788), (1_002, 0), (999, 0)] {
            assert!(!is_dated(wanted, time(found.0, found.1)), "{found:?}");
        }
        assert!(is_dated(time(-5, 7), time(-6, 0)));
    }
}
