//! Peers that are asked to start a task, and join the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use penstock_api::heads::HeadCommit;
use penstock_api::peers::{Member, PartNews};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{Adopted, TaskSpec, TaskStart};
use penstock_engine::transfer::{Joining, TransferMachine};
use penstock_proto::id::{PeerNumber, WriterId};

use super::task_set::{PeerTask, Stage, Started, TaskSet, seen};
use crate::runner::any_peer::nobody;
use crate::runner::peer_session::PeerSession;

/// Returns the task for one peer.
pub(crate) fn spec_for(
    spec: &TaskSpec,
    epochs: &BTreeMap<WriterId, u64>,
    member: &Member,
    grant: Option<Duration>,
) -> TaskSpec {
    TaskSpec {
        writer: member.writer,
        epoch: epochs.get(&member.writer).copied().unwrap_or(0),
        // The controller's own stops with the controller.
        grant: grant.filter(|_| !member.is_own),
        ..spec.clone()
    }
}

impl TaskSet {
    /// Starts the task of the first peer, which was prepared already. Another may be able to, where
    /// it is not.
    pub(super) fn start_first(&mut self, first: Member, start: TaskStart) -> Result<(), Problem> {
        let number = self.registry.handle_invited(&seen(&first));
        let session = self.session_of(number);
        let spec = self.spec_for(&first);
        match first.peer.start(&spec, Arc::clone(&session) as _) {
            Ok(task) => self.join(first, session, Started { start, task }),
            Err(problem) => {
                self.registry.handle_refused(number);
                if self.grant().is_none() {
                    return Err(problem);
                }
                self.leave_alone(&first, &problem);
                self.last = Some(problem);
                Ok(())
            }
        }
    }

    fn session_of(&self, number: PeerNumber) -> Arc<PeerSession> {
        let fence = self.parts.spec.fence.clone();
        Arc::new(PeerSession::new(&self.parts.shared, &self.parts.peers, number, fence))
    }

    fn spec_for(&self, member: &Member) -> TaskSpec {
        let mut spec = spec_for(&self.parts.spec, &self.parts.epochs, member, self.grant());
        if self.grant().is_some() {
            self.shares.open(&mut spec);
        }
        spec
    }

    /// Asks a peer to start a task, on a thread of its own.
    pub(super) fn invite(&mut self, member: Member) {
        let number = self.registry.handle_invited(&seen(&member));
        let session = self.session_of(number);
        let spec = self.spec_for(&member);
        let (peer, control) = (Arc::clone(&member.peer), Arc::clone(&session));
        let shared = Arc::clone(&self.parts.shared);
        let started = std::thread::Builder::new().name("join".to_owned()).spawn(move || {
            let start = peer.prepare(&spec)?;
            if start.marker < spec.epoch && !spec.doubt {
                let title = "the store is older at that peer than the ledger";
                return Err(Problem::new(ProblemCode::StoreOffline, title));
            }
            if start.mounts != spec.mounts {
                // A missing mount is an error that the peer itself reports.
                let title = "that peer has more file systems mounted in \
                             the target than other peers";
                return Err(Problem::new(ProblemCode::StoreOffline, title));
            }
            let told = Arc::clone(&control);
            let task = peer.start(&spec, told)?;
            if control.is_over() {
                // The run has ended meanwhile, and does not wait for a peer that may hang.
                task.stop(true);
                return Err(nobody());
            }
            shared.notify();
            Ok(Started { start, task })
        });
        match started {
            Ok(started) => {
                let stage = Stage::Starting(started);
                self.tasks.insert(number, PeerTask { member, session, stage });
            }
            Err(error) => {
                tracing::warn!(%error, "no thread to start a task");
                self.registry.handle_refused(number);
            }
        }
    }

    /// Takes in the peers whose tasks have started.
    pub(super) fn take_started(&mut self) -> Result<(), Problem> {
        let ready = self.take_tasks(
            |it| matches!(&it.stage, Stage::Starting(started) if started.is_finished()),
        );
        for (number, PeerTask { member, session, stage }) in ready {
            let Stage::Starting(started) = stage else { continue };
            let broken = || Problem::new(ProblemCode::Internal, "its thread panicked");
            match started.join().unwrap_or_else(|_| Err(broken())) {
                Ok(started) => self.join(member, session, started)?,
                Err(problem) => {
                    tracing::warn!(peer = member.name, %problem, "a peer cannot take part");
                    self.registry.handle_refused(number);
                    self.tell_refused(&member, &problem);
                    self.last = Some(problem);
                }
            }
        }
        Ok(())
    }

    /// A task has started: its peer gets work from now on.
    fn join(
        &mut self,
        member: Member,
        session: Arc<PeerSession>,
        started: Started,
    ) -> Result<(), Problem> {
        let Started { start, task } = started;
        let (adopted, incarnation) = (task.take_adopted(), task.incarnation());
        let known = self.parts.epochs.get(&member.writer).copied();
        let marker = if start.marker == u64::MAX { 0 } else { start.marker };
        let epoch = known.unwrap_or(0).max(marker);
        let number = session.number;
        let stage = Stage::Running(task);
        let running = PeerTask { member: member.clone(), session: Arc::clone(&session), stage };
        self.tasks.insert(number, running);
        let joined = self.registry.handle_joined(number, member.is_own);
        if self.grant().is_some() && joined.changes_record {
            self.write_standing()?;
        }
        if known.is_none() && self.grant().is_some() {
            // Every run that cleans up must know all writers.
            let epochs = vec![(member.writer, epoch)];
            let commit = HeadCommit { epochs, ..HeadCommit::default() };
            self.parts.heads.commit(self.parts.spec.transfer, &commit)?;
            self.parts.epochs.insert(member.writer, epoch);
        }
        let joining = Joining {
            // Not as it was before an earlier task ended: the last sync of that may have failed.
            incarnation,
            epoch,
            grant: self.grant().filter(|_| !member.is_own),
        };
        let now = self.parts.peers.now();
        {
            let mut machine = self.parts.shared.machine();
            machine.handle_joined(number, joining, now);
            if let Some(adopted) = adopted {
                self.adopt(&mut machine, &member, &session, adopted);
            }
        }
        session.join();
        if self.grant().is_some() {
            tracing::info!(
                transfer = %self.parts.spec.transfer, peer = member.name,
                "a peer takes part"
            );
            if joined.is_news {
                self.tell(&member, &PartNews::Joined);
            }
            self.shares.handle_joined(number, now);
            self.tell_shares();
        }
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
        // With a store that is older than the ledger nothing is believed unseen (A5).
        if self.parts.spec.doubt || !(granted || epoch == self.registry.follows()) {
            return;
        }
        let pieces = reports.len();
        let bytes = machine.handle_adopted(session.number, reports);
        tracing::info!(
            transfer = %self.parts.spec.transfer, peer = member.name, pieces, bytes, epoch,
            "adopting the pieces that it wrote for an earlier controller"
        );
    }
}
