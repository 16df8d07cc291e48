//! A site of several peers: what they tell of themselves, and what users see of it.

use std::net::SocketAddr;

use penstock_proto::id::Name;
use penstock_proto::network::DataAddress;
use penstock_proto::version::VersionRange;
use serde::{Deserialize, Serialize};

/// What a peer tells the others of itself, kept under its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerCard {
    /// Its name within the site.
    pub peer: Name,
    /// Random number of the daemon's process: a peer that was restarted is another one.
    pub instance: u64,
    /// Where it takes requests.
    pub addresses: Vec<SocketAddr>,
    /// Where it takes lanes.
    pub data: Vec<DataAddress>,
    /// Release of the program.
    pub version: String,
    /// Which protocol of peers among each other it speaks; 0 for none that shares transfers.
    #[serde(default)]
    pub protocol: u32,
    /// Formats of the site's records that it knows.
    pub formats: VersionRange,
    /// Boot id of the host, in hex.
    pub boot: String,
    /// Stores that it reaches.
    pub stores: Vec<StoreCard>,
    /// Transfers that run under it, being the controller.
    #[serde(default)]
    pub running: u32,
    /// Seconds since 1970 of the start of its daemon.
    #[serde(default)]
    pub since: u64,
}

/// That a peer is to have no new work, kept until somebody takes it back. Written by the
/// controller alone, under its epoch; every peer reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainMark {
    /// The peer.
    pub peer: Name,
    /// Seconds since 1970 of the order.
    pub since: u64,
    /// Ordered though nobody else reaches a store of a running transfer.
    #[serde(default)]
    pub forced: bool,
}

/// That a peer belongs to the site, kept whether it is there or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPeer {
    /// The peer.
    pub peer: Name,
    /// As in its last [`PeerCard`].
    pub instance: u64,
    /// Seconds since 1970 of the first card of that daemon.
    pub joined: u64,
    /// Seconds since 1970 at which it was ended in order; 0 if it was not.
    #[serde(default)]
    pub left: u64,
    /// Seconds since 1970 at which the controller missed it; 0 if it has not.
    #[serde(default)]
    pub lost: u64,
}

/// A store as a peer reaches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCard {
    /// Its name.
    pub store: Name,
    /// Its identity, in hex; empty if it has none yet, or cannot be read (A5).
    pub identity: String,
    /// What is mounted within it, in words; empty if nothing is (C3).
    #[serde(default)]
    pub mounts: String,
    /// Which paired sites may do what with it, as that peer is configured.
    #[serde(default)]
    pub rights: StoreRights,
}

/// Which paired sites may do what with a store: their names, or `*` for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoreRights {
    /// Read from it.
    pub read: Vec<String>,
    /// Have data written to it.
    pub write: Vec<String>,
    /// Have removed there what was moved to them.
    pub remove: Vec<String>,
}

/// Who leads, kept under the leader's lease. The create revision of its key is the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderCard {
    /// The peer.
    pub peer: Name,
    /// As in its [`PeerCard`].
    pub instance: u64,
    /// Where it listens for peers and data.
    pub addresses: Vec<SocketAddr>,
    /// Seconds since 1970 of its election.
    pub since: u64,
}

/// A site of several peers, as `penstock site status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClusterView {
    /// Who leads, if anybody does.
    pub leader: Option<LeaderCard>,
    /// Whether the one that answers does.
    pub is_leader: bool,
    /// Epoch of the leader: the incarnation of the site's records in etcd, then the revision at
    /// which the leader was elected.
    pub epoch: String,
    /// Format of the site's records; 0 while that is not known.
    #[serde(default)]
    pub format: u16,
    /// Peers that are there now.
    pub peers: Vec<PeerCard>,
    /// How each etcd endpoint is.
    pub etcd: Vec<EtcdView>,
    /// On how many hosts the site is to run etcd; 0 if it is its operators'.
    #[serde(default)]
    pub etcd_hosts: usize,
    /// Seconds after which a silent controller is replaced.
    #[serde(default)]
    pub lease_seconds: u64,
    /// Why the membership cannot be told now; empty if it can.
    pub trouble: String,
    /// Transactions that this peer has written to etcd.
    pub etcd_transactions: u64,
    /// Bytes of these.
    pub etcd_bytes: u64,
}

/// How an etcd endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EtcdView {
    /// Its address.
    pub endpoint: String,
    /// Version of etcd; empty if it does not answer.
    pub version: String,
    /// Bytes of its database.
    pub bytes: u64,
    /// Bytes of it that are in use.
    #[serde(default)]
    pub bytes_in_use: u64,
    /// Bytes beyond which it refuses all writes; 0 if it does not say.
    #[serde(default)]
    pub quota_bytes: u64,
    /// Whether it leads the other members of etcd.
    #[serde(default)]
    pub leads: bool,
    /// Whether it only follows so far, without a vote.
    #[serde(default)]
    pub learner: bool,
    /// Name of the member; empty if it does not say.
    #[serde(default)]
    pub member: String,
    /// Members that there are; 0 if it does not say.
    #[serde(default)]
    pub members: u32,
    /// How long it took to answer, in microseconds.
    #[serde(default)]
    pub answer_us: u64,
    /// Whether its whole history is kept, though it is long: nothing compacts it (E6).
    #[serde(default)]
    pub is_uncompacted: bool,
    /// Why it is not healthy; empty if it is.
    pub trouble: String,
}

/// Asks a peer to go on alone with the site's etcd: the hosts of all other members are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeoverRequest {
    /// Hosts of which the operator has made sure that they are off, or reach neither stores nor
    /// network.
    pub fenced: Vec<Name>,
}

/// Asks a peer to give the site's records another incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoverRequest {
    /// To begin a new etcd at this host first: all members of the old one are lost.
    pub new_etcd: bool,
}

/// With what a site goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredView {
    /// Incarnation of its records, in hex.
    pub incarnation: String,
    /// Transfers among them.
    pub transfers: u64,
    /// Whether they are from the journal's copy, which knew more than etcd.
    pub from_journal: bool,
}
