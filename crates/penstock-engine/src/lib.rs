//! Every decision of Penstock, as pure machines: no I/O, no threads, no clock.
//!
//! A machine is told what happened (`handle_…`, with `now` as an argument) and asked what to do
//! (`poll_…`, `take_…`). The edges in `penstock-peer` and `penstock-controller` act on the answers;
//! `penstock-sim` drives the same machines through thousands of seeded worlds.
//!
//! | module | decides | lives at |
//! |---|---|---|
//! | [`mod@slice`] | which pieces a page is cut into | both |
//! | [`transfer`] | which pieces are missing, written, durable; who does what next | the target's controller |
//! | [`page`] | the same for one page: the ledger's state and its log | the target's controller |
//! | [`fetch`] | which piece is asked for on which lane, how far ahead, what is tried again | a target peer |
//! | [`epoch`] | when to sync, what may be renamed after it | a target peer |
//! | [`grant`] | for how long a peer may write what it was given | both ends |
//! | [`uncommitted`] | what a peer keeps for a controller that comes after its own | a target peer |
//! | [`lanes`] | how many lanes there are, when one is replaced | a target peer |
//! | [`paths`] | which pairs of addresses are paths, which of them carry, when one is given up and taken back | a target peer |
//! | [`pace`] | how long to wait so that a limit is held | everywhere |
//! | [`limit_shares`] | how a limit is divided among target peers | the target's controller |
//! | [`retry`] | how long to wait before trying again | everywhere |

#![forbid(unsafe_code)]

pub mod epoch;
pub mod fetch;
mod flow;
pub mod grant;
pub mod lanes;
pub mod limit_shares;
pub mod pace;
pub mod page;
pub mod paths;
pub mod retry;
pub mod slice;
pub mod transfer;
pub mod uncommitted;
