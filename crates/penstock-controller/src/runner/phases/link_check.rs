//! Before links are made: the first names of files that have failed (B6).

use penstock_api::heads::PageHead;
use penstock_api::problem::Problem;
use penstock_proto::manifest::EntryKind;

use crate::runner::context::RunContext;
use crate::runner::failed_links::FailedLinks;
use crate::runner::journal::page_log::{amended_entries, failed_entries};
use crate::runner::shared::RunShared;
use crate::runner::state::RunState;

/// Finds out which files have failed that have further names, which are made next. Does nothing on
/// a later call.
///
/// # Errors
/// The ledger cannot be committed or read.
pub(crate) fn find_failed_links(context: &RunContext, state: &mut RunState) -> Result<(), Problem> {
    if context.shared.failed_links.get().is_some() {
        return Ok(());
    }
    state.commit(context)?;
    let pages = context.heads.load(context.id)?.pages;
    let amended = state.scan.summary().is_some_and(|scan| scan.amending > 0);
    let failed = failed_links(&context.shared, &pages, amended)?;
    // Only this line sets it.
    let _ = context.shared.failed_links.set(failed);
    state.tasks.wake();
    Ok(())
}

/// Reads the logs of the pages in which anything has failed: their failures are committed, and no
/// file is still waited for. Where there are `amended` entries, the logs of all pages: a first name
/// that has come in a newer version may be another file by now.
///
/// # Errors
/// The journal store cannot be read.
fn failed_links(
    shared: &RunShared,
    heads: &[PageHead],
    amended: bool,
) -> Result<FailedLinks, Problem> {
    let mut found = FailedLinks::default();
    for head in heads.iter().filter(|head| head.failures > 0 || amended) {
        let page = shared.read_page(head.page)?;
        let log = shared.journal().read_log(head.page, head.log_bytes)?.0;
        for index in failed_entries(&page, &log).into_iter().chain(amended_entries(&log)) {
            let Ok(entry) = page.page.entry(index) else { continue };
            if entry.linked && entry.kind != EntryKind::HardLink {
                found.add(&page.page.path(entry));
            }
        }
    }
    Ok(found)
}
