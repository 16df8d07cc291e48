//! The peers of one side, one by one: those that work now, and one that stands out.
//!
//! The sums of a side keep the time of peers that have left, and do not distinguish one slow peer
//! from four that are a little slow.

use std::collections::{BTreeMap, VecDeque};

use penstock_proto::time_use::bottleneck::BottleneckCode;
use penstock_proto::time_use::{Activity, TimeUse};
use penstock_proto::units::Instant;

use super::{COMPUTING, LEAST, SAMPLE_INTERVAL, WINDOW};

/// Least part of a peer's time that a cause takes where the peer is named for it.
const STANDOUT_LEAST: f64 = 0.4;
/// Times that this part is that of the next peer, at least.
const STANDOUT_FACTOR: f64 = 2.0;

/// The times of the peers of one side within the last [`WINDOW`].
#[derive(Debug, Default)]
pub struct PeerWindow {
    /// Sums since the transfer began, by the names of peers, oldest first; the last are present.
    samples: VecDeque<(Instant, BTreeMap<String, TimeUse>)>,
}

impl PeerWindow {
    /// Takes the present sums of all peers, which may come at any interval.
    pub fn handle_sums(&mut self, now: Instant, peers: BTreeMap<String, TimeUse>) {
        // The last sample is replaced until the one before is an interval old.
        let before = self.samples.iter().rev().nth(1);
        if before.is_some_and(|(at, _)| now.since(*at) < SAMPLE_INTERVAL) {
            self.samples.pop_back();
        }
        self.samples.push_back((now, peers));
        while self.samples.get(1).is_some_and(|(at, _)| now.since(*at) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Returns the time that each peer has accounted for within the window; all of its time before
    /// there are two samples.
    fn times(&self) -> impl Iterator<Item = (&str, TimeUse)> + '_ {
        let first = self.samples.front().filter(|_| self.samples.len() > 1);
        let last = self.samples.back().into_iter().flat_map(|(_, peers)| peers);
        last.map(move |(name, time)| {
            let before = first.and_then(|(_, peers)| peers.get(name));
            (name.as_str(), before.map_or(*time, |before| time.since(before)))
        })
    }

    /// Returns whether a peer has accounted for any time within the window. A peer that has left,
    /// or that hangs, has not.
    pub fn works(&self, peer: &str) -> bool {
        self.times().any(|(name, time)| name == peer && time.accounted() > 0)
    }

    /// Returns the peer whose time a cause takes to a clearly greater part than that of all others.
    /// `None` if there is no such peer, or only one peer, or the cause is not the work of a side.
    pub fn standout(&self, code: BottleneckCode) -> Option<&str> {
        let work = work_of(code)?;
        let shares = self.times().filter(|(_, time)| time.accounted() >= LEAST);
        let mut shares: Vec<(&str, f64)> = shares
            .map(|(name, time)| (name, time.of(work) as f64 / time.accounted() as f64))
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let [(first, most), (_, next), ..] = shares[..] else { return None };
        (most >= STANDOUT_LEAST && most >= next * STANDOUT_FACTOR).then_some(first)
    }
}

/// Returns the activities of lanes that a cause consists of.
fn work_of(code: BottleneckCode) -> Option<&'static [Activity]> {
    match code {
        BottleneckCode::Read => Some(&[Activity::Read]),
        BottleneckCode::Write => Some(&[Activity::Write]),
        BottleneckCode::Durability => Some(&[Activity::Sync, Activity::WaitDisk]),
        BottleneckCode::Metadata => Some(&[Activity::Metadata]),
        BottleneckCode::Cpu => Some(&COMPUTING),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn peers(times: &[(&str, Activity, u64, u64)]) -> BTreeMap<String, TimeUse> {
        let of = |(name, activity, ms, idle): &(&str, Activity, u64, u64)| {
            let mut time = TimeUse::default();
            time.add(*activity, ms * 1_000_000);
            time.add(Activity::WaitSource, idle * 1_000_000);
            ((*name).to_owned(), time)
        };
        times.iter().map(of).collect()
    }

    /// Promise: a peer that writes for most of its time is named if the others do not. No peer is
    /// named if all do, or none, or if there is only one peer.
    #[test]
    fn one_slow_peer_is_named() {
        use Activity::Write;
        let standout = |times: &[(&str, Activity, u64, u64)]| {
            let mut window = PeerWindow::default();
            window.handle_sums(at(0), BTreeMap::new());
            window.handle_sums(at(10_000), peers(times));
            window.standout(BottleneckCode::Write).map(str::to_owned)
        };
        let slow = ("h2", Write, 9_000, 1_000);
        let named = standout(&[("h1", Write, 1_000, 9_000), slow, ("h3", Write, 2_000, 8_000)]);
        assert_eq!(named.as_deref(), Some("h2"));
        assert_eq!(standout(&[("h1", Write, 8_000, 2_000), slow]), None);
        let little = standout(&[("h1", Write, 0, 10_000), ("h2", Write, 3_000, 7_000)]);
        assert_eq!(little, None, "nobody is limited by writing");
        assert_eq!(standout(&[slow]), None);
        let late = standout(&[slow, ("h1", Write, 10, 0)]);
        assert_eq!(late, None, "too little is known of the other one");
    }

    /// Promise: the past does not count: a peer that was slow is no longer named, and one that has
    /// left does not work.
    #[test]
    fn the_past_does_not_count() {
        use Activity::Write;
        let mut window = PeerWindow::default();
        let slow = ("h2", Write, 60_000, 0);
        window.handle_sums(at(0), peers(&[("h1", Write, 1_000, 59_000), slow]));
        assert!(window.works("h1") && window.works("h2") && !window.works("h3"));
        for second in 1..=30 {
            let more = ("h1", Write, 1_000 + 100 * second, 59_000 + 900 * second);
            window.handle_sums(at(second * 1_000), peers(&[more, slow]));
        }
        assert!(window.works("h1") && !window.works("h2"));
        assert_eq!(window.standout(BottleneckCode::Write), None);
        for tick in 0..1_000 {
            window.handle_sums(at(30_000 + tick * 10), peers(&[slow]));
        }
        assert!(window.samples.len() <= 24, "{}", window.samples.len());
        assert_eq!(window.standout(BottleneckCode::Link), None, "it is between both sides");
    }
}
