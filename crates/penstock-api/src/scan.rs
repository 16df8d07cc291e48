//! How a target's controller gets the pages of a data set, from its own site or from another.
//!
//! Pages are pulled: the source scans on its own and keeps its pages on disk, so a slow target
//! costs it no memory, and a page that was lost on the way is asked for again.

use std::sync::Arc;

use penstock_proto::id::{Name, TransferId};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};

use crate::place::PathText;
use crate::preserve::Preserve;
use crate::problem::Problem;
use crate::removal::{RemoveOrder, RemoveReply};
use crate::select::Selection;

/// Code: a scan is being opened, which takes long where many pages are read again; who asks once
/// more waits for the same one.
pub const SCAN_OPENING: &str = "scan-opening";
/// Code: the top item of the source cannot be looked at.
pub const SOURCE_ROOT: &str = "source";

/// The number under which [`SourcePeer::page`] returns the first part of the list of items that
/// could not be listed, once the scan is complete: JSON of a list of [`ScanFailure`]. The parts
/// follow each other up to [`ScanSummary::error_parts`]. No page has such a number.
pub const FAILURE_PARTS: u32 = 1 << 31;
/// Bytes of paths after which a part of that list is full.
pub const FAILURE_PART_BYTES: usize = 256 * 1024;

/// Asks a source site to scan; the same request again is answered by the same scan.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The transfer.
    pub transfer: TransferId,
    /// Which list of the data set is meant: each resumed attempt asks for a higher one, and the
    /// source then lists anew and drops its earlier list. A lower one means the list that there is.
    pub listing: u32,
    /// Store at the source.
    pub store: Name,
    /// Root of the data set within the store.
    pub root: PathText,
    /// How pages are to be cut.
    pub slicing: Slicing,
    /// Only these paths, relative to the root; empty for all.
    pub files_from: Vec<PathText>,
    /// What of them is wanted; an age in it is settled.
    pub select: Selection,
    /// Most names that are looked up per second.
    pub metadata_ops_per_s: Option<u32>,
    /// What is to be read of the entries beside their bytes.
    pub preserve: Preserve,
    /// Whether the names of owners travel too: to another site.
    pub owner_names: bool,
    /// Whether what was moved is to be removed afterwards, by [`SourcePeer::remove`].
    pub remove: bool,
}

/// What the root of a data set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootKind {
    /// A directory.
    Directory,
    /// A file or a link: the data set is this one entry.
    Single,
}

/// What a scan found, once it is complete.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScanSummary {
    /// Number of pages.
    pub pages: u32,
    /// Entries in them.
    pub entries: u64,
    /// Files among these.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Entries that were left out: sockets, and kinds that are not wished for.
    pub skipped: u64,
    /// Entries that were not chosen; an excluded directory counts as one.
    #[serde(default)]
    pub excluded: u64,
    /// Sockets among these.
    #[serde(default)]
    pub sockets: u64,
    /// Items with extended attributes that were too large or could not be read.
    #[serde(default)]
    pub xattrs_left_out: u64,
    /// Items that could not be listed or looked at. While there is one, nothing is ever deleted
    /// (promise (e)).
    #[serde(default)]
    pub errors: u64,
    /// Those among `errors` of which no page has an entry, because their kind is not known.
    #[serde(default)]
    pub errors_unseen: u64,
    /// Parts that the list of `errors` is cut into: see [`FAILURE_PARTS`].
    #[serde(default)]
    pub error_parts: u32,
    /// Files that a copy has not finished, among all errors. These keep nothing from being
    /// deleted: the listing is complete without them.
    #[serde(default)]
    pub unfinished: u64,
    /// Left out: state of runs, markers of copies, private directories of stores.
    #[serde(default)]
    pub own_state: u64,
    /// The last of the pages, which amend earlier ones (see [`AskedPage`]). What they hold is in
    /// none of the other counts.
    #[serde(default)]
    pub amending: u32,
}

/// Files of a page that the source is to hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestWish {
    /// Number of the page.
    pub page: u32,
    /// Indices of its entries, ascending.
    pub entries: Vec<u32>,
}

/// The BLAKE3 of each file of a [`DigestWish`], in hex; `None` for one that cannot be read, or is
/// not what its page says.
pub type WishedDigests = Vec<Option<String>>;

/// Most entries that one question about changed ones names.
pub const ASKED_ENTRIES_MAX: usize = 4096;

/// What the target asks about entries that have changed since the scan, or may have (C1, C2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecheckRequest {
    /// Pages that the target knows: what further ones amend was asked before, and the answer got
    /// lost.
    pub pages: u32,
    /// The entries, [`ASKED_ENTRIES_MAX`] of them at most.
    pub asked: Vec<AskedPage>,
}

/// Entries of one page that the source is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedPage {
    /// Number of the page.
    pub page: u32,
    /// Entries that could not be read as they are in the page.
    pub changed: Vec<u32>,
    /// Entries that were read, and are to be looked at again.
    pub seen: Vec<SeenEntry>,
}

/// An entry that was read, and is to be looked at again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenEntry {
    /// Its index in the page.
    pub entry: u32,
    /// The change time under which it was read.
    pub ctime: FileTime,
    /// The standard digest of what arrived, in hex, if there is one: where the change time alone
    /// has moved since, the source may read the file once more and say that it is the same.
    #[serde(default)]
    pub blake3: Option<String>,
}

/// One thing that could not be listed or looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanFailure {
    /// Path relative to the data set's root.
    pub path: PathText,
    /// errno(3).
    pub errno: u16,
    /// It is a file that a copy has not finished ([`penstock_proto::name::OwnKind::File`]), left
    /// out; `errno` is 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
}

/// The answer to a request for one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageReply {
    /// The encoded page.
    Page(Vec<u8>),
    /// The scan has not come so far.
    NotYet,
    /// There is no such page: the scan is complete.
    End(ScanSummary),
}

/// A site's source side, as its controller drives it. All methods block, but no longer than a
/// store's deadline.
pub trait SourcePeer: Send + Sync {
    /// Begins, or goes on with, the scan of a data set.
    ///
    /// # Errors
    /// The store or the root is not there, or may not be read.
    fn open_scan(&self, request: &ScanRequest) -> Result<RootKind, Problem>;

    /// A page, waiting up to `wait_ms` for the scan to come so far.
    ///
    /// # Errors
    /// The scan is not known here, or it cannot go on (the store went away).
    fn page(&self, transfer: TransferId, number: u32, wait_ms: u32) -> Result<PageReply, Problem>;

    /// Looks at changed entries again. Those that are files still, and other ones than before, are
    /// the entries of further pages, which amend the earlier ones; what was asked before is not
    /// added again. Gives how many pages there are now. Blocks for a look at each of them, and for
    /// a second if one is being written to just now.
    ///
    /// # Errors
    /// The scan is not known here or not complete; the pages cannot be kept.
    fn ask(&self, transfer: TransferId, question: &RecheckRequest) -> Result<u32, Problem>;

    /// Hashes files of a page, as [`WishedDigests`]; `None` if that takes longer than `wait_ms`:
    /// then the same wish is to be said again, within a minute.
    ///
    /// # Errors
    /// The scan or the page is not known here; the store is not there.
    fn digests(
        &self,
        transfer: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem>;

    /// Removes items that the target has, durable, if the scan was opened for that; each only if it
    /// is still the version that was listed (C6). Blocks for some seconds at most: then the reply
    /// says how far it came.
    ///
    /// # Errors
    /// The scan is not known here or not one to be removed, the page is another one, or the store
    /// is not what it was (C3): then nothing counts as removed.
    fn remove(&self, transfer: TransferId, order: &RemoveOrder) -> Result<RemoveReply, Problem>;

    /// Forgets a transfer and removes its pages; unknown ones are no error.
    fn release(&self, transfer: TransferId);
}

/// Where a running transfer gets its pages from: a [`SourcePeer`] of the same site, or another
/// site over the network.
pub trait PageSource: Send {
    /// As [`SourcePeer::page`], for one transfer.
    ///
    /// # Errors
    /// With [`crate::problem::Exit::Temporary`] the caller tries again after a while and shows the
    /// problem as the reason; any other ends the transfer.
    fn page(&mut self, number: u32, wait_ms: u32) -> Result<PageReply, Problem>;

    /// As [`SourcePeer::ask`], for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn ask(&mut self, question: &RecheckRequest) -> Result<u32, Problem>;

    /// As [`SourcePeer::digests`], for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn digests(
        &mut self,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem>;

    /// As [`SourcePeer::remove`], for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn remove(&mut self, order: &RemoveOrder) -> Result<RemoveReply, Problem>;
}

/// The pages of one transfer, straight from a peer of the own site.
pub struct OwnPages {
    source: Arc<dyn SourcePeer>,
    transfer: TransferId,
}

impl OwnPages {
    /// Those of a scan that is open at `source`.
    pub fn new(source: Arc<dyn SourcePeer>, transfer: TransferId) -> Self {
        Self { source, transfer }
    }
}

impl PageSource for OwnPages {
    fn page(&mut self, number: u32, wait_ms: u32) -> Result<PageReply, Problem> {
        self.source.page(self.transfer, number, wait_ms)
    }

    fn ask(&mut self, question: &RecheckRequest) -> Result<u32, Problem> {
        self.source.ask(self.transfer, question)
    }

    fn digests(
        &mut self,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        self.source.digests(self.transfer, wish, wait_ms)
    }

    fn remove(&mut self, order: &RemoveOrder) -> Result<RemoveReply, Problem> {
        self.source.remove(self.transfer, order)
    }
}
