//! The inputs of a manager: its configuration, and the parts of the site that it works with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_api::fence::Fence;
use penstock_api::peers::Peers;
use penstock_api::receipt::ReceiptSigner;
use penstock_api::scan::{ScanRequest, SourcePeer};
use penstock_api::task::{SourceAccess, TargetPeer};
use penstock_cluster::state::SiteState;
use penstock_engine::queue::Limits;
use penstock_proto::id::Name;
use penstock_proto::network::DataAddress;

use crate::runner::{RunInput, RunOutcome};
use crate::sites::SiteClient;

/// Transfers that run at a time, unless configured.
pub const RUNNING_MAX_DEFAULT: u32 = 4;

/// The configuration of a manager.
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// The own site.
    pub site: Name,
    /// The journal store: one directory per transfer below it.
    pub journal: PathBuf,
    /// Limits of the transfers that run at a time; the others wait for their turn.
    pub limits: Limits,
    /// Least wait before a failed attempt is repeated.
    pub retry_least: Duration,
    /// Longest such wait.
    pub retry_most: Duration,
    /// Shortest duration of an attempt after which the source is asked whether it was restarted
    /// meanwhile. Over distance that question costs a round trip.
    pub restart_least: Duration,
}

impl ManagerConfig {
    /// Returns the defaults: four at a time, retried after 1 s to 60 s.
    pub fn new(site: Name, journal: PathBuf) -> Self {
        Self {
            site,
            journal,
            limits: Limits::of_site(RUNNING_MAX_DEFAULT),
            retry_least: Duration::from_secs(1),
            retry_most: Duration::from_secs(60),
            restart_least: Duration::from_secs(1),
        }
    }
}

/// Runs one transfer to its end, as [`crate::runner`] does. It blocks meanwhile.
pub type Run = dyn Fn(RunInput) -> RunOutcome + Send + Sync;
/// Directory of a store, if it has one: to find stores that overlap.
pub type StoreDirectory = dyn Fn(&Name) -> Option<PathBuf> + Send + Sync;

/// Returns the peers that may take part in a run whose target is the first store. The second store,
/// if there is one, is a source in this site that the peers read themselves.
pub type PeersOf = dyn Fn(&Name, Option<&Name>) -> Arc<dyn Peers> + Send + Sync;

/// Returns the access for peers of this site to a data set of it whose store they do not have: over
/// lanes, from peers that have it. `None` where one peer is the whole site.
pub type OwnLanes = dyn Fn(&ScanRequest) -> Option<SourceAccess> + Send + Sync;

/// Returns the addresses on which peers of this site that are known to reach a store accept lanes
/// now.
pub type OwnPeers = dyn Fn(&Name) -> Vec<DataAddress> + Send + Sync;

/// The parts that a manager works with.
#[derive(Clone)]
pub struct ManagerParts {
    /// The state database.
    pub state: Arc<dyn SiteState>,
    /// The own source side.
    pub source: Arc<dyn SourcePeer>,
    /// The site's target side, where one peer does something for all.
    pub target: Arc<dyn TargetPeer>,
    /// The target peers of a run.
    pub peers: Arc<PeersOf>,
    /// Ways from one peer of this site to another.
    pub lanes: Arc<OwnLanes>,
    /// Finds further peers that may be read from.
    pub own_peers: Arc<OwnPeers>,
    /// Other sites.
    pub sites: Arc<dyn SiteClient>,
    /// Signs receipts.
    pub signer: Arc<dyn ReceiptSigner>,
    /// Runs a transfer.
    pub run: Arc<Run>,
    /// The paths of the stores.
    pub directory: Arc<StoreDirectory>,
    /// Checks whether this process is still the controller of the site.
    pub fence: Fence,
}
