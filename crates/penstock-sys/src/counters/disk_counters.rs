//! Bytes that each block device read and wrote, and the time for which it was busy.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor, statx};

/// Bytes of a sector in `/proc/diskstats`, for every device.
const SECTOR_BYTES: u64 = 512;
/// Positions of the sectors read and written, and of the milliseconds with a request in work, in a
/// line of `/proc/diskstats`.
const READ_FIELD: usize = 5;
const WRITTEN_FIELD: usize = 9;
const BUSY_FIELD: usize = 12;
/// Milliseconds at which the kernel's time of a device begins at 0 again: it prints 32 bits.
const BUSY_MS_WRAP: u64 = 1 << 32;

/// Major and minor number of a block device.
pub type DeviceNumber = (u32, u32);

/// Bytes and time of one block device since it came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCounters {
    /// Name of the device, as `sda1`.
    pub name: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with at least one request in work, in milliseconds. Begins at 0 again after 49 days.
    pub busy_ms: u64,
}

/// Work of one block device between two looks at its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskTraffic {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with at least one request in work, in milliseconds.
    pub busy_ms: u64,
}

impl DiskCounters {
    /// Returns the work since an earlier look; `None` if this is another device than it was then,
    /// or the same one made anew, so that its bytes began at 0.
    pub fn since(&self, before: &Self) -> Option<DiskTraffic> {
        if self.name != before.name {
            return None;
        }
        let busy_ms = match self.busy_ms.checked_sub(before.busy_ms) {
            Some(busy_ms) => busy_ms,
            None => (self.busy_ms + BUSY_MS_WRAP).checked_sub(before.busy_ms)?,
        };
        Some(DiskTraffic {
            read_bytes: self.read_bytes.checked_sub(before.read_bytes)?,
            written_bytes: self.written_bytes.checked_sub(before.written_bytes)?,
            busy_ms,
        })
    }
}

/// Returns the counters of all block devices and partitions.
///
/// # Errors
/// `/proc` is not mounted, or the kernel has no block devices.
pub fn disk_counters() -> io::Result<BTreeMap<DeviceNumber, DiskCounters>> {
    Ok(parse_disk_counters(&fs::read_to_string("/proc/diskstats")?))
}

/// Reads a text of `/proc/diskstats` (Documentation/admin-guide/iostats.rst). An invalid line is
/// left out.
fn parse_disk_counters(text: &str) -> BTreeMap<DeviceNumber, DiskCounters> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(DeviceNumber, DiskCounters)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let device = (u32::try_from(number(0)?).ok()?, u32::try_from(number(1)?).ok()?);
    let counters = DiskCounters {
        name: (*words.get(2)?).to_owned(),
        read_bytes: number(READ_FIELD)?.saturating_mul(SECTOR_BYTES),
        written_bytes: number(WRITTEN_FIELD)?.saturating_mul(SECTOR_BYTES),
        busy_ms: number(BUSY_FIELD)?,
    };
    Some((device, counters))
}

/// Returns the block device that a path is on; `None` if it is on none, as on a network file
/// system. A file system with a number of its own, as btrfs, has the device that it is mounted
/// from. Blocks as a `stat` does, for ever where a store hangs.
///
/// # Errors
/// Those of stat(2).
pub fn device_of(path: &Path) -> io::Result<Option<DeviceNumber>> {
    let of = fs::metadata(path)?.dev();
    let device = (major(of), minor(of));
    if device.0 != 0 {
        return Ok(Some(device));
    }
    // A subvolume of btrfs has another number than the mount has.
    let told = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
    let is_told = StatxFlags::from_bits_retain(told.stx_mask).contains(StatxFlags::MNT_ID);
    let mount = is_told.then_some(told.stx_mnt_id);
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let Some(source) = source_of(&mounts, device, mount) else { return Ok(None) };
    let Ok(source) = fs::metadata(source) else { return Ok(None) };
    let device = (major(source.rdev()), minor(source.rdev()));
    Ok((device.0 != 0).then_some(device))
}

/// Returns the device file from which a file system is mounted (proc_pid_mountinfo(5)). It is found
/// by the number of the mount, or of the device where that of the mount is not known.
fn source_of(mounts: &str, device: DeviceNumber, mount: Option<u64>) -> Option<&str> {
    let (at, wanted) = match mount {
        Some(mount) => (0, mount.to_string()),
        None => (2, format!("{}:{}", device.0, device.1)),
    };
    let line = mounts.lines().find(|line| line.split(' ').nth(at) == Some(&wanted))?;
    let (_, file_system) = line.split_once(" - ")?;
    file_system.split(' ').nth(1).filter(|source| source.starts_with("/dev/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 53210 12 2048 99 77 5 4096 11 0 88 110 0 0 0 0 3 4
 259       1 nvme0n1p1 5 0 8 0 2 0 1 0 0 8 9
   8      16 sdb 1 2
";
    const MOUNTS: &str = "\
25 1 0:30 / / rw - btrfs /dev/nvme0n1p2 rw,subvol=/
26 25 0:31 / /proc rw - proc proc rw
";

    /// Promise: bytes of devices and partitions are read, of kernels with and without the newer
    /// figures; a short line is left out.
    #[test]
    fn disks_are_read() {
        let disks = parse_disk_counters(RECORDED);
        assert_eq!(disks.keys().copied().collect::<Vec<_>>(), [(7, 0), (259, 0), (259, 1)]);
        let disk = &disks[&(259, 0)];
        let (read, written) = (disk.read_bytes, disk.written_bytes);
        assert_eq!((read, written, disk.busy_ms), (2048 * 512, 4096 * 512, 88));
        assert_eq!(
            (disks[&(259, 1)].name.as_str(), disks[&(259, 1)].written_bytes),
            ("nvme0n1p1", 512)
        );
    }

    /// Promise: a file system with a number of its own is traced to the device that it is mounted
    /// from, and one without a device to none.
    #[test]
    fn a_path_has_a_device_or_none() {
        assert_eq!(source_of(MOUNTS, (0, 30), None), Some("/dev/nvme0n1p2"));
        assert_eq!(source_of(MOUNTS, (0, 31), None), None);
        assert_eq!(source_of(MOUNTS, (0, 99), None), None);
        assert_eq!(source_of(MOUNTS, (0, 99), Some(25)), Some("/dev/nvme0n1p2"));
        assert_eq!(source_of(MOUNTS, (0, 30), Some(26)), None);
        assert_eq!(device_of(Path::new("/proc")).unwrap(), None);
        assert!(device_of(Path::new("/nowhere-at-all")).is_err());
    }

    /// Promise: work is the difference of two looks. A time that began at 0 again is continued, and
    /// a device that was made anew, or replaced by another, has no work.
    #[test]
    fn work_is_a_difference_of_counters() {
        let look = |name: &str, read_bytes, written_bytes, busy_ms| DiskCounters {
            name: name.to_owned(),
            read_bytes,
            written_bytes,
            busy_ms,
        };
        let before = look("sda", 100, 200, BUSY_MS_WRAP - 30);
        let work = |read_bytes, written_bytes, busy_ms| {
            Some(DiskTraffic { read_bytes, written_bytes, busy_ms })
        };
        assert_eq!(look("sda", 100, 250, BUSY_MS_WRAP - 10).since(&before), work(0, 50, 20));
        assert_eq!(look("sda", 101, 200, 12).since(&before), work(1, 0, 42));
        assert_eq!(look("sda", 0, 250, BUSY_MS_WRAP - 10).since(&before), None);
        assert_eq!(look("sdb", 100, 250, BUSY_MS_WRAP - 10).since(&before), None);
    }
}
