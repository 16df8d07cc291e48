//! A daemon that is one of several peers of its site.
//!
//! It follows the membership ([`penstock_cluster::membership`]). When this peer is elected it reads
//! the site's records and begins to work as the controller; when its tenure is over it drops all of
//! that, and what still runs finds its fence shut. [`crate::http::router`] leads requests
//! to whoever is the controller.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use penstock_api::cluster::{ClusterView, PeerCard};
use penstock_api::fence::Fence;
use penstock_api::peers::GRANT;
use penstock_api::rpc::lease::{LeaseId, LeaseLeft};
use penstock_api::rpc::task::{Caller, PEER_API_VERSION};
use penstock_api::scan::SourcePeer;
use penstock_api::site::SiteAddresses;
use penstock_cluster::etcd::{COMPACTION_HINT, Compaction, Etcd};
use penstock_cluster::keys::Keys;
use penstock_cluster::membership::{Ask, Cluster, ClusterConfig, ClusterNow, Eligible, Tenure};
use penstock_cluster::state::{EtcdState, SharedJournal, SiteState as _, SqliteState};

use penstock_peer::SourceService;
use penstock_proto::id::Name;
use penstock_proto::version;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::controller::{Controller, ControllerParts};
use super::target_side::TargetSide;
use crate::config::{ClusterConfig as Settings, StoreConfig};
use crate::http::local::admin::SiteAdmin;
use crate::leases::Leases;
use crate::managed_etcd as etcd;
use crate::managed_etcd::Keeper;
use crate::managed_etcd::files::Files;
use crate::peer_client::client::PeerClient;
use crate::peer_client::peers::{Others, SiteTarget};
use crate::peer_client::source::{SiteSource, away};
use crate::site::context::Site;
use crate::site::store_cards::store_cards;
use crate::site::store_reach::{lacks_store, stops_serving};
use penstock_exit::{ExitCode, Failure};

/// How often a peer looks at its stores again.
const LOOK: Duration = Duration::from_secs(15);
/// And no sooner than after this, when another peer knows more of one of them.
const LOOK_LEAST: Duration = Duration::from_secs(1);
/// How long runs may take to commit their ledgers when the daemon is asked to end.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_millis(4500);
/// How often a controller says in the journal that it is at work, and looks whether it still is.
pub(crate) const BEAT: Duration = Duration::from_secs(2);
/// In the site directory: what this peer kept as a site of one peer is in etcd now.
const TAKEN_OVER: &str = "taken-over";
/// How long the journal may take for that, before it counts as one that does not answer.
const BEAT_ANSWERS: Duration = Duration::from_secs(10);
/// How long a controller goes on whose journal fails, and one whose journal does not answer, before
/// it leaves the lead to another peer, which may reach it. A file server that is started again
/// takes a minute or two; a mount that is gone does not come back by itself.
const JOURNAL_FAILS: Duration = Duration::from_secs(10);
const JOURNAL_HANGS: Duration = Duration::from_secs(120);
/// How long an endpoint of etcd may take to say how it is.
const HEALTH: Duration = Duration::from_secs(1);
/// How long a peer that could not begin as the controller leaves that to the others.
const STAND_BACK: Duration = Duration::from_secs(10);

/// This peer's part in its site.
pub(crate) struct Member {
    pub(crate) parts: ControllerParts,
    pub(crate) cluster: Cluster,
    pub(crate) etcd: Arc<Etcd>,
    /// Of the member that this host runs, if it is not the operator's etcd.
    pub(crate) keeper: Option<Keeper>,
    etcd_hosts: usize,
    /// Held by who takes the site over or recovers it at this host.
    pub(crate) recovery: Mutex<()>,
    set_fence: Arc<dyn Fn(Fence) + Send + Sync>,
    pub(crate) client: PeerClient,
    pub(crate) runtime: Handle,
    /// What it has ordered other peers to delete, as the controller.
    pub(crate) leases: Arc<Leases>,
    /// The lanes that this peer serves: they end when it drains.
    served: Arc<SourceService>,
    local: Arc<SqliteState>,
    active: RwLock<Option<Active>>,
    admin: Mutex<Option<Arc<dyn SiteAdmin>>>,
    stood_back: StoodBack,
}

/// When and why this peer could not begin as the controller the last time.
type StoodBack = Arc<Mutex<Option<(Instant, String)>>>;

/// Stands for election where `eligible` says that it may, unless it has just failed to begin.
fn stands(eligible: Box<Eligible>, stood_back: StoodBack) -> Box<Eligible> {
    Box::new(move |ask| {
        let unable = stood_back.lock().unwrap_or_else(PoisonError::into_inner);
        match unable.as_ref().filter(|(when, _)| when.elapsed() < STAND_BACK) {
            Some((_, why)) => Err(format!("this peer could not begin as the controller: {why}")),
            None => eligible(ask),
        }
    })
}

struct Active {
    tenure: Arc<Tenure>,
    controller: Controller,
}

/// A fence that never stands open: for scans while another peer is the controller.
fn shut() -> Fence {
    Fence::new(1, Arc::new(|| false))
}

impl Member {
    /// Takes part in the site from now on. `local` is what this peer kept when it was the whole
    /// site; the first controller takes it over.
    ///
    /// # Errors
    /// Keys or passwords for etcd cannot be read; the journal store cannot be used.
    pub(crate) fn join(
        parts: ControllerParts,
        settings: &Settings,
        local: Arc<SqliteState>,
        set_fence: Arc<dyn Fn(Fence) + Send + Sync>,
        (client, served): (PeerClient, Arc<SourceService>),
    ) -> anyhow::Result<Arc<Self>> {
        let site = Arc::clone(&parts.site);
        if settings.own_etcd.is_some() {
            etcd::client::issue(&site.config.site, &site.directory)?;
        }
        let etcd = Arc::new(Etcd::new(etcd::client::config(settings, &site.directory)?)?);
        if settings.own_etcd.is_some() {
            etcd.set_passwords(Files::of(&site.directory).passwords());
        }
        let keeper = match &settings.own_etcd {
            Some(own) => Some(Keeper::start(&site, own, &etcd)?),
            None => check_compaction(&etcd, &site.config.site).map(|()| None)?,
        };
        let boot = penstock_sys::boot_id().context("cannot read this host's boot id")?;
        let SiteAddresses { addresses, data } = told_addresses(&site);
        let card = PeerCard {
            peer: site.config.peer.clone(),
            instance: rand::random(),
            addresses,
            data,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PEER_API_VERSION,
            formats: version::known().formats(),
            boot: data_encoding::HEXLOWER.encode(&boot),
            stores: store_cards(&site.config.stores),
            running: 0,
            since: penstock_sys::now_seconds(),
            key: site.own_key(),
            keys_at: site.own_addresses().addresses,
        };
        let stood_back = StoodBack::default();
        set_fence(shut());
        let config = ClusterConfig {
            site: site.config.site.clone(),
            card,
            lease_seconds: settings.lease_seconds,
            clock: || penstock_sys::boottime_now().0,
            eligible: stands(eligible(settings), Arc::clone(&stood_back)),
        };
        let cluster =
            Cluster::start(Arc::clone(&etcd), config).context("cannot start the membership")?;
        Ok(Arc::new(Self {
            parts,
            cluster,
            etcd,
            keeper,
            etcd_hosts: settings.own_etcd.as_ref().map_or(0, |own| own.hosts),
            recovery: Mutex::default(),
            set_fence,
            client,
            runtime: Handle::current(),
            leases: Arc::default(),
            served,
            local,
            active: RwLock::default(),
            admin: Mutex::default(),
            stood_back,
        }))
    }

    /// What answers the questions of the local API; before [`Member::follow`].
    pub(crate) fn set_admin(&self, admin: Arc<dyn SiteAdmin>) {
        *self.admin.lock().unwrap_or_else(PoisonError::into_inner) = Some(admin);
    }

    /// The controller, if it is this peer.
    pub(crate) fn controller(&self) -> Option<Controller> {
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        let active = active.as_ref().filter(|active| active.tenure.holds());
        active.map(|active| active.controller.clone())
    }

    /// Returns the answer to a peer that asks at this path whether a lease holds: the tenure of
    /// this peer, or a lease that this peer has given to the one that asks.
    pub(crate) fn lease_left(&self, path: &str, asker: &Name) -> LeaseLeft {
        let Some(id) = LeaseId::from_path(path) else { return LeaseLeft::default() };
        if !id.is_tenure() {
            return self.leases.renew(id, asker);
        }
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        let tenure = active.as_ref().map(|active| &active.tenure);
        let tenure = tenure.filter(|tenure| tenure.epoch() == id.epoch);
        tenure.map_or_else(LeaseLeft::default, |tenure| tenure.left().into())
    }

    /// Follows the membership until `stop` says so. Stores are looked at beside it: one that hangs
    /// holds up no change of the controller (E2).
    pub(crate) async fn follow(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut now = self.cluster.watch();
        let mut look = tokio::time::interval(LOOK);
        let mut looked = Instant::now();
        let mut looking: Option<JoinHandle<()>> = None;
        loop {
            let due = tokio::select! {
                _ = stop.changed() => return,
                changed = now.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let seen = Arc::clone(&now.borrow_and_update());
                    self.take_up(&seen).await;
                    looked.elapsed() >= LOOK_LEAST
                        && lacks_store(&self.cluster.card(), &seen.peers)
                }
                _ = look.tick() => true,
            };
            if due && looking.as_ref().is_none_or(JoinHandle::is_finished) {
                let member = Arc::clone(&self);
                looking = Some(tokio::spawn(async move { member.look_at_stores().await }));
                looked = Instant::now();
            }
        }
    }

    /// While this peer is the controller, says so in the journal, until `stop` says so. Two halves
    /// of a site that do not reach each other may reach the same stores, each with an etcd that has
    /// its majority: the one whose incarnation is not the journal's any more ends its tenure (B4).
    /// So does one whose journal fails, if another peer is there that may reach it (A12).
    pub(crate) async fn beat(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let settings = self.parts.site.config.cluster.as_ref();
        let Some(settings) = settings.filter(|settings| !settings.witness) else { return };
        let journal = SharedJournal::new(&settings.journal);
        let mut beat = tokio::time::interval(BEAT);
        // Since when it has not been possible.
        let mut failing = None;
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                _ = beat.tick() => {}
            }
            let now = Arc::clone(&self.cluster.watch().borrow());
            let Some(tenure) = now.tenure.clone().filter(|tenure| tenure.holds()) else { continue };
            let (journal, incarnation, asked) = (journal.clone(), now.incarnation, Instant::now());
            let voters = self.keeper.as_ref().and_then(Keeper::known_now);
            let beaten = tokio::task::spawn_blocking(move || {
                let leads = journal.beat(incarnation)?;
                if let Some(voters) = voters.filter(|_| leads) {
                    journal.confirm_voters(&voters)?;
                }
                Ok::<_, std::io::Error>(leads)
            });
            let beaten = tokio::time::timeout(BEAT_ANSWERS, beaten).await;
            let (why, most) = match beaten {
                Ok(Ok(Ok(true))) => {
                    failing = None;
                    continue;
                }
                Ok(Ok(Ok(false))) => {
                    tracing::error!(
                        "another host has taken over this site; this peer is no longer \
                                     the controller"
                    );
                    tenure.end();
                    continue;
                }
                Ok(Ok(Err(error))) => (error.to_string(), JOURNAL_FAILS),
                Ok(Err(error)) => (error.to_string(), JOURNAL_FAILS),
                Err(_) => ("it does not answer".to_owned(), JOURNAL_HANGS),
            };
            tracing::warn!(%why, "the journal cannot be used");
            let since = *failing.get_or_insert(asked);
            if since.elapsed() >= most && self.may_be_followed(&now) {
                tracing::error!(%why, "another peer may reach the journal: it is to lead");
                let mut stood_back = self.stood_back.lock().unwrap_or_else(PoisonError::into_inner);
                *stood_back = Some((Instant::now(), format!("its journal cannot be used: {why}")));
                tenure.end();
                failing = None;
            }
        }
    }

    /// Whether there is another peer that may lead: not a witness, which has no address.
    fn may_be_followed(&self, now: &ClusterNow) -> bool {
        let own = &self.parts.site.config.peer;
        now.fit_peers().any(|card| card.peer != *own && !card.addresses.is_empty())
    }

    async fn look_at_stores(&self) {
        let stores: Vec<StoreConfig> = self.parts.site.config.stores.clone();
        let cards = tokio::task::spawn_blocking(move || store_cards(&stores)).await;
        let running = self.controller().map_or(0, |controller| controller.manager.counts().0);
        if let Ok(stores) = cards {
            let SiteAddresses { addresses, data } = told_addresses(&self.parts.site);
            self.cluster.update_card(|card| {
                (card.addresses, card.data) = (addresses, data);
                card.stores = stores;
                card.key = self.parts.site.own_key();
                card.keys_at = self.parts.site.own_addresses().addresses;
                card.running = running;
            });
        }
    }

    /// Acts on what the membership has become.
    async fn take_up(self: &Arc<Self>, seen: &ClusterNow) {
        let site = &self.parts.site;
        self.parts.events.see_cluster(seen);
        self.drain(seen).await;
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
        let mut stood_back = self.stood_back.lock().unwrap_or_else(PoisonError::into_inner);
        *stood_back = Some((Instant::now(), why));
    }

    /// Does what an order to drain this peer asks for.
    async fn drain(self: &Arc<Self>, seen: &ClusterNow) {
        let stops = stops_serving(seen, &self.parts.site.config.peer);
        self.served.set_draining(stops);
        self.parts.site.set_draining(stops);
        if seen.gives_up {
            let member = Arc::clone(self);
            let given = tokio::task::spawn_blocking(move || {
                give_up(&member, &member.cluster, STOP_DEADLINE);
            });
            if let Err(error) = given.await {
                tracing::error!(%error, "cannot resign as the controller");
            }
        }
    }

    /// What this peer tells of itself.
    pub(crate) fn own_card(&self) -> PeerCard {
        self.cluster.card()
    }

    /// Drops what an earlier tenure began, and begins with the next one.
    fn change(&self, tenure: Option<Arc<Tenure>>) -> anyhow::Result<()> {
        let old = self.active.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(old) = old {
            old.tenure.end();
            (self.set_fence)(shut());
            // Its runs find their fence shut; nobody waits for one that hangs.
            old.controller.manager.stop(Duration::ZERO);
        }
        let Some(tenure) = tenure else { return Ok(()) };
        let controller = self.begin(&tenure).inspect_err(|_| tenure.end())?;
        let active = Active { tenure, controller };
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = Some(active);
        Ok(())
    }

    fn begin(&self, tenure: &Arc<Tenure>) -> anyhow::Result<Controller> {
        let site = &self.parts.site;
        let state = EtcdState::open(
            Arc::clone(&self.etcd),
            Keys::of(&site.config.site),
            Arc::clone(tenure),
            &site.directory.join("controller.db"),
            &self.parts.journal,
        )?;
        // Once: what was unpaired or removed since then must not come back from there.
        let taken_over = site.directory.join(TAKEN_OVER);
        if !taken_over.exists() {
            let taken = state.import(&self.local, &site.directory.join("journal"))?;
            std::fs::File::create(&taken_over).and_then(|file| file.sync_all())?;
            if taken > 0 {
                tracing::info!(transfers = taken, "taken over from the time as a site of one peer");
            }
        }
        site.follow_pairings(&state.pairings()?);
        let state = Arc::new(state);
        let fence = tenure.fence();
        site.set_state(Arc::clone(&state) as _);
        (self.set_fence)(fence.clone());
        let admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let admin = admin.context("nothing answers the local API")?;
        let sides = (self.source_side(tenure), self.target_side(tenure));
        let controller = self.parts.begin(state, fence, admin, sides)?;
        Ok(Controller { revision: tenure.revision(), ..controller })
    }

    /// The other peers, as this one asks them under a tenure.
    fn others(&self, tenure: &Tenure) -> Others {
        let site = &self.parts.site;
        let addresses = site.own_addresses().addresses;
        Others {
            own: site.identity.peer().clone(),
            client: self.client.clone(),
            runtime: self.runtime.clone(),
            now: self.cluster.watch(),
            caller: Caller { epoch: tenure.epoch(), addresses },
            events: Arc::clone(&self.parts.events),
            leases: Arc::clone(&self.leases),
        }
    }

    /// Names of this host's stores.
    fn stores(&self) -> Vec<Name> {
        self.parts.site.config.stores.iter().map(|store| store.name.clone()).collect()
    }

    /// The source side of the whole site, under a tenure of this peer.
    fn source_side(&self, tenure: &Tenure) -> Arc<dyn SourcePeer> {
        // Beside the ledgers, as `wiring::data_plane` puts them.
        let scans = self.parts.journal.with_file_name("source");
        let own = Arc::clone(&self.served);
        Arc::new(SiteSource::new(own, self.stores(), self.others(tenure), scans))
    }

    /// The target side of the whole site, under a tenure of this peer.
    fn target_side(&self, tenure: &Tenure) -> TargetSide {
        let site = &self.parts.site;
        let (stores, others) = (self.stores(), self.others(tenure));
        let grant = site.config.cluster.as_ref().and_then(|cluster| cluster.grant_seconds);
        SiteTarget { own: Arc::clone(&self.parts.target), stores, others }
            .into_side(grant.map_or(GRANT, Duration::from_secs))
    }

    /// The site's peers, as users see them. Blocks while the endpoints of etcd are asked.
    pub(crate) fn view(&self) -> ClusterView {
        let now = Arc::clone(&self.cluster.watch().borrow());
        let (etcd_transactions, etcd_bytes) = self.etcd.written();
        let revision = now.leader.as_ref().map_or(0, |(_, revision)| *revision);
        ClusterView {
            is_leader: self.controller().is_some(),
            epoch: format!("{:016x}-{revision}", now.incarnation),
            leader: now.leader.as_ref().map(|(leader, _)| leader.clone()),
            format: now.format,
            peers: now.peers.clone(),
            etcd: self.etcd.health(HEALTH),
            etcd_hosts: self.etcd_hosts,
            lease_seconds: self.lease_seconds(),
            trouble: self.trouble(&now),
            etcd_transactions,
            etcd_bytes,
        }
    }

    fn trouble(&self, now: &ClusterNow) -> String {
        let own = self.keeper.as_ref().map(Keeper::trouble).unwrap_or_default();
        let both = [own.as_str(), now.trouble.as_str()];
        both.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
    }

    fn lease_seconds(&self) -> u64 {
        let cluster = self.parts.site.config.cluster.as_ref();
        cluster.map_or(0, |cluster| cluster.lease_seconds)
    }

    /// The client of etcd.
    pub(crate) fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// Ends the tenure in order: runs commit their ledgers, then another peer may lead at once.
    /// Whether all runs have stopped in time. Blocks.
    pub(crate) fn leave(&self, deadline: Duration) -> bool {
        let controller = self.controller();
        let in_time = controller.is_none_or(|controller| controller.manager.stop(deadline));
        self.cluster.stop();
        if let Some(keeper) = &self.keeper {
            keeper.stop();
        }
        in_time
    }
}

/// Where others reach this peer. Nobody asks a witness for anything, nor for data.
fn told_addresses(site: &Site) -> SiteAddresses {
    match &site.config.cluster {
        Some(cluster) if cluster.witness => SiteAddresses::default(),
        _ => site.own_addresses(),
    }
}

/// Refuses an etcd of the operator's that keeps all of its history (E6), if it answers and says so.
fn check_compaction(etcd: &Etcd, site: &Name) -> anyhow::Result<()> {
    match etcd.compaction(&Keys::of(site).leader(), HEALTH) {
        Ok(Compaction::Off) => {
            let message = "etcd never forgets its history: its quota will be used up";
            return Err(Failure::new(ExitCode::Refused, message).hint(COMPACTION_HINT).into());
        }
        Ok(Compaction::Unknown) => tracing::warn!(
            hint = COMPACTION_HINT,
            "etcd does not report whether it compacts its history; make sure that it does"
        ),
        Ok(Compaction::On) => {}
        Err(error) => tracing::warn!(%error, "etcd does not answer yet"),
    }
    Ok(())
}

/// Whether this peer may lead: it reaches the site's journal, and etcd is not behind that.
fn eligible(settings: &Settings) -> Box<Eligible> {
    if settings.witness {
        return Box::new(|_| Err("this host only witnesses: it never leads".to_owned()));
    }
    let journal = SharedJournal::new(&settings.journal);
    Box::new(move |ask| match ask {
        Ask::Lead { incarnation, written } => journal.check(incarnation, written),
        Ask::Begin(incarnation) => journal.begin(incarnation),
        Ask::Withdraw(incarnation) => journal.withdraw(incarnation),
    })
}

/// Ends the controllership of this peer in order: runs commit their ledgers, then another peer is
/// elected. Blocks for `deadline` at most.
fn give_up(member: &Member, cluster: &Cluster, deadline: Duration) {
    if let Some(controller) = member.controller() {
        if !controller.manager.stop(deadline) {
            tracing::warn!(
                "transfers are still running; the next controller resumes them from \
                            their ledgers"
            );
        }
        cluster.step_down();
    }
}
