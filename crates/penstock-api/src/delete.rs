//! What a target's controller and a peer say about deleting what is not at the source.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use serde::{Deserialize, Serialize};

use crate::outcome::FailedItem;
use crate::place::PathText;
use crate::plan::{ItemKind, PlanAction, PlanItem, ThereItem};
use crate::problem::Problem;
use crate::task_page::TaskPage;

/// What finding the surplus needs.
pub struct SurplusQuery<'a> {
    /// All pages of the data set, in any order.
    pub pages: &'a mut dyn Iterator<Item = Result<TaskPage, Problem>>,
    /// Number of entries in them.
    pub entries: u64,
    /// An empty directory for files that take the place of memory.
    pub scratch: &'a Path,
    /// Told of each thing that is found; says whether it is to be listed.
    pub choose: &'a mut dyn FnMut(PlanItem) -> Result<bool, Problem>,
    /// Where the peer lists the surplus, in a form of its own.
    pub list: &'a Path,
    /// Set when it is to end early.
    pub stop: &'a AtomicBool,
}

/// What deleting needs.
pub struct DeleteOrder<'a> {
    /// The list that [`crate::task::TargetPeer::find_surplus`] has made.
    pub list: &'a Path,
    /// Delete only what is in the way of the data set: what is a directory where that has
    /// something else, with all that is in it, or something else where that has a directory.
    pub only_in_the_way: bool,
    /// Counts what is deleted.
    pub deleted: &'a AtomicU64,
    /// Set when it is to end early.
    pub stop: &'a AtomicBool,
    /// Takes what could not be deleted, or had changed.
    pub failed: &'a mut dyn FnMut(FailedItem) -> Result<(), Problem>,
}

/// Something at the target that is not in the data set, as it was when it was found. Its inode
/// number is that of the peer which has found it, and the same peer deletes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Whether the data set has something of its path: a directory where this is none, or
    /// something else where this is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_the_way: bool,
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
    /// Something of Penstock's own: it stays, and so do the directories that hold it. It comes from
    /// a listing, and is in no list of what is to be deleted.
    Own,
}

impl Surplus {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == SurplusKind::Directory
    }

    /// The same, in the way of something or not.
    #[must_use]
    pub fn in_the_way_if(mut self, in_the_way: bool) -> Self {
        self.in_the_way = in_the_way;
        self
    }

    /// The same as an item of a plan.
    pub fn planned(&self) -> PlanItem {
        let kind = match self.kind {
            SurplusKind::File => ItemKind::File,
            SurplusKind::Directory => ItemKind::Directory,
            SurplusKind::Symlink => ItemKind::Symlink,
            SurplusKind::Fifo => ItemKind::Fifo,
            SurplusKind::CharDevice => ItemKind::CharDevice,
            SurplusKind::BlockDevice => ItemKind::BlockDevice,
            SurplusKind::Other | SurplusKind::Own => ItemKind::Other,
        };
        PlanItem {
            action: PlanAction::Delete,
            path: self.path.clone(),
            kind,
            size: self.size,
            mtime: self.mtime,
            link: None,
            why: String::new(),
            there: Some(ThereItem {
                kind,
                size: self.size,
                mtime: self.mtime,
                inode: self.inode,
                ctime: self.ctime,
                links: self.links,
            }),
        }
    }
}
