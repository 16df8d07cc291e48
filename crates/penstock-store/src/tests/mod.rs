//! Stores against hostile trees, crashes of others, full disks and missing mounts.

mod accounts;
mod direct;
mod failing;
mod identity;
mod modes;
mod names;
mod positions;
mod sandbox;
mod writeback;
mod writing;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use penstock_proto::name::{self, OwnKind, RunTag, STORE_PRIVATE_NAME, own_name};
use penstock_proto::units::FileTime;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::conformance::{check_source, check_target};
use super::posix::write::attributes::set_node_attributes;
use super::posix::write::nodes::make_symlink;
use super::*;

const BOTH: [Resolution; 2] = [Resolution::Kernel, Resolution::Stepwise];

fn open(root: &Path, resolution: Resolution) -> PosixStore {
    let options = PosixOptions { resolution: Some(resolution), ..PosixOptions::default() };
    PosixStore::open(root, options).unwrap()
}

/// Writes and publishes a file in one go.
fn put(store: &PosixStore, dir: &Dir, item: &[u8], bytes: &[u8]) {
    let file = store.create_temporary(dir, b".pst-put", LeftOver::Replace).unwrap();
    file.write_at(0, bytes).unwrap();
    file.finish(&Attributes::plain(0o644, FileTime { seconds: 1, nanoseconds: 0 }), false).unwrap();
    store.publish(dir, b".pst-put", item, false).unwrap();
}

/// Returns a temporary name, another for each number.
fn temporary_number(number: u8) -> TemporaryName {
    own_name(OwnKind::File, RunTag([1; 4]), [number; 12])
}

/// Returns the private directory of the store at `root`.
fn private(root: &Path) -> PathBuf {
    root.join(OsStr::from_bytes(STORE_PRIVATE_NAME))
}

/// A small tmpfs, mounted for as long as this lives.
struct TinyMount<'a>(&'a Path);

impl<'a> TinyMount<'a> {
    /// Mounts one; `None`, with a message, where the test may not mount.
    fn over(path: &'a Path) -> Option<Self> {
        match mount("tmpfs", path, "tmpfs", MountFlags::empty(), c"size=1m,nr_inodes=64") {
            Ok(()) => Some(Self(path)),
            Err(errno) => {
                #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
                {
                    eprintln!("SKIPPED: needs root to mount a tmpfs: {errno}");
                }
                None
            }
        }
    }
}

impl Drop for TinyMount<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

/// Promise: every target keeps the same promises, on disk, in memory, and where nothing is kept;
/// with `openat2` and without it.
#[test]
fn every_target_conforms() {
    for resolution in BOTH {
        let on_disk = tempfile::tempdir().unwrap();
        check_target(&Target::Posix(open(on_disk.path(), resolution)), true);
        let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
        check_target(&Target::Posix(open(in_memory.path(), resolution)), true);
    }
    check_target(&Target::Null, false);
}

/// Promise: every source keeps the same promises, with holes, links and empty files in it.
#[test]
fn every_source_conforms() {
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        for resolution in BOTH {
            let tree = tempfile::tempdir_in(&place).unwrap();
            let store = open(tree.path(), resolution);
            let dir = store.make_dirs(b"one/two/three").unwrap();
            put(&store, &dir, b"data", &[7; 100_000]);
            put(&store, &dir, b"empty", b"");
            put(&store, store.root(), b"top", b"x");
            make_symlink(&store, &dir, b"link", b"data").unwrap();
            let sparse = store.create_temporary(&dir, b".pst-s", LeftOver::Replace).unwrap();
            sparse.write_at(1 << 20, &[1; 4096]).unwrap();
            sparse.set_len(3 << 20).unwrap();
            sparse.finish(&Attributes::plain(0o644, FileTime::default()), false).unwrap();
            store.publish(&dir, b".pst-s", b"sparse", false).unwrap();
            check_source(&Source::Posix(store));
        }
    }
    let spec = "mem:files=20,size=0-300K,dirs=3".parse().unwrap();
    check_source(&Source::Mem(MemStore::new(spec)));
    check_source(&Source::Mem(MemStore::new("mem:files=3,size=10".parse().unwrap())));
}

/// Promise (D2): holes are found as holes, and a sparse file is known for one.
#[test]
fn d2_holes_are_found() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let file = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
    file.set_len(8 << 20).unwrap();
    file.write_at(4 << 20, &[1; 65_536]).unwrap();
    file.close(false).unwrap();
    let file = store.open_read(store.root(), b".pst-1").unwrap();
    assert!(file.meta().unwrap().is_sparse());
    assert_eq!(file.next_data(0).unwrap(), Some(4 << 20));
    assert_eq!(file.next_hole(4 << 20).unwrap(), (4 << 20) + 65_536);
    assert_eq!(file.next_data((4 << 20) + 65_536).unwrap(), None);
    assert_eq!(file.next_data(8 << 20).unwrap(), None, "nothing is left at the end");
    assert_eq!(file.next_hole(9 << 20).unwrap(), 9 << 20);
}

/// Promise: reads do not change access times where that is allowed, and work where it is not. A
/// denied read is reported as denied.
#[test]
fn reading_as_a_stranger_works_and_denial_is_named() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(tree.path(), 0o755);
    let (open_path, closed_path) = (tree.path().join("open"), tree.path().join("closed"));
    std::fs::write(&open_path, b"x").unwrap();
    std::fs::write(&closed_path, b"x").unwrap();
    set_mode(&open_path, 0o644);
    set_mode(&closed_path, 0o600);
    let store = open(tree.path(), Resolution::Kernel);
    let accessed = || {
        let meta = std::fs::metadata(&open_path).unwrap();
        (meta.atime(), meta.atime_nsec())
    };
    let before = accessed();
    assert_eq!(conformance::read_all(&store.open_read(store.root(), b"open").unwrap()), b"x");
    assert_eq!(accessed(), before);
    if !rustix::process::geteuid().is_root() {
        #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
        {
            eprintln!("SKIPPED: reading as a stranger needs root");
        }
        return;
    }
    let stranger = store.acting_as(&penstock_sys::Account::of_name("nobody").unwrap()).unwrap();
    let read = conformance::read_all(&stranger.open_read(stranger.root(), b"open").unwrap());
    let error = stranger.open_read(stranger.root(), b"closed").unwrap_err();
    assert_eq!(read, b"x");
    assert!(error.is_denied(), "{error}");
}
