//! Records of the paths between this host and other sites.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use penstock_engine::paths::{LocalEnd, PathEnds, PathState};
use penstock_io::net::LocalBind;
use penstock_io::sys;
use penstock_proto::id::{Name, TransferId};

/// Gives where lanes may leave from at this moment: interfaces come and go.
pub type LocalEnds = Arc<dyn Fn() -> Vec<LocalEnd> + Send + Sync>;

/// What is known of a path since the daemon started.
#[derive(Clone, Debug)]
pub struct PathNote {
    /// Between which addresses.
    pub ends: PathEnds,
    /// Least round trip that was seen.
    pub rtt: Option<Duration>,
    /// What it carried when that was last looked at, in bytes per second.
    pub rate: f64,
    /// How it stood in the last transfer that used it.
    pub state: PathState,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// Why it does not carry, if it does not.
    pub why: String,
}

/// Where lanes may leave from now; without anybody who knows, the routes choose.
pub(crate) fn locals(ends: Option<&LocalEnds>) -> Vec<LocalEnd> {
    ends.map_or_else(|| vec![LocalEnd::default()], |ends| ends())
}

pub(crate) type Key = (Name, Option<IpAddr>, Option<String>, SocketAddr);

/// What has become of a path of a transfer.
#[derive(Clone, Debug)]
pub struct PathNews {
    /// The transfer.
    pub transfer: TransferId,
    /// The other site.
    pub site: Name,
    /// The path as it was before.
    pub was: PathState,
    /// The path as it is now.
    pub note: PathNote,
}

/// Is told what becomes of paths. Must not block.
pub type PathListener = Arc<dyn Fn(&PathNews) + Send + Sync>;

/// What tells paths to a site apart.
pub(crate) fn key_of(site: &Name, ends: &PathEnds) -> Key {
    let PathEnds { local, remote, .. } = ends;
    (site.clone(), local.address, local.device.clone(), remote.address)
}

/// Where a socket is to be bound to leave from there.
pub(crate) fn bind_of(local: &LocalEnd) -> LocalBind {
    LocalBind { address: local.address, device: local.device.clone() }
}

pub(super) fn now_seconds() -> u64 {
    u64::try_from(sys::wall_clock_now().seconds).unwrap_or(0)
}
