//! The source side of this host: scans, and the lanes that it serves.
//!
//! State directory: `DIR/<transfer>/` holds the request (`request.json`) and the scan's pages. It
//! is read again when a restarted daemon is asked about a transfer it does not know, so that a
//! restart costs the target nothing but a lane.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use penstock_api::fence::Fence;
use penstock_api::preserve::Preserve;
use penstock_api::problem::{Exit, Problem};
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::scan::{DigestWish, PageReply, Question, RootKind, ScanRequest, WishedDigests};
use penstock_api::select::Selection;
use penstock_api::transfer::PathText;
use penstock_io::buffer::BufferPool;
use penstock_io::net::PendingLane;
use penstock_io::store::{PosixStore, Source, Target};
use penstock_io::sys;
use penstock_proto::capability::Capability;
use penstock_proto::id::{Name, PeerId, TransferId};
use penstock_proto::listing::{ListPart, ListWork};
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::select::Selector;
use penstock_proto::slicing::{STRIDE_BYTES_MAX, Slicing};
use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::ordered::ScanOrder;
use crate::removal::Remover;
use crate::scan::{Helpers, Scan, ScanOptions, look, read_kept, root_kind};
use crate::serve::{self, PageCache};
use crate::sight::{Claim, Sight, shares_inodes};
use crate::stores::{Stores, chain, store_offline};
use crate::wished::Wishes;

/// Checks the signature of a capability that a lane shows, and says what it allows.
pub type LaneVerifier = Arc<dyn Fn(&[u8]) -> Result<Capability, String> + Send + Sync>;

/// This host's source side.
pub struct SourceService {
    stores: Arc<Stores>,
    directory: PathBuf,
    scans: Mutex<BTreeMap<TransferId, Arc<OpenScan>>>,
    opening: Mutex<()>,
    pub(crate) pool: BufferPool,
    pub(crate) peer: PeerId,
    pub(crate) verifier: Option<LaneVerifier>,
    workers: usize,
    /// Other peers of the site, which may list a part of what this one scans.
    helpers: OnceLock<Arc<dyn Helpers>>,
    /// Whether this peer's controller may act; only then are data sets listed here.
    fence: Mutex<Fence>,
    /// Lanes that are served now, and whether they are to end.
    pub(crate) lanes: AtomicU32,
    pub(crate) draining: AtomicBool,
}

/// A scan and where its bytes come from.
pub(crate) struct OpenScan {
    pub(crate) scan: Scan,
    /// By which order this peer makes it; `None`: another peer does, and this one serves it.
    order: Option<ScanOrder>,
    pub(crate) store: Name,
    pub(crate) pages: PageCache,
    wishes: Wishes,
    /// What the store was when the scan began, or went on after a restart (C3).
    pub(crate) guard: Arc<Guard>,
    /// Whether this host sees what was listed.
    pub(crate) sight: Sight,
    /// One order to remove at a time: one that is asked again must not meet its first half.
    removing: Mutex<()>,
    kind: RootKind,
    remove: bool,
    files_from: Vec<PathText>,
    select: Selection,
    preserve: Preserve,
}

impl OpenScan {
    /// A page as it may be compared with what is here.
    ///
    /// # Errors
    /// The store is another one than was listed.
    pub(crate) fn see(&self, source: &Source, page: Page) -> Result<Page, Problem> {
        self.sight.of(source, &self.store, self.scan.root(), page)
    }

    /// Whether inode numbers of a page are those that this host sees, as far as it tells by what an
    /// order names.
    ///
    /// # Errors
    /// The store is another one than was listed.
    fn shares_inodes(
        &self,
        source: &Source,
        page: &Page,
        order: &RemoveOrder,
    ) -> Result<bool, Problem> {
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

    /// Whether it is what is to be used by this order. A scan that was made by another one may have
    /// gone on elsewhere since.
    fn is_for(&self, order: &ScanOrder) -> bool {
        match (&self.order, order.fence.holds()) {
            (Some(own), true) => own.is(order) && own.fence.holds() && !self.scan.is_broken_off(),
            (Some(own), false) => own.fence.holds(),
            (None, acts) => !acts,
        }
    }

    /// Whether a request means this data set: an id alone gives nobody a right to pages (C4).
    fn is_of(&self, request: &ScanRequest) -> bool {
        self.store == request.store
            && self.scan.root() == request.root.0
            && self.files_from == request.files_from
            && self.select == request.select
            && self.preserve == request.preserve
            && self.remove == request.remove
    }
}

#[derive(Serialize, Deserialize)]
struct Kept {
    store: Name,
    root: PathText,
    files_from: Vec<PathText>,
    #[serde(default)]
    select: Selection,
    #[serde(default)]
    metadata_ops_per_s: Option<u32>,
    preserve: Preserve,
    owner_names: bool,
    remove: bool,
    /// Whether the root is a directory: once it was moved, a file cannot be asked.
    directory: bool,
    stride_bytes: u32,
    extent_bytes: u64,
    pack_bytes: u64,
    pack_files: u32,
    version: u16,
    /// What was mounted at the store when the scan began.
    fingerprint: String,
    /// Inode number of the data set's root.
    inode: u64,
    /// Identity of the store, if it has one.
    #[serde(default)]
    identity: String,
    /// The peer where the scan began.
    #[serde(default)]
    peer: String,
}

impl Kept {
    /// Whether the store is still what it was when the scan began (C3), and how sure that is;
    /// `None` if it is not. A disk may have another number after a reboot; then the root of the
    /// data set must be the same file or directory. At another peer than the one where the scan
    /// began, a store without an identity may have all marks different: what was listed must be
    /// there.
    fn claim(&self, source: &Source, own: &PeerId) -> Option<Claim> {
        let identity = identity_of(source);
        if !identity.is_empty() && !self.identity.is_empty() {
            return (identity == self.identity).then_some(Claim::Proven);
        }
        let found = source.fingerprint().ok()?;
        let same = found.to_string() == self.fingerprint;
        if !self.peer.is_empty() && self.peer != own.to_string() {
            let proven = same && found.file_system_id != 0;
            return Some(if proven { Claim::Proven } else { Claim::Likely });
        }
        let root = || look(source, &self.root.0).is_ok_and(|(_, _, meta)| meta.inode == self.inode);
        (same || root()).then_some(Claim::Proven)
    }
}

/// Identity of a store in hex; empty if it has none.
fn identity_of(source: &Source) -> String {
    match source {
        Source::Posix(store) => store.identity().map_or(String::new(), |found| found.id_hex()),
        Source::Mem(_) => String::new(),
    }
}

impl SourceService {
    /// A source that keeps its pages below `directory`. Without a verifier it serves no lanes, only
    /// this process.
    pub fn new(
        stores: Arc<Stores>,
        directory: &Path,
        peer: PeerId,
        verifier: Option<LaneVerifier>,
    ) -> Self {
        let cpus = sys::available_cpus();
        Self {
            stores,
            directory: directory.to_owned(),
            scans: Mutex::new(BTreeMap::new()),
            opening: Mutex::new(()),
            pool: BufferPool::new(STRIDE_BYTES_MAX as usize, (cpus * 2).max(64)),
            peer,
            verifier,
            workers: cpus.clamp(2, 8),
            helpers: OnceLock::new(),
            fence: Mutex::default(),
            lanes: AtomicU32::new(0),
            draining: AtomicBool::new(false),
        }
    }

    /// From now on scans are made under another controllership, or where `fence` does not hold,
    /// not at all: what the controller's peer has sealed in the shared directory is served to lanes
    /// all the same. Scans at work are stopped; what they have sealed stays.
    pub fn set_fence(&self, fence: Fence) {
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        *self.fence.lock().unwrap_or_else(PoisonError::into_inner) = fence;
        let scans = std::mem::take(&mut *self.scans.lock().unwrap_or_else(PoisonError::into_inner));
        for open in scans.values() {
            open.scan.stop();
        }
    }

    /// Other peers of the site may be asked to list a part of what this one scans. Once.
    pub fn share_with(&self, helpers: Arc<dyn Helpers>) {
        let _ = self.helpers.set(helpers);
    }

    /// Lists a part of a data set for the peer of this site whose scan it is, and gives what is
    /// found to `emit`, until that says that nobody listens any more. Blocks: for as long as the
    /// store takes, or `emit`.
    ///
    /// # Errors
    /// The scan is not known here, or the store is offline.
    pub fn list_for(
        &self,
        transfer: TransferId,
        work: &ListWork,
        mut emit: impl FnMut(ListPart) -> bool,
    ) -> Result<(), Problem> {
        let open = self.scan(transfer)?.ok_or_else(|| unknown_scan(transfer))?;
        let source = self.stores.source(&open.store)?;
        let check = || open.guard.check().inspect_err(|_| self.forget(transfer, &open));
        open.scan.list_for(&source, &check, work, &mut emit);
        Ok(())
    }

    /// Opens a data set anew when it is asked for next, if nothing of it is at work here: the store
    /// may be mounted again by then.
    pub(crate) fn forget(&self, transfer: TransferId, open: &Arc<OpenScan>) {
        self.stores.reopen(&open.store);
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        if open.scan.is_at_rest() && scans.get(&transfer).is_some_and(|it| Arc::ptr_eq(it, open)) {
            scans.remove(&transfer);
        }
    }

    /// The order of this peer's own controller, if it is one.
    pub(crate) fn own_order(&self) -> ScanOrder {
        let fence = self.fence.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ScanOrder { number: 0, fence }
    }

    /// Serves one lane until it ends. Blocks: give it a thread of its own.
    pub fn serve(self: &Arc<Self>, lane: PendingLane) {
        serve::serve(self, lane);
    }

    pub(crate) fn stores(&self) -> &Stores {
        &self.stores
    }

    /// The store, as one from which what was moved may be removed.
    fn removable(&self, name: &Name) -> Result<PosixStore, Problem> {
        if matches!(self.stores.source(name)?, Source::Mem(_)) {
            let title = format!("from store `{name}` nothing can be removed: it is made up");
            return Err(
                Problem::new(Exit::Usage, "store-kind", title).hint("leave out `--remove-source`")
            );
        }
        match self.stores.target(name)? {
            Target::Posix(store) => Ok(store),
            Target::Null => {
                let title = format!("from store `{name}` nothing can be removed: it keeps nothing");
                Err(Problem::new(Exit::Usage, "store-kind", title))
            }
        }
    }

    /// A transfer's scan, from memory or from disk; `None` if it is not known here.
    pub(crate) fn scan(&self, transfer: TransferId) -> Result<Option<Arc<OpenScan>>, Problem> {
        self.scan_by(transfer, &self.own_order())
    }

    /// The same, as it is to be used by this order.
    fn scan_by(
        &self,
        transfer: TransferId,
        order: &ScanOrder,
    ) -> Result<Option<Arc<OpenScan>>, Problem> {
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = scans.get(&transfer) {
            if open.is_for(order) {
                return Ok(Some(Arc::clone(open)));
            }
            open.scan.stop();
        }
        let kept = self.directory.join(transfer.to_string()).join("request.json");
        let Some(text) = read_kept(&kept)? else { return Ok(None) };
        let Ok(kept) = serde_json::from_slice::<Kept>(&text) else { return Ok(None) };
        let Some(claim) = kept.claim(&self.stores.source(&kept.store)?, &self.peer) else {
            self.stores.reopen(&kept.store);
            let why = "something else is mounted there than when the data set was listed";
            return Err(store_offline(&kept.store, why));
        };
        let request = ScanRequest {
            transfer,
            store: kept.store,
            root: kept.root,
            slicing: Slicing {
                version: kept.version,
                stride_bytes: kept.stride_bytes,
                extent_bytes: kept.extent_bytes,
                pack_bytes: kept.pack_bytes,
                pack_files: kept.pack_files,
            },
            files_from: kept.files_from,
            select: kept.select,
            metadata_ops_per_s: kept.metadata_ops_per_s,
            preserve: kept.preserve,
            owner_names: kept.owner_names,
            remove: kept.remove,
        };
        let kind = if kept.directory { RootKind::Directory } else { RootKind::Single };
        let open = self.begin(&request, kind, claim, order)?;
        if !order.fence.holds() {
            // Nobody tells this peer when the controller has released them.
            scans.retain(|id, _| self.directory.join(id.to_string()).exists());
        }
        scans.insert(transfer, Arc::clone(&open));
        Ok(Some(open))
    }

    fn begin(
        &self,
        request: &ScanRequest,
        kind: RootKind,
        claim: Claim,
        order: &ScanOrder,
    ) -> Result<Arc<OpenScan>, Problem> {
        let source = self.stores.source(&request.store)?;
        let guard = Arc::new(Guard::new(&source, &request.store, &request.root.0)?);
        let directory = self.directory.join(request.transfer.to_string());
        let options = ScanOptions {
            transfer: request.transfer,
            root: request.root.0.clone(),
            slicing: request.slicing,
            files_from: request.files_from.iter().map(|path| path.0.clone()).collect(),
            selector: selector_of(request)?,
            lookups_per_s: request.metadata_ops_per_s.unwrap_or(0),
            preserve: request.preserve.clone(),
            owner_names: request.owner_names,
            workers: self.workers,
            fence: order.fence.clone(),
        };
        let own = options.fence.holds();
        let open = Arc::new(OpenScan {
            scan: if own {
                Scan::open(&directory, options)?
            } else {
                Scan::of_another(&directory, options)
            },
            order: own.then(|| order.clone()),
            store: request.store.clone(),
            pages: PageCache::default(),
            wishes: Wishes::default(),
            guard: Arc::clone(&guard),
            sight: Sight::new(claim),
            removing: Mutex::new(()),
            kind,
            remove: request.remove,
            files_from: request.files_from.clone(),
            select: request.select.clone(),
            preserve: request.preserve.clone(),
        });
        open.scan.guard_by(guard);
        if !own {
            return Ok(open);
        }
        if let Some(helpers) = self.helpers.get() {
            open.scan.share_with(&request.store, Arc::clone(helpers));
        }
        let running = Arc::clone(&open);
        std::thread::Builder::new()
            .name("scan".to_owned())
            .spawn(move || running.scan.run(&source))
            .map_err(|cause| {
                Problem::new(Exit::Temporary, "threads", "cannot start a thread").because(cause)
            })?;
        Ok(open)
    }

    fn keep(&self, request: &ScanRequest, source: &Source, kind: RootKind) -> Result<(), Problem> {
        let fingerprint =
            source.fingerprint().map_err(|error| store_offline(&request.store, error))?;
        let root = look(source, &request.root.0).map(|(_, _, meta)| meta.inode);
        let directory = self.directory.join(request.transfer.to_string());
        let path = directory.join("request.json");
        let kept = Kept {
            store: request.store.clone(),
            root: request.root.clone(),
            files_from: request.files_from.clone(),
            select: request.select.clone(),
            metadata_ops_per_s: request.metadata_ops_per_s,
            preserve: request.preserve.clone(),
            owner_names: request.owner_names,
            remove: request.remove,
            directory: kind == RootKind::Directory,
            stride_bytes: request.slicing.stride_bytes,
            extent_bytes: request.slicing.extent_bytes,
            pack_bytes: request.slicing.pack_bytes,
            pack_files: request.slicing.pack_files,
            version: request.slicing.version,
            fingerprint: fingerprint.to_string(),
            inode: root.unwrap_or(0),
            identity: identity_of(source),
            peer: self.peer.to_string(),
        };
        let text = serde_json::to_vec(&kept).unwrap_or_default();
        let temporary = path.with_extension("new");
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(&temporary, text))
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|cause| {
                let title = format!("cannot write {}", path.display());
                penstock_api::journal::failed("state", title, &cause)
            })
    }
}

fn unknown_scan(transfer: TransferId) -> Problem {
    let title = format!("the scan of transfer {} is not known here", transfer.short());
    Problem::new(Exit::Fatal, "scan-unknown", title).status(404)
}

fn selector_of(request: &ScanRequest) -> Result<Selector, Problem> {
    request.select.compile().map_err(|cause| {
        Problem::new(Exit::Usage, "select", "what to choose cannot be read").because(cause)
    })
}

/// As [`penstock_api::scan::SourcePeer`], by an order.
impl SourceService {
    pub(crate) fn open_by(
        &self,
        order: &ScanOrder,
        request: &ScanRequest,
    ) -> Result<RootKind, Problem> {
        // First, whether the store is still the one that was listed: else its root is missing.
        // One at a time: a client that asks again while its first request is at work must not start
        // a second scan over the same pages.
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.scan_by(request.transfer, order)?;
        if known.as_ref().is_some_and(|open| !open.is_of(request)) {
            let title = "the transfer is known here with another data set";
            return Err(Problem::new(Exit::NotAuthorised, "scan-known", title));
        }
        let source = self.stores.source(&request.store)?;
        let kind = match (root_kind(&source, &request.root.0), &known) {
            // It was moved, as was asked for.
            (Err(_), Some(open)) if open.remove && open.kind == RootKind::Single => open.kind,
            (found, _) => found?,
        };
        if known.is_some() {
            return Ok(kind);
        }
        selector_of(request)?;
        if request.remove {
            self.removable(&request.store)?;
        }
        self.keep(request, &source, kind)?;
        let open = self.begin(request, kind, Claim::Listed, order)?;
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans.insert(request.transfer, open);
        Ok(kind)
    }

    pub(crate) fn page_by(
        &self,
        order: &ScanOrder,
        transfer: TransferId,
        number: u32,
        wait_ms: u32,
    ) -> Result<PageReply, Problem> {
        let open = self.scan_by(transfer, order)?.ok_or_else(|| unknown_scan(transfer))?;
        open.scan.page(number, Duration::from_millis(u64::from(wait_ms)))
    }

    pub(crate) fn ask_by(
        &self,
        order: &ScanOrder,
        transfer: TransferId,
        question: &Question,
    ) -> Result<u32, Problem> {
        let open = self.scan_by(transfer, order)?.ok_or_else(|| unknown_scan(transfer))?;
        let source = self.stores.source(&open.store)?;
        let see = |page| open.see(&source, page);
        let pages = open.scan.ask(&source, question, open.remove, &see)?;
        // What is not there any more has vanished only if the store is what it was (C3).
        open.guard.check()?;
        Ok(pages)
    }

    pub(crate) fn remove_by(
        &self,
        by: &ScanOrder,
        transfer: TransferId,
        order: &RemoveOrder,
    ) -> Result<RemoveReply, Problem> {
        let open = self.scan_by(transfer, by)?.ok_or_else(|| unknown_scan(transfer))?;
        if !open.remove {
            let title = format!("transfer {} may not remove anything here", transfer.short());
            return Err(Problem::new(Exit::NotAuthorised, "remove-not-allowed", title));
        }
        let _alone = open.removing.lock().unwrap_or_else(PoisonError::into_inner);
        let encoded = open.scan.sealed_page(order.page)?;
        let encoded = encoded
            .filter(|encoded| page_digest(encoded).to_hex() == order.digest)
            .ok_or_else(|| {
                let title = format!("page {} is not known here", order.page);
                Problem::new(Exit::Fatal, "page-unknown", title)
            })?;
        let page = Page::decode(&encoded).map_err(|cause| {
            let title = format!("page {} is damaged here", order.page);
            Problem::new(Exit::Fatal, "page-damaged", title).because(cause)
        })?;
        let check = || open.guard.check().inspect_err(|_| self.stores.reopen(&open.store));
        check()?;
        let mut store = self.removable(&open.store)?;
        // A controller that was deposed removes nothing, whatever it was asked before (B4).
        let fence = by.fence.clone();
        fence.check()?;
        if fence.epoch() != 0 {
            store = store.guarded(Arc::new(move || fence.holds()));
        }
        let source = self.stores.source(&open.store)?;
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
        let reply = remover.remove(order)?;
        // What was not there counts as removed only if it was not there because of that (C3).
        check()?;
        if order.page == 0 && reply.next == 0 {
            // Pages are gone through from the last to the first: nothing comes back after this.
            store.sync().map_err(|error| {
                let title = format!("cannot sync store `{}`", open.store);
                Problem::new(Exit::Temporary, "source-sync", title).because(chain(&error))
            })?;
        }
        Ok(reply)
    }

    pub(crate) fn digests_by(
        &self,
        order: &ScanOrder,
        transfer: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        let open = self.scan_by(transfer, order)?.ok_or_else(|| unknown_scan(transfer))?;
        let page = open.scan.sealed_page(wish.page)?.and_then(|bytes| Page::decode(&bytes).ok());
        let page = page.ok_or_else(|| {
            let title = format!("page {} is not known here", wish.page);
            Problem::new(Exit::Temporary, "page-unknown", title).status(404)
        })?;
        let source = self.stores.source(&open.store)?;
        let page = open.see(&source, page)?;
        let wait = Duration::from_millis(u64::from(wait_ms));
        open.wishes.get(source, open.scan.root(), page, wish, wait)
    }

    /// Ends what is at work here of a transfer; what it has sealed stays.
    pub(crate) fn stop(&self, transfer: TransferId) {
        let open = self.scans.lock().unwrap_or_else(PoisonError::into_inner).remove(&transfer);
        if let Some(open) = open {
            open.scan.stop();
        }
    }

    /// Removes what is kept of a transfer.
    pub(crate) fn remove_kept(&self, transfer: TransferId) {
        let directory = self.directory.join(transfer.to_string());
        if let Err(cause) = fs::remove_dir_all(&directory)
            && cause.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %directory.display(), %cause, "cannot remove old pages");
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::scan::SourcePeer as _;
    use penstock_io::store::IoMode;

    use super::*;
    use crate::stores::{StoreKind, StoreSpec};

    fn service(work: &Path) -> SourceService {
        let spec = |name: &str| {
            let path = work.join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), name).unwrap();
            StoreSpec {
                name: name.parse().unwrap(),
                kind: StoreKind::Posix(path),
                read_only: false,
                ephemeral: false,
                allow_privileged: false,
                io: IoMode::Auto,
            }
        };
        let stores = Arc::new(Stores::new([spec("secret"), spec("open")]));
        let peer = PeerId { site: "a".parse().unwrap(), peer: "p".parse().unwrap() };
        SourceService::new(stores, &work.join("state"), peer, None)
    }

    fn request(store: &str) -> ScanRequest {
        ScanRequest {
            transfer: TransferId([7; 16]),
            store: store.parse().unwrap(),
            root: PathText::default(),
            slicing: Slicing::default(),
            files_from: Vec::new(),
            select: Selection::default(),
            metadata_ops_per_s: None,
            preserve: Preserve::default(),
            owner_names: false,
            remove: false,
        }
    }

    /// C4: who knows a transfer's id and may read one store learns nothing of another store by it.
    #[test]
    fn c4_an_id_opens_no_other_data_set() {
        let work = tempfile::tempdir().unwrap();
        let service = service(work.path());
        service.open_scan(&request("secret")).unwrap();
        assert_eq!(service.open_scan(&request("secret")), Ok(RootKind::Directory));
        let refused = service.open_scan(&request("open")).unwrap_err();
        assert_eq!(refused.code, "scan-known");
    }

    /// Promise: a journal that cannot be read for a while is not one that knows nothing of a scan:
    /// the transfer waits, where it would be told that its scan is lost, and fail.
    #[test]
    fn a_journal_that_fails_has_lost_no_scan() {
        let work = tempfile::tempdir().unwrap();
        let service = service(work.path());
        let id = request("open").transfer;
        assert_eq!(service.page(id, 0, 0).unwrap_err().code, "scan-unknown");
        service.open_scan(&request("open")).unwrap();
        service.stop(id);
        // A directory cannot be read as a file, not even by root.
        let kept = work.path().join("state").join(id.to_string()).join("request.json");
        let aside = kept.with_extension("aside");
        fs::rename(&kept, &aside).unwrap();
        fs::create_dir(&kept).unwrap();
        let opened = service.open_scan(&request("open")).map(drop);
        for failed in [service.page(id, 0, 0).map(drop), opened] {
            let problem = failed.unwrap_err();
            assert_eq!((problem.code.as_str(), problem.exit), ("state", Exit::Temporary));
        }
        fs::remove_dir(&kept).unwrap();
        fs::rename(&aside, &kept).unwrap();
        assert!(service.page(id, 0, 10_000).is_ok());
    }
}
