//! Peers whose stores hang (E2).
//!
//! A peer reports for how long its current call to its store has shown no sign of life. The bound
//! is one that a slow but sound disk never reaches. Beyond the bound the peer is removed like a
//! lost one: another peer checks its files, and the others get its work (A9). This requires another
//! peer whose store answers. Without one no peer is removed, and the transfer waits.

use std::time::Duration;

use penstock_proto::id::PeerNumber;

/// Grants without a sign of life after which a call hangs for good: two minutes by default, as the
/// kernel has it (`hung_task_timeout_secs`).
const HUNG_GRANTS: u32 = 2;
/// Fraction of a grant after which a call without a sign of life is an event.
const NOTED_OF_GRANT: u32 = 2;

/// The current call of a working peer to its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCall {
    /// The number of the peer in the run.
    pub peer: PeerNumber,
    /// The time for which the call shows no sign of life.
    pub lasts: Duration,
    /// True if the peer gets no new work: it does not take over that of others.
    pub is_draining: bool,
}

/// Stores that do not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hangs {
    /// True if all peers answered at the last look: an event for operators.
    pub is_news: bool,
    /// The longest time without a sign of life.
    pub longest: Duration,
    /// True if the store answers another peer.
    pub others_work: bool,
    /// The peers to remove, and the time for which each hangs.
    pub out: Vec<(PeerNumber, Duration)>,
}

/// Looks for stores that hang.
#[derive(Clone, Debug)]
pub struct HangWatch {
    /// Duration of a grant.
    grant: Duration,
    /// Set if the event that a store hangs was reported, until all answer again.
    is_reported: bool,
}

impl HangWatch {
    /// Returns a watch that counts in grants of this duration.
    pub fn new(grant: Duration) -> Self {
        Self { grant, is_reported: false }
    }

    /// Handles the calls of the working peers. Returns `None` if none of them is an event.
    pub fn poll(&mut self, calls: &[StoreCall]) -> Option<Hangs> {
        let (noted, hung) = (self.grant / NOTED_OF_GRANT, self.grant * HUNG_GRANTS);
        let longest = calls.iter().map(|call| call.lasts).max().unwrap_or_default();
        if longest < noted {
            self.is_reported = false;
            return None;
        }
        let others_work = calls.iter().any(|call| call.lasts < noted && !call.is_draining);
        let out = calls.iter().filter(|call| others_work && call.lasts >= hung);
        let out: Vec<_> = out.map(|call| (call.peer, call.lasts)).collect();
        debug_assert!(out.is_empty() || out.len() < calls.len(), "a peer stays that works");
        let is_news = !std::mem::replace(&mut self.is_reported, true);
        Some(Hangs { is_news, longest, others_work, out })
    }
}
