//! Calls between a target's controller and one of its peers while a transfer runs.
//!
//! The controller hands out [`Work`]; the peer answers with [`Report`]s. Both are plain data, so
//! that the same types serve a peer in the same process and one across the network. A peer keeps a
//! report until the controller has committed it, and repeats it to the next controller (hard case
//! A7).

use std::sync::Arc;
use std::time::Duration;

use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::Framing;
use penstock_proto::id::{Name, TransferId, WriterId};
use penstock_proto::journal::Incarnation;
use penstock_proto::manifest::Page;
use penstock_proto::network::DataAddress;
pub use penstock_proto::task::{Report, Work, WorkReply};
use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};

use crate::options::limits::{Limits, Share, ShareUsed};
use crate::options::preserve::{NotKept, Preserve};
use crate::options::select::Selection;
use crate::options::update::UpdateOptions;
use crate::outcome::Durability;
use crate::place::PathText;
use crate::plan::PlanItem;
use crate::problem::{Problem, ProblemCode};
use crate::proof::{PageProof, ProofProgress, ProofRequest};
use crate::run::delete::{DeleteOrder, SurplusQuery};
use crate::run::fence::Fence;

pub use crate::run::task_page::TaskPage;

/// Access of a target peer to the data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SourceAccess {
    /// A store that this host reaches itself: it reads, hashes and writes without a lane.
    Local {
        /// The store.
        store: Name,
        /// Root of the data set within it.
        root: PathText,
    },
    /// Peers of another site, or other peers of the own one: those that reach the store.
    Remote {
        /// The site; its certificates must say so.
        site: Name,
        /// True for the own site: then all attributes may be kept, and owners have the same
        /// numbers.
        own_site: bool,
        /// Addresses at which its peers listen for lanes.
        peers: Vec<DataAddress>,
        /// Signed capability, see [`penstock_proto::capability`].
        capability: Vec<u8>,
    },
}

impl SourceAccess {
    /// Returns the store that a peer has to reach itself, if there is one.
    pub fn own_store(&self) -> Option<&Name> {
        match self {
            Self::Local { store, .. } => Some(store),
            Self::Remote { .. } => None,
        }
    }

    /// Returns whether the data set is one of the own site.
    pub fn is_of_own_site(&self) -> bool {
        match self {
            Self::Local { .. } => true,
            Self::Remote { own_site, .. } => *own_site,
        }
    }
}

/// A file system that is mounted within a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MountSeen {
    /// Mount point, relative to the store's root.
    pub at: PathText,
    /// Its type, as the kernel calls it.
    pub kind: String,
}

/// Share of a target peer in a transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The transfer.
    pub transfer: TransferId,
    /// Store at the target.
    pub store: Name,
    /// Root of the data set within it, which the entry with the empty path becomes.
    pub root: PathText,
    /// Random id of the store when the transfer first wrote there; 0 if it never has (A5).
    pub store_id: u64,
    /// File systems mounted below the data set's root, as the transfer found them: all of them have
    /// to be there (A5).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountSeen>,
    /// Identity under which the peer writes: part of the names of its sync marker, and of the
    /// temporary files that it alone writes (B1).
    pub writer: WriterId,
    /// The last sync epoch of this writer that succeeded; its marker must be at least this (A5).
    pub epoch: u64,
    /// True if the store is older than the ledger (A5). Its marker is not changed until
    /// [`Task::doubt_is_over`], so that another crash does not hide that.
    pub doubt: bool,
    /// Source of the data.
    pub source: SourceAccess,
    /// Hash that verifies the data.
    pub digest: DigestKind,
    /// Protection of the data on lanes.
    pub framing: Framing,
    /// Policy that defines when a file counts as durable.
    pub durability: Durability,
    /// True if standard digests are wanted of files with holes too, unless nearly all of a file is
    /// holes (D2).
    pub digest_list: bool,
    /// True if files are read again in the end, and compared with their standard digests, including
    /// files that are nearly all holes.
    pub proves: bool,
    /// Attributes to preserve.
    pub preserve: Preserve,
    /// Most lanes at a time; 0 lets the engine decide.
    pub lanes_max: u32,
    /// Exactly so many lanes; 0 lets the engine decide.
    pub lanes: u32,
    /// Limits to what it may use.
    pub limits: Limits,
    /// Treatment of what exists at the target.
    pub update: UpdateOptions,
    /// Start of the transfer, by the clock of the target's controller. Files put into the backup
    /// directory since then are not replaced there. Known where there is a backup directory.
    pub began: FileTime,
    /// Selection at the source: items outside it are not deleted.
    pub select: Selection,
    /// True if what was moved is removed at the source afterwards.
    pub remove_source: bool,
    /// Right of the controller to act: asked before each rename and removal, and before each write
    /// where there is no grant (B4). It does not travel: a peer on another host makes its own fence
    /// of what it was told.
    #[serde(skip)]
    pub fence: Fence,
    /// Time for which the peer may write after it last asked an answering controller: checked
    /// before each write, rename and removal (B1). `None` if the site has only one peer.
    pub grant: Option<Duration>,
}

impl TaskSpec {
    /// Returns the spec of a task that writes nothing, for finding leftovers of a transfer below
    /// `root` of a store.
    pub fn of_cleaning(transfer: TransferId, store: Name, root: PathText) -> Self {
        Self {
            transfer,
            source: SourceAccess::Local { store: store.clone(), root: PathText::default() },
            store,
            root,
            store_id: 0,
            mounts: Vec::new(),
            writer: WriterId::SOLE,
            epoch: 0,
            doubt: false,
            digest: DigestKind::Blake3,
            framing: Framing::Tls,
            durability: Durability::default(),
            digest_list: false,
            proves: false,
            preserve: Preserve::default(),
            lanes_max: 0,
            lanes: 0,
            limits: Limits::default(),
            update: UpdateOptions::default(),
            began: FileTime::default(),
            select: Selection::default(),
            remove_source: false,
            fence: Fence::default(),
            grant: None,
        }
    }

    /// Returns the share of the task before it is given another.
    pub fn share(&self) -> Share {
        Share {
            serial: 0,
            rate_bits_per_s: self.limits.rate_bits_per_s,
            metadata_ops_per_s: self.limits.metadata_ops_per_s,
            lanes_max: self.lanes_max,
            lanes: self.lanes,
        }
    }
}

/// Answer of a controller to a task that reports that it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Its grant holds for its duration again, counted from the question.
    Granted,
    /// There was no answer.
    Unheard,
    /// The task takes no part any more: its work in hand belongs to another.
    Over,
}

/// The controller's side, as a peer calls it. No method blocks for longer than the reading of a
/// page.
pub trait TaskControl: Send + Sync {
    /// Returns more work, worth about `bytes` if there is that much.
    fn want(&self, bytes: u64) -> WorkReply;

    /// Returns a page that work named.
    ///
    /// # Errors
    /// The page cannot be read from the journal store.
    fn page(&self, number: u32) -> Result<TaskPage, Problem>;

    /// Returns whether the entry with other names at this path in the data set has failed: no
    /// further name may then be given to what is there instead (B6). To be asked when all files are
    /// durable; costs only a look where nothing has failed.
    fn has_failed(&self, path: &[u8]) -> bool;

    /// Returns whether [`TaskControl::has_failed`] may return true for any path. Where asking is a
    /// round trip, a peer then need not ask for each.
    fn may_have_failed(&self) -> bool {
        true
    }

    /// Takes over reports, in order. They count from then on as long as the controller lives; they
    /// are committed within a second.
    fn report(&self, reports: Vec<Report>);

    /// Reports that the task cannot continue. If it was the last one, the transfer stops with this
    /// problem.
    fn broken(&self, problem: Problem);

    /// Reports that the task is alive. To be called several times in the duration of a grant, which
    /// this renews.
    fn alive(&self) -> LeaseStatus {
        LeaseStatus::Granted
    }
}

/// Free space in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Bytes that may still be written.
    pub free_bytes: u64,
    /// Files that may still be made; `None` where their number has no limit of its own.
    pub free_files: Option<u64>,
}

/// Value of [`TaskFigures::limit`] for a task that has nothing to do.
pub const LIMIT_SCAN: &str = "the scan";

/// Measurements of a task at its peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskFigures {
    /// Bytes of payload that arrived and were verified.
    pub bytes_verified: u64,
    /// Bytes of payload that arrived and were thrown away, or asked for a second time.
    pub bytes_resent: u64,
    /// Pieces repaired after a digest mismatch.
    pub repairs: u64,
    /// Lanes open now.
    pub lanes: u32,
    /// Limit of the rate now, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub limit: String,
    /// Event that the task waits for, and until when; empty if it moves.
    #[serde(deserialize_with = "crate::text::field")]
    pub waiting: String,
    /// Seconds for which its current call to the store has given no sign of life (E2); 0 if there
    /// is no such call.
    #[serde(default)]
    pub hangs_s: u64,
    /// Attributes that were not kept, in this run.
    pub not_kept: Vec<NotKept>,
    /// CPU seconds of the whole process since the task began.
    pub cpu_seconds: f64,
    /// Addresses over which its lanes went and their protection, in words; some of them, if there
    /// are many. None where source and target are one host.
    pub paths: Vec<String>,
    /// Share in the limits of its transfer, as it was last told.
    pub share: Share,
    /// Use of the rate, while there was a limit.
    pub rate_used: ShareUsed,
    /// Use of the metadata operations, while there was a limit.
    pub names_used: ShareUsed,
}

/// Work of an earlier task of the same writer for a controller that did not commit it (A7). That
/// task ran in the same process and under the same circumstances as the task that reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Epoch of that controller.
    pub epoch: u64,
    /// True if it wrote under a grant that held until the new task began: no other peer was given
    /// the same work. Otherwise that holds for the next controller only.
    pub granted: bool,
    /// The reports, all of them [`Report::Written`].
    pub reports: Vec<Report>,
}

/// A running task.
pub trait Task: Send + Sync {
    /// Returns the present measurements.
    fn figures(&self) -> TaskFigures;

    /// Returns the circumstances under which it began to write, after the previous task there had
    /// ended: a failed sync of that one is counted (A4).
    fn incarnation(&self) -> Incarnation;

    /// Takes the work of an earlier task for the present controller; returned once.
    fn take_adopted(&self) -> Option<Adopted> {
        None
    }

    /// Says that the ledger has committed the first `batches` calls of [`TaskControl::report`].
    fn committed(&self, batches: u64) {
        let _ = batches;
    }

    /// Makes the task ask for work, since there may be some now; for a task at another host, makes
    /// the controller examine its last question again. A task that is not woken asks by itself, a
    /// moment later. Never blocks for long.
    fn wake(&self) {}

    /// Says that its controller is deposed and silent from now on. The task keeps uncommitted work
    /// for the next controller, and continues for as long as it has a grant. Never blocks for long.
    fn leave(&self) {
        self.stop(false);
    }

    /// Returns how long it has been hanging in a call to its store: [`TaskFigures::hangs_s`].
    fn hangs_for(&self) -> Duration {
        Duration::ZERO
    }

    /// Says that everything in the ledger has been checked again: epochs mark the store from now
    /// on.
    fn doubt_is_over(&self);

    /// Sets the share for the time from now on.
    fn set_share(&self, share: &Share);

    /// Sets the addresses at which the source's peers listen for lanes now; new ones are used too.
    /// Does nothing where the data set is read here.
    fn set_source_peers(&self, peers: &[DataAddress]);

    /// Stops fetching, ends what is in progress, hands over its last reports, joins its threads.
    /// With `discard` it removes the temporary files that it knows.
    fn stop(&self, discard: bool);
}

/// Facts about a store before a task begins there. The circumstances under which the task writes
/// are known only to the task itself ([`Task::incarnation`]): an earlier one may still be ending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStart {
    /// Random id of the store; 0 for one that stores nothing.
    pub store: u64,
    /// The store's sync marker for this transfer; 0 if it has none (A5).
    pub marker: u64,
    /// Method by which the store is made durable, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub durable_by: String,
    /// File systems mounted below the data set's root: see [`TaskSpec::mounts`].
    pub mounts: Vec<MountSeen>,
}

/// Result of checking files that may have been written to late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mended {
    /// Files whose attributes a late write had changed: they are restored.
    pub mended: u64,
    /// Files that another program has changed, replaced or removed since they were finished.
    pub others: u64,
}

/// A host's target side, as its controller drives it.
pub trait TargetPeer: Send + Sync {
    /// Returns whether a path within a store is a directory, something else, or not there.
    ///
    /// # Errors
    /// The store is unknown or not there.
    fn root_kind(
        &self,
        store: &Name,
        path: &PathText,
    ) -> Result<Option<crate::run::scan::RootKind>, Problem>;

    /// Checks the store (A5) and describes it.
    ///
    /// # Errors
    /// The store is unknown, offline, another one than before, or read-only.
    fn prepare(&self, spec: &TaskSpec) -> Result<TaskStart, Problem>;

    /// Examines the target under the names of a page's entries, and decides by `spec.update` which
    /// entries stay as they are. The entries `left` stay unconditionally, and are not examined.
    /// Updates the attributes of entries that stay. Called from several threads, before the page is
    /// opened in the ledger; blocks for about a stat of each entry.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says.
    fn compare(&self, spec: &TaskSpec, page: &Page, left: &EntrySet)
    -> Result<Comparison, Problem>;

    /// Returns the id of a store, as [`TaskSpec::store_id`]; `None` if it has none yet. Writes
    /// nothing.
    ///
    /// # Errors
    /// The store is unknown, or offline.
    fn store_id(&self, store: &Name) -> Result<Option<u64>, Problem>;

    /// Announces a task that writes to `store` and fetches from another site, over at most
    /// `lanes_max` lanes (0: as many as are best), so that connections can be made meanwhile.
    /// `peers` are the known addresses of lanes if that site is far. Returns at once; the task need
    /// not follow.
    fn expect_source(&self, store: &Name, site: &Name, peers: &[DataAddress], lanes_max: u32) {
        let _ = (store, site, peers, lanes_max);
    }

    /// Returns the free space of a store, as its file system reports it; quotas are mostly unknown.
    ///
    /// # Errors
    /// The store is unknown, or offline; the free space is unknown.
    fn room(&self, store: &Name) -> Result<Room, Problem> {
        let title = format!("nobody tells how much room is left in store `{store}`");
        Err(Problem::new(ProblemCode::Room, title))
    }

    /// Returns for each entry of a page, in order, what a transfer would do with it now: the
    /// decision of [`TargetPeer::compare`], and its consequences. Writes nothing. A `spec` without
    /// the id of a store is for a store that has none yet.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says.
    fn look(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<PlanItem>, Problem>;

    /// Returns the files of a page that have the size of their entries at the target, whatever
    /// their content: ascending.
    ///
    /// # Errors
    /// Errors of [`TargetPeer::compare`].
    fn same_size(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<u32>, Problem> {
        let _ = (spec, page);
        Ok(Vec::new())
    }

    /// Compares as [`TargetPeer::compare`], but files of one size are the same if their BLAKE3 is
    /// that of `digests`. Reads these files; `progress` stops it.
    ///
    /// # Errors
    /// Errors of [`TargetPeer::compare`]; it was stopped.
    fn compare_contents(
        &self,
        spec: &TaskSpec,
        page: &Page,
        digests: &[(u32, String)],
        progress: &ProofProgress,
    ) -> Result<Comparison, Problem> {
        let _ = (digests, progress);
        self.compare(spec, page, &EntrySet::default())
    }

    /// Lists the items at the target below the data set's root that are not in the data set. Leaves
    /// out our own names, the backup directory and what the query does not choose. Returns the
    /// number of items. Blocks for a walk of the target, and writes nothing there.
    ///
    /// # Errors
    /// The target cannot be listed completely, or is another than `spec` says: then nothing may be
    /// deleted.
    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem>;

    /// Deletes the items that were found, or moves them to the backup directory. An item that has
    /// changed since stays, and is reported as failed.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says; it was stopped.
    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem>;

    /// Starts the threads of a task.
    ///
    /// # Errors
    /// Errors of [`TargetPeer::prepare`].
    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem>;

    /// Reads files of a page again, all of them durable. Blocks for as long as that takes; the
    /// request's progress shows how far it is, and stops it.
    ///
    /// # Errors
    /// The store is not there, or this target cannot be read.
    fn prove(&self, spec: &TaskSpec, request: &ProofRequest<'_>) -> Result<PageProof, Problem> {
        let _ = request;
        let title = format!("the files of store `{}` cannot be read again", spec.store);
        Err(Problem::new(ProblemCode::ProofUnsupported, title))
    }

    /// Returns which of these durable entries of a page exist at the target as they were made
    /// there: no others are removed at the source. Costs one look at each.
    ///
    /// # Errors
    /// The store is offline, another than `spec` says, or one that stores nothing.
    fn confirm(&self, spec: &TaskSpec, page: &Page, wanted: &EntrySet)
    -> Result<EntrySet, Problem>;

    /// Checks files of a page that have their names, and to which an abandoned peer may have
    /// written since. Restores attributes that a late write has changed, and makes that durable
    /// (B1). `files` are those of more than one piece, by entry, with their standard digest in
    /// hexadecimal. Files that another program has changed stay as they are. Reads the files whose
    /// attributes have changed.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says.
    fn mend(
        &self,
        spec: &TaskSpec,
        page: &Page,
        files: &[(u32, String)],
    ) -> Result<Mended, Problem> {
        let _ = (page, files);
        let title = format!("attributes in store `{}` cannot be looked at again", spec.store);
        Err(Problem::new(ProblemCode::Mend, title))
    }

    /// Removes the sync marker of the writer of `spec` for a transfer that has ended, and the
    /// temporary files that it may have left. These are files of the entries of `pages` in
    /// generations up to `generation_max`, including shared ones. A file that is not at the target
    /// is no error, nor is one file that cannot be removed; both are logged. May be repeated.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says, now or during the removal: more may be
    /// left to remove when it is back.
    fn clean(
        &self,
        spec: &TaskSpec,
        pages: &mut dyn Iterator<Item = TaskPage>,
        generation_max: u32,
    ) -> Result<(), Problem>;
}
