use penstock_api::transfer::PathText;
use penstock_proto::digest::Digest;
use penstock_proto::id::TransferId;
use penstock_proto::manifest::{EntryDraft, Identity, PageBuilder};
use penstock_proto::slicing::Slicing;

use super::*;

fn time(seconds: i64) -> FileTime {
    FileTime { seconds, nanoseconds: 1 }
}

/// Returns a page of files `d/NAME` with these sizes and change times.
fn page(files: &[(&str, u64, i64)]) -> Page {
    let mut builder = PageBuilder::new(TransferId([1; 16]), 0, Slicing::default());
    for (name, size, ctime) in files {
        let identity = Identity { inode: *size + 100, ctime: time(*ctime) };
        let (name, size, mtime) = (name.as_bytes(), *size, time(5));
        builder.push(b"d", &EntryDraft { name, size, mtime, identity, ..EntryDraft::default() });
    }
    builder.seal()
}

fn digest(entry: u32, seen: Option<i64>) -> EntryDigest {
    let digest = Digest([entry as u8 + 1; 32]);
    EntryDigest { entry, form: DigestForm::Standard, digest, seen: seen.map(time) }
}

fn written(piece: u32, digests: Vec<EntryDigest>) -> JournalRecord {
    JournalRecord::Written { piece, generation: 0, epoch: 1, digests, failures: Vec::new() }
}

fn durable(pieces: &[u32]) -> JournalRecord {
    JournalRecord::Durable { pieces: pieces.to_vec() }
}

fn spec() -> TaskSpec {
    TaskSpec::of_cleaning(TransferId([1; 16]), "target".parse().unwrap(), PathText::default())
}

fn table(page: &Page, log: &[JournalRecord]) -> Earlier {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let earlier = Earlier::open(Path::new(":memory:"), flags).unwrap();
    earlier.with(|table| table.execute_batch(CREATE)).unwrap();
    earlier.put(page, log).unwrap();
    earlier
}

/// Promise: the digest of a durable file is kept if the source shows the version that was read, and
/// the target the copy of it. These files are moved again: changed ones, those that the target has
/// lost, and written ones that were not durable.
#[test]
fn what_is_durable_and_stands_is_carried_over() {
    let before = page(&[("a", 1, 7), ("b", 2, 7), ("c", 3, 7), ("gone", 4, 7)]);
    let digests = (0..4).map(|entry| digest(entry, (entry == 1).then_some(8))).collect();
    let log = [written(0, digests), durable(&[0])];
    let earlier = table(&before, &log);
    // One more file is first, `b` has the change time under which it was read, `c` another.
    let now = page(&[("0new", 9, 7), ("a", 1, 7), ("b", 2, 8), ("c", 3, 9)]);
    let known = earlier.known(&now).unwrap();
    let stands = [1, 2, 3].into_iter().collect();
    let compared = carried_over(&known, &stands, &now, &spec(), Some(Comparison::default()));
    let expected = vec![
        EntryDigest { entry: 1, ..digest(0, None) },
        EntryDigest { entry: 2, ..digest(1, Some(8)) },
    ];
    let is_of = |index: u32| known[&index].is_of(&now.entries()[index as usize]);
    assert_eq!([1, 2, 3].map(is_of), [true, true, false]);
    assert_eq!(compared.carried[..2], expected);
    let lost =
        carried_over(&known, &EntrySet::default(), &now, &spec(), Some(Comparison::default()));
    assert!(lost.carried.is_empty());
    let early = table(&before, &log[..1]);
    assert!(early.known(&now).unwrap().values().all(|known| !known.done));
}

/// Promise: extents of a large file are taken over under the numbers that they have in the new
/// page, with the attempt that they belong to, for the same version only.
#[test]
fn extents_are_taken_over_under_new_numbers() {
    const LARGE: u64 = 40 << 20;
    let before = page(&[("a", 1, 7), ("large", LARGE, 7)]);
    let pieces = slice_without(&before, &EntrySet::default());
    let (first, finish) = large_files(&pieces)[&1];
    assert!(finish - first > 2);
    let log = [
        JournalRecord::Generation { entry: 1, generation: 2 },
        written(first, vec![digest(1, None)]),
        written(first + 1, vec![digest(1, None)]),
        durable(&[first]),
    ];
    let earlier = table(&before, &log);
    let now = page(&[("0", 1, 7), ("1", 1 << 20, 7), ("large", LARGE, 7)]);
    let found = earlier.extents(&now, &EntrySet::default(), false).unwrap();
    let (start, _) = large_files(&slice_without(&now, &EntrySet::default()))[&2];
    let under = JournalRecord::Incarnation(Incarnation::default());
    let of = EntryDigest { entry: 2, ..digest(1, None) };
    let expected = vec![
        JournalRecord::Generation { entry: 2, generation: 2 },
        under,
        written(start, vec![of]),
        written(start + 1, vec![of]),
        durable(&[start]),
    ];
    assert_eq!(found, expected);
    // An extent that was read under another change time lies in a file of another name.
    let log = [written(first, vec![digest(1, Some(9))]), durable(&[first])];
    let later = page(&[("large", LARGE, 9)]);
    assert_eq!(table(&before, &log).extents(&later, &EntrySet::default(), false).unwrap(), []);
    let changed = page(&[("large", LARGE, 8)]);
    assert_eq!(earlier.extents(&changed, &EntrySet::default(), false).unwrap(), []);
    // A file that was started again has no data of the earlier attempt.
    let again = [&log[..], &[JournalRecord::Generation { entry: 1, generation: 3 }]].concat();
    let earlier = table(&before, &again);
    assert_eq!(earlier.extents(&now, &EntrySet::default(), false).unwrap(), []);
}

/// Promise (e): entries of an earlier attempt do not count as existing entries of the target, so
/// that a wrong target is noticed after an interruption too. Entries from before the transfer
/// count.
#[test]
fn what_was_made_is_told_from_what_stood_there() {
    let pages = page(&[("a", 1, 7), ("b", 2, 7)]);
    let compared = Comparison { existed: [1].into_iter().collect(), ..Comparison::default() };
    let digests = vec![digest(0, None), digest(1, None)];
    let log = [JournalRecord::Compared(compared), written(0, digests), durable(&[0])];
    // A planned entry was not made, and a run without a comparison does not know.
    for log in [&log[..1], &log[1..]] {
        assert!(!table(&pages, log).made(b"d/a").unwrap());
    }
    let earlier = table(&pages, &log);
    assert!(earlier.made(b"d/a").unwrap() && !earlier.made(b"d/b").unwrap());
    assert!(!earlier.made(b"d/other").unwrap());
    let known = earlier.known(&pages).unwrap();
    let all = Comparison { existed: [0, 1].into_iter().collect(), ..Comparison::default() };
    let told = carried_over(&known, &EntrySet::default(), &pages, &spec(), Some(all));
    assert_eq!(told.existed.iter().collect::<Vec<_>>(), [1]);
}

/// Promise (C2): a large file that was read while it was young is asked about again by the next
/// attempt, too, under the change time that was seen.
#[test]
fn c2_what_was_seen_of_a_large_file_is_carried_over() {
    const LARGE: u64 = 40 << 20;
    let before = page(&[("large", LARGE, 7)]);
    let (first, finish) = large_files(&slice_without(&before, &EntrySet::default()))[&0];
    let mut log: Vec<_> = (first..finish).map(|at| written(at, vec![digest(0, Some(8))])).collect();
    log.push(written(finish, vec![digest(0, None)]));
    log.push(durable(&(first..=finish).collect::<Vec<_>>()));
    let now = page(&[("large", LARGE, 8)]);
    let known = table(&before, &log).known(&now).unwrap();
    assert!(known[&0].is_of(&now.entries()[0]));
    let stands = [0].into_iter().collect();
    let compared = carried_over(&known, &stands, &now, &spec(), None);
    assert_eq!(compared.carried, vec![digest(0, Some(8))]);
}

/// Promise: a table that is damaged is dropped, and until that is known it proves nothing; a sound
/// one stays.
#[test]
fn a_damaged_table_proves_nothing() {
    let journal = tempfile::tempdir().unwrap();
    let path = journal.path().join("earlier-3.sqlite");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let names: Vec<String> = (0..3_000).map(|at| format!("file{at}")).collect();
    let files: Vec<_> = names.iter().map(|name| (&**name, 1, 7)).collect();
    let page = page(&files);
    let make = || {
        let _ = fs::remove_file(&path);
        let earlier = Earlier::open(&path, flags).unwrap();
        earlier.with(|table| table.execute_batch(CREATE)).unwrap();
        earlier.put(&page, &[]).unwrap();
    };
    make();
    assert_eq!(drop_damaged_proofs(journal.path()), Vec::<PathBuf>::new());
    let earlier = Earlier::to_read(&path).unwrap().unwrap();
    assert_eq!(earlier.known(&page).unwrap().len(), 3_000);
    let whole = fs::read(&path).unwrap();
    for (from, byte) in [(0, 0xff), (4096, 0xa5), (40_960, 0)] {
        let mut damaged = whole.clone();
        damaged[from..].fill(byte);
        fs::write(&path, damaged).unwrap();
        if let Some(earlier) = Earlier::to_read(&path).unwrap() {
            assert!(earlier.known(&page).unwrap().len() < 3_000, "from {from}");
        }
        assert_eq!(drop_damaged_proofs(journal.path()), std::slice::from_ref(&path), "{from}");
        make();
    }
    fs::write(&path, "").unwrap();
    assert_eq!(drop_damaged_proofs(journal.path()), [path]);
}

/// Measures the cost of a table of a million files in time, memory and disk space: the numbers are
/// in docs/design/0044. Run it alone, with `--ignored --nocapture`, and in release mode.
#[test]
#[ignore = "measures"]
#[expect(clippy::print_stdout, reason = "the numbers are what it is for")]
fn a_table_of_a_million_files_costs() {
    const PAGES: u32 = 1_000;
    const FILES: u32 = 1_000;
    let status = || fs::read_to_string("/proc/self/status").unwrap();
    let peak = || status().lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
    let journal = tempfile::tempdir().unwrap();
    let path = journal.path().join("earlier-1.sqlite");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let earlier = Earlier::open(&path, flags).unwrap();
    earlier.with(|table| table.execute_batch(CREATE)).unwrap();
    earlier.with(|table| table.execute_batch("BEGIN")).unwrap();
    let pages = || {
        (0..PAGES).map(|number| {
            let mut builder = PageBuilder::new(TransferId([1; 16]), number, Slicing::default());
            let directory = format!("some/where/d{number}");
            for at in 0..FILES {
                let identity = Identity { inode: u64::from(at), ctime: time(7) };
                let (name, mtime) = (format!("file-{number}-{at}"), time(5));
                let name = name.as_bytes();
                let draft = EntryDraft { name, size: 1, mtime, identity, ..Default::default() };
                builder.push(directory.as_bytes(), &draft);
            }
            builder.seal()
        })
    };
    println!("before: {}", peak());
    let begun = std::time::Instant::now();
    for page in pages() {
        let pieces = slice_without(&page, &EntrySet::default()).len() as u32;
        let mut log = vec![written(
            0,
            (0..FILES).map(|at| EntryDigest { entry: at, ..digest(0, None) }).collect(),
        )];
        log.push(durable(&(0..pieces).collect::<Vec<_>>()));
        earlier.put(&page, &log).unwrap();
    }
    earlier.with(|table| table.execute_batch("COMMIT")).unwrap();
    drop(earlier);
    let bytes = fs::metadata(&path).unwrap().len();
    println!("built in {:?}, {bytes} bytes, {}", begun.elapsed(), peak());
    let begun = std::time::Instant::now();
    assert_eq!(drop_damaged_proofs(journal.path()), Vec::<PathBuf>::new());
    println!("checked in {:?}, {}", begun.elapsed(), peak());
    let begun = std::time::Instant::now();
    let earlier = Earlier::to_read(&path).unwrap().unwrap();
    let known: usize = pages().map(|page| earlier.known(&page).unwrap().len()).sum();
    assert_eq!(known as u32, PAGES * FILES);
    println!("looked up in {:?}, {}", begun.elapsed(), peak());
}
