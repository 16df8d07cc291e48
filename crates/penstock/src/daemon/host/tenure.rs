//! What this peer knows of the controller's tenure: it asks, and counts from its question (B4).
//!
//! A controller that was stopped may hand out orders that are no longer its to give, and an order
//! may lie in a socket for a minute. So nothing is believed of what comes with an order: this peer
//! asks the controller itself, again and again while anything runs under it, and a newer leader in
//! etcd ends it at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::fence::{Fence, not_controller};
use penstock_api::problem::{Exit, Problem};
use penstock_api::remote::{Caller, TenureLeft, tenure_beat};
use penstock_api::remote_long::OrderLeft;
use penstock_controller::cluster::{ClusterNow, epoch_of};
use penstock_io::sys;
use tokio::sync::watch;

use crate::daemon::remote::client::PeerClient;
use crate::daemon::remote::orders::order_path;

/// How long a controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Wait before a question that was not answered is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// Tenures that were not asked about for so long are not followed any more.
const UNUSED: Duration = Duration::from_secs(60);

/// A tenure as it was told.
#[derive(Debug)]
pub(crate) struct Told {
    until: AtomicU64,
    used: AtomicU64,
    over: AtomicBool,
}

impl Told {
    /// Whether it holds now. Once it has said no it says so for ever.
    fn holds(&self) -> bool {
        if self.over.load(Ordering::Acquire) {
            return false;
        }
        let now = sys::boottime_now().0;
        let holds = now < self.until.load(Ordering::Acquire);
        if !holds {
            self.over.store(true, Ordering::Release);
        }
        holds
    }

    fn fence(self: &Arc<Self>, epoch: u64) -> Fence {
        self.used.store(sys::boottime_now().0, Ordering::Release);
        let told = Arc::clone(self);
        Fence::new(epoch, Arc::new(move || told.holds()))
    }
}

/// The tenures under which this peer acts.
pub(crate) struct Tenures {
    client: PeerClient,
    now: watch::Receiver<Arc<ClusterNow>>,
    known: Mutex<HashMap<u64, Arc<Told>>>,
}

impl Tenures {
    pub(crate) fn new(client: PeerClient, now: watch::Receiver<Arc<ClusterNow>>) -> Arc<Self> {
        Arc::new(Self { client, now, known: Mutex::default() })
    }

    /// What those ask who act for this caller.
    ///
    /// # Errors
    /// It is the controller no more, or cannot be asked.
    pub(crate) async fn fence(self: &Arc<Self>, caller: &Caller) -> Result<Fence, Problem> {
        if is_older(caller.epoch, &self.now.borrow()) {
            return Err(not_controller().because("a newer one was elected"));
        }
        let known = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|_, told| told.holds());
            known.get(&caller.epoch).cloned()
        };
        if let Some(told) = known {
            return Ok(told.fence(caller.epoch));
        }
        let (until, left) = self.ask(caller).await?;
        let told = Told {
            until: AtomicU64::new(until),
            used: AtomicU64::new(0),
            over: AtomicBool::new(false),
        };
        let told = Arc::new(told);
        let fence = told.fence(caller.epoch);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(caller.epoch, Arc::clone(&told));
        drop(known);
        tokio::spawn(Arc::clone(self).follow(caller.clone(), told, left));
        Ok(fence)
    }

    /// What those ask who act by an order of this caller, beside its tenure: the order stands for a
    /// while, counted from here, and not at all if the caller has given it up meanwhile (B1).
    ///
    /// # Errors
    /// It does not stand any more, or the caller cannot be asked.
    pub(crate) async fn order(
        &self,
        caller: &Caller,
        order: u64,
        tenure: Fence,
    ) -> Result<Fence, Problem> {
        let asked = sys::boottime_now();
        let path = order_path(order);
        let told: OrderLeft = self.client.get(&caller.addresses, &path, PATIENCE).await?;
        if told.left_ms == 0 {
            let title = "the controller has given this order up";
            return Err(Problem::new(Exit::Temporary, "order-over", title));
        }
        let until = asked.plus(Duration::from_millis(told.left_ms)).0;
        let holds = move || sys::boottime_now().0 < until && tenure.holds();
        Ok(Fence::new(caller.epoch, Arc::new(holds)))
    }

    /// Until when the caller's tenure holds by the clock of this host, and how long that was when
    /// it was told.
    async fn ask(&self, caller: &Caller) -> Result<(u64, Duration), Problem> {
        let asked = sys::boottime_now();
        let told: TenureLeft =
            self.client.get(&caller.addresses, "/peer/v1/tenure", PATIENCE).await?;
        if told.epoch != caller.epoch || told.left_ms == 0 {
            return Err(not_controller());
        }
        let left = Duration::from_millis(told.left_ms);
        Ok((asked.plus(left).0, left))
    }

    /// Asks again and again, while the tenure holds and anybody acts under it.
    async fn follow(self: Arc<Self>, caller: Caller, told: Arc<Told>, left: Duration) {
        let mut wait = tenure_beat(left);
        let mut now = self.now.clone();
        while told.holds() {
            let newer = now.wait_for(|now| is_older(caller.epoch, now));
            let newer = tokio::time::timeout(wait, async { newer.await.is_ok() }).await;
            let unused = sys::boottime_now().0.saturating_sub(told.used.load(Ordering::Acquire));
            // The fences that were handed out, the table, and we.
            let idle = Arc::strong_count(&told) <= 2 && u128::from(unused) > UNUSED.as_nanos();
            if newer == Ok(true) || idle {
                break;
            }
            match self.ask(&caller).await {
                Ok((until, left)) => {
                    told.until.fetch_max(until, Ordering::AcqRel);
                    wait = tenure_beat(left);
                }
                Err(problem) if problem.code == penstock_api::fence::NOT_CONTROLLER => break,
                Err(problem) => {
                    tracing::debug!(%problem, "the controller does not say whether it is one");
                    wait = AGAIN;
                }
            }
        }
        told.over.store(true, Ordering::Release);
    }
}

/// Whether etcd has shown a newer leader than the one of this epoch.
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

    /// B4: a tenure that was over stays so, whatever is heard later.
    #[test]
    fn b4_a_tenure_that_was_over_stays_so() {
        let now = sys::boottime_now();
        let told = Told {
            until: AtomicU64::new(now.plus(Duration::from_secs(60)).0),
            used: AtomicU64::new(0),
            over: AtomicBool::new(false),
        };
        let told = Arc::new(told);
        let fence = told.fence(3);
        assert!(fence.holds() && fence.epoch() == 3);
        told.until.store(now.0, Ordering::Release);
        assert!(!fence.holds());
        told.until.store(u64::MAX, Ordering::Release);
        assert!(!fence.holds());
    }
}
