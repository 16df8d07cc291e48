//! Mounts at the target of a data set, so that no file is written beneath an empty mount point
//! (A5).
//!
//! A store's identity and marker describe the file system at its root alone. Another file system
//! may be mounted within: on the way to the data set, at its root, or below. Every mount that
//! existed when the transfer began must exist whenever the transfer resumes. Otherwise files would
//! be hidden once it is mounted again, and the durable files in it would be missing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use penstock_api::task::{MountSeen, TaskSpec};
use penstock_api::transfer::PathText;
use penstock_store::Target;

use crate::stores::access::{Absence, AccessError};

/// Kernel's name for the file system type of a mount point that mounts something on access.
const AUTOMOUNT: &str = "autofs";

/// Returns the mounts that lie where the data set is, or will be. Reads a table of the kernel.
///
/// # Errors
/// The store is offline.
pub(crate) fn mounts_of(target: &Target, spec: &TaskSpec) -> Result<Vec<MountSeen>, AccessError> {
    let Target::Posix(store) = target else { return Ok(Vec::new()) };
    let found = penstock_sys::mounts_within(store.root_path())
        .map_err(|error| AccessError::unanswered(&spec.store, &error))?;
    let seen = found.into_iter().map(|mount| MountSeen {
        at: PathText(mount.at.as_os_str().as_bytes().to_vec()),
        kind: mount.kind,
    });
    Ok(of_data_set(seen.collect(), &spec.root.0))
}

/// Keeps the mounts that matter to a data set. Mounts on demand come and go, and are left out.
fn of_data_set(mut mounts: Vec<MountSeen>, root: &[u8]) -> Vec<MountSeen> {
    let automounts: Vec<PathText> = mounts
        .iter()
        .filter(|mount| mount.kind == AUTOMOUNT)
        .map(|mount| mount.at.clone())
        .collect();
    mounts.retain(|mount| {
        let at = mount.at.0.as_slice();
        let by_itself = mount.kind != AUTOMOUNT
            && automounts.iter().any(|automount| is_within(at, &automount.0));
        !by_itself && (is_within(at, root) || is_within(root, at))
    });
    mounts
}

fn is_within(path: &[u8], directory: &[u8]) -> bool {
    let behind = path.strip_prefix(directory);
    behind
        .is_some_and(|behind| directory.is_empty() || behind.is_empty() || behind.starts_with(b"/"))
}

/// Checks that all is mounted that was when the transfer began. Costs nothing where nothing was.
///
/// # Errors
/// The store is offline; which of them it is.
pub(crate) fn check_mounts(target: &Target, spec: &TaskSpec) -> Result<(), AccessError> {
    if spec.mounts.is_empty() {
        return Ok(());
    }
    let missing = |found: &[MountSeen]| spec.mounts.iter().find(|mount| !found.contains(mount));
    if missing(&mounts_of(target, spec)?).is_none() {
        return Ok(());
    }
    // The kernel's own mounts within some file systems end after a while and return on access
    // (mount(2)). Examples are exports within an export of NFS, and snapshots of ZFS.
    if let Target::Posix(store) = target {
        for mount in &spec.mounts {
            let at = store.root_path().join(OsStr::from_bytes(&mount.at.0)).join(".");
            // The table shows whether the mount exists.
            let _ = std::fs::metadata(at);
        }
    }
    missing(&mounts_of(target, spec)?).map_or(Ok(()), |mount| {
        Err(AccessError::offline(&spec.store, Absence::MountGone(mount.clone())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(at: &str, kind: &str) -> MountSeen {
        MountSeen { at: PathText(at.as_bytes().to_vec()), kind: kind.to_owned() }
    }

    /// A5: mounts on the way to a data set, at its root, or below matter. A neighbour does not, nor
    /// does a mount that the kernel makes at an access.
    #[test]
    fn a5_mounts_that_matter_to_a_data_set() {
        let all = || {
            vec![
                mount("b", "xfs"),
                mount("b/run7", "nfs4"),
                mount("b/run7/deep/er", "ext4"),
                mount("b/run70", "ext4"),
                mount("home", "autofs"),
                mount("home/ann", "nfs4"),
                mount("later", "autofs"),
                mount("later", "nfs4"),
            ]
        };
        let of = |root: &str| of_data_set(all(), root.as_bytes());
        assert_eq!(of("b/run7"), all()[..3]);
        assert_eq!(of("b/run7/new"), all()[..2]);
        assert!(of("c").is_empty());
        assert_eq!(of("home/ann/x"), [mount("home", "autofs")]);
        assert_eq!(of("").len(), 6);
        assert_eq!(of("later"), [mount("later", "autofs")]);
    }
}
