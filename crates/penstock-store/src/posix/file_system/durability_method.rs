//! The method that makes written data durable, by the kind of file system (A3, A4).

use std::fmt;

use penstock_sys::FileSystemKind;

/// The first version of Linux in which syncfs(2) reports write-back errors.
const SYNCFS_REPORTS_ERRORS: (u32, u32) = (5, 8);

/// The method that makes written data durable at a store; its text appears in `transfer show`,
/// `doctor` and the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DurabilityMethod {
    /// A single syncfs(2) for all earlier writes.
    Syncfs(FileSystemKind),
    /// fsync(2) of each file by its own writer before the rename, then of the directories.
    Fsync(FileSystemKind),
    /// The store keeps nothing (`null:`).
    Nothing,
}

impl DurabilityMethod {
    /// Returns the method for a file system of this kind on a kernel of this version.
    pub(crate) fn of(kind: FileSystemKind, kernel: (u32, u32)) -> Self {
        use FileSystemKind::{Btrfs, Ext4, Tmpfs, Xfs};
        let by_syncfs = matches!(kind, Ext4 | Xfs | Btrfs | Tmpfs);
        if by_syncfs && kernel >= SYNCFS_REPORTS_ERRORS {
            Self::Syncfs(kind)
        } else {
            Self::Fsync(kind)
        }
    }

    /// Returns whether each writer must sync each file: [`crate::WriteFile::finish`] and
    /// [`crate::WriteFile::close`] take that as an argument.
    pub fn is_per_file(self) -> bool {
        matches!(self, Self::Fsync(_))
    }
}

impl fmt::Display for DurabilityMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syncfs(FileSystemKind::Tmpfs) => {
                f.write_str("syncfs on tmpfs, which loses everything with the host")
            }
            Self::Syncfs(kind) => write!(f, "syncfs on {kind}"),
            Self::Fsync(kind) if kind.is_network() => {
                write!(f, "fsync on {kind}, as far as the server honours it")
            }
            Self::Fsync(kind) => write!(f, "fsync on {kind}"),
            Self::Nothing => f.write_str("nothing: the target discards all data"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (A3, A4): syncfs is trusted only where it is known to mean durability and to report
    /// errors; everything else, and everything unknown, is synced file by file.
    #[test]
    fn a3_syncfs_is_trusted_on_few_file_systems_only() {
        let method =
            |f_type, kernel| DurabilityMethod::of(FileSystemKind::from_f_type(f_type), kernel);
        for trusted in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994] {
            assert!(!method(trusted, (5, 8)).is_per_file());
            assert!(method(trusted, (5, 7)).is_per_file());
        }
        for doubtful in [0x794C_7630, 0x6969, 0x0BD0_0BD0, 0x4750_4653, 0x6573_5546, 1] {
            assert!(method(doubtful, (6, 18)).is_per_file());
        }
        assert_eq!(method(0x5846_5342, (6, 1)).to_string(), "syncfs on XFS");
        let nfs = method(0x6969, (6, 1)).to_string();
        assert_eq!(nfs, "fsync on NFS, as far as the server honours it");
    }
}
