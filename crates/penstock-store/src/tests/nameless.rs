//! Files that have no name before they are durable.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const MTIME: FileTime = FileTime { seconds: 7, nanoseconds: 0 };
/// Set in the process that [`g_so_many_files_without_a_name_and_no_more`] starts.
const CHILD: &str = "PENSTOCK_TEST_NAMELESS_CHILD";

fn temporary() -> TemporaryName {
    temporary_number(0)
}

/// A file without a name in `dir` that is to be called `name`; `None`, said aloud, where this
/// kernel does not let this user name it later, or this process may have too few descriptors.
fn make(store: &PosixStore, dir: &Dir, name: &[u8], bytes: &[u8], mode: u32) -> Option<Nameless> {
    penstock_sys::raise_file_limit();
    let Some(file) = store.create_nameless(dir, name, temporary, (Some(mode), None)) else {
        #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
        {
            eprintln!("SKIPPED: needs root before Linux 6.10, and 2,048 descriptors");
        }
        return None;
    };
    assert!(file.is_nameless());
    file.write_at(0, bytes).unwrap();
    let (file, not_set) = file.finish_nameless(&Attributes::plain(mode, MTIME)).unwrap();
    assert_eq!(not_set, NotSet::default());
    Some(file)
}

fn names_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Promises (b), (d), D7: nobody sees anything of a file before it gets its final name, and then it
/// has its bytes, mode and time; one that is given up leaves nothing. On the file systems where
/// files are made in this way.
#[test]
fn b_a_file_appears_with_its_name_and_not_before() {
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        let tree = tempfile::tempdir_in(&place).unwrap();
        let store = open(tree.path(), Resolution::Kernel);
        if !matches!(store.file_system(), FileSystemKind::Ext4 | FileSystemKind::Tmpfs) {
            continue;
        }
        for mode in [0o644, 0o444, 0o000, 0o755, 0o4755, 0o2640] {
            let Some(file) = make(&store, store.root(), b"final", b"bytes", mode) else { return };
            assert_eq!(names_in(tree.path()), [""; 0]);
            store.sync().unwrap();
            store.publish_nameless(store.root(), &file, b"final", temporary, true).unwrap();
            assert_eq!(names_in(tree.path()), ["final"]);
            let path = tree.path().join("final");
            let meta = store.stat(store.root(), b"final").unwrap();
            assert_eq!((meta.mode, meta.mtime, meta.links), (mode, MTIME, 1));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"bytes");
            fs::remove_file(&path).unwrap();
            drop(make(&store, store.root(), b"final", b"bytes", mode));
            assert_eq!(names_in(tree.path()), [""; 0]);
        }
    }
}

/// Promise (b): what stands there is replaced in one step, a link itself and not what it leads to,
/// also where an earlier try left its temporary name; a directory never is, and what then has the
/// temporary name can be removed by it.
#[test]
fn b_what_stands_there_is_replaced_but_no_directory() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let root = store.root();
    fs::write(tree.path().join("file"), b"old").unwrap();
    std::os::unix::fs::symlink("file", tree.path().join("link")).unwrap();
    fs::create_dir(tree.path().join("dir")).unwrap();
    for name in ["file", "link"] {
        let Some(file) = make(&store, root, name.as_bytes(), b"new", 0o644) else { return };
        fs::write(tree.path().join(str::from_utf8(&temporary()).unwrap()), b"left").unwrap();
        store.publish_nameless(root, &file, name.as_bytes(), temporary, true).unwrap();
        let path = tree.path().join(name);
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
    let Some(file) = make(&store, root, b"file", b"newer", 0o644) else { return };
    let refused = store.publish_nameless(root, &file, b"file", temporary, false);
    assert!(matches!(refused, Err(StoreError::Exists { .. })), "{refused:?}");
    assert_eq!(fs::read(tree.path().join("file")).unwrap(), b"new");
    let Some(file) = make(&store, root, b"dir", b"new", 0o644) else { return };
    let error = store.publish_nameless(root, &file, b"dir", temporary, true).unwrap_err();
    assert!(matches!(error, StoreError::WrongKind { .. }), "{error}");
    assert!(tree.path().join("dir").is_dir());
    assert!(store.remove(root, &temporary()).unwrap());
    assert_eq!(names_in(tree.path()), ["dir", "file", "link"]);
    for bad in [&b".."[..], b"x/y", b"", b".", b"a\0b", STORE_PRIVATE_NAME, &temporary_number(1)] {
        let Some(file) = make(&store, root, b"file", b"new", 0o644) else { return };
        assert!(store.publish_nameless(root, &file, bad, temporary, true).is_err());
    }
}

/// B5, C5: a file gets its name in the directory that is at its path now, whatever has become of
/// the one in which it was made; where there is none, that is said as of a lost temporary name, and
/// the file is kept.
#[test]
fn b5_a_directory_may_be_moved_or_gone() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let [path, aside] = ["dir", "aside"].map(|name| tree.path().join(name));
    let dir = store.make_dirs(b"dir").unwrap();
    let Some(file) = make(&store, &dir, b"final", b"bytes", 0o644) else { return };
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    let found = store.open_dir(b"dir").unwrap();
    fs::remove_dir(&path).unwrap();
    let error = store.publish_nameless(&found, &file, b"final", temporary, true).unwrap_err();
    assert!(error.is_vanished(), "{error}");
    fs::create_dir(&path).unwrap();
    let found = store.open_dir(b"dir").unwrap();
    store.publish_nameless(&found, &file, b"final", temporary, true).unwrap();
    assert_eq!(fs::read(path.join("final")).unwrap(), b"bytes");
    assert_eq!(names_in(&aside), [""; 0]);
}

/// B4: a writer that may not act any more makes no such file and names none.
#[test]
fn b4_a_fenced_writer_names_nothing() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let may = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&may);
    let store = open(tree.path(), Resolution::Kernel)
        .guarded(Arc::new(move || asked.load(Ordering::Relaxed)));
    let Some(file) = make(&store, store.root(), b"final", b"bytes", 0o644) else { return };
    may.store(false, Ordering::Relaxed);
    assert!(
        store
            .publish_nameless(store.root(), &file, b"final", temporary, true)
            .unwrap_err()
            .is_fenced()
    );
    assert!(store.create_nameless(store.root(), b"x", temporary, (None, None)).is_none());
    assert_eq!(names_in(tree.path()), [""; 0]);
}

/// Promise (g): there are only so many at a time, whatever the number of files; each gives its
/// place back when it is named or given up. In a process of its own, with few descriptors.
#[test]
fn g_so_many_files_without_a_name_and_no_more() {
    if std::env::var_os(CHILD).is_none() {
        let name = "tests::nameless::g_so_many_files_without_a_name_and_no_more";
        let script = "ulimit -n 3000; exec \"$0\" --exact \"$1\" --nocapture";
        let mut child = Command::new("/bin/sh");
        child.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(name);
        let told = child.env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&told.stdout);
        assert!(told.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    assert_eq!(nameless_max(), 1500);
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let root = store.root();
    let another = || store.create_nameless(root, b"x", temporary, (Some(0o644), None));
    let Some(first) = another() else { return };
    // Each in a directory of its own: what waits for its name is one descriptor, and no more.
    let alone = |at: usize| {
        let dir = store.make_dirs(format!("d{at}").as_bytes()).unwrap();
        let file = store.create_nameless(&dir, b"x", temporary, (Some(0o644), None))?;
        Some(file.finish_nameless(&Attributes::default()).unwrap().0)
    };
    let held: Vec<_> = (0..).map_while(alone).collect();
    assert_eq!(held.len(), 1499);
    assert!(fs::read_dir("/proc/self/fd").unwrap().count() < 1600);
    drop(first);
    let (file, _) = another().unwrap().finish_nameless(&Attributes::default()).unwrap();
    assert!(another().is_none());
    store.publish_nameless(root, &file, b"final", temporary, true).unwrap();
    drop(file);
    assert!(another().is_some());
}

/// D7: a file that inherits the group of its directory does so without a name too, and keeps its
/// mode.
#[test]
fn d7_what_a_directory_gives_is_given_without_a_name_too() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o2755)).unwrap();
    if !rustix::process::geteuid().is_root() {
        #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
        {
            eprintln!("SKIPPED: needs root to give a directory to another group");
        }
        return;
    }
    std::os::unix::fs::chown(tree.path(), None, Some(4321)).unwrap();
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o2755)).unwrap();
    let Some(file) = make(&store, store.root(), b"final", b"x", 0o640) else { return };
    store.publish_nameless(store.root(), &file, b"final", temporary, true).unwrap();
    let meta = fs::metadata(tree.path().join("final")).unwrap();
    assert_eq!((meta.gid(), meta.mode() & 0o7777), (4321, 0o640));
}
