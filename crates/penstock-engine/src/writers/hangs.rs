//! Peers whose stores hang (E2).
//!
//! A peer reports for how long its current call to its store has shown no sign of life. The bound
//! is one that a slow but sound disk never reaches. Beyond the bound the peer is taken out like a
//! lost one: another peer checks its files, and the others get its work (A9). This requires another
//! peer whose store answers. Without one no peer is taken out, and the transfer waits.

use std::time::Duration;

use penstock_proto::id::PeerNumber;

use super::registry::WriterRegistry;

/// Grants without a sign of life after which a call hangs for good: two minutes by default, as the
/// kernel has it (`hung_task_timeout_secs`).
const HUNG_GRANTS: u32 = 2;
/// Fraction of a grant after which a call without a sign of life is an event.
const NOTED_OF_GRANT: u32 = 2;

/// Stores that do not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hangs {
    /// True if all peers answered at the last look: an event for operators.
    pub is_news: bool,
    /// The longest time without a sign of life.
    pub longest: Duration,
    /// True if the store answers another peer.
    pub others_work: bool,
    /// The peers to take out, and the time for which each hangs.
    pub out: Vec<(PeerNumber, Duration)>,
}

impl<R> WriterRegistry<R> {
    /// Handles the times for which the calls of the working peers show no sign of life. Returns
    /// `None` if none of them is an event.
    pub fn poll_hangs(
        &mut self,
        hangs: &[(PeerNumber, Duration)],
        grant: Duration,
    ) -> Option<Hangs> {
        let (noted, hung) = (grant / NOTED_OF_GRANT, grant * HUNG_GRANTS);
        let longest = hangs.iter().map(|(_, lasts)| *lasts).max().unwrap_or_default();
        if longest < noted {
            self.hangs = false;
            return None;
        }
        let works =
            |(number, lasts): &(PeerNumber, Duration)| *lasts < noted && !self.is_draining(*number);
        let others_work = hangs.iter().any(works);
        let out = hangs.iter().filter(|(_, lasts)| others_work && *lasts >= hung).copied();
        let out = out.collect();
        let is_news = !std::mem::replace(&mut self.hangs, true);
        Some(Hangs { is_news, longest, others_work, out })
    }
}
