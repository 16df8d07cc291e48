//! Stores and the entries of their directories, as users see them.

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use crate::access::StoreGrant;
use crate::place::PathText;
use crate::plan::ItemKind;

/// Most entries in one answer, and their number unless a request says another.
pub const ENTRIES_MAX: u32 = 1000;
/// Most names of a directory that is sorted; a larger one comes in the order of its file system.
pub const SORTED_NAMES_MAX: usize = 20_000;

/// Order of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub enum EntrySort {
    /// By the bytes of their names.
    #[default]
    #[serde(rename = "name")]
    Name,
    /// The latest modified ones first.
    #[serde(rename = "-mtime")]
    Newest,
    /// The largest ones first.
    #[serde(rename = "-size")]
    Largest,
}

impl EntrySort {
    /// Returns the text of the order in a query.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Newest => "-mtime",
            Self::Largest => "-size",
        }
    }
}

/// Request for a part of the entries of one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntriesQuery {
    /// Path of the directory within the store; empty for the store's root.
    #[serde(default)]
    pub path: PathText,
    /// `next` of the part before; absent for the first one. It is good for the same directory,
    /// selection and order only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most entries in the answer, 1 to [`ENTRIES_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only names that begin with these bytes.
    #[serde(default)]
    pub prefix: PathText,
    /// Only entries of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ItemKind>,
    /// Order of the entries, in a directory of up to [`SORTED_NAMES_MAX`] names.
    #[serde(default)]
    pub sort: EntrySort,
}

/// A part of the entries of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EntryList {
    /// The entries. A slow store gives fewer than were asked for, perhaps none.
    pub items: Vec<EntryView>,
    /// Value of `cursor` for the next part; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// False if the entries come in the order of the file system, since there are too many to sort
    /// or the store is too slow.
    pub sorted: bool,
}

/// An entry of a directory. A link is shown, never followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EntryView {
    /// Its name: one component of a path.
    pub name: PathText,
    /// Its kind; never `hardlink`.
    pub kind: ItemKind,
    /// Size of a file, in bytes; absent for other kinds, and if it cannot be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Time of the last modification (RFC 3339, UTC); absent if it cannot be looked at, and beyond
    /// the years 1 to 9999.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "crate::text::optional_field")]
    pub mtime: Option<String>,
    /// Permission bits as four octal digits, such as `0644`; absent if it cannot be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "crate::text::optional_field")]
    pub mode: Option<String>,
    /// Its owner; absent if it cannot be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EntryOwner>,
    /// Target of a link, as it is written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PathText>,
}

/// Owner of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EntryOwner {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Name of the user at the host that answers; absent if it knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "crate::text::optional_field")]
    pub user: Option<String>,
    /// Name of the group at the host that answers; absent if it knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "crate::text::optional_field")]
    pub group: Option<String>,
}

/// State of a store at a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StoreState {
    /// It can be used.
    Online,
    /// It cannot be used now.
    Offline,
    /// A call to it does not return.
    Hung,
}

/// A store of the own site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StoreView {
    /// Its name.
    pub name: Name,
    /// A directory, or `null:`, or `mem:…`.
    pub place: String,
    /// True if nothing may be written there.
    pub read_only: bool,
    /// Sites that may read: names, or `*` for all that are paired.
    pub read: Vec<String>,
    /// Sites whose data may be written there on their own request.
    pub write: Vec<String>,
    /// Sites of `write` whose transfers may also replace and delete what is there.
    #[serde(default)]
    pub delete: Vec<String>,
    /// Sites that may remove there what was moved to them, or `*`.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// A store of the own site, and how it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StoreDetails {
    /// The store as it is configured.
    pub store: StoreView,
    /// Its state at the peer that looked.
    pub state: StoreState,
    /// Reason of the state; empty if it can be used.
    #[serde(default, deserialize_with = "crate::text::field")]
    pub why: String,
    /// Its identity in hex; empty until it is first written to.
    #[serde(default, deserialize_with = "crate::text::field")]
    pub identity: String,
    /// Room in its file system; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<StoreSpace>,
    /// The peers that have it.
    #[serde(default)]
    pub peers: Vec<StorePeer>,
    /// Rights of the caller in it.
    #[serde(default)]
    pub rights: StoreGrant,
}

/// Room in the file system of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StoreSpace {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes that the file system holds in all.
    pub total_bytes: u64,
    /// Files that can still be made; absent where their number has no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_files: Option<u64>,
}

/// How full a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StoreUsage {
    /// Room in its file system; absent of a store without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<StoreSpace>,
}

/// A peer that has a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StorePeer {
    /// Its name.
    pub peer: Name,
    /// The store there beside the other peers', as in a peer's view: `same`, `alone`, `new`,
    /// `other` or `offline`.
    #[serde(deserialize_with = "crate::text::field")]
    pub is: String,
    /// Reason why it is offline there; empty if it is not.
    #[serde(default, deserialize_with = "crate::text::field")]
    pub why: String,
}

/// A store of a paired site, with the rights of the own site in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SiteStoreView {
    /// Its name.
    pub name: Name,
    /// True if transfers to the own site may read from it.
    pub read: bool,
    /// True if transfers of the own site may make new files in it.
    pub write: bool,
    /// True if they may also replace and delete what is there.
    pub delete: bool,
    /// True if they may remove there what was moved to the own site.
    pub remove: bool,
}

/// Request that makes a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DirectoryRequest {
    /// Its path within the store. The directory that is to hold it exists.
    pub path: PathText,
}
