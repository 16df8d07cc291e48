//! Deletes entries at the target that do not exist at the source, when all else is done and all
//! guards agree.
//!
//! There are four guards (C3, promise (e)). The scan is complete and met no error; the source holds
//! something; the target is the same store as before. No more entries would go than the user
//! allowed; without a number from the user, no more than half of those present before. If a guard
//! refuses, nothing is deleted, moved entries stay, and the transfer ends as refused. A crash in
//! the middle costs another search: deleted entries are not found again.
//!
//! A directory in the place of a file of the data set, or the reverse, cannot wait for the end. The
//! first page that meets such an obstacle is not opened before all guards have agreed to everything
//! that would be deleted. Then only the obstacles are removed ([`clearing`]).

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::plan::PlanItem;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::ScanSummary;
use penstock_api::task::TaskPage;
use penstock_api::transfer::FailedItem;
use penstock_proto::manifest::EntryKind;

use super::deletion_guards::{check_amount, check_scan};
use crate::runner::bounded_join::ends_within;
use crate::runner::context::RunContext;
use crate::runner::journal::{Scratch, failed};
use crate::runner::pages::puller::Clear;
use crate::runner::state::RunState;

/// The deletion of a round, as its loop drives it.
#[derive(Default)]
pub(crate) struct Deleting {
    deletion: Option<Deletion>,
    refused: Option<Problem>,
}

impl Deleting {
    /// Begins to delete entries that are not in the data set, or takes over the result. Never waits
    /// for the target.
    ///
    /// # Errors
    /// The target cannot be listed; the thread cannot be started.
    pub(crate) fn step(
        &mut self,
        context: &Arc<RunContext>,
        state: &mut RunState,
    ) -> Result<(), Problem> {
        let shared = &context.shared;
        // The refusal of a guard before the end holds at the end.
        let said = shared.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(problem) = said {
            self.refused = Some(problem);
            shared.machine().handle_deleted();
            return Ok(());
        }
        let Some(deletion) = &mut self.deletion else {
            let scan = state.scan.summary().cloned().unwrap_or_default();
            let search = Search { context: Arc::clone(context), scan, compares: false };
            self.deletion = Some(Deletion::start(search)?);
            state.progress.is_deleting = true;
            return Ok(());
        };
        match deletion.poll() {
            None => return Ok(()),
            Some(Ok(())) => {}
            // No entry was deleted; moved entries are finished in order.
            Some(Err(problem))
                if problem.code == ProblemCode::DeleteRefused
                    || problem.code == ProblemCode::PlanStale =>
            {
                self.refused = Some(problem);
            }
            Some(Err(problem)) => return Err(problem),
        }
        shared.machine().handle_deleted();
        Ok(())
    }

    /// Ends the thread early.
    pub(crate) fn stop(&mut self) {
        if let Some(deletion) = &mut self.deletion {
            deletion.stop();
        }
    }

    /// Returns the reason why nothing was deleted.
    pub(crate) fn refused(&self) -> Option<&Problem> {
        self.refused.as_ref()
    }

    /// Returns the path of the list of entries that could not be deleted, if any were to be.
    pub(crate) fn undeleted(&self) -> Option<PathBuf> {
        self.deletion.as_ref().map(Deletion::undeleted)
    }
}

/// Returns the function that removes obstacles. It receives the end of the scan, when all pages are
/// in the journal store. A refusal by a guard is recorded, and the run continues. `None` if nothing
/// is deleted.
pub(crate) fn clearing(context: &Arc<RunContext>) -> Option<Clear> {
    if !context.spec.update.delete {
        return None;
    }
    let context = Arc::clone(context);
    Some(Box::new(move |scan, stop| {
        let context = Arc::clone(&context);
        Search { context, scan: scan.clone(), compares: true }.clear(stop)
    }))
}

/// The longest time that an early end may take.
const STOP_MAX: Duration = Duration::from_secs(90);

/// A deletion at work.
struct Deletion {
    thread: Option<JoinHandle<Result<(), Problem>>>,
    stop: Arc<AtomicBool>,
    scratch: Arc<Scratch>,
}

impl Deletion {
    /// Begins it, on a thread of its own.
    ///
    /// # Errors
    /// `threads`; there is no room for its list.
    fn start(search: Search) -> Result<Self, Problem> {
        let stop = Arc::new(AtomicBool::new(false));
        let scratch = Arc::new(search.scratch()?);
        let (stopping, within) = (Arc::clone(&stop), Arc::clone(&scratch));
        let thread = std::thread::Builder::new()
            .name("delete".to_owned())
            .spawn(move || {
                let outcome = search.delete(&within, &stopping);
                search.context.shared.notify();
                outcome
            })
            .map_err(Problem::no_thread)?;
        Ok(Self { thread: Some(thread), stop, scratch })
    }

    /// Returns the path of the list of entries that could not be deleted.
    fn undeleted(&self) -> PathBuf {
        undeleted_path(&self.scratch)
    }

    /// Returns the result if the deletion has ended.
    fn poll(&mut self) -> Option<Result<(), Problem>> {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished).then(|| self.join())
    }

    /// Ends it early and waits for that.
    fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        match self.thread.take_if(|thread| !ends_within(thread, STOP_MAX)) {
            // When the call returns, the thread sees that it is to stop.
            Some(_) => tracing::error!("deleting hangs: its thread is left behind"),
            None => drop(self.join()),
        }
    }

    fn join(&mut self) -> Result<(), Problem> {
        let broken = |what: &str| Problem::new(ProblemCode::Internal, what);
        let thread = self.thread.take().ok_or_else(|| {
            broken(
                "the end of the deletion was \
                                                     reported before",
            )
        })?;
        thread.join().unwrap_or_else(|_| Err(broken("deleting broke an assumption of ours")))
    }
}

fn undeleted_path(scratch: &Scratch) -> PathBuf {
    scratch.path().join("undeleted.jsonl")
}

/// Returns the path of the list of extraneous entries.
fn surplus_path(scratch: &Scratch) -> PathBuf {
    scratch.path().join("surplus.jsonl")
}

/// A search for the extraneous entries.
struct Search {
    context: Arc<RunContext>,
    scan: ScanSummary,
    /// True if pages that were not opened yet are examined; at the end there are none.
    compares: bool,
}

impl Search {
    fn scratch(&self) -> Result<Scratch, Problem> {
        Scratch::new(&self.context.journal, self.context.spec.fence.epoch())
    }

    /// Deletes all extraneous entries, if all guards agree.
    fn delete(&self, scratch: &Scratch, stop: &AtomicBool) -> Result<(), Problem> {
        let deleted = &self.context.shared.deleted;
        self.find(scratch, stop)?;
        let (list, undeleted) = (surplus_path(scratch), undeleted_path(scratch));
        let lost = |cause: std::io::Error| failed("write", &undeleted, &cause);
        let mut out = BufWriter::new(File::create(&undeleted).map_err(lost)?);
        let mut write = |item| -> Result<(), Problem> {
            let line = serde_json::to_string(&item).unwrap_or_default();
            writeln!(out, "{line}").map_err(lost)
        };
        let failed = &mut write;
        let order = DeleteOrder { list: &list, only_in_the_way: false, deleted, stop, failed };
        self.context.peer.delete(&self.context.spec, order)?;
        out.flush().map_err(lost)
    }

    /// Removes the obstacles, if all guards agree to everything that would be deleted.
    fn clear(&self, stop: &AtomicBool) -> Result<(), Problem> {
        let scratch = self.scratch()?;
        match self.find(&scratch, stop) {
            Ok(()) => {}
            Err(problem) if problem.code == ProblemCode::DeleteRefused => {
                let mut refused =
                    self.context.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
                *refused = Some(problem);
                return Ok(());
            }
            Err(problem) => return Err(problem),
        }
        // An obstacle that stays fails together with the entry that it blocks, and is tried again
        // at the end.
        let mut stays = |item: FailedItem| -> Result<(), Problem> {
            tracing::warn!(path = %item.path, why = item.message, "in the way, and it stays");
            Ok(())
        };
        let order = DeleteOrder {
            list: &surplus_path(&scratch),
            only_in_the_way: true,
            deleted: &self.context.shared.cleared,
            stop,
            failed: &mut stays,
        };
        self.context.peer.delete(&self.context.spec, order)
    }

    /// Returns how many entries of a page existed at the target before the transfer made any of
    /// them.
    fn existed(&self, page: &TaskPage) -> Result<u32, Problem> {
        let number = page.page.number;
        let logged = || self.context.shared.journal().find_compared(number);
        if let Some(compared) = logged()? {
            return Ok(compared.existed.iter().count() as u32);
        }
        if !self.compares {
            return Ok(0);
        }
        let looked = (self.context.compare)(&page.page)?.existed;
        // If it was opened meanwhile, some of it may have been made while we looked.
        Ok(logged()?.map_or(looked, |compared| compared.existed).iter().count() as u32)
    }

    /// Lists the extraneous entries and asks the guards.
    ///
    /// # Errors
    /// A guard refuses; the target cannot be listed; it was stopped.
    fn find(&self, scratch: &Scratch, stop: &AtomicBool) -> Result<(), Problem> {
        let _uncounted = self.context.control.begin_uncounted();
        let list = surplus_path(scratch);
        let Some(first) = self.check_scan()? else { return find_nothing(&list) };
        // The files that replace memory are removed when the list is made.
        let spilled = scratch.path().join("spilled");
        std::fs::create_dir(&spilled).map_err(|cause| failed("make", &spilled, &cause))?;
        let mut existed = 0;
        let first = std::iter::once(Ok(first));
        let later = (1..self.scan.pages).map(|number| self.context.shared.peek_page(number));
        let mut pages = first.chain(later).map(|page: Result<TaskPage, Problem>| {
            let page = page?;
            existed += u64::from(self.existed(&page)?);
            Ok(page)
        });
        // An entry that an earlier attempt has made itself is no sign of a wrong target.
        let mut own = 0;
        let mut choose = |item: PlanItem| {
            let chosen =
                self.context.followed.as_ref().map_or(Ok(true), |plan| plan.deletes(&item))?;
            if chosen && let Some(earlier) = &self.context.earlier {
                own += u64::from(earlier.made(&item.path.0)?);
            }
            Ok(chosen)
        };
        let query = SurplusQuery {
            pages: &mut pages,
            entries: self.scan.entries,
            scratch: &spilled,
            choose: &mut choose,
            list: &list,
            stop,
        };
        let found = self.context.peer.find_surplus(&self.context.spec, query)?;
        let _ = std::fs::remove_dir_all(&spilled);
        let cleared = self.context.shared.cleared.load(Ordering::Relaxed);
        let own = if self.context.spec.update.max_delete.is_none() { own } else { 0 };
        let gone = found.saturating_sub(own) + cleared;
        Ok(check_amount(&self.context.spec.update, gone, existed)?)
    }

    /// Checks the guards that need no look at the target. Returns the first page, if the data set
    /// is a directory.
    fn check_scan(&self) -> Result<Option<TaskPage>, Problem> {
        let mut first = None;
        let directory = || {
            let page = first.insert(self.context.shared.peek_page(0)?);
            let root = page.page.entries().first();
            Ok(root.is_none_or(|root| root.kind == EntryKind::Directory))
        };
        let directory = check_scan(&self.scan, directory)?;
        Ok(first.filter(|_| directory))
    }
}

fn find_nothing(list: &Path) -> Result<(), Problem> {
    File::create(list).map(drop).map_err(|cause| failed("write", list, &cause))
}
