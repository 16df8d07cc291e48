//! One site's brain: transfers, their ledgers, and what is committed of them.
//!
//! It never touches payload bytes, and never names the peer crate: both meet in `penstock-api`.

#![forbid(unsafe_code)]

pub mod runner;
pub mod state;
