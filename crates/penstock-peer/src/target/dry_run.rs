//! Predicts what a transfer would do with the entries of a page, for a plan. Follows the decisions
//! of [`crate::target::compare`] and their consequences. Touches nothing.

use penstock_api::plan::{ItemKind, PlanAction, PlanItem, ThereItem, plan_time};
use penstock_api::transfer::PathText;
use penstock_api::update::IfExists;
use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_proto::name;
use penstock_store::{DirCache, Kind, Meta, Step, StoreError, Target};

use crate::entries::item_kind;
use crate::stores::chain;
use crate::target::compare::{Compared, Comparer, Verdict, step_of};
use crate::task::error::TaskError;

/// Examines a whole page, with a comparer that touches nothing. Blocks for about a stat of each
/// entry.
///
/// # Errors
/// The store is at fault.
pub(crate) fn look(comparer: &Comparer, page: &Page) -> Result<Vec<PlanItem>, TaskError> {
    let (mut first_names, source) = (DirCache::default(), step_of(page));
    let compared = comparer.verdicts(page, &EntrySet::default())?;
    let items = page.entries().iter().zip(compared).map(|(entry, compared)| {
        let (action, why) = match entry.kind {
            _ if !comparer.keeper.makes(entry) => (PlanAction::Skip, "not carried"),
            EntryKind::HardLink => {
                link(comparer, page, (entry, &compared), (&mut first_names, source))
            }
            _ => action(comparer, entry, &compared),
        };
        item(page, entry, &compared, action, why)
    });
    Ok(items.collect())
}

fn item(
    page: &Page,
    entry: &Entry,
    compared: &Compared,
    action: PlanAction,
    why: &str,
) -> PlanItem {
    let link = matches!(entry.kind, EntryKind::Symlink | EntryKind::HardLink);
    PlanItem {
        action,
        path: PathText(page.path(entry)),
        kind: match entry.kind {
            EntryKind::File => ItemKind::File,
            EntryKind::Directory => ItemKind::Directory,
            EntryKind::Symlink => ItemKind::Symlink,
            EntryKind::Fifo => ItemKind::Fifo,
            EntryKind::CharDevice => ItemKind::CharDevice,
            EntryKind::BlockDevice => ItemKind::BlockDevice,
            EntryKind::HardLink => ItemKind::HardLink,
        },
        size: entry.size,
        mtime: plan_time(entry.mtime),
        link: link.then(|| PathText(page.link(entry).to_vec())),
        why: why.to_owned(),
        there: compared.there.as_ref().map(there_item),
    }
}

/// Returns the entry at the target in the form of plans.
fn there_item(meta: &Meta) -> ThereItem {
    ThereItem {
        kind: item_kind(meta.kind),
        size: meta.size,
        mtime: plan_time(meta.mtime),
        inode: meta.inode,
        ctime: plan_time(meta.ctime),
        links: meta.links,
    }
}

/// Returns the action for an entry that is no further name of another, and the reason.
fn action(comparer: &Comparer, entry: &Entry, compared: &Compared) -> (PlanAction, &'static str) {
    let update = &comparer.update;
    let clears = update.delete && update.if_exists == IfExists::Replace;
    let directory = entry.kind == EntryKind::Directory;
    let there = compared.there.as_ref().map(|there| there.kind == Kind::Directory);
    match (compared.verdict, there) {
        (Verdict::Refuse, None) => (PlanAction::Fail, "cannot be examined at the target"),
        (Verdict::Refuse, _) if update.if_exists == IfExists::Replace => {
            (PlanAction::Fail, "a device, pipe or socket is in the way")
        }
        (Verdict::Refuse, _) => (PlanAction::Fail, "exists at the target already"),
        (Verdict::Keep, _) if compared.stale => (PlanAction::Attributes, ""),
        (Verdict::Keep, _) if compared.same => (PlanAction::Skip, "the same"),
        (Verdict::Keep, _) => (PlanAction::Skip, "exists at the target already"),
        // The obstacle is deleted before.
        (Verdict::Blocked, Some(_)) if clears => (PlanAction::Replace, ""),
        (Verdict::Blocked, None) if clears => (PlanAction::Copy, ""),
        (Verdict::Blocked, Some(true)) => (PlanAction::Fail, "a directory is in the way"),
        (Verdict::Blocked, _) => {
            (PlanAction::Fail, "in the way of its directory is something else")
        }
        (Verdict::New, _) | (_, None) => (PlanAction::Copy, ""),
        (Verdict::Replace, Some(false)) if directory => {
            (PlanAction::Fail, "something else is in the way")
        }
        (Verdict::Replace, Some(false)) => (PlanAction::Replace, ""),
        (Verdict::Replace, Some(true)) if compared.stale => (PlanAction::Attributes, ""),
        (Verdict::Replace, Some(true)) => (PlanAction::Skip, "the same"),
    }
}

/// The reason of a further name that will not be made, as the run reports it.
const NO_FIRST_NAME: &str = "is another name of a file that is not at the target";

/// Returns the action for a further name. It is made again if its first name is, or if it is
/// another file.
fn link(
    comparer: &Comparer,
    page: &Page,
    (entry, compared): (&Entry, &Compared),
    (dirs, source): (&mut DirCache, Step),
) -> (PlanAction, &'static str) {
    let known = action(comparer, entry, compared);
    if !known.0.moves() {
        return known;
    }
    // An entry that cannot be examined will fail in the same way, and report the error.
    if let Ok(false) = comparer.will_have_first_name(page, entry, (&mut *dirs, source)) {
        return (PlanAction::Fail, NO_FIRST_NAME);
    }
    let (PlanAction::Replace, Some(there)) = (known.0, &compared.there) else {
        return (PlanAction::Link, "");
    };
    let path = name::join(&comparer.root, page.link(entry));
    match meta_of(&comparer.target, &path, dirs) {
        // The entry is the file under the further name, whose time was compared.
        Ok(Some(first))
            if (first.inode, first.device) == (there.inode, there.device)
                && comparer.first_name_verdict(entry, &first, compared.dated) == Verdict::Keep =>
        {
            (PlanAction::Skip, "the same")
        }
        Ok(_) => (PlanAction::Link, ""),
        Err(error) => {
            // Making it will fail in the same way, and report the error.
            tracing::debug!(error = %chain(&error), "another name of the file cannot be examined");
            (PlanAction::Link, "")
        }
    }
}

fn meta_of(target: &Target, path: &[u8], dirs: &mut DirCache) -> Result<Option<Meta>, StoreError> {
    let (parent, leaf) = name::split(path).unwrap_or_default();
    let dir = dirs.get(penstock_sys::boottime_now(), parent, |path| target.open_dir(path))?;
    target.meta(&dir, leaf)
}
