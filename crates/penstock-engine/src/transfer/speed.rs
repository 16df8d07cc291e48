//! What each peer brings, and how the end is shared by it.
//!
//! Towards the end a piece is worth less to the peer that has it than to one that would be done
//! with it sooner. Once all pages are open, a peer takes no more than it will have brought when
//! everybody has everything, or a piece that nobody else would have much sooner. When nothing is
//! missing, the one that needs longest for what it has in hand is asked to give back so much of it
//! that both end at once. It gives back only what it has not begun, so that no piece is ever
//! written by two (B3). A slow peer thus slows its own share.

use std::time::Duration;

use penstock_proto::id::PeerNumber;
use penstock_proto::units::{Instant, KIB};

use super::TransferMachine;
use super::peers::Peer;

/// A rate is measured over at least this time.
const WINDOW: Duration = Duration::from_secs(1);
/// How much longer than all others together a peer may need for what it takes last.
const LATER: Duration = Duration::from_secs(1);
/// Who has not asked for so long does not bring anything soon.
const ABSENT: Duration = Duration::from_secs(2);
/// A peer is asked to give back something at most this often.
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(200);
/// Less than this is not worth a round trip.
const GIVE_BACK_FLOOR: u64 = 128 * KIB;

/// What a peer brings while it has something in hand.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// Since when bytes are counted; not at all while nothing is in hand.
    since: Option<Instant>,
    bytes: u64,
    rate: Option<f64>,
    /// When it last asked for work.
    asked: Option<Instant>,
}

impl Speed {
    fn rest(&mut self) {
        (self.since, self.bytes) = (None, 0);
    }

    fn work(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    fn add(&mut self, now: Instant, bytes: u64) {
        let since = *self.since.get_or_insert(now);
        self.bytes += bytes;
        let passed = now.since(since);
        if passed >= WINDOW {
            let new = self.bytes as f64 / passed.as_secs_f64();
            self.rate = Some(self.rate.map_or(new, |old| f64::midpoint(old, new)));
            (self.since, self.bytes) = (Some(now), 0);
        }
    }

    /// Bytes per second, if that is known. Who has said nothing for two windows has brought no more
    /// than the `piece` that it is at.
    fn rate(&self, now: Instant, piece: u64) -> Option<f64> {
        let passed = self.since.map_or(Duration::ZERO, |since| now.since(since));
        if passed < WINDOW * 2 {
            return self.rate;
        }
        let new = (self.bytes + piece) as f64 / passed.as_secs_f64();
        Some(self.rate.map_or(new, |old| old.min(new)))
    }
}

/// What is asked of a peer for others.
#[derive(Debug)]
pub(super) struct GiveBack {
    /// Worth so many bytes, to be told when it asks next.
    bytes: u64,
    /// When it may be asked again.
    after: Instant,
}

impl GiveBack {
    pub(super) fn new(now: Instant) -> Self {
        Self { bytes: 0, after: now }
    }
}

impl TransferMachine {
    /// A peer has written something, one of several.
    pub(super) fn note_brought(&mut self, peer: PeerNumber, bytes: u64, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.speed.add(now, bytes);
        }
    }

    /// A peer asks, and may have nothing in hand: it is not slow because of that.
    pub(super) fn note_asking(&mut self, peer: PeerNumber, now: Instant) {
        let rests = self.open.in_hand(peer).bytes == 0;
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        peer.speed.asked = Some(now);
        if rests {
            peer.speed.rest();
        }
    }

    /// A peer was given something.
    pub(super) fn note_given(&mut self, peer: PeerNumber, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.speed.work(now);
        }
    }

    fn rate_of(&self, peer: PeerNumber, now: Instant) -> Option<f64> {
        let has = self.open.in_hand(peer);
        self.peers.get(&peer)?.speed.rate(now, has.bytes / has.pieces.max(1))
    }

    /// The rates of those that may take what is missing now, as far as they are known.
    fn takers(&self, now: Instant) -> impl Iterator<Item = (PeerNumber, f64)> + '_ {
        let takes = move |peer: &Peer| {
            let asks = peer.speed.asked.is_some_and(|asked| now.since(asked) < ABSENT);
            asks && peer.takes_work()
        };
        let able = self.peers.iter().filter(move |(_, peer)| takes(peer));
        able.filter_map(move |(number, _)| Some((*number, self.rate_of(*number, now)?)))
    }

    /// How much of `bytes` a peer may take now: at the end no more than it will have brought when
    /// all others have everything, or a little later.
    pub(super) fn share_of_rest(&self, peer: PeerNumber, bytes: u64, now: Instant) -> u64 {
        let all_known = self.pages_total.is_some_and(|total| self.next_page >= total);
        if !all_known || self.peers.len() < 2 {
            return bytes;
        }
        let Some(mine) = self.rate_of(peer, now) else { return bytes };
        let in_hand = self.peers.keys().map(|number| self.open.in_hand(*number).bytes);
        let left = self.open.ahead_bytes + self.open.aside_bytes + in_hand.sum::<u64>();
        let rates: f64 = self.takers(now).map(|(_, rate)| rate).sum();
        if rates <= 0.0 {
            return bytes;
        }
        let brings = mine * (left as f64 / rates + LATER.as_secs_f64());
        bytes.min((brings as u64).saturating_sub(self.open.in_hand(peer).bytes))
    }

    /// Whether nobody would have brought a piece of `bytes` in less than half of the time that this
    /// peer takes for it, after what it has in hand: somebody has to take the last ones, which may
    /// be worth more than each one's part of the rest.
    pub(super) fn is_soonest(&self, peer: PeerNumber, bytes: u64, now: Instant) -> bool {
        let time = |(number, rate): (PeerNumber, f64)| {
            (self.open.in_hand(number).bytes + bytes) as f64 / rate.max(f64::MIN_POSITIVE)
        };
        let best = self.takers(now).map(time).fold(f64::MAX, f64::min);
        self.rate_of(peer, now).is_none_or(|rate| time((peer, rate)) <= best * 2.0)
    }

    /// Asks the peer that needs longest for what it has in hand to give back so much, at most
    /// `bytes`, that `peer`, which has nothing to do, ends with it at the same time.
    pub(super) fn steal(&mut self, peer: PeerNumber, bytes: u64, now: Instant) {
        let known = self.peers.keys().filter_map(|number| self.rate_of(*number, now));
        let (count, sum) = known.fold((0, 0.0), |(count, sum), rate| (count + 1, sum + rate));
        let usual = if count > 0 { sum / f64::from(count) } else { 1.0 };
        let standing = |number: PeerNumber| {
            let rate = self.rate_of(number, now).unwrap_or(usual).max(1.0);
            (self.open.in_hand(number).bytes as f64, rate)
        };
        let (mine, my_rate) = standing(peer);
        let mut longest: Option<(f64, PeerNumber, u64)> = None;
        for (number, other) in self.peers.iter().filter(|(number, _)| **number != peer) {
            let (bytes, rate) = standing(*number);
            let wanted = ((bytes * my_rate - mine * rate) / (my_rate + rate)) as u64;
            let free = other.give_back.bytes == 0 && now >= other.give_back.after;
            let time = bytes / rate;
            if wanted >= GIVE_BACK_FLOOR && free && longest.is_none_or(|(most, ..)| time > most) {
                longest = Some((time, *number, wanted));
            }
        }
        if let Some((_, from, wanted)) = longest
            && let Some(from) = self.peers.get_mut(&from)
        {
            from.give_back.bytes = wanted.min(bytes);
        }
    }

    /// What a peer is to give back, told now.
    pub(super) fn take_give_back(&mut self, peer: PeerNumber, now: Instant) -> u64 {
        let in_hand = self.open.in_hand(peer).pieces > 0;
        let Some(asked) = self.peers.get_mut(&peer) else { return 0 };
        if !asked.takes_work() {
            return if in_hand { u64::MAX } else { 0 };
        }
        let wanted = std::mem::take(&mut asked.give_back.bytes);
        if wanted > 0 {
            asked.give_back.after = now.plus(GIVE_BACK_PAUSE);
        }
        // By now something else may be missing, which the other one takes first.
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Promise (f): a peer that stands still is known to be slow without a word of it, and one that
    /// has nothing to do is not.
    #[test]
    fn standing_still_is_slow_and_resting_is_not() {
        let mut speed = Speed::default();
        speed.work(at(0));
        assert_eq!(speed.rate(at(1900), 500), None);
        for ms in [500, 1000] {
            speed.add(at(ms), 500);
        }
        assert_eq!(speed.rate(at(2900), 500), Some(1000.0));
        assert_eq!(speed.rate(at(11_000), 500), Some(50.0));
        speed.add(at(11_000), 10_000);
        assert_eq!(speed.rate(at(11_000), 500), Some(1000.0));
        speed.rest();
        assert_eq!(speed.rate(at(60_000), 500), Some(1000.0));
    }
}
