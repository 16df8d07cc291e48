//! A disk that loses accepted data: write-back that fails after write(2) returned (A4).

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// A file system of 32 MiB on a disk of 3 MiB: it takes writes and fails to write them back.
struct LyingDisk<'a> {
    mount_point: PathBuf,
    _backing: TinyMount<'a>,
}

impl<'a> LyingDisk<'a> {
    /// Makes one below `place`; `None`, with a message, where the test may not.
    fn below(place: &'a Path) -> Option<Self> {
        let backing = TinyMount::over(place)?;
        let (image, mount_point) = (place.join("image"), place.join("mounted"));
        std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        std::fs::create_dir(&mount_point).unwrap();
        let run = |command: &mut Command| {
            let output = command.output().map_err(|error| error.to_string())?;
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(message) }
        };
        let made = run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-O", "^has_journal", "-N", "64"])
            .arg(&image))
        .and_then(|()| {
            run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount_point))
        });
        if let Err(reason) = made {
            #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
            {
                eprintln!("SKIPPED: needs mkfs.ext4 and a loop device: {reason}");
            }
            return None;
        }
        Some(Self { mount_point, _backing: backing })
    }
}

impl Drop for LyingDisk<'_> {
    fn drop(&mut self) {
        let _ = unmount(&self.mount_point, UnmountFlags::DETACH);
    }
}

/// Promise (A4): a write-back error reaches the sync of the epoch even if another process's sync
/// saw it first, because our descriptor is older than the write, and whenever write-back began.
/// Needs root and a loop device.
#[test]
fn a4_a_lost_write_fails_the_sync() {
    for way in [Writeback::Early, Writeback::Lazy] {
        let place = tempfile::tempdir().unwrap();
        let Some(disk) = LyingDisk::below(place.path()) else { return };
        let options = PosixOptions { writeback: Some(way), ..PosixOptions::default() };
        let store = PosixStore::open(&disk.mount_point, options).unwrap();
        assert_eq!(store.root().durability(), DurabilityMethod::Syncfs(FileSystemKind::Ext4));
        let file = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
        for at in 0..20 {
            file.write_at(at << 20, &vec![0xa5; 1 << 20]).unwrap();
        }
        // Another handle syncs first and receives the error in our place.
        let bystander = std::fs::File::open(&disk.mount_point).unwrap();
        let _ = rustix::fs::syncfs(&bystander);
        let failed = store.sync().unwrap_err();
        assert!(failed.errno().is_some(), "{failed}");
        assert!(file.close(true).is_err(), "{way:?}: the file's own sync tells it as well");
    }
}

/// Promise (A4): a disk that fails a direct write reports that to its writer at once, or at the
/// sync: no lost byte counts as written. Needs root and a loop device.
#[test]
fn a4_a_lost_direct_write_is_told() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = LyingDisk::below(place.path()) else { return };
    let options = PosixOptions { io: IoMode::Direct, ..PosixOptions::default() };
    let store = PosixStore::open(&disk.mount_point, options).unwrap();
    let mut file = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
    file.make_direct().unwrap();
    assert!(file.is_direct());
    let buffer = penstock_sys::buffer::BufferPool::new(1 << 20, 1).take();
    let written = (0..20u64).try_for_each(|at| file.write_at(at << 20, &buffer));
    let outcome = written.and_then(|()| store.sync());
    assert!(outcome.unwrap_err().errno().is_some());
}

/// Promises (a), A4: of two transfers into one store, the kernel reports a lost write to the one
/// that syncs first, whichever wrote it. The count informs the other, even if its own sync
/// succeeds. Needs root and a loop device.
#[test]
fn a4_anothers_sync_takes_no_error_away() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = LyingDisk::below(place.path()) else { return };
    let store = PosixStore::open(&disk.mount_point, PosixOptions::default()).unwrap();
    let other = store.clone();
    let (before, others) = (store.failed_syncs(), other.failed_syncs());
    let file = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
    for at in 0..20 {
        file.write_at(at << 20, &vec![0xa5; 1 << 20]).unwrap();
    }
    assert!(other.sync_since(others).is_err(), "it is told in our place");
    let told = store.sync_since(before).unwrap_err();
    assert!(told.errno().is_some(), "{told}");
    assert!(file.close(true).is_err(), "the file is indeed lost");
}

/// A4: a store that is opened again keeps its count of failed syncs.
#[test]
fn a4_failed_syncs_are_counted_over_all_handles_of_a_store() {
    let place = tempfile::tempdir().unwrap();
    let failed_syncs = FailedSyncs::default();
    let open = || {
        let failed_syncs = failed_syncs.clone();
        let options = PosixOptions { failed_syncs, ..PosixOptions::default() };
        PosixStore::open(place.path(), options).unwrap()
    };
    let first = open();
    first.sync_since(0).unwrap();
    first.note_failed_sync();
    let second = open();
    assert_eq!(second.failed_syncs(), 1);
    assert!(second.sync_since(0).is_err() && second.sync_since(1).is_ok());
}
