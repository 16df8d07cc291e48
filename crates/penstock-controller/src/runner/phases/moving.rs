//! The phase in which data moves: pages of the source are opened as the window wants them.
//!
//! Peers fetch the pieces of open pages meanwhile, by the calls of their sessions. Pages of an
//! earlier run are opened with the records of their logs. If the store is in doubt, all of their
//! pieces are looked at again, and the doubt ends with the phase (A5).

use std::collections::BTreeMap;

use penstock_api::heads::{HeadCommit, PageHead};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_engine::transfer::compared_of;
use penstock_proto::compared::Comparison;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::{Page, page_digest};

use super::changed_entries::amendments;
use crate::runner::context::RunContext;
use crate::runner::journal::page_log::{failed_entries, is_apart};
use crate::runner::pages::found::{Found, checked_page};
use crate::runner::pages::puller::Pulled;
use crate::runner::pages::unlisted;
use crate::runner::shared::RunShared;
use crate::runner::state::RunState;
use crate::runner::tasks::TaskSet;

/// The pages that are opened next.
pub(crate) struct Moving {
    /// Heads of an earlier run that are not opened yet.
    known: BTreeMap<u32, PageHead>,
    /// Set while the store is in doubt.
    doubts: bool,
}

impl Moving {
    /// Resumes the work of an earlier run: opens its pages, except where the store is in doubt.
    /// Returns the contents of all its pages as well.
    ///
    /// # Errors
    /// The journal store cannot be read.
    pub(crate) fn resume(
        shared: &RunShared,
        heads: Vec<PageHead>,
        doubts: bool,
    ) -> Result<(Self, Found), Problem> {
        let complete = |page: &PageHead| page.complete && !doubts;
        let (done, open): (Vec<_>, Vec<_>) = heads.into_iter().partition(complete);
        let files = done.iter().map(|page| page.files).sum();
        let bytes = done.iter().map(|page| page.bytes).sum();
        let mut found = Found { entries: files, files, bytes };
        tell_known_failures(shared, done.iter())?;
        let mut known = BTreeMap::new();
        for page in open {
            // Data that an earlier run wrote is checked before anything else is synced: a failed
            // sync must find all data that it may have lost (A4).
            let opened = if doubts { None } else { open_kept(shared, &page)? };
            match opened {
                Some(opened) => found.add(&opened),
                None => drop(known.insert(page.page, page)),
            }
        }
        Ok((Self { known, doubts }, found))
    }

    /// Opens the pages that the window asks for. Returns whether any was opened, or the end of the
    /// scan has become known.
    ///
    /// # Errors
    /// The source does not return a page, or returns a wrong one; the journal store fails.
    pub(crate) fn open_pages(
        &mut self,
        context: &RunContext,
        state: &mut RunState,
    ) -> Result<bool, Problem> {
        let mut opened = state.scan.summary().is_none() && end_scan(context, state);
        loop {
            let Some(number) = context.shared.machine().wants_page() else { return Ok(opened) };
            if let Some(head) = self.known.remove(&number) {
                self.open_known(context, state, &head)?;
                opened = true;
                continue;
            }
            match state.puller.page(number)? {
                Some(Pulled::Page(encoded, compared)) => {
                    self.open_new(context, state, (number, &encoded), compared)?;
                    opened = true;
                }
                Some(Pulled::End) => opened |= end_scan(context, state),
                None => return Ok(opened),
            }
        }
    }

    fn open_new(
        &self,
        context: &RunContext,
        state: &mut RunState,
        (number, encoded): (u32, &[u8]),
        compared: Comparison,
    ) -> Result<(), Problem> {
        let shared = &context.shared;
        let page = checked_page(context.id, number, encoded)?;
        shared.journal().write_page(number, encoded)?;
        let digest = page_digest(encoded);
        state.progress.found.add(&page);
        let amendments = amendments(context, &page, &compared)?;
        let extents = match context.earlier.as_ref().filter(|_| page.round == 0) {
            Some(earlier) => {
                let standard = context.spec.digest_list || context.spec.proves;
                earlier.extents(&page, &compared.left(), standard)?
            }
            None => Vec::new(),
        };
        let page = shared.remember(page, digest, compared.left()).page;
        let mut machine = shared.machine();
        if shared.is_compared(&page) {
            machine.handle_compared_page(&page, digest, compared, extents, self.doubts);
        } else {
            machine.handle_page(&page, digest, Vec::new(), 0, false);
        }
        for (number, (amendment, failed_bytes)) in amendments {
            machine.handle_amended(number, amendment, failed_bytes);
        }
        Ok(())
    }

    fn open_known(
        &self,
        context: &RunContext,
        state: &mut RunState,
        head: &PageHead,
    ) -> Result<(), Problem> {
        let shared = &context.shared;
        let kept = shared.journal().read_page(head.page)?;
        let encoded = match kept.filter(|encoded| page_digest(encoded) == head.digest) {
            Some(encoded) => encoded,
            None => state.puller.page_again(head.page, head.digest)?,
        };
        let page = checked_page(context.id, head.page, &encoded)?;
        let (log, log_bytes) = shared.journal().read_log(head.page, head.log_bytes)?;
        if compared_of(&log).is_none() && shared.is_compared(&page) {
            // No piece of the page was handed out before its decisions were committed.
            let compared = (context.compare)(&page)?;
            return self.open_new(context, state, (head.page, &encoded), compared);
        }
        let compared = compared_of(&log).cloned().unwrap_or_default();
        if self.doubts && !compared.carried.is_empty() {
            // Files that were carried over are in no piece that could be looked at again.
            let title = "the target store is older than the files of earlier attempts";
            return Err(Problem::new(ProblemCode::ListAnew, title)
                .hint("the next attempt lists the source again and moves all of it"));
        }
        state.progress.found.add(&page);
        let page = shared.remember(page, head.digest, compared.left()).page;
        shared.machine().handle_page(&page, head.digest, log, log_bytes, self.doubts);
        Ok(())
    }

    /// Ends a doubt about the store when the phase is over: all data in the ledger is in its place,
    /// and is seen from now on.
    ///
    /// # Errors
    /// The heads cannot be committed.
    pub(crate) fn end_doubt(
        &mut self,
        context: &RunContext,
        tasks: &mut TaskSet,
    ) -> Result<(), Problem> {
        if !std::mem::take(&mut self.doubts) {
            return Ok(());
        }
        let mounts = Some(context.spec.mounts.clone());
        context.heads.commit(context.id, &HeadCommit { mounts, ..HeadCommit::default() })?;
        tasks.doubt_is_over();
        Ok(())
    }
}

/// Takes over the end of the scan as soon as it is known, so that users see totals. Returns whether
/// it is known.
fn end_scan(context: &RunContext, state: &mut RunState) -> bool {
    let Some(summary) = state.puller.end() else { return false };
    context.shared.machine().handle_scan_end(summary.pages);
    if state.scan.summary().is_none() {
        let room = state.progress.room_for_failures();
        state.progress.add_failures(unlisted::first(Some(&summary), &context.journal, room));
    }
    state.scan.set(summary);
    true
}

/// Reads the logs of pages in which a peer that is gone wrote something.
///
/// # Errors
/// The journal store cannot be read.
pub(crate) fn read_logs(shared: &RunShared) -> Result<(), Problem> {
    loop {
        let Some((page, bytes)) = shared.machine().wants_log() else { return Ok(()) };
        let (log, _) = shared.journal().read_log(page, bytes)?;
        shared.machine().handle_log(page, log);
    }
}

/// Opens a page of an earlier run from the journal store; `None` if it is not there whole.
fn open_kept(shared: &RunShared, head: &PageHead) -> Result<Option<Page>, Problem> {
    let kept = shared.journal().read_page(head.page)?;
    let whole = kept.filter(|encoded| page_digest(encoded) == head.digest);
    let Some(page) = whole.and_then(|encoded| Page::decode(&encoded).ok()) else {
        return Ok(None);
    };
    let (log, log_bytes) = shared.journal().read_log(head.page, head.log_bytes)?;
    if shared.is_compared(&page) && compared_of(&log).is_none() {
        return Ok(None);
    }
    shared.machine().handle_page(&page, head.digest, log, log_bytes, false);
    Ok(Some(page))
}

/// Passes the failures of an earlier run to the machine: links and directories are not counted
/// again.
fn tell_known_failures<'a>(
    shared: &RunShared,
    complete: impl Iterator<Item = &'a PageHead>,
) -> Result<(), Problem> {
    for page in complete.filter(|page| page.failures > 0) {
        let (log, _) = shared.journal().read_log(page.page, page.log_bytes)?;
        let failed = log.iter().filter_map(|record| match record {
            JournalRecord::Failed(failure) => Some(failure.entry),
            _ => None,
        });
        let failed: Vec<u32> = failed.collect();
        let failed_bytes = failed_bytes(shared, (page.page, &log), &failed)?;
        shared.machine().handle_known_failures(page.page, failed, failed_bytes);
    }
    Ok(())
}

/// Returns the bytes of the failed large files of a page, and of refused entries. Reads the page
/// only if there may be any.
fn failed_bytes(
    shared: &RunShared,
    (number, log): (u32, &[JournalRecord]),
    failed: &[u32],
) -> Result<u64, Problem> {
    if failed.is_empty() && compared_of(log).is_none_or(|it| it.failed.is_empty()) {
        return Ok(0);
    }
    let page = shared.read_page(number)?;
    let apart = failed_entries(&page, log).into_iter().filter(|at| is_apart(log, &page, *at));
    let sizes = apart.filter_map(|at| page.page.entry(at).ok()).map(|entry| entry.size);
    Ok(sizes.sum())
}
