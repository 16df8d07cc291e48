//! Runs one transfer at its target: pulls pages, hands out work, maintains the ledger.
//!
//! One thread owns the run. The thread opens pages when the window asks for them, commits the
//! ledger at least once a second (log files first, heads after, A2), and publishes its state. A
//! second thread pulls pages ahead, so that a round trip to the source costs no time here. The peer
//! calls in through [`penstock_api::task::TaskControl`]. The deciding machine is behind one lock,
//! taken per batch of reports and per request for work, never per stride.
//!
//! The journal and the heads survive a crash. A run that starts again replays the logs of the pages
//! that were not complete and continues. Complete pages are not checked again, unless the sync
//! marker of the store shows that the store itself went back in time (A5).
//!
//! | module | duty |
//! |---|---|
//! | `run` | the rounds of a run, and the loop |
//! | `phases` | one type or function for each phase of a round |
//! | `context`, `state` | values that all phases share: constants, and those that several change |
//! | `shared` | machine and journal, as threads and sessions share them |
//! | `input`, `control` | the inputs of a run; the handle by which others steer and watch it |
//! | `progress`, `warnings`, `failure_text` | the views and texts for users |
//! | `pages` | the source's list, pulled ahead |
//! | `journal` | pages, page logs, and other files in the journal store |
//! | `tasks`, `peer_session` | the peers that take part |
//! | `any_peer` | work that one peer does for all |
//! | `plan` | makes and follows plans |
//! | `earlier` | the work of earlier attempts, for a new list of the source |
//! | `temp_cleanup`, `failed_links` | temporary files; names that must not be made |
//! | `bounded_join` | waiting for threads that may hang |

mod any_peer;
mod bounded_join;
mod context;
mod control;
mod earlier;
mod failed_links;
mod failure_text;
mod input;
mod journal;
mod pages;
mod peer_session;
mod phases;
mod plan;
mod progress;
mod run;
mod shared;
mod state;
mod tasks;
mod temp_cleanup;
mod warnings;

pub use control::{RunControl, RunView};
pub use earlier::{drop_damaged_proofs, has_lost_names};
pub use input::{FindSource, RunInput, RunOutcome};
pub use journal::{RunFiles, plan_path};
pub use pages::piece_map::piece_map_of_totals;
pub use phases::removal_has_begun;
pub use run::run;
pub use temp_cleanup::clean_abandoned;
