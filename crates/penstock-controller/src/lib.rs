//! The controller of one site: transfers, their ledgers, and the commits of these.
//!
//! The crate never touches payload bytes, and never names the peer crate: both meet in
//! `penstock-api`.
//!
//! | module | duty |
//! |---|---|
//! | `flight` | the last decisions about each transfer, for people |
//! | [`manager`] | all transfers of the site: queue, retries, pause and cancel, events |
//! | [`runner`] | one running transfer: pages, grants, ledger |
//! | [`root`] | the root digest of a data set |
//! | [`sites`] | the requests of the manager to other sites |

#![forbid(unsafe_code)]

mod flight;
pub mod manager;
mod pages_ahead;
pub mod root;
pub mod runner;
pub mod sites;
