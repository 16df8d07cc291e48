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
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::lease::OrderLeft;
use penstock_api::rpc::task::{Caller, TenureLeft, tenure_beat};
use penstock_cluster::membership::{ClusterNow, epoch_of};

use tokio::sync::watch;

use crate::remote::client::PeerClient;
use crate::remote::orders::order_path;

/// How long a controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Wait before a question that was not answered is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// Tenures and orders that nobody acts by for so long are not followed any more.
const UNUSED: Duration = Duration::from_secs(60);

/// A tenure as it was told, or an order.
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
        let now = penstock_sys::boottime_now().0;
        let holds = now < self.until.load(Ordering::Acquire);
        if !holds {
            self.over.store(true, Ordering::Release);
        }
        holds
    }

    fn fence(self: &Arc<Self>, epoch: u64) -> Fence {
        let told = Arc::clone(self);
        Fence::new(epoch, Arc::new(move || told.holds()))
    }
}

/// What is followed: a tenure by its epoch, and with the number of an order that.
type Followed = (u64, Option<u64>);

/// The tenures under which this peer acts, and orders that take long.
pub(crate) struct Tenures {
    client: PeerClient,
    now: watch::Receiver<Arc<ClusterNow>>,
    known: Mutex<HashMap<Followed, Arc<Told>>>,
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
        Ok(self.followed(caller, None).await?.fence(caller.epoch))
    }

    /// What those ask who act by an order of this caller that takes as long as it takes: whether
    /// it stands, beside the tenure. Both are asked about again and again while anybody acts.
    ///
    /// # Errors
    /// As [`Tenures::order`].
    pub(crate) async fn standing(
        self: &Arc<Self>,
        caller: &Caller,
        order: u64,
    ) -> Result<Fence, Problem> {
        let tenure = self.fence(caller).await?;
        let told = self.followed(caller, Some(order)).await?;
        Ok(Fence::new(caller.epoch, Arc::new(move || told.holds() && tenure.holds())))
    }

    async fn followed(
        self: &Arc<Self>,
        caller: &Caller,
        order: Option<u64>,
    ) -> Result<Arc<Told>, Problem> {
        if is_older(caller.epoch, &self.now.borrow()) {
            return Err(not_controller().because("a newer one was elected"));
        }
        let what = (caller.epoch, order);
        let known = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|_, told| told.holds());
            known.get(&what).cloned()
        };
        if let Some(told) = known {
            told.used.store(penstock_sys::boottime_now().0, Ordering::Release);
            return Ok(told);
        }
        let (until, left) = self.ask(caller, order).await?;
        let told = Arc::new(Told {
            until: AtomicU64::new(until),
            used: AtomicU64::new(penstock_sys::boottime_now().0),
            over: AtomicBool::new(false),
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(what, Arc::clone(&told));
        drop(known);
        let follow = Arc::clone(self).follow(caller.clone(), order, Arc::clone(&told), left);
        tokio::spawn(follow);
        Ok(told)
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
        let (until, _) = self.ask(caller, Some(order)).await?;
        let holds = move || penstock_sys::boottime_now().0 < until && tenure.holds();
        Ok(Fence::new(caller.epoch, Arc::new(holds)))
    }

    /// Until when the caller's tenure, or an order of it, holds by the clock of this host, and how
    /// long that was when it was told.
    async fn ask(&self, caller: &Caller, order: Option<u64>) -> Result<(u64, Duration), Problem> {
        let asked = penstock_sys::boottime_now();
        let left_ms = match order {
            None => {
                let path = "/peer/v1/tenure";
                let told: TenureLeft = self.client.get(&caller.addresses, path, PATIENCE).await?;
                if told.epoch == caller.epoch { told.left_ms } else { 0 }
            }
            Some(order) => {
                let path = order_path(order);
                let told: OrderLeft = self.client.get(&caller.addresses, &path, PATIENCE).await?;
                told.left_ms
            }
        };
        if left_ms == 0 {
            let title = "the controller has given this order up";
            return Err(match order {
                None => not_controller(),
                Some(_) => Problem::new(ProblemCode::OrderOver, title),
            });
        }
        let left = Duration::from_millis(left_ms);
        Ok((asked.plus(left).0, left))
    }

    /// Asks again and again, while it holds and anybody acts under it.
    async fn follow(
        self: Arc<Self>,
        caller: Caller,
        order: Option<u64>,
        told: Arc<Told>,
        left: Duration,
    ) {
        let mut wait = tenure_beat(left);
        let mut now = self.now.clone();
        while told.holds() {
            let newer = now.wait_for(|now| is_older(caller.epoch, now));
            let newer = tokio::time::timeout(wait, async { newer.await.is_ok() }).await;
            let unused =
                penstock_sys::boottime_now().0.saturating_sub(told.used.load(Ordering::Acquire));
            // Beside whoever acts by it there are the table, and we.
            let idle = Arc::strong_count(&told) <= 2 && u128::from(unused) > UNUSED.as_nanos();
            if newer == Ok(true) || idle {
                break;
            }
            match self.ask(&caller, order).await {
                Ok((until, left)) => {
                    told.until.fetch_max(until, Ordering::AcqRel);
                    wait = tenure_beat(left);
                }
                Err(problem)
                    if matches!(
                        problem.code,
                        ProblemCode::NotController | ProblemCode::OrderOver
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
        let now = penstock_sys::boottime_now();
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
