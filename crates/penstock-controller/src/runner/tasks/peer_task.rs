//! The task at one peer: starting, at work, stopping.
//!
//! Calls that may block have a thread of their own, as the peer may be another host: one that asks
//! the peer to start the task, and one that stops it.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use penstock_api::peers::Member;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{Task, TaskSpec, TaskStart};
use penstock_proto::id::PeerNumber;

use super::task_specs::check_store;
use crate::runner::any_peer::nobody;
use crate::runner::bounded_join::ends_within;
use crate::runner::peer_session::PeerSession;
use crate::runner::shared::RunShared;

/// A task that has started, and gets no work yet.
pub(super) struct Started {
    pub(super) start: TaskStart,
    pub(super) task: Arc<dyn Task>,
}

/// A task that a peer is asked to start.
pub(super) struct StartingTask {
    pub(super) member: Member,
    pub(super) session: Arc<PeerSession>,
    answer: JoinHandle<Result<Started, Problem>>,
}

/// A task that has started at a peer: it works, is about to stop, or has ended.
pub(super) struct PeerTask {
    pub(super) member: Member,
    pub(super) session: Arc<PeerSession>,
    pub(super) task: Arc<dyn Task>,
}

/// A task that is stopping.
pub(super) struct StoppingTask {
    pub(super) stopped: PeerTask,
    /// The reason, for users.
    pub(super) why: String,
    end: JoinHandle<()>,
}

impl StartingTask {
    /// Asks a peer to start a task. The run is notified when the peer has answered.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn ask(
        member: Member,
        session: Arc<PeerSession>,
        spec: TaskSpec,
        shared: &Arc<RunShared>,
    ) -> io::Result<Self> {
        let (peer, control) = (Arc::clone(&member.peer), Arc::clone(&session));
        let shared = Arc::clone(shared);
        let answer = thread::Builder::new().name("join".to_owned()).spawn(move || {
            let start = peer.prepare(&spec)?;
            check_store(&spec, &start)?;
            let task = peer.start(&spec, Arc::clone(&control) as _)?;
            if control.is_over() {
                // The run has ended meanwhile, and does not wait for a peer that may hang.
                task.stop(true);
                return Err(nobody());
            }
            shared.notify();
            Ok(Started { start, task })
        })?;
        Ok(Self { member, session, answer })
    }

    pub(super) fn number(&self) -> PeerNumber {
        self.session.number
    }

    /// Returns whether the peer has answered.
    pub(super) fn is_answered(&self) -> bool {
        self.answer.is_finished()
    }

    /// Returns the answer of the peer. Blocks until there is one.
    pub(super) fn into_answer(self) -> (Member, Arc<PeerSession>, Result<Started, Problem>) {
        let panicked = || Problem::new(ProblemCode::Internal, "its thread panicked");
        let answer = self.answer.join().unwrap_or_else(|_| Err(panicked()));
        (self.member, self.session, answer)
    }

    /// Stops the task, whose session is over, if the peer answers within `most`. Returns whether
    /// the peer had started it.
    pub(super) fn abandon(self, most: Duration) -> bool {
        if !ends_within(&self.answer, most) {
            tracing::error!(peer = self.member.name, "a peer hangs while it begins its task");
            return false;
        }
        let (_, _, answer) = self.into_answer();
        answer.inspect(|started| started.task.stop(true)).is_ok()
    }
}

impl PeerTask {
    pub(super) fn number(&self) -> PeerNumber {
        self.session.number
    }

    /// Returns whether the task has left a thread in a system call, by its last report.
    pub(super) fn hangs(&self) -> bool {
        self.session.take_broken().is_some_and(|said| said.code == ProblemCode::TaskHangs)
    }

    /// Tells the task to stop; with `discards` it removes the temporary files that it knows. The
    /// run is notified when it has ended.
    ///
    /// # Errors
    /// No thread can be started: the task has ended, in the thread of the caller.
    pub(super) fn stop(
        self,
        discards: bool,
        why: String,
        shared: &Arc<RunShared>,
    ) -> Result<StoppingTask, Self> {
        let (stopping, shared) = (Arc::clone(&self.task), Arc::clone(shared));
        let end = thread::Builder::new().name("stop".to_owned()).spawn(move || {
            stopping.stop(discards);
            shared.notify();
        });
        match end {
            Ok(end) => Ok(StoppingTask { stopped: self, why, end }),
            Err(error) => {
                tracing::warn!(%error, "no thread to stop a task");
                self.task.stop(discards);
                Err(self)
            }
        }
    }
}

impl StoppingTask {
    /// Returns whether the task has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_finished()
    }

    /// Returns the task when it has ended. Blocks until then.
    pub(super) fn into_ended(self) -> PeerTask {
        // A panic there was a task that has ended.
        let _ = self.end.join();
        self.stopped
    }
}
