//! Large files, with early write-back and without it.

use super::*;

const STRIDE: usize = 512 * 1024;

fn open_with(root: &Path, writeback: Writeback) -> PosixStore {
    let options = PosixOptions { writeback: Some(writeback), ..PosixOptions::default() };
    PosixStore::open(root, options).unwrap()
}

/// Writes a file by three threads at once, with a hole and a short tail, repairs a part of it, and
/// publishes it. The bytes must be the written ones.
fn check_large_file(store: &PosixStore) {
    let root = store.root();
    let size = 75 * STRIDE + 4097;
    let mut bytes: Vec<u8> = (0..size).map(|at| (at / 509) as u8).collect();
    bytes[2 * STRIDE..3 * STRIDE].fill(0);
    let file = store.create_temporary(root, b".pst-1", LeftOver::Replace).unwrap();
    file.set_len(size as u64).unwrap();
    let (file_ref, bytes_ref) = (&file, &bytes);
    std::thread::scope(|scope| {
        for lane in 0..3 {
            scope.spawn(move || {
                for at in (0..size).step_by(STRIDE).skip(lane).step_by(3) {
                    let end = (at + STRIDE).min(size);
                    if at != 2 * STRIDE {
                        file_ref.write_at(at as u64, &bytes_ref[at..end]).unwrap();
                    }
                }
            });
        }
    });
    file.write_at(1000, &bytes[1000..STRIDE + 1000]).unwrap();
    file.finish(&Attributes::plain(0o644, FileTime { seconds: 1, nanoseconds: 0 }), false).unwrap();
    store.sync().unwrap();
    store.publish(root, b".pst-1", b"final", true).unwrap();
    assert!(std::fs::read(store.root_path().join("final")).unwrap() == bytes);
}

/// Promise: whenever bytes start for the disk, the same bytes are there, on a disk and in memory.
#[test]
fn every_way_writes_the_same_bytes() {
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        for way in [Writeback::Early, Writeback::Lazy] {
            let tree = tempfile::tempdir_in(&place).unwrap();
            let store = open_with(tree.path(), way);
            assert_eq!(store.writeback(), way);
            check_large_file(&store);
        }
    }
}

/// Promise: memory is written as ever.
#[test]
fn no_early_writeback_without_a_disk() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    assert_eq!(open(tree.path(), Resolution::Kernel).writeback(), Writeback::Lazy);
}
