//! Counters that the kernel keeps of the host: time of its processors, memory, network cards,
//! disks, energy.
//!
//! Each file has a parser of a text or of a directory, which is pure, and a function that reads the
//! running kernel's values. Rates are for the caller, which knows when it looked.

mod block_devices;
mod card_counters;
mod cpu_times;
mod disk_counters;
mod energy;
mod memory;

pub use block_devices::{BlockDevice, block_devices};
pub use card_counters::{CardCounters, LOOPBACK, card_counters, is_hardware_card};
pub use cpu_times::{CpuSeconds, CpuShares, CpuTimes, cpu_times};
pub use disk_counters::{DeviceNumber, DiskCounters, DiskTraffic, device_of, disk_counters};
pub use energy::{EnergyError, EnergyMeter, Joules, POWERCAP_ROOT};
pub use memory::{HostMemory, host_memory, process_memory_bytes};
