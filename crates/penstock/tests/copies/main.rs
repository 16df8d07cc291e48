//! Copies and transfers on the disks of one host: `penstock copy`, and two sites of one peer each,
//! killed, filled up, cut off from power, and judged by tools that are not ours.
//!
//! One program for all of these tests, as each program costs seconds to compile and to link.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "seeds, and what is skipped and why")]

mod attributes;
mod bottleneck;
mod changing;
mod choosing;
mod compare;
mod crash;
mod dataset;
mod delete;
mod delete_chosen;
mod digests;
mod disk;
mod failures;
mod far_rights;
mod hollow;
mod hostile_ssh;
mod in_the_way;
mod lengths;
mod limits;
mod links;
mod locks;
mod memory;
mod r#move;
mod move_killed;
mod names;
mod outputs;
mod own_names;
mod plan;
mod powercut;
mod progress;
mod receipt;
mod resume;
mod rights;
mod site;
mod sources;
mod ssh;
mod stamps;
mod sync;
mod trees;
mod unlisted;
mod verify;
