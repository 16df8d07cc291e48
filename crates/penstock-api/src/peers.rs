//! Who takes part in a run at its target: what its runner learns while it goes on.

use std::sync::Arc;
use std::time::Duration;

use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::units::Instant;

use crate::task::TargetPeer;

/// How long a grant holds by default.
pub const GRANT: Duration = Duration::from_secs(60);

/// A peer of the target's site that may take part in a run.
#[derive(Clone)]
pub struct Member {
    /// Its name, for people; empty where there are no others.
    pub name: String,
    /// Whom it writes as.
    pub writer: WriterId,
    /// Number of its process: with another one it was restarted, and what the old one had in hand
    /// is nobody's any more.
    pub instance: u64,
    /// Whether it is the controller's own: what one peer does for all is asked of it first.
    pub is_own: bool,
    /// It gets no more work, and is let go once what it wrote is durable.
    pub is_draining: bool,
    /// The way to it.
    pub peer: Arc<dyn TargetPeer>,
}

/// What became of a peer's part in a run, for those who look after the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartNews {
    /// It takes part from now on, though it did not when the run began.
    Joined,
    /// It cannot take part for now.
    Refused {
        /// Why.
        why: String,
        /// When it is tried again; `None`: not before it is restarted.
        again: Option<Duration>,
    },
    /// It was drained: what it wrote is durable, and it has nothing in hand.
    Drained,
    /// It was taken out.
    Out {
        /// Why.
        why: String,
        /// Nobody knows what it did last.
        is_lost: bool,
        /// Peers that go on.
        others: usize,
        /// When it is tried again; `None`: not before it is restarted.
        again: Option<Duration>,
    },
}

/// The peers that may take part in one run: those of the target's site that reach its store.
pub trait Peers: Send + Sync {
    /// Who is there now. Asked several times a second: never blocks. Who is not there gets no new
    /// task; a task that runs goes on as long as it is heard of.
    fn present(&self) -> Vec<Member>;

    /// Peers of the site that cannot take part, and why, as [`Peers::present`] found last.
    fn left_out(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The id of the store that they write to, as far as one of them sees it: who sees none at its
    /// path makes no new one there for the first transfer that writes to it (A5).
    fn store_id(&self) -> Option<u64> {
        None
    }

    /// How long a grant holds. `None` where there is never more than one peer: nothing is fenced,
    /// and nobody has to say that it lives.
    fn grant(&self) -> Option<Duration>;

    /// The time by which grants are counted, on `CLOCK_BOOTTIME`; it stands still where there are
    /// none.
    fn now(&self) -> Instant {
        Instant(0)
    }

    /// Is told what became of a peer's part in the run of a transfer. Must not block for long.
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
