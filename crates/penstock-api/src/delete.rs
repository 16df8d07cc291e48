//! What a target's controller and a peer say about deleting what is not at the source.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::plan::PlanItem;
use crate::problem::Problem;
use crate::task::TaskPage;
use crate::transfer::FailedItem;

/// What finding the surplus needs.
pub struct SurplusQuery<'a> {
    /// All pages of the data set, in any order.
    pub pages: &'a mut dyn Iterator<Item = Result<TaskPage, Problem>>,
    /// Number of entries in them.
    pub entries: u64,
    /// An empty directory for files that take the place of memory.
    pub scratch: &'a Path,
    /// Told of each thing that is found; says whether it is to be listed.
    pub choose: &'a mut dyn FnMut(PlanItem) -> Result<bool, Problem>,
    /// Where the peer lists the surplus, in a form of its own.
    pub list: &'a Path,
    /// Set when it is to end early.
    pub stop: &'a AtomicBool,
}

/// What deleting needs.
pub struct DeleteOrder<'a> {
    /// The list that [`crate::task::TargetPeer::find_surplus`] has made.
    pub list: &'a Path,
    /// Delete only what is in the way of the data set: what is a directory where that has
    /// something else, with all that is in it, or something else where that has a directory.
    pub only_in_the_way: bool,
    /// Counts what is deleted.
    pub deleted: &'a AtomicU64,
    /// Set when it is to end early.
    pub stop: &'a AtomicBool,
    /// Takes what could not be deleted, or had changed.
    pub failed: &'a mut dyn FnMut(FailedItem) -> Result<(), Problem>,
}
