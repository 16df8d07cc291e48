//! Leases by which this host acts for a controller on another host. The host asks for them, and
//! counts from its question (B4).
//!
//! A controller that was stopped may hand out leases after its right to them has ended, and a
//! request may lie in a socket for a minute. So the content of a request proves no lease. This peer
//! asks the controller itself, repeatedly while any work runs under its tenure, and a newer leader
//! in etcd ends the tenure at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_api::fence::{Fence, not_controller};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::lease::{LeaseId, LeaseLeft};
use penstock_api::rpc::task::Caller;
use penstock_cluster::membership::{ClusterNow, epoch_of};
use penstock_engine::lease::{HeldLease, beat};
use penstock_proto::units::Instant;
use tokio::sync::watch;

use crate::peer_client::client::PeerClient;

/// Time for which a controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Wait before a question that was not answered is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// Time after which an unused lease is no longer followed.
const UNUSED: Duration = Duration::from_secs(60);

/// A lease of a controller on another host.
#[derive(Debug)]
struct RemoteLease {
    held: HeldLease,
    used: AtomicU64,
}

impl RemoteLease {
    fn new(asked: Instant, left: Duration) -> Self {
        let used = AtomicU64::new(penstock_sys::boottime_now().0);
        Self { held: HeldLease::new(asked, left), used }
    }

    fn holds(&self) -> bool {
        self.held.holds(penstock_sys::boottime_now())
    }

    fn note_use(&self) {
        self.used.store(penstock_sys::boottime_now().0, Ordering::Release);
    }

    /// Returns the time for which the lease was unused.
    fn unused_for(&self) -> Duration {
        penstock_sys::boottime_now().since(Instant(self.used.load(Ordering::Acquire)))
    }
}

/// The leases by which this peer acts: tenures, and leases under them that take long.
pub(crate) struct RemoteLeases {
    client: PeerClient,
    now: watch::Receiver<Arc<ClusterNow>>,
    known: Mutex<HashMap<LeaseId, Arc<RemoteLease>>>,
}

impl RemoteLeases {
    pub(crate) fn new(client: PeerClient, now: watch::Receiver<Arc<ClusterNow>>) -> Arc<Self> {
        Arc::new(Self { client, now, known: Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<LeaseId, Arc<RemoteLease>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tenure of a caller, for work on its behalf. The caller is asked about it
    /// repeatedly while such work runs.
    ///
    /// # Errors
    /// The caller is no longer the controller, or cannot be asked.
    pub(crate) async fn tenure(self: &Arc<Self>, caller: &Caller) -> Result<Fence, Problem> {
        let lease = self.followed(caller, LeaseId::of_tenure(caller.epoch)).await?;
        Ok(Fence::new(caller.epoch, Arc::new(move || lease.holds())))
    }

    /// Returns a lease of a caller for work of any length, together with the tenure. The caller is
    /// asked about both repeatedly while such work runs.
    ///
    /// # Errors
    /// As [`RemoteLeases::lease_once`].
    pub(crate) async fn lease(
        self: &Arc<Self>,
        caller: &Caller,
        number: u64,
    ) -> Result<Fence, Problem> {
        let tenure = self.tenure(caller).await?;
        let lease = self.followed(caller, LeaseId { epoch: caller.epoch, number }).await?;
        Ok(Fence::new(caller.epoch, Arc::new(move || lease.holds() && tenure.holds())))
    }

    /// Returns a lease of a caller for one request, together with the tenure. It holds for a while,
    /// counted from here, and not at all if the caller has revoked it meanwhile (B1).
    ///
    /// # Errors
    /// The lease no longer holds, or the caller cannot be asked.
    pub(crate) async fn lease_once(
        self: &Arc<Self>,
        caller: &Caller,
        number: u64,
    ) -> Result<Fence, Problem> {
        let tenure = self.tenure(caller).await?;
        let (asked, left) = self.ask(caller, LeaseId { epoch: caller.epoch, number }).await?;
        let lease = RemoteLease::new(asked, left);
        Ok(Fence::new(caller.epoch, Arc::new(move || lease.holds() && tenure.holds())))
    }

    async fn followed(
        self: &Arc<Self>,
        caller: &Caller,
        id: LeaseId,
    ) -> Result<Arc<RemoteLease>, Problem> {
        if is_older(caller.epoch, &self.now.borrow()) {
            return Err(not_controller().because("a newer one was elected"));
        }
        let known = {
            let mut known = self.known();
            known.retain(|_, lease| lease.holds());
            known.get(&id).cloned()
        };
        if let Some(lease) = known {
            lease.note_use();
            return Ok(lease);
        }
        let (asked, left) = self.ask(caller, id).await?;
        let lease = Arc::new(RemoteLease::new(asked, left));
        self.known().insert(id, Arc::clone(&lease));
        tokio::spawn(Arc::clone(self).follow(caller.clone(), id, Arc::clone(&lease), left));
        Ok(lease)
    }

    /// Asks the caller about a lease. Returns when it asked, by the clock of this host, and for how
    /// long the lease holds from then on.
    async fn ask(&self, caller: &Caller, id: LeaseId) -> Result<(Instant, Duration), Problem> {
        let asked = penstock_sys::boottime_now();
        let LeaseLeft { left_ms } =
            self.client.get(&caller.addresses, &id.path(), PATIENCE).await?;
        if left_ms > 0 {
            return Ok((asked, Duration::from_millis(left_ms)));
        }
        if id.is_tenure() {
            return Err(not_controller());
        }
        let title = "the controller has revoked the lease of this request";
        Err(Problem::new(ProblemCode::LeaseOver, title))
    }

    /// Asks repeatedly, while the lease holds and is in use.
    async fn follow(
        self: Arc<Self>,
        caller: Caller,
        id: LeaseId,
        lease: Arc<RemoteLease>,
        left: Duration,
    ) {
        let mut wait = beat(left);
        let mut now = self.now.clone();
        while lease.holds() {
            let newer = now.wait_for(|now| is_older(caller.epoch, now));
            let newer = tokio::time::timeout(wait, async { newer.await.is_ok() }).await;
            // Beside those that act by it there are the table, and this task.
            let idle = Arc::strong_count(&lease) <= 2 && lease.unused_for() > UNUSED;
            if newer == Ok(true) || idle {
                break;
            }
            match self.ask(&caller, id).await {
                Ok((asked, left)) => {
                    lease.held.renew(asked, left, penstock_sys::boottime_now());
                    wait = beat(left);
                }
                Err(problem)
                    if matches!(
                        problem.code,
                        ProblemCode::NotController | ProblemCode::LeaseOver
                    ) =>
                {
                    break;
                }
                Err(problem) => {
                    tracing::debug!(%problem, "the controller does not say whether it is one");
                    wait = AGAIN;
                }
            }
        }
        lease.held.end();
    }
}

/// Returns whether etcd has shown a newer leader than the one of this epoch.
pub(crate) fn is_older(epoch: u64, now: &ClusterNow) -> bool {
    if now.incarnation == 0 {
        return false;
    }
    let newest = now.leader.as_ref().map_or(0, |(_, revision)| *revision);
    epoch_of(now.incarnation, 0) != epoch & !REVISION || epoch & REVISION < newest & REVISION
}

/// The part of an epoch that is the revision of etcd.
const REVISION: u64 = 0xff_ffff_ffff;

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::cluster::LeaderCard;

    fn led_since(incarnation: u64, revision: u64) -> ClusterNow {
        let leader = LeaderCard {
            peer: "h1".parse().unwrap(),
            instance: 1,
            addresses: Vec::new(),
            since: 0,
        };
        ClusterNow { leader: Some((leader, revision)), incarnation, ..ClusterNow::default() }
    }

    /// B4: an order under an older epoch counts for nothing, nor one of an earlier incarnation; one
    /// of a leader that etcd has not shown here yet may count.
    #[test]
    fn b4_an_older_epoch_is_known_by_its_number() {
        let now = led_since(7, 100);
        assert!(is_older(epoch_of(7, 99), &now));
        assert!(!is_older(epoch_of(7, 100), &now));
        assert!(!is_older(epoch_of(7, 101), &now));
        assert!(is_older(epoch_of(8, 101), &now));
        assert!(!is_older(epoch_of(8, 101), &ClusterNow::default()));
    }
}
