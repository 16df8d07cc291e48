//! The share of each peer of a run in the limits of its transfer.
//!
//! Rate and metadata operations are divided by need ([`ShareMachine`]), lanes equally. If a limit
//! is too small for all peers present, some of them take no part.

use std::collections::{BTreeMap, BTreeSet};

use penstock_api::limits::{RATE_MIN, Share, ShareUsed};
use penstock_api::task::{TaskFigures, TaskSpec};
use penstock_engine::limit_shares::{ShareMachine, Used};
use penstock_proto::id::PeerNumber;
use penstock_proto::slicing::STRIDE_BYTES_MAX;
use penstock_proto::units::Instant;

/// The rate of a peer before it receives its first share, in bits per second: as good as nothing.
const OPENING: u64 = 8;

fn used(said: ShareUsed) -> Used {
    Used { taken: said.taken, held: said.held }
}

/// The shares of all peers that take part.
pub(super) struct Shares {
    rate: Option<ShareMachine>,
    names: Option<ShareMachine>,
    /// The limits as a whole.
    whole: Share,
    /// Most peers that the user allows.
    peers_max: Option<u32>,
    told: BTreeMap<PeerNumber, Share>,
    /// Peers that have received no share since they joined.
    untold: BTreeSet<PeerNumber>,
    /// Set when the rate has become limited or unlimited; joining peers hold to the limit they
    /// began with.
    turned: bool,
    /// Number of the last share that was sent; other controllers use other numbers.
    serial: u64,
}

impl Shares {
    /// Makes the shares for the limits of a transfer; `seed` differs in each run.
    pub(super) fn new(spec: &TaskSpec, peers_max: Option<u32>, seed: u64) -> Self {
        let whole = spec.share();
        let names = whole.metadata_ops_per_s.map(|most| ShareMachine::new(most.into(), 1));
        let rate = rate_machine(&whole);
        let (told, untold, turned) = (BTreeMap::new(), BTreeSet::new(), false);
        Self { rate, names, whole, peers_max, told, untold, turned, serial: seed }
    }

    /// Returns the limits as a whole, for a peer that is alone.
    pub(super) fn whole(&self) -> Share {
        self.whole
    }

    /// Sets the limits of a peer's task before the peer takes part.
    pub(super) fn open(&self, spec: &mut TaskSpec) {
        spec.limits.rate_bits_per_s = self.whole.rate_bits_per_s.map(|_| OPENING);
        spec.limits.metadata_ops_per_s = self.whole.metadata_ops_per_s.map(|_| 1);
        spec.lanes_max = self.whole.lanes_max.min(1);
        spec.lanes = self.whole.lanes.min(1);
    }

    /// Returns how many peers the limits have room for.
    pub(super) fn peers_max(&self) -> usize {
        let of = |most: u32| if most == 0 { usize::MAX } else { most as usize };
        let rate = self.whole.rate_bits_per_s.map_or(u64::MAX, |rate| rate / RATE_MIN);
        let lanes = if self.whole.lanes > 0 { self.whole.lanes } else { self.whole.lanes_max };
        let names = self.whole.metadata_ops_per_s.unwrap_or(0);
        let wanted = self.peers_max.unwrap_or(0);
        let least = [of(wanted), of(lanes), of(names), usize::try_from(rate).unwrap_or(usize::MAX)];
        least.into_iter().min().unwrap_or(1).max(1)
    }

    pub(super) fn handle_joined(&mut self, peer: PeerNumber, now: Instant) {
        let machines = self.rate.iter_mut().chain(&mut self.names);
        machines.for_each(|machine| machine.handle_joined(peer, now));
        self.told.insert(peer, Share::default());
        self.untold.insert(peer);
    }

    pub(super) fn handle_left(&mut self, peer: PeerNumber) {
        let machines = self.rate.iter_mut().chain(&mut self.names);
        machines.for_each(|machine| machine.handle_left(peer));
        self.told.remove(&peer);
        self.untold.remove(&peer);
    }

    /// Sets another rate for all peers together.
    pub(super) fn set_rate(&mut self, rate_bits_per_s: Option<u64>, now: Instant) {
        self.whole.rate_bits_per_s = rate_bits_per_s;
        let bytes = self.whole.rate_bytes_per_s();
        match &mut self.rate {
            Some(machine) if bytes > 0 => machine.set_limit(bytes),
            _ => {
                self.turned |= self.rate.is_some() != (bytes > 0);
                self.rate = rate_machine(&self.whole);
                if let Some(machine) = &mut self.rate {
                    self.told.keys().for_each(|peer| machine.handle_joined(*peer, now));
                }
            }
        }
    }

    /// Records the use of its share that a peer reports.
    pub(super) fn handle_figures(&mut self, peer: PeerNumber, said: &TaskFigures, now: Instant) {
        let Some(told) = self.told.get(&peer) else { return };
        let holds = said.share.serial == told.serial;
        let names = said.share.metadata_ops_per_s.unwrap_or(0);
        let all = [
            (&mut self.rate, said.share.rate_bytes_per_s(), said.rate_used),
            (&mut self.names, names.into(), said.names_used),
        ];
        for (machine, in_force, of) in all {
            let Some(machine) = machine else { continue };
            match holds {
                true => machine.handle_held_to(peer),
                false => machine.handle_in_force(peer, in_force),
            }
            machine.handle_used(peer, used(of), now);
        }
    }

    /// Returns the shares that must be sent to peers now.
    pub(super) fn poll(&mut self, now: Instant) -> Vec<(PeerNumber, Share)> {
        let mut next = self.told.clone();
        for (at, share) in next.values_mut().enumerate() {
            let count = self.told.len() as u32;
            share.lanes_max = part_of(self.whole.lanes_max, at as u32, count);
            share.lanes = part_of(self.whole.lanes, at as u32, count);
            if self.rate.is_none() {
                share.rate_bits_per_s = None;
            }
        }
        for (peer, rate) in self.rate.iter_mut().flat_map(|machine| machine.poll(now)) {
            next.entry(peer).or_default().rate_bits_per_s = Some(rate.saturating_mul(8));
        }
        for (peer, most) in self.names.iter_mut().flat_map(|machine| machine.poll(now)) {
            next.entry(peer).or_default().metadata_ops_per_s = Some(clamped(most));
        }
        let mut news = Vec::new();
        for (peer, mut share) in next {
            let Some(told) = self.told.get_mut(&peer) else { continue };
            let waits = self.turned && self.untold.contains(&peer);
            if waits && self.rate.is_some() {
                share.rate_bits_per_s.get_or_insert(OPENING);
            }
            if *told == share && !waits {
                continue;
            }
            self.serial += 1;
            share.serial = self.serial;
            *told = share;
            // A peer that has joined waits for all parts of its first share.
            let whole = share.rate_bits_per_s.is_some() == self.rate.is_some()
                && share.metadata_ops_per_s.is_some() == self.names.is_some();
            if whole {
                self.untold.remove(&peer);
                news.push((peer, share));
            }
        }
        news
    }
}

fn rate_machine(whole: &Share) -> Option<ShareMachine> {
    let bytes = whole.rate_bytes_per_s();
    (bytes > 0).then(|| ShareMachine::new(bytes, STRIDE_BYTES_MAX.into()))
}

fn clamped(most: u64) -> u32 {
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// Returns the part of `whole` that the peer at place `at` of `count` gets: at least one, if there
/// is a whole.
fn part_of(whole: u32, at: u32, count: u32) -> u32 {
    let count = count.max(1);
    (whole / count + u32::from(at < whole % count)).max(whole.min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(whole: Share) -> Shares {
        let names = whole.metadata_ops_per_s.map(|most| ShareMachine::new(most.into(), 1));
        let (told, untold, turned) = (BTreeMap::new(), BTreeSet::new(), false);
        let (rate, peers_max) = (rate_machine(&whole), None);
        Shares { rate, names, whole, peers_max, told, untold, turned, serial: 7 }
    }

    fn say(shares: &mut Shares, peer: PeerNumber, share: Share, now: Instant) {
        let figures = TaskFigures { share, ..TaskFigures::default() };
        shares.handle_figures(peer, &figures, now);
    }

    /// Issue 5: the limits are those of the transfer, whichever peers join and leave. The sum of
    /// the shares in force never exceeds a limit, and reaches it once all peers have their shares.
    #[test]
    fn limits_are_of_the_transfer() {
        let whole = Share {
            serial: 0,
            rate_bits_per_s: Some(96_000_000),
            metadata_ops_per_s: Some(100),
            lanes_max: 8,
            lanes: 0,
        };
        let mut shares = shares(whole);
        let mut hold = BTreeMap::new();
        for number in 0..3 {
            let peer = PeerNumber(number);
            shares.handle_joined(peer, Instant(0));
            for _ in 0..3 {
                for (peer, share) in shares.poll(Instant(0)) {
                    hold.insert(peer, share);
                    let rates: u64 = hold.values().filter_map(|it| it.rate_bits_per_s).sum();
                    assert!(rates <= 96_000_000, "{hold:?}");
                    say(&mut shares, peer, share, Instant(0));
                }
            }
            let sum = |of: fn(&Share) -> u32| hold.values().map(of).sum::<u32>();
            assert_eq!(sum(|share| share.lanes_max), 8);
            assert_eq!(sum(|share| share.metadata_ops_per_s.unwrap()), 100);
            let rates: u64 = hold.values().filter_map(|it| it.rate_bits_per_s).sum();
            assert!(rates > 95_000_000, "{hold:?}");
        }
        shares.set_rate(None, Instant(0));
        let told = shares.poll(Instant(0));
        assert!(told.len() == 3 && told.iter().all(|(_, it)| it.rate_bits_per_s.is_none()));
        shares.set_rate(Some(1_200_000), Instant(0));
        assert_eq!(shares.peers_max(), 2, "each has at least the least limit");
        let told = shares.poll(Instant(0));
        assert!(told.iter().all(|(_, share)| share.rate_bits_per_s == Some(400_000)), "{told:?}");
    }

    /// Promise: a lifted limit binds no peer. That includes a joining peer, and one that has joined
    /// without a share yet: both began with a tiny share.
    #[test]
    fn a_lifted_limit_holds_nobody_who_was_on_the_way() {
        let whole = Share { rate_bits_per_s: Some(96_000_000), ..Share::default() };
        let mut shares = shares(whole);
        shares.handle_joined(PeerNumber(0), Instant(0));
        shares.set_rate(None, Instant(0));
        shares.handle_joined(PeerNumber(1), Instant(0));
        let told: BTreeMap<_, _> = shares.poll(Instant(0)).into_iter().collect();
        let rates: Vec<_> = told.values().map(|share| share.rate_bits_per_s).collect();
        assert_eq!(rates, [None, None], "{told:?}");
        assert_eq!(shares.poll(Instant(0)), [], "once");
    }

    /// Promise: a new limit binds a peer that was joining without one. The shares that other peers
    /// use until they learn of theirs are not counted twice.
    #[test]
    fn a_limit_that_is_set_holds_who_was_on_the_way() {
        let mut shares = shares(Share::default());
        shares.handle_joined(PeerNumber(0), Instant(0));
        shares.set_rate(Some(96_000_000), Instant(0));
        for (peer, share) in shares.poll(Instant(0)) {
            say(&mut shares, peer, share, Instant(0));
        }
        shares.handle_joined(PeerNumber(1), Instant(0));
        let told: BTreeMap<_, _> = shares.poll(Instant(0)).into_iter().collect();
        assert_eq!(told[&PeerNumber(1)].rate_bits_per_s, Some(OPENING), "{told:?}");
    }

    /// Promise: the limit of peers of the user holds beside the other limits.
    #[test]
    fn a_limit_of_peers_holds() {
        let limited = |most, lanes_max| {
            let peers_max = Some(most);
            Shares { peers_max, ..shares(Share { lanes_max, ..Share::default() }) }.peers_max()
        };
        assert_eq!([limited(1, 0), limited(3, 0), limited(3, 2)], [1, 3, 2]);
        assert_eq!(shares(Share::default()).peers_max(), usize::MAX);
    }

    /// Promise: of few lanes each peer has one at least, and there are no more peers than lanes.
    #[test]
    fn there_are_no_more_peers_than_lanes() {
        let shares = shares(Share { lanes_max: 2, ..Share::default() });
        assert_eq!(shares.peers_max(), 2);
        assert_eq!([0, 1, 2].map(|at| part_of(7, at, 3)), [3, 2, 2]);
        assert_eq!([0, 1].map(|at| part_of(1, at, 2)), [1, 1]);
        assert_eq!(part_of(0, 0, 3), 0);
    }
}
