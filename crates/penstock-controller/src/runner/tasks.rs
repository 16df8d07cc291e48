//! The tasks of a run, one at each peer that takes part.
//!
//! Peers join, are drained, break, fall silent and return during a run. Calls that may block
//! (starting a task at another host, stopping one) have a thread of their own, and the run polls
//! the results. A peer whose task breaks is taken out as long as another peer remains. It is
//! retried later under another number: its reports count, and the work that it had is missing. A
//! peer that falls silent is taken out when its grant has lapsed (B1, B4).
//!
//! The state of each peer, and what it may still write, is in `penstock_engine::writers`, which
//! decides. These modules have the threads and the tasks, and do what it says:
//!
//! | module | duty |
//! |---|---|
//! | `task_set` | the tasks, and orders to all of them |
//! | `membership` | polls who joins, leaves, breaks and drains |
//! | `starting` | asks peers to start a task, and takes them in |
//! | `stopping` | stops tasks, and takes peers out |
//! | `writers` | the record of writers for later runs and controllers |
//! | `lost_writers` | peers that were given up, and may write late |
//! | `hung_stores`, `full_targets` | peers whose stores hang or are full |
//! | `excluded_peers`, `peer_events`, `figures` | peers and their work, for users |
//! | `source` | the addresses of the source's peers |

mod excluded_peers;
mod figures;
mod full_targets;
pub(super) mod hung_stores;
mod lost_writers;
mod membership;
mod peer_events;
mod source;
mod starting;
mod stopping;
mod task_set;
mod writers;

pub(super) use starting::spec_for;
pub(super) use task_set::{TaskParts, TaskSet};
