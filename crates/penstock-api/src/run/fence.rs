//! The right of a controller to act, which ends at once when another peer may have taken over (B4).

use std::fmt;
use std::sync::Arc;

use crate::problem::{Problem, ProblemCode};

/// Tells whether the controller that issued the fence is still the controller of its site. Where
/// one daemon is the whole site it always is.
///
/// The fence is asked right before anything that cannot be undone: a rename, a removal, a commit.
/// The answer is of the moment. For a process that is stopped between the question and the act, see
/// `docs/failure-modes.md`.
#[derive(Clone, Default)]
pub struct Fence {
    epoch: u64,
    holds: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Fence {
    /// Returns a fence of the controller's epoch that holds as long as `holds` returns true.
    /// `holds` must not block, and must never return true again after it has returned false.
    pub fn new(epoch: u64, holds: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        Self { epoch, holds: Some(holds) }
    }

    /// Returns the epoch of the controller, which is part of the names of files that only it
    /// writes. 0 where one daemon is the whole site.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns whether the controller may still act.
    pub fn holds(&self) -> bool {
        self.holds.as_ref().is_none_or(|holds| holds())
    }

    /// Checks that the controller may still act.
    ///
    /// # Errors
    /// Code [`ProblemCode::NotController`], temporary: the transfer continues under the next
    /// controller.
    pub fn check(&self) -> Result<(), Problem> {
        if self.holds() { Ok(()) } else { Err(not_controller()) }
    }
}

/// Returns the problem of a peer that is not the controller any more, or never was.
pub fn not_controller() -> Problem {
    let title = "this peer is not the controller of its site now";
    Problem::new(ProblemCode::NotController, title)
        .hint("the transfer continues under the next controller; `penstock site status` names it")
        .status(503)
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
