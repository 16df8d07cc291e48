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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::plan::PlanItem;
use penstock_api::problem::{Exit, Problem};
use penstock_api::scan::ScanSummary;
use penstock_api::task::{TargetPeer, TaskPage, TaskSpec};
use penstock_api::transfer::FailedItem;
use penstock_proto::manifest::EntryKind;

use super::deletion_guards::{DELETE_REFUSED, check_amount, check_scan};
use crate::runner::earlier::Earlier;
use crate::runner::input::RunInput;
use crate::runner::journal::{Scratch, failed};
use crate::runner::pages::puller::{Clear, Compare};
use crate::runner::plan::Followed;
use crate::runner::shared::RunShared;
use crate::runner::tasks::hung::{ends_within, no_thread};

/// The inputs for finding the extraneous entries.
pub(crate) struct DeletionParts {
    pub(crate) peer: Arc<dyn TargetPeer>,
    pub(crate) spec: TaskSpec,
    pub(crate) shared: Arc<RunShared>,
    pub(crate) scan: ScanSummary,
    /// The plan with the entries that may be deleted, if one is followed.
    pub(crate) followed: Option<Arc<Followed>>,
    /// The work of earlier attempts, if the source was listed anew.
    pub(crate) earlier: Option<Arc<Earlier>>,
    /// Directory of the transfer in the journal store.
    pub(crate) journal: PathBuf,
    /// Looks at pages that were not opened yet; at the end there are none.
    pub(crate) compare: Option<Compare>,
}

/// Returns the function that removes obstacles. It receives the end of the scan, when all pages are
/// in the journal store. A refusal by a guard is recorded, and the run continues. `None` if nothing
/// is deleted.
pub(crate) fn clearing(
    input: &RunInput,
    spec: &TaskSpec,
    shared: &Arc<RunShared>,
    compare: &Compare,
    followed: Option<&Arc<Followed>>,
    earlier: &Option<Arc<Earlier>>,
) -> Option<Clear> {
    if !spec.update.delete {
        return None;
    }
    let parts = Mutex::new(DeletionParts {
        peer: input.peer(),
        spec: spec.clone(),
        shared: Arc::clone(shared),
        scan: ScanSummary::default(),
        followed: followed.cloned(),
        earlier: earlier.clone(),
        journal: input.journal.clone(),
        compare: Some(Arc::clone(compare)),
    });
    Some(Box::new(move |scan, stop| {
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.scan = scan.clone();
        parts.clear(stop)
    }))
}

/// The longest time that an early end may take.
const STOP_MAX: Duration = Duration::from_secs(90);

/// A deletion at work.
pub(crate) struct Deletion {
    thread: Option<JoinHandle<Result<(), Problem>>>,
    stop: Arc<AtomicBool>,
    pub(crate) deleted: Arc<AtomicU64>,
    scratch: Arc<Scratch>,
}

impl Deletion {
    /// Begins it, on a thread of its own.
    ///
    /// # Errors
    /// `threads`; there is no room for its list.
    pub(crate) fn start(parts: DeletionParts) -> Result<Self, Problem> {
        let (stop, deleted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let scratch = Arc::new(parts.scratch()?);
        let (stopping, counting, shared) =
            (Arc::clone(&stop), Arc::clone(&deleted), Arc::clone(&parts.shared));
        let within = Arc::clone(&scratch);
        let thread = std::thread::Builder::new()
            .name("delete".to_owned())
            .spawn(move || {
                let outcome = parts.run(&within, &stopping, &counting);
                shared.notify();
                outcome
            })
            .map_err(no_thread)?;
        Ok(Self { thread: Some(thread), stop, deleted, scratch })
    }

    /// Returns the path of the list of entries that could not be deleted.
    pub(crate) fn undeleted(&self) -> PathBuf {
        undeleted_path(&self.scratch)
    }

    /// Returns the result if the deletion has ended.
    pub(crate) fn poll(&mut self) -> Option<Result<(), Problem>> {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished).then(|| self.join())
    }

    /// Ends it early and waits for that.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        match self.thread.take_if(|thread| !ends_within(thread, STOP_MAX)) {
            // When it comes back from its call it sees that it is to stop.
            Some(_) => tracing::error!("deleting hangs: its thread is left behind"),
            None => drop(self.join()),
        }
    }

    fn join(&mut self) -> Result<(), Problem> {
        let broken = |what: &str| Problem::new(Exit::Unclassified, "internal", what);
        let thread =
            self.thread.take().ok_or_else(|| broken("how deleting ended was told before"))?;
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

impl DeletionParts {
    fn scratch(&self) -> Result<Scratch, Problem> {
        Scratch::new(&self.journal, self.spec.fence.epoch())
    }

    fn run(
        &self,
        scratch: &Scratch,
        stop: &AtomicBool,
        deleted: &AtomicU64,
    ) -> Result<(), Problem> {
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
        self.peer.delete(&self.spec, order)?;
        out.flush().map_err(lost)
    }

    /// Removes the obstacles, if all guards agree to everything that would be deleted.
    fn clear(&self, stop: &AtomicBool) -> Result<(), Problem> {
        let scratch = self.scratch()?;
        match self.find(&scratch, stop) {
            Ok(()) => {}
            Err(problem) if problem.code == DELETE_REFUSED => {
                let mut refused =
                    self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
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
            deleted: &self.shared.cleared,
            stop,
            failed: &mut stays,
        };
        self.peer.delete(&self.spec, order)
    }

    /// Returns how many entries of a page existed at the target before the transfer made any of
    /// them.
    fn existed(&self, page: &TaskPage) -> Result<u32, Problem> {
        let number = page.page.number;
        let logged = || self.shared.journal().find_compared(number);
        if let Some(compared) = logged()? {
            return Ok(compared.existed.iter().count() as u32);
        }
        let Some(compare) = &self.compare else { return Ok(0) };
        let looked = compare(&page.page)?.existed;
        // If it was opened meanwhile, some of it may have been made while we looked.
        Ok(logged()?.map_or(looked, |compared| compared.existed).iter().count() as u32)
    }

    /// Lists the extraneous entries and asks the guards.
    ///
    /// # Errors
    /// A guard refuses; the target cannot be listed; it was stopped.
    fn find(&self, scratch: &Scratch, stop: &AtomicBool) -> Result<(), Problem> {
        let list = surplus_path(scratch);
        let Some(first) = self.check_scan()? else { return find_nothing(&list) };
        // The files that replace memory are removed when the list is made.
        let spilled = scratch.path().join("spilled");
        std::fs::create_dir(&spilled).map_err(|cause| failed("make", &spilled, &cause))?;
        let mut existed = 0;
        let first = std::iter::once(Ok(first));
        let later = (1..self.scan.pages).map(|number| self.shared.peek_page(number));
        let mut pages = first.chain(later).map(|page: Result<TaskPage, Problem>| {
            let page = page?;
            existed += u64::from(self.existed(&page)?);
            Ok(page)
        });
        // An entry that an earlier attempt has made itself is no sign of a wrong target.
        let mut own = 0;
        let mut choose = |item: PlanItem| {
            let chosen = self.followed.as_ref().map_or(Ok(true), |plan| plan.deletes(&item))?;
            if chosen && let Some(earlier) = &self.earlier {
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
        let found = self.peer.find_surplus(&self.spec, query)?;
        let _ = std::fs::remove_dir_all(&spilled);
        let cleared = self.shared.cleared.load(Ordering::Relaxed);
        let own = if self.spec.update.max_delete.is_none() { own } else { 0 };
        check_amount(&self.spec.update, found.saturating_sub(own) + cleared, existed)
    }

    /// The first page, if the data set is a directory; the guards that need no look at the target.
    fn check_scan(&self) -> Result<Option<TaskPage>, Problem> {
        let mut first = None;
        let directory = || {
            let page = first.insert(self.shared.peek_page(0)?);
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
