//! One target peer of a transfer: its grant, its rate, its work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use penstock_proto::journal::Incarnation;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;
use penstock_proto::units::Instant;

use crate::lease::GivenLease;

/// Failed syncs of one peer in a row after which it gets no more work: its store is not fit to
/// write to. The transfer fails when all its peers are in that state. A failure may be caused by
/// another transfer's bytes, so that rare ones over weeks prove nothing.
pub const SYNC_FAILURES_MAX: u32 = 3;

/// Least time over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(1);

/// Least interval between requests to one peer to return work.
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(200);

/// A peer that takes part from now on.
#[derive(Clone, Copy, Debug)]
pub struct Joining {
    /// Circumstances under which it writes.
    pub incarnation: Incarnation,
    /// The last epoch that it synced, by the heads or its marker, the greater of both.
    pub epoch: u64,
    /// Time for which it may write after each request; `None` for a peer in the controller's own
    /// process, which cannot outlive it.
    pub grant: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) incarnation: Incarnation,
    pub(super) grant: Option<GivenLease>,
    pub(super) synced: u64,
    /// Pieces that its sync of an epoch, or of a later one, makes durable.
    pub(super) settling: BTreeMap<u64, Vec<PieceRef>>,
    pub(super) sync_failures: u32,
    pub(super) draining: bool,
    /// Work for this peer alone.
    pub(super) urgent: VecDeque<Work>,
    pub(super) speed: Speed,
    pub(super) give_back: GiveBack,
    /// Pages of the last phases that the peer holds, or has finished and not synced, by epoch.
    pub(super) tail_out: BTreeSet<u32>,
    pub(super) tail_unsynced: Vec<(u64, u32)>,
}

impl Peer {
    /// Returns a peer that joins now.
    pub(super) fn new(joining: Joining, now: Instant) -> Self {
        Self {
            incarnation: joining.incarnation,
            grant: joining.grant.map(|duration| GivenLease::new(duration, now)),
            synced: joining.epoch,
            settling: BTreeMap::new(),
            sync_failures: 0,
            draining: false,
            urgent: VecDeque::new(),
            speed: Speed::default(),
            give_back: GiveBack::new(now),
            tail_out: BTreeSet::new(),
            tail_unsynced: Vec::new(),
        }
    }

    pub(super) fn renew(&mut self, now: Instant) {
        if let Some(grant) = &mut self.grant {
            grant.renew(now);
        }
    }

    pub(super) fn is_unfit(&self) -> bool {
        self.sync_failures >= SYNC_FAILURES_MAX
    }

    /// Returns whether it is given anything that it does not have already.
    pub(super) fn takes_work(&self) -> bool {
        !self.draining && !self.is_unfit()
    }
}

/// Way in which a peer checks data that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// This peer does not; another does.
    NotHere,
    /// The peer wrote it, and its page cache still has it.
    Believing,
    /// The peer reads the bytes and compares them.
    Doubting,
    /// No peer can tell whether it is there: it is missing.
    Hopeless,
}

/// Rate of a peer while it has work.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// Start of the count of bytes; `None` while the peer has no work.
    pub(super) since: Option<Instant>,
    pub(super) bytes: u64,
    pub(super) rate: Option<f64>,
    /// Time at which it last asked for work.
    pub(super) asked: Option<Instant>,
}

impl Speed {
    pub(super) fn rest(&mut self) {
        (self.since, self.bytes) = (None, 0);
    }

    pub(super) fn work(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    pub(super) fn add(&mut self, now: Instant, bytes: u64) {
        let since = *self.since.get_or_insert(now);
        self.bytes += bytes;
        let passed = now.since(since);
        if passed >= WINDOW {
            let new = self.bytes as f64 / passed.as_secs_f64();
            self.rate = Some(self.rate.map_or(new, |old| f64::midpoint(old, new)));
            (self.since, self.bytes) = (Some(now), 0);
        }
    }

    /// Returns the bytes per second, if known. A peer that has reported nothing for two windows has
    /// brought no more than its current `piece`.
    pub(super) fn rate(&self, now: Instant, piece: u64) -> Option<f64> {
        let passed = self.since.map_or(Duration::ZERO, |since| now.since(since));
        if passed < WINDOW * 2 {
            return self.rate;
        }
        let new = (self.bytes + piece) as f64 / passed.as_secs_f64();
        Some(self.rate.map_or(new, |old| old.min(new)))
    }
}

/// Request to a peer to return work for others.
#[derive(Debug)]
pub(super) struct GiveBack {
    /// Worth in bytes, sent when it asks next.
    bytes: u64,
    /// Time from which it may be asked again.
    after: Instant,
}

impl GiveBack {
    pub(super) fn new(now: Instant) -> Self {
        Self { bytes: 0, after: now }
    }

    /// Returns whether the peer may be asked to return work.
    pub(super) fn may_be_asked(&self, now: Instant) -> bool {
        self.bytes == 0 && now >= self.after
    }

    /// Has the peer return so many bytes at its next question for work.
    pub(super) fn ask(&mut self, bytes: u64) {
        debug_assert_eq!(self.bytes, 0, "the peer is asked already");
        self.bytes = bytes;
    }

    /// Takes the number of bytes that the peer is to return; the request is sent now.
    pub(super) fn take(&mut self, now: Instant) -> u64 {
        let wanted = std::mem::take(&mut self.bytes);
        if wanted > 0 {
            self.after = now.plus(GIVE_BACK_PAUSE);
        }
        // By now another piece may be missing, which the other peer takes first.
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Promise (f): a peer that makes no progress is known to be slow without a report, and one
    /// that has nothing to do is not.
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
