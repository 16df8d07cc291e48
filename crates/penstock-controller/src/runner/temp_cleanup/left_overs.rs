//! Removal of temporary files and sync markers when a run ends.

use std::collections::BTreeSet;

use penstock_api::problem::{Exit, Problem};
use penstock_api::task::{TaskPage, TaskSpec};
use penstock_api::transfer::Durability;
use penstock_proto::id::WriterId;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::EntryKind;

use crate::runner::context::RunContext;
use crate::runner::earlier;
use crate::runner::input::RunOutcome;
use crate::runner::tasks::TaskSet;

/// Removes files that peers which have left the run may have left behind, and the markers of all.
/// Failures are logged. The data set has `total` pages.
///
/// # Errors
/// The ledger cannot be read.
pub(crate) fn clean_left_overs(
    context: &RunContext,
    tasks: &TaskSet,
    total: u32,
) -> Result<(), Problem> {
    let left = tasks.left_overs();
    let generation_max = generation_in(context, left.values().flatten().copied().collect())?;
    let (earlier, most) = earlier::left_pages(&context.journal);
    for (writer, pages) in left {
        let mut all = pages;
        if tasks.links_in_doubt() {
            let with_links = |page: &u32| {
                let page = context.shared.peek_page(*page);
                page.is_ok_and(|page| page.page.entries().iter().any(|it| is_made_last(it.kind)))
            };
            all.extend((0..total).filter(with_links));
        }
        let pages = all.iter().filter_map(|page| context.shared.peek_page(*page).ok());
        let mut pages = pages.chain(earlier.iter().filter_map(|page| earlier::left_page(page)));
        clean(context, writer, &mut pages, generation_max.max(most));
    }
    Ok(())
}

/// Removes all temporary files, of every writer. Returns whether the store could be asked for
/// all of it.
///
/// # Errors
/// The ledger cannot be read.
pub(crate) fn clean_all(context: &RunContext, tasks: &TaskSet) -> Result<bool, Problem> {
    // All pages that any run has opened may have temporary files.
    let pages = context.shared.journal().pages_in_work(&[])?;
    let generation_max = generation_in(context, pages.clone())?;
    let (earlier, most) = earlier::left_pages(&context.journal);
    let mut all = true;
    for writer in tasks.left_overs().into_keys() {
        let pages = pages.iter().filter_map(|page| context.shared.peek_page(*page).ok());
        let mut pages = pages.chain(earlier.iter().filter_map(|page| earlier::left_page(page)));
        all &= clean(context, writer, &mut pages, generation_max.max(most));
    }
    Ok(all)
}

/// Removes files that an unsuccessful run has left and no later run needs. Otherwise each transfer
/// that a hostile source lets fail would leave a sync marker in the store, until a user cancels it.
///
/// A marker shows that nothing is missing since the last sync that the ledger knows. Before the
/// first one it shows nothing. If no page was opened either, no file was begun, and the markers go.
/// If the run does not continue by itself, files that were begun and never synced are removed with
/// them. After the first sync all of it stays for a retry, and is removed when the transfer is
/// done, cancelled, or removed by `penstock transfer orphans --remove`. Failures are logged.
pub(crate) fn clean_unused(context: &RunContext, tasks: &TaskSet, outcome: &RunOutcome) {
    let is_over = match outcome {
        RunOutcome::Failed(problem) => problem.exit != Exit::Temporary,
        RunOutcome::Paused => false,
        RunOutcome::Done | RunOutcome::Cancelled => return,
    };
    // A run without syncs has no markers, and may have much to continue with.
    let is_over = is_over && context.spec.durability != Durability::None;
    let cleaned = is_unused(context, is_over).and_then(|unused| match unused {
        true => clean_all(context, tasks).map(drop),
        false => Ok(()),
    });
    if let Err(problem) = cleaned {
        tracing::info!(%problem, "a sync marker may be left");
    }
}

/// Returns whether a later run can use none of the files that a run has left.
fn is_unused(context: &RunContext, is_over: bool) -> Result<bool, Problem> {
    context.check_fence()?;
    let head = context.heads.load(context.id)?;
    if !head.epochs.is_empty() || is_over {
        return Ok(head.epochs.is_empty());
    }
    let pages = context.shared.journal().pages_in_work(&head.pages)?;
    let earlier = earlier::left_pages(&context.journal).0;
    Ok(pages.is_empty() && head.pages.is_empty() && earlier.is_empty())
}

/// Returns the greatest attempt at any file of these pages, some of which this run has not opened.
fn generation_in(context: &RunContext, pages: BTreeSet<u32>) -> Result<u32, Problem> {
    let mut most = context.shared.generation_max();
    if pages.is_empty() {
        return Ok(most);
    }
    let heads = context.heads.load(context.id)?.pages;
    for head in heads.iter().filter(|head| pages.contains(&head.page)) {
        for record in context.shared.journal().read_log(head.page, head.log_bytes)?.0 {
            if let JournalRecord::Generation { generation, .. } = record {
                most = most.max(generation);
            }
        }
    }
    Ok(most)
}

/// Removes the files that a writer has left in these pages, and its marker. Returns whether the
/// store could be asked for all of it.
fn clean(
    context: &RunContext,
    writer: WriterId,
    pages: &mut dyn Iterator<Item = TaskPage>,
    generation_max: u32,
) -> bool {
    let spec = TaskSpec { writer, ..context.spec.clone() };
    let cleaned = context.peer.clean(&spec, pages, generation_max);
    cleaned.inspect_err(|problem| tracing::warn!(%problem, "temporary files may be left")).is_ok()
}

/// Returns whether an entry of this kind is made when all pages are complete.
fn is_made_last(kind: EntryKind) -> bool {
    !matches!(kind, EntryKind::File | EntryKind::Directory)
}
