//! The facts about one target peer.

use std::collections::BTreeSet;
use std::time::Duration;

use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::units::Instant;

/// A peer of the site that is present now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentPeer {
    /// The identity under which it writes.
    pub writer: WriterId,
    /// Its name, for users.
    pub name: String,
    /// The number of its process: another number means that it was restarted.
    pub process: u64,
    /// True for the peer in the controller's own process.
    pub is_own: bool,
    /// True if it is to get no more work.
    pub is_draining: bool,
}

/// State of a peer in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// The peer takes no part.
    #[default]
    Absent,
    /// The peer was asked to start a task, and has not answered.
    Starting {
        /// Its number in the run.
        number: PeerNumber,
        /// Its process.
        process: u64,
    },
    /// Its task gets work.
    Working {
        /// Its number in the run.
        number: PeerNumber,
        /// Its process.
        process: u64,
        /// True if it gets no new work, and leaves when it has finished its work.
        is_draining: bool,
    },
    /// Its task received an order to stop, or was abandoned, and has not ended.
    Stopping {
        /// Its number in the run.
        number: PeerNumber,
        /// Its process.
        process: u64,
    },
}

/// The bytes and attributes that a process may still write, of work that it has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// The peer is unknown: it has not joined, and is no writer of an earlier run.
    #[default]
    Unknown,
    /// The peer wrote for an earlier run, and may hold a grant of that run (B3).
    Awaited,
    /// The peer wrote for an earlier run, and holds no grant. A call in which it was stopped may
    /// complete (B1).
    Settled,
    /// The peer takes part in this run.
    Active,
    /// Its task has ended in order, and has written all that it writes.
    Ended,
    /// The peer was lost, and holds no grant. A call in which it was stopped may complete as long
    /// as this process lives (B1).
    Lapsed {
        /// The process that was lost.
        process: u64,
    },
    /// The run is over and has stopped its task, which has left a thread in a system call: a later
    /// run waits for the peer. Its work from before it joined is over.
    Unended,
    /// Its task has ended with a thread in a system call, which may complete at any time (B1).
    Hung {
        /// The process that has the thread.
        process: u64,
    },
}

impl Writes {
    /// Returns whether the writer holds no grant: no later attempt waits for it.
    pub(super) fn is_settled(self) -> bool {
        matches!(self, Self::Settled | Self::Ended | Self::Lapsed { .. })
    }

    /// Returns whether a task of this run has begun and was not lost, which ends all late writes of
    /// earlier work.
    pub(super) fn is_heard(self) -> bool {
        matches!(self, Self::Active | Self::Ended | Self::Unended)
    }

    /// Returns the process that may write late, if it is known.
    pub(super) fn lost_process(self) -> Option<u64> {
        match self {
            Self::Lapsed { process } | Self::Hung { process } => Some(process),
            _ => None,
        }
    }
}

/// The way in which a peer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its grant has lapsed, or its process has ended.
    Lapsed,
    /// A thread of its task is left in a system call.
    Hung,
}

/// A peer of the run.
#[derive(Debug)]
pub(super) struct Peer<R> {
    /// The last known name.
    pub(super) name: Option<String>,
    pub(super) state: PeerState,
    pub(super) writes: Writes,
    /// The last failure, kept while the peer takes part again: the next wait depends on it.
    pub(super) retry: Option<Retry<R>>,
    /// Set if the peer was present when the run began, and has neither joined nor failed since.
    pub(super) is_expected: bool,
    /// Pages in which it may have left temporary files that no other peer would find.
    pub(super) left: BTreeSet<u32>,
}

impl<R> Default for Peer<R> {
    fn default() -> Self {
        Self {
            name: None,
            state: PeerState::Absent,
            writes: Writes::Unknown,
            retry: None,
            is_expected: false,
            left: BTreeSet::new(),
        }
    }
}

/// The last failure of a peer.
#[derive(Debug)]
pub(super) struct Retry<R> {
    /// The process that failed.
    pub(super) process: u64,
    /// Time of the next try; `None` until the process is another one.
    pub(super) until: Option<Instant>,
    pub(super) wait: Duration,
    pub(super) reason: R,
    /// True until the peer joins again.
    pub(super) is_met: bool,
}

impl<R> Peer<R> {
    /// Records the loss of the peer, if it is lost.
    pub(super) fn lose(&mut self, process: u64, loss: Option<Loss>) {
        match loss {
            None => {}
            Some(Loss::Lapsed) => self.writes = Writes::Lapsed { process },
            Some(Loss::Hung) => self.writes = Writes::Hung { process },
        }
    }
}
