//! Helpers of tests with real processes: sites with their daemons, copies, networks, disks and the
//! tools that judge the result.
//!
//! Only tests depend on this crate. A helper fails its test by a panic with the observed values. A
//! test that cannot run here prints `SKIPPED: ` and the reason, and receives `None` or `false`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, skipped tests, and logs of a test that fails")]

mod caller;
mod copy;
mod data;
mod etcd;
mod in_process;
mod lab;
mod mount;
mod program;
mod proxy;
mod run;
mod scratch;
mod site;
mod ssh;
mod tree;
mod wait;

pub use caller::{answered, issue_anew, request, talk, tls};
pub use copy::{Copy, copy_with};
pub use data::{bytes, make_files, make_set, make_small_tree, random_file, rng, seed};
pub use etcd::Etcd;
pub use in_process::{At, Fate, InProcessSite};
pub use lab::{Lab, LabPair, can_run_lab};
pub use mount::{Fuse, MooseFs, Mount};
pub use program::{
    can_trace, is_root, penstock, program, program_of_others, signal, status_of, threads_named,
    told, tool, traced,
};
pub use proxy::{Arrival, Counts, FlipPlan, Part, ProxiedPair, Proxy, flips_in, flips_in_records};
pub use run::{Ended, Run, Slowly, figure, number, verified_at_least};
pub use rustix::process::Signal;
pub use scratch::Scratch;
pub use site::{Site, event_ms, free_port, print_tail, two_sites};
pub use ssh::{SshHost, SshOptions};
pub use tree::{
    assert_finals_right, assert_no_leftovers, assert_same, assert_same_files, bytes_below,
    files_below, remember, rsync_would, stamps, walk,
};
pub use wait::{LOOK, Moment, PATIENCE, Still, Wait, cpu_time};
