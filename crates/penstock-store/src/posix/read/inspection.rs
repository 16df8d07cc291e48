//! All attributes that a file system reports of one entry, for comparing two of them: more than a
//! manifest carries, and slower to read.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::fs::{AtFlags, OFlags, StatxFlags, getxattr, listxattr, statx};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::check_item_name;
use crate::posix::sandbox::open_component;

/// Longest value of an extended attribute, and longest list of names (xattr(7)).
const XATTR_BYTES_MAX: usize = 64 * 1024;

/// The facts about one entry from [`inspect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Type bits of the mode (`S_IFMT`).
    pub file_type: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Major and minor number of a device; zeros of anything else.
    pub device: (u32, u32),
    /// Extended attributes, ACLs and capabilities among them, as far as we may read them.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Returns the type, owner, device number and, with `xattrs`, the extended attributes of `name` in
/// `dir`; the empty name is `dir` itself. Links are not followed. Blocks.
///
/// # Errors
/// `BadPath`; `Io`.
///
/// # Sources
/// open(2) on `O_PATH`; proc(5) on `/proc/store/fd`, whose magic links lead to a symbolic link
/// itself, so that a path which cannot be raced serves all kinds.
pub fn inspect(dir: &Dir, name: &[u8], xattrs: bool) -> Result<Inspection, StoreError> {
    if !name.is_empty() {
        check_item_name(dir, name)?;
    }
    let component = if name.is_empty() { b"." } else { name };
    let failed = |operation| move |errno: Errno| dir.error(operation, name, errno);
    let parent = dir.fd()?;
    let fd = open_component(parent.as_fd(), component, OFlags::PATH).map_err(failed("open"))?;
    let mask = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::UID | StatxFlags::GID;
    let told = statx(&fd, c"", AtFlags::EMPTY_PATH, mask).map_err(failed("stat"))?;
    let xattrs = if xattrs {
        read_xattrs(&fd).map_err(failed("read the extended attributes of"))?
    } else {
        BTreeMap::new()
    };
    Ok(Inspection {
        file_type: u32::from(told.stx_mode) & 0o170_000,
        uid: told.stx_uid,
        gid: told.stx_gid,
        device: (told.stx_rdev_major, told.stx_rdev_minor),
        xattrs,
    })
}

fn read_xattrs(fd: &OwnedFd) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mut names = vec![0; XATTR_BYTES_MAX];
    let length = match listxattr(path.as_str(), &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(BTreeMap::new()),
        Err(errno) => return Err(errno),
    };
    let mut found = BTreeMap::new();
    let mut value = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        value.resize(XATTR_BYTES_MAX, 0);
        match getxattr(path.as_str(), name, &mut value[..]) {
            Ok(length) => drop(found.insert(name.to_vec(), value[..length].to_vec())),
            // Removed meanwhile, or of a namespace that is not for us.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}
