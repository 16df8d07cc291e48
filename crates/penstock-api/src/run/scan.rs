//! Access of a target's controller to the pages of a data set, of its own site or another.
//!
//! Pages are pulled. The source scans on its own and stores its pages on disk, so that a slow
//! target costs it no memory. A page that was lost on the way is asked for again.

use std::sync::Arc;

use penstock_proto::id::{Name, TransferId};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::options::preserve::Preserve;
use crate::options::select::Selection;
use crate::place::PathText;
use crate::problem::Problem;
use crate::run::removal::{RemoveOrder, RemoveReply};

/// The number under which [`SourcePeer::page`] returns the first part of the list of items that
/// could not be listed, once the scan is complete: JSON of a list of [`ScanFailure`]. The parts
/// follow each other up to [`ScanSummary::error_parts`]. No page has such a number.
pub const FAILURE_PARTS: u32 = 1 << 31;
/// Bytes of paths after which a part of that list is full.
pub const FAILURE_PART_BYTES: usize = 256 * 1024;

/// Request that a source site scans; the same request again is answered by the same scan.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The transfer.
    pub transfer: TransferId,
    /// Number of the list of the data set that is meant. Each resumed attempt asks for a higher
    /// one, and the source then lists anew and drops its earlier list. A lower one means the
    /// existing list.
    pub listing: u32,
    /// Store at the source.
    pub store: Name,
    /// Root of the data set within the store.
    pub root: PathText,
    /// Rules by which pages are cut.
    pub slicing: Slicing,
    /// Only these paths, relative to the root; empty for all.
    pub files_from: Vec<PathText>,
    /// Selection among them; an age in it is settled.
    pub select: Selection,
    /// Most names that are looked up per second.
    pub metadata_ops_per_s: Option<u32>,
    /// Attributes to read of the entries, beside their bytes.
    pub preserve: Preserve,
    /// True if the names of owners travel too: to another site.
    pub owner_names: bool,
    /// True if what was moved is to be removed afterwards, by [`SourcePeer::remove`].
    pub remove: bool,
}

/// Kind of the root of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootKind {
    /// A directory.
    Directory,
    /// A file or a link: the data set is this one entry.
    Single,
}

/// Result of a scan, once it is complete.
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
    /// Entries that were passed over: sockets, and kinds that the request excludes.
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
    /// Items that could not be listed or examined. While there is one, nothing is ever deleted
    /// (promise (e)).
    #[serde(default)]
    pub errors: u64,
    /// The items among `errors` that have no entry in any page, because their kind is unknown.
    #[serde(default)]
    pub errors_unseen: u64,
    /// Parts that the list of `errors` is cut into: see [`FAILURE_PARTS`].
    #[serde(default)]
    pub error_parts: u32,
    /// Files that a copy has not finished, among all errors. They do not prevent deletion: the
    /// listing is complete without them.
    #[serde(default)]
    pub unfinished: u64,
    /// Items passed over: state of runs, markers of copies, private directories of stores.
    #[serde(default)]
    pub own_state: u64,
    /// The number of pages, from the end, that amend earlier ones (see [`AskedPage`]). Their
    /// content is in none of the other counts.
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

/// The BLAKE3 of each file of a [`DigestWish`], in hex; `None` for one that cannot be read, or has
/// changed since it was listed.
pub type WishedDigests = Vec<Option<String>>;

/// Most entries that one request names.
pub const ASKED_ENTRIES_MAX: usize = 4096;

/// Request of the target about entries that have changed since the scan, or may have (C1, C2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecheckRequest {
    /// Number of pages that the target knows. Amendments by further pages were asked for before,
    /// and the answer got lost.
    pub pages: u32,
    /// The entries, [`ASKED_ENTRIES_MAX`] of them at most.
    pub asked: Vec<AskedPage>,
}

/// Entries of one page that the source is to examine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedPage {
    /// Number of the page.
    pub page: u32,
    /// Entries that could not be read as they are in the page.
    pub changed: Vec<u32>,
    /// Entries that were read, and are to be examined again.
    pub seen: Vec<SeenEntry>,
}

/// An entry that was read, and is to be examined again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenEntry {
    /// Its index in the page.
    pub entry: u32,
    /// The change time under which it was read.
    pub ctime: FileTime,
    /// The standard digest of what arrived, in hex, if there is one. Where only the change time has
    /// moved since, the source may read the file once more and report that it is the same.
    #[serde(default)]
    pub blake3: Option<String>,
}

/// An item that could not be listed or examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanFailure {
    /// Path relative to the data set's root.
    pub path: PathText,
    /// errno(3).
    pub errno: u16,
    /// True if it is a file that a copy has not finished ([`penstock_proto::name::OwnKind::File`]),
    /// and that was passed over; `errno` is 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
}

/// The answer to a request for one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageReply {
    /// The encoded page.
    Page(Vec<u8>),
    /// The scan has not reached the page.
    NotYet,
    /// There is no such page: the scan is complete.
    End(ScanSummary),
}

/// A site's source side, as its controller drives it. All methods block, but not longer than a
/// store's deadline.
pub trait SourcePeer: Send + Sync {
    /// Begins the scan of a data set, or continues it.
    ///
    /// # Errors
    /// The store or the root is not there, or may not be read.
    fn open_scan(&self, request: &ScanRequest) -> Result<RootKind, Problem>;

    /// Returns a page, waiting up to `wait_ms` milliseconds for the scan to reach it.
    ///
    /// # Errors
    /// The scan is not known here, or it cannot continue (the store went away).
    fn page(&self, transfer: TransferId, number: u32, wait_ms: u32) -> Result<PageReply, Problem>;

    /// Returns a channel that changes whenever [`SourcePeer::page`] may have another answer for
    /// this transfer, so that a caller waits for a page without a thread. `None` if changes are
    /// not known. May block as `page`.
    fn page_news(&self, _transfer: TransferId) -> Option<watch::Receiver<()>> {
        None
    }

    /// Returns whether the data set of a transfer is being listed now, as far as is known. Does not
    /// block.
    fn is_listing(&self, _transfer: TransferId) -> bool {
        false
    }

    /// Examines changed entries again. Those that are still files, and other versions than before,
    /// become the entries of further pages, which amend the earlier ones. Entries of an earlier
    /// request are not added again. Returns the number of pages now. Blocks for one look at each
    /// entry, and for a second if one is being written to at that time.
    ///
    /// # Errors
    /// The scan is not known here or not complete; the pages cannot be stored.
    fn ask(&self, transfer: TransferId, question: &RecheckRequest) -> Result<u32, Problem>;

    /// Hashes files of a page, as [`WishedDigests`]. Returns `None` if that takes longer than
    /// `wait_ms` milliseconds: then the same request is to be repeated within a minute.
    ///
    /// # Errors
    /// The scan or the page is not known here; the store is not there.
    fn digests(
        &self,
        transfer: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem>;

    /// Removes items that are durable at the target, if the scan was opened for that; each only if
    /// it is still the version that was listed (C6). Blocks for some seconds at most, and then
    /// returns how far it came.
    ///
    /// The scan is not known here or does not allow removal, the page is another one, or the store
    /// has changed (C3): then nothing counts as removed.
    fn remove(&self, transfer: TransferId, order: &RemoveOrder) -> Result<RemoveReply, Problem>;

    /// Forgets a transfer and removes its pages; unknown ones are no error.
    fn release(&self, transfer: TransferId);
}

/// Pages of a running transfer: from a [`SourcePeer`] of the same site, or from another site over
/// the network.
pub trait PageSource: Send {
    /// Calls [`SourcePeer::page`] for one transfer.
    ///
    /// # Errors
    /// With [`crate::problem::Exit::Temporary`] the caller tries again after a while and shows the
    /// problem as the reason; any other ends the transfer.
    fn page(&mut self, number: u32, wait_ms: u32) -> Result<PageReply, Problem>;

    /// Calls [`SourcePeer::ask`] for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn ask(&mut self, question: &RecheckRequest) -> Result<u32, Problem>;

    /// Calls [`SourcePeer::digests`] for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn digests(
        &mut self,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem>;

    /// Calls [`SourcePeer::remove`] for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn remove(&mut self, order: &RemoveOrder) -> Result<RemoveReply, Problem>;
}

/// The pages of one transfer, directly from a peer of the own site.
pub struct OwnPages {
    source: Arc<dyn SourcePeer>,
    transfer: TransferId,
}

impl OwnPages {
    /// Returns the pages of a scan that is open at `source`.
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
