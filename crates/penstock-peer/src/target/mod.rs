//! The target side of this host: checks stores, starts tasks, cleans up after them.

pub(crate) mod cleanup;
pub(crate) mod compare;
pub(crate) mod confirm;
pub(crate) mod dry_run;
pub(crate) mod extraneous;
pub(crate) mod late_write_repair;
pub(crate) mod readback;
pub(crate) mod remote_deletion;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use penstock_api::access::AccountName;
use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::fence::Fence;
use penstock_api::plan::PlanItem;
use penstock_api::problem::Problem;
use penstock_api::proof::{PageProof, ProofProgress, ProofRequest};
use penstock_api::request::{PeerReply, TargetRequest};
use penstock_api::scan::RootKind;
use penstock_api::task::{
    Mended, Room, SourceAccess, TargetPeer, Task, TaskControl, TaskPage, TaskSpec, TaskStart,
};
use penstock_api::transfer::{Durability, PathText};
use penstock_engine::paths::{LocalEnd, pair};
use penstock_net::SocketOptions;
use penstock_net::trust::TrustError;
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::CipherSuite;
use penstock_proto::id::Name;
use penstock_proto::journal::Incarnation;
use penstock_proto::manifest::{EntryKind, Page};
use penstock_proto::name;
use penstock_proto::network::DataAddress;
use penstock_proto::slicing::STRIDE_BYTES_MAX;
use penstock_store::{
    Attributes, Kind, ListBuffer, StoreError, StoreIdentity, StoreOffline, Target,
};
use penstock_sys::buffer::BufferPool;

use crate::lane::dialer::{Dialer, LaneConnect};
use crate::lane::path_book::PathBook;
use crate::lane::path_notes::{LocalEnds, PathNote, locals};
use crate::lane::preconnect;
use crate::source::read::place;
use crate::stores::access::{Absence, AccessError};
use crate::stores::errors::{Cause, StoreFault};
use crate::stores::guard::Guard;
use crate::stores::mounts::{check_mounts, mounts_of};
use crate::stores::{Stores, chain};
use crate::target::compare::Comparer;
use crate::target::confirm::confirm;
use crate::target::dry_run::look;
use crate::target::late_write_repair::LateWriteRepair;
use crate::target::readback::Readback;
use crate::task::context::TaskParts;
use crate::task::error::{NoPair, TaskError};
use crate::task::grant::Grant;
use crate::task::handover::{Handover, Handovers};
use crate::task::reach::Reach;
use crate::task::running_task::RunningTask;
use crate::traffic::Traffic;
use crate::write::attributes::{AttributePolicy, check_rules};
use crate::write::target_tree::temporary_of;

/// Buffers that the lanes of one host may hold at a time; see `docs/design/0003`.
const BUFFERS_MAX: usize = 192;

/// Makes the TLS configuration for lanes to a site, under one cipher suite or under all that this
/// site allows.
pub type LaneConfig = Arc<
    dyn Fn(&Name, Option<CipherSuite>) -> Result<Arc<rustls::ClientConfig>, TrustError>
        + Send
        + Sync,
>;

/// This host's target side.
pub struct TargetService {
    pub(crate) stores: Arc<Stores>,
    lanes: Option<LaneConfig>,
    connect: Option<(LaneConnect, Option<Duration>)>,
    options: SocketOptions,
    pub(crate) pool: BufferPool,
    local_ends: Option<LocalEnds>,
    pub(crate) book: Arc<PathBook>,
    /// Tasks that run here, from all controllers.
    pub(crate) tasks: Mutex<Vec<Weak<RunningTask>>>,
    /// Reports of ended tasks that no controller has committed.
    pub(crate) left: Arc<Handovers>,
    pub(crate) traffic: Traffic,
}

impl TargetService {
    /// Creates a target side that writes to `stores`. Without `lanes` it can fetch from its own
    /// host only.
    pub fn new(stores: Arc<Stores>, lanes: Option<LaneConfig>, options: SocketOptions) -> Self {
        let pool = BufferPool::new(STRIDE_BYTES_MAX as usize, BUFFERS_MAX);
        let (connect, local_ends, book) = (None, None, Arc::default());
        let (tasks, left, traffic) = Default::default();
        Self { stores, lanes, connect, options, pool, local_ends, book, tasks, left, traffic }
    }

    /// Makes connections with `connect`. `rtt` is the round trip to the source where connections
    /// lead through a tunnel, whose near end is all that their TCP sees.
    #[must_use]
    pub fn with_connect(mut self, connect: LaneConnect, rtt: Option<Duration>) -> Self {
        self.connect = Some((connect, rtt));
        self
    }

    /// Lets lanes leave from the ends that `local_ends` lists; without it routing chooses.
    #[must_use]
    pub fn with_local_ends(mut self, local_ends: LocalEnds) -> Self {
        self.local_ends = Some(local_ends);
        self
    }

    /// Ends the lanes from a site whose pairing has ended, also where the site is paired again by
    /// now. Does not block.
    pub fn end_lanes_from(&self, site: &Name) {
        self.book.endings.note(site);
        self.book.open_lanes.end_void();
    }

    /// Ends the lanes that [`TargetService::end_lanes_from`] missed because they were opening at
    /// that moment. Does not block; call it every second.
    pub fn end_void_lanes(&self) {
        self.book.open_lanes.end_void();
    }

    /// Returns the records of the paths to a site, from transfers since the daemon started.
    pub fn known_paths(&self, site: &Name) -> Vec<PathNote> {
        self.book.of_site(site)
    }

    fn remember(&self, task: &Arc<RunningTask>) {
        let mut kept = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|task| task.strong_count() > 0);
        kept.push(Arc::downgrade(task));
    }

    /// Ends earlier tasks of the same transfer and writer, which another controller ordered, or
    /// this one under another number. Two tasks never write under one writer's names. Their
    /// uncommitted reports are left to the next task.
    fn end_earlier(&self, spec: &TaskSpec) -> Option<Handover> {
        let known: Vec<_> = {
            let kept = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().filter_map(Weak::upgrade).collect()
        };
        let mut left = self.left.take(spec);
        for task in known.into_iter().filter(|task| task.is_of(spec)) {
            left = task.end_for_next().or(left);
        }
        left
    }

    /// Opens the target store, like [`target_of`].
    pub(crate) fn target(&self, spec: &TaskSpec) -> Result<Target, TaskError> {
        target_of(&self.stores, spec)
    }

    /// Checks that the store is there and the right one (A5), whether it answers or hangs.
    pub(crate) fn identify(&self, spec: &TaskSpec) -> Result<StoreIdentity, TaskError> {
        let (stores, asked) = (Arc::clone(&self.stores), spec.clone());
        self.stores.ask(&spec.store, move || identify(&stores, &asked))?
    }

    /// Checks the identity like [`Self::identify`], but writes none to a store without one.
    pub(crate) fn identify_if_known(&self, spec: &TaskSpec) -> Result<(), TaskError> {
        if spec.store_id == 0 { Ok(()) } else { self.identify(spec).map(drop) }
    }

    /// Returns the ends from which lanes may leave now.
    fn locals(&self) -> Vec<LocalEnd> {
        locals(self.local_ends.as_ref())
    }

    fn reach(&self, spec: &TaskSpec) -> Result<Reach, TaskError> {
        match &spec.source {
            SourceAccess::Local { store, root } => {
                let (stores, name, root) =
                    (Arc::clone(&self.stores), store.clone(), root.0.clone());
                let account = spec.account.clone();
                self.stores.ask(store, move || {
                    let source = stores.source(&name, account.as_ref())?;
                    let guard = Box::new(Guard::new(&source, &name, &root)?);
                    Ok(Reach::Local { source, root, guard, digests: true })
                })?
            }
            SourceAccess::Remote { site, peers, capability, .. } => {
                let refuse = |source| TaskError::NoLanes { site: site.clone(), source };
                let lanes = self.lanes.as_ref();
                let lanes = lanes.ok_or_else(|| refuse(Cause("no certificate here".to_owned())))?;
                let (connect, rtt) = self.connect.clone().unzip();
                let locals = self.locals();
                let paths = self.book.take_up(site, pair(&locals, peers, &spec.networks));
                if paths.is_empty() {
                    let source = no_pair(&locals, peers, &spec.networks);
                    return Err(TaskError::NoPath { site: site.clone(), source });
                }
                let dialer = Dialer {
                    connect,
                    rtt: rtt.flatten(),
                    config: lanes(site, spec.cipher_suite)
                        .map_err(|error| refuse(Cause::of(&error)))?,
                    site: site.clone(),
                    options: self.options.clone(),
                    local_ends: self.local_ends.clone(),
                    networks: spec.networks.clone(),
                    capability: capability.clone(),
                    paths: RwLock::new(paths.into_iter().map(Arc::new).collect()),
                    book: Arc::clone(&self.book),
                };
                Ok(Reach::Remote { dialer: Arc::new(dialer) })
            }
        }
    }
}

/// Returns the store of a task, which only changes while the task's controller may act (B4).
fn target_of(stores: &Stores, spec: &TaskSpec) -> Result<Target, TaskError> {
    let target = stores.target(&spec.store, spec.account.as_ref())?;
    if spec.fence.epoch() == 0 {
        return Ok(target);
    }
    let fence = spec.fence.clone();
    Ok(target.guarded(Arc::new(move || fence.holds())))
}

fn identify(stores: &Stores, spec: &TaskSpec) -> Result<StoreIdentity, TaskError> {
    let target = target_of(stores, spec)?;
    let offline = |absence| {
        stores.reopen(&spec.store);
        AccessError::offline(&spec.store, absence)
    };
    if spec.store_id == 0 {
        let identity = unlocking(&target, spec, || target.open_or_init_identity());
        return identity.map_err(|error| {
            if error.is_read_only() || error.is_denied() {
                return not_writable(spec, &error);
            }
            if error.is_passing() {
                return StoreFault::short(&error).into();
            }
            offline(Absence::Call(Cause::of(&error))).into()
        });
    }
    let identity = target.identity().map_err(|error| {
        stores.reopen(&spec.store);
        AccessError::gone(&spec.store, error)
    })?;
    if id_of(&identity) != spec.store_id {
        return Err(offline(Absence::OtherThanWritten).into());
    }
    check_mounts(&target, spec)?;
    Ok(identity)
}

/// Runs an operation that the store's root may refuse. The root may have the mode of a source that
/// was copied here before, as 0555. If it is this user's, it is unlocked, and its mode is set at
/// the end.
fn unlocking<T>(
    target: &Target,
    spec: &TaskSpec,
    mut attempt: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match attempt() {
        Err(error) if error.is_denied() && spec.root.0.is_empty() && target.unlock_root() => {
            attempt()
        }
        outcome => outcome,
    }
}

/// Returns the error of a store in which no marker can be made. A directory that a user has chosen
/// and that takes no files, as below `/proc`, is not offline.
fn unwritable(target: &Target, spec: &TaskSpec, error: &StoreError) -> TaskError {
    // Where the directory is still there, its file system takes no names at all.
    let is_there = || target.identity().is_ok_and(|is| id_of(&is) == spec.store_id);
    if target.is_ephemeral() && error.refuses_names() && is_there() {
        return not_writable(spec, error);
    }
    StoreFault::of_store(error).into()
}

fn not_writable(spec: &TaskSpec, error: &StoreError) -> TaskError {
    TaskError::NotWritable { store: spec.store.clone(), source: Cause::of(error) }
}

/// Returns whether the root contains directories, in which a task may be able to write although it
/// may not write to the root itself.
fn has_directories(target: &Target, spec: &TaskSpec) -> bool {
    let mut found = false;
    let listed = target.open_dir(&spec.root.0).and_then(|dir| {
        target.list(&dir, &mut ListBuffer::new(), &mut |entry| {
            found = matches!(entry.kind, None | Some(Kind::Directory));
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    });
    // A directory that may be entered and not be listed can hold some.
    found || listed.is_err_and(|error| error.is_denied())
}

/// Examines a store before a task begins there; changes nothing.
fn prepare(stores: &Stores, spec: &TaskSpec) -> Result<TaskStart, TaskError> {
    let identity = identify(stores, spec)?;
    let target = target_of(stores, spec)?;
    if spec.remove_source && matches!(target, Target::Null) {
        return Err(TaskError::MoveLoses(spec.store.clone()));
    }
    let marker = target.read_marker((spec.transfer, spec.writer));
    let unopened = |error| AccessError::unopened(&spec.store, target.is_ephemeral(), &error);
    let marker = marker.map_err(unopened)?;
    // Where no marker can be, its absence proves nothing.
    let unmarked = if target.goes_without_marker() { u64::MAX } else { 0 };
    let marker = marker.unwrap_or(unmarked);
    let mut methods: Vec<String> =
        target.durability().iter().map(|method| method.to_string()).collect();
    if target.writes_directly() {
        methods.push("large files past the page cache".to_owned());
    }
    let durable_by = match spec.durability {
        Durability::None => "nothing: no sync was asked for".to_owned(),
        Durability::Batch => methods.join(", "),
        Durability::Fsync => format!("fsync of each file, then {}", methods.join(", ")),
    };
    let never_synced = spec.durability == Durability::None;
    let marker = if never_synced { u64::MAX } else { marker };
    let mounts = mounts_of(&target, spec)?;
    Ok(TaskStart { store: id_of(&identity), marker, durable_by, mounts })
}

/// Replaces the boot id where there is no `/proc`: writes of earlier processes are then checked as
/// after a restart of the host.
static BOOT_OF_PROCESS: OnceLock<[u8; 16]> = OnceLock::new();

/// The state of the target before a task's first write.
struct Ground {
    incarnation: Incarnation,
    marker: u64,
}

impl Ground {
    /// Examines a store in which no task of the same transfer and writer runs, and reserves room
    /// for the marker.
    fn at(target: &Target, spec: &TaskSpec, identity: &StoreIdentity) -> Result<Self, TaskError> {
        let boot = penstock_sys::boot_id().unwrap_or_else(|error| {
            tracing::debug!(%error, "no boot id here: an earlier process counts as one of another");
            *BOOT_OF_PROCESS.get_or_init(rand::random)
        });
        let mount = target.mount_identity();
        let mount = mount.map_err(|error| AccessError::unanswered(&spec.store, &error))?;
        let (writer, store) = (spec.writer, id_of(identity));
        // Bytes that were written before the last failed sync are never believed without a check
        // (A4).
        let failed_syncs = target.failed_syncs();
        let incarnation = Incarnation { writer, boot, mount, store, failed_syncs };
        let of = (spec.transfer, spec.writer);
        // A store that keeps nothing has every marker.
        let marker = target.read_marker(of).ok().flatten().filter(|marker| *marker != u64::MAX);
        let reserve = || {
            let reserved = target.reserve_marker(of);
            if spec.durability != Durability::None {
                return reserved.map(drop);
            }
            // The marker shows that the store can be written to. It stays empty, and a later run
            // that would remove it may not come.
            target.remove_marker(of)?;
            match reserved {
                // The remaining work may be links or deletions, which need no room.
                Err(error) if error.is_out_of_space() => Ok(()),
                reserved => reserved.map(drop),
            }
        };
        match unlocking(target, spec, reserve) {
            // The directory belongs to others: the task goes without a marker.
            Err(error) if error.is_denied() && target.is_ephemeral() => {
                if !has_directories(target, spec) {
                    return Err(not_writable(spec, &error));
                }
            }
            reserved => reserved.map_err(|error| unwritable(target, spec, &error))?,
        }
        Ok(Self { incarnation, marker: marker.unwrap_or(0) })
    }
}

fn root_kind(
    stores: &Stores,
    store: &Name,
    path: &PathText,
    account: Option<&AccountName>,
) -> Result<Option<RootKind>, TaskError> {
    let target = stores.target(store, account)?;
    let (parent, leaf) = name::split(&path.0).unwrap_or((b"", b""));
    let fail = |error: StoreError| {
        if let Some(fault) = StoreFault::of(&target, &error) {
            stores.reopen(store);
            return fault.into();
        }
        if error.is_io_failure() {
            // The handle may be of a client that has died, and the way may be free again.
            stores.reopen(store);
            return AccessError::unanswered(store, &error).into();
        }
        let (store, path, source) = (store.clone(), path.clone(), Cause::of(&error));
        TaskError::Unexamined { store, path, source }
    };
    let dir = match target.open_dir(parent) {
        Ok(dir) => dir,
        Err(error) if error.is_absent() => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let meta = target.meta(&dir, leaf).map_err(fail)?;
    Ok(meta.map(|meta| match meta.kind {
        Kind::Directory => RootKind::Directory,
        _ => RootKind::Single,
    }))
}

fn store_id(stores: &Stores, store: &Name) -> Result<Option<u64>, TaskError> {
    match stores.own_target(store)?.identity() {
        // A store that keeps nothing has no identity.
        Ok(identity) => Ok(Some(id_of(&identity)).filter(|id| *id != 0)),
        Err(StoreOffline::IdentityMissing { .. }) => Ok(None),
        Err(error) => {
            stores.reopen(store);
            Err(AccessError::gone(store, error).into())
        }
    }
}

/// Returns the reason why no local address can be paired with one of a site.
fn no_pair(locals: &[LocalEnd], peers: &[DataAddress], networks: &[Name]) -> NoPair {
    match (peers, locals) {
        ([], _) => NoPair::NotThere,
        (_, []) => NoPair::NotHere,
        _ if !networks.is_empty() => NoPair::OtherNetworks,
        _ => NoPair::OtherFamily,
    }
}

/// Returns the part of a store's identity that ledgers keep.
pub(crate) fn id_of(identity: &StoreIdentity) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = identity.id;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

impl TargetService {
    /// Handles [`TargetRequest::RootKind`].
    fn examine_root(
        &self,
        store: &Name,
        path: &PathText,
        account: Option<AccountName>,
    ) -> Result<Option<RootKind>, TaskError> {
        let (stores, name, path) = (Arc::clone(&self.stores), store.clone(), path.clone());
        self.stores.ask(store, move || root_kind(&stores, &name, &path, account.as_ref()))?
    }

    /// Handles [`TargetRequest::Prepare`].
    fn check_store(&self, spec: &TaskSpec) -> Result<TaskStart, TaskError> {
        check_rules(&spec.preserve.owner_map)?;
        let (stores, asked) = (Arc::clone(&self.stores), spec.clone());
        self.stores.ask(&spec.store, move || prepare(&stores, &asked))?
    }

    /// Handles [`TargetRequest::Compare`].
    fn compare_page(
        &self,
        spec: &TaskSpec,
        page: &Page,
        left: &EntrySet,
    ) -> Result<Comparison, TaskError> {
        // Once a page, since a missing mount would look like an empty directory (A5).
        self.identify(spec)?;
        let allowed = self.stores.spec(&spec.store)?.allow_privileged;
        let comparer = Comparer::new(self.target(spec)?, spec, true, allowed);
        if page.round > 0 { comparer.compare_amending(page) } else { comparer.compare(page, left) }
    }

    /// Handles [`TargetRequest::StoreId`].
    fn look_up_id(&self, store: &Name) -> Result<Option<u64>, TaskError> {
        let (stores, name) = (Arc::clone(&self.stores), store.clone());
        self.stores.ask(store, move || store_id(&stores, &name))?
    }

    /// Handles [`TargetRequest::Room`].
    fn free_space(&self, store: &Name) -> Result<Room, TaskError> {
        let (stores, name) = (Arc::clone(&self.stores), store.clone());
        self.stores.ask(store, move || {
            let space = stores.own_target(&name)?.space();
            let space = space.map_err(|error| AccessError::unanswered(&name, &error))?;
            Ok(Room { free_bytes: space.free_bytes, free_files: space.free_inodes })
        })?
    }

    /// Handles [`TargetRequest::Look`].
    fn plan_page(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<PlanItem>, TaskError> {
        check_rules(&spec.preserve.owner_map)?;
        self.identify_if_known(spec)?;
        let allowed = self.stores.spec(&spec.store)?.allow_privileged;
        look(&Comparer::new(self.target(spec)?, spec, false, allowed), page)
    }

    /// Handles [`TargetRequest::SameSize`].
    fn find_same_size(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<u32>, TaskError> {
        self.identify(spec)?;
        Comparer::new(self.target(spec)?, spec, false, false).same_size(page)
    }

    /// Handles [`TargetRequest::CompareContents`].
    fn compare_page_contents(
        &self,
        spec: &TaskSpec,
        page: &Page,
        digests: &[(u32, String)],
        progress: &ProofProgress,
    ) -> Result<Comparison, TaskError> {
        self.identify(spec)?;
        let target = self.target(spec)?;
        let (root, kind) = (spec.root.0.as_slice(), DigestKind::Blake3);
        let prover = Readback { target: &target, root, kind, pool: &self.pool };
        let same = prover.same_contents(page, digests, progress)?;
        let same = same.ok_or(TaskError::CompareStopped)?;
        let allowed = self.stores.spec(&spec.store)?.allow_privileged;
        Comparer::new(target.clone(), spec, true, allowed)
            .with_same(same)
            .compare(page, &EntrySet::default())
    }

    /// Handles [`TargetRequest::Prove`].
    fn read_back(
        &self,
        spec: &TaskSpec,
        request: &ProofRequest<'_>,
    ) -> Result<PageProof, TaskError> {
        let target = self.target(spec)?;
        if matches!(target, Target::Null) {
            return Err(TaskError::NothingToReadBack(spec.store.clone()));
        }
        let (root, kind, pool) = (spec.root.0.as_slice(), spec.digest, &self.pool);
        // A missing mount would look like an empty directory (A5), also in the midst of the work.
        self.identify(spec)?;
        let proof = Readback { target: &target, root, kind, pool }.prove(request)?;
        if !proof.damaged.is_empty() || !proof.failures.is_empty() {
            self.identify(spec)?;
        }
        Ok(proof)
    }

    /// Handles [`TargetRequest::Confirm`].
    fn confirm_entries(
        &self,
        spec: &TaskSpec,
        page: &Page,
        wanted: &EntrySet,
    ) -> Result<EntrySet, TaskError> {
        self.identify(spec)?;
        confirm(self.target(spec)?, spec, page, wanted)
    }

    /// Handles [`TargetRequest::Mend`].
    fn repair_late_writes(
        &self,
        spec: &TaskSpec,
        page: &Page,
        files: &[(u32, String)],
    ) -> Result<Mended, TaskError> {
        self.identify(spec)?;
        let target = self.target(spec)?;
        let own_site = spec.source.is_of_own_site();
        let allowed = self.stores.spec(&spec.store)?.allow_privileged;
        let keeper =
            AttributePolicy::new(&spec.preserve, own_site, allowed).made_by(target.account());
        let (root, kind, pool) = (spec.root.0.as_slice(), spec.digest, &self.pool);
        let failed_syncs = target.failed_syncs();
        let found = LateWriteRepair { target: &target, root, kind, keeper: &keeper, pool }
            .mend(page, files)?;
        if found.mended > 0 && spec.durability != Durability::None {
            target.sync_since(failed_syncs).map_err(|error| StoreFault::of_store(&error))?;
        }
        Ok(found)
    }

    /// Handles [`TargetRequest::CleanPage`].
    fn remove_temporary_files(
        &self,
        spec: &TaskSpec,
        page: &TaskPage,
        generation_max: u32,
    ) -> Result<(), TaskError> {
        self.identify_if_known(spec)?;
        clean_page(&self.target(spec)?, spec, page, generation_max)
    }

    /// Handles [`TargetRequest::CleanMarker`].
    fn remove_marker(&self, spec: &TaskSpec, sync: bool) -> Result<(), TaskError> {
        self.identify_if_known(spec)?;
        let target = self.target(spec)?;
        let sync = sync && spec.durability != Durability::None;
        if sync && let Err(error) = target.sync() {
            tracing::warn!(error = %chain(&error), "removed temporary files may come back");
        }
        target
            .remove_marker((spec.transfer, spec.writer))
            .or_else(|error| left(&target, &error))?;
        // A missing mount looks like an empty directory (A5), also in the midst of the work.
        self.identify_if_known(spec)
    }
}

impl TargetPeer for TargetService {
    fn call(
        &self,
        request: TargetRequest<'_>,
        progress: &ProofProgress,
    ) -> Result<PeerReply, Problem> {
        Ok(match request {
            TargetRequest::RootKind { store, path, account } => {
                let account = account.map(Cow::into_owned);
                PeerReply::RootKind(self.examine_root(&store, &path, account)?)
            }
            TargetRequest::StoreId { store } => PeerReply::StoreId(self.look_up_id(&store)?),
            TargetRequest::Room { store } => PeerReply::Room(self.free_space(&store)?),
            TargetRequest::Prepare { spec } => PeerReply::Prepared(self.check_store(&spec)?),
            TargetRequest::Compare { spec, page, left } => {
                PeerReply::Compared(self.compare_page(&spec, page.get()?, &left)?)
            }
            TargetRequest::Look { spec, page } => {
                PeerReply::Planned(self.plan_page(&spec, page.get()?)?)
            }
            TargetRequest::SameSize { spec, page } => {
                PeerReply::SameSize(self.find_same_size(&spec, page.get()?)?)
            }
            TargetRequest::CompareContents { spec, page, digests } => {
                let page = page.get()?;
                PeerReply::Compared(self.compare_page_contents(&spec, page, &digests, progress)?)
            }
            TargetRequest::Prove { spec, page, digests, readback, also } => {
                let (page, digest) = page.share()?;
                let page = &TaskPage { page, digest, left: Arc::default() };
                let (digests, also) = (&*digests, &*also);
                let request = ProofRequest { page, digests, readback, also, progress };
                self.read_back(&spec, &request)?.into()
            }
            TargetRequest::Confirm { spec, page, wanted } => {
                PeerReply::Confirmed(self.confirm_entries(&spec, page.get()?, &wanted)?)
            }
            TargetRequest::Mend { spec, page, files } => {
                PeerReply::Mended(self.repair_late_writes(&spec, page.get()?, &files)?)
            }
            TargetRequest::CleanPage { spec, page, left, generation_max } => {
                let (page, digest) = page.share()?;
                let page = TaskPage { page, digest, left: Arc::new(left.into_owned()) };
                self.remove_temporary_files(&spec, &page, generation_max)?;
                PeerReply::Done
            }
            TargetRequest::CleanMarker { spec, sync } => {
                self.remove_marker(&spec, sync)?;
                PeerReply::Done
            }
        })
    }

    fn expect_source(&self, _: &Name, site: &Name, peers: &[DataAddress], lanes_max: u32) {
        if self.connect.is_none() {
            preconnect::dial(&self.book, (site, peers), (&self.locals(), lanes_max), &self.options);
        }
    }

    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem> {
        self.identify_if_known(spec)?;
        Ok(extraneous::find(&self.target(spec)?, spec, query)?)
    }

    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem> {
        let check = || self.identify(spec).map(drop);
        Ok(extraneous::delete(&self.target(spec)?, spec, order, &check)?)
    }

    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem> {
        // Before anything else: the controller counts it from our answer (B4).
        let asked = penstock_sys::boottime_now();
        let grant = spec.grant.map(|duration| Arc::new(Grant::new(duration, asked)));
        // Shut when one of the task's threads hangs and is abandoned, so that its last system call
        // cannot change the store.
        let over = Arc::<AtomicBool>::default();
        let (fence, ended) = (spec.fence.clone(), Arc::clone(&over));
        let holds = Arc::new(move || fence.holds() && !ended.load(Ordering::Acquire));
        let fence = Fence::new(spec.fence.epoch(), holds);
        let spec = &TaskSpec { fence, ..spec.clone() };
        let (identity, reach) = (self.identify(spec)?, self.reach(spec)?);
        let target = self.target(spec)?;
        Ok(self.begin(spec, control, TaskEnds { target, identity, reach }, (grant, over))?)
    }
}

/// The two ends of a task.
pub(crate) struct TaskEnds {
    pub(crate) target: Target,
    pub(crate) identity: StoreIdentity,
    pub(crate) reach: Reach,
}

impl TargetService {
    /// Starts a task between two ends that are known to be the right ones. `over` shuts the gates
    /// of the target.
    pub(crate) fn begin(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
        TaskEnds { mut target, identity, reach }: TaskEnds,
        (grant, over): (Option<Arc<Grant>>, Arc<AtomicBool>),
    ) -> Result<Arc<dyn Task>, TaskError> {
        let left = self.end_earlier(spec);
        if let Some(grant) = grant.clone() {
            let ended = Arc::clone(&over);
            let holds = move || grant.holds() && !ended.load(Ordering::Acquire);
            target = target.granted(Arc::new(holds));
        }
        let (there, asked) = (target.clone(), spec.clone());
        let ground = self.stores.ask(&spec.store, move || Ground::at(&there, &asked, &identity))?;
        let Ground { incarnation, marker } = ground?;
        let traffic = self.traffic.of(reach.site());
        let parts = TaskParts {
            target,
            marker,
            identity,
            over,
            stores: Arc::clone(&self.stores),
            reach,
            grant,
            adopted: left.and_then(|left| left.under(&incarnation)),
            left: Arc::clone(&self.left),
            incarnation,
            pool: self.pool.clone(),
            traffic,
            allow_privileged: self.stores.spec(&spec.store)?.allow_privileged,
        };
        let task = Arc::new(RunningTask::start(spec, control, parts)?);
        self.remember(&task);
        Ok(task)
    }
}

/// Removes possible temporary files of the entries of a page.
fn clean_page(
    target: &Target,
    spec: &TaskSpec,
    page: &TaskPage,
    generation_max: u32,
) -> Result<(), TaskError> {
    for (index, entry) in page.page.entries().iter().enumerate() {
        if entry.kind == EntryKind::Directory || page.left.contains(index as u32) {
            continue;
        }
        let (parent, _) = place(&spec.root.0, &page.page, entry);
        let dir = match target.open_dir(&parent) {
            Ok(dir) => dir,
            Err(error) if error.is_absent() => continue,
            Err(error) => {
                left(target, &error)?;
                continue;
            }
        };
        let before = target.meta(&dir, b"");
        let mut removed = false;
        for generation in 0..=generation_max {
            let writer = (spec.transfer, spec.writer);
            let name = temporary_of(writer, page, index as u32, generation);
            match target.remove(&dir, &name) {
                Ok(there) => removed |= there,
                Err(error) => left(target, &error)?,
            }
        }
        if removed && let Ok(Some(before)) = before {
            // The directory may have got its time already.
            let time = Attributes { mtime: Some(before.mtime), ..Attributes::default() };
            // The time of another user's directory cannot be set, which costs nothing.
            let _ = target.set_dir_attributes(&parent, &time);
        }
    }
    Ok(())
}

/// Handles a file that cannot be removed: an error that is not its own fault repeats the whole
/// cleanup. A mount within the store may be missing alone.
fn left(target: &Target, error: &StoreError) -> Result<(), TaskError> {
    if let Some(fault) = StoreFault::of(target, error) {
        return Err(fault.into());
    }
    if error.is_io_failure() && !error.is_bad_medium() {
        return Err(StoreFault::of_store(error).into());
    }
    tracing::warn!(error = %chain(error), "something temporary is left");
    Ok(())
}

#[cfg(test)]
mod tests;
