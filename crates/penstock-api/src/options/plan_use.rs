//! Use of a plan by a transfer.

use serde::{Deserialize, Serialize};

/// Use of a plan by a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum PlanUse {
    /// Make a plan only: nothing is written at the target.
    Make,
    /// Follow a plan, and fail if the world has changed since it was made.
    Follow {
        /// The digest in the plan's last line.
        digest: String,
    },
}
