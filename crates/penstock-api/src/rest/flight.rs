//! The flight recorder of a transfer: the last decisions that were made about it.

use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

/// Most records that are kept of a transfer. The oldest go first.
pub const FLIGHT_RECORDS_MAX: usize = 512;

/// Most records of one kind: frequent decisions do not push out the rare ones.
pub const FLIGHT_KIND_MAX: usize = FLIGHT_RECORDS_MAX / 4;

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FlightKind {
    /// An attempt began.
    AttemptBegin,
    /// An attempt ended; the text says what follows.
    AttemptEnd,
    /// The run entered another phase or another round.
    Phase,
    /// A peer got work.
    Grant,
    /// A peer takes part.
    PeerIn,
    /// A peer cannot take part, or not any more.
    PeerOut,
    /// The number of lanes of a peer changed.
    Lanes,
    /// A path of a peer changed its state.
    Path,
    /// A peer got another share of the limits.
    Share,
    /// The limit of the rate changed.
    Rate,
    /// A part of the transfer limited its rate.
    Bottleneck,
    /// The run or a peer waited.
    Wait,
    /// An attempt was ended because it made no progress.
    Stall,
    /// The right of the controller to act changed.
    Tenure,
    /// A kind of another release.
    #[serde(other)]
    Other,
}

/// A decision. Repetitions of the same one are counted in one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FlightRecord {
    /// Time of the decision, by the clock of the controller.
    pub at: Timestamp,
    /// Time of its last repetition; absent if it was made once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Number of times that it was made. The bottleneck is looked at five times a second.
    pub count: u64,
    /// Number of the attempt, from 1 on.
    pub attempt: u32,
    /// The kind.
    pub kind: FlightKind,
    /// The peer that it is about; absent if it is about the whole transfer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub peer: String,
    /// Code of the problem that led to it; absent if there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub code: String,
    /// Pieces of work that were granted, all repetitions together; 0 for other kinds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pieces: u64,
    /// Bytes of these pieces, at most: a piece counts as 64 KiB at least.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// The decision and its reason, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub text: String,
}

impl FlightRecord {
    /// Returns the time of the decision, or of its last repetition.
    pub fn last_at(&self) -> Timestamp {
        self.until.unwrap_or(self.at)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
