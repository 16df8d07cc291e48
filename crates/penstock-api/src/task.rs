//! What a target's controller and one of its peers say to each other while a transfer runs.
//!
//! The controller hands out [`Work`]; the peer answers with [`Report`]s. Both are plain data, so
//! that the same words serve a peer in the same process and one across the network. A peer keeps a
//! report until the controller has committed it (hard case A7).

use std::net::SocketAddr;
use std::sync::Arc;

use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::frame::Framing;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::journal::{EntryDigest, EntryFailure, Incarnation};
use penstock_proto::manifest::Page;
use penstock_proto::slicing::PieceRef;

use crate::problem::Problem;
use crate::transfer::{Durability, PathText};

/// Where a target peer gets the data from.
#[derive(Clone, Debug)]
pub enum SourceAccess {
    /// A store that this host reaches itself: read, hash, write, no lane between.
    Local {
        /// The store.
        store: Name,
        /// Root of the data set within it.
        root: PathText,
    },
    /// Peers of another site.
    Remote {
        /// The site; its certificates must say so.
        site: Name,
        /// Where its peers listen for lanes.
        peers: Vec<SocketAddr>,
        /// Signed capability, see [`penstock_proto::capability`].
        capability: Vec<u8>,
    },
}

/// One target peer's share of one transfer.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// The transfer.
    pub transfer: TransferId,
    /// Store at the target.
    pub store: Name,
    /// Root of the data set within it: what the entry with the empty path becomes.
    pub root: PathText,
    /// Random id of the store when the transfer first wrote there; 0 if it never has (A5).
    pub store_id: u64,
    /// The last sync epoch that succeeded; the store's marker must be at least this (A5).
    pub epoch: u64,
    /// From where.
    pub source: SourceAccess,
    /// Which hash verifies the data.
    pub digest: DigestKind,
    /// How lanes protect it.
    pub framing: Framing,
    /// When a file counts as durable.
    pub durability: Durability,
    /// Whether standard digests are wanted of files with holes too (D2).
    pub digest_list: bool,
    /// Most lanes at a time; 0 lets the engine decide.
    pub lanes_max: u32,
}

/// A page as a peer needs it.
#[derive(Clone, Debug)]
pub struct TaskPage {
    /// The page.
    pub page: Arc<Page>,
    /// Digest of its encoded bytes.
    pub digest: Digest,
}

/// One thing that a peer is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Fetch a piece, check it, write it.
    Fetch {
        /// Which.
        piece: PieceRef,
        /// Attempt at the file (hard case B1).
        generation: u32,
        /// No extent of the file was ever written in this generation: its temporary file is to be
        /// made anew. Always true of packs.
        fresh: bool,
    },
    /// The piece was written before a restart. With `doubt` its bytes are read back and compared
    /// with `digests`; without, they are as good as written just now (A2, A5).
    Recheck {
        /// Which.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// Whether a power cut, another mount or another store may have lost it.
        doubt: bool,
        /// What the ledger knows of its files or its extent.
        digests: Vec<EntryDigest>,
        /// Entries of it that failed for good.
        failures: Vec<EntryFailure>,
    },
    /// All extents of a file are durable: give it its attributes and its name (A6).
    Finish {
        /// The finish piece of the file.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
    },
    /// Remove what was begun of a file that failed.
    Discard {
        /// Number of the page.
        page: u32,
        /// Index of the entry.
        entry: u32,
        /// Attempt at the file.
        generation: u32,
    },
    /// Make the directories and links of a page; its files are all there.
    Links {
        /// Number of the page.
        page: u32,
    },
    /// Set the attributes of the directories of a page, last to first.
    Directories {
        /// Number of the page.
        page: u32,
    },
}

/// What a peer has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A piece is written (or was found written), under temporary names.
    Written {
        /// Which.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// The sync epoch in which the last of its writes returned.
        epoch: u64,
        /// Digests of its files, or of its extent.
        digests: Vec<EntryDigest>,
        /// Entries of it that failed for good.
        failures: Vec<EntryFailure>,
        /// Whether its bytes came over the network now, rather than being found.
        fetched: bool,
    },
    /// A piece, or a finished file, is not there and could not be had: it is missing again.
    Returned {
        /// Which.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
    },
    /// The temporary file of a large file is gone: all its extents are missing.
    Lost {
        /// Number of the page.
        page: u32,
        /// Index of the entry.
        entry: u32,
        /// Attempt at the file.
        generation: u32,
    },
    /// The files of a pack, or a finished large file, have their names.
    Published {
        /// Which.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// The sync epoch in which the last rename returned.
        epoch: u64,
        /// Entries that could not get their name or attributes.
        failures: Vec<EntryFailure>,
    },
    /// All that was written or renamed in epochs up to this one is on stable storage.
    Synced {
        /// The epoch.
        epoch: u64,
    },
    /// Syncing failed: nothing that was not durable before can be believed (A4).
    SyncFailed {
        /// The epoch.
        epoch: u64,
        /// errno(3).
        errno: u16,
    },
    /// The links of a page are made.
    LinksDone {
        /// Number of the page.
        page: u32,
        /// Entries that failed.
        failures: Vec<EntryFailure>,
        /// The sync epoch in which the last of them was made.
        epoch: u64,
    },
    /// The directories of a page have their attributes.
    DirectoriesDone {
        /// Number of the page.
        page: u32,
        /// Entries that failed.
        failures: Vec<EntryFailure>,
        /// The sync epoch in which the last of them was set.
        epoch: u64,
    },
    /// The task cannot go on.
    Broken(Problem),
}

/// What a peer gets when it asks for work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkReply {
    /// What to do now.
    pub work: Vec<Work>,
    /// Nothing more can be fetched until what was written is durable: seal the sync epoch now.
    pub flush: bool,
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

    /// Takes over reports, in order. They count from then on as long as the controller lives; they
    /// are committed within a second.
    fn report(&self, reports: Vec<Report>);
}

/// What a peer measures of a task.
#[derive(Clone, Debug, Default, PartialEq)]
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
}

/// A running task.
pub trait Task: Send + Sync {
    /// What is measured now.
    fn figures(&self) -> TaskFigures;

    /// Stops fetching, ends what is in progress, hands over its last reports, waits for its threads.
    /// With `discard` the temporary files it knows are removed.
    fn stop(&self, discard: bool);
}

/// What a started task says of its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStart {
    /// Under which circumstances it writes.
    pub incarnation: Incarnation,
    /// The store's sync marker for this transfer; 0 if it has none (A5).
    pub marker: u64,
    /// How the store is made durable, in words.
    pub durable_by: String,
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

    /// Checks the store (A5) and says under which circumstances a task would write there.
    ///
    /// # Errors
    /// The store is unknown, offline, another one than before, or read-only.
    fn prepare(&self, spec: &TaskSpec) -> Result<TaskStart, Problem>;

    /// Starts the threads of a task.
    ///
    /// # Errors
    /// As [`TargetPeer::prepare`].
    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem>;

    /// Removes the temporary files of a transfer below `root`, and its sync marker.
    fn clean(&self, transfer: TransferId, store: &Name, root: &PathText);
}
