//! One task: the machines of one transfer at this host, and the threads around them.
//!
//! ```text
//! coordinator   asks the controller for work, hands over reports, dials and drains lanes.
//! lanes         fetch, check, write (one thread each; see `lane::target_lane`, `lane::local`).
//! publisher     syncs, renames, links, attributes, re-checks (see `publish`).
//! renamers        rename files beside the publisher, during a batch.
//! ```
//! One lock protects all machines. It is taken per request and per finished piece, never per
//! stride. A report is made under the lock, so that reports leave in the order of their events.

pub(crate) mod context;
pub(crate) mod coordinator;
pub(crate) mod decisions;
pub(crate) mod error;
pub(crate) mod grant;
pub(crate) mod handover;
pub(crate) mod hang_detector;
pub(crate) mod limits;
pub(crate) mod load;
pub(crate) mod reach;
pub(crate) mod running_task;
pub(crate) mod shutdown;
pub(crate) mod times;
pub(crate) mod write_lease;
