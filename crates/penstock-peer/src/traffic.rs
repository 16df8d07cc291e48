//! Counters of the data plane since the process began, and its present figures.
//!
//! Lanes add to them once per request or per 8 MiB, by relaxed atomics: a stride takes no lock and
//! writes no cache line that other threads read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_engine::fetch::ResentBytes;
use penstock_proto::id::Name;
use penstock_proto::time_use::TimeUse;

/// Counters of the lanes to each site that one end of this host has had lanes to.
#[derive(Debug, Default)]
pub(crate) struct Traffic(Mutex<BTreeMap<Option<Name>, Arc<SiteTraffic>>>);

/// Counters of the lanes to one site.
#[derive(Debug, Default)]
pub(crate) struct SiteTraffic {
    /// Bytes of payload that lanes carried.
    bytes: AtomicU64,
    resent_lane_lost: AtomicU64,
    resent_entry_failed: AtomicU64,
    /// Files and extents that were fetched again after a digest mismatch.
    repairs: AtomicU64,
    lanes_open: AtomicU64,
    lanes_lost: AtomicU64,
    dials_failed: AtomicU64,
    /// Requests that the source could not answer.
    refusals: AtomicU64,
    /// Time of its lanes, and of the threads after them.
    time: Mutex<TimeUse>,
}

/// Figures of the lanes to one site, since the process began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrafficFigures {
    /// The other site; `None` for stores of this host.
    pub site: Option<Name>,
    /// Bytes of payload that lanes carried, those that were sent again included.
    pub bytes: u64,
    /// Bytes that had to be sent once more.
    pub resent: ResentBytes,
    /// Pieces that were repaired after a digest mismatch.
    pub repairs: u64,
    /// Lanes that are open now.
    pub lanes_open: u64,
    /// Lanes that broke.
    pub lanes_lost: u64,
    /// Lanes that could not be opened.
    pub dials_failed: u64,
    /// Requests that were refused.
    pub refusals: u64,
    /// Time of lanes, and of the threads that sync and name their files, together.
    pub time: TimeUse,
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    if more > 0 {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Traffic {
    /// Returns the counters of a site; of stores of this host if that is `None`. Sites are those
    /// that are paired, so the table stays small.
    pub(crate) fn of(&self, site: Option<&Name>) -> Arc<SiteTraffic> {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(sites.entry(site.cloned()).or_default())
    }

    /// Returns the figures of all sites.
    pub(crate) fn figures(&self) -> Vec<TrafficFigures> {
        let sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sites.iter().map(|(site, traffic)| traffic.figures(site.clone())).collect()
    }
}

impl SiteTraffic {
    pub(crate) fn count_bytes(&self, bytes: u64) {
        add(&self.bytes, bytes);
    }

    /// Adds the bytes that were resent since `before`, of the task whose figures are `now`.
    pub(crate) fn count_resent(&self, before: ResentBytes, now: ResentBytes) {
        add(&self.resent_lane_lost, now.lane_lost.saturating_sub(before.lane_lost));
        add(&self.resent_entry_failed, now.entry_failed.saturating_sub(before.entry_failed));
    }

    pub(crate) fn count_repairs(&self, repairs: u64) {
        add(&self.repairs, repairs);
    }

    pub(crate) fn count_lane_lost(&self) {
        add(&self.lanes_lost, 1);
    }

    pub(crate) fn count_failed_dial(&self) {
        add(&self.dials_failed, 1);
    }

    pub(crate) fn count_refusal(&self) {
        add(&self.refusals, 1);
    }

    /// Adds time of a thread. To be called a few times a second.
    pub(crate) fn count_time(&self, time: &TimeUse) {
        *self.time.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }

    /// Counts a lane as open until the value that is returned is dropped.
    pub(crate) fn open_lane(&self) -> CountedLane<'_> {
        add(&self.lanes_open, 1);
        CountedLane(self)
    }

    fn figures(&self, site: Option<Name>) -> TrafficFigures {
        TrafficFigures {
            site,
            bytes: read(&self.bytes),
            resent: ResentBytes {
                lane_lost: read(&self.resent_lane_lost),
                entry_failed: read(&self.resent_entry_failed),
            },
            repairs: read(&self.repairs),
            lanes_open: read(&self.lanes_open),
            lanes_lost: read(&self.lanes_lost),
            dials_failed: read(&self.dials_failed),
            refusals: read(&self.refusals),
            time: *self.time.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// A lane that counts as open.
pub(crate) struct CountedLane<'a>(&'a SiteTraffic);

impl Drop for CountedLane<'_> {
    fn drop(&mut self) {
        self.0.lanes_open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::time_use::Activity;

    use super::*;

    /// Promise: the counts of lanes belong to their site alone, and a lane is open until it ends.
    #[test]
    fn lanes_are_counted_by_site() {
        let traffic = Traffic::default();
        let hpc: Name = "hpc".parse().unwrap();
        let (of_hpc, own) = (traffic.of(Some(&hpc)), traffic.of(None));
        let lane = of_hpc.open_lane();
        of_hpc.count_bytes(7);
        traffic.of(Some(&hpc)).count_bytes(1);
        let (before, now) = (
            ResentBytes { lane_lost: 4, entry_failed: 1 },
            ResentBytes { lane_lost: 9, entry_failed: 1 },
        );
        of_hpc.count_resent(before, now);
        let mut time = TimeUse::default();
        time.add(Activity::WaitSource, 3);
        own.count_time(&time);
        let figures = traffic.figures();
        let [here, there] = &figures[..] else { panic!("{figures:?}") };
        assert_eq!((&there.site, there.bytes, there.lanes_open), (&Some(hpc), 8, 1));
        assert_eq!(there.resent, ResentBytes { lane_lost: 5, entry_failed: 0 });
        assert_eq!((&here.site, here.bytes, here.time), (&None, 0, time));
        drop(lane);
        assert_eq!(traffic.figures()[1].lanes_open, 0);
    }
}
