//! The right of a controller to act: what ends at once when another peer may have taken over (B4).

use std::fmt;
use std::sync::Arc;

use crate::problem::{Exit, Problem};

/// Code of the problem that a controller has when it is one no more.
pub const NOT_CONTROLLER: &str = "not-controller";

/// Says whether the controller that handed it out is still the controller of its site. Where one
/// daemon is the whole site it always is.
///
/// It is asked right before anything that cannot be taken back: a rename, a removal, a commit. The
/// answer is of the moment; what a process that is stopped between question and act may still do is
/// in `docs/failure-modes.md`.
#[derive(Clone, Default)]
pub struct Fence {
    epoch: u64,
    holds: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Fence {
    /// A fence of the controller's epoch that stands as long as `holds` says so. `holds` must not
    /// block, and never say yes again after it has said no.
    pub fn new(epoch: u64, holds: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        Self { epoch, holds: Some(holds) }
    }

    /// Which controllership this is; part of the names of files that only it writes. 0 where one
    /// daemon is the whole site.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it still holds.
    pub fn holds(&self) -> bool {
        self.holds.as_ref().is_none_or(|holds| holds())
    }

    /// The same as an error.
    ///
    /// # Errors
    /// Code [`NOT_CONTROLLER`], temporary: the transfer goes on under the next controller.
    pub fn check(&self) -> Result<(), Problem> {
        if self.holds() { Ok(()) } else { Err(not_controller()) }
    }
}

/// This peer is the controller no more, or has never been.
pub fn not_controller() -> Problem {
    let title = "this peer is not the controller of its site now";
    Problem::new(Exit::Temporary, NOT_CONTROLLER, title)
        .hint("the transfer goes on under the next one; `penstock site status` shows which it is")
        .status(503)
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
