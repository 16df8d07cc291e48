//! The peers by their rates, and how they share the last pieces.
//!
//! Towards the end a piece is worth less to the peer that has it than to one that would finish it
//! sooner. Once all pages are open, a peer takes only work that it can finish when all peers are
//! done, or a piece that no other would finish much sooner. When no piece is missing, the peer that
//! needs longest for its work is asked to return so much of it that both end at once. It returns
//! only pieces that it has not begun, so that no piece is ever written by two (B3). A slow peer
//! thus slows only its own share.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_proto::id::PeerNumber;
use penstock_proto::units::{Instant, KIB};

use super::open::OpenPages;
use super::peer::Peer;

/// Time beyond that of all others together that a peer may need for its last pieces.
const LATER: Duration = Duration::from_secs(1);
/// Time after which a peer that has not asked is not expected to bring anything soon.
const ABSENT: Duration = Duration::from_secs(2);
/// Least bytes that are worth a round trip.
const GIVE_BACK_FLOOR: u64 = 128 * KIB;

/// The peers of a transfer at one moment, with their rates and their work.
pub(super) struct Rates<'a> {
    peers: &'a BTreeMap<PeerNumber, Peer>,
    open: &'a OpenPages,
    now: Instant,
}

impl<'a> Rates<'a> {
    pub(super) fn new(
        peers: &'a BTreeMap<PeerNumber, Peer>,
        open: &'a OpenPages,
        now: Instant,
    ) -> Self {
        Self { peers, open, now }
    }

    fn rate_of(&self, peer: PeerNumber) -> Option<f64> {
        let has = self.open.in_hand(peer);
        self.peers.get(&peer)?.speed.rate(self.now, has.bytes / has.pieces.max(1))
    }

    /// Returns the known rates of the peers that may take missing pieces now.
    fn takers(&self) -> impl Iterator<Item = (PeerNumber, f64)> + '_ {
        let takes = |peer: &Peer| {
            let asks = peer.speed.asked.is_some_and(|asked| self.now.since(asked) < ABSENT);
            asks && peer.takes_work()
        };
        let able = self.peers.iter().filter(move |(_, peer)| takes(peer));
        able.filter_map(move |(number, _)| Some((*number, self.rate_of(*number)?)))
    }

    /// Returns how much of `bytes` a peer may take at the end, when all pages are open: no more
    /// than it will have brought when all others are done, or a little later.
    pub(super) fn share_of_rest(&self, peer: PeerNumber, bytes: u64) -> u64 {
        if self.peers.len() < 2 {
            return bytes;
        }
        let Some(mine) = self.rate_of(peer) else { return bytes };
        let in_hand = self.peers.keys().map(|number| self.open.in_hand(*number).bytes);
        let left = self.open.ahead_bytes + self.open.aside_bytes + in_hand.sum::<u64>();
        let rates: f64 = self.takers().map(|(_, rate)| rate).sum();
        if rates <= 0.0 {
            return bytes;
        }
        let brings = mine * (left as f64 / rates + LATER.as_secs_f64());
        bytes.min((brings as u64).saturating_sub(self.open.in_hand(peer).bytes))
    }

    /// Returns whether no other peer would finish a piece of `bytes`, after its present work, in
    /// less than half of this peer's time. The last pieces may be larger than each peer's part of
    /// the rest, and one of the peers has to take them.
    pub(super) fn is_soonest(&self, peer: PeerNumber, bytes: u64) -> bool {
        let time = |(number, rate): (PeerNumber, f64)| {
            (self.open.in_hand(number).bytes + bytes) as f64 / rate.max(f64::MIN_POSITIVE)
        };
        let best = self.takers().map(time).fold(f64::MAX, f64::min);
        self.rate_of(peer).is_none_or(|rate| time((peer, rate)) <= best * 2.0)
    }

    /// Returns the peer that needs longest for its work, and the bytes that it is to return: so
    /// many that `peer`, which is idle, ends at the same time.
    pub(super) fn slowest_for(&self, peer: PeerNumber) -> Option<(PeerNumber, u64)> {
        let known = self.peers.keys().filter_map(|number| self.rate_of(*number));
        let (count, sum) = known.fold((0, 0.0), |(count, sum), rate| (count + 1, sum + rate));
        let usual = if count > 0 { sum / f64::from(count) } else { 1.0 };
        let standing = |number: PeerNumber| {
            let rate = self.rate_of(number).unwrap_or(usual).max(1.0);
            (self.open.in_hand(number).bytes as f64, rate)
        };
        let (mine, my_rate) = standing(peer);
        let mut longest: Option<(f64, PeerNumber, u64)> = None;
        for (number, other) in self.peers.iter().filter(|(number, _)| **number != peer) {
            let (bytes, rate) = standing(*number);
            let wanted = ((bytes * my_rate - mine * rate) / (my_rate + rate)) as u64;
            let free = other.give_back.may_be_asked(self.now);
            let time = bytes / rate;
            if wanted >= GIVE_BACK_FLOOR && free && longest.is_none_or(|(most, ..)| time > most) {
                longest = Some((time, *number, wanted));
            }
        }
        longest.map(|(_, from, wanted)| (from, wanted))
    }
}
