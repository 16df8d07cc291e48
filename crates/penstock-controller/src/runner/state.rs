//! The state of a round that several phases change: tasks, pages, the ledger, the view.

use std::collections::BTreeSet;
use std::time::Instant;

use penstock_api::heads::{HeadCommit, PageHead};
use penstock_api::problem::Problem;
use penstock_engine::transfer::LedgerCommit;

use super::context::RunContext;
use super::pages::puller::Puller;
use super::pages::scan_end::ScanEnd;
use super::progress::RunProgress;
use super::tasks::TaskSet;

/// Bytes written since the last commit that make the next one due: at a high rate a process that is
/// killed within a second has something in its ledger.
const COMMIT_BYTES: u64 = 256 << 20;

/// The state of one round of a run.
pub(crate) struct RunState {
    /// The tasks at the peers.
    pub(crate) tasks: TaskSet,
    /// Pulls pages of the source.
    pub(crate) puller: Puller,
    /// The end of the source's list.
    pub(crate) scan: ScanEnd,
    /// The view of the run.
    pub(crate) progress: RunProgress,
    /// Time of the last commit of the ledger, and the number of bytes written by then.
    committed: (Instant, u64),
}

impl RunState {
    pub(crate) fn new(
        (tasks, puller): (TaskSet, Puller),
        scan: ScanEnd,
        progress: RunProgress,
    ) -> Self {
        Self { tasks, puller, scan, progress, committed: (Instant::now(), 0) }
    }

    /// Brings the view up to date.
    pub(crate) fn show(&mut self, context: &RunContext) {
        self.progress.show(context, &mut self.tasks, &self.puller, &self.scan);
    }

    /// Brings the view up to date if that is due.
    pub(crate) fn show_if_due(&mut self, context: &RunContext) {
        if self.progress.is_due() {
            self.show(context);
        }
    }

    /// Commits the ledger if that is due. Returns whether it has.
    ///
    /// # Errors
    /// As [`RunState::commit`].
    pub(crate) fn commit_if_due(&mut self, context: &RunContext) -> Result<bool, Problem> {
        let (least, most) = context.heads.pace();
        let waited = self.committed.0.elapsed();
        let written = || context.shared.machine().totals().bytes.saturating_sub(self.committed.1);
        let urgent = || context.shared.commit_is_urgent() || written() >= COMMIT_BYTES;
        let is_due = waited >= most || (waited >= least && urgent());
        if is_due {
            self.commit(context)?;
        }
        Ok(is_due)
    }

    /// Commits new records: logs, then heads. Blocks for a write, and for a sync where pieces have
    /// become durable.
    ///
    /// # Errors
    /// The journal or the heads cannot be written; this controller is deposed.
    pub(crate) fn commit(&mut self, context: &RunContext) -> Result<(), Problem> {
        let shared = &context.shared;
        let reported = self.tasks.reported();
        let commit = {
            let mut machine = shared.machine();
            self.committed = (Instant::now(), machine.totals().bytes);
            machine.take_commit()
        };
        let scan = self.scan.uncommitted();
        if commit.is_none() && scan.is_none() {
            self.tasks.keep_left(&BTreeSet::new())?;
            return self.tasks.keep_settled();
        }
        self.tasks.keep_late()?;
        let commit = commit.unwrap_or_default();
        append_logs(context, &commit)?;
        let heads = HeadCommit {
            pages: heads_of(context, &commit),
            scan,
            epochs: commit.synced.iter().map(|(writer, epoch)| (*writer, *epoch)).collect(),
            durable: commit.is_durable(),
            ..HeadCommit::default()
        };
        let complete = commit.pages.iter().filter(|page| page.complete).map(|page| page.page);
        let complete: BTreeSet<u32> = complete.collect();
        self.tasks.keep_left(&complete)?;
        context.heads.commit(context.id, &heads)?;
        if heads.scan.is_some() {
            self.scan.note_committed();
        }
        self.tasks.note_epochs(&heads.epochs);
        self.tasks.forget_pages(&complete);
        shared.machine().handle_committed(&commit);
        self.tasks.note_committed(&reported);
        self.tasks.keep_settled()
    }

    /// Returns whether the end of the run waits for a peer that may have written late, and calls it
    /// back.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(crate) fn calls_back(&mut self) -> Result<bool, Problem> {
        self.tasks.keep_late()?;
        Ok(self.tasks.call_back())
    }
}

/// Appends the records of a commit to the logs of their pages.
fn append_logs(context: &RunContext, commit: &LedgerCommit) -> Result<(), Problem> {
    let mut journal = context.shared.journal();
    for page in &commit.pages {
        journal.append(page.page, &page.append, page.log_bytes)?;
    }
    if commit.is_durable() {
        journal.sync(commit.pages.iter().map(|page| page.page))?;
    }
    Ok(())
}

fn heads_of(context: &RunContext, commit: &LedgerCommit) -> Vec<PageHead> {
    let journal = context.shared.journal();
    let heads = commit.pages.iter().map(|page| PageHead {
        page: page.page,
        digest: page.digest,
        log: journal.log_epoch(page.page),
        log_bytes: page.log_bytes,
        complete: page.complete,
        files: page.files,
        bytes: page.bytes,
        failures: page.failures,
        kept: page.kept,
        kept_bytes: page.kept_bytes,
        asks: page.asks,
    });
    heads.collect()
}
