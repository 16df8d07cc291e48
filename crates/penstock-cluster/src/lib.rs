//! The members of a site, the election of its controller, and the state that all peers share.
//!
//! This crate names neither the controller nor a peer's data plane. The controller stores its
//! records in a [`state::SiteState`], and the daemon follows the [`membership`].
//!
//! | module | duty |
//! |---|---|
//! | [`membership`] | peers of one site: leases, election, format, draining |
//! | [`tenure`] | the time during which one peer is the controller |
//! | [`state`] | the state of a site: in SQLite, or in etcd |
//! | [`keys`] | keys of a site in etcd |
//! | [`etcd`] | a client of etcd |
//! | [`clock`] | the time of day |

#![forbid(unsafe_code)]

pub mod clock;
pub mod etcd;
pub mod keys;
pub mod membership;
pub mod state;
pub mod tenure;
