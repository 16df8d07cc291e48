//! The figures of one second, and their names.

use std::borrow::Cow;

/// Payload that this peer moves for a transfer, or for all: sent or received, whichever is more.
pub(crate) const RATE: &str = "rate_bits_per_s";
/// Lanes of this peer that are open.
pub(crate) const LANES: &str = "lanes";
/// Payload that all peers verify for a transfer, as the controller counts it.
pub(crate) const TOTAL_RATE: &str = "total_rate_bits_per_s";
/// Files of a transfer that become complete, as the controller counts them.
pub(crate) const FILES: &str = "files_per_s";
/// Lanes of a transfer at all target peers.
pub(crate) const TOTAL_LANES: &str = "total_lanes";
/// Target peers that work for a transfer.
pub(crate) const PEERS: &str = "peers";
/// Transfers for which this peer works.
pub(crate) const TRANSFERS: &str = "transfers";
/// Mean of the busy times of all processors.
pub(crate) const CPU_BUSY: &str = "cpu_busy_percent";
/// Busy time of the processor that is busiest.
pub(crate) const CPU_BUSIEST: &str = "cpu_busiest_percent";
/// Mean of the times that the hypervisor gave to others.
pub(crate) const CPU_STEAL: &str = "cpu_steal_percent";
/// Mean of the times in which guests of this host ran.
pub(crate) const CPU_GUEST: &str = "cpu_guest_percent";
/// Mean of the idle times in which a disk was awaited.
pub(crate) const CPU_IOWAIT: &str = "cpu_iowait_percent";
/// Memory of the host in use, without caches.
pub(crate) const MEMORY_USED: &str = "memory_used_bytes";
/// Resident memory of the daemon.
pub(crate) const MEMORY_DAEMON: &str = "memory_daemon_bytes";
/// Bits that all network cards of hardware receive, headers included; without such cards, those of
/// all interfaces but the loop-back.
pub(crate) const CARDS_IN: &str = "cards_in_bits_per_s";
/// Bits that these cards send.
pub(crate) const CARDS_OUT: &str = "cards_out_bits_per_s";
/// Bits that one card receives.
pub(crate) const CARD_IN: &str = "card_in_bits_per_s";
/// Bits that one card sends.
pub(crate) const CARD_OUT: &str = "card_out_bits_per_s";
/// Bytes that the disks of the stores read.
pub(crate) const DISKS_READ: &str = "disks_read_bytes_per_s";
/// Bytes that the disks of the stores write.
pub(crate) const DISKS_WRITTEN: &str = "disks_written_bytes_per_s";
/// Bytes that one disk reads.
pub(crate) const DISK_READ: &str = "disk_read_bytes_per_s";
/// Bytes that one disk writes.
pub(crate) const DISK_WRITTEN: &str = "disk_written_bytes_per_s";
/// Power of the processors.
pub(crate) const PACKAGE_WATTS: &str = "package_watts";
/// Power of the memory.
pub(crate) const DRAM_WATTS: &str = "dram_watts";

/// Sign between the name of a figure and the card or disk that it is of.
const OF: char = ':';

/// Figures by their names.
pub(crate) type Values = Vec<(Cow<'static, str>, f64)>;

/// The figures of some time, one second mostly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Its begin, in seconds since 1970.
    pub(crate) at: u64,
    /// Its length in whole seconds, at least 1.
    pub(crate) seconds: u32,
    /// Its length as it was measured, in seconds.
    pub(crate) exact_seconds: f64,
    /// The figures, means over this time.
    pub(crate) values: Values,
}

impl Sample {
    /// Returns a figure times its exact length.
    pub(crate) fn total(&self, name: &str) -> Option<f64> {
        let (_, value) = self.values.iter().find(|(known, _)| known == name)?;
        Some(value * self.exact_seconds)
    }
}

/// Returns the name of a column of one card or disk.
pub(crate) fn column_of(name: &str, of: &str) -> String {
    format!("{name}{OF}{of}")
}

/// Returns the figure of a column, and the card or disk that it is of.
pub(crate) fn parts_of(column: &str) -> (&str, &str) {
    column.split_once(OF).unwrap_or((column, ""))
}
