//! The source side of this host: scans, and the lanes that it serves.
//!
//! State directory: `DIR/<transfer>/` holds the request (`request.json`) and the scan's pages. A
//! restarted daemon reads it when it is asked about an unknown transfer, so that a restart costs
//! the target nothing but a lane ([`crate::source::scan_registry`]).
//!
//! No request waits without end for a store that hangs: a thread of its own looks at the store
//! before each use (E2).

pub(crate) mod digest_jobs;
pub(crate) mod error;
pub(crate) mod interrupted_removal;
pub(crate) mod leased_source;
mod page_cache;
pub(crate) mod read;
pub(crate) mod read_check;
pub(crate) mod recognition;
pub(crate) mod removal;
pub(crate) mod scan_registry;
pub(crate) mod serve;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::access::AccountName;
use penstock_api::fence::Fence;
use penstock_api::preserve::Preserve;
use penstock_api::problem::Problem;
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::request::{PeerReply, SourceRequest};
use penstock_api::scan::{
    DigestWish, PageReply, RecheckRequest, RootKind, ScanRequest, WishedDigests,
};
use penstock_api::select::Selection;
use penstock_api::transfer::PathText;
use penstock_net::{LaneError, PendingLane};
use penstock_proto::capability::Capability;
use penstock_proto::frame::Refusal;
use penstock_proto::id::{Name, PeerId, TransferId};
use penstock_proto::listing::{ListPart, ListWork};
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::slicing::STRIDE_BYTES_MAX;
use penstock_store::Source;
use penstock_sys::buffer::{BufferPool, BufferUsage};
use rustls::pki_types::CertificateDer;

use crate::lane::open_lanes::{NoRight, OpenLanes, RightHolds};
use crate::scan::{Helpers, Scan, root_kind};
use crate::served_transfers::ServedTransfers;
use crate::source::digest_jobs::DigestJobs;
use crate::source::error::SourceError;
use crate::source::leased_source::ScanLease;
use crate::source::page_cache::{PageCache, PageMemory};
use crate::source::recognition::{Sight, shares_inodes};
use crate::source::removal::Remover;
use crate::source::scan_registry::{OPENING_MAX, ScanRegistry, removable};
use crate::stores::Stores;
use crate::stores::access::AccessError;
use crate::stores::errors::Cause;
use crate::stores::guard::Guard;
use crate::stores::single_flight::SingleFlight;
use crate::traffic::Traffic;

/// Checks the capability that a lane shows, for a peer with these certificates. Returns the rights
/// that it grants.
pub type LaneVerifier =
    Arc<dyn Fn(&[CertificateDer<'_>], &[u8]) -> Result<LaneRight, NoRight> + Send + Sync>;

/// The rights of a lane, and their duration.
pub struct LaneRight {
    /// Data that the lane may read, and the end of that right.
    pub capability: Capability,
    /// Returns the reason if something other than time has ended the right: an unpaired site, or a
    /// store that the site may no longer read.
    pub holds: RightHolds,
    /// Allows a clear lane: authenticated, not encrypted.
    pub may_be_clear: bool,
}

/// This host's source side.
pub struct SourceService {
    stores: Arc<Stores>,
    directory: PathBuf,
    scans: Arc<ScanRegistry>,
    pub(crate) peer: PeerId,
    pub(crate) verifier: Option<LaneVerifier>,
    /// Lease of this peer's controller; data sets are listed here only while it holds.
    fence: Mutex<Fence>,
    /// Number of lanes that are served now.
    pub(crate) lanes: AtomicU32,
    pub(crate) traffic: Traffic,
    /// Counters of the transfers that have lanes here.
    pub(crate) served: ServedTransfers,
    pub(crate) open_lanes: OpenLanes,
    pub(crate) draining: AtomicBool,
}

/// The memory that the lanes of one other end share: for strides of files, and for decoded pages.
/// Lanes wait where it is used up. Clones are the same memory.
#[derive(Clone)]
pub struct SourceMemory {
    buffers: BufferPool,
    pages: PageMemory,
}

impl Default for SourceMemory {
    fn default() -> Self {
        let buffers = BufferPool::new(STRIDE_BYTES_MAX as usize, Self::strides_max());
        Self { buffers, pages: PageMemory::default() }
    }
}

impl SourceMemory {
    /// Returns the strides of a memory without another limit: enough to keep all processors at
    /// work.
    pub fn strides_max() -> usize {
        (penstock_sys::available_cpus() * 2).max(64)
    }

    /// Sets the limits: strides, of up to 1 MiB each, and bytes of pages. Memory in use beyond them
    /// stays until its requests end. One stride and one page are always allowed.
    pub fn limit(&self, strides: usize, page_bytes: usize) {
        self.buffers.set_buffers_max(strides.max(1));
        self.pages.set_bytes_max(page_bytes);
    }

    /// Returns how many strides are in use, idle and allowed.
    pub fn strides(&self) -> BufferUsage {
        self.buffers.usage()
    }

    /// Returns the bytes of pages in use, and the limit; `usize::MAX` means no limit.
    pub fn page_bytes(&self) -> (usize, usize) {
        self.pages.usage()
    }

    /// Frees the strides that no request uses, if none uses any.
    pub fn trim_if_idle(&self) {
        if self.buffers.usage().in_use == 0 {
            self.buffers.trim();
        }
    }
}

/// A scan and where its bytes come from.
pub(crate) struct OpenScan {
    pub(crate) scan: Scan,
    pub(crate) store: Name,
    pub(crate) pages: Arc<PageCache>,
    wishes: DigestJobs,
    /// State of the store when the scan began, or resumed after a restart (C3).
    pub(crate) guard: Arc<Guard>,
    /// View of the listed data set on this host.
    pub(crate) sight: Sight,
    /// Permit for orders to remove, one at a time: a repeated order must not meet its first half.
    removing: SingleFlight,
    kind: RootKind,
    remove: bool,
    files_from: Vec<PathText>,
    select: Selection,
    preserve: Preserve,
    /// Account as which its store is used, if that is mapped.
    account: Option<AccountName>,
}

impl OpenScan {
    /// Creates the scan of the data set that a request names.
    pub(crate) fn new(
        scan: Scan,
        guard: Arc<Guard>,
        sight: Sight,
        kind: RootKind,
        request: &ScanRequest,
    ) -> Self {
        Self {
            scan,
            store: request.store.clone(),
            pages: Arc::default(),
            wishes: DigestJobs::default(),
            guard,
            sight,
            removing: SingleFlight::default(),
            kind,
            remove: request.remove,
            files_from: request.files_from.clone(),
            select: request.select.clone(),
            preserve: request.preserve.clone(),
            account: request.account.clone(),
        }
    }

    /// Returns a page in a form that is comparable with this host's store.
    ///
    /// # Errors
    /// The store is not the listed one.
    pub(crate) fn see(&self, source: &Source, page: Page) -> Result<Page, AccessError> {
        self.sight.of(source, &self.store, self.scan.root(), page)
    }

    /// Checks, before a scan of another peer or an earlier process resumes, that some of its sealed
    /// entries are here. An empty directory where nothing is mounted would otherwise be listed as
    /// the rest of the data set (C3).
    ///
    /// # Errors
    /// None of them is here, or a page cannot be read now.
    pub(crate) fn see_sealed(&self, source: &Source) -> Result<(), SourceError> {
        if !self.sight.is_in_doubt() || self.scan.is_complete() {
            return Ok(());
        }
        let first = self.scan.sealed_page(0)?;
        // A page that does not decode is reported to the peers that ask for it.
        let page = first.and_then(|encoded| Page::decode(&encoded).ok());
        page.map_or(Ok(()), |page| Ok(self.see(source, page).map(drop)?))
    }

    /// Returns whether inode numbers of a page are those that this host sees, as far as the entries
    /// of an order show.
    ///
    /// # Errors
    /// The store is not the listed one.
    fn shares_inodes(
        &self,
        source: &Source,
        page: &Page,
        order: &RemoveOrder,
    ) -> Result<bool, AccessError> {
        self.sight.check()?;
        if self.sight.is_own() {
            return Ok(true);
        }
        let wanted = order.wanted().unwrap_or_default();
        let below = page.entries().iter().enumerate().take(order.below as usize).rev();
        let named = below.filter(|(index, _)| wanted.contains(*index as u32));
        let named = named.map(|(_, entry)| entry);
        Ok(shares_inodes(source, self.scan.root(), page, named))
    }

    /// Returns whether a request means this data set: an id alone grants no right to pages (C4).
    fn is_of(&self, request: &ScanRequest) -> bool {
        self.store == request.store
            && self.scan.root() == request.root.0
            && self.files_from == request.files_from
            && self.select == request.select
            && self.preserve == request.preserve
            && self.remove == request.remove
            && self.account == request.account
    }
}

impl SourceService {
    /// Creates a source that keeps its pages below `directory`. Without a verifier it serves no
    /// lanes, only this process.
    pub fn new(
        stores: Arc<Stores>,
        directory: &Path,
        peer: PeerId,
        verifier: Option<LaneVerifier>,
    ) -> Self {
        let cpus = penstock_sys::available_cpus();
        let workers = cpus.clamp(2, 8);
        Self {
            scans: ScanRegistry::new(Arc::clone(&stores), directory, peer.clone(), workers),
            stores,
            directory: directory.to_owned(),
            peer,
            verifier,
            fence: Mutex::default(),
            lanes: AtomicU32::new(0),
            traffic: Traffic::default(),
            served: ServedTransfers::default(),
            open_lanes: OpenLanes::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// Returns the stores of this host.
    pub fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    /// Makes later scans under another controllership, or none where `fence` does not hold. Lanes
    /// still get pages that the controller's peer has sealed in the shared directory. Stops scans
    /// at work; their sealed pages stay. Waits for no store: a scan that is still being opened
    /// under the former controllership is discarded.
    pub fn set_fence(&self, fence: Fence) {
        *self.fence.lock().unwrap_or_else(PoisonError::into_inner) = fence;
        self.scans.stop_all();
    }

    /// Allows other peers of the site to list a part of this source's scans. Call it once.
    pub fn share_with(&self, helpers: Arc<dyn Helpers>) {
        self.scans.share_with(helpers);
    }

    /// Lists a part of a data set for the peer of this site that owns the scan. Passes findings to
    /// `emit`, until that returns that the peer no longer listens. Blocks for as long as the store
    /// or `emit` takes.
    ///
    /// # Errors
    /// The scan is not known here, or the store is offline.
    pub fn list_for(
        &self,
        transfer: TransferId,
        work: &ListWork,
        mut emit: impl FnMut(ListPart) -> bool,
    ) -> Result<(), Problem> {
        let open = self.scan(transfer)?.ok_or(SourceError::UnknownScan(transfer))?;
        let source = self.source_of(&open)?;
        let check = || open.guard.check().inspect_err(|_| self.forget(transfer, &open));
        open.scan.list_for(&source, &check, work, &mut emit);
        Ok(())
    }

    /// Forgets an open data set that has no work here, so that the next request opens it again. The
    /// store may be mounted again by then.
    pub(crate) fn forget(&self, transfer: TransferId, open: &Arc<OpenScan>) {
        self.stores.reopen(&open.store);
        self.scans.forget(transfer, open);
    }

    /// Returns the lease of this peer's own controller, which may have none.
    pub(crate) fn own_lease(&self) -> ScanLease {
        let fence = self.fence.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ScanLease { number: 0, fence }
    }

    /// Returns how many scans have a place in the table.
    pub(crate) fn scans_count(&self) -> usize {
        self.scans.count()
    }

    /// Returns whether a data set is being listed here, or opened for that. Does not wait.
    pub(crate) fn lists(&self, transfer: TransferId) -> bool {
        self.scans.lists(transfer)
    }

    /// Serves one lane until it ends, with strides of files and pages in `memory`. Returns the
    /// target's breach of the protocol, if that ended the lane. Blocks: call it on a thread of its
    /// own.
    ///
    /// # Errors
    /// The lane was refused, for this reason, which its target knows.
    pub fn serve(
        self: &Arc<Self>,
        lane: PendingLane,
        memory: &SourceMemory,
    ) -> Result<Option<LaneError>, Refusal> {
        serve::serve(self, lane, memory)
    }

    /// Ends the lanes whose rights have ended. Does not block; call it every second, and at once
    /// when a pairing has ended.
    pub fn end_void_lanes(&self) {
        self.open_lanes.end_void();
    }

    #[cfg(test)]
    pub(crate) fn scans(&self) -> &Arc<ScanRegistry> {
        &self.scans
    }

    /// Returns the store of a scan, if it answers and is still the one that was opened. Every use
    /// of the store for a request calls this first, so that a hung store blocks few threads.
    ///
    /// # Errors
    /// `store-hung`, `store-offline`.
    pub(crate) fn source_of(&self, open: &OpenScan) -> Result<Source, AccessError> {
        let (stores, name) = (Arc::clone(&self.stores), open.store.clone());
        let account = open.account.clone();
        self.stores.look(&open.store, move || stores.source(&name, account.as_ref()))?
    }

    /// Checks that the store of a scan answers and is unchanged (C3). If not, the next request
    /// opens it again: the store may be mounted again by then.
    ///
    /// # Errors
    /// `store-hung`, `store-offline`.
    pub(crate) fn check(
        &self,
        transfer: TransferId,
        open: &Arc<OpenScan>,
    ) -> Result<(), AccessError> {
        let there = open.guard.check_by(&self.stores).and_then(|()| open.sight.check());
        there.inspect_err(|_| self.forget(transfer, open))
    }

    /// Returns a transfer's scan, from memory or from disk; `None` if it is not known here.
    pub(crate) fn scan(&self, transfer: TransferId) -> Result<Option<Arc<OpenScan>>, SourceError> {
        self.scan_by(transfer, &self.own_lease())
    }

    /// Returns the scan for use by this lease. Waits for some seconds while it is opened.
    fn scan_by(
        &self,
        transfer: TransferId,
        lease: &ScanLease,
    ) -> Result<Option<Arc<OpenScan>>, SourceError> {
        let place = self.scans.place(transfer, lease, None)?;
        place.map(|place| place.wait(transfer, Some(OPENING_MAX))).transpose()
    }
}

impl SourceService {
    /// Answers a request by a lease, except [`SourceRequest::Release`], which needs none: it stops
    /// the scan here.
    pub(crate) fn call_by(
        &self,
        lease: &ScanLease,
        request: SourceRequest<'_>,
    ) -> Result<PeerReply, Problem> {
        Ok(match request {
            SourceRequest::OpenScan(request) => PeerReply::Opened(self.open_by(lease, &request)?),
            SourceRequest::Page { transfer, number, wait_ms } => {
                PeerReply::Page(self.page_by(lease, transfer, number, wait_ms)?)
            }
            SourceRequest::Recheck { transfer, question } => {
                PeerReply::Rechecked(self.ask_by(lease, transfer, &question)?)
            }
            SourceRequest::Digests { transfer, wish, wait_ms } => {
                PeerReply::Digests(self.digests_by(lease, transfer, &wish, wait_ms)?)
            }
            SourceRequest::Remove { transfer, order } => {
                PeerReply::Removed(self.remove_by(lease, transfer, &order)?)
            }
            SourceRequest::Release { transfer } => {
                self.stop(transfer);
                PeerReply::Done
            }
        })
    }

    fn open_by(&self, lease: &ScanLease, request: &ScanRequest) -> Result<RootKind, SourceError> {
        // One place for each scan: a client that repeats its request waits at the place of the
        // first, and starts no second scan over the same pages. The wait lasts while pages are
        // read; a store that hangs ends it sooner.
        let place = self.scans.place(request.transfer, lease, Some(request))?;
        let place = place.ok_or(SourceError::UnknownScan(request.transfer))?;
        // A caller on another host has a deadline, and asks again.
        let most = (lease.number != 0).then_some(OPENING_MAX);
        let open = place.wait(request.transfer, most)?;
        if !open.is_of(request) {
            return Err(SourceError::OtherDataSet);
        }
        // The scan may be old: if nothing is mounted now, everything would be missing.
        let check = || self.check(request.transfer, &open);
        check()?;
        let (stores, name) = (Arc::clone(&self.stores), request.store.clone());
        let (root, account) = (request.root.0.clone(), request.account.clone());
        let found = self.stores.look(&request.store, move || {
            root_kind(&stores.source(&name, account.as_ref())?, &root)
        })?;
        match found {
            // The root was moved, as ordered.
            Err(_) if open.remove && open.kind == RootKind::Single => Ok(open.kind),
            Err(error) => check().map_err(SourceError::from).and(Err(error)),
            found => found,
        }
    }

    fn page_by(
        &self,
        lease: &ScanLease,
        transfer: TransferId,
        number: u32,
        wait_ms: u32,
    ) -> Result<PageReply, SourceError> {
        let open = self.scan_by(transfer, lease)?.ok_or(SourceError::UnknownScan(transfer))?;
        open.scan.page(number, Duration::from_millis(u64::from(wait_ms)))
    }

    fn ask_by(
        &self,
        lease: &ScanLease,
        transfer: TransferId,
        question: &RecheckRequest,
    ) -> Result<u32, SourceError> {
        let open = self.scan_by(transfer, lease)?.ok_or(SourceError::UnknownScan(transfer))?;
        self.check(transfer, &open)?;
        let source = self.source_of(&open)?;
        let see = |page| open.see(&source, page);
        let pages = open.scan.ask(&source, question, open.remove, &see)?;
        // A missing entry has vanished only if the store is unchanged (C3).
        self.check(transfer, &open)?;
        Ok(pages)
    }

    fn remove_by(
        &self,
        by: &ScanLease,
        transfer: TransferId,
        order: &RemoveOrder,
    ) -> Result<RemoveReply, SourceError> {
        let open = self.scan_by(transfer, by)?.ok_or(SourceError::UnknownScan(transfer))?;
        if !open.remove {
            return Err(SourceError::RemoveNotAllowed(transfer));
        }
        let check = || self.check(transfer, &open);
        check()?;
        let source = self.source_of(&open)?;
        let _alone = open.removing.take("to remove what was moved")?;
        let encoded = open.scan.sealed_page(order.page)?;
        let encoded = encoded
            .filter(|encoded| page_digest(encoded).to_hex() == order.digest)
            .ok_or(SourceError::OrderedPageDiffers(order.page))?;
        let page = Page::decode(&encoded)
            .map_err(|source| SourceError::OrderedPageDamaged { page: order.page, source })?;
        check()?;
        let mut store = removable(&self.stores, &open.store, open.account.as_ref())?;
        // A deposed controller removes nothing, whatever it ordered before (B4).
        let fence = by.fence.clone();
        fence.check()?;
        if fence.epoch() != 0 {
            store = store.guarded(Arc::new(move || fence.holds()));
        }
        let store = store.for_data_set(open.scan.root(), true, false);
        let remover = Remover {
            store: &store,
            transfer,
            scan: &open.scan,
            page: &page,
            digest: page_digest(&encoded),
            hardlinks: open.preserve.hardlinks,
            inodes: open.shares_inodes(&source, &page, order)?,
            began: open.scan.removal_began()?,
        };
        open.scan.note_order(order.page)?;
        let reply = remover.remove(order)?;
        // A missing entry counts as removed only if the store is unchanged (C3).
        check()?;
        if order.page == 0 && reply.next == 0 {
            // Pages are processed from the last to the first: no order follows this one.
            store.sync().map_err(|error| {
                let (store, source) = (open.store.clone(), Cause::of(&error));
                SourceError::Sync { store, source }
            })?;
        }
        if reply.next == 0 {
            open.scan.note_order_done(order.page)?;
        }
        Ok(reply)
    }

    fn digests_by(
        &self,
        lease: &ScanLease,
        transfer: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, SourceError> {
        let open = self.scan_by(transfer, lease)?.ok_or(SourceError::UnknownScan(transfer))?;
        let page = open.scan.sealed_page(wish.page)?.and_then(|bytes| Page::decode(&bytes).ok());
        let page = page.ok_or(SourceError::WishedPageUnknown(wish.page))?;
        self.check(transfer, &open)?;
        let source = self.source_of(&open)?;
        let page = open.see(&source, page)?;
        let wait = Duration::from_millis(u64::from(wait_ms));
        open.wishes.get(source, open.scan.root(), page, wish, wait)
    }

    /// Ends the work on a transfer here; its sealed pages stay. Waits for nothing.
    pub fn stop(&self, transfer: TransferId) {
        self.scans.stop(transfer);
    }

    /// Removes the files of a transfer. Entries that a move has set aside get their names back
    /// first, if the store answers.
    pub(crate) fn remove_kept(&self, transfer: TransferId) {
        self.scans.give_all_names_back(transfer);
        let directory = self.directory.join(transfer.to_string());
        if let Err(cause) = fs::remove_dir_all(&directory)
            && cause.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %directory.display(), %cause, "cannot remove old pages");
        }
    }
}
