//! Other sites, as the manager asks them. The binary implements it over HTTP and TLS.

use std::io::Write;
use std::sync::Arc;

use penstock_api::limits::LimitRequest;
use penstock_api::problem::Problem;
use penstock_api::proof::Document;
use penstock_api::receipt::{ReceiptBody, ReceiptSignature};
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::rest::Action;
use penstock_api::scan::{
    DigestWish, PageReply, PageSource, RecheckRequest, RootKind, ScanRequest, WishedDigests,
};
use penstock_api::transfer::{TransferRequest, TransferState, TransferView};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::network::DataAddress;

use crate::pages_ahead::PagesAhead;

/// Code of a source's answer that a scan is not open there.
pub const SCAN_UNKNOWN: &str = "scan-unknown";
/// Code of a source's answer that a capability is not good any more.
pub const CAPABILITY_VOID: &str = "capability";

/// A scan that another site opened for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteScan {
    /// What the root is.
    pub root: RootKind,
    /// The signed capability (C4).
    pub capability: Vec<u8>,
    /// Where the source's peers listen for lanes.
    pub peers: Vec<DataAddress>,
    /// Number of the process that serves the list; 0 if it says nothing of restarts.
    pub instance: u64,
}

/// Asks other sites. All methods block, each no longer than its own deadline; a site that cannot
/// be reached is a problem with [`penstock_api::problem::Exit::Temporary`].
pub trait SiteClient: Send + Sync {
    /// Whether a site is paired with this one.
    fn is_paired(&self, site: &Name) -> bool;

    /// Hands a request to the site that will own it.
    ///
    /// # Errors
    /// What the site answers, or that it cannot be reached.
    fn submit(&self, site: &Name, request: &TransferRequest) -> Result<TransferView, Problem>;

    /// Has the site that would own a transfer make its plan, and writes that to `out`.
    ///
    /// # Errors
    /// What the site answers, or that `out` cannot be written.
    fn plan(
        &self,
        site: &Name,
        request: &TransferRequest,
        out: &mut dyn Write,
    ) -> Result<(), Problem>;

    /// Hands over a part of the plan that a transfer to `store` is to follow.
    ///
    /// # Errors
    /// What the site answers.
    fn put_plan(
        &self,
        site: &Name,
        store: &Name,
        id: TransferId,
        offset: u64,
        part: &[u8],
    ) -> Result<(), Problem>;

    /// One transfer that the site owns and that concerns this one.
    ///
    /// # Errors
    /// Status 404: the site does not know it.
    fn show(&self, site: &Name, id: TransferId) -> Result<TransferView, Problem>;

    /// The same, but the site answers when the state is another one than `seen`, and after
    /// `wait_ms` at the latest.
    ///
    /// # Errors
    /// As [`SiteClient::show`].
    fn news(
        &self,
        site: &Name,
        id: TransferId,
        seen: TransferState,
        wait_ms: u32,
    ) -> Result<TransferView, Problem>;

    /// Does something to such a transfer.
    ///
    /// # Errors
    /// What the site answers.
    fn act(&self, site: &Name, id: TransferId, action: Action) -> Result<TransferView, Problem>;

    /// Sets another limit of the rate of such a transfer.
    ///
    /// # Errors
    /// What the site answers.
    fn limit(
        &self,
        site: &Name,
        id: TransferId,
        limit: LimitRequest,
    ) -> Result<TransferView, Problem>;

    /// Writes a list or the receipt of such a transfer to `out`.
    ///
    /// # Errors
    /// What the site answers, or that `out` cannot be written.
    fn document(
        &self,
        site: &Name,
        id: TransferId,
        document: Document,
        out: &mut dyn Write,
    ) -> Result<(), Problem>;

    /// Asks the source of a transfer to countersign its receipt. The signature that it gives is
    /// sound, and by the authority that is pinned for the site.
    ///
    /// # Errors
    /// Code [`SCAN_UNKNOWN`]: the scan is to be opened again first. What else the site answers, or
    /// that its signature is not good.
    fn countersign(&self, site: &Name, body: &ReceiptBody) -> Result<ReceiptSignature, Problem>;

    /// Where the peers of a site take lanes if it is far, as far as is known. Asks nobody.
    fn far_data(&self, site: &Name) -> Vec<DataAddress>;

    /// Asks the site to scan a data set for us.
    ///
    /// # Errors
    /// What the site answers.
    fn open_scan(&self, site: &Name, request: &ScanRequest) -> Result<RemoteScan, Problem>;

    /// Where those peers of the site listen for lanes now that reach a store of it.
    ///
    /// # Errors
    /// What the site answers; one of an earlier release does not know the question.
    fn source_peers(&self, site: &Name, store: &Name) -> Result<Vec<DataAddress>, Problem>;

    /// As [`PageSource::page`].
    ///
    /// # Errors
    /// What the site answers.
    fn page(
        &self,
        site: &Name,
        id: TransferId,
        number: u32,
        wait_ms: u32,
    ) -> Result<PageReply, Problem>;

    /// As [`PageSource::ask`].
    ///
    /// # Errors
    /// What the site answers.
    fn ask(&self, site: &Name, id: TransferId, question: &RecheckRequest) -> Result<u32, Problem>;

    /// As [`PageSource::digests`].
    ///
    /// # Errors
    /// What the site answers.
    fn digests(
        &self,
        site: &Name,
        id: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem>;

    /// As [`PageSource::remove`], by the right of a capability.
    ///
    /// # Errors
    /// Code [`SCAN_UNKNOWN`] or [`CAPABILITY_VOID`]: the scan is to be opened again first. What
    /// else the site answers.
    fn remove(
        &self,
        site: &Name,
        id: TransferId,
        capability: &[u8],
        order: &RemoveOrder,
    ) -> Result<RemoveReply, Problem>;

    /// Tells the site that its pages are needed no more.
    ///
    /// # Errors
    /// What the site answers.
    fn release(&self, site: &Name, id: TransferId) -> Result<(), Problem>;
}

/// The pages of a data set at another site.
pub(crate) struct RemotePages {
    sites: Arc<dyn SiteClient>,
    site: Name,
    request: ScanRequest,
    /// The right to it that was given last.
    capability: Vec<u8>,
    ahead: PagesAhead,
}

impl RemotePages {
    /// Those of a scan that `site` has opened for us, with the right to it.
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
            // The source was restarted: it goes on with the same scan once it is opened again.
            Err(problem) if problem.code == SCAN_UNKNOWN => {
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
            Err(problem) if problem.code == SCAN_UNKNOWN => {
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
            Err(problem) if problem.code == SCAN_UNKNOWN => {
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
            Err(problem) if [SCAN_UNKNOWN, CAPABILITY_VOID].contains(&problem.code.as_str()) => {
                self.capability = self.sites.open_scan(&self.site, &self.request)?.capability;
                self.sites.remove(&self.site, id, &self.capability, order)
            }
            reply => reply,
        }
    }
}
