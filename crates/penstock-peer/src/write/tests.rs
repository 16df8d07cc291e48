use penstock_proto::id::{TransferId, WriterId};
use penstock_store::Target;

use super::*;
use crate::stores::pacer::Pacer;
use crate::write::attributes::AttributePolicy;
use penstock_api::preserve::Preserve;
use penstock_proto::manifest::{EntryDraft, PageBuilder};
use penstock_proto::slicing::{PieceRef, Slicing};
use penstock_store::{PosixOptions, PosixStore};

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
    for damaged in [0, 1, 14, 16, 17, 38] {
        let base = tempfile::tempdir().unwrap();
        let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
        let mut writer = PieceWriter::new(
            tree(Target::Posix(store)),
            Arc::default(),
            true,
            &ThreadTime::default(),
        );
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
