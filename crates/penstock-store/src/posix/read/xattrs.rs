//! Extended attributes of an entry, as a manifest carries them.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use penstock_proto::attributes::{
    ACL_ACCESS, ACL_DEFAULT, AttributeClass, ClassSet, Xattrs, class_of, encode_xattrs,
};
use penstock_sys::list_xattrs_at;
use rustix::fs::{lgetxattr, listxattr, llistxattr};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::check_item_name;
use crate::posix::file_system::mount::Mount;
use crate::posix::file_system::refusals::Refusals;

/// First guess at the bytes of a list of names, or of a value.
const GUESS_BYTES: usize = 1024;
/// Linux returns no longer list or value (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`, linux/limits.h).
const SYSTEM_BYTES_MAX: usize = 64 * 1024;
/// Attributes that are asked for by name where an entry has more names than the system lists: ACLs,
/// capabilities and labels (linux/capability.h, linux/xattr.h).
const KNOWN_NAMES: [&[u8]; 4] =
    [ACL_ACCESS, ACL_DEFAULT, b"security.capability", b"security.SMACK64"];

/// Implements [`Source::xattrs`] for a directory tree.
///
/// [`Source::xattrs`]: crate::Source::xattrs
pub(crate) fn xattrs(
    dir: &Dir,
    name: &[u8],
    classes: ClassSet,
) -> Result<(Vec<u8>, usize), StoreError> {
    let refusals = dir.mount().map(Mount::refusals);
    if classes.is_empty() || refusals.is_some_and(Refusals::lists_nothing) {
        return Ok((Vec::new(), 0));
    }
    if !name.is_empty() {
        check_item_name(dir, name)?;
    }
    let dir_fd = dir.fd()?;
    let fd = dir_fd.as_fd();
    let of_dir = name.is_empty();
    let path = path_below(fd, name);
    let listed = whole(|buffer| match (list_xattrs_at(fd, name, buffer), of_dir) {
        // A directory that may not be listed is open for its path alone.
        (Some(Err(Errno::BADF)) | None, true) => listxattr(path().as_slice(), buffer),
        (Some(told), _) => told,
        (None, false) => llistxattr(path().as_slice(), buffer),
    });
    let names = match listed {
        Ok(names) if names.is_empty() => return Ok((Vec::new(), 0)),
        Ok(names) => names,
        // No system call lists so many; those of other classes have names that are known.
        Err(Errno::TOOBIG) if !classes.contains(AttributeClass::UserXattrs) => KNOWN_NAMES.join(&0),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            if let Some(refusals) = refusals {
                refusals.note_nothing_listed();
            }
            return Ok((Vec::new(), 0));
        }
        Err(errno) => return Err(dir.error("list attributes", name, errno)),
    };
    let path = path();
    let mut found = Vec::new();
    let mut left_out = 0;
    for key in names.split(|&byte| byte == 0).filter(|key| !key.is_empty()) {
        if !class_of(key).is_some_and(|class| classes.contains(class)) {
            continue;
        }
        let value = whole(|buffer| match of_dir {
            true => rustix::fs::getxattr(path.as_slice(), key, buffer),
            false => lgetxattr(path.as_slice(), key, buffer),
        });
        match value {
            Ok(value) => found.push((key, value)),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(Errno::NOENT | Errno::STALE) => {
                return Err(dir.error("read attributes", name, Errno::NOENT));
            }
            Err(_) => left_out += 1,
        }
    }
    let pairs = found.iter().map(|(key, value)| (*key, value.as_slice()));
    let (encoded, too_large) = encode_xattrs(pairs);
    Ok((encoded, left_out + too_large))
}

/// Implements [`Target::has_xattrs`] for a directory tree.
///
/// [`Target::has_xattrs`]: crate::Target::has_xattrs
pub(crate) fn has_xattrs(
    dir: &Dir,
    name: &[u8],
    wanted: Xattrs<'_>,
    classes: ClassSet,
) -> Result<bool, StoreError> {
    let is_xattr = |class: &AttributeClass| classes.contains(*class) && class.is_of_xattrs();
    let classes = ClassSet::of(AttributeClass::ALL.into_iter().filter(is_xattr));
    let (there, left_out) = xattrs(dir, name, classes)?;
    let there = Xattrs::of(&there);
    let carried =
        |(name, _): &(&[u8], &[u8])| class_of(name).is_some_and(|class| classes.contains(class));
    let count = wanted.into_iter().filter(carried).count();
    let all = wanted.into_iter().filter(carried);
    Ok(left_out == 0
        && there.into_iter().count() == count
        && all.into_iter().all(|(name, value)| there.get(name) == Some(value)))
}

/// Returns a path to `name` in the directory that `fd` is open on; to that itself if the name is
/// empty.
fn path_below<'a>(fd: BorrowedFd<'a>, name: &'a [u8]) -> impl Fn() -> Vec<u8> + 'a {
    move || {
        let mut path = format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes();
        if !name.is_empty() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }
}

/// Fills a buffer that is large enough, however large the answer is.
pub(crate) fn whole(
    mut ask: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    let mut first = [0; GUESS_BYTES];
    match ask(&mut first) {
        Ok(length) => return Ok(first[..length].to_vec()),
        Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    let mut buffer = vec![0; SYSTEM_BYTES_MAX];
    let length = ask(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}
