//! The time during which one peer is the controller of its site.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use penstock_api::fence::Fence;
use penstock_engine::lease::HeldLease;
use penstock_proto::units::Instant;
use penstock_proto::version;

use crate::etcd::Compare;
use crate::keys::Keys;

/// Returns nanoseconds on `CLOCK_BOOTTIME`, which advances while a host is suspended.
pub type Clock = fn() -> u64;

/// A single period in which one peer is the controller. It lasts as long as the peer's lease in
/// etcd; at a site of one peer it never ends.
#[derive(Debug)]
pub struct Tenure {
    incarnation: u64,
    revision: u64,
    lease: HeldLease,
    format: AtomicU16,
    clock: Clock,
}

impl Tenure {
    /// Returns a tenure that began with the leader's key made at `revision`. It holds until it is
    /// ended, or until the time that [`Tenure::extend`] has set last.
    pub fn new(incarnation: u64, revision: u64, clock: Clock) -> Self {
        let lease = HeldLease::ending_at(Instant(u64::MAX));
        let format = AtomicU16::new(version::known().formats().oldest);
        Self { incarnation, revision, lease, format, clock }
    }

    /// Returns the tenure of a peer that is the whole site, in epoch 0. It never ends, and asks no
    /// clock.
    pub fn endless() -> Self {
        let tenure = Self::new(0, 0, || 0);
        tenure.set_format(version::known().formats().newest);
        debug_assert!(tenure.epoch() == 0 && tenure.holds(), "nobody else may ever lead");
        tenure
    }

    /// Returns whether the tenure holds now. Neither blocks nor costs a system call.
    pub fn holds(&self) -> bool {
        self.lease.holds(Instant((self.clock)()))
    }

    /// Ends it for good.
    pub fn end(&self) {
        self.lease.end();
    }

    /// Sets the time until which the tenure holds, unless it has ended already.
    pub fn extend(&self, until: u64) {
        self.lease.set_until(Instant(until));
    }

    /// Returns the format in which the site's records are written.
    pub fn format(&self) -> u16 {
        self.format.load(Ordering::Acquire)
    }

    /// Sets the format in which the records are written from now on.
    pub(crate) fn set_format(&self, format: u16) {
        self.format.store(format, Ordering::Release);
    }

    /// Returns the comparisons of every transaction of this controller: its key exists, and the
    /// records are of its incarnation.
    pub(crate) fn stands(&self, keys: &Keys) -> [Compare; 2] {
        let leads = Compare::Created(keys.leader(), self.revision);
        [leads, keys.incarnation_is(self.incarnation)]
    }

    /// Returns the incarnation of the site's records.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns the create revision of the leader's key.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Names files that this controller alone writes; see [`epoch_of`].
    pub fn epoch(&self) -> u64 {
        epoch_of(self.incarnation, self.revision)
    }

    /// Returns how long the tenure holds from now on, unless it is ended earlier.
    pub fn left(&self) -> Duration {
        match self.holds() {
            true => self.lease.until().since(Instant((self.clock)())),
            false => Duration::ZERO,
        }
    }

    /// Returns the check for those that act for this controller.
    pub fn fence(self: &Arc<Self>) -> Fence {
        let tenure = Arc::clone(self);
        Fence::new(self.epoch(), Arc::new(move || tenure.holds()))
    }
}

/// Returns the number of an epoch: 24 bits of the incarnation, 40 of the revision. 0 is that of a
/// site of one peer, since etcd counts revisions from 1.
pub fn epoch_of(incarnation: u64, revision: u64) -> u64 {
    (incarnation & 0xff_ffff) << 40 | revision & 0xff_ffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a site of one peer is always led by it, in the epoch of which files have no names
    /// of their own, and writes the newest format.
    #[test]
    fn the_tenure_of_the_only_peer_never_ends() {
        let tenure = Arc::new(Tenure::endless());
        assert_eq!((tenure.epoch(), tenure.fence().epoch()), (0, 0));
        assert_eq!(tenure.format(), version::known().formats().newest);
        assert!(tenure.left() > Duration::from_secs(100 * 365 * 86_400));
        assert!(tenure.fence().holds());
    }
}
