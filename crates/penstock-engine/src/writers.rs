//! The target peers of one run: the part that each takes, and the data that it may still write.
//!
//! A `WriterId` names a target peer in ledgers, markers and temporary names. The registry knows two
//! facts of each: its state in this run, and the part of its work that its process may still write.
//! The second fact outlives the task, the run and the controller (B1, B3).
//!
//! ```text
//! state in the run
//!
//!              handle_invited           handle_joined           handle_stopping
//!     Absent ─────────────────▶ Starting ──────────▶ Working ──────────────▶ Stopping
//!       ▲ ▲      handle_refused    │                                            │
//!       │ │      handle_unused     │                                            │
//!       │ └────────────────────────┘               handle_left                  │
//!       └───────────────────────────────────────────────────────────────────────┘
//!     Absent ◀── Working    handle_run_over
//!
//! what it may write                                      when it left Working or Stopping
//!
//!     Unknown ┐                                       ┌─▶ Ended    in order
//!     Awaited ┤                                       │
//!     Settled ┤   handle_joined                       │
//!     Ended   ┼───────────────────▶ Active ───────────┼─▶ Lapsed   its grant or its process ended
//!     Lapsed  ┤   (its earlier work is over)          ├─▶ Hung     a thread is left in a call
//!     Hung    ┘                                       └─▶ Unended  so at the end of the run
//!     Awaited ───────────────────▶ Settled   handle_wait_over
//!     Ended   ───────────────────▶ Settled   handle_silent: it does not say that nothing is late
//!     Unended ───────────────────▶ Unknown   handle_silent
//!     any other, in Starting ────▶ Ended     handle_unused: its earlier work is over
//! ```
//!
//! These relations of the two facts are asserted after each change:
//!
//! - A peer that is *Working* is *Active*. A peer that is *Absent* or *Starting* is not.
//! - A number belongs to one peer, for as long as that peer is not *Absent*.
//! - The record in the journal names no writer that may hold a grant: it names *Settled*, *Ended*
//!   and *Lapsed* writers only. A later attempt waits for all others (B3).
//!
//! The registry hands out no work and renews no grant: `transfer` does. The registry decides which
//! peers to invite, drain, call back and name, and for how long a failed peer is not asked.
//!
//! | module | has |
//! |---|---|
//! | `peer` | the states of one peer |
//! | `registry` | all peers, and the transitions |
//! | `record` | the record for later runs |
//! | `retry` | the time for which a failed peer is not asked |
//! | `calls` | peers that may write late |
//! | `hangs` | peers whose stores hang |

mod calls;
mod hangs;
mod peer;
mod record;
mod registry;
mod retry;

pub use self::calls::CALL_MAX;
pub use self::hangs::{HangWatch, Hangs, StoreCall};
pub use self::peer::{Loss, PeerState, PresentPeer, Writes};
pub use self::record::Followed;
pub use self::registry::WriterRegistry;
pub use self::retry::{Failure, RETRY_FULL, RETRY_UNTRUSTED, RETRY_WAITS};
