//! The table of this host's scans, and how a scan is opened.
//!
//! A store may hang, and restoring a scan of many entries takes minutes. A scan therefore gets its
//! place in the table first. It is opened outside of every lock but its own, on the thread that
//! then runs it, and its users wait at its place alone. Other data sets and other stores are not
//! delayed, nor is the end of all scans when another peer leads (E2). The store is examined within
//! [`Stores::look`], so that a few threads hang there at most.
//!
//! A scan that was cancelled while it was opened is not run: its place records the cancellation.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use penstock_api::access::AccountName;
use penstock_api::fence::Fence;
use penstock_api::preserve::Preserve;
use penstock_api::scan::{RootKind, ScanRequest};
use penstock_api::select::Selection;
use penstock_api::transfer::PathText;
use penstock_proto::id::{Name, PeerId, TransferId};
use penstock_proto::select::Selector;
use penstock_proto::slicing::Slicing;
use penstock_store::{PosixStore, Source, StoreFingerprint, Target};
use serde::{Deserialize, Serialize};

use crate::scan::{Helpers, Scan, ScanOptions, look, read_kept, root_kind};
use crate::source::OpenScan;
use crate::source::error::SourceError;
use crate::source::interrupted_removal::{self, LISTING};
use crate::source::leased_source::ScanLease;
use crate::source::recognition::{Provenance, Sight};
use crate::stores::access::{Absence, AccessError};
use crate::stores::guard::Guard;
use crate::stores::{Stores, chain};

/// Longest wait of a request for a scan that is being opened: longer than a look at its store.
pub(crate) const OPENING_MAX: Duration = Duration::from_secs(10);

/// The scan of one transfer, from its first request on.
pub(crate) struct ScanSlot {
    /// Order by which this peer makes it; `None` if another peer does, and this one serves it.
    lease: Option<ScanLease>,
    /// Number of the list of the data set.
    listing: u32,
    state: Mutex<SlotState>,
    wake: Condvar,
}

enum SlotState {
    Opening,
    Open(Arc<OpenScan>),
    Failed(SourceError),
}

impl ScanSlot {
    fn new(lease: &ScanLease, listing: u32) -> Self {
        let lease = lease.fence.holds().then(|| lease.clone());
        Self { lease, listing, state: Mutex::new(SlotState::Opening), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this lease may use the scan. A scan that another lease made may have resumed
    /// elsewhere since.
    fn is_for(&self, lease: &ScanLease) -> bool {
        match (&self.lease, lease.fence.holds()) {
            (Some(own), true) => own.is(lease) && own.fence.holds() && !self.is_spent(),
            (Some(own), false) => own.fence.holds(),
            (None, acts) => !acts,
        }
    }

    /// Returns whether the scan must be opened again.
    fn is_spent(&self) -> bool {
        match &*self.lock() {
            SlotState::Opening => false,
            SlotState::Open(open) => open.scan.is_broken_off(),
            SlotState::Failed(_) => true,
        }
    }

    /// Returns the scan, once it is open. Waits for at most `most`, or without a limit.
    ///
    /// # Errors
    /// The reason why it could not be opened; [`SourceError::Opening`] if opening takes longer.
    pub(crate) fn wait(
        &self,
        transfer: TransferId,
        most: Option<Duration>,
    ) -> Result<Arc<OpenScan>, SourceError> {
        let opens = |state: &mut SlotState| matches!(state, SlotState::Opening);
        let state = self.lock();
        let state = match most {
            Some(most) => {
                let waited = self.wake.wait_timeout_while(state, most, opens);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.wake.wait_while(state, opens).unwrap_or_else(PoisonError::into_inner),
        };
        match &*state {
            SlotState::Open(open) => Ok(Arc::clone(open)),
            SlotState::Failed(error) => Err(error.clone()),
            SlotState::Opening => Err(SourceError::Opening(transfer)),
        }
    }

    /// Records that the scan is open; returns `false` if it was cancelled meanwhile.
    fn fill(&self, open: &Arc<OpenScan>) -> bool {
        let mut state = self.lock();
        let wanted = matches!(*state, SlotState::Opening);
        if wanted {
            *state = SlotState::Open(Arc::clone(open));
            self.wake.notify_all();
        } else {
            open.scan.stop();
        }
        wanted
    }

    fn fail(&self, error: SourceError) {
        let mut state = self.lock();
        if matches!(*state, SlotState::Opening) {
            *state = SlotState::Failed(error);
            self.wake.notify_all();
        }
    }

    /// Stops the scan; its sealed pages stay. Waits for nothing.
    pub(crate) fn stop(&self) {
        self.fail(SourceError::GivenUp);
        if let SlotState::Open(open) = &*self.lock() {
            open.scan.stop();
        }
    }

    /// Returns whether the scan is being opened, or its data set listed.
    fn is_at_work(&self) -> bool {
        match &*self.lock() {
            SlotState::Opening => true,
            SlotState::Open(open) => !open.scan.is_at_rest(),
            SlotState::Failed(_) => false,
        }
    }

    /// Checks that the scan may still store something.
    fn check(&self) -> Result<(), SourceError> {
        if let Some(lease) = &self.lease {
            lease.fence.check()?;
        }
        match &*self.lock() {
            SlotState::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn holds(&self, scan: &Arc<OpenScan>) -> bool {
        matches!(&*self.lock(), SlotState::Open(open) if Arc::ptr_eq(open, scan))
    }
}

/// Wakes the waiters of a place when its thread ends, also by a panic.
struct Opening<'a>(&'a ScanSlot);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.fail(SourceError::OpeningPanicked);
    }
}

/// The beginnings of a scan.
enum Begin {
    /// A record of an earlier process, or of another peer.
    Recorded(ScanRecord),
    /// A request for a scan that has no record.
    New(ScanRequest),
}

/// The result of a look at the store.
struct Examined {
    source: Source,
    guard: Guard,
    claim: Provenance,
    kind: RootKind,
    request: ScanRequest,
    /// The record to be written, if it is new.
    kept: Option<ScanRecord>,
}

/// The scans of this host.
pub(crate) struct ScanRegistry {
    stores: Arc<Stores>,
    directory: PathBuf,
    peer: PeerId,
    workers: usize,
    /// Other peers of the site, which may list a part of this one's scans.
    helpers: OnceLock<Arc<dyn Helpers>>,
    /// Places of scans. Locked for no longer than a look-up takes.
    table: Mutex<BTreeMap<TransferId, Arc<ScanSlot>>>,
}

impl ScanRegistry {
    pub(crate) fn new(
        stores: Arc<Stores>,
        directory: &Path,
        peer: PeerId,
        workers: usize,
    ) -> Arc<Self> {
        let (directory, table, helpers) = (directory.to_owned(), Mutex::default(), OnceLock::new());
        Arc::new(Self { stores, directory, peer, workers, helpers, table })
    }

    /// Returns how many scans have a place.
    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<TransferId, Arc<ScanSlot>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directory_of(&self, transfer: TransferId) -> PathBuf {
        self.directory.join(transfer.to_string())
    }

    /// Returns the directory of one list of a transfer's data set. Each list has its own: the
    /// thread of an earlier one may still hang in its store, and must spoil nothing when it wakes.
    fn list_directory(&self, transfer: TransferId, listing: u32) -> PathBuf {
        let directory = self.directory_of(transfer);
        if listing == 0 { directory } else { directory.join(format!("{LISTING}{listing}")) }
    }

    /// Removes earlier lists of a transfer's data set.
    fn remove_lists_before(&self, transfer: TransferId, listing: u32) {
        let directory = self.directory_of(transfer);
        let found = fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok);
        for entry in found {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with("request.")) else {
                continue;
            };
            let number = name.strip_prefix(LISTING).map(str::parse::<u32>);
            let is_later = matches!(number, Some(Ok(number)) if number >= listing);
            let path = entry.path();
            let removed = match is_later {
                true => continue,
                false if path.is_dir() => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            if let Err(cause) = removed {
                tracing::warn!(path = %path.display(), %cause, "cannot remove an earlier list");
            }
        }
    }

    /// Restores the names of items that a move has put aside, by its stored lists. Blocks on the
    /// store.
    pub(crate) fn give_names_back(
        &self,
        transfer: TransferId,
        (store, account): (&Name, Option<&AccountName>),
        root: &[u8],
    ) {
        let directory = self.directory_of(transfer);
        if !interrupted_removal::may_be_left(&directory) {
            return;
        }
        match removable(&self.stores, store, account) {
            Ok(store) => {
                let store = store.for_data_set(root, true, false);
                interrupted_removal::give_names_back(&store, transfer, root, &directory);
            }
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(%transfer, %error, "items of the source may stay put aside");
            }
        }
    }

    /// Restores these names after the end of a transfer. Waits for a store that hangs as long as a
    /// look may take.
    pub(crate) fn give_all_names_back(self: &Arc<Self>, transfer: TransferId) {
        if !interrupted_removal::may_be_left(&self.directory_of(transfer)) {
            return;
        }
        let Ok(Some(kept)) = self.kept(transfer) else { return };
        let (scans, store, root) = (Arc::clone(self), kept.store.clone(), kept.root.0);
        let account = kept.account;
        let given = self.stores.look(&kept.store, move || {
            scans.give_names_back(transfer, (&store, account.as_ref()), &root);
        });
        if let Err(error) = given {
            let error = chain(&error);
            tracing::warn!(%transfer, %error, "items of the source may stay put aside");
        }
    }

    /// Sets the other peers. Call it once.
    pub(crate) fn share_with(&self, helpers: Arc<dyn Helpers>) {
        let _ = self.helpers.set(helpers);
    }

    /// Returns the place of a transfer's scan for use by this lease. Opens the scan if it is not
    /// open, by its record or else by `new`. Returns `None` if nothing is known of it.
    ///
    /// # Errors
    /// No thread can be started, or the record cannot be read now.
    pub(crate) fn place(
        self: &Arc<Self>,
        transfer: TransferId,
        lease: &ScanLease,
        new: Option<&ScanRequest>,
    ) -> Result<Option<Arc<ScanSlot>>, SourceError> {
        let wanted = new.map_or(0, |request| request.listing);
        {
            let mut table = self.table();
            match table.get(&transfer) {
                Some(place) if place.is_for(lease) && place.listing >= wanted => {
                    return Ok(Some(Arc::clone(place)));
                }
                Some(_) => table.remove(&transfer).iter().for_each(|place| place.stop()),
                None => {}
            }
        }
        let kept = self.kept(transfer)?.filter(|kept| kept.listing >= wanted);
        let listing = kept.as_ref().map_or(wanted, |kept| kept.listing);
        let begin = match (kept, new) {
            (Some(kept), _) => Begin::Recorded(kept),
            (None, Some(request)) => Begin::New(request.clone()),
            (None, None) => return Ok(None),
        };
        let place = {
            let mut table = self.table();
            // Another request may have come first.
            let other = table.get(&transfer);
            if let Some(place) = other.filter(|it| it.is_for(lease) && it.listing >= listing) {
                return Ok(Some(Arc::clone(place)));
            }
            let place = Arc::new(ScanSlot::new(lease, listing));
            if let Some(old) = table.insert(transfer, Arc::clone(&place)) {
                old.stop();
            }
            place
        };
        let (scans, opened) = (Arc::clone(self), Arc::clone(&place));
        let thread = std::thread::Builder::new().name("scan".to_owned());
        thread.spawn(move || scans.run(transfer, &opened, begin)).map_err(|cause| {
            self.take_out(transfer, |it| Arc::ptr_eq(it, &place));
            let error = SourceError::thread(cause);
            place.fail(error.clone());
            error
        })?;
        if !lease.fence.holds() {
            self.forget_released();
        }
        Ok(Some(place))
    }

    /// Opens a scan and runs it.
    fn run(&self, transfer: TransferId, place: &Arc<ScanSlot>, begin: Begin) {
        let _opening = Opening(place);
        match self.open(transfer, place, begin) {
            Ok((open, source)) => {
                if place.fill(&open) && place.lease.is_some() {
                    open.scan.run(&source);
                }
            }
            Err(error) => {
                // First of all: a waiter may ask again at once, and must not find this place.
                self.take_out(transfer, |it| Arc::ptr_eq(it, place));
                place.fail(error);
            }
        }
    }

    /// Loads the record of a transfer; `None` if there is none that can be parsed.
    fn kept(&self, transfer: TransferId) -> Result<Option<ScanRecord>, SourceError> {
        let text = read_kept(&self.directory_of(transfer).join("request.json"))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    fn open(
        &self,
        transfer: TransferId,
        place: &ScanSlot,
        begin: Begin,
    ) -> Result<(Arc<OpenScan>, Source), SourceError> {
        let store = match &begin {
            Begin::Recorded(kept) => kept.store.clone(),
            Begin::New(request) => request.store.clone(),
        };
        let (stores, peer) = (Arc::clone(&self.stores), self.peer.clone());
        let looked =
            self.stores.look(&store, move || Examined::at(&stores, &peer, transfer, begin))??;
        if let Some(kept) = &looked.kept {
            // The opening waited for the store: meanwhile another peer may lead, or the transfer
            // may be over.
            place.check()?;
            if kept.listing > 0 {
                self.give_names_back(transfer, (&kept.store, kept.account.as_ref()), &kept.root.0);
            }
            kept.write(&self.directory_of(transfer))?;
            if kept.listing > 0 {
                self.remove_lists_before(transfer, kept.listing);
            }
        }
        let request = &looked.request;
        let own = place.lease.as_ref();
        let options = ScanOptions {
            transfer,
            root: request.root.0.clone(),
            slicing: request.slicing,
            files_from: request.files_from.iter().map(|path| path.0.clone()).collect(),
            selector: selector_of(request)?,
            lookups_per_s: request.metadata_ops_per_s.unwrap_or(0),
            preserve: request.preserve.clone(),
            owner_names: request.owner_names,
            workers: self.workers,
            fence: own.map_or_else(shut, |lease| lease.fence.clone()),
        };
        let directory = self.list_directory(transfer, request.listing);
        let scan = match own {
            Some(_) => Scan::open(&directory, options)?,
            None => Scan::of_another(&directory, options),
        };
        let guard = Arc::new(looked.guard);
        scan.guard_by(Arc::clone(&guard), Arc::clone(&self.stores));
        if let Some(helpers) = self.helpers.get() {
            scan.share_with(&request.store, Arc::clone(helpers));
        }
        let open = OpenScan::new(scan, guard, Sight::new(looked.claim), looked.kind, request);
        if own.is_some() {
            open.see_sealed(&looked.source).inspect_err(|_| self.stores.reopen(&store))?;
        }
        Ok((Arc::new(open), looked.source))
    }

    /// Forgets scans that the controller has released; other peers get no message.
    fn forget_released(&self) {
        let known: Vec<TransferId> = self.table().keys().copied().collect();
        for transfer in known {
            if !self.directory_of(transfer).exists() {
                // A scan that was just asked for has no directory yet.
                self.take_out(transfer, |place| matches!(*place.lock(), SlotState::Open(_)));
            }
        }
    }

    fn take_out(&self, transfer: TransferId, is_it: impl FnOnce(&Arc<ScanSlot>) -> bool) {
        let mut table = self.table();
        if table.get(&transfer).is_some_and(is_it) {
            table.remove(&transfer);
        }
    }

    /// Returns whether a transfer's data set is being listed, or opened for that.
    pub(crate) fn lists(&self, transfer: TransferId) -> bool {
        let place = self.table().get(&transfer).cloned();
        place.is_some_and(|place| place.is_at_work())
    }

    /// Forgets an open scan that has no work here, so that the next request opens it again.
    pub(crate) fn forget(&self, transfer: TransferId, open: &Arc<OpenScan>) {
        if open.scan.is_at_rest() {
            self.take_out(transfer, |place| place.holds(open));
        }
    }

    /// Ends the work on a transfer; its sealed pages stay.
    pub(crate) fn stop(&self, transfer: TransferId) {
        let place = self.table().remove(&transfer);
        if let Some(place) = place {
            place.stop();
        }
    }

    /// Ends all work. Waits for no store.
    pub(crate) fn stop_all(&self) {
        let table = std::mem::take(&mut *self.table());
        for place in table.values() {
            place.stop();
        }
    }
}

/// Returns the fence of a scan that another peer makes.
fn shut() -> Fence {
    Fence::new(1, Arc::new(|| false))
}

impl Examined {
    fn at(
        stores: &Stores,
        own: &PeerId,
        transfer: TransferId,
        begin: Begin,
    ) -> Result<Self, SourceError> {
        match begin {
            Begin::Recorded(kept) => {
                let source = stores.source(&kept.store, kept.account.as_ref())?;
                // First of all: the guard must cover the following looks.
                let guard = Guard::new(&source, &kept.store, &kept.root.0)?;
                let claim = kept.claim(&source, &guard, own).map_err(|absence| {
                    stores.reopen(&kept.store);
                    AccessError::offline(&kept.store, absence)
                })?;
                let kind = if kept.directory { RootKind::Directory } else { RootKind::Single };
                let request = kept.into_request(transfer);
                Ok(Self { source, guard, claim, kind, request, kept: None })
            }
            Begin::New(request) => {
                let source = stores.source(&request.store, request.account.as_ref())?;
                let kind = root_kind(&source, &request.root.0)?;
                selector_of(&request)?;
                if request.remove {
                    removable(stores, &request.store, request.account.as_ref())?;
                }
                let guard = Guard::new(&source, &request.store, &request.root.0)?;
                let kept = ScanRecord::of(&request, &source, &guard, kind, own)?;
                Ok(Self {
                    source,
                    guard,
                    claim: Provenance::Listed,
                    kind,
                    request,
                    kept: Some(kept),
                })
            }
        }
    }
}

/// The record of a scan, beside its pages.
#[derive(Serialize, Deserialize)]
struct ScanRecord {
    /// Number of the list of the data set.
    #[serde(default)]
    listing: u32,
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
    /// Set if the root is a directory: a file that was moved cannot be asked.
    directory: bool,
    stride_bytes: u32,
    extent_bytes: u64,
    pack_bytes: u64,
    pack_files: u32,
    version: u16,
    /// Fingerprint of the store when the scan began.
    fingerprint: String,
    /// Inode number of the data set's root.
    inode: u64,
    /// Set if the data set was, or lay in, another file system than the store's root.
    #[serde(default)]
    nested: Option<bool>,
    /// Identity of the store, if it has one.
    #[serde(default)]
    identity: String,
    /// The peer where the scan began.
    #[serde(default)]
    peer: String,
    /// Account as which the store is used, if that is mapped.
    #[serde(default)]
    account: Option<AccountName>,
}

impl ScanRecord {
    /// Creates the record of a scan that begins now.
    fn of(
        request: &ScanRequest,
        source: &Source,
        guard: &Guard,
        kind: RootKind,
        own: &PeerId,
    ) -> Result<Self, SourceError> {
        let fingerprint =
            source.fingerprint().map_err(|error| AccessError::gone(&request.store, error))?;
        let root = look(source, &request.root.0).map(|(_, _, meta)| meta.inode);
        Ok(Self {
            listing: request.listing,
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
            nested: guard.is_nested(),
            identity: identity_of(source),
            peer: own.to_string(),
            account: request.account.clone(),
        })
    }

    fn write(&self, directory: &Path) -> Result<(), SourceError> {
        let path = directory.join("request.json");
        let text = serde_json::to_vec(self).unwrap_or_default();
        let temporary = path.with_extension("new");
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&temporary, text))
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|cause| SourceError::Record { path, source: Arc::new(cause) })
    }

    fn into_request(self, transfer: TransferId) -> ScanRequest {
        ScanRequest {
            transfer,
            listing: self.listing,
            store: self.store,
            root: self.root,
            slicing: Slicing {
                version: self.version,
                stride_bytes: self.stride_bytes,
                extent_bytes: self.extent_bytes,
                pack_bytes: self.pack_bytes,
                pack_files: self.pack_files,
            },
            files_from: self.files_from,
            select: self.select,
            metadata_ops_per_s: self.metadata_ops_per_s,
            preserve: self.preserve,
            owner_names: self.owner_names,
            remove: self.remove,
            account: self.account,
            user: None,
        }
    }

    /// Returns the certainty that the store is still the one with which the scan began (C3), with
    /// its mounts. Returns an error if it is not. A disk may have another number after a reboot;
    /// then the root of the data set must be the same file or directory. Some listed entry must
    /// exist in two further cases: only the root differs, or a store without an identity has all
    /// marks different at another peer.
    fn claim(&self, source: &Source, guard: &Guard, own: &PeerId) -> Result<Provenance, Absence> {
        let here = self.peer.is_empty() || self.peer == own.to_string();
        let root = || self.root.0.clone();
        match guard.is_nested() {
            _ if self.directory && !guard.is_directory() => {
                return Err(Absence::DirectoryGone(root()));
            }
            None => return Err(Absence::ParentGone(root())),
            // Another peer may mount the same files in another way.
            Some(nested) if here && self.nested.is_some_and(|then| then != nested) => {
                return Err(Absence::OtherFileSystem(root()));
            }
            Some(_) => {}
        }
        let identity = identity_of(source);
        if !here && identity.is_empty() && !self.identity.is_empty() {
            return Err(Absence::IdentityGone);
        }
        let known = !identity.is_empty() && !self.identity.is_empty();
        let same = if known {
            if identity != self.identity {
                return Err(Absence::OtherThanListed);
            }
            true
        } else {
            let found = source.fingerprint().map_err(Absence::Marks)?;
            let then = self.fingerprint.parse();
            let same = then.is_ok_and(|then: StoreFingerprint| found.is_of_same(&then));
            if !here {
                let proven = same && found.file_system_id != 0;
                return Ok(if proven { Provenance::Proven } else { Provenance::Likely });
            }
            same
        };
        let inode = look(source, &self.root.0).map(|(_, _, meta)| meta.inode);
        match inode.is_ok_and(|inode| inode == self.inode) {
            true => Ok(Provenance::Proven),
            false if !same => Err(Absence::OtherThanListed),
            // A file may have been replaced, or moved as ordered.
            false if !here || !self.directory => Ok(Provenance::Proven),
            false => Ok(Provenance::Likely),
        }
    }
}

/// Returns the identity of a store in hex; empty if it has none.
fn identity_of(source: &Source) -> String {
    match source {
        Source::Posix(store) => store.identity().map_or(String::new(), |found| found.id_hex()),
        Source::Mem(_) => String::new(),
    }
}

fn selector_of(request: &ScanRequest) -> Result<Selector, SourceError> {
    request.select.compile().map_err(SourceError::Select)
}

/// Returns the store for the removal of moved entries. Blocks on it.
pub(crate) fn removable(
    stores: &Stores,
    name: &Name,
    account: Option<&AccountName>,
) -> Result<PosixStore, SourceError> {
    if matches!(stores.source(name, account)?, Source::Mem(_)) {
        return Err(SourceError::Generated(name.clone()));
    }
    match stores.target(name, account)? {
        Target::Posix(store) => Ok(store),
        Target::Null => Err(SourceError::Discards(name.clone())),
    }
}

#[cfg(test)]
mod tests;
