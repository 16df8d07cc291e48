//! The time of a task's threads, and of the lanes at its source.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_api::bottleneck::Bottleneck;
use penstock_api::time_use::{PEERS_MAX, PeerTime, TransferTime};
use penstock_engine::bottleneck::{BottleneckWindow, SideTime, SideTimes, Supply};
use penstock_proto::id::Name;
use penstock_proto::time_use::{LaneTimes, TimeUse};
use penstock_proto::units::Instant;

/// The time since the task began. Lanes add to it a few times a second.
#[derive(Default)]
pub(crate) struct TaskTimes(Mutex<Sums>);

#[derive(Default)]
struct Sums {
    own: SideTime,
    is_local: bool,
    /// Lanes of each peer of the source.
    source: BTreeMap<String, LaneTimes>,
    window: BottleneckWindow,
}

impl TaskTimes {
    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the time of a lane of this task.
    pub(crate) fn add_lane(&self, time: &TimeUse) {
        self.lock().own.lanes += time;
    }

    /// Adds the time of the publisher, or the processor time of its renamers.
    pub(crate) fn add_publisher(&self, time: &TimeUse) {
        self.lock().own.publishers += time;
    }

    /// Adds the time of a lane at its other end.
    pub(crate) fn add_source(&self, peer: &Name, times: &LaneTimes) {
        let mut sums = self.lock();
        let is_full = sums.source.len() >= PEERS_MAX && !sums.source.contains_key(peer.as_str());
        let peer = if is_full { String::new() } else { peer.as_str().to_owned() };
        let sum = sums.source.entry(peer).or_default();
        sum.cores = sum.cores.max(times.cores);
        sum.time += &times.time;
    }

    /// Adds the reading part of a lane that reads and writes at this host.
    pub(crate) fn add_reading(&self, time: TimeUse) {
        let mut sums = self.lock();
        sums.is_local = true;
        sums.source.entry(String::new()).or_default().time += &time;
    }

    /// Returns all of it, and the present bottleneck, as far as this peer can tell.
    pub(crate) fn present(&self, now: Instant) -> (TransferTime, Option<Bottleneck>) {
        let mut sums = self.lock();
        sums.own.cores = u32::try_from(penstock_sys::available_cpus()).unwrap_or(u32::MAX);
        let crews = sums.crews();
        let found = sums.window.handle_sums(now, &crews, Supply::Whole);
        let found = found.map(|found| Bottleneck::measured(found.code, found.at, found.share));
        (sums.time(), found)
    }
}

impl Sums {
    fn crews(&self) -> SideTimes {
        let mut source = SideTime::default();
        for times in self.source.values() {
            source.lanes += &times.time;
            source.cores += u32::from(times.cores);
        }
        let source = (!self.source.is_empty()).then_some(source);
        SideTimes { source, target: self.own, is_local: self.is_local }
    }

    fn time(&self) -> TransferTime {
        let source = self.source.iter().map(|(peer, times)| PeerTime {
            peer: peer.clone(),
            cores: times.cores.into(),
            lanes: (&times.time).into(),
            ..PeerTime::default()
        });
        let own = PeerTime {
            peer: String::new(),
            cores: self.own.cores,
            lanes: (&self.own.lanes).into(),
            publishers: (&self.own.publishers).into(),
        };
        TransferTime { is_local: self.is_local, source: source.collect(), target: vec![own] }
    }
}
