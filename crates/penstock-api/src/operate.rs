//! What operators see of a site's peers: what each has in hand, its paths, what has happened.

use std::net::SocketAddr;

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::cluster::{ClusterView, DrainMark};

/// Most events in one answer.
pub const EVENTS_SHOWN_MAX: usize = 2000;

/// What a peer has in hand at this moment, as it says itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerLoad {
    /// The peer.
    pub peer: Name,
    /// Whether it is the controller.
    pub leads: bool,
    /// Transfers that run under it, being the controller.
    pub running: u32,
    /// Transfers that wait for their turn or their next attempt under it, being the controller.
    pub queued: u32,
    /// Lanes that it serves as a source.
    pub lanes_served: u32,
    /// Transfers that it writes for.
    pub tasks: Vec<TaskLoad>,
    /// Load average of the host over one minute.
    pub host_load: f64,
    /// Milliseconds since 1970 by its clock, when it answered.
    pub clock_ms: u64,
}

impl PeerLoad {
    /// Whether nothing would miss it.
    pub fn is_idle(&self) -> bool {
        !self.leads && self.running == 0 && self.lanes_served == 0 && self.tasks.is_empty()
    }
}

/// One peer's share of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskLoad {
    /// The transfer.
    pub transfer: TransferId,
    /// The peer that fetches and writes.
    pub peer: Name,
    /// The site that it fetches from; none where that is its own.
    #[serde(default)]
    pub source: Option<Name>,
    /// The store that it writes to.
    pub store: Name,
    /// Bytes of payload that it has verified in this run.
    pub bytes_verified: u64,
    /// What it fetches now; within one site, where there are no lanes, 0.
    pub rate_bits_per_s: f64,
    /// Lanes that are open.
    pub lanes: u32,
    /// Its paths; none where source and target are one site.
    pub paths: Vec<TaskPath>,
}

/// One path of one transfer at one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskPath {
    /// Address and interface here, as `10.50.1.1%eth1`.
    pub from: String,
    /// Address of the source's peer.
    pub to: SocketAddr,
    /// That peer.
    pub to_peer: Name,
    /// Name of the network; empty if it has none.
    pub network: String,
    /// `untried`, `carrying`, `standby`, `on trial`, `crawling` or `dead`.
    pub state: String,
    /// Since when, in seconds since 1970; 0 if it was never used.
    pub since: u64,
    /// Why it does not carry; empty if it does.
    pub why: String,
    /// Lanes that are open over it.
    pub lanes: u32,
    /// What comes over it now.
    pub rate_bits_per_s: f64,
    /// Least round trip seen, in microseconds.
    pub rtt_us: Option<u64>,
}

/// All that peers say of one transfer.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct TransferPaths {
    /// The shares of those that have one now.
    pub shares: Vec<TaskLoad>,
    /// Peers that were asked and did not answer.
    pub silent: Vec<Name>,
}

/// How a peer is, as the others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It holds its lease and answers.
    Up,
    /// It holds its lease, and does not answer.
    Silent,
    /// It was ended in order.
    Left,
    /// It is gone and has not said so.
    Lost,
}

impl Presence {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Left => "left",
            Self::Lost => "lost",
        }
    }
}

/// A store as a peer reaches it, beside the others'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStore {
    /// Its name.
    pub store: Name,
    /// Its identity, in hex; empty if it has none yet or cannot be read.
    pub identity: String,
    /// Whether it is the same as at the other peers: `same`, `other`, `new` (no identity yet
    /// anywhere), `offline` (others have one), `alone` (nobody else has it).
    pub is: String,
}

/// One peer of the site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerView {
    /// Its name.
    pub peer: Name,
    /// Whether it is the one that answers.
    pub own: bool,
    /// How it is.
    pub presence: Presence,
    /// Since when it is that, in seconds since 1970; 0 if that is not known.
    pub since: u64,
    /// Where it takes requests.
    pub addresses: Vec<SocketAddr>,
    /// Release of the program.
    pub version: String,
    /// Since when it is the controller, in seconds since 1970; 0 if it is not.
    pub controller_since: u64,
    /// Stores that it reaches.
    pub stores: Vec<PeerStore>,
    /// That it is to have no new work.
    pub draining: Option<DrainMark>,
    /// What it has in hand, if it answers.
    pub load: Option<PeerLoad>,
    /// By how much its clock is ahead of the one that answers, in milliseconds; as good as half
    /// the time that it took to ask.
    pub clock_ahead_ms: Option<f64>,
    /// What is wrong with it, in words; empty if nothing is.
    pub trouble: String,
}

/// The peers of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersView {
    /// The site.
    pub site: Name,
    /// They, in order of their names.
    pub peers: Vec<PeerView>,
}

/// An order to drain a peer, or to take that back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Take it back.
    #[serde(default)]
    pub undo: bool,
    /// Even if nobody else reaches a store of a running transfer.
    #[serde(default)]
    pub force: bool,
}

/// Something that has happened at a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteEvent {
    /// Milliseconds since 1970, by the clock of the peer that tells.
    pub at_ms: u64,
    /// The peer that tells.
    pub peer: Name,
    /// Stable: `peer-joined`, `peer-left`, `peer-lost`, `controller`, `no-controller`, `drain`,
    /// `undrain`, `path-dead`, `path-crawling`, `path-back`, `store-offline`, `store-back`,
    /// `peer-in`, `peer-out`, `scan-in`, `scan-out` (of a transfer), `etcd`, `etcd-lost`,
    /// `etcd-back`, `etcd-member-lost`, `etcd-member-back`, `format`, `transfer`, `problem`.
    pub kind: String,
    /// What it happened to: a peer, a path, a store, an id.
    pub subject: String,
    /// The transfer, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferId>,
    /// In words.
    pub text: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing to do.
    Note,
    /// It works, and costs rate, safety or patience.
    Warning,
    /// It does not work, or will not for long.
    Bad,
}

impl Level {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// What somebody who looks after a site is told about one matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable, for programs: `clock`, `nofile`, `path`, ….
    pub code: String,
    /// How bad it is.
    pub level: Level,
    /// The peer it is about; empty if it is about none.
    #[serde(default)]
    pub peer: String,
    /// What was found.
    pub what: String,
    /// Why it matters; empty if all is well.
    #[serde(default)]
    pub why: String,
    /// What to do; empty if nothing is to be done.
    #[serde(default)]
    pub action: String,
}

impl Finding {
    /// Something that is as it should be.
    pub fn ok(code: &str, what: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            level: Level::Ok,
            peer: String::new(),
            what: what.into(),
            why: String::new(),
            action: String::new(),
        }
    }

    /// Something that is not.
    pub fn new(
        level: Level,
        code: &str,
        what: impl Into<String>,
        why: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        let (why, action) = (why.into(), action.into());
        Self { level, why, action, ..Self::ok(code, what) }
    }

    /// The same, of a peer.
    #[must_use]
    pub fn of(mut self, peer: &Name) -> Self {
        peer.as_str().clone_into(&mut self.peer);
        self
    }
}

/// Whether all is well with a site, as `penstock site status` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteHealthView {
    /// The worst of the findings.
    pub level: Level,
    /// What is to be said.
    pub findings: Vec<Finding>,
    /// The site's peers.
    pub peers: PeersView,
    /// Who leads, and how etcd is; none at a site of one peer.
    pub cluster: Option<ClusterView>,
}

/// The worst of some findings; `Ok` of none.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}
