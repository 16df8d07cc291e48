//! The tasks of a run, with their threads, and orders to all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{self, Duration};

use penstock_api::heads::HeadStore;
use penstock_api::peers::{Member, Peers};
use penstock_api::problem::Problem;
use penstock_api::task::{SourceAccess, Task, TaskFigures, TaskSpec, TaskStart};
use penstock_engine::transfer::Phase;
use penstock_engine::writers::{PresentPeer, WriterRegistry};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::WriterLine;
use penstock_proto::units::Instant;

use super::source::SourceWatch;
use crate::runner::control::RunControl;
use crate::runner::input::{FindSource, RunInput};
use crate::runner::journal::WriterRecord;
use crate::runner::peer_session::PeerSession;
use crate::runner::shared::RunShared;
use crate::runner::shares::Shares;
use crate::runner::temp_cleanup::touched_pages::InWork;

/// A peer's task, from the request to start it to its end.
pub(super) struct PeerTask {
    pub(super) member: Member,
    pub(super) session: Arc<PeerSession>,
    pub(super) stage: Stage,
}

/// A task that has started, and gets no work yet.
pub(super) struct Started {
    pub(super) start: TaskStart,
    pub(super) task: Arc<dyn Task>,
}

/// Stage of a peer's task, as far as threads and calls go.
pub(super) enum Stage {
    /// A thread asks the peer to start it.
    Starting(JoinHandle<Result<Started, Problem>>),
    Running(Arc<dyn Task>),
    /// A thread stops it.
    Stopping {
        task: Arc<dyn Task>,
        stopped: JoinHandle<()>,
        why: String,
    },
}

/// The last failure of a peer.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) why: String,
    /// The error, if it is temporary.
    pub(super) passing: Option<Problem>,
}

/// The inputs of the tasks of a run.
pub(crate) struct TaskParts {
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) shared: Arc<RunShared>,
    pub(crate) heads: Arc<dyn HeadStore>,
    /// The task for every peer; its writer, epoch and grant are not set yet.
    pub(crate) spec: TaskSpec,
    /// The epoch of each writer in the heads.
    pub(crate) epochs: BTreeMap<WriterId, u64>,
    /// The places where writers of an earlier run may have left something.
    pub(crate) in_work: InWork,
    /// Directory of the transfer in the journal store.
    pub(crate) journal: PathBuf,
    /// Receives events about peers.
    pub(crate) control: Arc<RunControl>,
    /// Finds the source's peers again.
    pub(crate) find_source: Option<FindSource>,
}

impl TaskParts {
    pub(crate) fn of(
        input: &RunInput,
        shared: &Arc<RunShared>,
        spec: &TaskSpec,
        epochs: BTreeMap<WriterId, u64>,
        in_work: InWork,
    ) -> Self {
        let (peers, heads) = (Arc::clone(&input.peers), Arc::clone(&input.heads));
        let (spec, journal) = (spec.clone(), input.journal.clone());
        let (shared, control) = (Arc::clone(shared), Arc::clone(&input.control));
        let find_source = input.find_source.clone();
        Self { peers, shared, heads, spec, epochs, in_work, journal, control, find_source }
    }
}

/// All tasks of a run.
pub(crate) struct TaskSet {
    pub(super) parts: TaskParts,
    /// The peers: their states, and what each may still write.
    pub(super) registry: WriterRegistry<Met>,
    /// Threads and tasks of the peers, by number.
    pub(super) tasks: BTreeMap<PeerNumber, PeerTask>,
    /// The facts that later runs and controllers must know of the writers.
    pub(super) record: WriterRecord,
    /// Start of the time by which the registry counts.
    pub(super) began: time::Instant,
    pub(super) looked: time::Instant,
    /// Figures of tasks that are over.
    pub(super) over: TaskFigures,
    /// The share of each peer in the limits of the transfer.
    pub(super) shares: Shares,
    pub(super) last: Option<Problem>,
    /// Peers of the site that could not take part, as recorded last.
    pub(super) excluded: BTreeMap<String, String>,
    /// The addresses of the source's peers.
    pub(super) source: SourceWatch,
}

/// Returns the member as the registry knows it.
pub(super) fn seen(member: &Member) -> PresentPeer {
    PresentPeer {
        writer: member.writer,
        name: member.name.clone(),
        process: member.instance,
        is_own: member.is_own,
        is_draining: member.is_draining,
    }
}

impl TaskSet {
    pub(super) fn grant(&self) -> Option<Duration> {
        self.parts.peers.grant()
    }

    /// Returns the time by which the registry counts.
    pub(super) fn now(&self) -> Instant {
        Instant(0).plus(self.began.elapsed())
    }

    /// Returns the peers that are present, as the registry knows them.
    pub(super) fn present(&self) -> Vec<PresentPeer> {
        self.parts.peers.present().iter().map(seen).collect()
    }

    /// Returns the tasks that run.
    pub(super) fn running(&self) -> impl Iterator<Item = (PeerNumber, &PeerTask, &Arc<dyn Task>)> {
        self.tasks.iter().filter_map(|(number, it)| match &it.stage {
            Stage::Running(task) => Some((*number, it, task)),
            Stage::Starting(_) | Stage::Stopping { .. } => None,
        })
    }

    /// Takes the tasks for which `is_chosen` is true out of the map.
    pub(super) fn take_tasks(
        &mut self,
        is_chosen: impl Fn(&PeerTask) -> bool,
    ) -> BTreeMap<PeerNumber, PeerTask> {
        let tasks = std::mem::take(&mut self.tasks).into_iter();
        let (chosen, others) = tasks.partition(|(_, it)| is_chosen(it));
        self.tasks = others;
        chosen
    }

    /// Returns how many batches of reports of each peer the machine knows.
    pub(crate) fn reported(&self) -> Vec<(PeerNumber, u64)> {
        self.running().map(|(number, it, _)| (number, it.session.reported())).collect()
    }

    /// Tells the tasks that these batches of reports are committed.
    pub(crate) fn note_committed(&self, reported: &[(PeerNumber, u64)]) {
        if self.grant().is_none() {
            return;
        }
        for (number, _, task) in self.running() {
            if let Some((_, batches)) = reported.iter().find(|(other, _)| *other == number) {
                task.committed(*batches);
            }
        }
    }

    /// Makes tasks ask again that found nothing to do.
    pub(crate) fn wake(&self) {
        self.running().for_each(|(_, _, task)| task.wake());
    }

    /// Sends peers their shares of the common limits.
    pub(super) fn tell_shares(&mut self) {
        let news = self.shares.poll(self.parts.peers.now());
        for (number, share) in news {
            if let Some((_, _, task)) = self.running().find(|(running, ..)| *running == number) {
                task.set_share(&share);
            }
        }
    }

    /// Sets the rate that all of them may have together.
    pub(crate) fn set_rate(&mut self, rate: Option<u64>) {
        self.shares.set_rate(rate, self.parts.peers.now());
        if self.grant().is_some() {
            return self.tell_shares();
        }
        let whole = self.shares.whole();
        self.running().for_each(|(_, _, task)| task.set_share(&whole));
    }

    /// Everything that the ledger knows has been looked at again.
    pub(crate) fn doubt_is_over(&mut self) {
        self.parts.spec.doubt = false;
        self.running().for_each(|(_, _, task)| task.doubt_is_over());
    }

    /// Records the writers that may have left something in pages that are about to be committed as
    /// complete.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(crate) fn keep_left(&mut self, complete: &BTreeSet<u32>) -> Result<(), Problem> {
        // Links are made in pages that were complete long before.
        let phase = self.parts.shared.machine().phase();
        let is_tail = !matches!(phase, Phase::Moving | Phase::Asking);
        let mut left = BTreeSet::new();
        for (writer, pages) in self.registry.left_pages() {
            let pages = pages.iter().filter(|page| is_tail || complete.contains(page));
            left.extend(pages.map(|page| (writer, *page)));
        }
        for it in self.tasks.values() {
            let pages = it.session.left_in(complete);
            left.extend(pages.into_iter().map(|page| (it.member.writer, page)));
        }
        self.record.add(WriterLine { left, ..WriterLine::default() })
    }

    /// Pages are complete.
    pub(crate) fn forget_pages(&self, pages: &BTreeSet<u32>) {
        self.running().for_each(|(_, it, _)| it.session.forget(pages));
    }

    /// Epochs were committed.
    pub(crate) fn note_epochs(&mut self, epochs: &[(WriterId, u64)]) {
        self.parts.epochs.extend(epochs.iter().copied());
    }

    /// Returns whether an earlier run may have left links incomplete.
    pub(crate) fn links_in_doubt(&self) -> bool {
        self.parts.in_work.links
    }

    /// Returns all writers, with the open pages in which a writer that no longer takes part may
    /// have left something.
    pub(crate) fn left_overs(&self) -> BTreeMap<WriterId, BTreeSet<u32>> {
        let left = self.registry.left_pages().map(|(writer, pages)| (writer, pages.clone()));
        let mut all: BTreeMap<WriterId, BTreeSet<u32>> = left.collect();
        if self.grant().is_none() {
            all.insert(WriterId::SOLE, BTreeSet::new());
        }
        for writer in self.parts.epochs.keys() {
            all.entry(*writer).or_default();
        }
        for (_, it, _) in self.running() {
            all.entry(it.member.writer).or_default().extend(it.session.take_pages());
        }
        all
    }

    /// Sends tasks the addresses of the source's peers; later tasks receive them at their start.
    /// Sends them after each answer, new or not: a task may have begun meanwhile, or have got
    /// another interface. Never blocks.
    pub(super) fn tell_source(&mut self) {
        let Some(found) = self.source.poll() else { return };
        let SourceAccess::Remote { peers, .. } = &mut self.parts.spec.source else { return };
        peers.clone_from(&found);
        self.running().for_each(|(_, _, task)| task.set_source_peers(&found));
    }
}
