//! Requests of users, and what users see of their transfers.

use penstock_proto::digest::DigestKind;
use penstock_proto::frame::CipherSuite;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::slicing::Slicing;
use penstock_proto::wire::DecodeError;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Bottleneck;
use crate::options::deadline::{Deadline, DeadlineView};
use crate::options::limits::Limits;
use crate::options::plan_use::PlanUse;
use crate::options::preserve::{NotKept, Preserve};
use crate::options::select::Selection;
use crate::options::update::UpdateOptions;
use crate::problem::Exit;
use crate::proof::Proof;
use crate::time_use::TransferTime;

pub use crate::outcome::{Durability, FailedItem};
pub use crate::place::{Location, ParseLocationError, PathText};

/// Encryption of payload on the wire. The control channel is always encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// TLS 1.3.
    #[default]
    Tls,
    /// Frames in clear, authenticated; with XXH3 the payload is not (D3).
    Off,
}

/// Most lanes of one transfer.
pub const LANES_MAX: u32 = 1024;
/// Most networks that a transfer names.
pub const NETWORKS_MAX: usize = 64;

/// Options of a transfer. Every field has a default; none needs to be set.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TransferOptions {
    /// Hash that verifies the data.
    pub digest: DigestKind,
    /// Encryption of payload on the wire.
    pub encryption: Encryption,
    /// Cipher suite of TLS; without it, the first of the target site's `cipher_suites` that the
    /// source site allows too. Goes with `tls` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher_suite: Option<CipherSuite>,
    /// Policy that defines when a file counts as durable.
    pub durability: Durability,
    /// Keep a digest list of the data set, offered by `transfer digests`.
    pub digest_list: bool,
    /// Most lanes at a time, of all target peers together; 0 lets the engine decide.
    pub lanes_max: u32,
    /// Exact number of lanes, 1 to [`LANES_MAX`]; 0 lets the engine decide, which is right for
    /// nearly all. Overrides `lanes_max`.
    #[cfg_attr(feature = "openapi", schemars(range(max = LANES_MAX)))]
    pub lanes: u32,
    /// Names of the networks over which lanes may go, as either site calls them; empty allows all
    /// networks for data. Has no effect between stores of one host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schemars(length(max = NETWORKS_MAX)))]
    pub networks: Vec<Name>,
    /// Most peers of each site that carry data, at least 1; without it, all may. Other peers may
    /// help to list the source. Where a peer fails, another one takes its place, and both may carry
    /// data when it is back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(range(min = 1)))]
    pub peers_max: Option<u32>,
    /// Bytes of the pieces into which large files are cut, a power of two from 1 MiB to 1 GiB;
    /// small files are packed up to half of it. 0 lets the engine decide, which is right for nearly
    /// all.
    pub piece_bytes: u64,
    /// Move only these paths, relative to the source; empty moves all.
    pub files_from: Vec<PathText>,
    /// Treatment of what exists at the target.
    pub update: UpdateOptions,
    /// Selection of the source, or of these paths.
    pub select: Selection,
    /// Proofs to give beyond the digests.
    pub proof: Proof,
    /// Limits to what it may use.
    pub limits: Limits,
    /// Attributes to preserve.
    pub preserve: Preserve,
    /// Set if it only makes a plan, or follows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanUse>,
    /// Remove at the source what was moved, once it is durable at the target.
    pub remove_source: bool,
}

impl TransferOptions {
    /// Checks that a cipher suite is asked for only where there is encryption.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn check_cipher_suite(&self) -> Result<(), &'static str> {
        if self.cipher_suite.is_some() && self.encryption == Encryption::Off {
            return Err(
                "--cipher-suite does not go with --encryption off: frames in clear have no \
                        cipher",
            );
        }
        Ok(())
    }

    /// Checks that what was moved may be removed at the source under the other options.
    ///
    /// # Errors
    /// The reason why it may not, for people.
    pub fn check_removal(&self) -> Result<(), &'static str> {
        if !self.remove_source {
            return Ok(());
        }
        if self.update.delete {
            return Err("--remove-source does not go with --delete: once the source is emptied, \
                        the next run would delete at the target what this one has moved there");
        }
        if self.durability == Durability::None {
            return Err("--remove-source does not go with --durability none: nothing is removed \
                        before it is durable at the target");
        }
        Ok(())
    }

    /// Returns these options without the lists that may be long: paths and rules of selection.
    #[must_use]
    pub fn without_lists(&self) -> Self {
        Self {
            digest: self.digest,
            encryption: self.encryption,
            cipher_suite: self.cipher_suite,
            durability: self.durability,
            digest_list: self.digest_list,
            lanes_max: self.lanes_max,
            lanes: self.lanes,
            networks: self.networks.clone(),
            peers_max: self.peers_max,
            piece_bytes: self.piece_bytes,
            files_from: Vec::new(),
            update: self.update.clone(),
            select: Selection::default(),
            proof: self.proof.clone(),
            limits: self.limits,
            preserve: self.preserve.clone(),
            plan: self.plan.clone(),
            remove_source: self.remove_source,
        }
    }

    /// Returns the rules by which the data set's pages are cut.
    ///
    /// # Errors
    /// `Invalid` if `piece_bytes` is out of its bounds.
    pub fn slicing(&self) -> Result<Slicing, DecodeError> {
        let slicing = match self.piece_bytes {
            0 => Slicing::default(),
            bytes => Slicing::with_extent_bytes(bytes),
        };
        slicing.check()?;
        Ok(slicing)
    }
}

/// Request of a user for a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferRequest {
    /// Chosen by the client, so that a repeated submission is the same transfer.
    pub id: TransferId,
    /// Source.
    pub source: Location,
    /// Target.
    pub target: Location,
    /// Options.
    #[serde(default)]
    pub options: TransferOptions,
    /// Note of its user, up to 200 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Priority among the transfers of one user, 0 to 100; 50 if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Earliest start, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<u64>,
    /// Time by which it has to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// Start before all fair shares. For operators.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Seconds without any progress after which an attempt ends, 10 to 86,400;
    /// [`PROGRESS_TIMEOUT_S`] if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_timeout_s: Option<u32>,
    /// Most attempts in a row that fail for a reason that may pass, and move nothing. Without a
    /// limit the transfer is retried until it is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
}

/// Seconds without any progress after which an attempt ends, unless a request says otherwise.
pub const PROGRESS_TIMEOUT_S: u32 = 600;

impl TransferRequest {
    /// Returns a request with options, and nothing else that need not be given.
    pub fn new(
        id: TransferId,
        source: Location,
        target: Location,
        options: TransferOptions,
    ) -> Self {
        Self {
            id,
            source,
            target,
            options,
            label: String::new(),
            priority: None,
            not_before: None,
            deadline: None,
            urgent: false,
            progress_timeout_s: None,
            attempts_max: None,
        }
    }
}

/// The reason for which a transfer waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The kind of the reason: `turn`, `retry`, `room`, …; the manual lists all of them.
    #[serde(deserialize_with = "crate::text::field")]
    pub code: String,
    /// Milliseconds since 1970 since which it waits for this reason.
    pub since_ms: u64,
    /// End of the wait in milliseconds since 1970; absent where an event ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// The object: a store, a site, a rule. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub on: String,
    /// Number of transfers that would start before it; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}

/// State of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TransferState {
    /// Accepted and stored, waiting to be started.
    Queued,
    /// Scanning, moving, verifying.
    Running,
    /// Stopped by a user; keeps its ledger.
    Paused,
    /// Every planned item is verified and durable under the stated policy (promise (c)).
    Done,
    /// Ended with failures; `retry` moves only what is missing.
    Failed,
    /// Given up by a user; nothing temporary remains.
    Cancelled,
}

impl TransferState {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Paused, Self::Done, Self::Failed, Self::Cancelled];

    /// Returns the name of the state, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether nothing more will happen unless a user asks.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// Figures of a transfer, while it runs and in its summary. All counts are of payload.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Progress {
    /// Entries found so far: files, directories and links.
    pub entries_found: u64,
    /// Files found so far.
    pub files_found: u64,
    /// Bytes of files found so far.
    pub bytes_found: u64,
    /// True if the scan is complete, so that the three above are totals.
    pub scan_complete: bool,
    /// Files verified and written.
    pub files: u64,
    /// Bytes verified and written, in this run and before.
    pub bytes: u64,
    /// Bytes durable under the stated policy.
    pub bytes_durable: u64,
    /// Bytes that were hashed at the source and found equal at the target, in this run.
    pub bytes_verified: u64,
    /// Bytes that were read again at the target after they were durable, and were right.
    #[serde(default)]
    pub bytes_read_back: u64,
    /// Bytes that were there from an earlier run and were not sent again.
    pub bytes_resumed: u64,
    /// Bytes that had to be sent once more (A7).
    pub bytes_resent: u64,
    /// Pieces repaired after a digest mismatch.
    pub repairs: u64,
    /// Items passed over on purpose, files that stay as they are at the target among them.
    pub skipped: u64,
    /// Bytes of files that stay as they are at the target.
    #[serde(default)]
    pub bytes_skipped: u64,
    /// Items that were not chosen; an excluded directory counts as one.
    #[serde(default)]
    pub excluded: u64,
    /// Sockets among these.
    #[serde(default)]
    pub sockets: u64,
    /// Items passed over at the source: state of runs, markers of copies, private directories of
    /// stores.
    #[serde(default)]
    pub own_state: u64,
    /// Attributes that were not preserved; no item has failed by that.
    #[serde(default)]
    pub not_kept: Vec<NotKept>,
    /// Files that a digest list lacks, because nearly all of each is holes (D2).
    #[serde(default)]
    pub not_listed: u64,
    /// Items deleted at the target.
    #[serde(default)]
    pub deleted: u64,
    /// Items removed at the source, as `remove_source` wants.
    #[serde(default)]
    pub removed: u64,
    /// Items that stay at the source though it was to be emptied: they failed or changed, stayed as
    /// they were at the target, or are directories that hold something.
    #[serde(default)]
    pub stayed: u64,
    /// Items that failed.
    pub errors: u64,
    /// Lanes that are open now.
    pub lanes: u32,
    /// Share of each target peer, at a site of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerShare>,
    /// Bits per second now, over the last second or so.
    pub rate_bits_per_s: f64,
    /// Greatest such rate.
    pub rate_max_bits_per_s: f64,
    /// Seconds since the transfer was started, pauses left out.
    pub seconds: f64,
    /// CPU seconds that this process used for it, as far as they can be told apart.
    pub cpu_seconds: f64,
    /// Limit of the rate now, in words: `reading at the source`, `the network`, ….
    #[serde(deserialize_with = "crate::text::field")]
    pub limit: String,
    /// The same with its share of the time; of a transfer that has ended, for all of it. Absent
    /// before lanes have worked, and where its controller is of an earlier release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// The time of its threads, by side, peer and activity, since its attempt began.
    #[serde(default, skip_serializing_if = "TransferTime::is_empty")]
    pub time: TransferTime,
}

impl Progress {
    /// Returns the bytes that need not be moved any more. The verified parts of files that are not
    /// whole count too.
    pub fn bytes_settled(&self) -> u64 {
        let come = self.bytes_resumed + self.bytes_verified;
        let come = come.saturating_sub(self.bytes_resent).max(self.bytes);
        (come + self.bytes_skipped).min(self.bytes_found)
    }
}

/// Part of a target peer in a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerShare {
    /// Its name.
    #[serde(deserialize_with = "crate::text::field")]
    pub peer: String,
    /// `working`, `joining`, `draining`, `leaving: WHY`, `resting: WHY` or `out: WHY`, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub state: String,
    /// Its lanes that are open now.
    pub lanes: u32,
    /// Bytes that it has verified in this run, since it joined last.
    pub bytes_verified: u64,
    /// Event that it waits for, and until when; empty if it moves.
    #[serde(deserialize_with = "crate::text::field")]
    pub waiting: String,
}

/// A transfer as its owner reports it to another site, and as the record of that site keeps it.
/// Users see a [`crate::rest::TransferView`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferReport {
    /// Its id.
    pub id: TransferId,
    /// Source.
    pub source: Location,
    /// Target.
    pub target: Location,
    /// Options. A report without lists has neither `files_from` nor rules of selection.
    pub options: TransferOptions,
    /// Number of paths that `options.files_from` has, or had.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_from_count: u64,
    /// User that submitted it; absent where another site did, or the administrator of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// Note of its user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub label: String,
    /// Priority among the transfers of one user, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Earliest start, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<u64>,
    /// True if an operator has put it before all fair shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Time by which it has to be done, and the outlook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineView>,
    /// State.
    pub state: TransferState,
    /// The reason for which it waits; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Reason of the state, or what the transfer waits for and until when (promise (f)). May be
    /// empty.
    #[serde(deserialize_with = "crate::text::field")]
    pub reason: String,
    /// Time of its submission, in seconds since 1970.
    pub created: u64,
    /// Attempts so far, and their times.
    #[serde(default)]
    pub attempts: Attempts,
    /// Figures.
    pub progress: Progress,
    /// Exit status of `--wait`, once the transfer has ended.
    pub exit: Option<Exit>,
    /// The first failed items; all of them are in the failure list.
    pub failures: Vec<FailedItem>,
    /// Method by which the data was made durable, in words; empty before the first sync.
    #[serde(deserialize_with = "crate::text::field")]
    pub durable_by: String,
}

impl TransferReport {
    /// Returns the report without the paths of the request, but with their number.
    #[must_use]
    pub fn without_paths(mut self) -> Self {
        let paths = std::mem::take(&mut self.options.files_from);
        self.files_from_count = self.files_from_count.max(paths.len() as u64);
        self
    }
}

/// Attempts at a transfer. Times are in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempts {
    /// Number of attempts that were begun.
    pub count: u32,
    /// Begin of the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// End of the transfer; absent until then, and after a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Pause of the transfer; absent if it is not paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

/// Pause of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Begin, in milliseconds since 1970.
    pub since_ms: u64,
    /// The user that asked for it, or the site; empty where that is not known.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub by: String,
    /// Its end, in milliseconds since 1970; absent if a user ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a location means the same to every command, and one that climbs out is refused.
    #[test]
    fn locations_are_read_and_written() {
        let location: Location = "lab:raw/run7/".parse().unwrap();
        assert_eq!((location.path.0.as_slice(), location.slash), (&b"run7"[..], true));
        assert_eq!(location.to_string(), "lab:raw/run7/");
        let root: Location = "hpc:scratch".parse().unwrap();
        assert_eq!(root.to_string(), "hpc:scratch/");
        assert!(!root.slash);
        for form in [serde_json::to_value(&location).unwrap(), "lab:raw/run7/".into()] {
            assert_eq!(serde_json::from_value::<Location>(form).unwrap(), location);
        }
        let mut later = serde_json::to_value(&location).unwrap();
        later["added"] = 1.into();
        assert_eq!(serde_json::from_value::<Location>(later).unwrap(), location);
        for bad in ["raw/run7", "lab:raw/../x", "Lab:raw", "lab:", "lab:raw/a//b"] {
            assert!(bad.parse::<Location>().is_err(), "`{bad}` must be refused");
        }
    }
}
