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

mod any_peer;
mod control;
mod earlier;
mod failed_links;
mod failure_text;
mod input;
mod journal;
mod pages;
mod peer_session;
mod phases;
mod plan;
mod progress;
mod shared;
mod shares;
mod tasks;
mod temp_cleanup;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::heads::{HeadCommit, HeadStore, PageHead};
use penstock_api::plan::PlanUse;
use penstock_api::problem::{Exit, Problem};
use penstock_api::proof::ProofProgress;
use penstock_api::scan::ScanSummary;
use penstock_api::task::{TargetPeer, TaskSpec};
use penstock_api::transfer::{FailedItem, Progress, TransferOptions};
use penstock_engine::transfer::{Phase, compared_of};
use penstock_proto::compared::Comparison;
use penstock_proto::id::TransferId;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::{Page, page_digest};

pub use control::{RunControl, RunView};
use control::{WISH_CANCEL, WISH_PAUSE};
use earlier::Earlier;
pub use earlier::{TARGET_REPLACED, drop_damaged_proofs, has_lost_names};
use input::{FAILURES_SHOWN, VIEW_INTERVAL};
pub use input::{FindSource, LIST_ANEW, RunInput, RunOutcome};
pub use journal::RunFiles;
use journal::{DurableSet, Journal, checked_path};
use pages::found::{Found, checked_page};
use pages::puller::{Compare, Pulled, Puller, Treatment};
use pages::shared_source::SharedSource;
use pages::unlisted;
use phases::deletion::{Deletion, DeletionParts, clearing};
use phases::deletion_guards::DELETE_REFUSED;
use phases::late_writes::{LATE, LateFile};
use phases::readback::{ProofTotals, Proved, write_checksums};
use phases::setup::{machine_of, prepared};
use phases::source_removal::RemovalTotals;
pub use phases::source_removal::removal_has_begun;
use phases::{content_compare, link_check, outcome};
use plan::{Followed, PLAN_STALE};
use progress::RateView;
use shared::RunShared;
use tasks::{TaskParts, Tasks};
pub use temp_cleanup::clean_abandoned;
use temp_cleanup::touched_pages::in_work;

/// Bytes written since the last commit that make the next one due: at a high rate a process that is
/// killed within a second has something in its ledger.
const COMMIT_BYTES: u64 = 256 << 20;
/// The limit that a run shows while its files are read again.
const READING_AGAIN: &str = "reading again at the target";
/// The reason that a run shows while the source looks again at changed entries.
const ASKING_AGAIN: &str = "the source looks again at files that have changed";

/// Runs a transfer until it ends or is stopped, or makes a plan if the options ask for that only.
/// Blocks all the while: call it on a thread of its own.
pub fn run(mut input: RunInput) -> RunOutcome {
    if let Some(refused) = content_compare::refuses(&input.options) {
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
    let source = SharedSource::new(input.pages);
    let input = RunInput { pages: Box::new(source.clone()), ..input };
    let control = Arc::clone(&input.control);
    let mut carried = Progress::default();
    let mut round = 0;
    loop {
        let begins = Round {
            number: round,
            source: source.clone(),
            carried: carried.clone(),
            followed: followed.clone(),
        };
        let mut run = match Run::begin(&input, begins) {
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
                let _ = std::fs::remove_file(checked_path(&run.journal));
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
    source: SharedSource,
    /// Progress of earlier rounds.
    carried: Progress,
    /// The plan that is followed, if one is.
    followed: Option<Arc<Followed>>,
}

struct Run {
    id: TransferId,
    options: TransferOptions,
    spec: TaskSpec,
    peer: Arc<dyn TargetPeer>,
    heads: Arc<dyn HeadStore>,
    control: Arc<RunControl>,
    shared: Arc<RunShared>,
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
    source: SharedSource,
    /// Totals of the removal at the source; `None` before the removal begins.
    removal: Option<RemovalTotals>,
    late: DurableSet<LateFile>,
}

impl Run {
    fn begin(input: &RunInput, round: Round) -> Result<Self, Problem> {
        let earlier = earlier::begin(input)?;
        let head = unlisted::checked(input.heads.load(input.id)?, &input.journal);
        // The facts of an earlier run do not hold for this one.
        let epoch = input.fence.epoch();
        let _ = std::fs::remove_file(RunFiles::own(&input.journal, epoch).facts);
        let journal = Journal::open(&input.journal, epoch, &head.pages)?;
        let late = DurableSet::open(&input.journal, LATE, epoch)?;
        let in_work = in_work(&*input.peers, &journal, &head)?;
        let (spec, first, start) = prepared(input, &head)?;
        let doubt_all = spec.doubt;
        let mut machine = machine_of(&input.options, &head, doubt_all, input.id);
        if spec.update.delete {
            machine.wait_for_deletion();
        }
        let compares = spec.update.compares() || round.followed.is_some();
        let shared = Arc::new(RunShared::new(machine, journal, compares || earlier.is_some()));
        input.control.update(|view| view.durable_by.clone_from(&start.durable_by));
        let (known, found) = open_earlier(&shared, head.pages, doubt_all)?;
        let (followed, source) = (round.followed, round.source.clone());
        let compare = content_compare::compare_of(input, &spec, &shared, source, followed.as_ref());
        let compare = earlier::carrying(earlier.as_ref(), input.peer(), &spec, compares, compare);
        let clear = clearing(input, &spec, &shared, &compare, followed.as_ref(), &earlier);
        let treatment = Treatment { compare: Arc::clone(&compare), clear };
        let (peer, scan_committed) = (input.peer(), head.scan.is_some());
        let parts = TaskParts::of(input, &shared, &spec, head.epochs, in_work);
        let mut tasks = Tasks::begin(parts, first, start)?;
        let puller = Puller::start(Box::new(round.source.clone()), Arc::clone(&shared), treatment)
            .inspect_err(|_| tasks.stop(false))?;
        if let Some(scan) = &head.scan {
            shared.machine().handle_scan_end(scan.pages);
        }
        Ok(Self {
            failures_shown: unlisted::first(head.scan.as_ref(), &input.journal, FAILURES_SHOWN),
            id: input.id,
            options: input.options.clone(),
            spec,
            peer,
            heads: Arc::clone(&input.heads),
            control: Arc::clone(&input.control),
            puller,
            compare,
            earlier,
            followed,
            asking: None,
            journal: input.journal.clone(),
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
            source: round.source,
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
        let failed = link_check::failed_links(&self.shared, &pages, amended)?;
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
        self.found.add(&page);
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
        self.found.add(&page);
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
            write_checksums(&self.shared, &head.pages, &self.spec.root, options, *kind)?;
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

    /// Returns the files that this run writes.
    fn files(&self) -> RunFiles {
        RunFiles::own(&self.journal, self.spec.fence.epoch())
    }

    fn show_failures(&mut self) {
        let news = self.shared.machine().take_failures();
        for (number, failure) in news {
            if self.failures_shown.len() >= FAILURES_SHOWN {
                return;
            }
            if let Ok(page) = self.shared.read_page(number)
                && let Some(item) = failure_text::failed_item(&page.page, &failure)
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

/// Resumes the work of an earlier run. Returns the heads of the pages that must still be opened,
/// and the contents of the others.
fn open_earlier(
    shared: &RunShared,
    heads: Vec<PageHead>,
    doubt_all: bool,
) -> Result<(BTreeMap<u32, PageHead>, Found), Problem> {
    let complete = |page: &PageHead| page.complete && !doubt_all;
    let (done, open): (Vec<_>, Vec<_>) = heads.into_iter().partition(complete);
    let files = done.iter().map(|page| page.files).sum();
    let bytes = done.iter().map(|page| page.bytes).sum();
    let mut found = Found { entries: files, files, bytes };
    tell_known_failures(shared, done.iter())?;
    let mut known = BTreeMap::new();
    for page in open {
        // Data that an earlier run wrote is checked before anything else is synced: a failed sync
        // must find all data that it may have lost (A4).
        let opened = if doubt_all { None } else { open_kept(shared, &page)? };
        match opened {
            Some(opened) => found.add(&opened),
            None => drop(known.insert(page.page, page)),
        }
    }
    Ok((known, found))
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

/// Links and directories that failed in an earlier run are not counted again.
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
        shared.machine().handle_known_failures(page.page, failed);
    }
    Ok(())
}
