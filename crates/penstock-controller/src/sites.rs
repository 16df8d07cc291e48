//! Requests of the manager to other sites. The binary implements them over HTTP and TLS.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::receipt::{ReceiptBody, ReceiptSignature};
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::rest::{PieceMap, Steering, TransferPatch};
use penstock_api::scan::{
    DigestWish, PageReply, PageSource, RecheckRequest, RootKind, ScanRequest, WishedDigests,
};
use penstock_api::transfer::{TransferReport, TransferRequest, TransferState};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::network::DataAddress;

use crate::pages_ahead::PagesAhead;

/// A scan that another site opened for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteScan {
    /// The kind of the root.
    pub root: RootKind,
    /// The signed capability (C4).
    pub capability: Vec<u8>,
    /// Addresses on which the source's peers accept lanes.
    pub peers: Vec<DataAddress>,
    /// Number of the process that serves the list; 0 if the site does not report restarts.
    pub instance: u64,
}

/// Asks other sites. All methods block, each no longer than its own deadline; a site that cannot
/// be reached is a problem with [`penstock_api::problem::Exit::Temporary`].
pub trait SiteClient: Send + Sync {
    /// Returns whether a site is paired with this one.
    fn is_paired(&self, site: &Name) -> bool;

    /// Sends a request of a user of this site to the site that will own the transfer.
    ///
    /// # Errors
    /// The error of the site, or that it cannot be reached.
    fn submit(
        &self,
        site: &Name,
        request: &TransferRequest,
        user: Option<&Name>,
    ) -> Result<TransferReport, Problem>;

    /// Asks the site that would own a transfer for its plan, and writes that to `out`.
    ///
    /// # Errors
    /// The error of the site, or that `out` cannot be written.
    fn plan(
        &self,
        site: &Name,
        request: &TransferRequest,
        user: Option<&Name>,
        out: &mut dyn Write,
    ) -> Result<(), Problem>;

    /// Sends a part of the plan that a transfer to `store` will follow.
    ///
    /// # Errors
    /// The error of the site.
    fn put_plan(
        &self,
        site: &Name,
        store: &Name,
        id: TransferId,
        offset: u64,
        part: &[u8],
    ) -> Result<(), Problem>;

    /// Returns one transfer that the site owns and that concerns this one.
    ///
    /// # Errors
    /// Status 404: the site does not know it.
    fn show(&self, site: &Name, id: TransferId) -> Result<TransferReport, Problem>;

    /// Returns the piece map of such a transfer.
    ///
    /// # Errors
    /// The error of the site. Code `version`: its release has none.
    fn piece_map(&self, site: &Name, id: TransferId) -> Result<PieceMap, Problem>;

    /// Returns a transfer as [`SiteClient::show`] does. The site answers when the state differs
    /// from `seen`, and after `wait_ms` at the latest.
    ///
    /// # Errors
    /// The errors of [`SiteClient::show`].
    fn news(
        &self,
        site: &Name,
        id: TransferId,
        seen: TransferState,
        wait_ms: u32,
    ) -> Result<TransferReport, Problem>;

    /// Performs an action on such a transfer.
    ///
    /// # Errors
    /// The error of the site.
    fn act(
        &self,
        site: &Name,
        id: TransferId,
        steering: Steering,
    ) -> Result<TransferReport, Problem>;

    /// Changes the label, priority, limits or start of such a transfer.
    ///
    /// # Errors
    /// The error of the site. A site of an earlier release changes limits alone.
    fn change(
        &self,
        site: &Name,
        id: TransferId,
        patch: &TransferPatch,
    ) -> Result<TransferReport, Problem>;

    /// Writes a list or the receipt of such a transfer to `out`.
    ///
    /// # Errors
    /// The error of the site, or that `out` cannot be written.
    fn document(
        &self,
        site: &Name,
        id: TransferId,
        document: Document,
        out: &mut dyn Write,
    ) -> Result<(), Problem>;

    /// Asks the source of a transfer to countersign its receipt. The returned signature is valid,
    /// and by the authority that is pinned for the site.
    ///
    /// # Errors
    /// Code [`ProblemCode::ScanUnknown`]: the scan must be opened again first. Otherwise the error
    /// of the site, or that its signature is invalid.
    fn countersign(
        &self,
        site: &Name,
        body: &ReceiptBody,
        user: Option<&Name>,
    ) -> Result<ReceiptSignature, Problem>;

    /// Returns the known addresses on which the peers of a site accept lanes, if the site is far.
    /// Sends no request.
    fn far_data(&self, site: &Name) -> Vec<DataAddress>;

    /// Returns the names of a site's networks for data; `None` if the site has not sent its
    /// addresses yet. Sends no request.
    fn data_networks(&self, site: &Name) -> Option<BTreeSet<Name>>;

    /// Asks the site to scan a data set for this one.
    ///
    /// # Errors
    /// The error of the site.
    fn open_scan(&self, site: &Name, request: &ScanRequest) -> Result<RemoteScan, Problem>;

    /// Returns the addresses on which those peers of the site accept lanes now that reach a store
    /// of it.
    ///
    /// # Errors
    /// The error of the site; a site of an earlier release does not know the request.
    fn source_peers(&self, site: &Name, store: &Name) -> Result<Vec<DataAddress>, Problem>;

    /// Requests a page, see [`PageSource::page`].
    ///
    /// # Errors
    /// The error of the site.
    fn page(
        &self,
        site: &Name,
        id: TransferId,
        number: u32,
        wait_ms: u32,
    ) -> Result<PageReply, Problem>;

    /// Asks about changed entries, see [`PageSource::ask`].
    ///
    /// # Errors
    /// The error of the site.
    fn ask(&self, site: &Name, id: TransferId, question: &RecheckRequest) -> Result<u32, Problem>;

    /// Requests digests, see [`PageSource::digests`].
    ///
    /// # Errors
    /// The error of the site.
    fn digests(
        &self,
        site: &Name,
        id: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem>;

    /// Removes entries, see [`PageSource::remove`], by the right of a capability.
    ///
    /// # Errors
    /// Code [`ProblemCode::ScanUnknown`] or [`ProblemCode::CapabilityVoid`]: the scan must be
    /// opened again first. Otherwise the error of the site.
    fn remove(
        &self,
        site: &Name,
        id: TransferId,
        capability: &[u8],
        order: &RemoveOrder,
    ) -> Result<RemoveReply, Problem>;

    /// Tells the site that its pages are no longer needed.
    ///
    /// # Errors
    /// The error of the site.
    fn release(&self, site: &Name, id: TransferId) -> Result<(), Problem>;
}

/// The pages of a data set at another site.
pub(crate) struct RemotePages {
    sites: Arc<dyn SiteClient>,
    site: Name,
    request: ScanRequest,
    /// The capability that was received last.
    capability: Vec<u8>,
    ahead: PagesAhead,
}

impl RemotePages {
    /// Makes the pages of a scan that `site` has opened for this site, with the right to it.
    pub(crate) fn new(
        sites: Arc<dyn SiteClient>,
        site: Name,
        request: ScanRequest,
        capability: Vec<u8>,
    ) -> Self {
        let (asked, of, id) = (Arc::clone(&sites), site.clone(), request.transfer);
        let ask = move |number: u32, wait_ms: u32| asked.page(&of, id, number, wait_ms);
        let ahead = PagesAhead::new(Arc::new(ask));
        Self { sites, site, request, capability, ahead }
    }
}

impl PageSource for RemotePages {
    fn page(&mut self, number: u32, wait_ms: u32) -> Result<PageReply, Problem> {
        let id = self.request.transfer;
        let ask = || self.sites.page(&self.site, id, number, wait_ms);
        let reply = match self.ahead.take(number).unwrap_or_else(ask) {
            // The source was restarted: it continues the same scan once it is opened again.
            Err(problem) if problem.code == ProblemCode::ScanUnknown => {
                self.sites.open_scan(&self.site, &self.request)?;
                ask()
            }
            reply => reply,
        }?;
        if matches!(reply, PageReply::Page(_)) {
            self.ahead.ask_behind(number, wait_ms);
        }
        Ok(reply)
    }

    fn ask(&mut self, question: &RecheckRequest) -> Result<u32, Problem> {
        self.ahead.forget();
        let id = self.request.transfer;
        match self.sites.ask(&self.site, id, question) {
            Err(problem) if problem.code == ProblemCode::ScanUnknown => {
                self.sites.open_scan(&self.site, &self.request)?;
                self.sites.ask(&self.site, id, question)
            }
            reply => reply,
        }
    }

    fn digests(
        &mut self,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        let id = self.request.transfer;
        match self.sites.digests(&self.site, id, wish, wait_ms) {
            Err(problem) if problem.code == ProblemCode::ScanUnknown => {
                self.sites.open_scan(&self.site, &self.request)?;
                self.sites.digests(&self.site, id, wish, wait_ms)
            }
            reply => reply,
        }
    }

    fn remove(&mut self, order: &RemoveOrder) -> Result<RemoveReply, Problem> {
        let id = self.request.transfer;
        match self.sites.remove(&self.site, id, &self.capability, order) {
            // The source was restarted, or the right is too old.
            Err(problem)
                if matches!(
                    problem.code,
                    ProblemCode::ScanUnknown | ProblemCode::CapabilityVoid
                ) =>
            {
                self.capability = self.sites.open_scan(&self.site, &self.request)?.capability;
                self.sites.remove(&self.site, id, &self.capability, order)
            }
            reply => reply,
        }
    }
}
