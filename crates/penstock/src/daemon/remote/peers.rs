//! Who of the site's peers does what one peer does for all.

use std::sync::Arc;

use penstock_api::cluster::PeerCard;
use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::plan::PlanItem;
use penstock_api::problem::Problem;
use penstock_api::proof::{PageProof, ProofProgress, ProofRequest};
use penstock_api::remote::{Caller, PEER_API_VERSION};
use penstock_api::scan::RootKind;
use penstock_api::task::{TargetPeer, Task, TaskControl, TaskPage, TaskSpec, TaskStart};
use penstock_api::transfer::PathText;
use penstock_controller::cluster::ClusterNow;
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::id::{Name, PeerId};
use penstock_proto::manifest::Page;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::RemotePeer;
use super::client::PeerClient;

/// The other peers of the site, as its controller sees them.
#[derive(Clone)]
pub(crate) struct Others {
    pub(crate) own: PeerId,
    pub(crate) client: PeerClient,
    pub(crate) runtime: Handle,
    pub(crate) now: watch::Receiver<Arc<ClusterNow>>,
    pub(crate) caller: Caller,
}

impl Others {
    /// The way to a peer.
    pub(crate) fn remote(&self, card: &PeerCard) -> RemotePeer {
        RemotePeer {
            name: card.peer.clone(),
            addresses: card.addresses.clone(),
            client: self.client.clone(),
            runtime: self.runtime.clone(),
            caller: self.caller.clone(),
        }
    }

    /// Other peers that have a store of this name, and speak our version.
    fn with_store(&self, store: &Name) -> Vec<PeerCard> {
        let now = Arc::clone(&self.now.borrow());
        let others = now.peers.iter().filter(|card| card.peer != self.own.peer);
        let others = others.filter(|card| identity(card, store).is_some());
        others.filter(|card| card.protocol == PEER_API_VERSION).cloned().collect()
    }
}

/// What a peer tells of a store, if it has one of this name.
fn identity<'a>(card: &'a PeerCard, store: &Name) -> Option<&'a str> {
    let known = card.stores.iter().find(|known| known.store == *store)?;
    Some(&known.identity)
}

/// The site's target side where one peer does something for all: this host's, if it has the store;
/// else another peer's that has it.
pub(crate) struct SiteTarget {
    pub(crate) own: Arc<dyn TargetPeer>,
    /// Stores of this host.
    pub(crate) stores: Vec<Name>,
    pub(crate) others: Others,
}

impl SiteTarget {
    fn of(&self, store: &Name) -> Arc<dyn TargetPeer> {
        let other = match self.stores.contains(store) {
            true => None,
            false => self.others.with_store(store).into_iter().next(),
        };
        // The own one says that a store is not known, too.
        other.map_or_else(|| Arc::clone(&self.own), |card| Arc::new(self.others.remote(&card)))
    }
}

impl TargetPeer for SiteTarget {
    fn root_kind(&self, store: &Name, path: &PathText) -> Result<Option<RootKind>, Problem> {
        self.of(store).root_kind(store, path)
    }

    fn prepare(&self, spec: &TaskSpec) -> Result<TaskStart, Problem> {
        self.of(&spec.store).prepare(spec)
    }

    fn compare(
        &self,
        spec: &TaskSpec,
        page: &Page,
        left: &EntrySet,
    ) -> Result<Comparison, Problem> {
        self.of(&spec.store).compare(spec, page, left)
    }

    fn store_id(&self, store: &Name) -> Result<Option<u64>, Problem> {
        self.of(store).store_id(store)
    }

    fn look(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<PlanItem>, Problem> {
        self.of(&spec.store).look(spec, page)
    }

    fn same_size(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<u32>, Problem> {
        self.of(&spec.store).same_size(spec, page)
    }

    fn compare_contents(
        &self,
        spec: &TaskSpec,
        page: &Page,
        digests: &[(u32, String)],
        progress: &ProofProgress,
    ) -> Result<Comparison, Problem> {
        self.of(&spec.store).compare_contents(spec, page, digests, progress)
    }

    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem> {
        self.of(&spec.store).find_surplus(spec, query)
    }

    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem> {
        self.of(&spec.store).delete(spec, order)
    }

    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem> {
        self.of(&spec.store).start(spec, control)
    }

    fn prove(&self, spec: &TaskSpec, request: &ProofRequest<'_>) -> Result<PageProof, Problem> {
        self.of(&spec.store).prove(spec, request)
    }

    fn confirm(
        &self,
        spec: &TaskSpec,
        page: &Page,
        wanted: &EntrySet,
    ) -> Result<EntrySet, Problem> {
        self.of(&spec.store).confirm(spec, page, wanted)
    }

    fn clean(
        &self,
        spec: &TaskSpec,
        pages: &mut dyn Iterator<Item = TaskPage>,
        generation_max: u32,
    ) {
        self.of(&spec.store).clean(spec, pages, generation_max);
    }
}
