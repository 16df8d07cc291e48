//! Checks moved entries once more at the target, before they are removed at the source.
//!
//! The ledger says that an entry is durable. This check says that it still exists at the target: no
//! user has removed or changed it meanwhile. It also finds entries that were skipped without a
//! record in the ledger, such as a device that the target's store does not accept (D7).

use std::collections::BTreeMap;

use penstock_api::task::TaskSpec;
use penstock_api::update::UpdateOptions;
use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_store::{Kind, Meta, Target};

use crate::source::read::place;
use crate::target::compare::Comparer;
use crate::task::error::TaskError;

/// Returns the entries of `wanted` that exist at the target as they were made. Blocks for a stat of
/// each entry of the page, by a few threads.
///
/// # Errors
/// The store is at fault.
pub(crate) fn confirm(
    target: Target,
    spec: &TaskSpec,
    page: &Page,
    wanted: &EntrySet,
) -> Result<EntrySet, TaskError> {
    // Called in this way, the comparer examines only the entry itself.
    let look = TaskSpec { update: UpdateOptions::default(), ..spec.clone() };
    let others = (0..page.entries().len() as u32).filter(|index| !wanted.contains(*index));
    let comparer = Comparer::new(target.clone(), &look, false, false);
    let found = comparer.verdicts(page, &others.collect())?;
    // Two files that have become one, as where a target folds names, cannot both exist.
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
        let compared = found.get(*index as usize);
        let entry = &page.entries()[*index as usize];
        let made = compared.and_then(|compared| Some((compared.there?, compared.dated)));
        made.is_some_and(|(there, dated)| {
            let dated = dated || !spec.preserve.times;
            is_made(entry, &there, dated) && !is_shared(entry, &there)
        }) && (entry.kind != EntryKind::Symlink || has_text(&target, spec, page, entry))
    };
    Ok(wanted.iter().filter(stands).collect())
}

/// Returns whether the link at the target has the text of the link at the source.
fn has_text(target: &Target, spec: &TaskSpec, page: &Page, entry: &Entry) -> bool {
    let (parent, leaf) = place(&spec.root.0, page, entry);
    let text = target.open_dir(&parent).and_then(|dir| target.read_link(&dir, &leaf));
    text.is_ok_and(|text| text == page.link(entry))
}

/// Returns whether `there` has the form that the transfer made of `entry`, apart from the text of
/// links. `dated` is true if its time is that form's, or no times are kept.
fn is_made(entry: &Entry, there: &Meta, dated: bool) -> bool {
    if entry.kind == EntryKind::Directory {
        return there.kind == Kind::Directory;
    }
    // The file is the source's own, by another way: two mounts of one tree, or a host that is
    // reached from itself. A copy has another inode, or changed attributes.
    let itself = entry.identity.inode == there.inode && entry.identity.ctime == there.ctime;
    if itself {
        return false;
    }
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
