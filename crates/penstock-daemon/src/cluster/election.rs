//! A lease in etcd, which the peers of a site hold in turn: its holder is the controller.
//!
//! This peer stands for election ([`penstock_cluster::membership`]) unless a check forbids it. As
//! the controller, the peer records that in the journal, and resigns when the journal fails.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use penstock_api::cluster::{ClusterView, PeerCard};
use penstock_api::peers::GRANT;
use penstock_api::rpc::task::Caller;
use penstock_api::scan::SourcePeer;
use penstock_cluster::etcd::{COMPACTION_HINT, Compaction, Etcd};
use penstock_cluster::keys::Keys;
use penstock_cluster::membership::{
    Ask, Cluster, ClusterConfig, ClusterNow, Eligible, Ineligible, Tenure,
};
use penstock_cluster::state::{EtcdState, SharedJournal, SqliteState};
use penstock_peer::SourceService;
use penstock_proto::id::Name;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::card::own_card;
use super::controller::ControllerParts;
use super::target_side::TargetSide;
use crate::config::ClusterConfig as Settings;
use crate::events::log::EventLog;
use crate::leases::Leases;
use crate::managed_etcd as etcd;
use crate::managed_etcd::Keeper;
use crate::managed_etcd::files::Files;
use crate::metrics::heartbeat::Heartbeat;
use crate::peer_client::client::PeerClient;
use crate::peer_client::peers::{Others, SiteTarget};
use crate::peer_client::source::SiteSource;
use crate::site::context::Site;
use crate::site::store_cards::store_cards;
use penstock_exit::{ExitCode, Failure};

/// The interval at which a controller records in the journal that it works, and checks that it
/// leads.
pub(crate) const BEAT: Duration = Duration::from_secs(2);
/// File in the site directory: the records of this peer as a site of one peer are in etcd now.
const TAKEN_OVER: &str = "taken-over";
/// The time that the journal has for that, before it counts as one that does not answer.
const BEAT_ANSWERS: Duration = Duration::from_secs(10);
/// The time for which a controller continues whose journal fails, and one whose journal does not
/// answer. After that another peer leads, which may reach it. A restarted file server needs a
/// minute or two; a mount that disappeared does not return by itself.
const JOURNAL_FAILS: Duration = Duration::from_secs(10);
const JOURNAL_HANGS: Duration = Duration::from_secs(120);
/// The time that an endpoint of etcd has to report its state.
const HEALTH: Duration = Duration::from_secs(1);
/// The time for which a peer that could not start as the controller leaves the election to others.
const STAND_BACK: Duration = Duration::from_secs(10);

/// This peer's part in the elections of its site.
pub(crate) struct Election {
    pub(crate) site: Arc<Site>,
    pub(crate) settings: Settings,
    pub(crate) cluster: Cluster,
    pub(crate) etcd: Arc<Etcd>,
    /// The keeper of the member that this host runs, unless etcd is the operator's.
    pub(crate) keeper: Option<Keeper>,
    /// Held during a takeover or a recovery of the site at this host.
    pub(crate) recovery: Mutex<()>,
    pub(crate) client: PeerClient,
    pub(crate) runtime: Handle,
    pub(crate) events: Arc<EventLog>,
    /// Leases that this peer has given to others, as the controller.
    pub(crate) leases: Arc<Leases>,
    /// Directory of ledgers, which all peers of the site reach.
    journal: PathBuf,
    /// State from the time when this peer was the whole site; the first controller takes it over.
    before: Arc<SqliteState>,
    stood_back: StoodBack,
}

/// The time and the reason of the last failure of this peer to start as the controller.
type StoodBack = Arc<Mutex<Option<(Instant, String)>>>;

/// Stands for election if `eligible` allows it, unless the peer has just failed to start.
fn stands(eligible: Box<Eligible>, stood_back: StoodBack) -> Box<Eligible> {
    Box::new(move |ask| {
        let unable = stood_back.lock().unwrap_or_else(PoisonError::into_inner);
        match unable.as_ref().filter(|(when, _)| when.elapsed() < STAND_BACK) {
            Some((_, why)) => Err(Ineligible::JustFailed(why.clone())),
            None => eligible(ask),
        }
    })
}

impl Election {
    /// Takes part from now on. `before` has the records from the time when this peer was the whole
    /// site.
    ///
    /// # Errors
    /// Keys or passwords for etcd cannot be read; the journal store cannot be used.
    pub(crate) fn join(
        parts: &ControllerParts,
        settings: Settings,
        before: Arc<SqliteState>,
        client: PeerClient,
    ) -> anyhow::Result<Arc<Self>> {
        let site = Arc::clone(&parts.site);
        if settings.own_etcd.is_some() {
            etcd::client::issue(&site.config.site, &site.directory)?;
        }
        let etcd = Arc::new(Etcd::new(etcd::client::config(&settings, &site.directory)?)?);
        if settings.own_etcd.is_some() {
            etcd.set_passwords(Files::of(&site.directory).passwords());
        }
        let keeper = match &settings.own_etcd {
            Some(own) => Some(Keeper::start(&site, own, &etcd)?),
            None => check_compaction(&etcd, &site.config.site).map(|()| None)?,
        };
        let boot = penstock_sys::boot_id().context("cannot read this host's boot id")?;
        let card = PeerCard {
            boot: data_encoding::HEXLOWER.encode(&boot),
            stores: store_cards(&site.stores()),
            ..own_card(&site)
        };
        let stood_back = StoodBack::default();
        let config = ClusterConfig {
            site: site.config.site.clone(),
            card,
            lease_seconds: settings.lease_seconds,
            clock: || penstock_sys::boottime_now().0,
            eligible: stands(eligible(&settings), Arc::clone(&stood_back)),
        };
        let cluster =
            Cluster::start(Arc::clone(&etcd), config).context("cannot start the membership")?;
        Ok(Arc::new(Self {
            site,
            settings,
            cluster,
            etcd,
            keeper,
            recovery: Mutex::default(),
            client,
            runtime: Handle::current(),
            events: Arc::clone(&parts.events),
            leases: Arc::default(),
            journal: parts.journal.clone(),
            before,
            stood_back,
        }))
    }

    /// Leaves the lead to others for a while: this peer could not start, or not continue.
    pub(crate) fn stand_back(&self, why: String) {
        let mut stood_back = self.stood_back.lock().unwrap_or_else(PoisonError::into_inner);
        *stood_back = Some((Instant::now(), why));
    }

    /// Records in the journal that this peer is the controller, while it is, until `stop` is true.
    /// Two halves of a site that do not reach each other may reach the same stores, each with an
    /// etcd that has its majority: the one whose incarnation is no longer the journal's ends its
    /// tenure (B4). So does one whose journal fails, if another peer is there that may reach it
    /// (A12).
    ///
    /// The loop beats once in each round, of 12 s at most.
    pub(crate) async fn beat(
        self: Arc<Self>,
        heartbeat: Heartbeat,
        mut stop: watch::Receiver<bool>,
    ) {
        let journal = SharedJournal::new(&self.settings.journal);
        let mut beat = tokio::time::interval(BEAT);
        // Since when it has not been possible.
        let mut failing = None;
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                _ = beat.tick() => heartbeat.beat(),
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
                self.stand_back(format!("its journal cannot be used: {why}"));
                tenure.end();
                failing = None;
            }
        }
    }

    /// Returns whether there is another peer that may lead: not a witness, which has no address.
    fn may_be_followed(&self, now: &ClusterNow) -> bool {
        let own = &self.site.config.peer;
        now.fit_peers().any(|card| card.peer != *own && !card.addresses.is_empty())
    }

    /// Opens the site's state under a tenure of this peer.
    ///
    /// # Errors
    /// The state cannot be read, or this peer's earlier records cannot be taken over.
    pub(super) fn open_state(&self, tenure: &Arc<Tenure>) -> anyhow::Result<Arc<EtcdState>> {
        let site = &self.site;
        let state = EtcdState::open(
            Arc::clone(&self.etcd),
            Keys::of(&site.config.site),
            Arc::clone(tenure),
            &site.directory.join("controller.db"),
            &self.journal,
        )?;
        // Once: sites and transfers that were removed since then must not return from there.
        let taken_over = site.directory.join(TAKEN_OVER);
        if !taken_over.exists() {
            let taken = state.import(&self.before, &site.directory.join("journal"))?;
            std::fs::File::create(&taken_over).and_then(|file| file.sync_all())?;
            if taken > 0 {
                tracing::info!(transfers = taken, "taken over from the time as a site of one peer");
            }
        }
        Ok(Arc::new(state))
    }

    /// Returns the source and target sides of the whole site, under a tenure of this peer. `served`
    /// is the source side of this host.
    pub(super) fn sides(
        &self,
        tenure: &Tenure,
        parts: &ControllerParts,
        served: &Arc<SourceService>,
    ) -> (Arc<dyn SourcePeer>, TargetSide) {
        let stores = self.site.exports.clone();
        let others = self.others(tenure);
        // Beside the ledgers, as `wiring::data_plane` puts them.
        let scans = self.journal.with_file_name("source");
        let source = SiteSource::new(Arc::clone(served), stores.clone(), others.clone(), scans);
        let target = SiteTarget { own: Arc::clone(&parts.target), stores, others };
        let grant = self.settings.grant_seconds.map_or(GRANT, Duration::from_secs);
        (Arc::new(source), target.into_side(grant))
    }

    /// Returns the other peers, as this one asks them under a tenure.
    fn others(&self, tenure: &Tenure) -> Others {
        let addresses = self.site.own_addresses().addresses;
        Others {
            own: self.site.identity.peer().clone(),
            client: self.client.clone(),
            runtime: self.runtime.clone(),
            now: self.cluster.watch(),
            caller: Caller { epoch: tenure.epoch(), addresses },
            events: Arc::clone(&self.events),
            leases: Arc::clone(&self.leases),
        }
    }

    /// Returns the site's peers and its etcd, as users see them. Blocks while the endpoints of etcd
    /// are asked.
    pub(super) fn view(&self, is_leader: bool) -> ClusterView {
        let now = Arc::clone(&self.cluster.watch().borrow());
        let (etcd_transactions, etcd_bytes) = self.etcd.written();
        let revision = now.leader.as_ref().map_or(0, |(_, revision)| *revision);
        ClusterView {
            is_leader,
            epoch: format!("{:016x}-{revision}", now.incarnation),
            leader: now.leader.as_ref().map(|(leader, _)| leader.clone()),
            format: now.format,
            peers: now.peers.clone(),
            etcd: self.etcd.health(HEALTH),
            etcd_hosts: self.settings.own_etcd.as_ref().map_or(0, |own| own.hosts),
            lease_seconds: self.settings.lease_seconds,
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

    /// Leaves the site in order: another peer may lead at once. Blocks.
    pub(super) fn stop(&self) {
        self.cluster.stop();
        if let Some(keeper) = &self.keeper {
            keeper.stop();
        }
    }
}

/// Refuses an etcd of the operator's that keeps all of its history (E6), if its answer shows that.
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

/// Returns whether this peer may lead: it reaches the site's journal, and etcd is not behind that.
fn eligible(settings: &Settings) -> Box<Eligible> {
    if settings.witness {
        return Box::new(|_| Err(Ineligible::Witness));
    }
    let journal = SharedJournal::new(&settings.journal);
    Box::new(move |ask| {
        let answer = match ask {
            Ask::Lead { incarnation, written } => journal.check(incarnation, written),
            Ask::Begin(incarnation) => journal.begin(incarnation),
            Ask::Withdraw(incarnation) => journal.withdraw(incarnation),
        };
        answer.map_err(Ineligible::from)
    })
}
