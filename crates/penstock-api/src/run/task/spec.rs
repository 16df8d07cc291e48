//! A target peer's share in a transfer, and facts about its store.

use std::time::Duration;

use penstock_proto::digest::DigestKind;
use penstock_proto::frame::{CipherSuite, Framing};
use penstock_proto::id::{Name, TransferId, WriterId};
use penstock_proto::network::DataAddress;
use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};

use crate::access::AccountName;
use crate::options::limits::{Limits, Share};
use crate::options::preserve::Preserve;
use crate::options::select::Selection;
use crate::options::update::UpdateOptions;
use crate::outcome::Durability;
use crate::place::PathText;
use crate::run::fence::Fence;

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
    /// [`crate::task::Task::doubt_is_over`], so that another crash does not hide that.
    pub doubt: bool,
    /// Source of the data.
    pub source: SourceAccess,
    /// Hash that verifies the data.
    pub digest: DigestKind,
    /// Protection of the data on lanes.
    pub framing: Framing,
    /// The one cipher suite that lanes may use; `None` for those that the sites allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cipher_suite: Option<CipherSuite>,
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
    /// Networks over which lanes may go, by the name at either end; empty allows all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Name>,
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
    /// Account as which mapped stores of the site are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
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
            cipher_suite: None,
            durability: Durability::default(),
            digest_list: false,
            proves: false,
            preserve: Preserve::default(),
            lanes_max: 0,
            lanes: 0,
            networks: Vec::new(),
            limits: Limits::default(),
            update: UpdateOptions::default(),
            began: FileTime::default(),
            select: Selection::default(),
            remove_source: false,
            account: None,
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

/// Free space in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Bytes that may still be written.
    pub free_bytes: u64,
    /// Files that may still be made; `None` where their number has no limit of its own.
    pub free_files: Option<u64>,
}

/// Facts about a store before a task begins there. The circumstances under which the task writes
/// are known only to the task itself ([`crate::task::Task::incarnation`]): an earlier one may still
/// be ending.
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
