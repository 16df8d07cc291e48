//! Facts about the host, and the few calls of the system that need `unsafe`. No other crate has
//! any `unsafe`.
//!
//! Boots, clocks, mounts, file systems, processors, memory, users, interfaces; the kernel's
//! counters and settings; accounts as which threads use files; buffers, locks and event flags. The
//! only state is that of values, and the account of a thread. For a fact that cannot be read, a
//! function returns an error or a cautious answer, never a guess that looks like a measurement.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod accounts;
pub mod buffer;
mod clock;
mod counters;
mod cpu;
mod event;
mod files;
mod host;
mod locks;
mod network;
mod semaphore;
mod thread;
mod tuning;
mod users;
mod wiped;

pub use accounts::{
    Account, AccountError, Acting, act_as_daemon, leave_inherited_account, may_act_as_others,
    own_numbers,
};
pub use clock::{clock_error, now_seconds};
pub use counters::{
    BlockDevice, CardCounters, CpuSeconds, CpuShares, CpuTimes, DeviceNumber, DiskCounters,
    DiskTraffic, EnergyError, EnergyMeter, HostMemory, Joules, LOOPBACK, POWERCAP_ROOT,
    block_devices, card_counters, cpu_times, device_of, disk_counters, host_memory,
    is_hardware_card, process_memory_bytes,
};
pub use cpu::{
    ThreadTimes, allowed_cpus, available_cpus, bind_to_cpus, cpu_seconds, pin_thread, thread_times,
};
pub use event::EventFd;
pub use files::{
    FileSystemKind, MountWithin, cached_pages, cached_pages_in, close_file, list_xattrs_at,
    mount_options, mounts_within,
};
pub use host::{
    boot_id, boottime_now, is_mount_root, keep_freed_memory, keep_memory_private, kernel_version,
    mount_identity, peak_memory_bytes, raise_file_limit, wall_clock_now,
};
pub use locks::{LockError, LockFile};
pub use network::{
    InterfaceAddress, TCP_INFO_BYTES, bind_to_device, interface_addresses, set_receive_low_water,
    tcp_info,
};
pub use semaphore::{Permit, Semaphore};
pub use thread::{sleeps_of, thread_number};
pub use tuning::{
    CardTuning, HostTuning, QueueDiscipline, ReceiveRing, TUNED_SETTINGS, cpu_list, parse_cpu_list,
};
pub use users::{
    HostUser, find_group, find_user, group_name, group_number, host_user, user_name, user_number,
    user_numbers,
};
pub use wiped::Wiped;
