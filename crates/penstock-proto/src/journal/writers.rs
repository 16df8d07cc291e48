//! The record of a transfer's writers: facts that a later run must know of target peers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::WriterId;

/// A file that a writer may write late: the writer, a page, and an entry of that page.
pub type LateFile = (WriterId, u32, u32);

/// The last controller of a transfer, and the writers that hold no grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterStanding {
    /// The controller's own peer, if that has been at work.
    pub own: Option<WriterId>,
    /// The epoch of the controller's tenure.
    pub epoch: u64,
    /// Writers that hold no grant. A writer that gets work is removed from the set before.
    pub settled: BTreeSet<WriterId>,
}

/// A line of the record. The last standing counts; of files and pages all lines count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterLine {
    /// The standing from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<WriterStanding>,
    /// Files to which an abandoned peer may still write (B1).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub late: BTreeSet<LateFile>,
    /// Complete pages in which a writer may have left temporary files.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left: BTreeSet<(WriterId, u32)>,
}
