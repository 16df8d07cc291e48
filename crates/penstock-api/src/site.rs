//! Requests between sites under `/site/v1`, over mutual TLS on the data port.
//!
//! Every request and every reply names its version ([`VERSION_HEADER`]) and the versions that its
//! side speaks ([`SPEAKS_HEADER`]). A side that does not speak the version of a request refuses
//! with code `version`. The other side then repeats the request in the newest version that both
//! speak, if there is one. The versions of a site follow from the format of its records
//! ([`penstock_proto::version`]), so that each of its peers can continue the work of another. The
//! caller's certificate says which site it is, never a body.

use std::net::SocketAddr;

use penstock_proto::id::{Name, TransferId};
use penstock_proto::network::{self, ADDRESSES_MAX, DataAddress};
use penstock_proto::slicing::Slicing;
use penstock_proto::version::VersionRange;
use serde::{Deserialize, Serialize};

use crate::options::preserve::Preserve;
use crate::options::select::Selection;
use crate::place::PathText;
use crate::problem::{Problem, ProblemCode};
use crate::run::removal::RemoveOrder;
use crate::run::scan::{RootKind, ScanRequest};

/// Header with the version of this API in which a request or reply is.
pub const VERSION_HEADER: &str = "penstock-site-version";
/// Header with the versions that the sender speaks.
pub const SPEAKS_HEADER: &str = "penstock-site-speaks";
/// Header with the user of the calling site for whom a request is. The certificate says which site
/// that is. A site of an earlier release does not read it.
pub const USER_HEADER: &str = "penstock-site-user";
/// Longest time in milliseconds that a request for a page may wait at the source.
pub const PAGE_WAIT_MS_MAX: u32 = 20_000;

/// Refuses a message in a version that is not one of ours. `said` is the text of its
/// [`VERSION_HEADER`], `speaks` that of its [`SPEAKS_HEADER`], if it has them.
///
/// # Errors
/// Code [`ProblemCode::Version`], exit 7.
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
        "the sites use different protocol versions: this one version {ours}, the other {theirs}"
    );
    Err(Problem::new(ProblemCode::Version, title)
        .hint("upgrade the site with the older release of penstock"))
}

/// Request that a source site scans a data set and allows the caller's peers to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenScan {
    /// The transfer.
    pub transfer: TransferId,
    /// Number of the listing, as in [`ScanRequest`].
    #[serde(default)]
    pub listing: u32,
    /// Store at the source.
    pub store: Name,
    /// Root of the data set within the store.
    pub root: PathText,
    /// Rules by which pages are cut; unsound parameters are refused when the request is read.
    #[serde(with = "crate::run::scan::slicing_text")]
    pub slicing: Slicing,
    /// Only these paths, relative to the root; empty for all.
    #[serde(default)]
    pub files_from: Vec<PathText>,
    /// Selection among them; an age in it is settled.
    #[serde(default)]
    pub select: Selection,
    /// Most names that are looked up per second.
    #[serde(default)]
    pub metadata_ops_per_s: Option<u32>,
    /// Attributes to read of the entries, beside their bytes.
    #[serde(default)]
    pub preserve: Preserve,
    /// True if what was moved is to be removed afterwards: the store must allow it to the caller.
    #[serde(default)]
    pub remove: bool,
}

impl From<&ScanRequest> for OpenScan {
    fn from(request: &ScanRequest) -> Self {
        Self {
            transfer: request.transfer,
            listing: request.listing,
            store: request.store.clone(),
            root: request.root.clone(),
            slicing: request.slicing,
            files_from: request.files_from.clone(),
            select: request.select.clone(),
            metadata_ops_per_s: request.metadata_ops_per_s,
            // The mapping of owners is the target's own affair.
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
            slicing: open.slicing,
            files_from: open.files_from,
            select: open.select,
            metadata_ops_per_s: open.metadata_ops_per_s,
            preserve: open.preserve,
            owner_names: true,
            remove: open.remove,
            account: None,
            user: None,
        }
    }
}

/// Answer: the scan is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedScan {
    /// Kind of the root.
    pub root: RootKind,
    /// The signed capability (C4), in hex.
    pub capability: String,
    /// Addresses at which the source's peers listen for lanes.
    pub peers: Vec<DataAddress>,
    /// Random number of the process that serves the list. A new number says that the source was
    /// restarted. 0 at a site of several peers, which hand a list to each other.
    #[serde(default)]
    pub instance: u64,
}

/// Request that a source site removes what was moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveMoved {
    /// The signed capability (C4), in hex, with the right to remove.
    pub capability: String,
    /// Items to remove.
    pub order: RemoveOrder,
}

/// Description that a site sends when two sites are paired (D5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairHalf {
    /// Its name.
    pub site: Name,
    /// Its CA certificate, DER in hex.
    pub ca: String,
    /// Public key that checks its capabilities, in hex.
    pub capability_key: String,
    /// Number of the statement that made these its keys; 0 for its first ones.
    #[serde(default)]
    pub keys: u64,
    /// Addresses at which its peers listen.
    pub addresses: Vec<SocketAddr>,
    /// Number of the offer, and proof of the token's secret over this TLS connection and both CAs,
    /// in hex; empty in an answer.
    pub proof: String,
    /// Signature of its authority over the same, in hex; empty in an answer.
    pub signature: String,
}

/// Addresses of a site at this moment; sites send them to each other whenever they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteAddresses {
    /// Addresses at which its controller takes requests.
    pub addresses: Vec<SocketAddr>,
    /// Addresses at which its peers take lanes.
    pub data: Vec<DataAddress>,
}

impl SiteAddresses {
    /// Drops addresses beyond the number that another site accepts.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.addresses.truncate(ADDRESSES_MAX);
        self.data = network::bounded(self.data);
        self
    }
}

/// Request of a host to join a site of several peers (D5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinHalf {
    /// The name that it asks for within the site.
    pub peer: Name,
    /// Number of the offer, and proof of the token's secret over this TLS connection, in hex.
    pub proof: String,
}

/// Answer to a joining host: all that a peer needs.
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

/// Answer to a health request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteHealth {
    /// Name of the site.
    pub site: Name,
    /// Name of the peer.
    pub peer: Name,
    /// Newest version of this API that the answering peer speaks.
    pub version: u16,
    /// Release of the program.
    #[serde(deserialize_with = "crate::text::field")]
    pub release: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Exit;

    /// A site that asks for pages cut by zero is refused before a scan begins.
    #[test]
    fn an_unsound_slicing_is_refused() {
        let open = OpenScan {
            listing: 0,
            transfer: TransferId([1; 16]),
            store: "raw".parse().unwrap(),
            root: PathText::default(),
            slicing: Slicing::default(),
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
        assert_eq!((&problem.code, problem.exit), (&ProblemCode::Version, Exit::Fatal));
        assert!(problem.title.contains("version 2-3") && problem.title.contains("version 8-9"));
        assert!(check_version(ours, Some("1"), None).unwrap_err().title.contains("version 1"));
        assert!(check_version(ours, Some("2-3"), None).is_err());
        assert!(check_version(ours, None, None).is_err());
    }
}
