//! Breaches of the lane protocol by peers of paired sites whose lanes are served here.
//!
//! Breaches count as those of a source do at its target ([`Breaches`]). After each one no lane of
//! that peer is served for a growing pause, and after eight of them none for an hour. The peer gets
//! that reason, and its transfers fail with it. Other peers of its site are not affected.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use penstock_peer::{Breaches, Held};
use penstock_proto::frame::{Refusal, RefusalCode};
use penstock_proto::id::PeerId;
use penstock_proto::units::Instant;

/// Peers of one site that have counts of their own. A site can make any number of names for its
/// peers: further ones are counted together.
const PEERS_MAX: usize = 256;

/// The breaches of the peers of one site.
#[derive(Default)]
pub(crate) struct PeerBreaches {
    of: Mutex<HashMap<PeerId, Breaches>>,
    others: Breaches,
}

impl PeerBreaches {
    /// Counts a breach by a peer.
    pub(crate) fn note(&self, peer: &PeerId) {
        self.note_at(penstock_sys::boottime_now(), peer);
    }

    fn note_at(&self, now: Instant, peer: &PeerId) {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() < PEERS_MAX || of.contains_key(peer) {
            of.entry(peer.clone()).or_default().note(now);
        } else {
            self.others.note(now);
        }
    }

    /// Returns the refusal of a lane of a peer, if none is served now.
    pub(crate) fn refusal(&self, peer: &PeerId) -> Option<Refusal> {
        self.refusal_at(penstock_sys::boottime_now(), peer)
    }

    fn refusal_at(&self, now: Instant, peer: &PeerId) -> Option<Refusal> {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let breaches = match of.get(peer) {
            Some(breaches) => breaches,
            None if of.len() >= PEERS_MAX => &self.others,
            None => return None,
        };
        let (code, retry_after_ms, when) = match breaches.held(now)? {
            Held::Until(until) => {
                let wait = u32::try_from(until.since(now).as_millis()).unwrap_or(u32::MAX);
                (RefusalCode::Busy, wait.max(1), "for a moment")
            }
            Held::ForLong => (RefusalCode::Protocol, 0, "for an hour"),
        };
        let text = format!("peer `{peer}` broke the lane protocol: no lane is served to it {when}");
        Some(Refusal { code, retry_after_ms, text })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn peer(name: &str) -> PeerId {
        PeerId { site: "lab".parse().unwrap(), peer: name.parse().unwrap() }
    }

    /// Promise: a peer that breaks the protocol is held back for longer each time, and then for an
    /// hour. Another peer of its site is served, until there are too many for counts of their own.
    #[test]
    fn each_peer_answers_for_itself() {
        let breaches = PeerBreaches::default();
        let (bad, good) = (peer("bad"), peer("good"));
        let mut now = Instant(0).plus(Duration::from_secs(10_000));
        let mut waits = Vec::new();
        let last = loop {
            breaches.note_at(now, &bad);
            assert_eq!(breaches.refusal_at(now, &good), None);
            let refusal = breaches.refusal_at(now, &bad).unwrap();
            if refusal.code != RefusalCode::Busy {
                break refusal;
            }
            waits.push(refusal.retry_after_ms);
            now = now.plus(Duration::from_millis(refusal.retry_after_ms.into()));
            assert_eq!(breaches.refusal_at(now, &bad), None, "the pause is over");
        };
        assert_eq!(last.code, RefusalCode::Protocol);
        assert!(waits.len() == 7 && waits.is_sorted(), "{waits:?}");
        let later = now.plus(Duration::from_secs(3700));
        assert_eq!(breaches.refusal_at(later, &bad), None);
        for number in 0..PEERS_MAX + 50 {
            breaches.note_at(later, &peer(&format!("p{number}")));
        }
        assert!(breaches.of.lock().unwrap().len() <= PEERS_MAX);
        assert!(breaches.refusal_at(later, &peer("new")).is_some());
    }
}
