//! The queue of a site: the transfer that starts next, and the reason why each other one waits.
//!
//! ```text
//!            submit                 poll_starts              end
//!  (user) ───────────▶  waiting  ───────────────▶ running ───────▶ (gone)
//!                          ▲                          │
//!                          └──────── requeue ─────────┘   after a pause, a retry, a new controller
//! ```
//!
//! A start is decided in this order:
//!
//! 1. A transfer that must not start is passed over: its time has not come, a pause rule or a hold
//!    names it, a window is closed, or a limit that it counts against is full ([`Limits`]).
//! 2. Urgent transfers start first, then those whose start for their deadline has come. A transfer
//!    whose deadline was promised has a place reserved from its latest start on: no other one but
//!    an urgent one takes it (`reservations`).
//! 3. The others share by group, then by user: the one with the fewest bytes served per weight
//!    comes first. Served bytes lose half of their weight in [`HALF_LIFE_MS`]. Bytes of running
//!    transfers that are still to come count as served, so that one user's burst does not take all
//!    places (fair share as in FTS3 and Slurm's priority/multifactor).
//! 4. Among one user's transfers: nearly finished ones, then by priority, then by age. A transfer
//!    that returns keeps its age.
//!
//! The machine has no clock: times are milliseconds since 1970, as windows are wall-clock times.
//! One decision costs a pass over the waiting transfers; 10,000 take less than a millisecond where
//! none can start, and a few where one can (`benches/engine.rs`).

mod fair_share;
mod forecast;
mod limits;
mod machine;
mod promise;
pub mod rates;
mod request;
mod reservations;
mod wait;

pub use fair_share::{HALF_LIFE_MS, Weights};
pub use forecast::{FORECASTS_MAX, Forecast};
pub use limits::{Limits, Pause};
pub use machine::{Queue, WaitMark};
pub use promise::Unkeepable;
pub use request::{Counter, PRIORITY_DEFAULT, Request, SHORT_SECONDS};
pub use wait::{Hold, UnixMs, Wait, WaitCode};

#[cfg(test)]
mod tests;
