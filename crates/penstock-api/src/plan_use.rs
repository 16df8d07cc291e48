//! How a transfer uses a plan.

use serde::{Deserialize, Serialize};

/// What a transfer has to do with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum PlanUse {
    /// It makes one, and nothing else: nothing is written at the target.
    Make,
    /// It does what a plan says, and nothing if the world is not as that says.
    Follow {
        /// The digest in the plan's last line.
        digest: String,
    },
}
