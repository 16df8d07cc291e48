//! Sites of several peers: who leads, who takes over, and how target peers share a transfer. Real
//! daemons with a real etcd, which skip, loudly, where etcd is not installed; and target peers in
//! this process. Tests that mount, or act as accounts, skip, loudly, where they do not run as root.
//!
//! One program for all of these tests, as each program costs seconds to compile and to link.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, what is skipped, and what a test saw that fails")]

mod accounts;
mod benchmarks;
mod cluster;
mod forecast;
mod local_accounts;
mod metrics;
mod monitoring;
mod oidc;
mod openapi;
mod remote_target;
mod selftest;
mod shared;
mod sharing;
mod soak;
mod statistics;
mod support;
mod sweep;
mod terminal;
