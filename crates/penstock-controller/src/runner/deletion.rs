//! Deletes at the target what is not at the source, when all else is done and all guards agree.
//!
//! The guards (C3, promise (e)): the scan is complete and met no error; the source holds something;
//! the target is the store it was; and no more would go than the user said, or without a word of
//! theirs, than half of what stood there before. If one of them says no, nothing is deleted, what
//! was moved stays, and the transfer ends as refused. A crash in the middle costs another look:
//! what is gone is not found again.
//!
//! What is in the way of the data set, a directory where that has a file or the reverse, cannot
//! wait for the end. The first page that meets such a thing is not opened before all guards have
//! agreed to all that would go, and just what is in the way has gone ([`clearing`]).

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
use penstock_api::update::UpdateOptions;
use penstock_proto::manifest::EntryKind;

use super::RunInput;
use super::control::Shared;
use super::earlier::Earlier;
use super::epochs::Scratch;
use super::journal::failed;
use super::pages::{Clear, Compare};
use super::plan::Followed;
use super::tasks::hung::{ends_within, no_thread};

/// What finding the surplus needs.
pub(super) struct DeletionParts {
    pub(super) peer: Arc<dyn TargetPeer>,
    pub(super) spec: TaskSpec,
    pub(super) shared: Arc<Shared>,
    pub(super) scan: ScanSummary,
    /// The plan that says what may be deleted, if one is followed.
    pub(super) followed: Option<Arc<Followed>>,
    /// What earlier attempts have done, if the source was listed anew.
    pub(super) earlier: Option<Arc<Earlier>>,
    /// Directory of the transfer in the journal store.
    pub(super) journal: PathBuf,
    /// Looks at pages that were not opened yet; at the end there are none.
    pub(super) compare: Option<Compare>,
}

/// How what is in the way is taken away, given how the scan has ended: all its pages are in the
/// journal store. A guard that says no is noted, and the run goes on. `None` if nothing is deleted.
pub(super) fn clearing(
    input: &RunInput,
    spec: &TaskSpec,
    shared: &Arc<Shared>,
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

/// How long it may take to end early.
const STOP_MAX: Duration = Duration::from_secs(90);

/// A deletion at work.
pub(super) struct Deletion {
    thread: Option<JoinHandle<Result<(), Problem>>>,
    stop: Arc<AtomicBool>,
    pub(super) deleted: Arc<AtomicU64>,
    scratch: Arc<Scratch>,
}

impl Deletion {
    /// Begins it, on a thread of its own.
    ///
    /// # Errors
    /// `threads`; there is no room for its list.
    pub(super) fn start(parts: DeletionParts) -> Result<Self, Problem> {
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

    /// Where what could not be deleted is listed.
    pub(super) fn undeleted(&self) -> PathBuf {
        undeleted_path(&self.scratch)
    }

    /// How it ended, if it has.
    pub(super) fn poll(&mut self) -> Option<Result<(), Problem>> {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished).then(|| self.join())
    }

    /// Ends it early and waits for that.
    pub(super) fn stop(&mut self) {
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

/// Where the surplus is listed.
fn surplus_path(scratch: &Scratch) -> PathBuf {
    scratch.path().join("surplus.jsonl")
}

/// A refusal: nothing was deleted.
fn refused(title: impl Into<String>) -> Problem {
    Problem::new(Exit::Refused, "delete-refused", title)
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

    /// Takes away what is in the way, if all guards agree to all that would go.
    fn clear(&self, stop: &AtomicBool) -> Result<(), Problem> {
        let scratch = self.scratch()?;
        match self.find(&scratch, stop) {
            Ok(()) => {}
            Err(problem) if problem.exit == Exit::Refused => {
                let mut refused =
                    self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
                *refused = Some(problem);
                return Ok(());
            }
            Err(problem) => return Err(problem),
        }
        // What stays fails with what it is in the way of, and is tried again at the end.
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

    /// How many entries of a page stood at the target before anything of it was made.
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

    /// Lists the surplus and asks the guards.
    ///
    /// # Errors
    /// A guard says no; the target cannot be listed; it was stopped.
    fn find(&self, scratch: &Scratch, stop: &AtomicBool) -> Result<(), Problem> {
        let list = surplus_path(scratch);
        let Some(first) = self.check_scan()? else { return find_nothing(&list) };
        // What takes the place of memory is gone when the list is made.
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
        // What an earlier attempt has made itself is no sign of a wrong target.
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

/// The guards that need no look at the target: of what a scan found. Whether its root is a
/// directory, as `directory` says: else there is nothing that could be deleted.
///
/// # Errors
/// Code `delete-refused`.
pub(super) fn check_scan(
    scan: &ScanSummary,
    directory: impl FnOnce() -> Result<bool, Problem>,
) -> Result<bool, Problem> {
    let errors = scan.errors - scan.unfinished;
    if errors > 0 {
        let title = format!("nothing is deleted: {errors} items could not be listed at the source");
        return Err(refused(title).hint("make them readable, and run it again"));
    }
    let empty = || {
        refused("nothing is deleted: the source is empty")
            .hint("is it mounted? to empty the target, delete there by hand")
    };
    if scan.pages == 0 {
        return Err(empty());
    }
    if !directory()? {
        return Ok(false);
    }
    if scan.entries <= 1 {
        return Err(empty());
    }
    Ok(true)
}

/// The guard that counts: `found` would go, and `existed` of what is at the target would stay.
///
/// # Errors
/// Code `delete-refused`.
pub(super) fn check_amount(
    update: &UpdateOptions,
    found: u64,
    existed: u64,
) -> Result<(), Problem> {
    match update.max_delete {
        Some(most) if found > most => {
            let title = format!(
                "nothing is deleted: {found} items would go, more than the {most} that \
                 --max-delete allows"
            );
            Err(refused(title))
        }
        None if found > existed => {
            let title = format!(
                "nothing is deleted: {found} of the {} items at the target would go, more \
                 than half",
                found + existed
            );
            let hint = format!("if that is right, say so: --max-delete {found}");
            Err(refused(title).hint(hint))
        }
        _ => Ok(()),
    }
}
