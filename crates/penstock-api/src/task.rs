//! What a target's controller and one of its peers say to each other while a transfer runs.
//!
//! The controller hands out [`Work`]; the peer answers with [`Report`]s. Both are plain data, so
//! that the same words serve a peer in the same process and one across the network. A peer keeps a
//! report until the controller has committed it, and tells the next controller (hard case A7).

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

use crate::delete::{DeleteOrder, SurplusQuery};
use crate::fence::Fence;
use crate::limits::{Limits, Share, ShareUsed};
use crate::outcome::Durability;
use crate::place::PathText;
use crate::plan::PlanItem;
use crate::preserve::{NotKept, Preserve};
use crate::problem::{Exit, Problem};
use crate::proof::{PageProof, ProofProgress, ProofRequest};
use crate::select::Selection;
use crate::update::UpdateOptions;

pub use crate::task_page::TaskPage;

/// Where a target peer gets the data from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SourceAccess {
    /// A store that this host reaches itself: read, hash, write, no lane between.
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
        /// Whether it is the own one: then all attributes may be kept, and owners have the same
        /// numbers.
        own_site: bool,
        /// Where its peers listen for lanes.
        peers: Vec<DataAddress>,
        /// Signed capability, see [`penstock_proto::capability`].
        capability: Vec<u8>,
    },
}

impl SourceAccess {
    /// The store that a peer has to reach itself, if it is one.
    pub fn own_store(&self) -> Option<&Name> {
        match self {
            Self::Local { store, .. } => Some(store),
            Self::Remote { .. } => None,
        }
    }

    /// Whether the data set is one of the own site.
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
    /// Where, relative to the store's root.
    pub at: PathText,
    /// Its type, as the kernel calls it.
    pub kind: String,
}

/// One target peer's share of one transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The transfer.
    pub transfer: TransferId,
    /// Store at the target.
    pub store: Name,
    /// Root of the data set within it: what the entry with the empty path becomes.
    pub root: PathText,
    /// Random id of the store when the transfer first wrote there; 0 if it never has (A5).
    pub store_id: u64,
    /// What is mounted where the data set goes, as the transfer found it: all of it has to be there
    /// (A5).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountSeen>,
    /// Whom the peer writes as: part of the names of its sync marker, and of the temporary files
    /// that it alone writes (B1).
    pub writer: WriterId,
    /// The last sync epoch of this writer that succeeded; its marker must be at least this (A5).
    pub epoch: u64,
    /// The store is older than the ledger (A5): its marker is left alone, so that another crash
    /// does not hide that, until [`Task::doubt_is_over`].
    pub doubt: bool,
    /// From where.
    pub source: SourceAccess,
    /// Which hash verifies the data.
    pub digest: DigestKind,
    /// How lanes protect it.
    pub framing: Framing,
    /// When a file counts as durable.
    pub durability: Durability,
    /// Whether standard digests are wanted of files with holes too, unless they are nearly all
    /// holes (D2).
    pub digest_list: bool,
    /// Whether files are read again in the end, and compared with their standard digests: those
    /// that are nearly all holes too.
    pub proves: bool,
    /// Which attributes are kept.
    pub preserve: Preserve,
    /// Most lanes at a time; 0 lets the engine decide.
    pub lanes_max: u32,
    /// Exactly so many lanes; 0 lets the engine decide.
    pub lanes: u32,
    /// How much of the world it may use.
    pub limits: Limits,
    /// How it treats what is there already.
    pub update: UpdateOptions,
    /// When the transfer began, by the clock of the target's controller: what was put into the
    /// backup directory since then is not replaced there. Known where there is one.
    pub began: FileTime,
    /// What of the source was chosen: what was not is not deleted.
    pub select: Selection,
    /// Whether what was moved is removed at the source afterwards.
    pub remove_source: bool,
    /// Whether the controller may still act: asked before each rename and removal, and before each
    /// write where there is no grant (B4). Does not travel: a peer on another host makes its own of
    /// what it was told.
    #[serde(skip)]
    pub fence: Fence,
    /// How long the peer may write after it last asked an answering controller: asked before each
    /// write, rename and removal (B1). `None` where one peer is all there is.
    pub grant: Option<Duration>,
}

impl TaskSpec {
    /// Of a task that writes nothing: for looking for what a transfer has left below `root` of a
    /// store.
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

    /// What the task may use before it is told a share.
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

/// What a controller says to a task that tells that it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Its grant holds for its duration again, counted from the question.
    Granted,
    /// There was no answer.
    Unheard,
    /// It takes no part any more: what it has in hand is another's.
    Over,
}

/// The controller's side, as a peer calls it. No method blocks for longer than a page is read.
pub trait TaskControl: Send + Sync {
    /// More work, worth about `bytes` if there is that much.
    fn want(&self, bytes: u64) -> WorkReply;

    /// A page that work named.
    ///
    /// # Errors
    /// It cannot be read from the journal store.
    fn page(&self, number: u32) -> Result<TaskPage, Problem>;

    /// Whether what has other names, and stands under this path in the data set, has failed: no
    /// further name may be given to what is there instead (B6). To be asked when all files are
    /// durable; costs no more than a look where nothing has failed.
    fn has_failed(&self, path: &[u8]) -> bool;

    /// Whether [`TaskControl::has_failed`] may say yes of any path: where asking is a round trip, a
    /// peer need not ask of each.
    fn may_have_failed(&self) -> bool {
        true
    }

    /// Takes over reports, in order. They count from then on as long as the controller lives; they
    /// are committed within a second.
    fn report(&self, reports: Vec<Report>);

    /// The task cannot go on. Where it was the last one, the transfer stops with this problem.
    fn broken(&self, problem: Problem);

    /// The task lives. To be called several times in the duration of a grant, which this renews.
    fn alive(&self) -> LeaseStatus {
        LeaseStatus::Granted
    }
}

/// Code: the target has no room, or no quota, for more.
pub const TARGET_FULL: &str = "target-full";

/// Room that is left in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Bytes that may still be written.
    pub free_bytes: u64,
    /// Files that may still be made; `None` where their number has no limit of its own.
    pub free_files: Option<u64>,
}

/// What limits a task that has nothing to do: as [`TaskFigures::limit`].
pub const LIMIT_SCAN: &str = "the scan";

/// What a peer measures of a task.
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
    /// What limits the rate now, in words.
    pub limit: String,
    /// What the task waits for and until when; empty if it moves.
    pub waiting: String,
    /// Seconds for which the call to its store that it is in has given no sign of life (E2); 0 if
    /// it is in none.
    #[serde(default)]
    pub hangs_s: u64,
    /// Attributes that were not kept, in this run.
    pub not_kept: Vec<NotKept>,
    /// CPU seconds of the whole process since the task began.
    pub cpu_seconds: f64,
    /// Over which addresses its lanes went and what protected them, in words: some of them, if they
    /// are many. None where source and target are one host.
    pub paths: Vec<String>,
    /// What it may use of the limits of its transfer, as it has heard it.
    pub share: Share,
    /// What it used of the rate, while there was a limit.
    pub rate_used: ShareUsed,
    /// And of the metadata operations.
    pub names_used: ShareUsed,
}

/// What an earlier task of the same writer wrote for a controller that did not commit it (A7). It
/// ran in the same process and under the same circumstances as the task that tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Epoch of that controller.
    pub epoch: u64,
    /// Whether it wrote under a grant that held until the new task began: nobody else was given
    /// what it tells. Otherwise that is so for the controller that comes next, and for no other.
    pub granted: bool,
    /// What is written, all of it [`Report::Written`].
    pub reports: Vec<Report>,
}

/// A running task.
pub trait Task: Send + Sync {
    /// What is measured now.
    fn figures(&self) -> TaskFigures;

    /// Under which circumstances it began to write, after what ran there before had ended: a sync
    /// of that which failed is counted (A4).
    fn incarnation(&self) -> Incarnation;

    /// What an earlier task has left for whoever leads now, told once.
    fn take_adopted(&self) -> Option<Adopted> {
        None
    }

    /// The ledger has committed what the first `batches` calls of [`TaskControl::report`] said.
    fn committed(&self, batches: u64) {
        let _ = batches;
    }

    /// Has it ask for work, since there may be some now; of a task at another host, has its last
    /// question looked at again. One that is not woken asks by itself, a moment later. Never blocks
    /// for long.
    fn wake(&self) {}

    /// Its controller is one no more and says nothing more to it: it keeps what was not committed
    /// for the next one, and where it has a grant it goes on as long as that holds. Never blocks
    /// for long.
    fn leave(&self) {
        self.stop(false);
    }

    /// For how long it hangs in a call to its store: [`TaskFigures::hangs_s`].
    fn hangs_for(&self) -> Duration {
        Duration::ZERO
    }

    /// Everything that the ledger knows has been looked at again: epochs mark the store from now.
    fn doubt_is_over(&self);

    /// What it may use from now on.
    fn set_share(&self, share: &Share);

    /// Where the source's peers listen for lanes now: those that were not known are used too. Does
    /// nothing where the data set is read here.
    fn set_source_peers(&self, peers: &[DataAddress]);

    /// Stops fetching, ends what is in progress, hands over its last reports, joins its threads.
    /// With `discard` the temporary files it knows are removed.
    fn stop(&self, discard: bool);
}

/// What a peer says of a store before a task begins there. Under which circumstances that writes,
/// only the task itself can say ([`Task::incarnation`]): an earlier one may still be ending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStart {
    /// Random id of the store; 0 of one that keeps nothing.
    pub store: u64,
    /// The store's sync marker for this transfer; 0 if it has none (A5).
    pub marker: u64,
    /// How the store is made durable, in words.
    pub durable_by: String,
    /// What is mounted where the data set goes: see [`TaskSpec::mounts`].
    pub mounts: Vec<MountSeen>,
}

/// What came of looking again at files that may have been written to late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mended {
    /// Files whose attributes a late write had moved: they are as they were made again.
    pub mended: u64,
    /// Files that somebody else has changed, replaced or removed since they were finished.
    pub others: u64,
}

/// A host's target side, as its controller drives it.
pub trait TargetPeer: Send + Sync {
    /// Whether a path within a store is a directory, something else, or not there.
    ///
    /// # Errors
    /// The store is not known or not there.
    fn root_kind(
        &self,
        store: &Name,
        path: &PathText,
    ) -> Result<Option<crate::scan::RootKind>, Problem>;

    /// Checks the store (A5) and says what it is.
    ///
    /// # Errors
    /// The store is unknown, offline, another one than before, or read-only.
    fn prepare(&self, spec: &TaskSpec) -> Result<TaskStart, Problem>;

    /// Looks at what stands under the names of a page's entries, and decides by `spec.update`
    /// what stays as it is; the entries `left` stay whatever they are, and are not looked at.
    /// Attributes of what stays are brought up to date. Called from several threads, before the
    /// page is opened in the ledger; blocks for about a stat of each entry.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says.
    fn compare(&self, spec: &TaskSpec, page: &Page, left: &EntrySet)
    -> Result<Comparison, Problem>;

    /// The id of a store, as [`TaskSpec::store_id`]; `None` if it has none yet. Nothing is written.
    ///
    /// # Errors
    /// The store is not known, or offline.
    fn store_id(&self, store: &Name) -> Result<Option<u64>, Problem>;

    /// A task is about to begin that writes to `store` and fetches from another site, over so many
    /// lanes at the most (0: as many as are best): connections may be made meanwhile. `peers` is
    /// where lanes may go if that site is far, as far as is known. Returns at once; nothing need
    /// come of it.
    fn expect_source(&self, store: &Name, site: &Name, peers: &[DataAddress], lanes_max: u32) {
        let _ = (store, site, peers, lanes_max);
    }

    /// Room that is left in a store, as its file system tells; of quotas it mostly tells nothing.
    ///
    /// # Errors
    /// The store is not known, or offline; nobody can tell.
    fn room(&self, store: &Name) -> Result<Room, Problem> {
        let title = format!("nobody tells how much room is left in store `{store}`");
        Err(Problem::new(Exit::Temporary, "room", title))
    }

    /// Says of each entry of a page, in order, what a transfer would do with it now: what
    /// [`TargetPeer::compare`] would decide, and what follows from that. Nothing is written; a
    /// `spec` without the id of a store is of one that has none yet.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says.
    fn look(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<PlanItem>, Problem>;

    /// Files of a page that have the size of their entries at the target, whatever is in them:
    /// ascending.
    ///
    /// # Errors
    /// As [`TargetPeer::compare`].
    fn same_size(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<u32>, Problem> {
        let _ = (spec, page);
        Ok(Vec::new())
    }

    /// As [`TargetPeer::compare`], where files of one size are the same if their BLAKE3 is that of
    /// `digests`. Reads these files; `progress` stops it.
    ///
    /// # Errors
    /// As [`TargetPeer::compare`]; it was stopped.
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

    /// Lists what is at the target below the data set's root and not in the data set, our own
    /// names, the backup directory and what the query does not choose left out; gives how many
    /// items. Blocks for a walk of it. Nothing is written at the target.
    ///
    /// # Errors
    /// The target cannot be listed completely, or is another than `spec` says: nothing may be
    /// deleted then.
    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem>;

    /// Deletes what was found, or moves it to the backup directory; what has changed since stays,
    /// and is handed over as failed.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says; it was stopped.
    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem>;

    /// Starts the threads of a task.
    ///
    /// # Errors
    /// As [`TargetPeer::prepare`].
    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem>;

    /// Reads files of a page again: all of them are durable. Blocks for as long as that takes; the
    /// request's progress says how far it is, and stops it.
    ///
    /// # Errors
    /// The store is not there, or this target cannot be read.
    fn prove(&self, spec: &TaskSpec, request: &ProofRequest<'_>) -> Result<PageProof, Problem> {
        let _ = request;
        let title = format!("the files of store `{}` cannot be read again", spec.store);
        Err(Problem::new(Exit::Fatal, "proof", title))
    }

    /// Which of these entries of a page, all of them durable, stand at the target as they were made
    /// there: nothing else is removed at the source. One look at each.
    ///
    /// # Errors
    /// The store is offline, another than `spec` says, or one that keeps nothing.
    fn confirm(&self, spec: &TaskSpec, page: &Page, wanted: &EntrySet)
    -> Result<EntrySet, Problem>;

    /// Looks again at files of a page that have their names, and to which a peer that was given up
    /// may have written since: sets attributes again that a late write has moved, and makes that
    /// durable (B1). `files` are those of more than one piece, by entry, with their standard digest
    /// in hexadecimal: what somebody else has changed stays as it is. Reads what has moved.
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
        Err(Problem::new(Exit::Temporary, "mend", title))
    }

    /// Removes the sync marker that the writer of `spec` has left of a transfer that has ended, and
    /// the temporary files that it may have left: those of the entries of `pages` in generations up
    /// to `generation_max`, shared ones included. What is not at the target is no error, nor is one
    /// file that cannot be removed; both are logged. May be asked again.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says, now or in the midst of it: there may be
    /// more to remove when it is back.
    fn clean(
        &self,
        spec: &TaskSpec,
        pages: &mut dyn Iterator<Item = TaskPage>,
        generation_max: u32,
    ) -> Result<(), Problem>;
}
