//! The block devices below the files of a benchmark, and their work while a step runs.
//!
//! The kernel counts the bytes of each device for the whole host, so other programs that use the
//! device count too. What a write-back of the kernel carries after the end of a step is no part of
//! it.

use std::collections::BTreeMap;
use std::path::Path;

use penstock_api::benchmark::BenchmarkDevice;
use penstock_api::rpc::benchmark::DeviceTraffic;
use penstock_sys::{BlockDevice, DeviceNumber, DiskCounters};

/// The devices below a directory.
#[derive(Debug, Default)]
pub(super) struct StoreDevices(Vec<BlockDevice>);

/// Counters of all devices at one moment.
type Look = BTreeMap<DeviceNumber, DiskCounters>;

impl StoreDevices {
    /// Returns the devices below a directory; none where they cannot be told. Blocks as a `stat`
    /// does.
    pub(super) fn below(directory: &Path) -> Self {
        Self(penstock_sys::block_devices(directory).unwrap_or_default())
    }

    /// Returns a description of each.
    pub(super) fn describe(self) -> Vec<BenchmarkDevice> {
        let describe = |BlockDevice { name, kind, label, depth, .. }| BenchmarkDevice {
            name,
            kind,
            label,
            depth,
        };
        self.0.into_iter().map(describe).collect()
    }

    /// Looks at the counters. Without any device nothing is read.
    pub(super) fn look(&self) -> Look {
        if self.0.is_empty() {
            return Look::new();
        }
        penstock_sys::disk_counters().unwrap_or_default()
    }

    /// Returns the work of each device since a look. A device that has come, gone, or been made
    /// anew since then is left out.
    pub(super) fn traffic_since(&self, before: &Look) -> Vec<DeviceTraffic> {
        self.traffic(before, &self.look())
    }

    fn traffic(&self, before: &Look, now: &Look) -> Vec<DeviceTraffic> {
        let of = |device: &BlockDevice| {
            let now = now.get(&device.number)?;
            let work = now.since(before.get(&device.number)?)?;
            Some(DeviceTraffic {
                device: device.name.clone(),
                read_bytes: work.read_bytes,
                written_bytes: work.written_bytes,
                busy_ms: work.busy_ms,
            })
        };
        self.0.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::benchmark::BlockDeviceKind;

    use super::*;

    fn counters(name: &str, read_bytes: u64, written_bytes: u64, busy_ms: u64) -> DiskCounters {
        DiskCounters { name: name.to_owned(), read_bytes, written_bytes, busy_ms }
    }

    /// Promise: the work of each device is what its counters gained. A device that vanished, came,
    /// or began to count anew has none, and does not hide the others.
    #[test]
    fn devices_that_change_are_left_out() {
        let names = ["dm-0", "sda", "sdb", "sdc"];
        let device = |(minor, name): (u32, &str)| BlockDevice {
            number: (8, minor),
            name: name.to_owned(),
            kind: BlockDeviceKind::Disk,
            label: String::new(),
            depth: minor.min(1),
        };
        let devices = StoreDevices((0..).zip(names).map(device).collect());
        let look = |all: &[(u32, DiskCounters)]| {
            all.iter().map(|(minor, counters)| ((8, *minor), counters.clone())).collect::<Look>()
        };
        let before = look(&[
            (0, counters("dm-0", 10, 100, 4_294_967_290)),
            (1, counters("sda", 10, 100, 1)),
            (2, counters("sdb", 10, 100, 1)),
        ]);
        let now = look(&[
            (0, counters("dm-0", 10, 300, 10)),
            (1, counters("sda", 0, 20, 3)),
            (3, counters("sdc", 10, 300, 2)),
        ]);
        let [mapped] = &devices.traffic(&before, &now)[..] else { panic!("one device stays") };
        assert_eq!((mapped.device.as_str(), mapped.read_bytes), ("dm-0", 0));
        assert_eq!((mapped.written_bytes, mapped.busy_ms), (200, 16));
        assert_eq!(devices.traffic(&Look::new(), &now), []);
    }

    /// Promise: a directory without devices has no work, and costs no look at the counters.
    #[test]
    fn a_directory_without_devices_has_none() {
        for nowhere in ["/proc", "/nowhere-at-all"] {
            let devices = StoreDevices::below(Path::new(nowhere));
            assert!(devices.look().is_empty() && devices.describe().is_empty());
        }
    }
}
