//! What this host has that a configuration may name: its name, interfaces, mounts and CPUs.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use penstock_proto::id::Name;

use penstock_daemon::site_directory::unescaped;

/// File systems that hold data sets. Others are of the system, or of memory.
const FILE_SYSTEMS: [&str; 14] = [
    "ext4",
    "xfs",
    "btrfs",
    "zfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "nfs",
    "nfs4",
    "cephfs",
    "glusterfs",
    "orangefs",
    "fuse.mfs",
];
/// Mounts that are of the system, with all below them.
const OF_SYSTEM: [&str; 9] =
    ["/boot", "/dev", "/etc", "/home", "/proc", "/run", "/sys", "/usr", "/var"];

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// The name of the host, as a name of Penstock.
    pub(crate) name: Option<Name>,
    /// Interfaces with their addresses; without the loop-back one.
    pub(crate) interfaces: Vec<(String, Vec<IpAddr>)>,
    /// Mounted file systems that may hold data sets, as names and paths of stores.
    pub(crate) stores: Vec<(Name, PathBuf)>,
    /// CPUs that the cgroup and the affinity mask allow.
    pub(crate) cpus: usize,
}

impl Host {
    /// Looks at this host. What cannot be read is left out; no file system is touched.
    pub(crate) fn look() -> Self {
        let uname = rustix::system::uname();
        let node = uname.nodename().to_string_lossy();
        let mut interfaces: Vec<(String, Vec<IpAddr>)> = Vec::new();
        for entry in penstock_net::interface_addresses().unwrap_or_default() {
            match interfaces.iter_mut().find(|(device, _)| *device == entry.device) {
                _ if entry.loopback => {}
                Some((_, addresses)) => addresses.push(entry.address),
                None => interfaces.push((entry.device, vec![entry.address])),
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self {
            name: node.split('.').next().and_then(name_of),
            interfaces,
            stores: stores_of(&mounts),
            cpus: penstock_sys::available_cpus(),
        }
    }
}

/// Returns the name that a text resembles most: in small letters, with `-` for what a name may not
/// have.
fn name_of(text: &str) -> Option<Name> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let text: String =
        text.to_lowercase().chars().map(|c| if allowed(c) { c } else { '-' }).take(63).collect();
    text.trim_matches(['-', '_']).parse().ok()
}

/// Returns stores for the mounts of a table (proc_pid_mountinfo(5)), each with a name of its own.
fn stores_of(mountinfo: &str) -> Vec<(Name, PathBuf)> {
    let mut stores: Vec<(Name, PathBuf)> = Vec::new();
    for line in mountinfo.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let kind = file_system.split(' ').next().unwrap_or_default();
        let Some(path) = mount.split(' ').nth(4).map(unescaped) else { continue };
        let of_system = path == Path::new("/") || OF_SYSTEM.iter().any(|it| path.starts_with(it));
        if of_system || !FILE_SYSTEMS.contains(&kind) || stores.iter().any(|it| it.1 == path) {
            continue;
        }
        let leaf = path.file_name().and_then(|leaf| name_of(&leaf.to_string_lossy()));
        let Some(leaf) = leaf.filter(|leaf| stores.iter().all(|it| it.0 != *leaf)) else {
            continue;
        };
        stores.push((leaf, path));
    }
    stores
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: file systems that may hold data are offered under names that are valid, those of
    /// the system are not.
    #[test]
    fn mounts_become_stores() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     2 1 8:2 / /boot/efi rw - ext4 /dev/sda2 rw\n\
                     3 1 0:9 / /run/user/1 rw - tmpfs tmpfs rw\n\
                     4 1 8:3 / /scratch rw shared:1 - xfs /dev/sdb rw\n\
                     5 1 0:8 / /data/Run\\0407 rw - lustre mgs:/l rw\n\
                     6 1 0:7 / /mnt/scratch rw - nfs4 h:/e rw\n";
        let found = stores_of(table);
        let found: Vec<_> =
            found.iter().map(|(name, path)| (name.as_str(), path.to_str().unwrap())).collect();
        assert_eq!(found, [("scratch", "/scratch"), ("run-7", "/data/Run 7")]);
        assert_eq!(name_of("DTN1.Example").unwrap().as_str(), "dtn1-example");
        assert_eq!(name_of("---"), None);
    }
}
