//! Paths between two sites, as they are shown.

use std::net::SocketAddr;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use crate::operate::Finding;

/// The paths between this site and another, tried from both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathsView {
    /// The other site.
    pub site: Name,
    /// From here to there: what carries data from there to here, since the target dials.
    pub outward: Vec<PathView>,
    /// From there to here, as the other site has tried them.
    pub inward: Vec<PathView>,
    /// Why the other site has not tried any, if it has not.
    pub inward_problem: String,
}

/// What one peer has found: who it is, and which addresses it reaches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerProbe {
    /// The peer.
    pub peer: Name,
    /// Release of the program.
    pub release: String,
    /// Versions of the lane protocol that it speaks, the oldest and the newest.
    pub protocol: (u16, u16),
    /// Seconds since 1970 at which its certificate expires.
    pub certificate_expires: u64,
    /// BLAKE3 of the public key by which it checks capabilities, in hex.
    pub capability_key: String,
    /// The paths that it has tried.
    pub paths: Vec<PathView>,
    /// Its own addresses for data, and why it cannot connect to one itself; empty if it can.
    pub listening: Vec<(SocketAddr, String)>,
}

/// What the peers of one site have found of another one's addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteProbe {
    /// The site whose peers have tried.
    pub site: Name,
    /// They.
    pub peers: Vec<PeerProbe>,
    /// Peers that are there and did not answer, and why.
    pub silent: Vec<(Name, String)>,
}

impl SiteProbe {
    /// All paths that were tried.
    pub fn paths(&self) -> impl Iterator<Item = &PathView> {
        self.peers.iter().flat_map(|probe| &probe.paths)
    }
}

/// How two sites fit together, as `penstock doctor --pair` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairReport {
    /// The paths.
    pub paths: PathsView,
    /// What the peers here have found.
    pub ours: SiteProbe,
    /// What those of the other site have; none if it did not answer.
    pub theirs: Option<SiteProbe>,
    /// What follows from both views.
    pub findings: Vec<Finding>,
}

/// One pair of addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathView {
    /// The peer that dials.
    pub peer: Name,
    /// The peer that is dialled.
    pub to_peer: Name,
    /// Address and interface of the end that dials, as `10.50.1.1%eth1`.
    pub from: String,
    /// Address of the end that is dialled.
    pub to: SocketAddr,
    /// Name of the network; empty if it has none.
    pub network: String,
    /// Whether it was reached just now.
    pub reachable: bool,
    /// Why not, in words.
    pub why: String,
    /// Why 64 KiB could not be sent there and back, in words; empty if they could, or if it was
    /// not reached.
    #[serde(default)]
    pub large: String,
    /// By how much the other end's clock is ahead, in milliseconds; as good as half a round trip.
    #[serde(default)]
    pub clock_ahead_ms: Option<f64>,
    /// Least round trip seen, in microseconds.
    pub rtt_us: Option<u64>,
    /// What transfers got over it when they last looked.
    pub rate_bits_per_s: Option<f64>,
    /// How it stood in the last transfer: `untried`, `carrying`, `standby`, `on trial`, `crawling`
    /// or `dead`.
    pub state: String,
    /// Since when, in seconds since 1970; 0 if it was never used.
    pub since: u64,
    /// Why a lane over it was lost or did not open, if none has since.
    pub last_failure: String,
}
