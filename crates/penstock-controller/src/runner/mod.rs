//! Runs one transfer at its target: pulls pages, hands out work, keeps the ledger.
//!
//! One thread owns the run. The thread opens pages when the window asks for them, commits the
//! ledger at least once a second (log files first, heads after, A2), and publishes its state. A
//! second thread pulls pages ahead, so that a round trip to the source costs no time here. The peer
//! calls in through [`penstock_api::task::TaskControl`]. The machine that decides is behind one
//! lock, taken per batch of reports and per request for work, never per stride.
//!
//! The journal and the heads survive a crash. A run that starts again replays the logs of the pages
//! that were not complete and continues. Complete pages are not checked again, unless the sync
//! marker of the store shows that the store itself went back in time (A5).

mod abandoned;
mod again;
mod begin;
mod contents;
mod control;
mod deletion;
mod earlier;
mod epochs;
mod facts;
mod failed_links;
mod figures;
mod files;
mod journal;
mod journal_io;
mod late;
mod lead;
mod left;
mod lines;
mod notes;
mod outcome;
mod own;
mod pages;
mod part;
mod plan;
mod proving;
mod removal;
mod shares;
mod tasks;
mod unlisted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::fence::Fence;
use penstock_api::heads::{HeadCommit, HeadStore, PageHead};
use penstock_api::peers::Peers;
use penstock_api::plan::PlanUse;
use penstock_api::problem::{Exit, Problem};
use penstock_api::proof::ProofProgress;
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::scan::{
    DigestWish, PageReply, PageSource, RecheckRequest, ScanSummary, WishedDigests,
};
use penstock_api::task::{SourceAccess, TargetPeer, TaskSpec};
use penstock_api::transfer::{FailedItem, PathText, Progress, TransferOptions};
use penstock_engine::transfer::{Phase, compared_of};
use penstock_proto::compared::Comparison;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::{Page, page_digest};

pub use abandoned::clean_abandoned;
use begin::{machine_of, prepared, spec_of};
use control::Shared;
use deletion::{DELETE_REFUSED, Deletion, DeletionParts};
use earlier::Earlier;
pub use earlier::{TARGET_REPLACED, drop_damaged_proofs, has_lost_names};
use epochs::Kept;
use failed_links::FailedLinks;
use figures::RateView;
pub use files::RunFiles;
use journal::Journal;
use late::LateFile;
use lead::Lead;
use pages::{Compare, Pulled, Puller, Treatment};
use plan::{Followed, PLAN_STALE};
use proving::{ProofTotals, Proved};
use removal::RemovalTotals;
pub use removal::removal_has_begun;
pub use tasks::FindSource;

/// Code of a temporary problem that only an attempt with a new list of the source solves.
pub const LIST_ANEW: &str = "list-anew";
use tasks::{TaskParts, Tasks};

/// Bytes written since the last commit that make the next one due: at a high rate a process that is
/// killed within a second has something in its ledger.
const COMMIT_BYTES: u64 = 256 << 20;
/// Interval at which the figures are updated.
const VIEW_INTERVAL: Duration = Duration::from_millis(200);
/// The limit that a run shows while its files are read again.
const READING_AGAIN: &str = "reading again at the target";
/// The reason that a run shows while the source looks again at changed entries.
const ASKING_AGAIN: &str = "the source looks again at files that have changed";
/// Failed items that are kept for `show`; the list has all.
const FAILURES_SHOWN: usize = 20;

/// The inputs of a run.
pub struct RunInput {
    /// The transfer.
    pub id: TransferId,
    /// The source list that `pages` belong to. A ledger of an earlier list is replaced, and pieces
    /// that it proves are not moved again.
    pub listing: u32,
    /// Set if the target differs from the target of the earlier list's ledger. The ledger's facts
    /// about its store are discarded then.
    pub is_new_target: bool,
    /// Options of the transfer.
    pub options: TransferOptions,
    /// Store at the target.
    pub store: Name,
    /// Root of the data set within it.
    pub root: PathText,
    /// The source of the pages.
    pub pages: Box<dyn PageSource>,
    /// The access to the data.
    pub source: SourceAccess,
    /// Finds peers of the source that come later; none where it is this host, or one process.
    pub find_source: Option<FindSource>,
    /// The target peers.
    pub peers: Arc<dyn Peers>,
    /// The store in which the heads are committed.
    pub heads: Arc<dyn HeadStore>,
    /// Directory of this transfer in the journal store; made if it is not there.
    pub journal: PathBuf,
    /// The control through which others steer and watch the run.
    pub control: Arc<RunControl>,
    /// Source and target as the user wrote them, for the head of a plan.
    pub places: (PathText, PathText),
    /// Bits per second that were measured between these stores, if they were: for a forecast.
    pub known_rate: Option<f64>,
    /// Checks whether this site's controller may still act (B4).
    pub fence: Fence,
}

impl RunInput {
    /// Returns one peer that represents all, for work that one does for all.
    fn peer(&self) -> Arc<dyn TargetPeer> {
        Arc::new(Lead::new(Arc::clone(&self.peers)))
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Every planned item is verified, and durable under the stated policy.
    Done,
    /// Ended with failed items, or could not continue; the problem has the exit code.
    Failed(Problem),
    /// Stopped by [`RunControl::pause`] with its ledger committed.
    Paused,
    /// Stopped by [`RunControl::cancel`]. No temporary files are left, or its heads are left, and
    /// all of them are still known.
    Cancelled,
}

/// Steers and watches a run from other threads.
#[derive(Debug, Default)]
pub struct RunControl {
    wish: AtomicU8,
    /// A rate that was set since the run looked last.
    rate: Mutex<Option<Option<u64>>>,
    view: Mutex<RunView>,
    notes: notes::Notes,
    expects_full: AtomicBool,
}

const WISH_PAUSE: u8 = 1;
const WISH_CANCEL: u8 = 2;

/// The public view of a run.
#[derive(Clone, Debug, Default)]
pub struct RunView {
    /// Figures.
    pub progress: Progress,
    /// The reason why the run waits, and until when; empty if it moves data.
    pub reason: String,
    /// The method that makes the data durable, in words.
    pub durable_by: String,
    /// The first failed items.
    pub failures: Vec<FailedItem>,
    /// A remark on a run that has ended as done; usually empty.
    pub remark: String,
}

impl RunControl {
    /// Asks the run to stop and keep its ledger.
    pub fn pause(&self) {
        let _ = self.wish.compare_exchange(0, WISH_PAUSE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Asks the run to stop and to remove its files.
    pub fn cancel(&self) {
        self.wish.store(WISH_CANCEL, Ordering::Release);
    }

    /// Returns whether a user has asked the run to stop.
    pub fn is_asked_to_stop(&self) -> bool {
        self.wish.load(Ordering::Acquire) != 0
    }

    fn is_asked_to_cancel(&self) -> bool {
        self.wish.load(Ordering::Acquire) == WISH_CANCEL
    }

    /// Shows a run that takes place elsewhere.
    pub fn show(&self, seen: RunView) {
        self.update(|view| *view = seen);
    }

    /// Sets another limit of the rate, in bits per second; `None` for none.
    pub fn set_rate(&self, rate_bits_per_s: Option<u64>) {
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner) = Some(rate_bits_per_s);
    }

    fn take_rate(&self) -> Option<Option<u64>> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the current view of the run.
    pub fn view(&self) -> RunView {
        self.view.lock().map(|view| view.clone()).unwrap_or_default()
    }

    fn update(&self, change: impl FnOnce(&mut RunView)) {
        if let Ok(mut view) = self.view.lock() {
            change(&mut view);
        }
    }
}

/// Runs a transfer until it ends or is stopped, or makes a plan if the options ask for that only.
/// Blocks all the while: call it on a thread of its own.
pub fn run(mut input: RunInput) -> RunOutcome {
    if let Some(refused) = contents::refuses(&input.options) {
        return RunOutcome::Failed(refused);
    }
    if input.options.plan == Some(PlanUse::Make) {
        return plan::make(input);
    }
    let followed = match Followed::begin(&mut input) {
        Ok(followed) => followed,
        Err(RunOutcome::Paused) if input.control.is_asked_to_cancel() => {
            return RunOutcome::Cancelled;
        }
        Err(outcome) => return outcome,
    };
    let RunInput { pages, control, .. } = input;
    let pages = Arc::new(Mutex::new(pages));
    let mut carried = Progress::default();
    let mut round = 0;
    loop {
        let input = RunInput {
            id: input.id,
            listing: input.listing,
            is_new_target: input.is_new_target,
            options: input.options.clone(),
            store: input.store.clone(),
            root: input.root.clone(),
            pages: Box::new(SamePages(Arc::clone(&pages))),
            source: input.source.clone(),
            find_source: input.find_source.clone(),
            peers: Arc::clone(&input.peers),
            heads: Arc::clone(&input.heads),
            journal: input.journal.clone(),
            control: Arc::clone(&control),
            places: input.places.clone(),
            known_rate: input.known_rate,
            fence: input.fence.clone(),
        };
        let begins = Round {
            number: round,
            pages: Arc::clone(&pages),
            carried: carried.clone(),
            followed: followed.clone(),
        };
        let mut run = match Run::begin(input, begins) {
            Ok(run) => run,
            Err(problem) => {
                control.update(|view| view.reason = problem.to_string());
                return RunOutcome::Failed(problem);
            }
        };
        let ended = run.drive();
        run.stop_helpers();
        match ended {
            Ok(Some(outcome)) => return outcome,
            // Data read back differed from the data written: the ledger lacks them again.
            Ok(None) => carried = run.carry(),
            Err(problem) if problem.code == PLAN_STALE => {
                // No later run can continue with the plan: nothing temporary is left.
                let given_up = run.cancel();
                let _ = std::fs::remove_file(plan::checked_path(&run.journal));
                return RunOutcome::Failed(given_up.err().unwrap_or(problem));
            }
            Err(problem) => {
                run.end_tasks();
                return RunOutcome::Failed(problem);
            }
        }
        round += 1;
    }
}

/// The inputs of one round of a run.
struct Round {
    number: u32,
    /// The source, for requests that the round before does not make.
    pages: removal::Pages,
    /// Progress of earlier rounds.
    carried: Progress,
    /// The plan that is followed, if one is.
    followed: Option<Arc<Followed>>,
}

/// The pages of one source for several rounds of a run.
struct SamePages(removal::Pages);

impl PageSource for SamePages {
    fn page(&mut self, number: u32, wait_ms: u32) -> Result<PageReply, Problem> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).page(number, wait_ms)
    }

    fn ask(&mut self, question: &RecheckRequest) -> Result<u32, Problem> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ask(question)
    }

    fn digests(
        &mut self,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).digests(wish, wait_ms)
    }

    fn remove(&mut self, order: &RemoveOrder) -> Result<RemoveReply, Problem> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(order)
    }
}

struct Run {
    id: TransferId,
    options: TransferOptions,
    spec: TaskSpec,
    peer: Arc<dyn TargetPeer>,
    heads: Arc<dyn HeadStore>,
    control: Arc<RunControl>,
    shared: Arc<Shared>,
    tasks: Tasks,
    puller: Puller,
    compare: Compare,
    /// The work of earlier attempts, if this attempt has listed the source anew.
    earlier: Option<Arc<Earlier>>,
    /// The plan that is followed, if one is.
    followed: Option<Arc<Followed>>,
    /// Pages that the source is being asked about.
    asking: Option<Vec<u32>>,
    journal: PathBuf,
    deletion: Option<Deletion>,
    /// The reason why nothing was deleted.
    refused: Option<Problem>,
    /// Heads of an earlier run that are not opened yet.
    known: BTreeMap<u32, PageHead>,
    doubt_all: bool,
    scan: Option<ScanSummary>,
    scan_committed: bool,
    /// Time of the last commit of the ledger, and the number of bytes written by then.
    committed: (Instant, u64),
    viewed_at: Instant,
    began: Instant,
    found: Found,
    failures_shown: Vec<FailedItem>,
    rate: RateView,
    /// Number of restarts because data read back differed from the data written.
    round: u32,
    /// Progress of earlier rounds.
    carried: Progress,
    proving: Arc<ProofProgress>,
    proved: ProofTotals,
    /// Files that the digest list lacks for their holes.
    not_listed: u64,
    pages: removal::Pages,
    /// Totals of the removal at the source; `None` before the removal begins.
    removal: Option<RemovalTotals>,
    late: Kept<LateFile>,
}

impl Run {
    fn begin(input: RunInput, round: Round) -> Result<Self, Problem> {
        let earlier = earlier::begin(&input)?;
        let head = unlisted::checked(input.heads.load(input.id)?, &input.journal);
        // The facts of an earlier run do not hold for this one.
        let epoch = input.fence.epoch();
        let _ = std::fs::remove_file(RunFiles::own(&input.journal, epoch).facts);
        let journal = Journal::open(&input.journal, epoch, &head.pages)?;
        let late = Kept::open(&input.journal, late::LATE, epoch)?;
        let in_work = left::in_work(&*input.peers, &journal, &head)?;
        let (spec, first, start) = prepared(&input, &head)?;
        let doubt_all = spec.doubt;
        let mut machine = machine_of(&input.options, &head, doubt_all, input.id);
        if spec.update.delete {
            machine.wait_for_deletion();
        }
        let compares = spec.update.compares() || round.followed.is_some();
        let shared = Arc::new(Shared::new(machine, journal, compares || earlier.is_some()));
        input.control.update(|view| view.durable_by.clone_from(&start.durable_by));
        let (known, found) = open_earlier(&shared, head.pages, doubt_all)?;
        let (followed, same) = (round.followed, SamePages(Arc::clone(&round.pages)));
        let compare = contents::compare_of(&input, &spec, &shared, same, followed.as_ref());
        let compare = earlier::carrying(earlier.as_ref(), input.peer(), &spec, compares, compare);
        let clear =
            deletion::clearing(&input, &spec, &shared, &compare, followed.as_ref(), &earlier);
        let treatment = Treatment { compare: Arc::clone(&compare), clear };
        let (peer, scan_committed) = (input.peer(), head.scan.is_some());
        let parts = TaskParts::of(&input, &shared, &spec, head.epochs, in_work);
        let mut tasks = Tasks::begin(parts, first, start)?;
        let puller = Puller::start(input.pages, Arc::clone(&shared), treatment)
            .inspect_err(|_| tasks.stop(false))?;
        if let Some(scan) = &head.scan {
            shared.machine().handle_scan_end(scan.pages);
        }
        Ok(Self {
            failures_shown: unlisted::first(head.scan.as_ref(), &input.journal, FAILURES_SHOWN),
            id: input.id,
            options: input.options,
            spec,
            peer,
            heads: input.heads,
            control: input.control,
            puller,
            compare,
            earlier,
            followed,
            asking: None,
            journal: input.journal,
            deletion: None,
            refused: None,
            shared,
            tasks,
            known,
            doubt_all,
            scan: head.scan,
            scan_committed,
            committed: (Instant::now(), 0),
            viewed_at: Instant::now(),
            began: Instant::now(),
            found,
            rate: RateView::default(),
            round: round.number,
            carried: round.carried,
            proving: Arc::default(),
            proved: ProofTotals::default(),
            not_listed: 0,
            pages: round.pages,
            removal: None,
            late,
        })
    }

    /// Ends the threads that compare, pull and delete.
    fn stop_helpers(&mut self) {
        self.shared.comparing.progress.stop.store(true, Ordering::Release);
        self.puller.stop();
        if let Some(deletion) = &mut self.deletion {
            deletion.stop();
        }
    }

    /// Ends the tasks of a run that cannot continue, or leaves them to the next controller.
    fn end_tasks(&mut self) {
        match self.spec.fence.holds() {
            true => self.tasks.stop(false),
            false => self.tasks.leave(),
        }
    }

    /// The loop: open pages, commit, look, until the end. `None` if it is to begin again.
    fn drive(&mut self) -> Result<Option<RunOutcome>, Problem> {
        let mut was = None;
        loop {
            let opened = self.open_pages()?;
            self.show_failures();
            self.spec.fence.check()?;
            let (least, most) = self.heads.pace();
            let waited = self.committed.0.elapsed();
            let urgent = || self.shared.commit_is_urgent() || self.uncommitted() >= COMMIT_BYTES;
            let commits = waited >= most || (waited >= least && urgent());
            if commits {
                self.commit()?;
            }
            if self.viewed_at.elapsed() >= VIEW_INTERVAL {
                self.show();
            }
            if let Some(rate) = self.control.take_rate() {
                self.tasks.set_rate(rate);
            }
            match self.control.wish.load(Ordering::Acquire) {
                WISH_PAUSE => return self.pause().map(Some),
                WISH_CANCEL => return self.cancel().map(Some),
                _ => {}
            }
            let nobody_left = self.tasks.tend()?;
            self.read_logs()?;
            let phase = self.shared.machine().phase();
            if let Some(problem) = nobody_left.filter(|_| phase != Phase::Done) {
                return self.break_off(problem).map(Some);
            }
            if self.doubt_all && !matches!(phase, Phase::Moving | Phase::Asking) {
                self.end_doubt()?;
            }
            if phase == Phase::Asking {
                self.ask_again()?;
            }
            if phase == Phase::Deleting {
                self.delete()?;
            }
            if phase == Phase::Directories && self.shared.failed_links.get().is_none() {
                self.find_failed_links()?;
                self.tasks.wake();
            }
            if phase == Phase::Done && !self.calls_back()? {
                return self.finish();
            }
            let next = self.shared.machine().phase();
            let changes = was.replace(next) != Some(next);
            if opened || commits || changes {
                self.tasks.wake();
            }
            if !opened && !changes {
                self.shared.wait(Duration::from_millis(50));
            }
        }
    }

    /// Bytes that were written since the last commit.
    fn uncommitted(&self) -> u64 {
        self.shared.machine().totals().bytes.saturating_sub(self.committed.1)
    }

    /// Ends the doubt about the store: all data in the ledger is in its place, and is seen from now
    /// on.
    fn end_doubt(&mut self) -> Result<(), Problem> {
        self.doubt_all = false;
        let mounts = Some(self.spec.mounts.clone());
        self.heads.commit(self.id, &HeadCommit { mounts, ..HeadCommit::default() })?;
        self.tasks.doubt_is_over();
        Ok(())
    }

    /// Reads the logs of pages in which a peer that is gone wrote something.
    fn read_logs(&self) -> Result<(), Problem> {
        loop {
            let Some((page, bytes)) = self.shared.machine().wants_log() else { return Ok(()) };
            let (log, _) = self.shared.journal().read_log(page, bytes)?;
            self.shared.machine().handle_log(page, log);
        }
    }

    /// Begins to delete entries that are not in the data set, or takes over the result.
    fn delete(&mut self) -> Result<(), Problem> {
        // The refusal of a guard before the end holds at the end.
        let said = self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(problem) = said {
            self.refused = Some(problem);
            self.shared.machine().handle_deleted();
            return Ok(());
        }
        let Some(deletion) = &mut self.deletion else {
            let parts = DeletionParts {
                peer: Arc::clone(&self.peer),
                spec: self.spec.clone(),
                shared: Arc::clone(&self.shared),
                scan: self.scan.clone().unwrap_or_default(),
                followed: self.followed.clone(),
                earlier: self.earlier.clone(),
                journal: self.journal.clone(),
                compare: None,
            };
            self.deletion = Some(Deletion::start(parts)?);
            return Ok(());
        };
        match deletion.poll() {
            None => return Ok(()),
            Some(Ok(())) => {}
            // Nothing was deleted; moved entries are finished in order.
            Some(Err(problem)) if problem.code == DELETE_REFUSED || problem.code == PLAN_STALE => {
                self.refused = Some(problem);
            }
            Some(Err(problem)) => return Err(problem),
        }
        self.shared.machine().handle_deleted();
        Ok(())
    }

    /// Finds out which files have failed that have further names: these are made next.
    fn find_failed_links(&mut self) -> Result<(), Problem> {
        self.commit()?;
        let pages = self.heads.load(self.id)?.pages;
        let amended = self.scan.as_ref().is_some_and(|scan| scan.amending > 0);
        let failed = FailedLinks::read(&self.shared, &pages, amended)?;
        // Only this line sets it.
        let _ = self.shared.failed_links.set(failed);
        Ok(())
    }

    /// Opens the pages that the window asks for. Returns whether any was opened.
    fn open_pages(&mut self) -> Result<bool, Problem> {
        let mut opened = self.scan.is_none() && self.end_scan();
        loop {
            let Some(number) = self.shared.machine().wants_page() else { return Ok(opened) };
            if let Some(head) = self.known.remove(&number) {
                self.open_known(&head)?;
                opened = true;
                continue;
            }
            match self.puller.page(number)? {
                Some(Pulled::Page(encoded, compared)) => {
                    self.open_new(number, &encoded, compared)?;
                    opened = true;
                }
                Some(Pulled::End) => opened |= self.end_scan(),
                None => return Ok(opened),
            }
        }
    }

    /// Takes over the end of the scan as soon as it is known, so that users see totals. Returns
    /// whether it is known.
    fn end_scan(&mut self) -> bool {
        let Some(summary) = self.puller.end() else { return false };
        self.shared.machine().handle_scan_end(summary.pages);
        let shown = if self.scan.is_some() { FAILURES_SHOWN } else { self.failures_shown.len() };
        let room = FAILURES_SHOWN.saturating_sub(shown);
        self.failures_shown.extend(unlisted::first(Some(&summary), &self.journal, room));
        self.scan = Some(summary);
        true
    }

    fn open_new(
        &mut self,
        number: u32,
        encoded: &[u8],
        compared: Comparison,
    ) -> Result<(), Problem> {
        let page = checked_page(self.id, number, encoded)?;
        self.shared.journal().write_page(number, encoded)?;
        let digest = page_digest(encoded);
        count_found(&mut self.found, &page);
        let amendments = self.amendments(&page, &compared)?;
        let extents = match self.earlier.as_ref().filter(|_| page.round == 0) {
            Some(earlier) => {
                let standard = self.spec.digest_list || self.spec.proves;
                earlier.extents(&page, &compared.left(), standard)?
            }
            None => Vec::new(),
        };
        let page = self.shared.remember(page, digest, compared.left()).page;
        let mut machine = self.shared.machine();
        if self.shared.is_compared(&page) {
            machine.handle_compared_page(&page, digest, compared, extents, self.doubt_all);
        } else {
            machine.handle_page(&page, digest, Vec::new(), 0, false);
        }
        for (number, amendment) in amendments {
            machine.handle_amended(number, amendment);
        }
        Ok(())
    }

    fn open_known(&mut self, head: &PageHead) -> Result<(), Problem> {
        let kept = self.shared.journal().read_page(head.page)?;
        let encoded = match kept.filter(|encoded| page_digest(encoded) == head.digest) {
            Some(encoded) => encoded,
            None => self.puller.page_again(head.page, head.digest)?,
        };
        let page = checked_page(self.id, head.page, &encoded)?;
        let (log, log_bytes) = self.shared.journal().read_log(head.page, head.log_bytes)?;
        if compared_of(&log).is_none() && self.shared.is_compared(&page) {
            // No piece of the page was handed out before its decisions were committed.
            let compared = (self.compare)(&page)?;
            return self.open_new(head.page, &encoded, compared);
        }
        let compared = compared_of(&log).cloned().unwrap_or_default();
        if self.doubt_all && !compared.carried.is_empty() {
            // Files that were carried over are in no piece that could be looked at again.
            let title = "the target's store is older than files that earlier attempts have done";
            return Err(Problem::new(Exit::Temporary, LIST_ANEW, title)
                .hint("the next attempt lists the source anew, and moves all of it"));
        }
        count_found(&mut self.found, &page);
        let page = self.shared.remember(page, head.digest, compared.left()).page;
        let mut machine = self.shared.machine();
        machine.handle_page(&page, head.digest, log, log_bytes, self.doubt_all);
        Ok(())
    }

    /// Commits new records: logs, then heads.
    fn commit(&mut self) -> Result<(), Problem> {
        let reported = self.tasks.reported();
        let commit = {
            let mut machine = self.shared.machine();
            self.committed = (Instant::now(), machine.totals().bytes);
            machine.take_commit()
        };
        let scan = (!self.scan_committed).then(|| self.scan.clone()).flatten();
        if commit.is_none() && scan.is_none() {
            self.tasks.keep_left(&BTreeSet::new())?;
            return self.keep_settled();
        }
        self.keep_late()?;
        let commit = commit.unwrap_or_default();
        let durable = commit.is_durable();
        {
            let mut journal = self.shared.journal();
            for page in &commit.pages {
                journal.append(page.page, &page.append, page.log_bytes)?;
            }
            if durable {
                journal.sync(commit.pages.iter().map(|page| page.page))?;
            }
        }
        let log = |page| self.shared.journal().log_epoch(page);
        let pages = commit.pages.iter().map(|page| PageHead {
            page: page.page,
            digest: page.digest,
            log: log(page.page),
            log_bytes: page.log_bytes,
            complete: page.complete,
            files: page.files,
            bytes: page.bytes,
            failures: page.failures,
            kept: page.kept,
            kept_bytes: page.kept_bytes,
            asks: page.asks,
        });
        let heads = HeadCommit {
            pages: pages.collect(),
            scan: scan.clone(),
            epochs: commit.synced.iter().map(|(writer, epoch)| (*writer, *epoch)).collect(),
            durable,
            ..HeadCommit::default()
        };
        let complete = commit.pages.iter().filter(|page| page.complete).map(|page| page.page);
        let complete: BTreeSet<u32> = complete.collect();
        self.tasks.keep_left(&complete)?;
        self.heads.commit(self.id, &heads)?;
        self.scan_committed |= scan.is_some();
        self.tasks.note_epochs(&heads.epochs);
        self.tasks.forget_pages(&complete);
        self.shared.machine().handle_committed(&commit);
        self.tasks.note_committed(&reported);
        self.keep_settled()
    }

    fn pause(&mut self) -> Result<RunOutcome, Problem> {
        self.tasks.stop(false);
        self.commit()?;
        self.show();
        Ok(RunOutcome::Paused)
    }

    fn break_off(&mut self, problem: Problem) -> Result<RunOutcome, Problem> {
        self.tasks.stop(false);
        self.commit()?;
        self.show();
        Ok(RunOutcome::Failed(problem))
    }

    fn cancel(&mut self) -> Result<RunOutcome, Problem> {
        self.tasks.stop(true);
        self.commit()?;
        self.spec.fence.check()?;
        let all = self.clean_all()?;
        // Discarding the journal retries removals that failed.
        if all {
            self.heads.remove(self.id)?;
        }
        Ok(RunOutcome::Cancelled)
    }

    /// Returns the number of entries that this round has deleted.
    fn deleted(&self) -> u64 {
        let cleared = self.shared.cleared.load(Ordering::Relaxed);
        let last = self.deletion.as_ref().map(|last| last.deleted.load(Ordering::Relaxed));
        cleared + last.unwrap_or(0)
    }

    /// Finishes a run whose data is all durable: writes the lists, cleans up, and returns the
    /// result.
    fn finish(&mut self) -> Result<Option<RunOutcome>, Problem> {
        self.tasks.stop(false);
        self.commit()?;
        match self.prove()? {
            Proved::All => {}
            Proved::Again => return Ok(None),
            Proved::Stopped => return self.stop_proving().map(Some),
        }
        self.spec.fence.check()?;
        // Before anything goes at the source, which is looked for as it was made here (C6).
        self.mend_late()?;
        self.spec.fence.check()?;
        if !self.remove_source()? {
            return self.stop_proving().map(Some);
        }
        self.spec.fence.check()?;
        self.clean_left_overs()?;
        let head = self.heads.load(self.id)?;
        let scan = self.scan.clone().unwrap_or_default();
        let tally = outcome::write_lists(
            &self.shared,
            &head,
            &scan,
            &self.spec.root,
            self.options.digest_list,
            self.deletion.as_ref().map(Deletion::undeleted),
        )?;
        for kind in &self.options.proof.also_digests {
            let options = &self.options.proof;
            proving::write_checksums(&self.shared, &head.pages, &self.spec.root, options, *kind)?;
        }
        self.not_listed = tally.not_listed;
        self.show_failures();
        self.show();
        if self.options.proof.receipt {
            self.keep_facts(&head, &scan)?;
        }
        self.files().remove_others(&self.options.proof.also_digests);
        self.tell_silent();
        earlier::note_end(&self.journal, self.spec.fence.epoch())?;
        let refused = self.refused.take();
        Ok(Some(match refused.or_else(|| tally.problem()) {
            Some(problem) => RunOutcome::Failed(problem),
            None => RunOutcome::Done,
        }))
    }

    fn show_failures(&mut self) {
        let news = self.shared.machine().take_failures();
        for (number, failure) in news {
            if self.failures_shown.len() >= FAILURES_SHOWN {
                return;
            }
            if let Ok(page) = self.shared.read_page(number)
                && let Some(item) = outcome::failed_item(&page.page, &failure)
            {
                self.failures_shown.push(item);
            }
        }
    }

    /// Returns the progress to which a further round adds.
    fn carry(&mut self) -> Progress {
        self.show();
        self.control.view().progress
    }
}

/// Decodes a page, and checks that it is the one that was asked for.
fn checked_page(id: TransferId, number: u32, encoded: &[u8]) -> Result<Page, Problem> {
    let page = Page::decode(encoded).map_err(|cause| {
        let title = format!("page {number} of the data set is broken");
        Problem::new(Exit::Fatal, "manifest", title).because(cause)
    })?;
    if page.transfer != id || page.number != number {
        let title = format!("the source gave another page than number {number}");
        return Err(Problem::new(Exit::Fatal, "manifest", title));
    }
    Ok(page)
}

/// Entries, files and bytes that a scan has found.
type Found = (u64, u64, u64);

/// Resumes the work of an earlier run. Returns the heads of the pages that must still be opened,
/// and the contents of the others.
fn open_earlier(
    shared: &Shared,
    heads: Vec<PageHead>,
    doubt_all: bool,
) -> Result<(BTreeMap<u32, PageHead>, Found), Problem> {
    let complete = |page: &PageHead| page.complete && !doubt_all;
    let (done, open): (Vec<_>, Vec<_>) = heads.into_iter().partition(complete);
    let files = done.iter().map(|page| page.files).sum();
    let mut found = (files, files, done.iter().map(|page| page.bytes).sum());
    tell_known_failures(shared, done.iter())?;
    let mut known = BTreeMap::new();
    for page in open {
        // Data that an earlier run wrote is checked before anything else is synced: a failed sync
        // must find all data that it may have lost (A4).
        let opened = if doubt_all { None } else { open_kept(shared, &page)? };
        match opened {
            Some(opened) => count_found(&mut found, &opened),
            None => drop(known.insert(page.page, page)),
        }
    }
    Ok((known, found))
}

/// Opens a page of an earlier run from the journal store; `None` if it is not there whole.
fn open_kept(shared: &Shared, head: &PageHead) -> Result<Option<Page>, Problem> {
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

/// Adds a page to the entries, files and bytes that the scan has found so far.
fn count_found(found: &mut Found, page: &Page) {
    if page.round > 0 {
        return;
    }
    found.0 += page.entries().len() as u64;
    found.1 += page.file_count();
    found.2 += page.file_bytes();
}

/// Links and directories that failed in an earlier run are not counted again.
fn tell_known_failures<'a>(
    shared: &Shared,
    complete: impl Iterator<Item = &'a PageHead>,
) -> Result<(), Problem> {
    for page in complete.filter(|page| page.failures > 0) {
        let (log, _) = shared.journal().read_log(page.page, page.log_bytes)?;
        let failed = log.iter().filter_map(|record| match record {
            JournalRecord::Failed(failure) => Some(failure.entry),
            _ => None,
        });
        shared.machine().handle_known_failures(page.page, failed);
    }
    Ok(())
}
