//! One line of the list of entries to delete: a [`Surplus`] in JSON, files first, then directories
//! from the deepest up. Only the controller's host writes and reads it.

use std::path::Path;

use penstock_api::delete::{Surplus, SurplusKind};
use penstock_api::transfer::PathText;
use penstock_proto::units::FileTime;
use penstock_store::{Kind, Meta};

use super::path_hash::{PathHash, hash_of};
use crate::task::error::TaskError;

/// Returns the record of the entry found at `path`.
pub(super) fn surplus_of(path: Vec<u8>, meta: &Meta) -> Surplus {
    let stamp = |time: FileTime| (time.seconds, time.nanoseconds);
    Surplus {
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

/// Returns the record of an own entry at `path`, which stays.
pub(super) fn own_at(path: Vec<u8>) -> Surplus {
    Surplus {
        path: PathText(path),
        kind: SurplusKind::Own,
        size: 0,
        inode: 0,
        ctime: (0, 0),
        mtime: (0, 0),
        links: 0,
        in_the_way: false,
    }
}

/// Returns the hash by which the join knows an entry.
pub(super) fn key_of(surplus: &Surplus) -> PathHash {
    hash_of(&surplus.path.0, surplus.is_directory())
}

/// Returns the recorded attributes, as many as decide whether the entry is still the same.
pub(super) fn seen(surplus: &Surplus, like: &Meta) -> Meta {
    let time = |(seconds, nanoseconds): (i64, u32)| FileTime { seconds, nanoseconds };
    Meta {
        kind: match surplus.kind {
            SurplusKind::File => Kind::File,
            SurplusKind::Directory => Kind::Directory,
            SurplusKind::Symlink => Kind::Symlink,
            SurplusKind::Fifo => Kind::Fifo,
            SurplusKind::CharDevice => Kind::CharDevice,
            SurplusKind::BlockDevice => Kind::BlockDevice,
            SurplusKind::Other | SurplusKind::Own => Kind::Other,
        },
        size: surplus.size,
        inode: surplus.inode,
        ctime: time(surplus.ctime),
        mtime: time(surplus.mtime),
        links: surplus.links,
        ..*like
    }
}

/// Returns one line of a list, with its line end.
pub(super) fn line_of(surplus: &Surplus) -> Vec<u8> {
    // A plain structure of numbers and text can be written.
    let mut line = serde_json::to_vec(surplus).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads a line of the list at `path`.
pub(super) fn read_line(line: &str, path: &Path) -> Result<Surplus, TaskError> {
    serde_json::from_str(line)
        .map_err(|source| TaskError::ListDamaged { path: path.to_owned(), source })
}
