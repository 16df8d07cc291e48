//! Large files past the page cache, and the fallback where that is impossible.

use std::os::unix::fs::MetadataExt as _;

use penstock_sys::buffer::BufferPool;
use penstock_sys::cached_pages;

use super::*;
use crate::posix::write::direct::DirectFile;

const STRIDE: usize = 512 * 1024;

fn open_with(root: &Path, io: IoMode) -> PosixStore {
    PosixStore::open(root, PosixOptions { io, ..PosixOptions::default() }).unwrap()
}

/// Returns whether the disk of temporary files supports direct writes; prints a line if not.
fn has_direct_disk() -> bool {
    let place = tempfile::tempdir().unwrap();
    let kind = open_with(place.path(), IoMode::Buffered).file_system();
    let has = matches!(kind, FileSystemKind::Ext4 | FileSystemKind::Xfs);
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    if !has {
        eprintln!("SKIPPED: needs temporary files on ext4 or XFS, found {kind}");
    }
    has
}

/// Mounts a file system that does not know direct I/O; `None`, with a message, where the test may
/// not mount.
fn ramfs_over(path: &Path) -> Option<TinyMount<'_>> {
    match mount("ramfs", path, "ramfs", MountFlags::empty(), None) {
        Ok(()) => Some(TinyMount(path)),
        Err(errno) => {
            #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
            {
                eprintln!("SKIPPED: needs root to mount a ramfs: {errno}");
            }
            None
        }
    }
}

fn begin(store: &PosixStore, size: usize) -> WriteFile {
    let mut file = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
    file.set_len(size as u64).unwrap();
    file.make_direct().unwrap();
    file
}

fn publish(store: &PosixStore, file: WriteFile) -> Vec<u8> {
    file.finish(&Attributes::plain(0o644, FileTime { seconds: 1, nanoseconds: 0 }), false).unwrap();
    store.sync().unwrap();
    store.publish(store.root(), b".pst-1", b"final", true).unwrap();
    std::fs::read(store.root_path().join("final")).unwrap()
}

/// Writes a file by three threads at once, out of aligned buffers. The file has a hole, parts of
/// strides, runs that are not aligned, a short tail, and a stride that is written twice.
fn check_large_file(store: &PosixStore) -> bool {
    let size = 20 * STRIDE + 3 * 4096 + 17;
    let mut bytes: Vec<u8> = (0..size).map(|at| (at / 509) as u8).collect();
    bytes[2 * STRIDE..3 * STRIDE].fill(0);
    let file = begin(store, size);
    let (file_ref, bytes_ref) = (&file, &bytes);
    let pool = BufferPool::new(STRIDE, 3);
    let write = |from: usize, to: usize| {
        let mut buffer = pool.take();
        buffer[..to - from].copy_from_slice(&bytes_ref[from..to]);
        file_ref.write_at(from as u64, &buffer[..to - from]).unwrap();
    };
    let write = &write;
    std::thread::scope(|scope| {
        for lane in 0..3 {
            scope.spawn(move || {
                for at in (0..size).step_by(STRIDE).skip(lane).step_by(3) {
                    if at != 2 * STRIDE {
                        write(at, (at + STRIDE).min(size));
                    }
                }
            });
        }
    });
    write(5 * STRIDE, 5 * STRIDE + 8192);
    write(5 * STRIDE + 8192, 5 * STRIDE + 10_000);
    write(7 * STRIDE + 100, 7 * STRIDE + 5000);
    write(8 * STRIDE, 9 * STRIDE);
    // Out of memory that is not aligned.
    file.write_at(9 * STRIDE as u64, &[&[0], &bytes[9 * STRIDE..10 * STRIDE]].concat()[1..])
        .unwrap();
    let direct = file.is_direct();
    assert!(publish(store, file) == bytes);
    direct
}

/// Promise: blocks that are allocated ahead keep the size and what was written, and read as zeros.
/// Only direct writes to ext4 want that.
#[test]
fn blocks_are_allocated_ahead() {
    if !has_direct_disk() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let store = open_with(place.path(), IoMode::Direct);
    let (stride, size) = (STRIDE as u64, 4 * STRIDE + 17);
    let file = begin(&store, size);
    assert_eq!(file.wants_allocation(), store.file_system() == FileSystemKind::Ext4);
    let mut buffer = BufferPool::new(STRIDE, 1).take();
    buffer[..STRIDE].fill(7);
    file.write_at(0, &buffer[..STRIDE]).unwrap();
    file.allocate(0, 3 * stride).unwrap();
    let allocated = std::fs::metadata(place.path().join(".pst-1")).unwrap().blocks() * 512;
    assert!(allocated >= 3 * stride, "{allocated}");
    drop(buffer);
    let bytes = publish(&store, file);
    assert_eq!(bytes.len(), size);
    assert!(bytes[..STRIDE].iter().all(|byte| *byte == 7));
    assert!(bytes[STRIDE..].iter().all(|byte| *byte == 0));
    let buffered = open_with(place.path(), IoMode::Buffered);
    assert!(!begin(&buffered, size).wants_allocation());
}

/// Promise: writes past the page cache and through it make the same bytes, on a disk and in memory,
/// for every mode. Blocks that are not whole go through the cache, on the same file (B7).
#[test]
fn b7_every_mode_writes_the_same_bytes() {
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        for io in [IoMode::Auto, IoMode::Buffered, IoMode::Direct] {
            let tree = tempfile::tempdir_in(&place).unwrap();
            let direct = check_large_file(&open_with(tree.path(), io));
            assert!(!direct || io != IoMode::Buffered);
        }
    }
}

/// Promise: memory has no disk for direct writes, and without the option none is tried.
#[test]
fn no_direct_writes_without_a_disk() {
    let tree = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = open_with(tree.path(), IoMode::Auto);
    assert!(!store.writes_directly());
    assert!(!begin(&store, STRIDE).is_direct());
}

/// Promise: direct writes do not fill the page cache; blocks that are not whole are in it. Needs
/// ext4 or XFS below the directory of temporary files.
#[test]
fn direct_writes_pass_the_page_cache_by() {
    if !has_direct_disk() {
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    let store = open_with(tree.path(), IoMode::Direct);
    store.open_or_init_identity().unwrap();
    assert!(store.writes_directly());
    let pool = BufferPool::new(2 * STRIDE, 1);
    let mut buffer = pool.take();
    buffer.fill(7);
    let file = begin(&store, STRIDE + 4100);
    assert!(file.is_direct());
    file.write_at(0, &buffer[..STRIDE + 4100]).unwrap();
    let reader = std::fs::File::open(tree.path().join(".pst-1")).unwrap();
    let mut cached = cached_pages(&reader).unwrap();
    assert_eq!(cached.pop(), Some(true), "the last partial block is in the cache");
    assert!(!cached.contains(&true), "whole blocks are in the cache: {cached:?}");
    assert!(publish(&store, file).iter().all(|byte| *byte == 7));
}

/// Promise: a file system that does not know direct writes is written through the page cache, is
/// asked once, and nothing fails. Needs root, to mount a ramfs.
#[test]
fn a_file_system_without_direct_writes_is_written_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let Some(mounted) = ramfs_over(place.path()) else { return };
    let store = open_with(place.path(), IoMode::Direct);
    assert!(store.shared.mounts.root().is_direct(), "it was not asked yet");
    assert!(!check_large_file(&store));
    assert!(!store.shared.mounts.root().is_direct(), "it is not asked again");
    let asked_first = open_with(place.path(), IoMode::Direct);
    asked_first.open_or_init_identity().unwrap();
    assert!(!asked_first.writes_directly());
    drop(mounted);
}

/// Promise: a file system that takes the flag and then refuses a write (EINVAL, as its sectors are
/// larger than reported) is written through the page cache from then on. No byte is missing.
#[test]
fn a_refused_direct_write_is_made_good() {
    if !has_direct_disk() {
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    let store = open_with(tree.path(), IoMode::Direct);
    let mut file = begin(&store, STRIDE);
    let flags = OFlags::WRONLY | OFlags::DIRECT;
    let fd = rustix::fs::open(tree.path().join(".pst-1"), flags, Mode::empty()).unwrap();
    // As if any byte could be written directly, which is not so.
    file.direct = Some(DirectFile::aligned(fd, 1));
    let bytes: Vec<u8> = (0..STRIDE).map(|at| (at / 509) as u8).collect();
    file.write_at(0, &bytes[..1001]).unwrap();
    assert!(!file.is_direct() && !store.writes_directly());
    file.write_at(1001, &bytes[1001..]).unwrap();
    assert!(publish(&store, file) == bytes);
}

/// Promise (B1): a direct descriptor is of the file that the handle is of, never of a later attempt
/// that has its name.
#[test]
fn b1_a_replaced_file_is_not_written() {
    let tree = tempfile::tempdir().unwrap();
    let store = open_with(tree.path(), IoMode::Direct);
    let mut old = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
    let new = store.create_temporary(store.root(), b".pst-1", LeftOver::Replace).unwrap();
    old.make_direct().unwrap();
    assert!(!old.is_direct());
    old.write_at(0, &[1; 8192]).unwrap();
    assert_eq!(new.meta().unwrap().unwrap().size, 0);
    store.remove(store.root(), b".pst-1").unwrap();
    old.make_direct().unwrap();
    assert!(!old.is_direct());
}

/// Makes the file `data` of a store: its bytes are on the disk, and not in the page cache.
fn make_uncached(store: &PosixStore, bytes: &[u8]) {
    let path = store.root_path().join("data");
    std::fs::write(&path, bytes).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    open_data(store).drop_cache();
}

fn open_data(store: &PosixStore) -> ReadFile {
    store.open_read(store.root(), b"data").unwrap()
}

/// Promise: reads past the page cache and through it return the same bytes, on a disk and in
/// memory, for every mode. So do reads that are not aligned, and those beyond the end of the file.
#[test]
fn every_mode_reads_the_same_bytes() {
    let size = 5 * STRIDE + 3 * 4096 + 17;
    let bytes: Vec<u8> = (0..size).map(|at| (at / 509) as u8).collect();
    let mut buffer = BufferPool::new(2 * STRIDE, 1).take();
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        for io in [IoMode::Auto, IoMode::Buffered, IoMode::Direct] {
            let tree = tempfile::tempdir_in(&place).unwrap();
            let store = open_with(tree.path(), io);
            make_uncached(&store, &bytes);
            // Each file is read in order; the second list is not aligned in the file.
            for places in [[0, STRIDE, 5 * STRIDE], [STRIDE, 4096 + 100, 0]] {
                for into in [0, 1] {
                    let file = open_data(&store);
                    file.make_direct(0..size as u64);
                    assert!(!file.is_direct() || io != IoMode::Buffered);
                    for at in places {
                        let memory = &mut buffer[into..into + STRIDE];
                        let read = file.read_into(at as u64, STRIDE, memory).unwrap();
                        assert_eq!(read, STRIDE.min(size - at), "{io:?}, {at}");
                        assert!(memory[..read] == bytes[at..at + read], "{io:?}, {at}");
                    }
                    // Where the memory has no room for a whole block, too.
                    let tail = &mut buffer[..4096 + 17];
                    let read = file.read_into((size - 4096 - 17) as u64, 4096 + 17, tail).unwrap();
                    assert!(read == tail.len() && *tail == bytes[size - 4096 - 17..]);
                    assert_eq!(file.read_into(size as u64, 4096, &mut buffer[..]).unwrap(), 0);
                    file.drop_cache();
                }
            }
        }
    }
}

/// Promise: direct reads do not fill the page cache, not even with the last partial block, and a
/// file that is in the cache is read there. Needs ext4 or XFS below the directory of temporary
/// files.
#[test]
fn direct_reads_pass_the_page_cache_by() {
    if !has_direct_disk() {
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    let store = open_with(tree.path(), IoMode::Auto);
    let size = 4 * STRIDE + 17;
    make_uncached(&store, &vec![7; size]);
    let mut buffer = BufferPool::new(STRIDE, 1).take();
    let file = open_data(&store);
    file.make_direct(0..size as u64);
    assert!(file.is_direct());
    for at in (0..size).step_by(STRIDE) {
        let length = STRIDE.min(size - at);
        assert_eq!(file.read_into(at as u64, length, &mut buffer).unwrap(), length);
        assert!(buffer[..length].iter().all(|byte| *byte == 7));
        assert!(file.is_direct());
    }
    assert_eq!(file.cached_share(), Some(0.0));
    std::fs::read(tree.path().join("data")).unwrap();
    let file = open_data(&store);
    file.make_direct(0..size as u64);
    assert!(!file.is_direct(), "the cache has the file");
}

/// Promise: bytes that another process has just written are read, whether or not the disk has them.
#[test]
fn direct_reads_see_the_newest_bytes() {
    let tree = tempfile::tempdir().unwrap();
    let store = open_with(tree.path(), IoMode::Direct);
    make_uncached(&store, &vec![1; 4 * STRIDE]);
    let mut buffer = BufferPool::new(STRIDE, 1).take();
    let file = open_data(&store);
    file.make_direct(0..4 * STRIDE as u64);
    let writer = std::fs::OpenOptions::new().write(true).open(tree.path().join("data")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&writer, &[2; 4096], 8192).unwrap();
    assert_eq!(file.read_into(0, STRIDE, &mut buffer).unwrap(), STRIDE);
    assert!(buffer[8192..12288].iter().all(|byte| *byte == 2));
    assert!(buffer[..8192].iter().all(|byte| *byte == 1));
}

/// Promise: a file system that does not know direct reads is read through the page cache, is asked
/// once, and nothing fails. Needs root, to mount a ramfs.
#[test]
fn a_file_system_without_direct_reads_is_read_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let Some(mounted) = ramfs_over(place.path()) else { return };
    let store = open_with(place.path(), IoMode::Direct);
    // A hole is in no cache.
    std::fs::File::create(place.path().join("data")).unwrap().set_len(STRIDE as u64).unwrap();
    assert!(store.shared.mounts.root().reads_directly(), "it was not asked yet");
    let file = open_data(&store);
    file.make_direct(0..STRIDE as u64);
    assert!(!file.is_direct() && !store.shared.mounts.root().reads_directly());
    let mut buffer = BufferPool::new(STRIDE, 1).take();
    assert_eq!(file.read_into(0, STRIDE, &mut buffer).unwrap(), STRIDE);
    assert!(buffer[..STRIDE].iter().all(|byte| *byte == 0));
    drop(file);
    drop(mounted);
}
