//! Records of the paths between this host and other sites.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use penstock_engine::paths::{LocalEnd, PathEnds, PathState};
use penstock_net::LocalBind;
use penstock_proto::id::{Name, TransferId};

/// Returns the addresses from which lanes may leave at this moment: interfaces may appear and
/// disappear.
pub type LocalEnds = Arc<dyn Fn() -> Vec<LocalEnd> + Send + Sync>;

/// The state of a path as observed since the daemon started.
#[derive(Clone, Debug)]
pub struct PathNote {
    /// Between which addresses.
    pub ends: PathEnds,
    /// Least round trip that was seen.
    pub rtt: Option<Duration>,
    /// Rate at the last observation, in bytes per second.
    pub rate: f64,
    /// State in the last transfer that used the path.
    pub state: PathState,
    /// Time of the last change of state, in seconds since 1970.
    pub since: u64,
    /// Reason why the path does not carry; empty if it does.
    pub why: String,
}

/// Returns the local ends from which lanes may leave now. Without a function that lists them,
/// routing chooses.
pub(crate) fn locals(ends: Option<&LocalEnds>) -> Vec<LocalEnd> {
    ends.map_or_else(|| vec![LocalEnd::default()], |ends| ends())
}

pub(crate) type Key = (Name, Option<IpAddr>, Option<String>, SocketAddr);

/// A change in the state of one path of a transfer.
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

/// A function that receives changes of paths. It must not block.
pub type PathListener = Arc<dyn Fn(&PathNews) + Send + Sync>;

/// Returns the key that distinguishes the paths to a site.
pub(crate) fn key_of(site: &Name, ends: &PathEnds) -> Key {
    let PathEnds { local, remote, .. } = ends;
    (site.clone(), local.address, local.device.clone(), remote.address)
}

/// Returns the address and device to which a socket is bound for this end.
pub(crate) fn bind_of(local: &LocalEnd) -> LocalBind {
    LocalBind { address: local.address, device: local.device.clone() }
}
