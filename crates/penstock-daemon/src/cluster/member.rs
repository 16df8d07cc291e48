//! This peer's part in its site, as its only peer or as one of several.
//!
//! A lease ([`super::leadership`]) names the controller. If that is this peer, it reads the site's
//! records and starts to work as the controller. When its tenure is over, the peer drops all of
//! that, and remaining work finds its fence shut. [`crate::http::router`] forwards requests to the
//! present controller.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use penstock_api::access::Directory;
use penstock_api::cluster::{ClusterView, PeerCard, StoreCard};
use penstock_api::fence::Fence;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::lease::{LeaseId, LeaseLeft};
use penstock_api::site::SiteAddresses;
use penstock_cluster::membership::{ClusterNow, Tenure};
use penstock_peer::SourceService;
use penstock_proto::id::Name;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::card::told_addresses;
use super::controller::{Controller, ControllerParts};
use super::election::Election;
use super::leadership::Leadership;
use super::readiness::Readiness;
use crate::peer_client::source::away;
use crate::site::store_cards::store_cards;
use crate::site::store_reach::{lacks_store, stops_serving};

/// The interval at which a peer looks at its stores.
const LOOK: Duration = Duration::from_secs(15);
/// And no sooner than after this, when another peer knows more of one of them.
const LOOK_LEAST: Duration = Duration::from_secs(1);
/// The time that runs have to commit their ledgers when the daemon is asked to end.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_millis(4500);

/// This peer's part in its site.
pub(crate) struct Member {
    pub(crate) parts: ControllerParts,
    leadership: Leadership,
    set_fence: Arc<dyn Fn(Fence) + Send + Sync>,
    /// The lanes that this peer serves: they end when it drains.
    served: Arc<SourceService>,
    active: RwLock<Option<Active>>,
    /// Notified when the stores of this peer may be others than those of its card.
    stores_changed: Notify,
}

struct Active {
    tenure: Arc<Tenure>,
    controller: Controller,
}

/// Returns a fence that is never open: for scans while another peer is the controller.
fn shut() -> Fence {
    Fence::new(1, Arc::new(|| false))
}

/// Waits for the end of a task, if there is one. A panic in it was logged.
async fn end_of(task: &mut Option<JoinHandle<()>>) {
    if let Some(task) = task {
        let _ = task.await;
    }
}

impl Member {
    /// Returns a member that does not lead. Before [`Member::begin`] scans find their fence shut.
    pub(crate) fn new(
        parts: ControllerParts,
        leadership: Leadership,
        set_fence: Arc<dyn Fn(Fence) + Send + Sync>,
        served: Arc<SourceService>,
    ) -> Self {
        set_fence(shut());
        let (active, stores_changed) = (RwLock::default(), Notify::new());
        Self { parts, leadership, set_fence, served, active, stores_changed }
    }

    /// Leads the site from now on if the lease is held from the start: where this peer is the only
    /// one. Otherwise [`Member::follow`] finds out who leads.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn begin(&self) -> anyhow::Result<()> {
        match self.now().tenure.clone().filter(|_| self.election().is_none()) {
            Some(tenure) => self.change(Some(tenure)),
            None => Ok(()),
        }
    }

    /// Returns the controller, if it is this peer.
    pub(crate) fn controller(&self) -> Option<Controller> {
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        let active = active.as_ref().filter(|active| active.tenure.holds());
        active.map(|active| active.controller.clone())
    }

    /// Has the others know the stores that this peer has now, at a site of several peers.
    pub(crate) fn note_stores_changed(&self) {
        self.stores_changed.notify_one();
    }

    /// Returns the site's peers and its controller, now and whenever that changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<ClusterNow>> {
        self.leadership.watch()
    }

    /// Returns the site's peers and its controller now.
    pub(crate) fn now(&self) -> Arc<ClusterNow> {
        Arc::clone(&self.watch().borrow())
    }

    /// Checks that this peer serves its site now. Never blocks on a store or another host.
    ///
    /// # Errors
    /// Code `not-ready`, with the reason.
    pub(crate) fn check_ready(&self) -> Result<(), Problem> {
        let now = self.now();
        let own = &self.parts.site.config.peer;
        let leads = self.controller().is_some();
        let readiness = Readiness {
            has_controller: leads || now.leader.as_ref().is_some_and(|(it, _)| it.peer != *own),
            is_fit: now.trouble.is_empty(),
            is_draining: now.is_draining(own),
            are_stores_seen: self.parts.events.store_cards().is_some(),
        };
        let ready = readiness.check();
        ready.map_err(|why| Problem::new(ProblemCode::NotReady, why.to_string()))
    }

    /// Returns the election, at a site of several peers.
    pub(crate) fn election(&self) -> Option<&Arc<Election>> {
        self.leadership.election()
    }

    /// Returns the election, for an order about its etcd.
    ///
    /// # Errors
    /// Code `one-peer`: there is no election. `lacks` names the missing part of the site, and
    /// `instead` the advice.
    pub(crate) fn election_for(
        &self,
        lacks: &str,
        instead: &str,
    ) -> Result<&Arc<Election>, Problem> {
        self.election().ok_or_else(|| {
            let title = format!("this site has one peer and keeps its state in SQLite: {lacks}");
            Problem::new(ProblemCode::OnePeer, title).hint(instead)
        })
    }

    /// Returns the answer to a peer that asks at this path whether a lease holds: the tenure of
    /// this peer, or a lease that this peer has given to the one that asks.
    pub(crate) fn lease_left(&self, path: &str, asker: &Name) -> LeaseLeft {
        let Some(id) = LeaseId::from_path(path) else { return LeaseLeft::default() };
        if !id.is_tenure() {
            let given = self.election().map(|election| election.leases.renew(id, asker));
            return given.unwrap_or_default();
        }
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        let tenure = active.as_ref().map(|active| &active.tenure);
        let tenure = tenure.filter(|tenure| tenure.epoch() == id.epoch);
        tenure.map_or_else(LeaseLeft::default, |tenure| tenure.left().into())
    }

    /// Follows the membership until `stop` is true. Stores are looked at beside it: one that hangs
    /// holds up no change of the controller (E2).
    pub(crate) async fn follow(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut now = self.watch();
        // This peer may have been elected before.
        now.mark_changed();
        let mut look = tokio::time::interval(LOOK);
        let mut looked = Instant::now();
        let mut looking: Option<JoinHandle<()>> = None;
        let mut is_due = false;
        loop {
            is_due |= tokio::select! {
                _ = stop.changed() => return,
                changed = now.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let seen = Arc::clone(&now.borrow_and_update());
                    self.take_up(&seen).await;
                    looked.elapsed() >= LOOK_LEAST
                        && lacks_store(&self.leadership.card(), &seen.peers)
                }
                _ = look.tick() => true,
                () = self.stores_changed.notified() => true,
                () = end_of(&mut looking), if looking.is_some() => {
                    looking = None;
                    false
                }
            };
            if is_due && looking.is_none() {
                let member = Arc::clone(&self);
                looking = Some(tokio::spawn(async move { member.look_at_stores().await }));
                (looked, is_due) = (Instant::now(), false);
            }
        }
    }

    async fn look_at_stores(self: &Arc<Self>) {
        let member = Arc::clone(self);
        let card = tokio::task::spawn_blocking(move || member.card_now()).await;
        if let (Ok(fresh), Some(election)) = (card, self.election()) {
            election.cluster.update_card(|card| *card = fresh);
        }
    }

    /// Acts on a change of the membership.
    async fn take_up(self: &Arc<Self>, seen: &ClusterNow) {
        let site = &self.parts.site;
        self.parts.events.see_cluster(seen);
        self.drain(seen).await;
        if self.election().is_some() && seen.tenure.is_none() {
            site.authentication.follow(seen.directory.clone());
        }
        // A controller knows its pairings before etcd does.
        if seen.incarnation != 0 && seen.tenure.is_none() {
            site.follow_pairings(&seen.pairings);
        }
        let others = seen.fit_peers().filter(|peer| peer.peer != site.config.peer);
        let others = others.map(|peer| {
            let drains = seen.is_draining(&peer.peer);
            let data = if drains { Vec::new() } else { peer.data.clone() };
            let addresses = peer.addresses.clone();
            (peer.peer.clone(), SiteAddresses { addresses, data })
        });
        site.set_others(others.collect());
        site.see_peers(seen.peers.iter().filter(|peer| peer.peer != site.config.peer));
        site.set_away(away(seen).cloned().collect());
        if !seen.trouble.is_empty() {
            tracing::warn!(trouble = %seen.trouble, "this peer cannot take part");
        }
        let epoch = |tenure: &Arc<Tenure>| tenure.epoch();
        let known = {
            let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
            active.as_ref().map(|active| active.tenure.epoch())
        };
        if known == seen.tenure.as_ref().map(epoch) {
            return;
        }
        let member = Arc::clone(self);
        let tenure = seen.tenure.clone();
        let changed = tokio::task::spawn_blocking(move || member.change(tenure)).await;
        let why = match changed {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(error) => error.to_string(),
        };
        tracing::error!(%why, "this peer cannot be the controller");
        // Else it might be elected again and again before another one, which can, is.
        if let Some(election) = self.election() {
            election.stand_back(why);
        }
    }

    /// Carries out an order to drain this peer.
    async fn drain(self: &Arc<Self>, seen: &ClusterNow) {
        let stops = stops_serving(seen, &self.parts.site.config.peer);
        self.served.set_draining(stops);
        self.parts.site.set_draining(stops);
        if seen.gives_up {
            let member = Arc::clone(self);
            let given = tokio::task::spawn_blocking(move || member.give_up(STOP_DEADLINE));
            if let Err(error) = given.await {
                tracing::error!(%error, "cannot resign as the controller");
            }
        }
    }

    /// Ends the controllership of this peer in order: runs commit their ledgers, then another peer
    /// is elected. Blocks for `deadline` at most.
    fn give_up(&self, deadline: Duration) {
        let Some((controller, election)) = self.controller().zip(self.election()) else { return };
        if !controller.manager.stop(deadline) {
            tracing::warn!(
                "transfers are still running; the next controller resumes them from \
                            their ledgers"
            );
        }
        election.cluster.step_down();
    }

    /// Returns the card of this peer as it is now. Blocks on its stores.
    fn card_now(&self) -> PeerCard {
        self.card_with(store_cards(&self.parts.site.stores()))
    }

    /// Returns the card of this peer as it is now, with these stores.
    pub(crate) fn card_with(&self, stores: Vec<StoreCard>) -> PeerCard {
        let site = &self.parts.site;
        let SiteAddresses { addresses, data } = told_addresses(site);
        PeerCard {
            addresses,
            data,
            stores,
            key: site.own_key(),
            keys_at: site.own_addresses().addresses,
            running: self.controller().map_or(0, |controller| controller.manager.counts().0),
            ..self.own_card()
        }
    }

    /// Returns the card of this peer as the others know it.
    pub(crate) fn own_card(&self) -> PeerCard {
        self.leadership.card()
    }

    /// Drops the work of an earlier tenure, and starts the next one.
    fn change(&self, tenure: Option<Arc<Tenure>>) -> anyhow::Result<()> {
        let old = self.active.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(old) = old {
            old.tenure.end();
            (self.set_fence)(shut());
            // Its runs find their fence shut; this does not wait for one that hangs.
            old.controller.manager.stop(Duration::ZERO);
        }
        let Some(tenure) = tenure else { return Ok(()) };
        let controller = self.lead(&tenure).inspect_err(|_| tenure.end())?;
        let active = Active { tenure, controller };
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = Some(active);
        Ok(())
    }

    /// Begins to work as the controller.
    fn lead(&self, tenure: &Arc<Tenure>) -> anyhow::Result<Controller> {
        let site = &self.parts.site;
        let state = self.leadership.open_state(tenure)?;
        site.follow_pairings(&state.pairings()?);
        let sessions = state.sessions()?;
        site.authentication.follow(Directory::new(state.users()?, state.tokens()?, sessions));
        let fence = tenure.fence();
        site.set_state(Arc::clone(&state));
        (self.set_fence)(fence.clone());
        let sides = self.leadership.sides(tenure, &self.parts, &self.served);
        let controller = self.parts.begin(state, fence, sides)?;
        Ok(Controller { revision: tenure.revision(), ..controller })
    }

    /// Returns the site's peers and its etcd, as users see them; none at a site of one peer. Blocks
    /// while the endpoints of etcd are asked.
    pub(crate) fn view(&self) -> Option<ClusterView> {
        self.leadership.view(self.controller().is_some())
    }

    /// Ends the tenure in order: runs commit their ledgers, then another peer may lead at once.
    /// Returns whether all runs have stopped in time. Blocks.
    pub(crate) fn leave(&self, deadline: Duration) -> bool {
        let controller = self.controller();
        let in_time = controller.is_none_or(|controller| controller.manager.stop(deadline));
        self.leadership.stop();
        in_time
    }
}
