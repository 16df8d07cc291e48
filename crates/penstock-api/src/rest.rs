//! What the local API `/api/v1` says beyond transfers: events, sites, pairing, stores, status.
//!
//! The command line, and any other program, reads the same objects; `--json` prints the events as
//! JSON Lines.

use std::net::SocketAddr;

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::cluster::ClusterView;
use crate::outcome::FailedItem;
use crate::place::PathText;
use crate::problem::{Exit, Problem};
use crate::transfer::{Progress, TransferState, TransferView};

/// Version of the objects in the event stream and of `--json`.
pub const EVENT_VERSION: u32 = 1;
/// Name of the daemon's socket in the site directory.
pub const SOCKET_NAME: &str = "penstock.sock";
/// Most transfers in one answer of a list.
pub const LIST_MAX: usize = 500;

/// One line of the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Event {
    /// How a transfer stands; once a second while it runs, and whenever its state changes.
    Status(TransferEvent),
    /// Something failed: one item, or an attempt, or the transfer.
    Error(ErrorEvent),
    /// A transfer has ended.
    Summary(TransferEvent),
}

/// How a transfer stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferEvent {
    /// [`EVENT_VERSION`].
    pub v: u32,
    /// The transfer.
    pub id: TransferId,
    /// Where it stands.
    pub state: TransferState,
    /// Why, or what it waits for.
    pub reason: String,
    /// Figures. In a summary `rate_bits_per_s` is the mean over the run.
    #[serde(flatten)]
    pub progress: Progress,
    /// How the data was made durable, in words.
    pub durable_by: String,
    /// How the command ends; once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// The first failed items; in a summary only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedItem>,
}

/// Something that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorEvent {
    /// [`EVENT_VERSION`].
    pub v: u32,
    /// The transfer.
    pub id: TransferId,
    /// What failed and why.
    #[serde(flatten)]
    pub problem: Problem,
}

impl Event {
    /// The transfer that an event is about.
    pub fn id(&self) -> TransferId {
        match self {
            Self::Status(event) | Self::Summary(event) => event.id,
            Self::Error(event) => event.id,
        }
    }

    /// The status of a transfer, or its summary once it has ended.
    pub fn of(view: &TransferView) -> Self {
        let mut event = TransferEvent {
            v: EVENT_VERSION,
            id: view.id,
            state: view.state,
            reason: view.reason.clone(),
            progress: view.progress.clone(),
            durable_by: view.durable_by.clone(),
            exit: view.exit,
            failures: Vec::new(),
        };
        if !view.state.is_ended() {
            return Self::Status(event);
        }
        event.failures.clone_from(&view.failures);
        let mean = event.progress.mean_bits_per_s();
        event.progress.rate_bits_per_s = mean;
        // A transfer that ends before anybody looks has no greatest rate yet.
        event.progress.rate_max_bits_per_s = event.progress.rate_max_bits_per_s.max(mean);
        Self::Summary(event)
    }
}

impl Progress {
    /// Mean rate of this run: verified bits over its seconds.
    pub fn mean_bits_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes_verified as f64 * 8.0 / self.seconds } else { 0.0 }
    }
}

/// A part of the list of transfers, newest first.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct TransferList {
    /// The transfers.
    pub transfers: Vec<TransferView>,
    /// Give it as `cursor` for the next part; none at the end.
    #[serde(default)]
    pub next: Option<String>,
}

/// A site: this one, or one that it is paired with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteView {
    /// Its name.
    pub name: Name,
    /// Whether it is the one that answers.
    pub own: bool,
    /// SHA-256 of its CA's key, in hex.
    pub fingerprint: String,
    /// Where its peers listen for data, and its controller for requests.
    pub addresses: Vec<SocketAddr>,
    /// Seconds since 1970 of the pairing; 0 for the own site.
    pub paired: u64,
}

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusView {
    /// The own site.
    pub site: SiteView,
    /// The own peer's name.
    pub peer: Name,
    /// Version of the program.
    pub version: String,
    /// Where it listens for peers and data.
    pub listen: SocketAddr,
    /// Process number of the daemon.
    pub pid: u32,
    /// Transfers that run now.
    pub running: u32,
    /// Transfers that wait for their turn or for their next attempt.
    pub queued: u32,
    /// The site's peers, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterView>,
}

/// Asks for a pairing token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRequest {
    /// How long it is good, in seconds; at most a day.
    pub ttl_seconds: u64,
}

/// A pairing token, to be handed to the operator of the other site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenReply {
    /// The token: a secret until it is used.
    pub token: String,
    /// Seconds since 1970 after which it is void.
    pub expires: u64,
    /// Fingerprint of the own site's CA.
    pub fingerprint: String,
}

/// Asks to join the site that issued a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The token.
    pub token: String,
}

/// Two sites are paired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinReply {
    /// The other site.
    pub site: SiteView,
    /// Fingerprint of the own site's CA, as the other side sees it.
    pub own_fingerprint: String,
}

/// A store of the own site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreView {
    /// Its name.
    pub name: Name,
    /// A directory, or `null:`, or `mem:…`.
    pub place: String,
    /// Whether nothing may be written there.
    pub read_only: bool,
    /// Sites that may read: names, or `*` for all that are paired.
    pub read: Vec<String>,
    /// Sites whose data may be written there on their own request.
    pub write: Vec<String>,
    /// Sites that may have removed there what was moved to them, or `*`.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// What an orphan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrphanKind {
    /// A journal directory of which the database knows no transfer.
    Journal,
    /// The ledger, and possibly temporary files, of a transfer that has ended.
    Ledger,
    /// A transfer of another site that the other site does not know any more.
    Stub,
}

/// Something left over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// Whose it is.
    pub id: TransferId,
    /// What it is.
    pub kind: OrphanKind,
    /// Where it lies, in words.
    pub place: String,
    /// The target's root, where that is known.
    #[serde(default)]
    pub root: Option<PathText>,
    /// Whether it was removed now.
    pub removed: bool,
}

/// All orphans.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OrphanList {
    /// They.
    pub orphans: Vec<Orphan>,
}

/// What a user can do to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Stop it, keep its ledger.
    Pause,
    /// Let a paused one go on.
    Resume,
    /// Give it up and remove what is temporary.
    Cancel,
    /// Begin a failed one again with what is missing.
    Retry,
}

impl Action {
    /// Its name in a URI.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }
}

impl std::str::FromStr for Action {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        [Self::Pause, Self::Resume, Self::Cancel, Self::Retry]
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or_else(|| {
                Problem::new(Exit::Usage, "unknown-action", format!("there is no action `{text}`"))
                    .status(404)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a summary has at least the fields that users and their programs count on, under
    /// these names.
    #[test]
    fn a_summary_has_the_fields_of_the_interface() {
        let view = TransferView {
            id: TransferId([7; 16]),
            source: "lab:raw/a".parse().unwrap(),
            target: "hpc:scratch/a".parse().unwrap(),
            options: Default::default(),
            state: TransferState::Done,
            reason: String::new(),
            created: 1,
            progress: Progress { bytes_verified: 1000, seconds: 2.0, ..Default::default() },
            exit: Some(Exit::Done),
            failures: Vec::new(),
            durable_by: "syncfs".to_owned(),
        };
        let event = Event::of(&view);
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["type"], "summary");
        assert_eq!(json["v"], 1);
        assert_eq!(json["rate_bits_per_s"], 4000.0);
        for field in [
            "state",
            "files",
            "bytes",
            "seconds",
            "rate_max_bits_per_s",
            "bytes_verified",
            "bytes_resumed",
            "bytes_resent",
            "skipped",
            "errors",
            "cpu_seconds",
            "limit",
        ] {
            assert!(!json[field].is_null(), "`{field}` is missing");
        }
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }
}
