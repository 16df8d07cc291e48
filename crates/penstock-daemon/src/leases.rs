//! Leases that this host grants to other peers as the controller (B1).
//!
//! A request may lie in the socket of a host that sleeps, long after its controller has cancelled
//! it and continued. So a peer asks about its lease before it acts, and counts the time of the
//! lease from its question. A controller that revokes a lease answers so from then on, and waits
//! until no peer can act by it. A lease to delete is for one request. A lease on a scan is held for
//! as long as the transfer needs the data set, and its holder asks about it repeatedly.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_api::rpc::lease::{Lease, LeaseId, LeaseKind, LeaseLeft};
use penstock_engine::lease::GivenLease;
use penstock_proto::id::Name;

/// The leases of this host as a controller.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<LeaseId, (Lease, GivenLease)>>);

impl Leases {
    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseId, (Lease, GivenLease)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants a lease to a peer, under the tenure of this epoch. The holder may act by the lease
    /// for a time after each question.
    pub(crate) fn give(&self, kind: LeaseKind, epoch: u64, holder: &Name) -> LeaseId {
        let id = LeaseId { epoch, number: rand::random_range(1..=u64::MAX) };
        let lease = Lease { id, kind, holder: holder.clone() };
        self.lock().insert(id, (lease, GivenLease::unclaimed(kind.holds_for())));
        id
    }

    /// Returns the answer to a peer that asks about a lease, and counts it as renewed.
    pub(crate) fn renew(&self, id: LeaseId, asker: &Name) -> LeaseLeft {
        let mut leases = self.lock();
        let found = leases.get_mut(&id).filter(|(lease, _)| lease.holder == *asker);
        found.map_or_else(LeaseLeft::default, |(_, given)| {
            given.renew(penstock_sys::boottime_now()).into()
        })
    }

    /// Ends a lease that its holder no longer needs, or that allows no harmful action.
    pub(crate) fn end(&self, id: LeaseId) {
        self.lock().remove(&id);
    }

    /// Revokes a lease. Blocks until no peer can act by it: at most for its duration and a margin.
    pub(crate) fn revoke(&self, id: LeaseId) {
        let Some((_, given)) = self.lock().remove(&id) else { return };
        let left = given.lapses().0.saturating_sub(penstock_sys::boottime_now().0);
        std::thread::sleep(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Promise (B1): a lease that has ended, was revoked or never given, and one that another peer
    // holds, allows nothing.
    #[test]
    fn b1_a_lease_that_is_over_allows_nothing() {
        let (leases, kind) = (Leases::default(), LeaseKind::Deletion);
        let (holder, other): (Name, Name) = ("h2".parse().unwrap(), "h3".parse().unwrap());
        let (ended, revoked) = (leases.give(kind, 3, &holder), leases.give(kind, 3, &holder));
        assert_eq!(leases.renew(ended, &other), LeaseLeft::default());
        assert_eq!(leases.renew(ended, &holder), kind.holds_for().into());
        assert!(
            leases.lock()[&ended].1.lapses() > penstock_sys::boottime_now().plus(kind.holds_for())
        );
        leases.end(ended);
        leases.revoke(revoked);
        let never = LeaseId { epoch: 4, number: revoked.number };
        for id in [ended, revoked, never] {
            assert_eq!(leases.renew(id, &holder), LeaseLeft::default());
        }
        assert!(leases.lock().is_empty());
    }
}
