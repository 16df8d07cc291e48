//! Views for operators of a site's peers: their work, their paths, and events.

pub mod benchmark;
pub mod settings;
pub mod statistics;
pub mod webhook;

use std::net::SocketAddr;

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::cluster::{ClusterView, DrainMark};
use crate::timestamp::Timestamp;

/// Most events in one answer.
pub const EVENTS_SHOWN_MAX: usize = 2000;

/// Work that a peer has in hand at this moment, as it reports itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerLoad {
    /// The peer.
    pub peer: Name,
    /// True if it is the controller.
    pub leads: bool,
    /// Transfers that run under it as the controller.
    pub running: u32,
    /// Transfers that wait under it, as the controller, to be started or for their next attempt.
    pub queued: u32,
    /// Lanes that it serves as a source.
    pub lanes_served: u32,
    /// Transfers for which it writes.
    pub tasks: Vec<TaskLoad>,
    /// Load average of the host over one minute.
    pub host_load: f64,
    /// Time by its clock when it answered, in milliseconds since 1970.
    pub clock_ms: u64,
}

impl PeerLoad {
    /// Returns whether it has no work in hand, so that it can be stopped without loss.
    pub fn is_idle(&self) -> bool {
        !self.leads && self.running == 0 && self.lanes_served == 0 && self.tasks.is_empty()
    }
}

/// Share of a peer in a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TaskLoad {
    /// The transfer.
    pub transfer: TransferId,
    /// The peer that fetches and writes.
    pub peer: Name,
    /// The site from which it fetches; none if that is its own site.
    #[serde(default)]
    pub source: Option<Name>,
    /// The store to which it writes.
    pub store: Name,
    /// Bytes of payload that it has verified in this run.
    pub bytes_verified: u64,
    /// Rate at which it fetches now; 0 within one site, where there are no lanes.
    pub rate_bits_per_s: f64,
    /// Lanes that are open.
    pub lanes: u32,
    /// Its paths; none if source and target are one site.
    pub paths: Vec<TaskPath>,
}

/// A path of a transfer at a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TaskPath {
    /// Address and interface here, as `10.50.1.1%eth1`.
    #[serde(deserialize_with = "crate::text::field")]
    pub from: String,
    /// Address of the source's peer.
    pub to: SocketAddr,
    /// Name of that peer.
    pub to_peer: Name,
    /// Name of the network; empty if it has none.
    #[serde(deserialize_with = "crate::text::field")]
    pub network: String,
    /// `untried`, `carrying`, `standby`, `on trial`, `crawling` or `dead`.
    #[serde(deserialize_with = "crate::text::field")]
    pub state: String,
    /// Start of that state, in seconds since 1970; 0 if the path was never used.
    pub since: u64,
    /// Reason why it does not carry; empty if it does.
    #[serde(deserialize_with = "crate::text::field")]
    pub why: String,
    /// Lanes that are open over it.
    pub lanes: u32,
    /// Rate over it now.
    pub rate_bits_per_s: f64,
    /// Least round trip seen, in microseconds.
    pub rtt_us: Option<u64>,
}

/// Reports of all peers on one transfer.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TransferPaths {
    /// Shares of the peers that have one now.
    pub shares: Vec<TaskLoad>,
    /// Peers that were asked and did not answer.
    pub silent: Vec<Name>,
}

/// Presence of a peer, as the others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// The peer holds its lease and answers.
    Up,
    /// The peer holds its lease and does not answer.
    Silent,
    /// The peer was shut down in order.
    Left,
    /// The peer is gone without having said so.
    Lost,
}

impl Presence {
    /// Returns its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Left => "left",
            Self::Lost => "lost",
        }
    }
}

/// A store as a peer reaches it, compared with the other peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerStore {
    /// Its name.
    pub store: Name,
    /// Its identity, in hex; empty if it has none yet or cannot be read.
    pub identity: String,
    /// Comparison with the other peers: `same`, `other`, `new` (no identity yet anywhere),
    /// `offline` (it cannot be opened, or others have an identity), `alone` (no other peer has it).
    #[serde(deserialize_with = "crate::text::field")]
    pub is: String,
    /// The reason why it is offline, in words; may be empty.
    #[serde(default, deserialize_with = "crate::text::field")]
    pub why: String,
}

/// A peer of the site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerView {
    /// Its name.
    pub peer: Name,
    /// True if it is the peer that answers.
    pub own: bool,
    /// Its presence.
    pub presence: Presence,
    /// Start of that presence, in seconds since 1970; 0 if it is unknown.
    pub since: u64,
    /// Addresses at which it takes requests.
    pub addresses: Vec<SocketAddr>,
    /// Release of the program.
    #[serde(deserialize_with = "crate::text::field")]
    pub version: String,
    /// Start of its controllership, in seconds since 1970; 0 if it is not the controller.
    pub controller_since: u64,
    /// Stores that it reaches.
    pub stores: Vec<PeerStore>,
    /// The order that it gets no new work, if there is one.
    pub draining: Option<DrainMark>,
    /// Its work in hand, if it answers.
    pub load: Option<PeerLoad>,
    /// Milliseconds by which its clock is ahead of the clock of the peer that answers. The error is
    /// at most half the time that the question took.
    pub clock_ahead_ms: Option<f64>,
    /// Trouble of the peer, in words; empty if there is none.
    #[serde(deserialize_with = "crate::text::field")]
    pub trouble: String,
}

/// The peers of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeersView {
    /// The site.
    pub site: Name,
    /// The peers, in order of their names.
    pub peers: Vec<PeerView>,
}

/// Request to drain a peer, or to take that order back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Take the order back.
    #[serde(default)]
    pub undo: bool,
    /// Drain even if no other peer reaches a store of a running transfer.
    #[serde(default)]
    pub force: bool,
}

/// An event at a site, as its peers record it and tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteEvent {
    /// Time by the clock of the reporting peer, in milliseconds since 1970.
    pub at_ms: u64,
    /// The reporting peer.
    pub peer: Name,
    /// Stable: `peer-joined`, `peer-left`, `peer-lost`, `controller`, `no-controller`, `drain`,
    /// `undrain`, `path-dead`, `path-crawling`, `path-back`, `store-offline`, `store-back`,
    /// `peer-in`, `peer-out`, `scan-in`, `scan-out` (of a transfer), `etcd`, `etcd-lost`,
    /// `etcd-back`, `etcd-member-lost`, `etcd-member-back`, `format`, `transfer`, `problem`.
    #[serde(deserialize_with = "crate::text::field")]
    pub kind: String,
    /// Subject of the event: a peer, a path, a store, an id.
    #[serde(deserialize_with = "crate::text::field")]
    pub subject: String,
    /// The transfer that the event concerns, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferId>,
    /// The event in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub text: String,
}

/// An event at a site, as users see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SiteEventView {
    /// Time by the clock of the reporting peer.
    pub at: Timestamp,
    /// The reporting peer.
    pub peer: Name,
    /// The kind, as in [`SiteEvent::kind`].
    #[serde(deserialize_with = "crate::text::field")]
    pub kind: String,
    /// Subject of the event: a peer, a path, a store, an id.
    #[serde(deserialize_with = "crate::text::field")]
    pub subject: String,
    /// The transfer that the event concerns, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferId>,
    /// The event in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub text: String,
}

impl From<SiteEvent> for SiteEventView {
    fn from(event: SiteEvent) -> Self {
        let SiteEvent { at_ms, peer, kind, subject, transfer, text } = event;
        Self { at: Timestamp::of_ms(at_ms), peer, kind, subject, transfer, text }
    }
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// In order.
    Ok,
    /// Worth knowing; no action needed.
    Note,
    /// Works, but costs rate, safety or patience.
    Warning,
    /// Does not work, or will not for long.
    Bad,
}

impl Level {
    /// Returns its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// A finding about one matter, for operators of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable, for programs: `clock`, `nofile`, `path`, ….
    #[serde(deserialize_with = "crate::text::field")]
    pub code: String,
    /// Severity.
    pub level: Level,
    /// The peer concerned; empty if there is none.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub peer: String,
    /// The observation.
    #[serde(deserialize_with = "crate::text::field")]
    pub what: String,
    /// Reason why it matters; empty if all is well.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub why: String,
    /// Action to take; empty if there is none.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub action: String,
}

impl Finding {
    /// Returns a finding that all is well.
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

    /// Returns a finding of another level.
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

    /// Returns the finding with its peer set.
    #[must_use]
    pub fn of(mut self, peer: &Name) -> Self {
        peer.as_str().clone_into(&mut self.peer);
        self
    }
}

/// Health of a site, as `penstock site status` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SiteHealthView {
    /// The worst of the findings.
    pub level: Level,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The site's peers.
    pub peers: PeersView,
    /// The leader and the state of etcd; none at a site of one peer.
    pub cluster: Option<ClusterView>,
}

/// Returns the worst level of some findings; `Ok` if there are none.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}
