//! Looks every now and then how etcd's members are, so that their loss is an event with a time: a
//! client that goes to the next member notices nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::election::Election;

/// The interval of the looks.
const LOOK: Duration = Duration::from_secs(2);
/// The time that a member has for an answer.
const ANSWER: Duration = Duration::from_secs(1);

impl Election {
    /// Looks until `stop` is true. The controller does, for all peers; another peer does only while
    /// something is wrong as it sees it.
    pub(crate) async fn watch_etcd(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                _ = look.tick() => {}
            }
            let now = Arc::clone(&self.cluster.watch().borrow());
            let is_well = now.leader.is_some() && now.trouble.is_empty();
            if is_well && now.tenure.is_none() && !self.events.is_etcd_ill() {
                continue;
            }
            let etcd = Arc::clone(&self.etcd);
            match tokio::task::spawn_blocking(move || etcd.standing(ANSWER)).await {
                Ok(standing) => self.events.see_etcd(&standing),
                Err(error) => tracing::error!(%error, "cannot check etcd"),
            }
        }
    }
}
