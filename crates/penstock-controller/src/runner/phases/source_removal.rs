//! The phase of a run with `--remove-source`: entries that are durable at the target are removed at
//! the source.
//!
//! ```text
//! DIR/removed/00000000.json     the results for a page's entries; kept for a restart
//! ```
//! In `DIR/removed.EPOCH` where a site has several peers: see `journal::names`.
//!
//! The phase begins when everything else is done: the last sync has returned, the ledger records
//! that durably, and all data to be read back was right. After a failure from here on nothing is
//! fetched again, and a repeated order finds the remaining items at the source. Pages are handled
//! from the last to the first, so that directories come after their contents. An item is removed
//! only if this transfer has moved it, it has not failed, and it exists at the target at this
//! moment. The source checks that it is still the version that was moved (C6).

use std::path::{Path, PathBuf};

use penstock_api::heads::{HeadCommit, PageHead};
use penstock_api::problem::Problem;
use penstock_api::removal::{RemoveFailure, RemoveOrder};
use penstock_api::scan::PageSource as _;
use penstock_api::task::TaskPage;
use penstock_api::transfer::{FailedItem, PathText};
use penstock_api::update::IfExists;
use penstock_engine::transfer::compared_of;
use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use serde::{Deserialize, Serialize};

use super::changed_entries::ROUNDS_MAX;
use crate::runner::context::RunContext;
use crate::runner::journal::page_log::{amended_entries, failed_entries, seen_entries};
use crate::runner::journal::{failed, names, write_lines};
use crate::runner::progress::RemovalTotals;
use crate::runner::state::RunState;

/// Code of an item that is not the version that was moved; it counts as a changed source.
pub(crate) const CHANGED: &str = "changed";

/// The recorded result for one page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct KeptRemoval {
    removed: u64,
    stayed: u64,
    failures: Vec<FailedItem>,
}

/// Removes the moved entries at the source. Blocks for as long as source and target take; `false`
/// if a user wishes to stop.
///
/// # Errors
/// The source cannot be asked, or its store is a different one: a later run continues.
pub(crate) fn remove_source(context: &RunContext, state: &mut RunState) -> Result<bool, Problem> {
    SourceRemoval { context, state }.run()
}

/// The removal of all pages' entries.
struct SourceRemoval<'a> {
    context: &'a RunContext,
    state: &'a mut RunState,
}

impl SourceRemoval<'_> {
    fn run(&mut self) -> Result<bool, Problem> {
        // The ledger must first record durably that nothing will be fetched again.
        self.context
            .heads
            .commit(self.context.id, &HeadCommit { durable: true, ..HeadCommit::default() })?;
        let directory = self.context.shared.journal().own(REMOVED);
        std::fs::create_dir_all(&directory).map_err(|cause| failed("make", &directory, &cause))?;
        self.state.progress.removal = Some(RemovalTotals::default());
        let directories = kept_directories(&self.context.journal)?;
        for head in self.context.heads.load(self.context.id)?.pages.iter().rev() {
            let kept = read_kept(&directories, head.page).filter(|kept| kept.failures.is_empty());
            let kept = match kept {
                Some(kept) => kept,
                None => match self.remove_page(head)? {
                    Some(kept) => kept,
                    None => return Ok(false),
                },
            };
            self.count(&kept);
        }
        self.state.show(self.context);
        Ok(true)
    }

    fn count(&mut self, kept: &KeptRemoval) {
        let progress = &mut self.state.progress;
        let totals = progress.removal.get_or_insert_default();
        totals.removed += kept.removed;
        totals.stayed += kept.stayed;
        totals.failures += kept.failures.len() as u64;
        progress.add_failures(kept.failures.iter().cloned());
    }

    /// Removes the entries of one page; `None` if a user wishes to stop.
    fn remove_page(&mut self, head: &PageHead) -> Result<Option<KeptRemoval>, Problem> {
        let page = self.context.shared.read_page(head.page)?;
        let log = self.context.shared.journal().read_log(head.page, head.log_bytes)?.0;
        // An entry that does not count here is an entry of a later page, in a newer version.
        let amended: EntrySet = amended_entries(&log).collect();
        let failed: EntrySet = failed_entries(&page, &log).into_iter().collect();
        // Entries that were read while they were young, and were not checked again, may have
        // changed since.
        let asked = page.page.round < ROUNDS_MAX && self.context.followed.is_none();
        let doubtful: EntrySet = match asked {
            true => EntrySet::default(),
            false => seen_entries(&log).into_keys().collect(),
        };
        // A further name of a file that stays as it is at the target was made of that one's bytes.
        let links = !self.context.spec.update.sync
            && self.context.spec.update.if_exists == IfExists::Replace;
        let carried = compared_of(&log).into_iter().flat_map(|compared| &compared.carried);
        let carried: EntrySet = carried.map(|digest| digest.entry).collect();
        let moved = moved_entries(&page, &[&failed, &amended, &doubtful], &carried, links);
        let mut kept = KeptRemoval::default();
        let told = doubtful.iter().filter(|entry| !failed.contains(*entry));
        let young = told.map(|entry| RemoveFailure { entry, errno: 0 });
        kept.failures = young.filter_map(|failure| item(&page.page, &failure)).collect();
        if !moved.is_empty() {
            let stands = self.context.peer.confirm(&self.context.spec, &page.page, &moved)?;
            kept.failures.extend(unconfirmed(&page.page, &moved, &stands));
            let Some(told) = self.order(&page, head, &stands)? else { return Ok(None) };
            kept.removed = told.0;
            kept.failures.extend(told.1.iter().filter_map(|failure| item(&page.page, failure)));
        }
        let entries = (0..).zip(page.page.entries());
        let counts = |(index, entry): &(u32, &Entry)| {
            !is_root(&page.page, entry) && !amended.contains(*index)
        };
        kept.stayed = (entries.filter(counts).count() as u64).saturating_sub(kept.removed);
        keep(&self.context.shared.journal().own(REMOVED), head.page, &kept)?;
        Ok(Some(kept))
    }

    /// Orders the source to remove entries of a page, again and again until all are dealt with.
    fn order(
        &mut self,
        page: &TaskPage,
        head: &PageHead,
        stands: &EntrySet,
    ) -> Result<Option<(u64, Vec<RemoveFailure>)>, Problem> {
        let mut order = RemoveOrder {
            page: head.page,
            digest: page.digest.to_hex(),
            entries: stands.runs().to_vec(),
            below: page.page.entries().len() as u32,
        };
        let (mut removed, mut failures) = (0, Vec::new());
        let mut source = self.context.source.clone();
        loop {
            if self.context.control.is_asked_to_stop() {
                return Ok(None);
            }
            self.state.show_if_due(self.context);
            let reply = source.remove(&order)?;
            removed += reply.removed;
            failures.extend(reply.failures);
            if reply.next == 0 || reply.next >= order.below {
                return Ok(Some((removed, failures)));
            }
            order.below = reply.next;
        }
    }
}

/// Returns the entries that this transfer has moved. Excluded are `others`, and entries left
/// unchanged at the target, unless an earlier attempt has `carried` them there. Also excluded are
/// further names of files unless `links`, and the root of the data set if it is a directory.
fn moved_entries(
    page: &TaskPage,
    others: &[&EntrySet],
    carried: &EntrySet,
    links: bool,
) -> EntrySet {
    (0..)
        .zip(page.page.entries())
        .filter(|(index, entry)| {
            let left = page.left.contains(*index) && !carried.contains(*index);
            let moved = !others.iter().any(|set| set.contains(*index)) && !left;
            moved && !is_root(&page.page, entry) && (links || entry.kind != EntryKind::HardLink)
        })
        .map(|(index, _)| index)
        .collect()
}

fn is_root(page: &Page, entry: &Entry) -> bool {
    entry.kind == EntryKind::Directory && page.name(entry).is_empty()
}

/// Returns the entries that were moved and are missing at the target now. A device that the target
/// rejects is withheld and counted there, and is no failure. Neither is a missing directory.
fn unconfirmed(page: &Page, moved: &EntrySet, stands: &EntrySet) -> Vec<FailedItem> {
    let odd = |entry: &Entry| {
        let plain = [EntryKind::File, EntryKind::Symlink, EntryKind::HardLink];
        plain.contains(&entry.kind) && !entry.special
    };
    let missing = moved.iter().filter(|index| !stands.contains(*index));
    let entries = missing.filter_map(|index| page.entry(index).ok());
    entries
        .filter(|entry| odd(entry))
        .map(|entry| FailedItem {
            path: PathText(page.path(entry)),
            code: "remove".to_owned(),
            message: "was not removed at the source: at the target it is not as it was made there"
                .to_owned(),
        })
        .collect()
}

/// Returns the failure of the source to remove an entry, in words.
fn item(page: &Page, failure: &RemoveFailure) -> Option<FailedItem> {
    let path = PathText(page.path(page.entry(failure.entry).ok()?));
    let (code, why) = match failure.errno {
        0 => (CHANGED, "it changed after it was moved".to_owned()),
        errno => ("remove", std::io::Error::from_raw_os_error(i32::from(errno)).to_string()),
    };
    let message = format!("was not removed at the source: {why}");
    Some(FailedItem { path, code: code.to_owned(), message })
}

const REMOVED: &str = "removed";

fn kept_path(directory: &Path, page: u32) -> PathBuf {
    directory.join(format!("{page:08}.json"))
}

/// Returns whether a transfer has begun to remove at its source the entries that it has moved. The
/// list that it worked on is then the only one with all of them. A journal that cannot be read
/// counts as one with that record: a kept list does no harm.
pub fn removal_has_begun(journal: &Path) -> bool {
    names::all(&journal.join(REMOVED)).map_or(true, |found| !found.is_empty())
}

/// Returns the directories of results, the last controller's first.
fn kept_directories(journal: &Path) -> Result<Vec<PathBuf>, Problem> {
    names::all(&journal.join(REMOVED)).map_err(|cause| failed("read", journal, &cause))
}

/// Returns the result for a page that the last controller recorded.
fn read_kept(directories: &[PathBuf], page: u32) -> Option<KeptRemoval> {
    directories.iter().find_map(|directory| {
        serde_json::from_slice(&std::fs::read(kept_path(directory, page)).ok()?).ok()
    })
}

fn keep(directory: &Path, page: u32, kept: &KeptRemoval) -> Result<(), Problem> {
    let path = kept_path(directory, page);
    write_lines(&path, |out| {
        let text = serde_json::to_string(kept).unwrap_or_default();
        out.write_all(text.as_bytes()).map_err(|cause| failed("write", &path, &cause))
    })
}

/// Passes every item of these pages that stays at the source and is reported as failed to `take`.
///
/// # Errors
/// The error that `take` returns.
pub(crate) fn each_failure(
    journal: &Path,
    pages: &[PageHead],
    mut take: impl FnMut(&FailedItem) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let directories = kept_directories(journal)?;
    if directories.is_empty() {
        return Ok(());
    }
    for head in pages {
        let kept = read_kept(&directories, head.page).unwrap_or_default();
        kept.failures.iter().try_for_each(&mut take)?;
    }
    Ok(())
}
