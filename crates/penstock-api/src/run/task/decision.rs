//! Decisions of a task at its peer, as its figures carry them to the controller.

use serde::{Deserialize, Serialize};

/// The kind of a decision of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskDecisionKind {
    /// Another number of lanes.
    Lanes,
    /// Another state of a path.
    Path,
    /// A kind of another release.
    #[serde(other)]
    Other,
}

/// A decision of a task. Figures repeat the latest ones, so that a lost message loses none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDecision {
    /// Its number within the task, from 1 on.
    pub serial: u64,
    /// The kind.
    pub kind: TaskDecisionKind,
    /// The decision and its reason, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub text: String,
}
