//! Requests about the listing of a data set, and their results.

use penstock_proto::id::{Name, TransferId};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};

use crate::access::AccountName;
use crate::options::preserve::Preserve;
use crate::options::select::Selection;
use crate::place::PathText;

/// The number under which [`crate::scan::SourcePeer::page`] returns the first part of the list of
/// items that could not be listed, once the scan is complete: JSON of a list of [`ScanFailure`].
/// The parts follow each other up to [`ScanSummary::error_parts`]. No page has such a number.
pub const FAILURE_PARTS: u32 = 1 << 31;
/// Bytes of paths after which a part of that list is full.
pub const FAILURE_PART_BYTES: usize = 256 * 1024;

/// Request that a source site scans; the same request again is answered by the same scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Rules by which pages are cut; unsound parameters are rejected when the request is read.
    #[serde(with = "super::slicing_text")]
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
    /// True if what was moved is to be removed afterwards, by [`crate::scan::SourcePeer::remove`].
    pub remove: bool,
    /// Account as which a mapped store is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
    /// The user of this site for whom another site is asked. The other site maps it to an account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Name>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageReply {
    /// The encoded page, which the network carries beside the reply's JSON.
    Page(#[serde(skip)] Vec<u8>),
    /// The scan has not reached the page.
    NotYet,
    /// There is no such page: the scan is complete.
    End(ScanSummary),
}
