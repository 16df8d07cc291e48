//! The tasks of a run, one at each peer that takes part.
//!
//! Peers join, drain, fail, fall silent and return during a run. Calls that may block (starting a
//! task at another host, stopping one) have a thread of their own, and the run polls the results. A
//! peer whose task breaks is removed as long as another peer remains. It is retried later under
//! another number: its reports count, and its unfinished work is missing. A peer that falls silent
//! is removed when its grant has lapsed (B1, B4).
//!
//! The state of each peer, and its possible late writes, are in `penstock_engine::writers`, which
//! decides. `TaskSet` passes events from one owner of facts to the others:
//!
//! | module | type, and its facts |
//! |---|---|
//! | `task_set` | `TaskSet`: all of the below; the requests of the run to its peers |
//! | `membership` | the steps of `TaskSet` by which peers join and leave |
//! | `peer_task` | `StartingTask`, `PeerTask`, `StoppingTask`: the task at one peer, its threads |
//! | `peer_tasks` | `PeerTasks`: the tasks of all peers, each in one place |
//! | `task_specs` | `TaskSpecs`: the tasks that peers are asked to start, and their epochs |
//! | `writer_log` | `WriterLog`: the record of writers for later runs and controllers |
//! | `peer_failures` | `PeerFailures`: kinds of failures, and the reason if no peer is left |
//! | `hung_stores` | `HungStores`: peers whose stores hang |
//! | `shares` | `Shares`: each peer's share in the limits of the transfer |
//! | `peer_decisions` | `PeerDecisions`: decisions of peers, for the flight recorder |
//! | `figures_sum` | `FiguresSum`: figures and words about the work, for users |
//! | `run_bottleneck` | `RunBottleneck`: the cause that limits the rate, by the time of all peers |
//! | `peer_events` | `PeerEvents`: events about peers, for operators and users |
//! | `excluded_peers` | `ExcludedPeers`: peers of the site that cannot take part |
//! | `source_watch` | `SourceWatch`: the addresses of the source's peers |

mod excluded_peers;
mod figures_sum;
mod hung_stores;
mod membership;
mod peer_decisions;
mod peer_events;
mod peer_failures;
mod peer_task;
mod peer_tasks;
pub(super) mod run_bottleneck;
mod shares;
mod source_watch;
mod task_set;
mod task_specs;
#[cfg(test)]
mod tests;
mod writer_log;

pub(super) use task_set::{TaskParts, TaskSet};
pub(super) use task_specs::TaskSpecs;
