//! Objects of the local API `/api/v1` beyond transfers: events, sites, pairing, stores and their
//! entries, the audit log, status.
//!
//! The command line, and any other program, reads the same objects; `--json` prints the events as
//! JSON Lines.

mod audit;
mod flight;
mod page;
pub mod piece_map;
pub mod request_body;
mod stores;
mod transfer_request;
mod transfer_view;
mod waiting_view;

use std::net::SocketAddr;

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::cluster::ClusterView;
use crate::endpoints::{
    CANCEL_TRANSFER, Endpoint, PAUSE_TRANSFER, RESUME_TRANSFER, RETRY_TRANSFER,
};
use crate::outcome::FailedItem;
use crate::place::PathText;
use crate::problem::{Exit, Problem, ProblemCode, ProblemDetails};
use crate::timestamp::Timestamp;
use crate::transfer::{Progress, TransferReport, TransferState};

pub use flight::{FLIGHT_KIND_MAX, FLIGHT_RECORDS_MAX, FlightKind, FlightRecord};
pub use page::Page;
pub use piece_map::PieceMap;
pub use transfer_request::{LimitsPatch, SubmitRequest, TransferPatch, TransferQuery};
pub use transfer_view::{
    Direction, FailureCount, FailureSummary, ProgressSummary, TransferSummary, TransferView,
};
pub use waiting_view::WaitingView;

pub use audit::{
    AUDIT_LINES_MAX, AuditAsk, AuditEntry, AuditFilter, AuditList, AuditPart, AuditPlaces,
    AuditPosition, AuditQuery, AuditResult, SILENT_HEADER,
};
pub use stores::{
    DirectoryRequest, ENTRIES_MAX, EntriesQuery, EntryList, EntryOwner, EntrySort, EntryView,
    SORTED_NAMES_MAX, SiteStoreView, StoreDetails, StorePeer, StoreSpace, StoreState, StoreUsage,
    StoreView,
};

/// Version of the objects in the event stream and of `--json`.
pub const EVENT_VERSION: u32 = 1;
/// Name of the daemon's socket in the site directory.
pub const SOCKET_NAME: &str = "penstock.sock";
/// Most transfers in one answer of a list, and the number without a `limit`.
pub const LIST_MAX: usize = 500;
/// See [`LIST_MAX`].
pub const LIST_DEFAULT: usize = 100;

/// A line of the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Event {
    /// State of a transfer; once a second while it runs, and whenever its state changes.
    Status(TransferEvent),
    /// Failure of one item, of an attempt, or of the transfer.
    Error(ErrorEvent),
    /// End of a transfer.
    Summary(TransferEvent),
    /// Events are gone that the client has not received: it has to look anew.
    Reset,
}

/// State of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TransferEvent {
    /// [`EVENT_VERSION`].
    pub v: u32,
    /// The transfer.
    pub id: TransferId,
    /// State.
    pub state: TransferState,
    /// Reason of the state, or what the transfer waits for.
    #[serde(deserialize_with = "crate::text::field")]
    pub reason: String,
    /// Figures. In a summary `rate_bits_per_s` is the mean over the run.
    #[serde(flatten)]
    pub progress: Progress,
    /// Method by which the data was made durable, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub durable_by: String,
    /// Exit status of the command, once the transfer has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// The first failed items; in a summary only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedItem>,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ErrorEvent {
    /// [`EVENT_VERSION`].
    pub v: u32,
    /// The transfer.
    pub id: TransferId,
    /// The failure and its reason.
    #[serde(flatten)]
    pub problem: ProblemDetails,
}

impl Event {
    /// Returns the transfer that an event concerns; `None` for a reset.
    pub fn id(&self) -> Option<TransferId> {
        match self {
            Self::Status(event) | Self::Summary(event) => Some(event.id),
            Self::Error(event) => Some(event.id),
            Self::Reset => None,
        }
    }

    /// Returns the status of a transfer, or its summary once it has ended.
    pub fn of(report: &TransferReport) -> Self {
        let failures = if report.state.is_ended() { &*report.failures } else { &[] };
        Self::of_parts(TransferEvent {
            v: EVENT_VERSION,
            id: report.id,
            state: report.state,
            reason: report.reason.clone(),
            progress: report.progress.clone(),
            durable_by: report.durable_by.clone(),
            exit: report.exit,
            failures: failures.to_vec(),
        })
    }

    /// Returns the status of a transfer that the API has shown.
    pub fn of_view(view: &TransferView) -> Self {
        let failures = if view.state.is_ended() { &*view.failures.first } else { &[] };
        Self::of_parts(TransferEvent {
            v: EVENT_VERSION,
            id: view.id,
            state: view.state,
            reason: view.reason.clone(),
            progress: view.progress.clone(),
            durable_by: view.durable_by.clone(),
            exit: view.exit,
            failures: failures.to_vec(),
        })
    }

    fn of_parts(mut event: TransferEvent) -> Self {
        if !event.state.is_ended() {
            return Self::Status(event);
        }
        let mean = event.progress.mean_bits_per_s();
        event.progress.rate_bits_per_s = mean;
        // A transfer that ends before anybody looks has no greatest rate yet.
        event.progress.rate_max_bits_per_s = event.progress.rate_max_bits_per_s.max(mean);
        Self::Summary(event)
    }
}

impl Progress {
    /// Returns the mean rate of this run: verified bits over its seconds.
    pub fn mean_bits_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes_verified as f64 * 8.0 / self.seconds } else { 0.0 }
    }
}

/// A site: this one, or one that it is paired with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SiteView {
    /// Its name.
    pub name: Name,
    /// True if it is the site that answers.
    pub own: bool,
    /// SHA-256 of its CA's key, in hex.
    pub fingerprint: String,
    /// Addresses at which its peers listen for data, and its controller for requests.
    pub addresses: Vec<SocketAddr>,
    /// Time of the pairing; absent for the own site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paired_at: Option<Timestamp>,
    /// Number of its keys: rotations since it was set up.
    #[serde(default)]
    pub keys: u64,
    /// Set until it has confirmed that it trusts the newest keys of the own site.
    #[serde(default)]
    pub unheard: bool,
}

/// State of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StatusView {
    /// The own site.
    pub site: SiteView,
    /// The own peer's name.
    pub peer: Name,
    /// Version of the program.
    #[serde(deserialize_with = "crate::text::field")]
    pub version: String,
    /// Address at which it listens for peers and data.
    pub listen: SocketAddr,
    /// Process number of the daemon.
    pub pid: u32,
    /// Transfers that run now.
    pub running: u32,
    /// Transfers that wait to be started or for their next attempt.
    pub queued: u32,
    /// The site's peers, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterView>,
}

/// Request for a pairing token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Validity of the token, in seconds; at most a day.
    pub ttl_seconds: u64,
}

/// A pairing token, to be handed to the operator of the other site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TokenReply {
    /// The token: a secret until it is used.
    pub token: String,
    /// Time after which it is void.
    pub expires_at: Timestamp,
    /// Fingerprint of the own site's CA.
    pub fingerprint: String,
}

/// Request to join the site that issued a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The token.
    pub token: String,
}

/// Answer to a site that was paired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct JoinReply {
    /// The other site.
    pub site: SiteView,
    /// Fingerprint of the own site's CA, as the other side sees it.
    pub own_fingerprint: String,
}

/// Kind of an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OrphanKind {
    /// A journal directory whose transfer the database does not know.
    Journal,
    /// The ledger, and possibly temporary files, of a transfer that has ended.
    Ledger,
    /// A transfer of another site that the other site does not know any more.
    Stub,
}

/// An orphan: a leftover of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Orphan {
    /// The transfer to which it belongs.
    pub id: TransferId,
    /// Kind.
    pub kind: OrphanKind,
    /// Place, in words.
    pub place: String,
    /// The target's root, where that is known.
    #[serde(default)]
    pub root: Option<PathText>,
    /// True if it was removed now.
    pub removed: bool,
}

/// Action of a user on a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Stop it and keep its ledger.
    Pause,
    /// Continue a paused one.
    Resume,
    /// Give it up and remove temporary files.
    Cancel,
    /// Start a failed one again with what is missing.
    Retry,
}

impl Action {
    /// Returns its name in a URI.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }

    /// Returns the endpoint that does it to one transfer.
    pub fn endpoint(self) -> &'static Endpoint {
        match self {
            Self::Pause => &PAUSE_TRANSFER,
            Self::Resume => &RESUME_TRANSFER,
            Self::Cancel => &CANCEL_TRANSFER,
            Self::Retry => &RETRY_TRANSFER,
        }
    }
}

/// An action on a transfer, and for a pause its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// The action.
    pub action: Action,
    /// Time at which a paused transfer resumes by itself; `None` if a user resumes it.
    pub until: Option<Timestamp>,
}

impl From<Action> for Steering {
    fn from(action: Action) -> Self {
        Self { action, until: None }
    }
}

/// Query of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PauseQuery {
    /// Time at which the transfer resumes by itself, within a year. Without it a user resumes the
    /// transfer. Of a transfer that is paused already, this is the end from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl std::str::FromStr for Action {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        [Self::Pause, Self::Resume, Self::Cancel, Self::Retry]
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or_else(|| {
                Problem::new(ProblemCode::UnknownAction, format!("action `{text}` does not exist"))
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
        let view = TransferReport {
            files_from_count: 0,
            not_before: None,
            attempts: Default::default(),
            id: TransferId([7; 16]),
            source: "lab:raw/a".parse().unwrap(),
            target: "hpc:scratch/a".parse().unwrap(),
            options: Default::default(),
            owner: None,
            label: String::new(),
            priority: None,
            urgent: false,
            deadline: None,
            state: TransferState::Done,
            waiting: None,
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
