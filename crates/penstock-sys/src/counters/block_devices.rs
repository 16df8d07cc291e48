//! The block devices below a file system, as sysfs has them.
//!
//! A device is a directory of sysfs, to which `dev/block/MAJOR:MINOR` is a link
//! (Documentation/ABI/stable/sysfs-block). Directories `md`, `dm` and `loop` and the file
//! `partition` in it tell its kind; `slaves` has the devices below it.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use penstock_proto::benchmark::BlockDeviceKind;

use super::disk_counters::{DeviceNumber, device_of};

/// Most devices that are returned of a file system; those farthest below it are left out.
const DEVICES_MAX: usize = 32;

/// A block device below a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its number.
    pub number: DeviceNumber,
    /// Its name, as the kernel has it: `nvme0n1`, `dm-3`.
    pub name: String,
    /// Its kind.
    pub kind: BlockDeviceKind,
    /// The level of an array; the origin and the name of a mapped device, as `LVM vg-data`; empty
    /// of others.
    pub label: String,
    /// Number of devices between it and the file system, on the shortest way.
    pub depth: u32,
}

/// Returns the block devices below a path, in ascending order of depth and at most 32; none for a
/// path that is on no device, as on a network file system. Of btrfs all devices of the file system
/// are found, of other file systems that from which it is mounted. A device that cannot be looked
/// at is left out with those below it. Blocks as a `stat` does, for ever where a store hangs.
///
/// # Errors
/// Those of stat(2).
pub fn block_devices(path: &Path) -> io::Result<Vec<BlockDevice>> {
    let Some(top) = device_of(path)? else { return Ok(Vec::new()) };
    let of_file = |path: &Path| device_of(path).ok().flatten();
    Ok(tree(Path::new("/sys"), top, of_file))
}

/// Walks through sysfs, beginning at the device `top`. `of_file` returns the device that a file is
/// on.
fn tree(
    sysfs: &Path,
    top: DeviceNumber,
    of_file: impl Fn(&Path) -> Option<DeviceNumber>,
) -> Vec<BlockDevice> {
    let members = btrfs_members(sysfs, top).unwrap_or_else(|| vec![top]);
    let mut open: VecDeque<_> = members.into_iter().map(|number| (number, 0)).collect();
    let mut found: Vec<BlockDevice> = Vec::new();
    while let Some((number, depth)) = open.pop_front() {
        if found.len() == DEVICES_MAX {
            break;
        }
        if found.iter().any(|device| device.number == number) {
            continue;
        }
        let Some(directory) = directory_of(sysfs, number) else { continue };
        let Some(name) = name_of(&directory) else { continue };
        let (kind, label) = kind_of(&directory);
        let mut below = numbers_in(&directory.join("slaves"));
        match kind {
            BlockDeviceKind::Partition => below.extend(directory.parent().and_then(number_of)),
            BlockDeviceKind::Loop => {
                let file = read(&directory.join("loop/backing_file")).map(PathBuf::from);
                below.extend(file.and_then(|file| of_file(&file)));
            }
            BlockDeviceKind::Disk | BlockDeviceKind::Md | BlockDeviceKind::Dm => {}
        }
        open.extend(below.into_iter().map(|below| (below, depth + 1)));
        found.push(BlockDevice { number, name, kind, label, depth });
    }
    found
}

/// Returns all devices of the btrfs that has the device `top`; `None` if no btrfs has it.
fn btrfs_members(sysfs: &Path, top: DeviceNumber) -> Option<Vec<DeviceNumber>> {
    let file_systems = fs::read_dir(sysfs.join("fs/btrfs")).ok()?;
    let devices = file_systems.flatten().map(|entry| entry.path().join("devices"));
    devices.map(|devices| numbers_in(&devices)).find(|members| members.contains(&top))
}

/// Returns the numbers of the devices to which the entries of a directory are links, in the order
/// of names.
fn numbers_in(directory: &Path) -> Vec<DeviceNumber> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| number_of(path)).collect()
}

fn directory_of(sysfs: &Path, (major, minor): DeviceNumber) -> Option<PathBuf> {
    sysfs.join(format!("dev/block/{major}:{minor}")).canonicalize().ok()
}

/// Returns the name of a device. In a file name of sysfs `!` is a slash.
fn name_of(directory: &Path) -> Option<String> {
    Some(directory.file_name()?.to_string_lossy().replace('!', "/"))
}

fn number_of(directory: &Path) -> Option<DeviceNumber> {
    let number = read(&directory.join("dev"))?;
    let (major, minor) = number.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the kind of a device, with its label.
fn kind_of(directory: &Path) -> (BlockDeviceKind, String) {
    let has = |name: &str| directory.join(name).exists();
    let text = |name: &str| read(&directory.join(name)).unwrap_or_default();
    if has("partition") {
        (BlockDeviceKind::Partition, String::new())
    } else if has("md") {
        (BlockDeviceKind::Md, text("md/level"))
    } else if has("dm") {
        // Its maker writes a prefix: `LVM-…`, `CRYPT-LUKS2-…`, `mpath-…`.
        let uuid = text("dm/uuid");
        let maker = uuid.split_once('-').map_or("", |(maker, _)| maker);
        let label = format!("{maker} {}", text("dm/name"));
        (BlockDeviceKind::Dm, label.trim().to_owned())
    } else if has("loop/backing_file") {
        (BlockDeviceKind::Loop, String::new())
    } else {
        (BlockDeviceKind::Disk, String::new())
    }
}

/// Returns the text of a file of sysfs without the end of its line.
fn read(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A sysfs in a temporary directory.
    struct FakeSysfs(tempfile::TempDir);

    impl FakeSysfs {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        /// Makes a device in `devices/`, with files that have the text beside them.
        fn make(&self, path: &str, number: &str, files: &[(&str, &str)]) {
            let directory = self.path().join("devices").join(path);
            for (name, text) in [("dev", number)].iter().chain(files) {
                let file = directory.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, format!("{text}\n")).unwrap();
            }
            self.link(&format!("dev/block/{number}"), path);
        }

        /// Makes a link to a device.
        fn link(&self, at: &str, device: &str) {
            let at = self.path().join(at);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(self.path().join("devices").join(device), at).unwrap();
        }

        /// Returns name, kind, label and depth of each device below `top`.
        fn tree(&self, top: DeviceNumber) -> Vec<String> {
            let of_file = |file: &Path| (file == Path::new("/images/a b")).then_some((8, 1));
            let line = |device: BlockDevice| {
                let BlockDevice { name, kind, label, depth, .. } = device;
                format!("{depth} {name} {} {label}", kind.as_str()).trim_end().to_owned()
            };
            tree(self.path(), top, of_file).into_iter().map(line).collect()
        }
    }

    /// Returns a sysfs of a volume over two disks: one partition, and an array over two more disks.
    fn volume() -> FakeSysfs {
        let fake = FakeSysfs::new();
        for (name, number) in [("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")] {
            fake.make(name, number, &[]);
        }
        fake.make("sda/sda1", "8:1", &[("partition", "1")]);
        fake.make("md0", "9:0", &[("md/level", "raid1")]);
        fake.link("devices/md0/slaves/sdb", "sdb");
        fake.link("devices/md0/slaves/sdc", "sdc");
        let mapped = [("dm/name", "vg-data"), ("dm/uuid", "LVM-5uP3")];
        fake.make("dm-3", "253:3", &mapped);
        fake.link("devices/dm-3/slaves/md0", "md0");
        fake.link("devices/dm-3/slaves/sda1", "sda/sda1");
        fake
    }

    /// Promise: all devices below a volume are found with their kinds, nearest to the file system
    /// first, each once.
    #[test]
    fn devices_below_a_volume_are_found() {
        let fake = volume();
        let below = [
            "0 dm-3 dm LVM vg-data",
            "1 md0 md raid1",
            "1 sda1 partition",
            "2 sdb disk",
            "2 sdc disk",
            "2 sda disk",
        ];
        assert_eq!(fake.tree((253, 3)), below);
        fake.link("devices/dm-3/slaves/sda", "sda");
        assert_eq!(fake.tree((253, 3)).len(), 6, "the disk of the partition is there once");
        assert_eq!(fake.tree((8, 99)), [""; 0]);
    }

    /// Promise: below a file that is used as a device are the devices of that file, and none where
    /// the file has gone.
    #[test]
    fn devices_below_a_file_are_found() {
        let fake = volume();
        fake.make("loop0", "7:0", &[("loop/backing_file", "/images/a b")]);
        assert_eq!(fake.tree((7, 0)), ["0 loop0 loop", "1 sda1 partition", "2 sda disk"]);
        fake.make("loop1", "7:1", &[("loop/backing_file", "/images/c (deleted)")]);
        assert_eq!(fake.tree((7, 1)), ["0 loop1 loop"]);
    }

    /// Promise: all devices of a btrfs are found, whichever it was mounted from.
    #[test]
    fn all_devices_of_a_btrfs_are_found() {
        let fake = volume();
        fake.link("fs/btrfs/9b0c/devices/sdc", "sdc");
        fake.link("fs/btrfs/9b0c/devices/sda1", "sda/sda1");
        fs::create_dir_all(fake.path().join("fs/btrfs/features")).unwrap();
        for top in [(8, 1), (8, 32)] {
            assert_eq!(fake.tree(top), ["0 sda1 partition", "0 sdc disk", "1 sda disk"]);
        }
        assert_eq!(fake.tree((8, 16)), ["0 sdb disk"]);
    }

    /// Promise: the number of devices is bounded.
    #[test]
    fn many_devices_are_cut_off() {
        let fake = FakeSysfs::new();
        fake.make("md1", "9:1", &[("md/level", "raid0")]);
        for disk in 0..50 {
            fake.make(&format!("d{disk}"), &format!("65:{disk}"), &[]);
            fake.link(&format!("devices/md1/slaves/d{disk}"), &format!("d{disk}"));
        }
        assert_eq!(fake.tree((9, 1)).len(), DEVICES_MAX);
    }

    /// Promise: the devices of this very host are found, and a path without one has none.
    #[test]
    fn devices_of_this_host_are_found() {
        let found = block_devices(Path::new("/")).unwrap();
        assert!(found.iter().all(|device| !device.name.is_empty()));
        assert_eq!(block_devices(Path::new("/proc")).unwrap(), []);
        assert!(block_devices(Path::new("/nowhere-at-all")).is_err());
    }
}
