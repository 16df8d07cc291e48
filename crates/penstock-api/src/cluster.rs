//! A site of several peers: what peers publish of themselves, and what users see of the site.

use std::net::SocketAddr;

use penstock_proto::id::Name;
use penstock_proto::network::DataAddress;
use penstock_proto::version::VersionRange;
use serde::{Deserialize, Serialize};

/// Description that a peer publishes to the others of its site, kept under its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerCard {
    /// Its name within the site.
    pub peer: Name,
    /// Random number of the daemon's process, so that a restarted peer counts as a new one.
    pub instance: u64,
    /// Addresses at which it takes requests.
    pub addresses: Vec<SocketAddr>,
    /// Addresses at which it takes lanes.
    pub data: Vec<DataAddress>,
    /// Release of the program.
    #[serde(deserialize_with = "crate::text::field")]
    pub version: String,
    /// Version of the protocol between peers that it speaks; 0 for none that shares transfers.
    #[serde(default)]
    pub protocol: u32,
    /// Formats of the site's records that it knows.
    pub formats: VersionRange,
    /// Boot id of the host, in hex.
    pub boot: String,
    /// Stores that it reaches.
    pub stores: Vec<StoreCard>,
    /// Transfers that run under it as the controller.
    #[serde(default)]
    pub running: u32,
    /// Start of its daemon, in seconds since 1970.
    #[serde(default)]
    pub since: u64,
    /// SHA-256 of the key of its certificate, in hex: by this it is revoked.
    #[serde(default)]
    pub key: String,
    /// Addresses at which it takes the next keys of the site. A witness has them too, and takes no
    /// other requests.
    #[serde(default)]
    pub keys_at: Vec<SocketAddr>,
}

/// Order that a peer gets no new work, kept until an operator takes it back. The controller alone
/// writes it, under its epoch; every peer reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DrainMark {
    /// The peer.
    pub peer: Name,
    /// Time of the order, in seconds since 1970.
    pub since: u64,
    /// Set if the order was given although no other peer reaches a store of a running transfer.
    #[serde(default)]
    pub forced: bool,
}

/// Record that a peer belongs to the site, kept whether the peer is there or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPeer {
    /// The peer.
    pub peer: Name,
    /// Random number of its process, as in its last [`PeerCard`].
    pub instance: u64,
    /// Time of the first card of that daemon, in seconds since 1970.
    pub joined: u64,
    /// Time at which the daemon was shut down in order, in seconds since 1970; 0 if it was not.
    #[serde(default)]
    pub left: u64,
    /// Time at which the controller missed the peer, in seconds since 1970; 0 if it has not.
    #[serde(default)]
    pub lost: u64,
    /// Key, as in its last [`PeerCard`].
    #[serde(default)]
    pub key: String,
}

/// A store as a peer reaches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StoreCard {
    /// Its name.
    pub store: Name,
    /// Its identity, in hex; empty if it has none yet, or cannot be read (A5).
    pub identity: String,
    /// File systems mounted within it, in words; empty if there are none (C3).
    #[serde(default)]
    pub mounts: String,
    /// Rights of paired sites to the store, as that peer is configured.
    #[serde(default)]
    pub rights: StoreRights,
    /// The reason why it cannot be opened, in words; empty if it can.
    #[serde(default)]
    pub trouble: String,
    /// True if it is used as the accounts of users, by the configuration of that peer.
    #[serde(default)]
    pub mapped: bool,
}

/// Rights of paired sites to a store: their names, or `*` for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StoreRights {
    /// Sites that may read from it.
    pub read: Vec<String>,
    /// Sites that may have data written to it.
    pub write: Vec<String>,
    /// Sites of `write` that may also have replaced and deleted what is there.
    #[serde(default)]
    pub delete: Vec<String>,
    /// Sites that may remove there what was moved to them.
    pub remove: Vec<String>,
}

/// Description of the leader, kept under its lease. The create revision of its key is the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LeaderCard {
    /// The peer.
    pub peer: Name,
    /// Random number of its process, as in its [`PeerCard`].
    pub instance: u64,
    /// Addresses at which it listens for peers and data.
    pub addresses: Vec<SocketAddr>,
    /// Time of its election, in seconds since 1970.
    pub since: u64,
}

/// A site of several peers, as `penstock site status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ClusterView {
    /// The leader, if there is one.
    pub leader: Option<LeaderCard>,
    /// True if the peer that answers is the leader.
    pub is_leader: bool,
    /// Epoch of the leader: the incarnation of the site's records in etcd, then the revision at
    /// which the leader was elected.
    pub epoch: String,
    /// Format of the site's records; 0 while that is not known.
    #[serde(default)]
    pub format: u16,
    /// Peers that are there now.
    pub peers: Vec<PeerCard>,
    /// State of each etcd endpoint.
    pub etcd: Vec<EtcdView>,
    /// Hosts on which the site is to run etcd; 0 if its operators run it.
    #[serde(default)]
    pub etcd_hosts: usize,
    /// Seconds after which a silent controller is replaced.
    #[serde(default)]
    pub lease_seconds: u64,
    /// Reason why the membership is unknown now; empty if it is known.
    #[serde(deserialize_with = "crate::text::field")]
    pub trouble: String,
    /// Transactions that this peer has written to etcd.
    pub etcd_transactions: u64,
    /// Bytes of these.
    pub etcd_bytes: u64,
}

/// State of an etcd endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EtcdView {
    /// Its address.
    #[serde(deserialize_with = "crate::text::field")]
    pub endpoint: String,
    /// Version of etcd; empty if it does not answer.
    #[serde(deserialize_with = "crate::text::field")]
    pub version: String,
    /// Bytes of its database.
    pub bytes: u64,
    /// Bytes of it that are in use.
    #[serde(default)]
    pub bytes_in_use: u64,
    /// Bytes beyond which it refuses all writes; 0 if it does not say.
    #[serde(default)]
    pub quota_bytes: u64,
    /// True if it leads the other members of etcd.
    #[serde(default)]
    pub leads: bool,
    /// True if it only follows so far, without a vote.
    #[serde(default)]
    pub learner: bool,
    /// Name of the member; empty if it does not say.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub member: String,
    /// Number of members; 0 if it does not say.
    #[serde(default)]
    pub members: u32,
    /// Time until it answered, in microseconds.
    #[serde(default)]
    pub answer_us: u64,
    /// True if its whole history is kept, though it is long: nothing compacts it (E6).
    #[serde(default)]
    pub is_uncompacted: bool,
    /// Reason why it is not healthy; empty if it is.
    #[serde(deserialize_with = "crate::text::field")]
    pub trouble: String,
}

/// Request that a peer continues alone with the site's etcd: the hosts of all other members are
/// lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TakeoverRequest {
    /// Hosts that the operator knows to be off, or to reach neither stores nor network.
    pub fenced: Vec<Name>,
}

/// Request that a peer gives the site's records another incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RecoverRequest {
    /// Set to start a new etcd at this host first: all members of the old one are lost.
    pub new_etcd: bool,
}

/// Records with which a recovered site continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RecoveredView {
    /// Incarnation of its records, in hex.
    pub incarnation: String,
    /// Transfers among them.
    pub transfers: u64,
    /// True if they are from the journal's copy, which knew more than etcd.
    pub from_journal: bool,
}
