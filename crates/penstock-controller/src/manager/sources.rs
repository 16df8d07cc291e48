//! The sources of transfers: data sets of this site and of others.

use std::sync::Arc;

use penstock_api::preserve::Preserve;
use penstock_api::problem::Problem;
use penstock_api::scan::{OwnPages, PageSource, RootKind, ScanRequest};
use penstock_api::task::SourceAccess;
use penstock_api::transfer::{Location, TransferOptions, TransferRequest};
use penstock_cluster::clock::now_seconds;
use penstock_cluster::state::{Listing, TransferRecord};
use penstock_proto::id::Name;
use penstock_proto::network::{DataAddress, of_first_peers};
use penstock_proto::version;

use super::config::ManagerParts;
use super::journal_directory::JournalDirectory;
use super::request_check::check_networks;
use crate::runner::{FindSource, removal_has_begun};
use crate::sites::RemotePages;

/// Access to the sources of transfers.
pub(super) struct Sources {
    parts: ManagerParts,
    /// The own site.
    site: Name,
    journal: JournalDirectory,
}

/// A source that was opened: its list and the access to its data.
pub(super) struct Opened {
    pub(super) kind: RootKind,
    pub(super) pages: Box<dyn PageSource>,
    pub(super) access: SourceAccess,
    /// Finds the source's peers again.
    pub(super) find: Option<FindSource>,
    /// Number of the source's process that serves the list; 0 if the source does not report
    /// restarts.
    pub(super) instance: u64,
}

impl Sources {
    pub(super) fn new(parts: ManagerParts, site: Name, journal: JournalDirectory) -> Self {
        Self { parts, site, journal }
    }

    /// Opens the source of a transfer. Blocks for a request to its site.
    ///
    /// # Errors
    /// The source cannot be opened.
    pub(super) fn open(&self, record: &TransferRecord) -> Result<Opened, Problem> {
        let (id, source) = (record.id(), &record.request.source);
        let request = scan_of(record);
        if source.site == self.site {
            let slicer = version::known().format(self.parts.state.format()).slicer;
            let slicing = request.slicing.no_newer_than(slicer);
            let kind = self.parts.source.open_scan(&ScanRequest { slicing, ..request })?;
            let pages = Box::new(OwnPages::new(Arc::clone(&self.parts.source), id));
            let access = self.own_access(record);
            let find = access.own_store().is_none().then(|| self.find_own(record));
            return Ok(Opened { kind, pages, access, find, instance: 0 });
        }
        let site = source.site.clone();
        let scan = self.parts.sites.open_scan(&site, &request)?;
        let sites = Arc::clone(&self.parts.sites);
        let (peers, capability, instance) = (scan.peers, scan.capability, scan.instance);
        let shown = capability.clone();
        let (asked, from, store) = (Arc::clone(&sites), site.clone(), source.store.clone());
        let options = record.request.options.clone();
        let peers = allowed_peers(&options, peers);
        let find: FindSource =
            Arc::new(move || Ok(allowed_peers(&options, asked.source_peers(&from, &store)?)));
        let pages = Box::new(RemotePages::new(sites, site.clone(), request, shown));
        let access = SourceAccess::Remote { site, own_site: false, peers, capability };
        Ok(Opened { kind: scan.root, pages, access, find: Some(find), instance })
    }

    /// Returns the access to a data set of this site. Peers that have both stores read it
    /// themselves. If there are none, they read over lanes from peers that have the source's store.
    fn own_access(&self, record: &TransferRecord) -> SourceAccess {
        let Location { store, path: root, .. } = &record.request.source;
        let target = &record.request.target.store;
        let lanes = match (self.parts.peers)(target, Some(store)).present().is_empty() {
            true => (self.parts.lanes)(&scan_of(record)),
            false => None,
        };
        match lanes {
            Some(SourceAccess::Remote { site, own_site, peers, capability }) => {
                let peers = allowed_peers(&record.request.options, peers);
                SourceAccess::Remote { site, own_site, peers, capability }
            }
            Some(local @ SourceAccess::Local { .. }) => local,
            None => SourceAccess::Local { store: store.clone(), root: root.clone() },
        }
    }

    /// Finds the peers of this site again that have the source's store.
    fn find_own(&self, record: &TransferRecord) -> FindSource {
        let (store, peers) = (record.request.source.store.clone(), &self.parts.own_peers);
        let (peers, options) = (Arc::clone(peers), record.request.options.clone());
        Arc::new(move || Ok(allowed_peers(&options, peers(&store))))
    }

    /// Checks the names of networks of a transfer, as far as the sites know them. Sends no request.
    ///
    /// # Errors
    /// As [`check_networks`].
    pub(super) fn check_networks(&self, request: &TransferRequest) -> Result<(), Problem> {
        let Location { site, store, .. } = &request.source;
        let wanted = &request.options.networks;
        if wanted.is_empty() {
            return Ok(());
        }
        let of = |store: &Name| {
            let addresses = (self.parts.own_peers)(store).into_iter();
            addresses.filter_map(|address| address.network).collect()
        };
        let source = match *site == self.site {
            true => Some(of(store)),
            false => self.parts.sites.data_networks(site),
        };
        check_networks(wanted, of(&request.target.store), source)
    }

    /// Tells the target's peers to expect data of another site, so that connections can be made
    /// meanwhile. A transfer that names its networks is not announced: connections ahead of it
    /// would lead over any network.
    pub(super) fn announce(&self, request: &TransferRequest) {
        let (site, options) = (&request.source.site, &request.options);
        if *site != self.site && options.networks.is_empty() {
            let lanes_max = if options.lanes > 0 { options.lanes } else { options.lanes_max };
            let peers = allowed_peers(options, self.parts.sites.far_data(site));
            self.parts.target.expect_source(&request.target.store, site, &peers, lanes_max);
        }
    }

    /// Returns whether the process that serves the source's list is another than the one that made
    /// it. A source that does not answer is not.
    pub(super) fn is_restarted(&self, record: &TransferRecord) -> bool {
        let known = record.listing.instance;
        let request = scan_of(record);
        let site = &record.request.source.site;
        let asked = || self.parts.sites.open_scan(site, &request).map_or(0, |it| it.instance);
        known != 0 && ![0, known].contains(&asked())
    }

    /// Has the next attempt list the source again, so that it ends as a new transfer would. A plan
    /// is a list of its own, and items that are being removed at the source are on the present
    /// list.
    pub(super) fn list_anew(&self, record: &mut TransferRecord) {
        if record.request.options.plan.is_none()
            && !removal_has_begun(&self.journal.of(record.id()))
        {
            let number = record.listing.number.saturating_add(1);
            record.listing = Listing { number, at: now_seconds(), instance: 0 };
        }
    }

    /// Tells the source that its pages are no longer needed.
    pub(super) fn release(&self, record: &TransferRecord) {
        let (site, id) = (&record.request.source.site, record.id());
        if *site == self.site {
            self.parts.source.release(id);
        } else if let Err(problem) = self.parts.sites.release(site, id) {
            // The source finds out from its stub that the transfer has ended.
            tracing::info!(transfer = %id, %problem, "cannot inform the source of the end");
        }
    }
}

/// Returns the addresses of the source's peers that may take part.
fn allowed_peers(options: &TransferOptions, addresses: Vec<DataAddress>) -> Vec<DataAddress> {
    of_first_peers(addresses, options.peers_max, &options.networks)
}

/// Returns the scan that belongs to a transfer.
pub(super) fn scan_of(record: &TransferRecord) -> ScanRequest {
    let request = scan_request(&record.request, record.listing());
    ScanRequest { account: record.account.clone(), user: record.owner.clone(), ..request }
}

/// Returns the scan for a request without a user.
pub(super) fn scan_request(request: &TransferRequest, listing: Listing) -> ScanRequest {
    ScanRequest {
        transfer: request.id,
        listing: listing.number,
        store: request.source.store.clone(),
        root: request.source.path.clone(),
        // Accepted requests are sound.
        slicing: request.options.slicing().unwrap_or_default(),
        files_from: request.options.files_from.clone(),
        select: request.options.select.settled(listing.at),
        metadata_ops_per_s: request.options.limits.metadata_ops_per_s,
        // The owners at the target concern the target only.
        preserve: Preserve { owner_map: Vec::new(), ..request.options.preserve.clone() },
        owner_names: request.source.site != request.target.site,
        remove: request.options.remove_source,
        account: None,
        user: None,
    }
}
