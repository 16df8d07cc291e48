//! Peers that leave the run: their tasks are stopped, or lost.

use std::sync::Arc;
use std::time::Duration;

use penstock_api::peers::Member;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::task::Task;
use penstock_engine::writers::{Failure, Loss, PeerState};
use penstock_proto::id::PeerNumber;

use super::figures::add_figures;
use super::full_targets::at;
use super::hung_stores::ends_within;
use super::task_set::{Met, PeerTask, Stage, Started, TaskSet, seen};
use crate::runner::peer_session::PeerSession;

/// The longest time that the end of a run waits for a task that is about to begin.
const STARTING_MAX: Duration = Duration::from_secs(30);
/// The longest wait then, if peers that may write late were called back.
const CALLED_MAX: Duration = Duration::from_secs(1);

/// Returns the way in which a peer is lost whose task ends with a problem of this code: its process
/// has ended or is out of reach, or a thread of it hangs.
pub(super) fn loss_of(code: &ProblemCode) -> Option<Loss> {
    match code {
        ProblemCode::TaskHangs => Some(Loss::Hung),
        ProblemCode::PeerLost | ProblemCode::TaskUnknown | ProblemCode::GrantOver => {
            Some(Loss::Lapsed)
        }
        _ => None,
    }
}

fn hangs(session: &PeerSession) -> bool {
    session.take_broken().is_some_and(|said| said.code == ProblemCode::TaskHangs)
}

impl TaskSet {
    /// A peer goes, and is tried again later.
    pub(super) fn take_out(&mut self, number: PeerNumber, loss: Option<Loss>, problem: Problem) {
        let Some(member) =
            self.running().find(|(it, ..)| *it == number).map(|(_, it, _)| it.member.clone())
        else {
            return;
        };
        let problem = at(&member, problem);
        tracing::warn!(
            transfer = %self.parts.spec.transfer, peer = member.name, %problem,
            "a peer is taken out of the run"
        );
        self.end(number, loss, problem.to_string());
        self.leave_alone(&member, &problem);
        if !self.is_expected(&problem) {
            self.tell_out(&member, problem.to_string(), loss.is_some(), self.again(&member));
        }
        self.last = Some(problem);
    }

    /// Leaves a peer alone for a while that has met this problem.
    pub(super) fn leave_alone(&mut self, member: &Member, problem: &Problem) {
        let failure = match problem.exit {
            Exit::Temporary if problem.code == ProblemCode::TargetFull => Failure::Full,
            Exit::Temporary => Failure::Passing,
            Exit::NotAuthorised => Failure::Untrusted,
            _ => Failure::Final,
        };
        let passes = problem.exit == Exit::Temporary;
        let passing = passes.then(|| at(member, problem.clone()));
        let met = Met { why: problem.to_string(), passing };
        self.registry.handle_failed(&seen(member), failure, met, self.now());
    }

    /// Begins to stop a task. Its work goes to other peers when the task has ended, or at once if
    /// it is lost. Returns the peer.
    pub(super) fn end(
        &mut self,
        number: PeerNumber,
        loss: Option<Loss>,
        why: String,
    ) -> Option<Member> {
        let PeerTask { member, session, stage } = self.tasks.remove(&number)?;
        let task = match stage {
            Stage::Running(task) => task,
            stage => {
                self.tasks.insert(number, PeerTask { member, session, stage });
                return None;
            }
        };
        self.registry.handle_stopping(number, loss);
        let is_lost = loss.is_some();
        if is_lost {
            session.end();
            self.parts.shared.machine().handle_lost(number);
        }
        let stopping = Arc::clone(&task);
        let shared = Arc::clone(&self.parts.shared);
        let stopped = std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
            stopping.stop(is_lost);
            shared.notify();
        });
        let gone = member.clone();
        match stopped {
            Ok(stopped) => {
                let stage = Stage::Stopping { task, stopped, why };
                self.tasks.insert(number, PeerTask { member, session, stage });
            }
            Err(error) => {
                tracing::warn!(%error, "no thread to stop a task");
                task.stop(is_lost);
                self.settle(&member, &session, &*task);
            }
        }
        Some(gone)
    }

    /// Takes out the peers whose tasks have ended.
    pub(super) fn take_ended(&mut self) {
        self.settle_stopping(|stopped| stopped.is_finished());
    }

    fn settle_stopping(&mut self, is_chosen: impl Fn(&std::thread::JoinHandle<()>) -> bool) {
        let ended = self.take_tasks(
            |it| matches!(&it.stage, Stage::Stopping { stopped, .. } if is_chosen(stopped)),
        );
        for (_, PeerTask { member, session, stage }) in ended {
            let Stage::Stopping { task, stopped, .. } = stage else { continue };
            let _ = stopped.join();
            self.settle(&member, &session, &*task);
        }
    }

    /// Settles a task that is over. A task that was to end in order, and was silent meanwhile or
    /// has left a thread in a system call, counts as lost all the same: its last write may come
    /// late (B1).
    fn settle(&mut self, member: &Member, session: &PeerSession, task: &dyn Task) {
        let number = session.number;
        session.end();
        let loss = session.take_broken().and_then(|said| loss_of(&said.code));
        let is_lost = self.registry.is_lost(number) || loss.is_some();
        self.registry.handle_left(number, loss);
        {
            let mut machine = self.parts.shared.machine();
            match is_lost {
                true => machine.handle_lost(number),
                false => machine.handle_left(number),
            }
        }
        add_figures(&mut self.over, task.figures());
        // Until now the task used its share, and the work that it had asked for.
        self.shares.handle_left(number);
        self.tell_shares();
        self.registry.handle_left_pages(member.writer, session.take_pages());
    }

    /// Stops all of them; waits for that.
    pub(crate) fn stop(&mut self, discard: bool) {
        self.stop_starting();
        let running = self.running();
        let running: Vec<_> = running
            .map(|(number, it, task)| {
                (number, it.member.writer, Arc::clone(&it.session), Arc::clone(task))
            })
            .collect();
        // The last report of the task shows how it ends.
        let hung: Vec<bool> = running.iter().map(|(_, _, session, _)| hangs(session)).collect();
        match &running[..] {
            [(_, _, _, only)] => only.stop(discard),
            all => std::thread::scope(|scope| {
                for (_, _, _, task) in all {
                    let stop = || task.stop(discard);
                    if std::thread::Builder::new().spawn_scoped(scope, stop).is_err() {
                        stop();
                    }
                }
            }),
        }
        self.settle_stopping(|_| true);
        for ((number, writer, session, _), hung) in running.into_iter().zip(hung) {
            // A run that cannot commit its end stops its tasks again.
            if matches!(self.registry.state(writer), PeerState::Working { .. }) {
                self.registry.handle_run_over(number, !hung && !hangs(&session));
            }
        }
    }

    /// Stops the tasks that are about to begin. Waits for those that answer.
    fn stop_starting(&mut self) {
        let most = if self.registry.has_called() { CALLED_MAX } else { STARTING_MAX };
        let starting = self.take_tasks(|it| matches!(it.stage, Stage::Starting(_)));
        starting.values().for_each(|it| it.session.end());
        for (number, PeerTask { member, stage, .. }) in starting {
            let Stage::Starting(started) = stage else { continue };
            if !ends_within(&started, most) {
                tracing::error!(peer = member.name, "a peer hangs while it begins its task");
                self.registry.handle_refused(number);
            } else if let Ok(Ok(Started { task, .. })) = started.join() {
                task.stop(true);
                self.registry.handle_unused(number);
            } else {
                self.registry.handle_refused(number);
            }
        }
    }

    /// Leaves the tasks to the next controller, because this one is deposed and can commit nothing
    /// more. Reports that were not confirmed to the tasks are for the next controller. Tasks with a
    /// grant continue until it takes over.
    pub(crate) fn leave(&mut self) {
        self.tasks.retain(|_, it| matches!(it.stage, Stage::Running(_)));
        // Its own ends, which may take a moment.
        let mut running: Vec<_> = self.running().collect();
        running.sort_by_key(|(_, it, _)| it.member.is_own);
        running.into_iter().for_each(|(_, _, task)| task.leave());
    }
}
