use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use penstock_proto::id::{TransferId, WriterId};
use penstock_store::{Gate, Target};

use super::*;
use crate::stores::pacer::Pacer;
use crate::write::attributes::AttributePolicy;
use crate::write::name_turns::NameTurns;
use crate::write::target_tree::temporary_of;
use penstock_api::preserve::Preserve;
use penstock_proto::manifest::{EntryDraft, PageBuilder};
use penstock_proto::slicing::{PieceRef, Slicing};
use penstock_store::{PosixOptions, PosixStore};
use penstock_sys::FileSystemKind;
use penstock_sys::buffer::BufferPool;

const FILES: u32 = 40;

fn tree(target: Target) -> TargetTree {
    TargetTree {
        target,
        transfer: TransferId([1; 16]),
        writer: WriterId::SOLE,
        root: Vec::new(),
        kind: DigestKind::Blake3,
        sync_files: false,
        sync_nothing: false,
        digest_list: false,
        proves: false,
        names: Arc::new(Pacer::new(0)),
        turns: Arc::default(),
        keeper: Arc::new(AttributePolicy::new(&Preserve::default(), true, false)),
        backup_dir: None,
        began: FileTime::default(),
    }
}

fn page(sizes: &[u64]) -> TaskPage {
    let mut builder = PageBuilder::new(TransferId([1; 16]), 0, Slicing::default());
    for (index, size) in sizes.iter().enumerate() {
        let name = format!("f{index}");
        let draft =
            EntryDraft { name: name.as_bytes(), size: *size, mode: 0o644, ..EntryDraft::default() };
        builder.push(b"", &draft);
    }
    let page = Arc::new(builder.seal());
    TaskPage { page, digest: Digest([7; 32]), left: Arc::default() }
}

fn bytes_of(index: u32, size: u64) -> Vec<u8> {
    (0..size).map(|at| (at as u32 % 251 + index) as u8).collect()
}

/// Returns a frame with whole files of these sizes.
fn frame_of(sizes: &[u64]) -> (Vec<Record>, Vec<u8>) {
    let (mut records, mut payload) = (Vec::new(), Vec::new());
    for (index, size) in (0..).zip(sizes) {
        let bytes = bytes_of(index, *size);
        records.push(Record {
            entry: index,
            status: EntryStatus::Ok,
            errno: 0,
            end: true,
            hole: false,
            offset: 0,
            length: *size,
            digest: DigestKind::Blake3.stride(*size, 0, &bytes),
            runs: Vec::new(),
            seen: None,
        });
        payload.extend(bytes);
    }
    (records, payload)
}

/// Asks for whole files of these sizes.
fn item_of(sizes: &[u64]) -> Item {
    Item {
        piece: PieceRef { page: 0, piece: 0 },
        generation: 0,
        fresh: true,
        first_entry: 0,
        end_entry: sizes.len() as u32,
        offset: 0,
        length: 0,
        bytes: sizes.iter().sum(),
        attempt: 1,
    }
}

/// Returns a writer to a directory, which makes small files some at a time if `in_turns`, as long
/// as `gate` lets it.
fn writer(directory: &std::path::Path, in_turns: bool, gate: Option<Gate>) -> PieceWriter {
    let store = PosixStore::open(directory, PosixOptions::default()).unwrap();
    let target = Target::Posix(gate.map_or(store.clone(), |gate| store.guarded(gate)));
    let turns = if in_turns { NameTurns::everywhere() } else { NameTurns::default() };
    let tree = TargetTree { turns: Arc::new(turns), ..tree(target) };
    PieceWriter::new(tree, Arc::default(), true, &ThreadTime::default())
}

/// Promise (c), D1: files that are hashed together are judged one by one. A file whose bytes do not
/// match its digest is not left at the target, wherever it is among the others. The others are
/// complete, with their own standard digests.
#[test]
fn c_of_files_hashed_together_only_the_damaged_one_fails() {
    let sizes: Vec<u64> =
        (0..FILES).map(|n| [4096, 5000, 1024, 0, 15 * 1024, 20_000][n as usize % 6]).collect();
    let page = page(&sizes);
    let item = item_of(&sizes);
    let (records, sound) = frame_of(&sizes);
    for (damaged, in_turns) in
        [0, 1, 14, 16, 17, 38].into_iter().flat_map(|damaged| [(damaged, false), (damaged, true)])
    {
        let base = tempfile::tempdir().unwrap();
        let mut writer = writer(base.path(), in_turns, None);
        let mut payload = sound.clone();
        let before: u64 = sizes[..damaged as usize].iter().sum();
        payload[(before + sizes[damaged as usize] / 2) as usize] ^= 1;
        writer.frame(&page, &item, &records, &payload);
        let written = writer.finish(&page, &item);
        let failure = EntryFailure { entry: damaged, phase: FailurePhase::Digest, errno: 0 };
        assert_eq!(written.failures, [failure]);
        let digests: Vec<_> =
            written.digests.iter().map(|told| (told.entry, told.digest)).collect();
        let others = records.iter().filter(|record| record.entry != damaged);
        let expected: Vec<_> = others.map(|record| (record.entry, record.digest)).collect();
        assert_eq!(digests, expected);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count() as u32, FILES - 1);
    }
}

/// Promise (c): of files that are made some at a time, each has its own bytes, and none is left
/// that the writer does not report: of a source that sends an entry twice, sends one that was not
/// asked for, or leaves one out.
#[test]
fn c_files_made_ahead_are_those_that_are_reported() {
    let sizes = [4096; 200];
    let page = page(&sizes);
    let (sound, payload) = frame_of(&sizes);
    let item = Item { end_entry: 190, ..item_of(&sizes) };
    let whole: Vec<u32> = (0..190).collect();
    let twice: Vec<u32> = [0, 1, 2, 2, 1].into_iter().chain(3..190).collect();
    let strange: Vec<u32> = (0..200).collect();
    let lacking: Vec<u32> = (0..190).filter(|entry| entry % 7 > 0).collect();
    for sent in [whole, twice, strange, lacking] {
        let base = tempfile::tempdir().unwrap();
        let mut writer = writer(base.path(), true, None);
        let records: Vec<_> = sent.iter().map(|entry| sound[*entry as usize].clone()).collect();
        let bytes = sent.iter().flat_map(|entry| &payload[*entry as usize * 4096..][..4096]);
        writer.frame(&page, &item, &records, &bytes.copied().collect::<Vec<u8>>());
        let written = writer.finish(&page, &item);
        let expected: Vec<u32> = (0..190).filter(|entry| sent.contains(entry)).collect();
        let told: Vec<u32> = written.digests.iter().map(|told| told.entry).collect();
        assert_eq!(told, expected);
        for entry in &expected {
            let name = temporary_of((TransferId([1; 16]), WriterId::SOLE), &page, *entry, 0);
            let name = std::ffi::OsStr::from_bytes(&name);
            assert_eq!(std::fs::read(base.path().join(name)).unwrap(), bytes_of(*entry, 4096));
        }
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), expected.len());
    }
}

/// Promise: the file of an entry that did not come goes when a later one is taken, and what is not
/// taken goes at the end.
#[test]
fn files_made_ahead_go_unless_they_are_taken() {
    let sizes = [4096; 10];
    let (page, item) = (page(&sizes), item_of(&sizes));
    let base = tempfile::tempdir().unwrap();
    let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
    let tree = tree(Target::Posix(store));
    let dir = tree.target.make_dirs(b"").unwrap();
    let count = || std::fs::read_dir(base.path()).unwrap().count();
    let mut ahead = FilesAhead::default();
    ahead.make(&tree, &dir, &page, &item, &[1, 2, 5, 7, 8]);
    assert_eq!(count(), 5);
    assert!(ahead.take(&tree.target, 0).is_none());
    let five = ahead.take(&tree.target, 5).unwrap();
    assert_eq!((five.name(), count()), (&tree.temporary(&page, 5, 0)[..], 3));
    assert!(ahead.take(&tree.target, 6).is_none());
    ahead.discard(&tree.target);
    assert!(ahead.is_empty());
    assert_eq!(count(), 1);
}

/// Promise: a store that stops taking writes in the middle of a frame is what the writer reports,
/// and files that were made and have no bytes go when it takes them again.
#[test]
fn files_made_ahead_do_not_hide_a_store_that_is_gone() {
    let sizes = [4096; 40];
    let page = page(&sizes);
    let item = item_of(&sizes);
    let (records, payload) = frame_of(&sizes);
    let base = tempfile::tempdir().unwrap();
    let count = |path: &std::path::Path| std::fs::read_dir(path).unwrap().count();
    let (path, most) = (base.path().to_owned(), Arc::new(AtomicUsize::new(0)));
    let (last, is_shut) = (Arc::clone(&most), AtomicBool::new(false));
    // It shuts once, where bytes are written to a file that is there, and opens again for the
    // removal of the others.
    let gate: Gate = Arc::new(move || {
        let files = count(&path);
        let is_same = last.fetch_max(files, Ordering::Relaxed) == files;
        !(is_same && files > 1) || is_shut.swap(true, Ordering::Relaxed)
    });
    let mut writer = writer(base.path(), true, Some(gate));
    writer.frame(&page, &item, &records, &payload);
    let written = writer.finish(&page, &item);
    assert!(written.fatal.is_some(), "the gate was not asked");
    assert_eq!(count(base.path()), written.digests.len());
    let (written, most) = (written.digests.len(), most.load(Ordering::Relaxed));
    assert!(written < most, "{written} of {most} files are written: none was made ahead");
}

/// B1, B5: the first peer makes a large file, and the others write to the same inode, even if they
/// look for it before it exists. A file that a peer writes alone has a name of its own.
#[test]
fn b1_b5_a_large_file_is_one_inode_and_a_pack_is_its_writers() {
    let base = tempfile::tempdir().unwrap();
    let of = |writer| {
        let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
        TargetTree { writer: WriterId(writer), ..tree(Target::Posix(store)) }
    };
    let (one, two) = (of(1), of(2));
    let size = 40 << 20;
    let page = page(&[size, 10]);
    let item = |piece: u32| Item {
        piece: PieceRef { page: 0, piece },
        generation: 0,
        fresh: piece == 0,
        first_entry: 0,
        end_entry: 1,
        offset: u64::from(piece) << 24,
        length: 16 << 20,
        bytes: 16 << 20,
        attempt: 1,
    };
    let (mine, its) = (LargeFiles::default(), LargeFiles::default());
    let inode = |file: &penstock_store::WriteFile| file.meta().unwrap().unwrap().inode;
    let found = std::thread::scope(|scope| {
        let looks = scope.spawn(|| its.get(&two, &page, &item(1)).unwrap());
        mine.begin(0, 0, 0);
        let made = mine.get(&one, &page, &item(0)).unwrap();
        let found = looks.join().unwrap();
        assert_eq!(inode(&made), inode(&found));
        assert_eq!(made.meta().unwrap().unwrap().size, size);
        found
    });
    // As after a restart of the controller: another peer is told that the file is new.
    found.write_at(0, b"what is there stays").unwrap();
    let again = LargeFiles::default();
    again.begin(0, 0, 0);
    let kept = again.get(&two, &page, &item(0)).unwrap();
    assert_eq!(inode(&kept), inode(&found));
    assert_ne!(one.temporary(&page, 1, 0), two.temporary(&page, 1, 0));
    assert_eq!(one.temporary(&page, 0, 0), two.temporary(&page, 0, 0));
}

/// Promise (f): on ext4 the lanes of a large file do not wait for each other. With the first stride
/// of a request, blocks for all of it are allocated, into which the kernel lets several threads
/// write directly. D2: a file with holes at the source gets no block but for its bytes.
#[test]
fn f_d2_blocks_of_a_large_file_are_allocated_ahead_unless_it_is_sparse() {
    let stride = u64::from(Slicing::default().stride_bytes);
    let length = 8 * stride;
    for sparse in [false, true] {
        let base = tempfile::tempdir().unwrap();
        let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
        if store.file_system() != FileSystemKind::Ext4 {
            #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
            {
                eprintln!("SKIPPED: temporary files are not on ext4");
            }
            return;
        }
        let size = 64 * stride;
        let mut builder = PageBuilder::new(TransferId([1; 16]), 0, Slicing::default());
        let draft = EntryDraft { name: b"f", size, mode: 0o644, sparse, ..EntryDraft::default() };
        builder.push(b"", &draft);
        let page = Arc::new(builder.seal());
        let page = TaskPage { page, digest: Digest([7; 32]), left: Arc::default() };
        let item = Item {
            piece: PieceRef { page: 0, piece: 0 },
            generation: 0,
            fresh: true,
            first_entry: 0,
            end_entry: 1,
            offset: 16 * stride,
            length,
            bytes: length,
            attempt: 1,
        };
        let large = Arc::new(LargeFiles::default());
        large.begin(0, 0, 0);
        let tree = tree(Target::Posix(store));
        let file = large.get(&tree, &page, &item).unwrap();
        assert!(file.is_direct());
        let mut writer = PieceWriter::new(tree, large, true, &ThreadTime::default());
        let bytes = bytes_of(3, stride);
        let record = Record {
            entry: 0,
            status: EntryStatus::Ok,
            errno: 0,
            end: false,
            hole: false,
            offset: item.offset,
            length: stride,
            digest: DigestKind::Blake3.stride(size, item.offset, &bytes),
            runs: Vec::new(),
            seen: None,
        };
        writer.frame(&page, &item, &[record], &bytes);
        let path = base.path().join(std::ffi::OsStr::from_bytes(file.name()));
        File::open(&path).unwrap().sync_all().unwrap();
        let allocated = std::fs::metadata(&path).unwrap().blocks() * 512;
        let expected = if sparse { stride } else { length };
        assert!((expected..expected + stride).contains(&allocated), "{sparse}: {allocated}");
    }
}

/// Promise: on ext4 a file of a mebibyte or more is written past the page cache, and its last
/// partial block through it. A smaller one is in the cache.
#[test]
fn files_of_a_mebibyte_pass_the_page_cache_by() {
    let stride = u64::from(Slicing::default().stride_bytes);
    let sizes = [3 * stride + 17, stride + 17];
    let base = tempfile::tempdir().unwrap();
    let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
    store.open_or_init_identity().unwrap();
    if !store.writes_directly() {
        #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
        {
            eprintln!("SKIPPED: temporary files are not on an ext4 that is written directly");
        }
        return;
    }
    let (page, item) = (page(&sizes), item_of(&sizes));
    let mut writer = writer(base.path(), false, None);
    let mut buffer = BufferPool::new(stride as usize, 1).take();
    for (entry, size) in (0..).zip(sizes) {
        for offset in (0..size).step_by(stride as usize) {
            let length = stride.min(size - offset);
            let bytes = &mut buffer[..length as usize];
            bytes.fill(entry as u8 + 1);
            let (end, hole, seen) = (offset + length == size, false, None);
            let digest = DigestKind::Blake3.stride(size, offset, bytes);
            let (status, errno, runs) = (EntryStatus::Ok, 0, Vec::new());
            let record =
                Record { entry, status, errno, end, hole, offset, length, digest, runs, seen };
            writer.frame(&page, &item, &[record], bytes);
        }
    }
    let written = writer.finish(&page, &item);
    assert_eq!((written.files, &written.failures[..]), (2, &[][..]));
    for entry in std::fs::read_dir(base.path()).unwrap() {
        let file = File::open(entry.unwrap().path()).unwrap();
        if file.metadata().unwrap().is_dir() {
            continue;
        }
        let is_large = file.metadata().unwrap().len() == sizes[0];
        let mut cached = penstock_sys::cached_pages(&file).unwrap();
        assert_eq!(cached.pop(), Some(true), "the last partial block");
        assert!(cached.iter().all(|is_cached| *is_cached != is_large), "{is_large}: {cached:?}");
        let content = std::io::read_to_string(&file).unwrap();
        let (byte, size) = if is_large { (1, sizes[0]) } else { (2, sizes[1]) };
        assert!(content.bytes().all(|is| is == byte) && content.len() as u64 == size);
    }
}

/// Promise (f), B1: late answers to an abandoned attempt, whose temporary file is gone, delay no
/// lane. Lanes wait only for files that another peer may be about to make.
#[test]
fn f_a_file_that_is_given_up_is_looked_for_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let store = PosixStore::open(directory.path(), PosixOptions::default()).unwrap();
    let tree = TargetTree { writer: WriterId(7), ..tree(Target::Posix(store)) };
    let page = page(&[1 << 30]);
    let item = Item {
        piece: PieceRef { page: 0, piece: 3 },
        generation: 2,
        fresh: false,
        first_entry: 0,
        end_entry: 1,
        offset: 4 << 20,
        length: 1 << 20,
        bytes: 1 << 20,
        attempt: 1,
    };
    let large = LargeFiles::default();
    large.give_up(0, 0, 2);
    let began = std::time::Instant::now();
    for _ in 0..20 {
        let error = large.get(&tree, &page, &item).map(drop).unwrap_err();
        assert!(error.is_vanished(), "{error}");
    }
    // A file that may still be made is looked for some 3 s each time.
    assert!(began.elapsed().as_secs_f64() < 30.0, "{:?}", began.elapsed());
}
