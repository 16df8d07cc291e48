//! What sites say to each other under `/site/v1`, over mutual TLS on the data port.
//!
//! Every request and every reply says in which version it is ([`VERSION_HEADER`]) and which ones
//! its side speaks ([`SPEAKS_HEADER`]). A side that does not speak the version of a request refuses
//! with code `version`; the other one asks again in the newest that both speak, if there is one.
//! What a site speaks follows from the format of its records ([`penstock_proto::version`]), so that
//! each of its peers can go on with what another one began. Who calls is what its certificate says,
//! never what a body says.

use std::net::SocketAddr;

use penstock_proto::id::{Name, TransferId};
use penstock_proto::network::{self, ADDRESSES_MAX, DataAddress};
use penstock_proto::slicing::Slicing;
use penstock_proto::version::VersionRange;
use serde::{Deserialize, Deserializer, Serialize};

use crate::place::PathText;
use crate::preserve::Preserve;
use crate::problem::{Exit, Problem};
use crate::removal::RemoveOrder;
use crate::scan::{RootKind, ScanRequest};
use crate::select::Selection;

/// Header with the version of this API in which a request or reply is.
pub const VERSION_HEADER: &str = "penstock-site-version";
/// Header with the versions that whoever sent it speaks.
pub const SPEAKS_HEADER: &str = "penstock-site-speaks";
/// Code of a refusal because of the version.
pub const VERSION: &str = "version";
/// Longest time in milliseconds that a request for a page may wait at the source.
pub const PAGE_WAIT_MS_MAX: u32 = 20_000;

/// Refuses a message in a version that is not one of ours; `said` is the text of its
/// [`VERSION_HEADER`], `speaks` of its [`SPEAKS_HEADER`], if there were such.
///
/// # Errors
/// Code [`VERSION`], exit 7.
pub fn check_version(
    ours: VersionRange,
    said: Option<&str>,
    speaks: Option<&str>,
) -> Result<u16, Problem> {
    let version = said.and_then(|text| text.parse().ok());
    if let Some(version) = version.filter(|version| ours.contains(*version)) {
        return Ok(version);
    }
    let theirs = match speaks.or(said) {
        Some(text) => format!("version {text}"),
        None => "no version at all".to_owned(),
    };
    let title = format!(
        "the sites speak different versions: this one speaks version {ours}, the other {theirs}"
    );
    Err(Problem::new(Exit::Fatal, VERSION, title)
        .hint("upgrade the site with the older release of penstock")
        .status(426))
}

/// How a page is cut, in JSON; see [`Slicing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicingText {
    /// As in [`Slicing`].
    pub version: u16,
    /// As in [`Slicing`].
    pub stride_bytes: u32,
    /// As in [`Slicing`].
    pub extent_bytes: u64,
    /// As in [`Slicing`].
    pub pack_bytes: u64,
    /// As in [`Slicing`].
    pub pack_files: u32,
}

impl From<Slicing> for SlicingText {
    fn from(slicing: Slicing) -> Self {
        let Slicing { version, stride_bytes, extent_bytes, pack_bytes, pack_files } = slicing;
        Self { version, stride_bytes, extent_bytes, pack_bytes, pack_files }
    }
}

impl From<SlicingText> for Slicing {
    fn from(text: SlicingText) -> Self {
        let SlicingText { version, stride_bytes, extent_bytes, pack_bytes, pack_files } = text;
        Self { version, stride_bytes, extent_bytes, pack_bytes, pack_files }
    }
}

/// Asks a source site to scan a data set and to allow the caller's peers to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenScan {
    /// The transfer.
    pub transfer: TransferId,
    /// As in [`ScanRequest`].
    #[serde(default)]
    pub listing: u32,
    /// Store at the source.
    pub store: Name,
    /// Root of the data set within the store.
    pub root: PathText,
    /// How pages are to be cut; unsound parameters are refused when the request is read.
    #[serde(deserialize_with = "sound_slicing")]
    pub slicing: SlicingText,
    /// Only these paths, relative to the root; empty for all.
    #[serde(default)]
    pub files_from: Vec<PathText>,
    /// What of them is wanted; an age in it is settled.
    #[serde(default)]
    pub select: Selection,
    /// Most names that are looked up per second.
    #[serde(default)]
    pub metadata_ops_per_s: Option<u32>,
    /// What is to be read of the entries beside their bytes.
    #[serde(default)]
    pub preserve: Preserve,
    /// Whether what was moved is to be removed afterwards: the store must allow it to the caller.
    #[serde(default)]
    pub remove: bool,
}

fn sound_slicing<'de, D: Deserializer<'de>>(input: D) -> Result<SlicingText, D::Error> {
    let text = SlicingText::deserialize(input)?;
    Slicing::from(text).check().map_err(serde::de::Error::custom)?;
    Ok(text)
}

impl From<&ScanRequest> for OpenScan {
    fn from(request: &ScanRequest) -> Self {
        Self {
            transfer: request.transfer,
            listing: request.listing,
            store: request.store.clone(),
            root: request.root.clone(),
            slicing: request.slicing.into(),
            files_from: request.files_from.clone(),
            select: request.select.clone(),
            metadata_ops_per_s: request.metadata_ops_per_s,
            // Who owns it at the target is the target's own affair.
            preserve: Preserve { owner_map: Vec::new(), ..request.preserve.clone() },
            remove: request.remove,
        }
    }
}

impl From<OpenScan> for ScanRequest {
    fn from(open: OpenScan) -> Self {
        Self {
            transfer: open.transfer,
            listing: open.listing,
            store: open.store,
            root: open.root,
            slicing: open.slicing.into(),
            files_from: open.files_from,
            select: open.select,
            metadata_ops_per_s: open.metadata_ops_per_s,
            preserve: open.preserve,
            owner_names: true,
            remove: open.remove,
        }
    }
}

/// The scan is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedScan {
    /// What the root is.
    pub root: RootKind,
    /// The signed capability (C4), in hex.
    pub capability: String,
    /// Where the source's peers listen for lanes.
    pub peers: Vec<DataAddress>,
    /// Random number of the process that serves the list. Another number than before says that the
    /// source was restarted. 0 at a site of several peers, which hand a list to each other.
    #[serde(default)]
    pub instance: u64,
}

/// Asks a source site to remove what was moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveMoved {
    /// The signed capability (C4), in hex, with the right to remove.
    pub capability: String,
    /// What is to go.
    pub order: RemoveOrder,
}

/// What a site tells of itself when two are paired (D5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairHalf {
    /// Its name.
    pub site: Name,
    /// Its CA certificate, DER in hex.
    pub ca: String,
    /// Public key that checks its capabilities, in hex.
    pub capability_key: String,
    /// Where its peers listen.
    pub addresses: Vec<SocketAddr>,
    /// Which offer it is for, and proof of the token's secret over this TLS connection and both
    /// CAs, in hex; empty in an answer.
    pub proof: String,
    /// Signature of its authority over the same, in hex; empty in an answer.
    pub signature: String,
}

/// Where a site is reached at this moment: what the sites tell each other whenever that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteAddresses {
    /// Where its controller takes requests.
    pub addresses: Vec<SocketAddr>,
    /// Where its peers take lanes.
    pub data: Vec<DataAddress>,
}

impl SiteAddresses {
    /// No more of each than another site looks at.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.addresses.truncate(ADDRESSES_MAX);
        self.data = network::bounded(self.data);
        self
    }
}

/// What a host sends that joins a site of several peers (D5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinHalf {
    /// The name that it wants within the site.
    pub peer: Name,
    /// Which offer it is for, and proof of the token's secret over this TLS connection, in hex.
    pub proof: String,
}

/// What it gets: all that a peer needs to be one.
#[derive(Clone, Serialize, Deserialize)]
pub struct JoinedSite {
    /// Configuration of the peer that answers, as TOML.
    pub config: String,
    /// Keys and certificates. Secret.
    pub files: Vec<JoinFile>,
}

/// A file of a site directory. Secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct JoinFile {
    /// Path below the site directory.
    pub path: String,
    /// Its content, in base64.
    pub content: String,
}

/// Says which release answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteHealth {
    /// Name of the site.
    pub site: Name,
    /// Name of the peer.
    pub peer: Name,
    /// Newest version of this API that the one that answers speaks.
    pub version: u16,
    /// Release of the program.
    pub release: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A site that asks for pages cut by zero is refused before a scan begins.
    #[test]
    fn an_unsound_slicing_is_refused() {
        let open = OpenScan {
            listing: 0,
            transfer: TransferId([1; 16]),
            store: "raw".parse().unwrap(),
            root: PathText::default(),
            slicing: Slicing::default().into(),
            files_from: Vec::new(),
            select: Selection::default(),
            metadata_ops_per_s: None,
            preserve: Preserve::default(),
            remove: false,
        };
        let text = serde_json::to_string(&open).unwrap();
        assert_eq!(serde_json::from_str::<OpenScan>(&text).unwrap(), open);
        for bad in ["\"extent_bytes\":0", "\"extent_bytes\":5"] {
            let bad = text.replace("\"extent_bytes\":16777216", bad);
            assert!(serde_json::from_str::<OpenScan>(&bad).is_err(), "{bad}");
        }
    }

    /// Promise: two releases that do not understand each other say so, and which they are.
    #[test]
    fn another_version_is_refused_by_name() {
        let ours = VersionRange { oldest: 2, newest: 3 };
        assert_eq!(check_version(ours, Some("3"), Some("1-3")).unwrap(), 3);
        let problem = check_version(ours, Some("9"), Some("8-9")).unwrap_err();
        assert_eq!((problem.code.as_str(), problem.exit), (VERSION, Exit::Fatal));
        assert!(problem.title.contains("version 2-3") && problem.title.contains("version 8-9"));
        assert!(check_version(ours, Some("1"), None).unwrap_err().title.contains("version 1"));
        assert!(check_version(ours, Some("2-3"), None).is_err());
        assert!(check_version(ours, None, None).is_err());
    }
}
