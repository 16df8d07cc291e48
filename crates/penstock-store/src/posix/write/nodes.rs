//! Makes entries without bytes: symbolic links, pipes, devices, further names.
//!
//! Each is made under a temporary name, receives its attributes, and is published, like a file.

use penstock_proto::attributes::DeviceNumber;
use penstock_proto::name;
use rustix::fs::{AtFlags, FileType, Mode, linkat, makedev, mknodat, symlinkat};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::check_item_name;
use crate::meta::Kind;
use crate::posix::store::PosixStore;

/// Number of retries with a name that another process takes between two calls.
const RACE_TRIES: u32 = 16;
/// Mode of a pipe or device until it has its attributes.
const NEW_NODE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Implements [`Target::make_symlink`] for a directory tree.
///
/// [`Target::make_symlink`]: crate::Target::make_symlink
pub(crate) fn make_symlink(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    target: &[u8],
) -> Result<(), StoreError> {
    make_anew(store, "make link", dir, name, || symlinkat(target, dir.fd_raw()?, name))
}

/// Implements [`Target::make_node`] for a directory tree.
///
/// [`Target::make_node`]: crate::Target::make_node
pub(crate) fn make_node(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    kind: Kind,
    number: DeviceNumber,
) -> Result<(), StoreError> {
    let (file_type, device) = match kind {
        Kind::Fifo => (FileType::Fifo, 0),
        Kind::CharDevice => (FileType::CharacterDevice, makedev(number.major, number.minor)),
        Kind::BlockDevice => (FileType::BlockDevice, makedev(number.major, number.minor)),
        _ => return Err(StoreError::bad_path(&name::join(dir.path(), name))),
    };
    make_anew(store, "make node", dir, name, || {
        mknodat(dir.fd_raw()?, name, file_type, NEW_NODE_MODE, device)
    })
}

/// Implements [`Target::make_hard_link`] for a directory tree.
///
/// [`Target::make_hard_link`]: crate::Target::make_hard_link
pub(crate) fn make_hard_link(
    store: &PosixStore,
    of: &Dir,
    primary: &[u8],
    dir: &Dir,
    name: &[u8],
) -> Result<(), StoreError> {
    check_item_name(of, primary)?;
    let is_made = || {
        let inode_of = |dir, name| store.stat_if_exists(dir, name).ok().flatten();
        let there = inode_of(dir, name);
        there.is_some_and(|there| {
            inode_of(of, primary)
                .is_some_and(|first| (first.inode, first.device) == (there.inode, there.device))
        })
    };
    make_anew(store, "make hard link", dir, name, || {
        let linked = linkat(of.fd_raw()?, primary, dir.fd_raw()?, name, AtFlags::empty());
        settled(linked, is_made)
    })
}

fn make_anew(
    store: &PosixStore,
    operation: &'static str,
    dir: &Dir,
    name: &[u8],
    mut make: impl FnMut() -> Result<(), Errno>,
) -> Result<(), StoreError> {
    check_item_name(dir, name)?;
    store.check_item_writable(operation, dir, name)?;
    for _ in 0..RACE_TRIES {
        match store.rules.unlocked(dir, &mut make) {
            Err(Errno::EXIST) => store.remove(dir, name)?,
            outcome => return outcome.map_err(|errno| dir.error(operation, name, errno)),
        };
    }
    Err(dir.error(operation, name, Errno::EXIST))
}

/// Returns the result of making a name. A repeated request may get an error although the name was
/// made; that counts as success.
fn settled(outcome: Result<(), Errno>, is_made: impl Fn() -> bool) -> Result<(), Errno> {
    match outcome {
        Err(Errno::EXIST | Errno::NOENT | Errno::STALE) if is_made() => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B6: the reply to a link was lost, and the request was sent again: an existing link counts as
    /// success, and other errors stay errors.
    #[test]
    fn b6_what_is_made_is_made_whatever_a_repeated_request_says() {
        for errno in [Errno::EXIST, Errno::NOENT, Errno::STALE] {
            assert_eq!(settled(Err(errno), || true), Ok(()));
            assert_eq!(settled(Err(errno), || false), Err(errno));
        }
        assert_eq!(settled(Err(Errno::MLINK), || true), Err(Errno::MLINK));
        assert_eq!(settled(Ok(()), || unreachable!("it is not asked")), Ok(()));
    }
}
