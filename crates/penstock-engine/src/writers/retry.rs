//! Peers that failed, and the time for which each is left alone.

use std::time::Duration;

use penstock_proto::id::WriterId;
use penstock_proto::units::Instant;

use super::peer::{PeerState, PresentPeer, Retry};
use super::registry::WriterRegistry;

/// Wait after a failure that may pass: doubled from the first to the last.
pub const RETRY_WAITS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// Wait after the target was found full: a peer that tries again too early finds it full again.
pub const RETRY_FULL: Duration = RETRY_WAITS.1;
/// The first wait of a peer that was not trusted. The sites trust each other, and other peers of
/// this one work, so it or the other end has not heard of a pairing yet.
pub const RETRY_UNTRUSTED: Duration = Duration::from_secs(1);

/// Kind of a failure of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The target is full, which passes when there is room.
    Full,
    /// The failure may pass by itself.
    Passing,
    /// The other end did not trust the peer.
    Untrusted,
    /// The failure does not pass until the peer's process is replaced.
    Final,
}

impl<R> WriterRegistry<R> {
    /// Handles the failure of a peer that left the run, or could not start: it is not asked for a
    /// while.
    pub fn handle_failed(&mut self, seen: &PresentPeer, failure: Failure, reason: R, now: Instant) {
        let peer = self.peers.entry(seen.writer).or_default();
        debug_assert!(
            !matches!(peer.state, PeerState::Working { .. } | PeerState::Starting { .. }),
            "a peer that takes part is left alone"
        );
        let (first, most) = RETRY_WAITS;
        let wait = match (failure, &peer.retry) {
            (Failure::Full, _) => RETRY_FULL,
            (_, Some(before)) => (before.wait * 2).min(most),
            (Failure::Untrusted, None) => RETRY_UNTRUSTED,
            (Failure::Passing | Failure::Final, None) => first,
        };
        let until = (failure != Failure::Final).then(|| now.plus(wait));
        let process = seen.process;
        peer.retry = Some(Retry { process, until, wait, reason, is_met: true });
    }

    /// Returns whether a peer is left alone now.
    pub fn is_away(&self, seen: &PresentPeer, now: Instant) -> bool {
        self.retry_of(seen.writer).is_some_and(|retry| {
            retry.process == seen.process && retry.until.is_none_or(|until| now < until)
        })
    }

    /// Returns the reason of a peer's last failure, and the time until the next try: `None` for one
    /// that waits until the process of the peer is another one.
    pub fn last_failure(&self, writer: WriterId, now: Instant) -> Option<(&R, Option<Duration>)> {
        let retry = self.retry_of(writer)?;
        Some((&retry.reason, retry.until.map(|until| until.since(now))))
    }

    /// Returns the failures of the peers that have not joined since.
    pub fn failures(&self) -> impl Iterator<Item = (WriterId, &R)> {
        self.peers.iter().filter_map(|(writer, peer)| {
            let retry = peer.retry.as_ref()?;
            retry.is_met.then_some((*writer, &retry.reason))
        })
    }

    pub(super) fn retry_of(&self, writer: WriterId) -> Option<&Retry<R>> {
        self.peers.get(&writer)?.retry.as_ref()
    }
}
