//! Boots, clocks, mounts, memory and limits.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use penstock_proto::units::{FileTime, Instant};
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, fstat, fstatfs, fstatvfs, statx};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use rustix::time::{ClockId, clock_gettime};

/// `STATX_MNT_ID_UNIQUE`, Linux 6.8: a mount id that is never used again while the host runs.
const STATX_MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Identifies this boot of the kernel: 128 random bits (random(4)); a container shares its host's.
///
/// # Errors
/// If `/proc` is not mounted. Without it the writes that a crash may have lost are unknown.
///
/// # For tests
/// In builds with debug assertions, and in no others, `PENSTOCK_TEST_BOOT_ID` (32 hexadecimal
/// digits) replaces the kernel's id, so that a test can make a host "reboot".
pub fn boot_id() -> io::Result<[u8; 16]> {
    let given =
        if cfg!(debug_assertions) { std::env::var("PENSTOCK_TEST_BOOT_ID").ok() } else { None };
    let text = match given {
        Some(text) => text,
        None => fs::read_to_string("/proc/sys/kernel/random/boot_id")?,
    };
    let digits: String = text.trim().chars().filter(|&character| character != '-').collect();
    data_encoding::HEXLOWER_PERMISSIVE
        .decode(digits.as_bytes())
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "boot_id is not a UUID"))
}

/// Returns the time since boot, sleep included (`CLOCK_BOOTTIME`): all deadlines are counted in it
/// (B4).
pub fn boottime_now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    // Neither is ever negative on this clock.
    Instant(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Returns the time of day. It may jump: for stamps that people read and for comparison with those
/// of files, never for deadlines.
pub fn wall_clock_now() -> FileTime {
    let time = clock_gettime(ClockId::Realtime);
    FileTime { seconds: time.tv_sec, nanoseconds: u32::try_from(time.tv_nsec).unwrap_or(0) }
}

/// Identifies the mount that an open file or directory is on.
///
/// From Linux 6.8 on it is the unique mount id, which no other mount of this boot ever has. Before,
/// it is a hash of device number, file-system type and id, and the mount id where the kernel
/// reports it (5.8). A file system that was unmounted and mounted again may then look the same.
/// Blocks as a `stat` does.
///
/// # Errors
/// The errors of statx(2) and statfs(2); `ESTALE` or `EIO` of a network file system mean that the
/// store is not there.
pub fn mount_identity(fd: impl AsFd) -> io::Result<u64> {
    let fd = fd.as_fd();
    let told = statx(fd, c"", AtFlags::EMPTY_PATH, STATX_MOUNT_ID_UNIQUE | StatxFlags::MNT_ID);
    let mut mount_id = 0;
    if let Ok(told) = told {
        if told.stx_mask & STATX_MOUNT_ID_UNIQUE.bits() != 0 {
            return Ok(told.stx_mnt_id);
        }
        if told.stx_mask & StatxFlags::MNT_ID.bits() != 0 {
            mount_id = told.stx_mnt_id;
        }
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&fstat(fd)?.st_dev.to_le_bytes());
    hasher.update(&(fstatfs(fd)?.f_type as u64).to_le_bytes());
    hasher.update(&fstatvfs(fd)?.f_fsid.to_le_bytes());
    hasher.update(&mount_id.to_le_bytes());
    let mut identity = [0; 8];
    hasher.finalize_xof().fill(&mut identity);
    Ok(u64::from_le_bytes(identity))
}

/// Returns whether an open directory is the root of a mount (`STATX_ATTR_MOUNT_ROOT`, Linux 5.8);
/// `false` where the kernel does not report that. Blocks as a `stat` does.
pub fn is_mount_root(fd: impl AsFd) -> bool {
    let told = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::empty());
    told.is_ok_and(|told| told.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Returns the running kernel's version: major and minor; (0, 0) if it does not look like one,
/// which is older than anything that a feature asks for.
pub fn kernel_version() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    let mut next = || numbers.next().and_then(|digits| digits.parse().ok());
    next().zip(next()).unwrap_or((0, 0))
}

/// Returns the largest resident memory that this process has had, in bytes; 0 if unknown.
///
/// From `VmHWM` of `/proc/self/status`; `ru_maxrss` would count memory that the parent used before
/// exec.
pub fn peak_memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix("kB"));
    kibibytes.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Raises the limit of open files of this process as far as it may without privilege. Returns the
/// limit now in force (`u64::MAX`: none).
pub fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let in_force = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    in_force.unwrap_or(u64::MAX)
}

/// Keeps the memory of this process, in which keys are, from core dumps and from other processes of
/// its user. Processes that it starts write no core files either, but can be traced.
///
/// # Errors
/// Those of setrlimit(2) and prctl(2): a sandbox forbids the calls.
pub fn keep_memory_private() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // A core that is piped to a program is written despite the limit.
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Has the allocator of a static program keep freed memory for the next allocations. A return to
/// the kernel and a new request cost a tenth of the CPU time of small files (docs/design/0060). So
/// the process keeps the most memory that it has used at once. Call it at the start of a program.
/// It does nothing in programs with glibc, whose allocator keeps most of the memory anyway.
pub fn keep_freed_memory() {
    #[cfg(target_env = "musl")]
    {
        use libmimalloc_sys::{mi_option_set, mi_option_use_numa_nodes};
        // The crate does not name it; mimalloc.h has it before this one (mi_option_purge_delay).
        let purge_delay = mi_option_use_numa_nodes - 1;
        // SAFETY: the function takes numbers alone, ignores an option that does not exist, and
        // writes one aligned word, which other threads read whole, before or after.
        unsafe { mi_option_set(purge_delay, -1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (A5): a boot and a mount are distinguished from others.
    #[test]
    fn a5_boots_and_mounts_have_identities() {
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
        assert_ne!(boot_id().unwrap(), [0; 16]);
        let root = fs::File::open("/").unwrap();
        let proc = fs::File::open("/proc").unwrap();
        assert_eq!(mount_identity(&root).unwrap(), mount_identity(&root).unwrap());
        assert_ne!(mount_identity(&root).unwrap(), mount_identity(&proc).unwrap());
    }

    /// Promise (B4): the clock of deadlines runs forward.
    #[test]
    fn b4_boottime_never_goes_back() {
        let earlier = boottime_now();
        assert!(earlier.0 > 0);
        assert!(boottime_now() >= earlier);
    }

    /// Promise: figures in a summary come from the host, not from defaults.
    #[test]
    fn the_host_tells_version_memory_and_limits() {
        assert!(kernel_version() >= (4, 18));
        assert!(peak_memory_bytes() > 64 * 1024);
        assert!(raise_file_limit() >= 256);
        assert!(wall_clock_now().seconds > 1_700_000_000);
    }

    /// Promise: after the call this process can leave no core.
    #[test]
    fn memory_is_kept_private() {
        keep_memory_private().unwrap();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        let now = rustix::process::dumpable_behavior().unwrap();
        assert_eq!(now, DumpableBehavior::NotDumpable);
    }
}
