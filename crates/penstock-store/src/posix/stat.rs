//! Attributes of entries from statx(2), and the errors of entries of the wrong kind.

use std::os::fd::BorrowedFd;

use penstock_proto::attributes::{DeviceNumber, Owner};
use penstock_proto::name;
use penstock_proto::units::FileTime;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, makedev, statx};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::meta::{Kind, Meta};

/// The mask for statx: all fields of [`Meta`], and no access time, which costs network file systems
/// a round trip.
const META_MASK: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::MODE)
    .union(StatxFlags::NLINK)
    .union(StatxFlags::UID)
    .union(StatxFlags::GID)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::CTIME)
    .union(StatxFlags::INO)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::BLOCKS);
/// `AT_STATX_FORCE_SYNC`: ask the server, not the cache.
const FORCE_SYNC: AtFlags = AtFlags::from_bits_retain(0x2000);

/// Returns the error of a failed walk: whether an entry on the way was no directory.
pub(crate) fn directory_error(operation: &'static str, path: &[u8], errno: Errno) -> StoreError {
    match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => {
            StoreError::NotDirectory { path: name::escape(path) }
        }
        other => StoreError::io(operation, path, other),
    }
}

pub(crate) fn wrong_kind(dir: &Dir, item: &[u8], found: Kind) -> StoreError {
    let path = name::escape(&name::join(dir.path(), item));
    StoreError::WrongKind { path, found: found.with_article(), expected: "a file" }
}

/// Returns the attributes of an open file or directory, on network file systems from the server.
pub(crate) fn stat_open(fd: BorrowedFd<'_>, dir: &Dir) -> Result<Meta, Errno> {
    let network = dir.mount().is_some_and(|mount| mount.kind().is_network());
    stat_fd(fd, if network { FORCE_SYNC } else { AtFlags::empty() })
}

pub(crate) fn stat_fd(fd: BorrowedFd<'_>, flags: AtFlags) -> Result<Meta, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH | flags, META_MASK).map(|told| meta_of(&told))
}

/// Returns the attributes of `name` in the directory `parent`.
pub(crate) fn stat_at(parent: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<Meta, Errno> {
    statx(parent, name, flags, META_MASK).map(|told| meta_of(&told))
}

fn meta_of(told: &Statx) -> Meta {
    let mode = u32::from(told.stx_mode);
    let time = |stamp: StatxTimestamp| FileTime {
        seconds: stamp.tv_sec,
        // A hostile FUSE server may return anything; pages reject more than this.
        nanoseconds: stamp.tv_nsec.min(999_999_999),
    };
    Meta {
        kind: kind_of(FileType::from_raw_mode(mode)).unwrap_or(Kind::Other),
        size: told.stx_size,
        mode: mode & 0o7777,
        owner: Owner { uid: told.stx_uid, gid: told.stx_gid },
        special: DeviceNumber { major: told.stx_rdev_major, minor: told.stx_rdev_minor },
        mtime: time(told.stx_mtime),
        ctime: time(told.stx_ctime),
        inode: told.stx_ino,
        blocks: told.stx_blocks,
        links: told.stx_nlink,
        device: makedev(told.stx_dev_major, told.stx_dev_minor),
        made: false,
    }
}

/// Returns the kind, or `None` where the system did not report it.
pub(crate) fn kind_of(file_type: FileType) -> Option<Kind> {
    Some(match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => return None,
        _ => Kind::Other,
    })
}
