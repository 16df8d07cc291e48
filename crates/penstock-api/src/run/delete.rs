//! Requests of a target's controller to a peer about deleting what is not at the source.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use serde::{Deserialize, Serialize};

use crate::outcome::FailedItem;
use crate::place::PathText;
use crate::plan::{ItemKind, PlanAction, PlanItem, ThereItem};
use crate::problem::Problem;
use crate::run::task_page::TaskPage;

/// Arguments of finding the surplus.
pub struct SurplusQuery<'a> {
    /// All pages of the data set, in any order.
    pub pages: &'a mut dyn Iterator<Item = Result<TaskPage, Problem>>,
    /// Number of entries in them.
    pub entries: u64,
    /// An empty directory for files that replace memory.
    pub scratch: &'a Path,
    /// Called for each surplus item; returns whether the item is to be listed.
    pub choose: &'a mut dyn FnMut(PlanItem) -> Result<bool, Problem>,
    /// File in which the peer lists the surplus, in a form of its own.
    pub list: &'a Path,
    /// Set to make the search end early.
    pub stop: &'a AtomicBool,
}

/// Arguments of deleting the surplus.
pub struct DeleteOrder<'a> {
    /// The list that [`crate::task::TargetPeer::find_surplus`] has made.
    pub list: &'a Path,
    /// Delete only what obstructs the data set: a directory where the data set has something else,
    /// with all of its content, or something else where the data set has a directory.
    pub only_in_the_way: bool,
    /// Counts what is deleted.
    pub deleted: &'a AtomicU64,
    /// Set to make the deletion end early.
    pub stop: &'a AtomicBool,
    /// Takes the items that could not be deleted, or had changed.
    pub failed: &'a mut dyn FnMut(FailedItem) -> Result<(), Problem>,
}

/// Progress of a request to delete items.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deleted {
    /// Number of its items, from the first, that are done.
    pub dealt: u64,
    /// Number of these that it has deleted.
    pub deleted: u64,
    /// The items of these that stay.
    pub failed: Vec<FailedItem>,
}

/// Something at the target that is not in the data set, as it was when it was found. Its inode
/// number is that of the peer that found it, and the same peer deletes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surplus {
    /// Path relative to the data set's root.
    pub path: PathText,
    /// Kind of the item.
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
    /// True if the data set has something at its path: a directory where this is none, or something
    /// else where this is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_the_way: bool,
}

/// Kind of a surplus item.
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
    /// Something of Penstock's own. It stays, and so do the directories that hold it. A listing
    /// contains it; a list of items to delete does not.
    Own,
}

impl Surplus {
    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == SurplusKind::Directory
    }

    /// Returns the item with its flag `in_the_way` set as given.
    #[must_use]
    pub fn in_the_way_if(mut self, in_the_way: bool) -> Self {
        self.in_the_way = in_the_way;
        self
    }

    /// Returns the item as an item of a plan.
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
