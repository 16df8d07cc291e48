//! The transfers of a site that have not ended: admitted, queued, running, paused.
//!
//! | module | type, and its duty |
//! |---|---|
//! | `live` | `Live`: one of them, its states, and their transitions |
//! | `room` | `Full`: the wait of a transfer whose target is full |
//! | `progress_watch` | `ProgressWatch`: the time without progress after which an attempt ends |
//! | `history` | `History`: predictions from earlier transfers |
//! | `user_groups` | `UserGroups`: the groups with which users share the queue |
//! | `calendar` | `WeekTimes`: times of the week by the wall clock of a zone |
//! | `rules` | `Rules`: the rules of operators, and the limits that follow from them at a time |
//! | `rule_book` | `RuleBook`: checks, stores and removes rules |
//! | `outlook` | the outlook of a deadline |
//! | `overview` | the queue as operators see it |
//! | `bulk` | the choice of transfers for one action on many |
//! | `schedule` | `Schedule`: whose turn it is, and why each other one waits |
//! | `transfer_table` | `TransferTable`: all of them, as threads share them |
//! | `figures` | `ManagerFigures`: counts of all of them, and of the ends of earlier ones |
//! | `admission` | `Admission`: accepts transfers, and carries out users' orders about them |

mod admission;
mod bulk;
mod calendar;
mod figures;
mod history;
mod live;
mod outlook;
mod overview;
mod progress_watch;
mod room;
mod rule_book;
mod rules;
mod schedule;
mod transfer_table;
mod user_groups;

pub(super) use admission::Admission;
pub(super) use bulk::chosen;
pub(super) use figures::OutcomeTally;
pub use figures::{ManagerFigures, Outcomes, RUNNING_SHOWN_MAX, RunningFigures, WaitFigures};
pub(super) use history::Memory;
pub(super) use live::Live;
pub(super) use rule_book::RuleBook;
pub use transfer_table::LIVE_MAX;
pub(super) use transfer_table::{Noted, Table, TransferTable};
pub(super) use user_groups::UserGroups;
