//! The tasks of a run as the run sees them: its requests to its peers, and its messages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time;

use penstock_api::heads::HeadStore;
use penstock_api::peers::{Member, Peers};
use penstock_api::problem::Problem;
use penstock_api::rest::FlightKind;
use penstock_api::task::{TargetPeer, TaskFigures, TaskSpec, TaskStart};
use penstock_api::transfer::PeerShare;
use penstock_engine::lease::lapse_after;
use penstock_engine::transfer::Phase;
use penstock_engine::writers::{Followed, PresentPeer, WriterRegistry};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::LateFile;
use penstock_proto::units::Instant;

use super::figures_sum::FiguresSum;
use super::hung_stores::HungStores;
use super::peer_decisions::{PeerDecisions, share_text};
use super::peer_events::PeerEvents;
use super::peer_failures::{PeerFailure, PeerFailures};
use super::peer_tasks::PeerTasks;
use super::shares::Shares;
use super::source_watch::SourceWatch;
use super::task_specs::TaskSpecs;
use super::writer_log::WriterLog;
use crate::runner::control::RunControl;
use crate::runner::input::{FindSource, RunInput};
use crate::runner::shared::RunShared;
use crate::runner::temp_cleanup::touched_pages::InWork;

/// Time for which pieces that peers may have written for an earlier controller are not handed out.
/// Pieces that they do not report in that time are fetched again. Peers join within a fraction of a
/// second.
const ADOPTION_WAIT: time::Duration = time::Duration::from_secs(3);

/// The inputs of the tasks of a run.
pub(crate) struct TaskParts {
    peers: Arc<dyn Peers>,
    shared: Arc<RunShared>,
    heads: Arc<dyn HeadStore>,
    specs: TaskSpecs,
    /// The places where writers of an earlier run may have left something.
    in_work: InWork,
    /// Directory of the transfer in the journal store.
    journal: PathBuf,
    /// Receives events about peers.
    control: Arc<RunControl>,
    /// Most peers that may take part, if the user has set a limit.
    peers_max: Option<u32>,
    /// Finds the source's peers again.
    find_source: Option<FindSource>,
}

impl TaskParts {
    /// Returns the inputs for a run whose heads have these epochs. The task for every peer is
    /// `spec`, without writer, epoch and grant.
    pub(crate) fn of(
        input: &RunInput,
        shared: &Arc<RunShared>,
        spec: &TaskSpec,
        epochs: BTreeMap<WriterId, u64>,
        in_work: InWork,
    ) -> Self {
        let (peers, heads) = (Arc::clone(&input.peers), Arc::clone(&input.heads));
        let specs = TaskSpecs::new(spec.clone(), epochs, peers.grant());
        let (shared, control) = (Arc::clone(shared), Arc::clone(&input.control));
        let (journal, find_source) = (input.journal.clone(), input.find_source.clone());
        let peers_max = input.options.peers_max;
        Self { peers, shared, heads, specs, in_work, journal, control, peers_max, find_source }
    }
}

/// All tasks of a run. Each fact about peers has one owner here; the set passes events from one to
/// the others.
pub(crate) struct TaskSet {
    pub(super) peers: Arc<dyn Peers>,
    pub(super) shared: Arc<RunShared>,
    pub(super) heads: Arc<dyn HeadStore>,
    /// The states of the peers, and their possible late writes.
    pub(super) registry: WriterRegistry<PeerFailure>,
    /// Their threads and tasks.
    pub(super) tasks: PeerTasks,
    /// The tasks that they are asked to start.
    pub(super) specs: TaskSpecs,
    /// The facts that later runs and controllers must know of the writers.
    pub(super) log: WriterLog,
    /// Their shares in the limits of the transfer.
    pub(super) shares: Shares,
    /// Their decisions, as far as they are recorded.
    pub(super) decisions: PeerDecisions,
    pub(super) failures: PeerFailures,
    pub(super) events: PeerEvents,
    pub(super) hung: HungStores,
    /// The addresses of the source's peers.
    pub(super) source: SourceWatch,
    /// Figures of tasks that are over.
    pub(super) ended: TaskFigures,
    /// Set if an earlier run may have left links incomplete.
    links_in_doubt: bool,
    /// Start of the time by which the registry counts.
    began: time::Instant,
    /// Time of the next look at the peers that are present.
    pub(super) next_look: time::Instant,
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
    /// Starts the task of the first peer, which was prepared already. Blocks for that.
    ///
    /// # Errors
    /// The journal store cannot be read or written, this controller is deposed, or the only peer of
    /// a site cannot start. No task is left at work then.
    pub(crate) fn begin(
        parts: TaskParts,
        first: Member,
        start: TaskStart,
    ) -> Result<Self, Problem> {
        let TaskParts { peers, shared, heads, specs, in_work, journal, .. } = parts;
        let TaskParts { control, peers_max, find_source, .. } = parts;
        let (spec, grant) = (specs.common(), specs.grant());
        let mut log = WriterLog::open(&journal, spec.fence.clone(), grant.is_some())?;
        let present: Vec<PresentPeer> = peers.present().iter().map(seen).collect();
        let (mut registry, followed) = log.follow(&specs.writers().collect(), &present)?;
        // A site that has had one peer may not have noted yet that it wrote.
        for writer in specs.writers().chain([WriterId::SOLE]) {
            registry.handle_left_pages(writer, in_work.pages.iter().copied());
        }
        if let Some(grant) = grant {
            wait_for_earlier(&shared, followed, peers.now(), grant);
        }
        let now = time::Instant::now();
        let mut set = Self {
            registry,
            tasks: PeerTasks::default(),
            log,
            shares: Shares::new(spec, peers_max, peers.now().0),
            decisions: PeerDecisions::default(),
            failures: PeerFailures::default(),
            events: PeerEvents::new(&peers, control, spec.transfer),
            hung: HungStores::new(spec.store.clone(), grant),
            source: SourceWatch::new(find_source),
            ended: TaskFigures::default(),
            links_in_doubt: in_work.links,
            began: now,
            next_look: now,
            peers,
            shared,
            heads,
            specs,
        };
        if let Err(problem) = set.start_first(first, start) {
            set.stop(false);
            return Err(problem);
        }
        Ok(set)
    }

    /// Returns whether the site may have several peers: then peers have grants, and a fence.
    pub(super) fn has_grants(&self) -> bool {
        self.specs.grant().is_some()
    }

    /// Returns the time by which the registry counts.
    pub(super) fn now(&self) -> Instant {
        Instant(0).plus(self.began.elapsed())
    }

    /// Returns how many batches of reports of each peer the machine knows.
    pub(crate) fn reported(&self) -> Vec<(PeerNumber, u64)> {
        self.tasks.reported()
    }

    /// Tells the tasks that these batches of reports are committed.
    pub(crate) fn note_committed(&self, reported: &[(PeerNumber, u64)]) {
        if self.has_grants() {
            self.tasks.note_committed(reported);
        }
    }

    /// Makes tasks ask again that found nothing to do.
    pub(crate) fn wake(&self) {
        self.tasks.wake();
    }

    /// Sets the rate that all peers may have together.
    pub(crate) fn set_rate(&mut self, rate: Option<u64>) {
        self.shares.set_rate(rate, self.peers.now());
        if self.has_grants() {
            return self.tell_shares();
        }
        let whole = self.shares.whole();
        self.tasks.working().for_each(|it| it.task.set_share(&whole));
    }

    /// Sends peers their shares of the common limits, as far as these have changed.
    pub(super) fn tell_shares(&mut self) {
        for (number, share) in self.shares.poll(self.peers.now()) {
            self.tasks.set_share(number, &share);
            if let Some(it) = self.tasks.working_of(number) {
                let text = share_text(&share);
                self.events.flight().add(FlightKind::Share, &it.member.name, &text);
            }
        }
    }

    /// Handles the end of the doubt about the store: all that the ledger knows was looked at again.
    pub(crate) fn doubt_is_over(&mut self) {
        self.specs.handle_doubt_over();
        self.tasks.end_doubt();
    }

    /// Handles pages that are complete.
    pub(crate) fn forget_pages(&self, pages: &BTreeSet<u32>) {
        self.tasks.forget_pages(pages);
    }

    /// Handles epochs that were committed.
    pub(crate) fn note_epochs(&mut self, epochs: &[(WriterId, u64)]) {
        self.specs.handle_committed(epochs);
    }

    /// Records the writers that may have left something in pages that are about to be committed as
    /// complete.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(crate) fn keep_left(&mut self, complete: &BTreeSet<u32>) -> Result<(), Problem> {
        // Links are made in pages that were complete long before.
        let phase = self.shared.machine().phase();
        let is_tail = !matches!(phase, Phase::Moving | Phase::Asking);
        let mut left = self.tasks.left_in(complete);
        for (writer, pages) in self.registry.left_pages() {
            let pages = pages.iter().filter(|page| is_tail || complete.contains(page));
            left.extend(pages.map(|page| (writer, *page)));
        }
        self.log.keep_left(left)
    }

    /// Records the writers that no longer hold a grant, with the files that these may write late.
    ///
    /// # Errors
    /// The journal store cannot be written, or this controller is deposed.
    pub(crate) fn keep_settled(&mut self) -> Result<(), Problem> {
        let late = || self.shared.machine().late_files().collect();
        self.log.keep_settled(&mut self.registry, late)
    }

    /// Records the files that must be checked again at the end.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(crate) fn keep_late(&mut self) -> Result<(), Problem> {
        let late = self.shared.machine().late_files().collect();
        self.log.keep_late(late)
    }

    /// Returns the files that must be checked again at the end.
    pub(crate) fn late(&self) -> &BTreeSet<LateFile> {
        self.log.late()
    }

    /// Calls back the peers that may write late and have a live process (B1). Returns whether the
    /// end of the run waits for one. Never blocks.
    pub(crate) fn call_back(&mut self) -> bool {
        let (late, present, now) = (self.log.late_writers(), self.present(), self.now());
        self.registry.poll_calls(&late, &present, self.shares.peers_max(), now)
    }

    /// Marks a peer as one that may write late, because it does not answer.
    pub(crate) fn handle_silent(&mut self, writer: WriterId) {
        self.registry.handle_silent(writer);
    }

    /// Returns the peer of `writer`, if its late writes are over. Its own client knows of these
    /// before others do.
    pub(crate) fn heard(&self, writer: WriterId) -> Option<Arc<dyn TargetPeer>> {
        let is_heard = !self.registry.may_write_late(writer, None);
        let mut present = self.peers.present().into_iter();
        present.find(|member| is_heard && member.writer == writer).map(|member| member.peer)
    }

    /// Returns the writers that may still write late, in words as far as their names are known.
    pub(crate) fn silent(&self) -> BTreeMap<WriterId, String> {
        let silent = self.registry.late_writers(&self.log.late_writers(), &self.present());
        let told = silent.into_iter().map(|(writer, name)| {
            let told = name.map_or_else(
                || format!("a peer that has left the site (writer {writer})"),
                |name| format!("peer `{name}`"),
            );
            (writer, told)
        });
        told.collect()
    }

    fn present(&self) -> Vec<PresentPeer> {
        self.peers.present().iter().map(seen).collect()
    }

    /// Returns whether an earlier run may have left links incomplete.
    pub(crate) fn links_in_doubt(&self) -> bool {
        self.links_in_doubt
    }

    /// Returns all writers, with the open pages in which a writer that no longer takes part may
    /// have left something.
    pub(crate) fn left_overs(&self) -> BTreeMap<WriterId, BTreeSet<u32>> {
        let left = self.registry.left_pages().map(|(writer, pages)| (writer, pages.clone()));
        let mut all: BTreeMap<WriterId, BTreeSet<u32>> = left.collect();
        let sole = [WriterId::SOLE].into_iter().filter(|_| !self.has_grants());
        for writer in self.specs.writers().chain(sole) {
            all.entry(writer).or_default();
        }
        for it in self.tasks.working() {
            all.entry(it.member.writer).or_default().extend(it.session.take_pages());
        }
        all
    }

    /// Returns the sums over all tasks, ended ones included. Returns also the activity of each
    /// peer, where there was ever more than one.
    pub(crate) fn figures(&mut self) -> (TaskFigures, Vec<PeerShare>) {
        if !self.has_grants()
            && let Some(only) = self.tasks.working().next()
        {
            let figures = only.task.figures();
            let (of, grants) = ((only.number(), &*only.member.name), only.session.take_grants());
            self.decisions.handle_figures(of, &figures, grants, self.events.flight());
            return (figures, Vec::new());
        }
        let now = self.peers.now();
        let mut sum = FiguresSum::new(&self.ended);
        for it in self.tasks.working() {
            let (number, figures) = (it.number(), it.task.figures());
            self.shares.handle_figures(number, &figures, now);
            let (of, grants) = ((number, &*it.member.name), it.session.take_grants());
            self.decisions.handle_figures(of, &figures, grants, self.events.flight());
            sum.add_working(&it.member.name, self.registry.is_draining(number), figures);
        }
        for it in self.tasks.stopping() {
            let figures = it.stopped.task.figures();
            // Until its end the task uses its share.
            self.shares.handle_figures(it.stopped.number(), &figures, now);
            sum.add_leaving(&it.stopped.member.name, &it.why, figures);
        }
        self.tasks.starting().for_each(|member| sum.add_joining(&member.name));
        self.add_absent(&mut sum);
        self.tell_shares();
        sum.finish(|| {
            let (until, is_held) = self.shared.machine().waits_until()?;
            is_held.then(|| until.since(now))
        })
    }

    /// Adds the peers of the site that take no part.
    fn add_absent(&self, sum: &mut FiguresSum) {
        let is_full = self.registry.taking() >= self.shares.peers_max();
        let absent = self.peers.present().into_iter();
        for member in absent.filter(|member| !self.tasks.has_task(member.writer)) {
            match self.registry.last_failure(member.writer, self.now()) {
                Some((failure, again)) => sum.add_out(&member.name, &failure.why, again),
                None if is_full && !member.is_draining => sum.add_resting(&member.name),
                None => {}
            }
        }
        for (peer, why) in self.events.excluded().iter() {
            sum.add_excluded(peer, why);
        }
    }
}

/// Has the machine wait for possible writes, past and future, of an earlier run's writers.
fn wait_for_earlier(shared: &RunShared, followed: Followed, now: Instant, grant: time::Duration) {
    let mut machine = shared.machine();
    // The last controller may have handed them extents that they still write (B3).
    machine.wait_for_writers(followed.awaited, now.plus(lapse_after(grant)));
    machine.wait_for_reports(followed.reporting, now.plus(ADOPTION_WAIT));
    followed.stopped.into_iter().for_each(|writer| machine.note_last_own(writer));
}
