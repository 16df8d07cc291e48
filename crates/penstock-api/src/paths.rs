//! Paths between two sites, as they are shown.

use std::net::SocketAddr;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

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

/// One pair of addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathView {
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
