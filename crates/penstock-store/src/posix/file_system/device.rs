//! The facts in sysfs about the disks below a file system.
//!
//! Source: Documentation/ABI/stable/sysfs-block and md.rst of Linux. Where sysfs is absent, as in
//! some containers, nothing is known, and the disks are treated as ordinary ones.

use std::fs;
use std::path::Path;

use rustix::fs::{Dev, major, minor};

/// Devices on devices that are looked through: a file system on LVM on RAID on partitions is three.
const DEPTH_MAX: u32 = 8;
/// Names of disks that always report rotation.
const VIRTUAL: [&str; 3] = ["vd", "xvd", "loop"];

/// Returns whether the disks of a file system are known to work better if the page cache collects
/// the writes. These are disks that rotate, for which neighbours are then written together. They
/// are also arrays with parity, which must read before they can write less than a row of all their
/// disks.
pub(crate) fn wants_collecting(device: Dev) -> bool {
    let name = format!("{}:{}", major(device), minor(device));
    collects(&Path::new("/sys/dev/block").join(name), DEPTH_MAX)
}

fn collects(link: &Path, depth: u32) -> bool {
    let Ok(path) = fs::canonicalize(link) else { return false };
    let level = fs::read_to_string(path.join("md/level")).unwrap_or_default();
    if matches!(level.trim(), "raid4" | "raid5" | "raid6") {
        return true;
    }
    let below = fs::read_dir(path.join("slaves")).into_iter().flatten().flatten();
    let below: Vec<_> = below.map(|entry| entry.path()).collect();
    if !below.is_empty() {
        return depth > 0 && below.iter().any(|link| collects(link, depth - 1));
    }
    // A partition has no queue of its own.
    let disk = if path.join("queue").exists() { Some(path.as_path()) } else { path.parent() };
    disk.is_some_and(rotates)
}

fn rotates(disk: &Path) -> bool {
    let name = disk.file_name().unwrap_or_default().to_string_lossy();
    let told = fs::read_to_string(disk.join("queue/rotational")).unwrap_or_default();
    told.trim() == "1" && !VIRTUAL.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Promise: arrays with parity and disks that rotate are found below partitions, LVM and RAID,
    /// and keep the page cache; flash, virtual disks and unknown ones do not need it.
    #[test]
    fn disks_are_told_apart_through_what_is_upon_them() {
        let sys = tempfile::tempdir().unwrap();
        let disk = |name: &str, rotational: &str| {
            let queue = sys.path().join(name).join("queue");
            fs::create_dir_all(&queue).unwrap();
            fs::write(queue.join("rotational"), rotational).unwrap();
        };
        let upon = |name: &str, below: &[&str]| {
            disk(name, "0\n");
            let slaves = sys.path().join(name).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            for slave in below {
                let leaf = Path::new(slave).file_name().unwrap();
                symlink(sys.path().join(slave), slaves.join(leaf)).unwrap();
            }
        };
        for (name, rotational) in [("sda", "1\n"), ("nvme0n1", "0\n"), ("vda", "1\n")] {
            disk(name, rotational);
            fs::create_dir(sys.path().join(name).join("part1")).unwrap();
        }
        upon("dm-0", &["nvme0n1/part1"]);
        upon("dm-1", &["nvme0n1", "sda/part1"]);
        upon("md0", &["nvme0n1"]);
        for (array, level) in [("md1", "raid6\n"), ("md2", "raid0\n")] {
            upon(array, &["nvme0n1"]);
            fs::create_dir(sys.path().join(array).join("md")).unwrap();
            fs::write(sys.path().join(array).join("md/level"), level).unwrap();
        }
        upon("dm-2", &["md1"]);
        for (name, expected) in [
            ("sda", true),
            ("sda/part1", true),
            ("nvme0n1/part1", false),
            ("vda", false),
            ("vda/part1", false),
            ("dm-0", false),
            ("dm-1", true),
            ("md0", false),
            ("md1", true),
            ("md2", false),
            ("dm-2", true),
            ("not-there", false),
        ] {
            assert_eq!(collects(&sys.path().join(name), DEPTH_MAX), expected, "{name}");
        }
    }
}
