//! Division of one limit among the peers that share a transfer, by the needs of each.
//!
//! The limit holds for all together, in units a second: bytes or operations. A peer that is limited
//! by its share gets as much as the other limited peers. A peer that is not limited by its share
//! gets its use and room for more. The rest is divided equally. No part of the limit is therefore
//! idle while a peer could use it, and no peer gets less because another can take more.
//!
//! The shares in force never exceed the limit. A share is raised when the peers whose shares were
//! lowered for it have confirmed that, or have used nothing for long enough. A peer that wakes
//! after such a pause uses at most one [`crate::pace::BURST`] before it learns its lower share.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_proto::id::PeerNumber;
use penstock_proto::units::Instant;

/// Window over which use is measured.
const WINDOW: Duration = Duration::from_millis(500);
/// Time without use after which a peer counts as not needing its share, and not following it.
const SILENCE: Duration = Duration::from_secs(2);
/// Divisor of an equal share that yields the least share.
const LEAST: u64 = 16;
/// Divisor of the right share: smaller deviations are not corrected.
const SLACK: u64 = 16;

/// Use of a share by a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Units taken since it began.
    pub taken: u64,
    /// True if it had to wait for its share since the last report.
    pub held: bool,
}

#[derive(Debug)]
struct Sharer {
    told: u64,
    /// Greatest share that may be in force there.
    in_force: u64,
    /// Start of the window, and the units taken by then.
    since: Instant,
    before: Option<u64>,
    held: bool,
    /// Time at which its use was last seen to grow.
    moved: Instant,
    seen: u64,
    /// Need in units a second; `None` for as much as possible.
    need: Option<u64>,
}

/// The shares of one limit.
#[derive(Debug)]
pub struct ShareMachine {
    limit: u64,
    /// The greatest number of units that are taken at once.
    grain: u64,
    peers: BTreeMap<PeerNumber, Sharer>,
}

impl ShareMachine {
    /// Returns a division of `limit` units a second, at least one, which are taken up to `grain` at
    /// once.
    pub fn new(limit: u64, grain: u64) -> Self {
        Self { limit: limit.max(1), grain, peers: BTreeMap::new() }
    }

    /// Sets another limit.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit.max(1);
    }

    /// Handles a peer that takes part, without a share: it starts with next to nothing.
    pub fn handle_joined(&mut self, peer: PeerNumber, now: Instant) {
        let joined = Sharer {
            told: 0,
            in_force: 0,
            since: now,
            before: None,
            held: false,
            moved: now,
            seen: 0,
            need: None,
        };
        self.peers.insert(peer, joined);
    }

    /// Handles a peer that has left.
    pub fn handle_left(&mut self, peer: PeerNumber) {
        self.peers.remove(&peer);
    }

    /// Handles the confirmation that a peer follows its last share.
    pub fn handle_held_to(&mut self, peer: PeerNumber) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.in_force = peer.told;
        }
    }

    /// Handles the share that a peer follows if it has not received the last one.
    pub fn handle_in_force(&mut self, peer: PeerNumber, share: u64) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.in_force = peer.in_force.max(share);
        }
    }

    /// Handles a report of a peer on its use; the same may be reported more than once.
    pub fn handle_used(&mut self, peer: PeerNumber, used: Used, now: Instant) {
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        if used.taken != peer.seen {
            (peer.seen, peer.moved) = (used.taken, now);
        }
        peer.held |= used.held;
        let Some(before) = peer.before else {
            (peer.before, peer.since) = (Some(used.taken), now);
            return;
        };
        let passed = now.since(peer.since);
        if passed < WINDOW {
            return;
        }
        let taken = used.taken.saturating_sub(before);
        let rate = (taken as f64 / passed.as_secs_f64()) as u64;
        // A peer that uses all of its share has to wait. The need falls slowly, since units are
        // used in bursts.
        let fading = peer.need.map_or(0, |need| need - need / 4);
        peer.need = (!peer.held).then_some((rate + rate / 2).max(fading));
        (peer.before, peer.since, peer.held) = (Some(used.taken), now, false);
    }

    /// Returns the shares to send to peers now.
    pub fn poll(&mut self, now: Instant) -> Vec<(PeerNumber, u64)> {
        let grain = self.grain;
        for peer in self.peers.values_mut() {
            let paid = 2.0 * grain as f64 / peer.told.max(1) as f64;
            let most = SILENCE.saturating_add(Duration::try_from_secs_f64(paid).unwrap_or(SILENCE));
            if now.since(peer.moved) >= most {
                (peer.in_force, peer.need) = (peer.told, Some(0));
            }
        }
        let targets = self.targets();
        let off = |(peer, target): &(PeerNumber, u64)| {
            let told = self.peers.get(peer).map_or(0, |peer| peer.told);
            told.abs_diff(*target) > target / SLACK
        };
        if !targets.iter().any(off) {
            return Vec::new();
        }
        let mut news = Vec::new();
        for (number, target) in &targets {
            if let Some(peer) = self.peers.get_mut(number).filter(|peer| *target < peer.told) {
                peer.told = *target;
                news.push((*number, *target));
            }
        }
        let in_force = self.peers.values().map(|peer| peer.in_force).sum();
        let mut free = self.limit.saturating_sub(in_force);
        for (number, target) in targets {
            let Some(peer) = self.peers.get_mut(&number) else { continue };
            let share = target.min(peer.in_force.saturating_add(free));
            // Two small raises would be two messages.
            if share > peer.told && (share == target || share - peer.told > target / SLACK) {
                let more = share.saturating_sub(peer.in_force);
                debug_assert!(more <= free, "the shares in force exceed the limit");
                free -= more;
                peer.in_force += more;
                peer.told = share;
                news.push((number, share));
            }
        }
        news
    }

    /// Returns the final share of each: together the whole limit.
    fn targets(&self) -> Vec<(PeerNumber, u64)> {
        let count = self.peers.len() as u64;
        let least = (self.limit / count.max(1) / LEAST).max(1);
        let need = |peer: &Sharer| peer.need.map_or(self.limit, |need| need.max(least));
        let mut targets: Vec<_> = self.peers.iter().map(|(at, peer)| (*at, need(peer))).collect();
        targets.sort_by_key(|(_, need)| *need);
        let (mut rest, mut left) = (self.limit, count);
        for (_, target) in &mut targets {
            *target = (*target).min(rest / left);
            rest -= *target;
            left -= 1;
        }
        for (_, target) in &mut targets {
            *target += rest / count;
        }
        let sum: u64 = targets.iter().map(|(_, target)| *target).sum();
        debug_assert!(sum <= self.limit, "{sum} of {} are shared", self.limit);
        debug_assert_eq!(targets.len(), self.peers.len(), "a peer has no share");
        targets
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A peer as the machine sees it: it works as fast as it can, and messages in both directions
    /// are delayed.
    struct Peer {
        able: u64,
        in_force: u64,
        /// Shares on their way: when they arrive.
        way: Vec<(u64, u64)>,
        /// Its report, when that arrives.
        said: Vec<(u64, u64, Used)>,
        taken: f64,
        carried: u64,
    }

    struct World {
        machine: ShareMachine,
        peers: Vec<Peer>,
        now: u64,
        told: BTreeMap<PeerNumber, u64>,
    }

    impl World {
        fn new(limit: u64, able: &[u64]) -> Self {
            let mut machine = ShareMachine::new(limit, limit / 20);
            let peers: Vec<_> = able
                .iter()
                .map(|able| Peer {
                    able: *able,
                    in_force: 0,
                    way: Vec::new(),
                    said: Vec::new(),
                    taken: 0.0,
                    carried: 0,
                })
                .collect();
            for number in 0..peers.len() as u16 {
                machine.handle_joined(PeerNumber(number), Instant(0));
            }
            Self { machine, peers, now: 0, told: BTreeMap::new() }
        }

        /// Lets 10 ms pass; messages take `delay` ms. Returns the sum of the shares in force.
        fn step(&mut self, delay: u64) -> u64 {
            self.now += 10;
            let now = Instant(self.now * MS);
            for (at, peer) in self.peers.iter_mut().enumerate() {
                let number = PeerNumber(at as u16);
                for (_, share) in peer.way.extract_if(.., |(at, _)| *at <= self.now) {
                    peer.in_force = share;
                }
                let carries = peer.in_force.min(peer.able);
                peer.taken += carries as f64 / 100.0;
                peer.carried = carries;
                let used = Used { taken: peer.taken as u64, held: peer.able > peer.in_force };
                peer.said.push((self.now + delay, peer.in_force, used));
                for (_, in_force, used) in peer.said.extract_if(.., |(at, ..)| *at <= self.now) {
                    if self.told.get(&number) == Some(&in_force) {
                        self.machine.handle_held_to(number);
                    }
                    self.machine.handle_used(number, used, now);
                }
            }
            for (peer, share) in self.machine.poll(now) {
                self.told.insert(peer, share);
                self.peers[usize::from(peer.0)].way.push((self.now + delay, share));
            }
            self.peers.iter().map(|peer| peer.in_force).sum()
        }

        fn carried(&self) -> u64 {
            self.peers.iter().map(|peer| peer.carried).sum()
        }
    }

    /// Issue 5: the unused share of a slow peer goes to peers that can use it, and returns when the
    /// slow peer can use it itself.
    #[test]
    fn what_one_does_not_use_is_the_others() {
        let mut world = World::new(12_000, &[100_000, 200, 100_000]);
        for _ in 0..1000 {
            assert!(world.step(50) <= 12_000);
        }
        assert!(world.carried() >= 11_000, "{}", world.carried());
        assert!(world.peers[0].carried.abs_diff(world.peers[2].carried) < 400);
        world.peers[1].able = 100_000;
        for _ in 0..1000 {
            assert!(world.step(50) <= 12_000);
        }
        assert!(world.peers.iter().all(|peer| peer.carried.abs_diff(4000) < 400));
    }

    /// Issue 5: a limit that is changed while all move is that of all together, and silent peers
    /// keep no other from it.
    #[test]
    fn a_changed_limit_reaches_all() {
        let mut world = World::new(30_000, &[100_000, 100_000, 100_000]);
        for limit in [30_000, 3000, 90_000] {
            world.machine.set_limit(limit);
            for _ in 0..30 {
                world.step(50);
            }
            for _ in 0..500 {
                assert!(world.step(50) <= limit);
            }
            assert!(world.carried() >= limit - limit / 8, "{} of {limit}", world.carried());
        }
        // The second peer does nothing, and is silent.
        world.machine.handle_left(PeerNumber(0));
        world.peers[0].able = 0;
        world.peers[0].in_force = 0;
        world.peers[1].able = 0;
        for _ in 0..1000 {
            world.step(50);
        }
        assert!(world.peers[2].carried >= 75_000, "{}", world.peers[2].carried);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Promise: while peers of any rates come and go, all together never may do more than the
        /// limit, and do all of it where they can. A peer that is held back gets no less than
        /// another.
        #[test]
        fn never_above_the_limit_and_nothing_idle(
            limit in 1000u64..100_000_000,
            able in proptest::collection::vec(0u64..200, 2..8),
            delay in 0u64..400,
        ) {
            let able: Vec<u64> = able.iter().map(|share| limit * share / 100).collect();
            let mut world = World::new(limit, &able);
            for _ in 0..1200 {
                prop_assert!(world.step(delay) <= limit);
            }
            let could = able.iter().sum::<u64>().min(limit);
            prop_assert!(world.carried() >= could - could / 5, "{} of {could}", world.carried());
            let held = world.peers.iter().filter(|peer| peer.able > peer.in_force);
            let (least, most) = held.fold((u64::MAX, 0), |(least, most), peer| {
                (least.min(peer.in_force), most.max(peer.in_force))
            });
            prop_assert!(most == 0 || least >= most - most / 3, "{least} and {most}");
        }
    }
}
