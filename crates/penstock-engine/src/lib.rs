//! Every decision of Penstock, as pure machines: no I/O, no threads, no clock.
//!
//! The edge passes events to a machine (`handle_…`, with `now` as an argument) and asks it for
//! actions (`poll_…`, `take_…`). The edges in `penstock-peer` and `penstock-controller` act on the
//! answers; `penstock-sim` drives the same machines through thousands of seeded worlds.
//!
//! | module | decides | lives at |
//! |---|---|---|
//! | [`mod@slice`] | the cutting of a page into pieces. | both |
//! | [`transfer`] | missing, written and durable pieces; the next work of each peer. | controller |
//! | [`page`] | the ledger of one page: its state and its log. | controller |
//! | [`queue`] | the transfer that starts next; the reason why each other one waits. | controller |
//! | [`limit_shares`] | the division of a limit among target peers. | controller |
//! | [`fetch`] | requests on lanes, how far ahead, retries. | target peer |
//! | [`epoch`] | the time of a sync, the files to rename after it. | target peer |
//! | [`uncommitted`] | reports kept for the controller after the present one. | target peer |
//! | [`lanes`] | the number of lanes, the replacement of one. | target peer |
//! | [`paths`] | pairs of addresses that carry lanes, and paths that fail. | target peer |
//! | [`mod@bottleneck`] | the cause that limits the rate of a transfer. | both |
//! | [`benchmark`] | the steps of a benchmark of a store, and the worth of its figures. | both |
//! | [`lease`] | the time for which a peer may act, as both ends count it. | both ends |
//! | [`writers`] | the part of each target peer, and its possible late writes. | controller |
//! | [`token_bucket`] | the admission of one more event for a key. | daemon |
//! | [`pace`] | the wait that holds a limit. | everywhere |
//! | [`retry`] | the wait before trying again. | everywhere |

#![forbid(unsafe_code)]

pub mod benchmark;
pub mod bottleneck;
mod credit;
pub mod epoch;
pub mod fetch;
mod flow;
pub mod lanes;
pub mod lease;
pub mod limit_shares;
pub mod pace;
pub mod page;
pub mod paths;
pub mod queue;
pub mod retry;
pub mod slice;
pub mod token_bucket;
pub mod transfer;
pub mod uncommitted;
pub mod writers;
