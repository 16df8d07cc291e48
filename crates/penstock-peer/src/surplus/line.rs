//! One line of the list of what is to be deleted: a JSON object, files first, then directories
//! from the deepest up. Made and read by this peer alone.

use std::path::Path;

use penstock_api::plan::{ItemKind, PlanAction, PlanItem, ThereItem};
use penstock_api::problem::{Exit, Problem};
use penstock_api::transfer::PathText;
use penstock_io::store::{Kind, Meta};
use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};

use super::{PathHash, hash_of};

/// Something at the target that is not in the data set, as it was when it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Surplus {
    /// Path relative to the data set's root.
    pub(super) path: PathText,
    /// What it is.
    pub(super) kind: SurplusKind,
    /// Size in bytes.
    pub(super) size: u64,
    /// Inode number.
    pub(super) inode: u64,
    /// Change time: seconds and nanoseconds.
    pub(super) ctime: (i64, u32),
    /// Time of last modification: seconds and nanoseconds.
    pub(super) mtime: (i64, u32),
    /// Number of names.
    pub(super) links: u32,
    /// Whether the data set has something of its path: a directory where this is none, or
    /// something else where this is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) in_the_way: bool,
}

/// What a surplus thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SurplusKind {
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

impl Surplus {
    /// What was found at `path`.
    pub(super) fn of(path: Vec<u8>, meta: &Meta) -> Self {
        let stamp = |time: FileTime| (time.seconds, time.nanoseconds);
        Self {
            path: PathText(path),
            kind: match meta.kind {
                Kind::File => SurplusKind::File,
                Kind::Directory => SurplusKind::Directory,
                Kind::Symlink => SurplusKind::Symlink,
                Kind::Fifo => SurplusKind::Fifo,
                Kind::CharDevice => SurplusKind::CharDevice,
                Kind::BlockDevice => SurplusKind::BlockDevice,
                Kind::Other => SurplusKind::Other,
            },
            size: meta.size,
            inode: meta.inode,
            ctime: stamp(meta.ctime),
            mtime: stamp(meta.mtime),
            links: meta.links,
            in_the_way: false,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == SurplusKind::Directory
    }

    /// What the join knows it by.
    pub(super) fn hash(&self) -> PathHash {
        hash_of(&self.path.0, self.is_directory())
    }

    /// The same, in the way of something or not.
    pub(super) fn in_the_way_if(mut self, in_the_way: bool) -> Self {
        self.in_the_way = in_the_way;
        self
    }

    /// The same as an item of a plan.
    pub(super) fn planned(&self) -> PlanItem {
        let kind = match self.kind {
            SurplusKind::File => ItemKind::File,
            SurplusKind::Directory => ItemKind::Directory,
            SurplusKind::Symlink => ItemKind::Symlink,
            SurplusKind::Fifo => ItemKind::Fifo,
            SurplusKind::CharDevice => ItemKind::CharDevice,
            SurplusKind::BlockDevice => ItemKind::BlockDevice,
            SurplusKind::Other => ItemKind::Other,
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

    /// As much of what was seen as decides whether it is still the same.
    pub(super) fn seen(&self, like: &Meta) -> Meta {
        let time = |(seconds, nanoseconds): (i64, u32)| FileTime { seconds, nanoseconds };
        Meta {
            kind: match self.kind {
                SurplusKind::File => Kind::File,
                SurplusKind::Directory => Kind::Directory,
                SurplusKind::Symlink => Kind::Symlink,
                SurplusKind::Fifo => Kind::Fifo,
                SurplusKind::CharDevice => Kind::CharDevice,
                SurplusKind::BlockDevice => Kind::BlockDevice,
                SurplusKind::Other => Kind::Other,
            },
            size: self.size,
            inode: self.inode,
            ctime: time(self.ctime),
            mtime: time(self.mtime),
            links: self.links,
            ..*like
        }
    }
}

/// Reads a line of the list at `path`.
pub(super) fn read_line(line: &str, path: &Path) -> Result<Surplus, Problem> {
    serde_json::from_str(line).map_err(|cause| {
        let title = format!("`{}` is damaged", path.display());
        Problem::new(Exit::Fatal, "journal", title).because(cause)
    })
}
