//! The target side of this host: checks stores, starts tasks, cleans up after them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::problem::{Exit, Problem};
use penstock_api::proof::{PageProof, ProofRequest};
use penstock_api::scan::RootKind;
use penstock_api::task::{
    SourceAccess, TargetPeer, Task, TaskControl, TaskPage, TaskSpec, TaskStart,
};
use penstock_api::transfer::{Durability, PathText};
use penstock_io::buffer::BufferPool;
use penstock_io::net::{
    self, ConnectError, Dialled, LaneStream, LocalBind, SocketOptions, Welcome,
};
use penstock_io::store::{Kind, StoreError, StoreIdentity, Target, TemporaryKey, temporary_name};
use penstock_io::sys;
use penstock_proto::compared::Comparison;
use penstock_proto::frame::{Hello, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN};
use penstock_proto::id::{LaneId, Name};
use penstock_proto::journal::Incarnation;
use penstock_proto::manifest::{EntryKind, Page};
use penstock_proto::name;
use penstock_proto::slicing::STRIDE_BYTES_MAX;

use crate::compare::Comparer;
use crate::keep::check_rules;
use crate::prove::Prover;
use crate::read::place;
use crate::stores::{Stores, chain, store_offline};
use crate::surplus;
use crate::task::{Reach, RunningTask, TaskParts, full_problem};

/// Longest that opening one lane may take: three round trips and a slow start.
const DIAL_MAX: Duration = Duration::from_secs(15);
/// Buffers that the lanes of one host may hold at a time; see `docs/design/0003`.
const BUFFERS_MAX: usize = 192;

/// Makes the TLS configuration for lanes to a site.
pub type LaneConfig = Arc<dyn Fn(&Name) -> Result<Arc<rustls::ClientConfig>, String> + Send + Sync>;

/// Makes the connection of a lane to a source peer within a time limit, where that is not simply to
/// dial its address: the source dials, or wants to be told something first.
pub type LaneConnect = Arc<
    dyn Fn(SocketAddr, Duration, &SocketOptions) -> Result<Dialled, ConnectError> + Send + Sync,
>;

/// Dials lanes to one site.
pub(crate) struct Dialer {
    connect: Option<LaneConnect>,
    /// The round trip, where connections lead through a tunnel and their TCP does not know it.
    rtt: Option<Duration>,
    config: Arc<rustls::ClientConfig>,
    site: Name,
    options: SocketOptions,
    capability: Vec<u8>,
    paths: Arc<Paths>,
}

/// The least round trip to each address that was ever dialled: the next transfer over a long path
/// opens all its lanes at once.
type Paths = Mutex<BTreeMap<SocketAddr, Duration>>;

impl Dialer {
    /// The least round trip to any of `peers`, if one was dialled before.
    pub(crate) fn known_rtt(&self, peers: &[SocketAddr]) -> Option<Duration> {
        if self.rtt.is_some() {
            return self.rtt;
        }
        let paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        peers.iter().filter_map(|peer| paths.get(peer)).min().copied()
    }

    /// The round trip of an open lane.
    pub(crate) fn rtt_of(&self, stream: &LaneStream) -> Option<Duration> {
        self.rtt.or_else(|| stream.rtt().ok().map(|rtt| rtt.min))
    }

    /// Opens one lane; blocks for [`DIAL_MAX`] at most. Says the round trip as soon as it is known:
    /// over distance more lanes are wanted, and need not wait until this one is open.
    pub(crate) fn dial(
        &self,
        spec: &TaskSpec,
        lane: LaneId,
        address: SocketAddr,
        say_rtt: impl FnOnce(Duration),
    ) -> Result<(LaneStream, Welcome), ConnectError> {
        let hello = Hello {
            protocol: (PROTOCOL_VERSION_MIN, PROTOCOL_VERSION),
            lane,
            transfer: spec.transfer,
            framing: spec.framing,
            digest: spec.digest,
            capability: self.capability.clone(),
        };
        let dialled = match &self.connect {
            Some(connect) => connect(address, DIAL_MAX, &self.options)?,
            None => net::dial(address, &LocalBind::default(), DIAL_MAX, &self.options)?,
        };
        if let Some(rtt) = self.rtt {
            say_rtt(rtt);
        } else if let Ok(rtt) = dialled.rtt() {
            let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
            paths.entry(address).and_modify(|least| *least = rtt.min(*least)).or_insert(rtt);
            drop(paths);
            say_rtt(rtt);
        }
        dialled.open(&self.config, &self.site, &hello)
    }
}

/// This host's target side.
pub struct TargetService {
    stores: Arc<Stores>,
    lanes: Option<LaneConfig>,
    connect: Option<(LaneConnect, Option<Duration>)>,
    options: SocketOptions,
    pool: BufferPool,
    paths: Arc<Paths>,
}

impl TargetService {
    /// A target that writes to `stores`. Without `lanes` it can fetch from its own host only.
    pub fn new(stores: Arc<Stores>, lanes: Option<LaneConfig>, options: SocketOptions) -> Self {
        let pool = BufferPool::new(STRIDE_BYTES_MAX as usize, BUFFERS_MAX);
        Self { stores, lanes, connect: None, options, pool, paths: Arc::default() }
    }

    /// The same, with connections made by `connect`. If they lead through a tunnel, so that their
    /// TCP sees its near end only, `rtt` is the round trip to the source.
    #[must_use]
    pub fn with_connect(mut self, connect: LaneConnect, rtt: Option<Duration>) -> Self {
        self.connect = Some((connect, rtt));
        self
    }

    /// Removes what makes a directory a store, if it is one for a single transfer only. Call it
    /// when nothing will be resumed any more: without its identity the store is offline (A5).
    pub fn leave(&self, store: &Name) {
        let ephemeral = self.stores.spec(store).is_ok_and(|spec| spec.ephemeral);
        if ephemeral && let Ok(target) = self.stores.target(store) {
            target.remove_private();
            self.stores.reopen(store);
        }
    }

    fn identify(&self, spec: &TaskSpec) -> Result<StoreIdentity, Problem> {
        let target = self.stores.target(&spec.store)?;
        let offline = |why: String| {
            self.stores.reopen(&spec.store);
            store_offline(&spec.store, why)
        };
        if spec.store_id == 0 {
            let mut identity = target.open_or_init_identity();
            // The root may have the mode of a source that was copied here before, as 0555; it is
            // set again at the end.
            let denied = identity.as_ref().is_err_and(StoreError::is_denied);
            if denied && spec.root.0.is_empty() && target.unlock_root() {
                identity = target.open_or_init_identity();
            }
            return identity.map_err(|error| {
                if error.is_read_only() || error.is_denied() {
                    let title = format!("cannot write to store `{}`", spec.store);
                    return Problem::new(Exit::Fatal, "target-read-only", title)
                        .because(chain(&error));
                }
                offline(chain(&error))
            });
        }
        let identity = target.identity().map_err(|error| offline(chain(&error)))?;
        if id_of(&identity) != spec.store_id {
            let why = "another store is mounted there than the one the transfer began in";
            return Err(offline(why.to_owned()));
        }
        Ok(identity)
    }

    fn reach(&self, spec: &TaskSpec) -> Result<Reach, Problem> {
        match &spec.source {
            SourceAccess::Local { store, root } => {
                let source = self.stores.source(store)?;
                Ok(Reach::Local { source, root: root.0.clone() })
            }
            SourceAccess::Remote { site, peers, capability } => {
                let refuse = |why: String| {
                    let title = format!("cannot open lanes to site `{site}`");
                    Problem::new(Exit::NotAuthorised, "lanes", title).because(why)
                };
                let lanes =
                    self.lanes.as_ref().ok_or_else(|| refuse("no certificate here".to_owned()))?;
                let (connect, rtt) = self.connect.clone().unzip();
                let dialer = Dialer {
                    connect,
                    rtt: rtt.flatten(),
                    config: lanes(site).map_err(refuse)?,
                    site: site.clone(),
                    options: self.options.clone(),
                    capability: capability.clone(),
                    paths: Arc::clone(&self.paths),
                };
                Ok(Reach::Remote { peers: peers.clone(), dialer: Arc::new(dialer) })
            }
        }
    }
}

/// The part of a store's identity that ledgers keep.
fn id_of(identity: &StoreIdentity) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = identity.id;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

impl TargetPeer for TargetService {
    fn root_kind(&self, store: &Name, path: &PathText) -> Result<Option<RootKind>, Problem> {
        let target = self.stores.target(store)?;
        let (parent, leaf) = name::split(&path.0).unwrap_or((b"", b""));
        let fail = |error| {
            let title = format!("cannot look at `{path}` in store `{store}`");
            Problem::new(Exit::Fatal, "target", title).because(chain(&error))
        };
        let dir = match target.open_dir(parent) {
            Ok(dir) => dir,
            Err(error) if error.is_vanished() => return Ok(None),
            Err(error) => return Err(fail(error)),
        };
        let meta = target.meta(&dir, leaf).map_err(fail)?;
        Ok(meta.map(|meta| match meta.kind {
            Kind::Directory => RootKind::Directory,
            _ => RootKind::Single,
        }))
    }

    fn prepare(&self, spec: &TaskSpec) -> Result<TaskStart, Problem> {
        check_rules(&spec.preserve.owner_map)?;
        let identity = self.identify(spec)?;
        let target = self.stores.target(&spec.store)?;
        let fail = |error| store_offline(&spec.store, chain(&error));
        let marker = target.read_marker(spec.transfer).map_err(fail)?.unwrap_or(0);
        let boot = sys::boot_id().map_err(|cause| {
            Problem::new(Exit::Fatal, "boot-id", "cannot read this host's boot id").because(cause)
        })?;
        let mount = target.mount_identity().map_err(fail)?;
        let methods: Vec<String> =
            target.durability().iter().map(|method| method.to_string()).collect();
        let durable_by = match spec.durability {
            Durability::None => "nothing: no sync was asked for".to_owned(),
            Durability::Batch => methods.join(", "),
            Durability::Fsync => format!("fsync of each file, then {}", methods.join(", ")),
        };
        let never_synced = spec.durability == Durability::None;
        let marker = if never_synced { u64::MAX } else { marker };
        let incarnation = Incarnation { boot, mount, store: id_of(&identity) };
        Ok(TaskStart { incarnation, marker, durable_by })
    }

    fn compare(&self, spec: &TaskSpec, page: &Page) -> Result<Comparison, Problem> {
        // Once a page: what is not mounted would look as if nothing were there (A5).
        self.identify(spec)?;
        let allowed = self.stores.spec(&spec.store)?.allow_privileged;
        Comparer::new(self.stores.target(&spec.store)?, spec, true, allowed).compare(page)
    }

    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem> {
        self.identify(spec)?;
        surplus::find(&self.stores.target(&spec.store)?, spec, query)
    }

    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem> {
        let check = || self.identify(spec).map(drop);
        surplus::delete(&self.stores.target(&spec.store)?, spec, order, &check)
    }

    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem> {
        let target = self.stores.target(&spec.store)?;
        let marker = target.read_marker(spec.transfer).ok().flatten();
        if spec.durability != Durability::None {
            target.reserve_marker(spec.transfer).map_err(|error| full_problem(&error))?;
        }
        let parts = TaskParts {
            target,
            // A store that keeps nothing has every marker.
            marker: marker.filter(|marker| *marker != u64::MAX).unwrap_or(0),
            identity: self.identify(spec)?,
            reach: self.reach(spec)?,
            pool: self.pool.clone(),
            allow_privileged: self.stores.spec(&spec.store)?.allow_privileged,
        };
        Ok(Arc::new(RunningTask::start(spec, control, parts)?))
    }

    fn prove(&self, spec: &TaskSpec, request: &ProofRequest<'_>) -> Result<PageProof, Problem> {
        let target = self.stores.target(&spec.store)?;
        if matches!(target, Target::Null) {
            let title = format!("store `{}` keeps nothing that could be read again", spec.store);
            return Err(Problem::new(Exit::Usage, "proof", title)
                .hint("leave out `--readback` and `--also-digest`"));
        }
        let (root, kind, pool) = (spec.root.0.as_slice(), spec.digest, &self.pool);
        Ok(Prover { target: &target, root, kind, pool }.prove(request))
    }

    fn clean(
        &self,
        spec: &TaskSpec,
        pages: &mut dyn Iterator<Item = TaskPage>,
        generation_max: u32,
    ) {
        let Ok(target) = self.stores.target(&spec.store) else { return };
        for page in pages {
            for (index, entry) in page.page.entries().iter().enumerate() {
                if entry.kind == EntryKind::Directory {
                    continue;
                }
                let (parent, _) = place(&spec.root.0, &page.page, entry);
                let Ok(dir) = target.open_dir(&parent) else { continue };
                for generation in 0..=generation_max {
                    let name = temporary_name(&TemporaryKey {
                        transfer: spec.transfer,
                        page: page.digest,
                        entry: index as u32,
                        size: entry.size,
                        mtime: entry.mtime,
                        identity: entry.identity,
                        generation,
                    });
                    if let Err(error) = target.remove(&dir, &name) {
                        tracing::warn!(error = %chain(&error), "a temporary file is left");
                    }
                }
            }
        }
        if let Err(error) = target.remove_marker(spec.transfer) {
            tracing::warn!(error = %chain(&error), "a sync marker is left");
        }
    }
}

/// A request of ours that does not fit its page.
pub(crate) fn protocol_problem(error: &dyn std::error::Error) -> Problem {
    Problem::new(Exit::Fatal, "protocol", "a request does not fit its page").because(chain(error))
}
