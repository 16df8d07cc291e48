//! The parts that make a daemon the controller of its site: the manager, and the site API that
//! leads to it.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use penstock_api::fence::Fence;
use penstock_api::place::Location;
use penstock_api::problem::Problem;
use penstock_api::receipt::ReceiptSigner;
use penstock_api::scan::{ScanRequest, SourcePeer};
use penstock_api::task::TargetPeer;
use penstock_api::transfer::TransferState;
use penstock_cluster::state::SiteState;
use penstock_controller::manager::{Caller, Manager, ManagerConfig, ManagerParts, TransferFilter};
use penstock_engine::queue::Limits;
use penstock_proto::id::Name;

use super::target_side::TargetSide;
use crate::events::log::EventLog;
use crate::http::site as site_api;
use crate::http::site::SiteParts;
use crate::site::client::Sites;
use crate::site::context::Site;
use crate::site::foreign_scans;
use crate::site::foreign_scans::ForeignScans;
use crate::webhooks::{Dispatcher, Webhooks};

/// The parts of a controller.
pub(crate) struct ControllerParts {
    pub(crate) site: Arc<Site>,
    pub(crate) sites: Arc<Sites>,
    pub(crate) source: Arc<dyn SourcePeer>,
    pub(crate) target: Arc<dyn TargetPeer>,
    /// Receives the events of transfers.
    pub(crate) events: Arc<EventLog>,
    /// Delivers the events of transfers to other programs.
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) signer: Arc<dyn ReceiptSigner>,
    /// Directory of ledgers, one below it for each transfer.
    pub(crate) journal: PathBuf,
}

/// A controller at work.
#[derive(Clone)]
pub(crate) struct Controller {
    pub(crate) manager: Arc<Manager>,
    /// The state of the site.
    pub(crate) state: Arc<dyn SiteState>,
    /// The site API.
    pub(crate) site: Router,
    /// Create revision of the leader's key; 0 under a lease that never ends.
    pub(crate) revision: u64,
}

/// Transfers that are looked at to find one that uses a store.
const TRANSFERS_LOOKED: usize = 500;

impl Controller {
    /// Returns whether a transfer that runs reads from a store of this site or writes to it, as far
    /// as this site knows its transfers.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn is_used(&self, site: &Name, store: &Name) -> Result<bool, Problem> {
        let filter = TransferFilter {
            states: vec![TransferState::Running],
            store: Some(store.clone()),
            ..TransferFilter::default()
        };
        let running = self.manager.list(&filter, None, TRANSFERS_LOOKED, &Caller::local())?;
        let uses = |place: &Location| place.site == *site && place.store == *store;
        Ok(running.items.iter().any(|one| uses(&one.source) || uses(&one.target)))
    }
}

impl ControllerParts {
    /// Starts with the records of `state`: transfers that were queued or running continue. Blocks.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn begin(
        &self,
        state: Arc<dyn SiteState>,
        fence: Fence,
        (source, side): (Arc<dyn SourcePeer>, TargetSide),
    ) -> anyhow::Result<Controller> {
        let config = &self.site.config;
        let manager_config = ManagerConfig {
            limits: Limits::of_site(self.site.settings.now().running_max),
            ..ManagerConfig::new(config.site.clone(), self.journal.clone())
        };
        let exports = self.site.exports.clone();
        let (own, here) = (Arc::clone(&self.site), Arc::clone(&self.site));
        let manager = Manager::start(
            manager_config,
            ManagerParts {
                state: Arc::clone(&state),
                source: Arc::clone(&source),
                target: side.target,
                peers: side.peers,
                lanes: Arc::new(move |request: &ScanRequest| own.own_lanes(request)),
                own_peers: Arc::new(move |store: &Name| here.data_known_for(store)),
                sites: Arc::clone(&self.sites) as _,
                signer: Arc::clone(&self.signer),
                run: Arc::new(penstock_controller::runner::run),
                directory: Arc::new(move |store| exports.directory(store)),
                fence,
            },
        );
        let manager = manager.map_err(|error| penstock_exit::failure(error.into()))?;
        let manager = Arc::new(manager);
        self.events.follow_transfers(&manager);
        Dispatcher::start(Arc::clone(&self.webhooks), Arc::clone(&state), manager.events());
        let scans = Arc::new(ForeignScans::new(self.journal.with_file_name("source")));
        let sweep = foreign_scans::sweep(
            Arc::clone(&scans),
            Arc::clone(&source),
            Arc::clone(&self.sites) as _,
            manager.fence().clone(),
        );
        self.sites.runtime().spawn(sweep);
        let site = site_api::router(SiteParts {
            site: Arc::clone(&self.site),
            manager: Arc::clone(&manager),
            source,
            signer: Arc::clone(&self.signer),
            scans,
            // Under a lease in etcd the next controller finds the scans in the shared journal.
            instance: if manager.fence().epoch() == 0 { rand::random() } else { 0 },
        });
        Ok(Controller { manager, state, site, revision: 0 })
    }
}
