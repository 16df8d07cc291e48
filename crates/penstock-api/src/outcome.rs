//! Outcome of items: failed items, and when a file counts as durable.

use serde::{Deserialize, Serialize};

use crate::place::PathText;

/// Policy that defines when a file counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Data, sync, rename, sync of directories, in batches (A1).
    #[default]
    Batch,
    /// Same order with one fsync for each file.
    Fsync,
    /// No sync at all: a power cut may leave empty files under final names.
    None,
}

/// An item that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FailedItem {
    /// Path relative to the data set's root.
    pub path: PathText,
    /// Stable code: `vanished`, `changed`, `denied`, `read`, `write`, `digest`, `publish`,
    /// `exists`, `link`, `readback`, `scan`, `delete`, `remove`.
    #[serde(deserialize_with = "crate::text::field")]
    pub code: String,
    /// Message for people, with the reason.
    #[serde(deserialize_with = "crate::text::field")]
    pub message: String,
}
