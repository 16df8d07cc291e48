//! Peers that join and leave a run, as it polls them.
//!
//! ```text
//!   present peers          start_first, invite      take_answered, join
//!   ───────────────▶ Absent ────────────────▶ Starting ─────────────▶ Working
//!                      ▲                                                 │ end: drained, broken,
//!                      │              take_ended, settle                 │ lost, restarted, hung
//!                      └─────────────────────────── Stopping ◀───────────┘
//! ```
//! Each step informs the owners of the facts about peers in one order: the registry, which asserts
//! that the step is legal; the record for later runs, before the peer gets work; the machine of the
//! transfer; and then the observers.

use std::sync::Arc;
use std::time::{self, Duration};

use penstock_api::heads::HeadCommit;
use penstock_api::peers::Member;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::FlightKind;
use penstock_api::task::{Adopted, TaskSpec, TaskStart};
use penstock_engine::transfer::{Joining, TransferMachine};
use penstock_engine::writers::{Loss, PeerState, PresentPeer, StoreCall};
use penstock_proto::id::{PeerNumber, WriterId};

use super::figures_sum::add_counters;
use super::peer_failures::{PeerFailure, loss_of, named};
use super::peer_task::{PeerTask, Started, StartingTask};
use super::task_set::{TaskSet, seen};
use crate::runner::any_peer::in_order;
use crate::runner::peer_session::PeerSession;

/// Interval at which the list of present peers is polled.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The longest time that the end of a run waits for a task that is about to begin.
const STARTING_MAX: Duration = Duration::from_secs(30);
/// The longest wait then, if peers that may write late were called back.
const CALLED_MAX: Duration = Duration::from_secs(1);

fn unfit() -> Problem {
    Problem::new(ProblemCode::Sync, "the target store failed to sync several times")
        .hint("check the kernel log of the target host for I/O errors")
}

impl TaskSet {
    /// Updates the list of participating peers and takes over the results of their threads. Returns
    /// the reason why the run cannot continue, if no peer is left. Blocks for no longer than a
    /// commit of heads.
    ///
    /// # Errors
    /// The heads or the journal store cannot be written, or this controller is deposed.
    pub(crate) fn tend(&mut self) -> Result<Option<Problem>, Problem> {
        self.tasks.check(&self.registry);
        self.end_hung();
        self.tell_source();
        if !self.has_grants() {
            let broken = self.tasks.working().find_map(|it| it.session.take_broken());
            return Ok(broken.or_else(|| self.shared.machine().is_broken().then(unfit)));
        }
        self.end_lapsed();
        self.end_broken();
        self.end_drained();
        self.tasks.take_ended().into_iter().for_each(|ended| self.settle(ended));
        self.end_wait_for_writers();
        for answered in self.tasks.take_answered() {
            self.take_answer(answered)?;
        }
        let now = time::Instant::now();
        // Without a peer at work the run would end, although one that rests may take over.
        if now >= self.next_look || self.tasks.nobody_works() {
            self.next_look = now + LOOK_INTERVAL;
            self.look_around();
        }
        Ok(self.tasks.nobody_works().then(|| self.why_nobody_works()))
    }

    fn why_nobody_works(&mut self) -> Problem {
        let present = self.peers.present();
        let is_present = |writer: WriterId| present.iter().any(|member| member.writer == writer);
        self.failures.take_reason(self.registry.failures(), is_present)
    }

    /// Takes out peers that hang, while others do not. Reports peers that cannot be removed.
    fn end_hung(&mut self) {
        let calls = self.tasks.working().map(|it| {
            let (peer, lasts) = (it.number(), it.task.hangs_for());
            StoreCall { peer, lasts, is_draining: self.registry.is_draining(peer) }
        });
        let found = self.hung.poll(&calls.collect::<Vec<_>>());
        found.event.into_iter().for_each(|event| self.events.note(event));
        for (number, problem) in found.out {
            self.take_out(number, None, problem);
        }
    }

    /// Sends tasks the addresses of the source's peers; later tasks receive them at their start.
    /// Sends them after each answer, new or not: a task may have begun meanwhile, or have got
    /// another interface. Never blocks.
    fn tell_source(&mut self) {
        let Some(found) = self.source.poll() else { return };
        if self.specs.handle_source_peers(&found) {
            self.tasks.set_source_peers(&found);
        }
    }

    /// Takes peers out whose grant has lapsed, or whose stores fail.
    fn end_lapsed(&mut self) {
        let now = self.peers.now();
        let (lapsed, failing) = {
            let mut machine = self.shared.machine();
            (machine.poll_lapsed(now), machine.unfit())
        };
        for number in lapsed {
            let name = self.tasks.working_of(number).map(|it| it.member.name.as_str());
            let title = format!("peer `{}` is lost", name.unwrap_or_default());
            let lost = Problem::new(ProblemCode::PeerLost, title)
                .because("it sent no message for the whole duration of its grant");
            self.take_out(number, Some(Loss::Lapsed), lost);
        }
        for number in failing {
            self.take_out(number, None, unfit());
        }
    }

    fn end_broken(&mut self) {
        let working = self.tasks.working();
        let broken = working.filter_map(|it| Some((it.number(), it.session.take_broken()?)));
        for (number, problem) in broken.collect::<Vec<_>>() {
            self.take_out(number, loss_of(&problem.code), problem);
        }
    }

    fn end_drained(&mut self) {
        let drained: Vec<PeerNumber> = {
            let machine = self.shared.machine();
            let numbers = self.tasks.working().map(PeerTask::number);
            let done = |number: &PeerNumber| {
                self.registry.is_draining(*number) && machine.is_drained(*number)
            };
            numbers.filter(done).collect()
        };
        for number in drained {
            if let Some(member) = self.end(number, None, "drained".to_owned()) {
                self.events.drained(&member);
            }
        }
    }

    /// Ends the wait for writers of an earlier run, when the machine has ended it. The machine then
    /// knows the files that these may write late.
    fn end_wait_for_writers(&mut self) {
        let waits = self.registry.awaited().next().is_some();
        if waits && self.shared.machine().waits_until().is_none() {
            self.registry.handle_wait_over();
        }
    }

    /// Starts tasks at new peers, and marks peers that are draining.
    fn look_around(&mut self) {
        let members = in_order(&*self.peers);
        let present: Vec<PresentPeer> = members.iter().map(seen).collect();
        self.registry.handle_begun(&present);
        self.events.look_for_excluded();
        for number in self.registry.poll_restarted(&present) {
            let why = "it was restarted".to_owned();
            if let Some(member) = self.end(number, Some(Loss::Lapsed), why.clone()) {
                self.events.restarted(&member, why, self.tasks.working().count());
            }
        }
        // Draining peers are used if no other peer is present.
        let stays = self.registry.any_stays(&present, self.now());
        for (member, seen) in members.into_iter().zip(&present) {
            let most = self.shares.peers_max();
            if self.registry.may_invite(seen, stays, most, self.now()) {
                self.invite(member);
            }
        }
        let draining = self.registry.poll_draining(&present, stays);
        draining.into_iter().for_each(|number| self.drain(number));
        // The limits may no longer have room for some peers.
        let surplus = self.registry.poll_surplus(self.shares.peers_max());
        surplus.into_iter().for_each(|number| self.drain(number));
    }

    fn drain(&mut self, number: PeerNumber) {
        self.registry.handle_draining(number);
        self.shared.machine().handle_draining(number);
    }

    /// Starts the task of the first peer, which was prepared already. Another may be able to, where
    /// it is not.
    pub(super) fn start_first(&mut self, first: Member, start: TaskStart) -> Result<(), Problem> {
        let (number, session, spec) = self.invitation(&first);
        match first.peer.start(&spec, Arc::clone(&session) as _) {
            Ok(task) => self.join(first, session, Started { start, task }),
            Err(problem) => {
                self.registry.handle_refused(number);
                if !self.has_grants() {
                    return Err(problem);
                }
                self.leave_alone(&first, &problem);
                self.failures.handle(problem);
                Ok(())
            }
        }
    }

    /// Asks a peer to start a task, on a thread of its own.
    fn invite(&mut self, member: Member) {
        let (number, session, spec) = self.invitation(&member);
        match StartingTask::ask(member, session, spec, &self.shared) {
            Ok(starting) => self.tasks.add_starting(starting),
            Err(error) => {
                tracing::warn!(%error, "no thread to start a task");
                self.registry.handle_refused(number);
            }
        }
    }

    /// Returns the number, the session and the task of a peer that is asked from now on.
    fn invitation(&mut self, member: &Member) -> (PeerNumber, Arc<PeerSession>, TaskSpec) {
        let number = self.registry.handle_invited(&seen(member));
        let fence = self.specs.common().fence.clone();
        let session = PeerSession::new(&self.shared, &self.peers, number, fence);
        let mut spec = self.specs.of(member);
        if self.has_grants() {
            self.shares.open(&mut spec);
        }
        (number, Arc::new(session), spec)
    }

    fn take_answer(&mut self, starting: StartingTask) -> Result<(), Problem> {
        let (member, session, answer) = starting.into_answer();
        let problem = match answer {
            Ok(started) => return self.join(member, session, started),
            Err(problem) => problem,
        };
        tracing::warn!(peer = member.name, %problem, "a peer cannot take part");
        self.registry.handle_refused(session.number);
        self.events.record_out(&member, &problem);
        let before = self.registry.last_failure(member.writer, self.now());
        let before = before.map(|(failure, _)| failure.why.clone());
        self.leave_alone(&member, &problem);
        self.events.refused(&member, &problem, before.as_deref(), self.again(&member));
        self.failures.handle(problem);
        Ok(())
    }

    /// Handles a task that has started: its peer gets work from now on.
    fn join(
        &mut self,
        member: Member,
        session: Arc<PeerSession>,
        Started { start, task }: Started,
    ) -> Result<(), Problem> {
        let number = session.number;
        let (adopted, incarnation) = (task.take_adopted(), task.incarnation());
        let epoch = self.specs.epoch_at_start(member.writer, &start);
        let grant = self.specs.grant_of(&member);
        let (peer, told) = (member.clone(), Arc::clone(&session));
        self.tasks.add_working(PeerTask { member, session, task });
        let is_news = self.registry.handle_joined(number, peer.is_own);
        self.events.flight().add(FlightKind::PeerIn, &peer.name, "it takes part");
        self.log.keep_joined(peer.writer, self.registry.record())?;
        self.record_writer(peer.writer, epoch)?;
        // An earlier task there has ended by now: its last sync may have failed (A4).
        let joining = Joining { incarnation, epoch, grant };
        let now = self.peers.now();
        {
            let mut machine = self.shared.machine();
            machine.handle_joined(number, joining, now);
            if let Some(adopted) = adopted {
                self.adopt(&mut machine, &peer, &told, adopted);
            }
        }
        told.join();
        if self.has_grants() {
            tracing::info!(
                transfer = %self.specs.common().transfer, peer = peer.name,
                "a peer takes part"
            );
            if is_news {
                self.events.joined(&peer);
            }
            self.shares.handle_joined(number, now);
            self.tell_shares();
        }
        Ok(())
    }

    /// Commits the epoch of a writer that the heads do not name: every run that cleans up must know
    /// all writers.
    fn record_writer(&mut self, writer: WriterId, epoch: u64) -> Result<(), Problem> {
        if !self.has_grants() || self.specs.epoch(writer).is_some() {
            return Ok(());
        }
        let epochs = vec![(writer, epoch)];
        let commit = HeadCommit { epochs, ..HeadCommit::default() };
        self.heads.commit(self.specs.common().transfer, &commit)?;
        self.specs.handle_committed(&commit.epochs);
        Ok(())
    }

    /// Takes over the work that a peer did for an earlier controller, before any peer receives a
    /// part of it.
    fn adopt(
        &self,
        machine: &mut TransferMachine,
        member: &Member,
        session: &PeerSession,
        adopted: Adopted,
    ) {
        let Adopted { epoch, granted, reports } = adopted;
        session.note_adopted(&reports);
        let spec = self.specs.common();
        // With a store that is older than the ledger nothing is believed unseen (A5).
        if spec.doubt || !(granted || epoch == self.registry.follows()) {
            return;
        }
        let pieces = reports.len();
        let bytes = machine.handle_adopted(session.number, reports);
        let text = format!("{pieces} pieces that it wrote for an earlier controller count");
        self.events.flight().add(FlightKind::PeerIn, &member.name, &text);
        tracing::info!(
            transfer = %spec.transfer, peer = member.name, pieces, bytes, epoch,
            "adopting the pieces that it wrote for an earlier controller"
        );
    }

    /// Takes out a peer that has met a problem. It is retried later.
    fn take_out(&mut self, number: PeerNumber, loss: Option<Loss>, problem: Problem) {
        let Some(working) = self.tasks.working_of(number) else { return };
        let member = working.member.clone();
        let problem = named(&member, problem);
        tracing::warn!(
            transfer = %self.specs.common().transfer, peer = member.name, %problem,
            "a peer is taken out of the run"
        );
        self.end(number, loss, problem.to_string());
        self.events.record_out(&member, &problem);
        self.leave_alone(&member, &problem);
        let told = (loss.is_some(), self.tasks.working().count());
        self.events.failed(&member, &problem, told, self.again(&member));
        self.failures.handle(problem);
    }

    /// Leaves a peer alone for a while that has met this problem.
    fn leave_alone(&mut self, member: &Member, problem: &Problem) {
        let (kind, failure) = PeerFailure::of(member, problem);
        self.registry.handle_failed(&seen(member), kind, failure, self.now());
    }

    /// Returns the time until a peer that has failed is retried; `None` until its process is
    /// another one.
    fn again(&self, member: &Member) -> Option<Duration> {
        self.registry.last_failure(member.writer, self.now())?.1
    }

    /// Begins to stop a working task. Its work goes to other peers when the task has ended, or at
    /// once if it is lost. Returns the peer.
    fn end(&mut self, number: PeerNumber, loss: Option<Loss>, why: String) -> Option<Member> {
        let working = self.tasks.working_of(number)?;
        let (member, is_lost) = (working.member.clone(), loss.is_some());
        self.registry.handle_stopping(number, loss);
        if is_lost {
            working.session.end();
            self.shared.machine().handle_lost(number);
        }
        if let Some(ended) = self.tasks.stop(number, is_lost, why, &self.shared) {
            self.settle(ended);
        }
        Some(member)
    }

    /// Settles a task that is over. A task that was to end in order, and was silent meanwhile or
    /// has left a thread in a system call, counts as lost all the same: its last write may come
    /// late (B1).
    fn settle(&mut self, PeerTask { member, session, task }: PeerTask) {
        let number = session.number;
        session.end();
        let loss = session.take_broken().and_then(|said| loss_of(&said.code));
        let is_lost = self.registry.is_lost(number) || loss.is_some();
        self.registry.handle_left(number, loss);
        {
            let mut machine = self.shared.machine();
            match is_lost {
                true => machine.handle_lost(number),
                false => machine.handle_left(number),
            }
        }
        add_counters(&mut self.ended, &member.name, task.figures());
        // Until now the task used its share, and the work that it had asked for.
        self.shares.handle_left(number);
        self.decisions.handle_left(number);
        self.tell_shares();
        self.registry.handle_left_pages(member.writer, session.take_pages());
    }

    /// Stops all tasks because the run is over; with `discard` they remove the temporary files that
    /// they know. Blocks until they have ended, or do not answer.
    pub(crate) fn stop(&mut self, discard: bool) {
        self.stop_starting();
        let hung: Vec<bool> = self.tasks.working().map(PeerTask::hangs).collect();
        self.tasks.stop_working(discard);
        self.tasks.wait_for_stopping().into_iter().for_each(|ended| self.settle(ended));
        for (it, hung) in self.tasks.working().zip(hung) {
            // A run that cannot commit its end stops its tasks again.
            if matches!(self.registry.state(it.member.writer), PeerState::Working { .. }) {
                // The last report of the task has the way of its end.
                self.registry.handle_run_over(it.number(), !hung && !it.hangs());
            }
        }
    }

    /// Stops the tasks that are about to begin. Waits for those that answer.
    fn stop_starting(&mut self) {
        let most = if self.registry.has_called() { CALLED_MAX } else { STARTING_MAX };
        let starting = self.tasks.take_starting();
        starting.iter().for_each(|it| it.session.end());
        for task in starting {
            let number = task.number();
            match task.abandon(most) {
                true => self.registry.handle_unused(number),
                false => self.registry.handle_refused(number),
            }
        }
    }

    /// Leaves the tasks to the next controller, because this one is deposed and can commit nothing
    /// more. Reports that were not confirmed to the tasks are for the next controller. Tasks with a
    /// grant continue until it takes over.
    pub(crate) fn leave(&mut self) {
        self.tasks.leave();
    }
}
