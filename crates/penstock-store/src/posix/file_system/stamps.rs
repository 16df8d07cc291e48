//! Times as file systems keep them: in steps of their own, and within limits of their own (C9).
//!
//! A time that was set may be read back as another one. ext3, and ext4 with inodes of 128 bytes,
//! keep whole seconds, FAT keeps even ones, NTFS and SMB keep 100 ns. A time beyond the limits of a
//! file system becomes its first or its last one. No call reports the step, and a comparison must
//! not write to find out. So the stamps that the kernel itself sets, foremost the time of change,
//! are the evidence. A stamp that is no multiple of a step disproves this step for its mount, and
//! the largest step that no stamp has disproved is assumed.
//!
//! # Sources
//! `timestamp_truncate()` and `s_time_gran`, `s_time_min`, `s_time_max` of Linux 6: fs/inode.c,
//! fs/ext4/super.c, fs/xfs/xfs_super.c, fs/fat/inode.c, fs/exfat/super.c, fs/hfsplus/super.c,
//! fs/nfs/super.c.

use std::sync::atomic::{AtomicU64, Ordering};

use penstock_proto::units::FileTime;
use penstock_sys::FileSystemKind;

const NANOSECONDS: i128 = 1_000_000_000;
/// Steps in nanoseconds, the coarsest first: FAT, ext3, exFAT, some servers, UDF, NTFS, all others.
const STEPS: [u64; 7] = [2_000_000_000, 1_000_000_000, 10_000_000, 1_000_000, 1_000, 100, 1];
/// Range of seconds that all file systems keep: from 1980 until a day before 2038-01-19.
const COMMON_SECONDS: std::ops::Range<i64> = 315_576_000..2_147_397_248;
/// The largest distance of a time zone from UTC, in seconds; mounts of FAT add the zone.
const ZONE_SECONDS: i64 = 14 * 3600;
/// First times: 1901 (32 bits), 1970 (NFSv3), 1904 (HFS+), 1601 (NTFS).
const FIRST: [i64; 4] = [-0x8000_0000, 0, -2_082_844_800, -11_644_473_600];
/// Last times: 2038 (32 bits), 2040 (HFS+), 2106 (NFSv3), 2446 (ext4), 2486 (XFS).
const LAST: [i64; 5] = [0x7FFF_FFFF, 2_212_122_495, 0xFFFF_FFFF, 0x3_7FFF_FFFF, 16_299_260_424];
/// First and last time of FAT and exFAT: 1980, and the last two seconds of 2107.
const FAT: [i64; 2] = [315_532_800, 4_354_819_199];

/// A step in which a file system counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(u64);

impl Step {
    /// Steps of one nanosecond.
    pub const EXACT: Self = Self(1);

    /// Returns the coarsest step that all of `stamps` fit, which the kernel set on one file system;
    /// [`Step::EXACT`] if there are none.
    pub fn of(stamps: impl IntoIterator<Item = FileTime>) -> Self {
        let mut stamps = stamps.into_iter();
        let Some(first) = stamps.next() else { return Self::EXACT };
        stamps.fold(Self(STEPS[0]).narrowed(first), Self::narrowed)
    }

    fn narrowed(self, stamp: FileTime) -> Self {
        let at = i128::from(stamp.seconds) * NANOSECONDS + i128::from(stamp.nanoseconds);
        let fits = |step: &&u64| **step <= self.0 && at.rem_euclid(i128::from(**step)) == 0;
        Self(STEPS.iter().find(fits).copied().unwrap_or(1))
    }

    pub(crate) fn truncated(self, time: FileTime) -> i128 {
        let at = i128::from(time.seconds) * NANOSECONDS + i128::from(time.nanoseconds);
        at - at.rem_euclid(i128::from(self.0))
    }
}

/// The step of one mount, as far as its stamps have shown. Threads share it.
#[derive(Debug)]
pub(crate) struct Stamps(AtomicU64);

impl Stamps {
    pub(crate) fn of(kind: FileSystemKind) -> Self {
        use FileSystemKind::{Btrfs, Tmpfs, Xfs};
        let step = if matches!(kind, Xfs | Btrfs | Tmpfs) { 1 } else { STEPS[0] };
        Self(AtomicU64::new(step))
    }

    /// Returns the step after these stamps were seen as well.
    pub(crate) fn seen(&self, stamps: [FileTime; 2]) -> Step {
        let before = Step(self.0.load(Ordering::Relaxed));
        let now = stamps.into_iter().fold(before, Step::narrowed);
        if now < before {
            self.0.fetch_min(now.0, Ordering::Relaxed);
        }
        now
    }
}

/// Returns whether some file system in use may not be able to keep this time.
pub(crate) fn may_not_fit(time: FileTime) -> bool {
    !COMMON_SECONDS.contains(&time.seconds)
}

/// Returns whether `found` is the stored form of `wanted`, a time within the limits of the file
/// system.
pub(crate) fn is_kept(wanted: FileTime, found: FileTime) -> bool {
    STEPS.iter().any(|step| Step(*step).truncated(wanted) == Step(1).truncated(found))
}

/// Returns whether `found` is the first or last time of a file system of this kind, and `wanted` is
/// beyond.
pub(crate) fn is_limit(kind: FileSystemKind, wanted: FileTime, found: FileTime) -> bool {
    use FileSystemKind::{Btrfs, Ext4, Tmpfs, Xfs};
    let (wanted, found, whole) = (wanted.seconds, found.seconds, found.nanoseconds == 0);
    let (first, last): (&[i64], &[i64]) = match kind {
        Tmpfs | Btrfs => (&[], &[]),
        Ext4 => (&FIRST[..1], &[LAST[0], LAST[3]]),
        Xfs => (&FIRST[..1], &[LAST[0], LAST[4]]),
        _ => (&FIRST, &LAST),
    };
    let other = !matches!(kind, Tmpfs | Btrfs | Ext4 | Xfs);
    let fat = |limit: i64| other && (found - limit).abs() <= ZONE_SECONDS;
    let below = wanted < found && (first.contains(&found) || fat(FAT[0]));
    let above = wanted > found && (last.contains(&found) || fat(FAT[1]));
    whole && (below || above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64, nanoseconds: u32) -> FileTime {
        FileTime { seconds, nanoseconds }
    }

    /// Promise: the step of a file system is learned from stamps that its kernel gave, and a single
    /// finer one disproves a coarser step.
    #[test]
    fn a_finer_stamp_disproves_a_coarser_step() {
        assert_eq!(Step::of([]), Step::EXACT);
        assert_eq!(Step::of([time(100, 0)]), Step(2_000_000_000));
        assert_eq!(Step::of([time(100, 0), time(-3, 0)]), Step(1_000_000_000));
        assert_eq!(Step::of([time(100, 0), time(7, 123_456_700)]), Step(100));
        assert_eq!(Step::of([time(100, 0), time(7, 123_456_789)]), Step::EXACT);
        let stamps = Stamps::of(FileSystemKind::Ext4);
        assert_eq!(stamps.seen([time(8, 0), time(6, 0)]), Step(2_000_000_000));
        assert_eq!(stamps.seen([time(9, 0), time(6, 0)]), Step(1_000_000_000));
        assert_eq!(stamps.seen([time(9, 1), time(6, 0)]), Step::EXACT);
        assert_eq!(stamps.seen([time(8, 0), time(6, 0)]), Step::EXACT, "it stays known");
        assert_eq!(Stamps::of(FileSystemKind::Tmpfs).seen([time(0, 0); 2]), Step::EXACT);
    }

    /// Promise: a target that counts time in larger steps has a time that was set there, and a
    /// later change at the target is another time.
    #[test]
    fn times_are_read_back_in_the_steps_of_the_target() {
        let wanted = time(1_001, 123_456_789);
        for found in [(1_001, 123_456_789), (1_001, 123_456_700), (1_001, 123_456_000)] {
            assert!(is_kept(wanted, time(found.0, found.1)), "{found:?}");
        }
        for found in [(1_001, 123_000_000), (1_001, 120_000_000), (1_001, 0), (1_000, 0)] {
            assert!(is_kept(wanted, time(found.0, found.1)), "{found:?}");
        }
        for found in [(1_001, 123_456_790), (1_001, 123_456_788), (1_002, 0), (999, 0)] {
            assert!(!is_kept(wanted, time(found.0, found.1)), "{found:?}");
        }
        assert!(is_kept(time(-5, 7), time(-6, 0)) && is_kept(time(-2, 500_000_000), time(-2, 0)));
    }

    /// Promise: a time that a file system cannot keep is taken for the same as the limit that it
    /// made of it, on file systems that have this limit only.
    #[test]
    fn a_time_beyond_a_limit_is_that_limit() {
        use FileSystemKind::{Ext4, Nfs, Other, Tmpfs, Xfs};
        let far = time(20_000_000_000, 5);
        for (kind, last) in [(Ext4, LAST[0]), (Ext4, LAST[3]), (Xfs, LAST[4]), (Nfs, LAST[2])] {
            assert!(is_limit(kind, far, time(last, 0)));
            assert!(!is_limit(kind, far, time(last, 1)) && !is_limit(kind, far, time(last - 1, 0)));
            assert!(!is_limit(kind, time(last - 9, 0), time(last, 0)), "it would have fitted");
            assert!(!is_limit(Tmpfs, far, time(last, 0)));
        }
        assert!(is_limit(Ext4, time(-3_000_000_000, 0), time(FIRST[0], 0)));
        assert!(is_limit(Nfs, time(-2, 5), time(0, 0)) && !is_limit(Ext4, time(-2, 5), time(0, 0)));
        assert!(is_limit(Other(0x4D44), time(0, 0), time(FAT[0] + 3600, 0)));
    }
}
