//! Tests whether a file can be made with its final mode at once, which saves an fchmod(2) for each.
//!
//! The mode given to open(2) is exact only if nothing changes it on the way: not the process's
//! umask, not a default POSIX ACL of the directory, not a server with rules of its own. A mode that
//! is not known to be exact is not used.

use std::fs;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use penstock_sys::FileSystemKind;
use rustix::fs::fgetxattr_query;
use rustix::io::Errno;

/// Bits that a new file may get from open(2): setuid, setgid and sticky are never set before the
/// bytes are there (D7).
const CREATION_BITS: u32 = 0o777;

/// Returns whether open(2) makes a new file with exactly `mode` (`0o7777` at most) in a directory
/// that inherits nothing ([`inherits_nothing`]).
pub(crate) fn is_exact(mode: u32) -> bool {
    mode & !CREATION_BITS == 0 && umask().is_some_and(|umask| mode & umask == 0)
}

/// Returns the default mode of a new file: all users may read and write it, less the umask. An
/// unreadable umask counts as 0077.
pub(crate) fn of_new_file() -> u32 {
    0o666 & !umask().unwrap_or(0o077)
}

fn umask() -> Option<u32> {
    static UMASK: OnceLock<Option<u32>> = OnceLock::new();
    *UMASK.get_or_init(|| umask_of(&fs::read_to_string("/proc/self/status").ok()?))
}

/// Returns the bits that the process takes from the mode of each file it makes, by
/// proc_pid_status(5) (Linux 4.7). Penstock never changes them, and reading them by umask(2) would.
fn umask_of(status: &str) -> Option<u32> {
    let octal = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(octal.trim(), 8).ok()
}

/// Returns whether new files in `dir` inherit nothing from it but their group. Asks the file
/// system; a later change is not seen, and could only make a mode narrower than requested.
pub(crate) fn inherits_nothing(dir: BorrowedFd<'_>, kind: FileSystemKind) -> bool {
    use FileSystemKind::{Btrfs, Ext4, Tmpfs, Xfs};
    if !matches!(kind, Ext4 | Xfs | Btrfs | Tmpfs) {
        return false;
    }
    // EOPNOTSUPP: the file system is built or mounted without ACLs.
    let default_acl = fgetxattr_query(dir, c"system.posix_acl_default");
    matches!(default_acl, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (D7): a mode counts as exact only if the umask is known and takes nothing of it, and
    /// never with setuid, setgid or sticky bits.
    #[test]
    fn d7_the_umask_is_read_from_the_system() {
        assert_eq!(umask_of("Name:\tx\nUmask:\t0022\nState:\tR\n"), Some(0o022));
        assert_eq!(umask_of("Name:\tUmask:\nState:\tR\n"), None);
        assert_eq!(umask_of("Umask:\tnine\n"), None);
        assert!(is_exact(0o400));
        for special in [0o4755, 0o2755, 0o1755] {
            assert!(!is_exact(special));
        }
    }
}
