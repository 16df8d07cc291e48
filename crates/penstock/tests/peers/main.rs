//! Sites of several peers on loopback: real daemons, a real etcd, one directory, or a
//! distributed file system, as their store.
//!
//! One program for all of these tests, as each program costs seconds to compile and to link.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, what was measured, and what a test saw that fails")]

mod far_source;
mod login;
mod operate;
mod places;
mod shared_store;
mod source_peers;
mod upgrade;
