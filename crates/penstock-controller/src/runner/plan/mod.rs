//! Plans: their making, and their execution.
//!
//! Both inspect source and target in the same way. Pages are pulled as for a run, and a peer
//! predicts the action of a run for each entry ([`penstock_api::task::TargetPeer::look`]). Entries
//! that exist only at the target are found as before a deletion. Making a plan writes the results
//! down. Following compares them with the plan: all of it before any work, and page by page again
//! during the work. Neither holds more than a page in memory.

mod follow;
mod index;
mod look;
mod make;

pub(super) use follow::Followed;
pub(super) use make::make;
