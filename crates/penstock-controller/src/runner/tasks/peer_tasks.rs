//! All tasks of a run, and orders to those that work.
//!
//! A peer has one task at a time, in one of three places: starting, at work, or stopping. They
//! follow the state of the peer in `penstock_engine::writers`, and [`PeerTasks::check`] asserts
//! that. At the end of the run the tasks stay in their place as they ended, for figures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::{mem, thread};

use penstock_api::limits::Share;
use penstock_api::peers::Member;
use penstock_engine::writers::{PeerState, WriterRegistry};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::network::DataAddress;

use super::peer_task::{PeerTask, StartingTask, StoppingTask};
use crate::runner::peer_session::PeerSession;
use crate::runner::shared::RunShared;

/// The tasks of all peers, by the number of the peer in the run.
#[derive(Default)]
pub(super) struct PeerTasks {
    starting: BTreeMap<PeerNumber, StartingTask>,
    working: BTreeMap<PeerNumber, PeerTask>,
    stopping: BTreeMap<PeerNumber, StoppingTask>,
}

impl PeerTasks {
    /// Adds a task that a peer was asked to start.
    pub(super) fn add_starting(&mut self, task: StartingTask) {
        self.assert_none_of(task.number(), task.member.writer);
        self.starting.insert(task.number(), task);
    }

    /// Adds a task that gets work from now on.
    pub(super) fn add_working(&mut self, task: PeerTask) {
        self.assert_none_of(task.number(), task.member.writer);
        self.working.insert(task.number(), task);
    }

    fn assert_none_of(&self, number: PeerNumber, writer: WriterId) {
        let has_task =
            self.all().any(|(session, member)| session.number == number || member.writer == writer);
        assert!(!has_task, "peer {number}, {writer}, has a task already");
    }

    /// Returns the tasks that work.
    pub(super) fn working(&self) -> impl Iterator<Item = &PeerTask> {
        self.working.values()
    }

    /// Returns the working task of the peer of this number.
    pub(super) fn working_of(&self, number: PeerNumber) -> Option<&PeerTask> {
        self.working.get(&number)
    }

    /// Returns the stopping tasks.
    pub(super) fn stopping(&self) -> impl Iterator<Item = &StoppingTask> {
        self.stopping.values()
    }

    /// Returns the peers that were asked to start a task.
    pub(super) fn starting(&self) -> impl Iterator<Item = &Member> {
        self.starting.values().map(|task| &task.member)
    }

    /// Returns whether a writer has a task, in any state.
    pub(super) fn has_task(&self, writer: WriterId) -> bool {
        self.all().any(|(_, member)| member.writer == writer)
    }

    /// Returns whether no task works, and none is about to.
    pub(super) fn nobody_works(&self) -> bool {
        self.starting.is_empty() && self.working.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = (&PeerSession, &Member)> {
        let starting = self.starting.values().map(|task| (&*task.session, &task.member));
        let stopping = self.stopping.values().map(|task| &task.stopped);
        let begun = self.working.values().chain(stopping);
        starting.chain(begun.map(|task| (&*task.session, &task.member)))
    }

    /// Takes out the tasks about which the peers have answered.
    pub(super) fn take_answered(&mut self) -> Vec<StartingTask> {
        take(&mut self.starting, StartingTask::is_answered)
    }

    /// Takes out all tasks that peers were asked to start.
    pub(super) fn take_starting(&mut self) -> Vec<StartingTask> {
        take(&mut self.starting, |_| true)
    }

    /// Takes out the stopping tasks that have ended.
    pub(super) fn take_ended(&mut self) -> Vec<PeerTask> {
        let ended = take(&mut self.stopping, StoppingTask::has_ended);
        ended.into_iter().map(StoppingTask::into_ended).collect()
    }

    /// Takes out all stopping tasks. Blocks until they have ended.
    pub(super) fn wait_for_stopping(&mut self) -> Vec<PeerTask> {
        let stopping = take(&mut self.stopping, |_| true);
        stopping.into_iter().map(StoppingTask::into_ended).collect()
    }

    /// Tells the working task of a peer to stop, as [`PeerTask::stop`]. Returns it if it has ended
    /// already.
    ///
    /// # Panics
    /// The peer has no task that works.
    pub(super) fn stop(
        &mut self,
        number: PeerNumber,
        discards: bool,
        why: String,
        shared: &Arc<RunShared>,
    ) -> Option<PeerTask> {
        let task = self.working.remove(&number);
        let task = task.unwrap_or_else(|| panic!("peer {number} has no task that works"));
        match task.stop(discards, why, shared) {
            Ok(stopping) => {
                self.stopping.insert(number, stopping);
                None
            }
            Err(ended) => Some(ended),
        }
    }

    /// Stops all working tasks at the end of the run, at once. Blocks until they have ended. They
    /// keep their place.
    pub(super) fn stop_working(&self, discards: bool) {
        let tasks: Vec<_> = self.working.values().map(|it| &it.task).collect();
        if let [only] = tasks[..] {
            return only.stop(discards);
        }
        thread::scope(|scope| {
            for task in tasks {
                let stop = || task.stop(discards);
                if thread::Builder::new().spawn_scoped(scope, stop).is_err() {
                    stop();
                }
            }
        });
    }

    /// Leaves the working tasks to the next controller, the own one last, as that ends and may take
    /// a moment. Forgets the others.
    pub(super) fn leave(&mut self) {
        self.starting.clear();
        self.stopping.clear();
        let mut tasks: Vec<_> = self.working.values().collect();
        tasks.sort_by_key(|it| it.member.is_own);
        tasks.into_iter().for_each(|it| it.task.leave());
    }

    /// Makes tasks ask again that found nothing to do.
    pub(super) fn wake(&self) {
        self.working().for_each(|it| it.task.wake());
    }

    /// Returns how many batches of reports of each peer the machine knows.
    pub(super) fn reported(&self) -> Vec<(PeerNumber, u64)> {
        self.working().map(|it| (it.number(), it.session.reported())).collect()
    }

    /// Tells the tasks that these batches of reports are committed.
    pub(super) fn note_committed(&self, reported: &[(PeerNumber, u64)]) {
        for (number, batches) in reported {
            if let Some(it) = self.working_of(*number) {
                it.task.committed(*batches);
            }
        }
    }

    /// Sets the share of a peer in the limits. A peer that does not work gets none.
    pub(super) fn set_share(&self, number: PeerNumber, share: &Share) {
        if let Some(it) = self.working_of(number) {
            it.task.set_share(share);
        }
    }

    /// Tells the tasks that all that the ledger knows was looked at again.
    pub(super) fn end_doubt(&self) {
        self.working().for_each(|it| it.task.doubt_is_over());
    }

    /// Tells the tasks where the source's peers accept lanes.
    pub(super) fn set_source_peers(&self, found: &[DataAddress]) {
        self.working().for_each(|it| it.task.set_source_peers(found));
    }

    /// Handles pages that are complete.
    pub(super) fn forget_pages(&self, pages: &BTreeSet<u32>) {
        self.working().for_each(|it| it.session.forget(pages));
    }

    /// Returns those of the pages about to be complete in which a peer may have left something.
    pub(super) fn left_in(&self, complete: &BTreeSet<u32>) -> BTreeSet<(WriterId, u32)> {
        let left = self.all().flat_map(|(session, member)| {
            session.left_in(complete).into_iter().map(|page| (member.writer, page))
        });
        left.collect()
    }

    /// Asserts that each peer is where the registry has it.
    pub(super) fn check<R>(&self, registry: &WriterRegistry<R>) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (session, member) in self.all() {
            let has = match registry.state(member.writer) {
                PeerState::Absent => None,
                PeerState::Starting { number, .. } => self.starting.get(&number).map(|_| number),
                PeerState::Working { number, .. } => self.working.get(&number).map(|_| number),
                PeerState::Stopping { number, .. } => self.stopping.get(&number).map(|_| number),
            };
            assert_eq!(has, Some(session.number), "{} has a task elsewhere", member.writer);
        }
    }
}

/// Takes the chosen tasks out of their place, in the order of their numbers.
fn take<T>(place: &mut BTreeMap<PeerNumber, T>, is_chosen: impl Fn(&T) -> bool) -> Vec<T> {
    let (chosen, others) = mem::take(place).into_iter().partition(|(_, task)| is_chosen(task));
    *place = others;
    BTreeMap::into_values(chosen).collect()
}
