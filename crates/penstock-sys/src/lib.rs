//! Facts about the host, and the few calls of the system that need `unsafe`. No other crate has
//! any `unsafe`.
//!
//! Boots, clocks, mounts, file systems, processors, memory, users, interfaces; accounts as which
//! threads use files; buffers, locks and event flags. Nothing here keeps state but what a value
//! holds, and a thread its account. For a fact that cannot be read, a function returns an error or
//! a cautious answer, never a guess that looks like a measurement.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod accounts;
pub mod buffer;
mod clock;
mod cpu;
mod event;
mod files;
mod host;
mod interfaces;
mod locks;
mod semaphore;
mod socket;
mod thread;
mod users;
mod wiped;

pub use accounts::{
    Account, AccountError, Acting, act_as_daemon, leave_inherited_account, may_act_as_others,
    own_numbers,
};
pub use clock::{clock_error, now_seconds};
pub use cpu::{allowed_cpus, available_cpus, bind_to_cpus, cpu_seconds, pin_thread};
pub use event::EventFd;
pub use files::{
    FileSystemKind, MountWithin, cached_pages, close_file, list_xattrs_at, mounts_within,
};
pub use host::{
    boot_id, boottime_now, is_mount_root, keep_memory_private, kernel_version, mount_identity,
    peak_memory_bytes, raise_file_limit, wall_clock_now,
};
pub use interfaces::{InterfaceAddress, interface_addresses};
pub use locks::{LockError, LockFile};
pub use semaphore::{Permit, Semaphore};
pub use socket::{TCP_INFO_BYTES, bind_to_device, set_receive_low_water, tcp_info};
pub use thread::{sleeps_of, thread_number};
pub use users::{
    HostUser, find_group, group_name, group_number, host_user, user_name, user_number, user_numbers,
};
pub use wiped::Wiped;
