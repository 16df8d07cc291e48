//! Removal of files that transfers leave.
//!
//! | module | type, and its duty |
//! |---|---|
//! | `cleaner` | `Cleaner`: removes all that one transfer has left |
//! | `cancelled` | `CancelledTransfers`: retries that for cancelled transfers until nothing is left |
//! | `orphans` | `Orphans`: finds remains, and removes them on request |

mod cancelled;
mod cleaner;
mod orphans;

pub(super) use cancelled::CancelledTransfers;
pub(super) use cleaner::Cleaner;
pub(super) use orphans::Orphans;
