//! The lease by which a peer leads its site. There are two kinds: one in etcd, which the peers of a
//! site hold in turn, and one that never ends. A site of one peer is a cluster of one with the
//! latter: it has no etcd, and keeps its state in SQLite.

use std::sync::Arc;

use anyhow::Context as _;
use penstock_api::cluster::{ClusterView, LeaderCard, PeerCard};
use penstock_api::scan::SourcePeer;
use penstock_cluster::membership::{ClusterNow, Tenure};
use penstock_cluster::state::{SiteState, SqliteState};
use penstock_peer::SourceService;
use tokio::sync::watch;

use super::card::own_card;
use super::controller::ControllerParts;
use super::election::Election;
use super::target_side::TargetSide;
use crate::site::context::Site;

/// The lease of a site, as one of its peers knows it: the present leader, and its tenure.
pub(crate) enum Leadership {
    /// A lease in etcd.
    Elected(Arc<Election>),
    /// A lease that never ends: this peer is the whole site.
    Sole(Arc<Sole>),
}

/// A site of one peer, which always leads.
pub(crate) struct Sole {
    state: Arc<SqliteState>,
    card: PeerCard,
    /// The membership; it never changes.
    now: watch::Sender<Arc<ClusterNow>>,
}

impl Sole {
    /// Leads from now on, with the records of `state`.
    ///
    /// # Errors
    /// The format of the state cannot be raised to that of this release.
    pub(crate) fn new(site: &Site, state: Arc<SqliteState>) -> anyhow::Result<Arc<Self>> {
        state.take_newest_format().context("cannot raise the format of the state")?;
        let (card, tenure) = (own_card(site), Arc::new(Tenure::endless()));
        let leader = LeaderCard {
            peer: card.peer.clone(),
            instance: card.instance,
            addresses: card.addresses.clone(),
            since: card.since,
        };
        let now = ClusterNow {
            leader: Some((leader, tenure.revision())),
            format: tenure.format(),
            tenure: Some(tenure),
            peers: vec![card.clone()],
            ..ClusterNow::default()
        };
        Ok(Arc::new(Self { state, card, now: watch::Sender::new(Arc::new(now)) }))
    }
}

impl Leadership {
    /// Returns the election, at a site of several peers.
    pub(crate) fn election(&self) -> Option<&Arc<Election>> {
        match self {
            Self::Elected(election) => Some(election),
            Self::Sole(_) => None,
        }
    }

    /// Returns the site's peers and its controller, now and whenever that changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<ClusterNow>> {
        match self {
            Self::Elected(election) => election.cluster.watch(),
            Self::Sole(sole) => sole.now.subscribe(),
        }
    }

    /// Returns the card of this peer, as the others know it.
    pub(super) fn card(&self) -> PeerCard {
        match self {
            Self::Elected(election) => election.cluster.card(),
            Self::Sole(sole) => sole.card.clone(),
        }
    }

    /// Opens the site's state under a tenure of this peer.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(super) fn open_state(&self, tenure: &Arc<Tenure>) -> anyhow::Result<Arc<dyn SiteState>> {
        match self {
            Self::Elected(election) => election.open_state(tenure).map(|state| state as _),
            Self::Sole(sole) => Ok(Arc::clone(&sole.state) as _),
        }
    }

    /// Returns the source and target sides of the whole site, under a tenure of this peer. `served`
    /// is the source side of this host. The only peer of a site sends no requests over the network.
    pub(super) fn sides(
        &self,
        tenure: &Tenure,
        parts: &ControllerParts,
        served: &Arc<SourceService>,
    ) -> (Arc<dyn SourcePeer>, TargetSide) {
        match self {
            Self::Elected(election) => election.sides(tenure, parts, served),
            Self::Sole(_) => (Arc::clone(&parts.source), TargetSide::own(&parts.target)),
        }
    }

    /// Returns the site's peers and its etcd, as users see them; none at a site of one peer. Blocks
    /// while the endpoints of etcd are asked.
    pub(super) fn view(&self, is_leader: bool) -> Option<ClusterView> {
        self.election().map(|election| election.view(is_leader))
    }

    /// Leaves the site in order, if another peer may lead it. Blocks.
    pub(super) fn stop(&self) {
        if let Some(election) = self.election() {
            election.stop();
        }
    }
}
