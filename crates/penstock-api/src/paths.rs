//! Paths between two sites, as they are shown to users.

use std::net::SocketAddr;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use crate::operate::Finding;

/// The paths between this site and another, tried from both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PathsView {
    /// The other site.
    pub site: Name,
    /// Paths from here to there. They carry data from there to here, since the target dials.
    pub outward: Vec<PathView>,
    /// Paths from there to here, as the other site has tried them.
    pub inward: Vec<PathView>,
    /// Reason why the other site has tried none; empty if it has.
    #[serde(deserialize_with = "crate::text::field")]
    pub inward_problem: String,
}

/// Result of one peer: its own description, and the addresses that it reaches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerProbe {
    /// The peer.
    pub peer: Name,
    /// Release of the program.
    #[serde(deserialize_with = "crate::text::field")]
    pub release: String,
    /// Versions of the lane protocol that it speaks, the oldest and the newest.
    pub protocol: (u16, u16),
    /// Expiry of its certificate, in seconds since 1970.
    pub certificate_expires: u64,
    /// BLAKE3 of the public key with which it checks capabilities, in hex.
    pub capability_key: String,
    /// The paths that it has tried.
    pub paths: Vec<PathView>,
    /// Its own addresses for data, each with the reason why it cannot connect to that itself; empty
    /// if it can.
    #[serde(deserialize_with = "crate::text::by_address")]
    pub listening: Vec<(SocketAddr, String)>,
}

/// Results of the peers of one site for another site's addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SiteProbe {
    /// The site whose peers have tried.
    pub site: Name,
    /// The peers that were probed.
    pub peers: Vec<PeerProbe>,
    /// Peers that are there and did not answer, with the reason.
    #[serde(deserialize_with = "crate::text::by_name")]
    pub silent: Vec<(Name, String)>,
}

impl SiteProbe {
    /// Returns all paths that were tried.
    pub fn paths(&self) -> impl Iterator<Item = &PathView> {
        self.peers.iter().flat_map(|probe| &probe.paths)
    }
}

/// Match of two sites, as `penstock doctor --pair` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PairReport {
    /// The paths.
    pub paths: PathsView,
    /// Results of the peers here.
    pub ours: SiteProbe,
    /// Results of the other site's peers; none if it did not answer.
    pub theirs: Option<SiteProbe>,
    /// Conclusions from both views.
    pub findings: Vec<Finding>,
}

/// A pair of addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PathView {
    /// The peer that dials.
    pub peer: Name,
    /// The peer that is dialled.
    pub to_peer: Name,
    /// Address and interface of the end that dials, as `10.50.1.1%eth1`.
    #[serde(deserialize_with = "crate::text::field")]
    pub from: String,
    /// Address of the end that is dialled.
    pub to: SocketAddr,
    /// Name of the network; empty if it has none.
    #[serde(deserialize_with = "crate::text::field")]
    pub network: String,
    /// True if it was reached just now.
    pub reachable: bool,
    /// True if the far end showed the site's certificate just now.
    #[serde(default)]
    pub proven: bool,
    /// Reason why it was not reached, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub why: String,
    /// Reason why 64 KiB could not be sent there and back, in words; empty if they could, or if it
    /// was not reached.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub large: String,
    /// Milliseconds by which the other end's clock is ahead. The error is at most half a round
    /// trip.
    #[serde(default)]
    pub clock_ahead_ms: Option<f64>,
    /// Least round trip seen, in microseconds.
    pub rtt_us: Option<u64>,
    /// Round trip just now, in microseconds; none if it was not reached. Unlike the least one it
    /// follows a path that became longer.
    #[serde(default)]
    pub rtt_now_us: Option<u64>,
    /// Rate of transfers over it when they last measured.
    pub rate_bits_per_s: Option<f64>,
    /// State in the last transfer: `untried`, `carrying`, `standby`, `on trial`, `crawling` or
    /// `dead`.
    #[serde(deserialize_with = "crate::text::field")]
    pub state: String,
    /// Start of that state, in seconds since 1970; 0 if the path was never used.
    pub since: u64,
    /// Reason why a lane over it was lost or did not open, if none has opened since.
    #[serde(deserialize_with = "crate::text::field")]
    pub last_failure: String,
}
