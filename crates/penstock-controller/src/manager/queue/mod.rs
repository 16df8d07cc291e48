//! The transfers of a site that have not ended: admitted, queued, running, paused.
//!
//! | module | type, and its duty |
//! |---|---|
//! | `live` | `Live`: one of them, its states, and what leads from one to the next |
//! | `room` | `Full`: the wait of a transfer whose target is full |
//! | `schedule` | `Schedule`: whose turn it is, and why each other one waits |
//! | `transfer_table` | `TransferTable`: all of them, as threads share them |
//! | `figures` | `ManagerFigures`: counts of all of them, and of what became of earlier ones |
//! | `admission` | `Admission`: accepts transfers, and does what users ask of them |

mod admission;
mod figures;
mod live;
mod room;
mod schedule;
mod transfer_table;

pub(super) use admission::Admission;
pub(super) use figures::OutcomeTally;
pub use figures::{ManagerFigures, Outcomes, RUNNING_SHOWN_MAX, RunningFigures, WaitFigures};
pub(super) use live::Live;
pub use transfer_table::LIVE_MAX;
pub(super) use transfer_table::{Table, TransferTable};
