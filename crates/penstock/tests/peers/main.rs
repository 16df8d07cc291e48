//! Sites of several peers on loopback: real daemons, a real etcd, one directory, or a
//! distributed file system, as their store.
//!
//! One program for all of these tests, as each program costs seconds to compile and to link.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, what was measured, and what a test saw that fails")]

#[path = "../common_cluster/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "helpers of several test binaries")]
mod common_cluster;
#[allow(unreachable_pub, reason = "helpers as those of other test binaries are")]
mod common_fuse;
#[allow(unreachable_pub, reason = "helpers as those of other test binaries are")]
mod common_moosefs;
#[path = "../common_net/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "helpers of several test binaries")]
mod common_net;
#[path = "../common_shared/mod.rs"]
mod common_shared;
mod far_source;
mod hung;
mod moosefs;
mod operate;
mod places;
mod shared_store;
mod source_peers;
mod upgrade;
