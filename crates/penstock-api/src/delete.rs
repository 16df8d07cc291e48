//! What a target's controller and a peer say about deleting what is not at the source.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::task::TaskPage;
use crate::transfer::{FailedItem, PathText};

/// Something at the target that is not in the data set, as it was when it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surplus {
    /// Path relative to the data set's root.
    pub path: PathText,
    /// What it is.
    pub kind: SurplusKind,
    /// Size in bytes.
    pub size: u64,
    /// Inode number.
    pub inode: u64,
    /// Change time: seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// Time of last modification: seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Number of names.
    pub links: u32,
}

/// What a surplus thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SurplusKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A socket.
    Other,
}

/// A time as [`Surplus`] has it.
pub fn stamp(time: FileTime) -> (i64, u32) {
    (time.seconds, time.nanoseconds)
}

/// What finding the surplus needs.
pub struct SurplusQuery<'a> {
    /// All pages of the data set, in any order.
    pub pages: &'a mut dyn Iterator<Item = Result<TaskPage, Problem>>,
    /// Number of entries in them.
    pub entries: u64,
    /// An empty directory for files that take the place of memory.
    pub scratch: &'a Path,
    /// Where the surplus is listed: one JSON object of [`Surplus`] a line, directories last, and
    /// children before their parents.
    pub list: &'a Path,
    /// Set when it is to end early.
    pub stop: &'a AtomicBool,
}

/// What deleting needs.
pub struct DeleteOrder<'a> {
    /// The list that [`crate::task::TargetPeer::find_surplus`] has made.
    pub list: &'a Path,
    /// Counts what is deleted.
    pub deleted: &'a AtomicU64,
    /// Set when it is to end early.
    pub stop: &'a AtomicBool,
    /// Takes what could not be deleted, or had changed.
    pub failed: &'a mut dyn FnMut(FailedItem) -> Result<(), Problem>,
}
