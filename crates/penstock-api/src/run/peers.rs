//! Peers that take part in a run at its target, as its runner sees them.

use std::sync::Arc;
use std::time::Duration;

use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::units::Instant;

use crate::run::task::target_peer::TargetPeer;

/// Duration of a grant by default.
pub const GRANT: Duration = Duration::from_secs(60);

/// A peer of the target's site that may take part in a run.
#[derive(Clone)]
pub struct Member {
    /// Its name, for people; empty where there are no others.
    pub name: String,
    /// Identity under which it writes.
    pub writer: WriterId,
    /// Number of its process. A new number means that it was restarted, and that the work of the
    /// old process is unassigned.
    pub instance: u64,
    /// True if it is the controller's own peer, which is asked first for what one peer does for
    /// all.
    pub is_own: bool,
    /// True if it gets no more work, and is released once its writes are durable.
    pub is_draining: bool,
    /// Access to it.
    pub peer: Arc<dyn TargetPeer>,
}

/// Change of a peer's part in a run, for operators of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartNews {
    /// The peer takes part from now on, though it did not when the run began.
    Joined,
    /// The peer cannot take part for now.
    Refused {
        /// The reason.
        why: String,
        /// Delay until the next try; `None`: not before it is restarted.
        again: Option<Duration>,
    },
    /// The peer was drained: its writes are durable, and it has nothing in hand.
    Drained,
    /// The peer was excluded.
    Out {
        /// The reason.
        why: String,
        /// True if its last writes are unknown.
        is_lost: bool,
        /// Number of peers that continue.
        others: usize,
        /// Delay until the next try; `None`: not before it is restarted.
        again: Option<Duration>,
    },
}

/// The peers that may take part in one run: those of the target's site that reach its store.
pub trait Peers: Send + Sync {
    /// Returns the members that are present now. Called several times a second: never blocks. A
    /// member that is absent gets no new task; a running task continues as long as its peer is
    /// heard of.
    fn present(&self) -> Vec<Member>;

    /// Returns the peers of the site that cannot take part, with the reason, as [`Peers::present`]
    /// found last.
    fn left_out(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the id of the store to which they write, as far as one of them sees it. A peer that
    /// sees none at its path makes no new one there for the first transfer that writes to it (A5).
    fn store_id(&self) -> Option<u64> {
        None
    }

    /// Returns the duration of a grant. `None` where there is never more than one peer: nothing is
    /// fenced, and no peer has to report that it is alive.
    fn grant(&self) -> Option<Duration>;

    /// Returns the time by which grants are counted, on `CLOCK_BOOTTIME`; it is constant where
    /// there are no grants.
    fn now(&self) -> Instant {
        Instant(0)
    }

    /// Reports a change of a peer's part in the run of a transfer. Must not block for long.
    fn tell(&self, _transfer: TransferId, _peer: &str, _news: &PartNews) {}
}

/// The one peer of a site that has no others.
pub struct OnePeer(pub Arc<dyn TargetPeer>);

impl Peers for OnePeer {
    fn present(&self) -> Vec<Member> {
        vec![Member {
            name: String::new(),
            writer: WriterId::SOLE,
            instance: 0,
            is_own: true,
            is_draining: false,
            peer: Arc::clone(&self.0),
        }]
    }

    fn grant(&self) -> Option<Duration> {
        None
    }
}
