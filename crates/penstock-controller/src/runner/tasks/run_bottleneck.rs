//! The bottleneck of a run, by the time of all of its peers.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_api::bottleneck::{Bottleneck, BottleneckCode, Side};
use penstock_api::time_use::{PeerTime, TransferTime, sum_of};
use penstock_engine::bottleneck::peers::PeerWindow;
use penstock_engine::bottleneck::{BottleneckWindow, Cause, SideTime, SideTimes, Supply, find};
use penstock_proto::time_use::TimeUse;
use penstock_proto::units::Instant;

/// Finds the bottleneck of a run, now and over all of it.
#[derive(Default)]
pub(crate) struct RunBottleneck {
    window: BottleneckWindow,
    source: PeerWindow,
    target: PeerWindow,
}

impl RunBottleneck {
    /// Begins behind earlier rounds, which took `seconds` and were limited by `earlier`.
    pub(crate) fn after(earlier: Option<&Bottleneck>, seconds: f64) -> Self {
        let mut run = Self::default();
        if let Some(Bottleneck { code, at, share: Some(share), .. }) = earlier {
            let found = Cause { code: *code, at: *at, share: *share };
            run.window.add(found, Duration::try_from_secs_f64(seconds).unwrap_or_default());
        }
        run
    }

    /// Returns the bottleneck of the whole transfer, which took `seconds`, and `time` of its
    /// threads.
    pub(crate) fn overall(&self, time: &TransferTime, seconds: f64) -> Option<Bottleneck> {
        let elapsed = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let all = || find(&crews_of(time), elapsed, Supply::Whole);
        self.window.longest().or_else(all).map(bottleneck_of)
    }

    /// Returns the bottleneck of the last seconds. `limit` has the words of the peers, which decide
    /// where all peers are of an earlier release, or where an earlier writer may still write.
    pub(crate) fn now(
        &mut self,
        now: Instant,
        time: &TransferTime,
        supply: Supply,
        limit: &str,
    ) -> Option<Bottleneck> {
        self.source.handle_sums(now, by_peer(&time.source));
        self.target.handle_sums(now, by_peer(&time.target));
        let crews = SideTimes {
            source: (!time.source.is_empty()).then(|| crew_of(&time.source, Some(&self.source))),
            target: crew_of(&time.target, Some(&self.target)),
            is_local: time.is_local,
        };
        let found = self.window.handle_sums(now, &crews, supply);
        let told = Bottleneck::of(limit);
        if told.as_ref().is_some_and(|told| told.code == BottleneckCode::FormerPeer) {
            return told;
        }
        found.map(|found| self.with_peer(found)).or(told)
    }

    /// Returns a cause in words, with the peer that stands out.
    fn with_peer(&self, found: Cause) -> Bottleneck {
        let window = match found.at {
            Some(Side::Source) => &self.source,
            Some(Side::Target) => &self.target,
            None => return bottleneck_of(found),
        };
        match window.standout(found.code) {
            Some(peer) if !peer.is_empty() => bottleneck_of(found).most_of_all_at(peer),
            _ => bottleneck_of(found),
        }
    }
}

/// Returns the bottleneck of a run that reads its written files again.
pub(crate) fn readback() -> Bottleneck {
    Bottleneck::known(BottleneckCode::Readback, Some(Side::Target))
}

fn bottleneck_of(found: Cause) -> Bottleneck {
    Bottleneck::measured(found.code, found.at, found.share)
}

fn crews_of(time: &TransferTime) -> SideTimes {
    SideTimes {
        source: (!time.source.is_empty()).then(|| crew_of(&time.source, None)),
        target: crew_of(&time.target, None),
        is_local: time.is_local,
    }
}

/// Returns the time of the peers of a side, with the processors of those that work in a window; of
/// all of them, if none does.
fn crew_of(peers: &[PeerTime], window: Option<&PeerWindow>) -> SideTime {
    let sum = sum_of(peers);
    let works = |peer: &&PeerTime| window.is_none_or(|window| window.works(&peer.peer));
    let cores = peers.iter().filter(works).fold(0_u32, |all, peer| all.saturating_add(peer.cores));
    SideTime {
        lanes: (&sum.lanes).into(),
        publishers: (&sum.publishers).into(),
        cores: if cores > 0 { cores } else { sum.cores },
    }
}

fn by_peer(peers: &[PeerTime]) -> BTreeMap<String, TimeUse> {
    peers.iter().map(|peer| (peer.peer.clone(), (&peer.lanes).into())).collect()
}

#[cfg(test)]
mod tests {
    use penstock_api::time_use::ActivitySeconds;

    use super::*;

    fn time(wait_source: f64, read: f64) -> TransferTime {
        let peer = |lanes| PeerTime { lanes, cores: 2, ..PeerTime::default() };
        let source = vec![peer(ActivitySeconds { read, ..Default::default() })];
        let target = vec![peer(ActivitySeconds { wait_source, ..Default::default() })];
        TransferTime { source, target, ..TransferTime::default() }
    }

    /// Promise: a peer that has left does not lend its processors to those that still work, and one
    /// that is clearly slower than the others is named.
    #[test]
    fn a_lost_peer_has_no_processors_and_a_slow_one_is_named() {
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let peer = |name: &str, write, wait_source| PeerTime {
            peer: name.to_owned(),
            cores: 2,
            lanes: ActivitySeconds { write, wait_source, ..Default::default() },
            ..PeerTime::default()
        };
        let mut run = RunBottleneck::default();
        let mut last = None;
        for second in 0..=20 {
            let part = (second + 1) as f64;
            // `h3` left long ago.
            let target = vec![
                peer("h1", 0.2 * part, 0.8 * part),
                peer("h2", 3.6 * part, 0.4 * part),
                peer("h3", 50.0, 0.0),
            ];
            let time = TransferTime { target, ..TransferTime::default() };
            last = run.now(at(second), &time, Supply::Whole, "");
            let cores = crew_of(&time.target, Some(&run.target)).cores;
            assert_eq!(cores, if second == 0 { 6 } else { 4 }, "at {second} s");
        }
        let found = last.unwrap();
        assert_eq!((found.code, found.at), (BottleneckCode::Write, Some(Side::Target)));
        assert_eq!(found.peer.as_deref(), Some("h2"));
        assert!(found.text.ends_with("; most of all at peer h2"), "{}", found.text);
    }

    /// Promise: measurements rank above the words of peers. The words are shown if nothing was
    /// measured, and if they concern an earlier writer.
    #[test]
    fn measurements_go_before_words() {
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let mut run = RunBottleneck::default();
        let mut now = |second, time: &TransferTime, limit: &str| {
            run.now(at(second), time, Supply::Whole, limit).map(|found| (found.code, found.at))
        };
        let source = Some(Side::Source);
        assert_eq!(now(0, &TransferTime::default(), ""), None);
        let words = "the network or the source";
        let told = Some((BottleneckCode::NetworkOrSource, None));
        assert_eq!(now(1, &TransferTime::default(), words), told);
        assert_eq!(now(2, &time(2.0, 1.9), words), Some((BottleneckCode::Read, source)));
        let former = BottleneckCode::FormerPeer.text(None);
        let told = Some((BottleneckCode::FormerPeer, None));
        assert_eq!(now(3, &time(3.0, 2.9), &former), told);
        let all = run.overall(&time(3.0, 2.9), 3.0).unwrap();
        assert_eq!((all.code, all.at), (BottleneckCode::Read, source));
        let later = RunBottleneck::after(Some(&all), 3.0);
        assert_eq!(later.overall(&TransferTime::default(), f64::NAN), Some(all));
        assert_eq!(RunBottleneck::default().overall(&TransferTime::default(), f64::NAN), None);
    }
}
