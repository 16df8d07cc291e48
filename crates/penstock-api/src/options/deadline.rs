//! Deadlines of transfers.

use penstock_proto::id::TransferId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::timestamp::Timestamp;

/// The meaning of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeadlinePolicy {
    /// The site accepts it only if the forecast keeps it, and then reserves a place for it.
    #[default]
    Promise,
    /// The site accepts it, and reports when it is at risk.
    BestEffort,
    /// As best effort; a transfer that has not ended by then is cancelled.
    Cancel,
}

impl DeadlinePolicy {
    /// Returns the name of the policy, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Promise => "promise",
            Self::BestEffort => "best_effort",
            Self::Cancel => "cancel",
        }
    }
}

/// Time by which a transfer has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Deadline {
    /// The time.
    pub at: Timestamp,
    /// Its meaning.
    #[serde(default)]
    pub policy: DeadlinePolicy,
    /// Bytes of the data set, as far as its user knows: the forecast counts with them until the
    /// source is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Outlook of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// The forecast keeps it, or nothing speaks against it.
    Kept,
    /// The forecast does not keep it, or there is none ten minutes before.
    AtRisk,
    /// The time is over.
    Missed,
}

/// A deadline as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeadlineView {
    /// The time.
    pub at: Timestamp,
    /// Its meaning.
    pub policy: DeadlinePolicy,
    /// Its outlook.
    pub promise: Promise,
    /// Forecast end of the transfer; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_at: Option<Timestamp>,
}

/// A ratio in thousandths; JSON has it as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(pub u64);

impl Serialize for Factor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 1000.0)
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A negative number, or none, becomes 0: casts saturate. Below 2^50 a factor is read as it
        // was written.
        let thousandths = |factor: f64| Self((factor * 1000.0).round().min(1e15) as u64);
        f64::deserialize(deserializer).map(thousandths)
    }
}

/// The reason why a deadline cannot be promised, in figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeadlineOutlook {
    /// Forecast end of the transfer; absent if nothing is known of what runs
    /// before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_at: Option<Timestamp>,
    /// Time until the forecast end, divided by the time until the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_factor: Option<Factor>,
    /// Transfers that would have to start later, or stop, so that it is kept. Empty if it cannot be
    /// kept by that. Only those that the caller may see.
    pub would_yield: Vec<TransferId>,
}
