//! The entries that a scan lists, and those that it lists again.

use std::sync::mpsc;

use penstock_api::scan::ScanFailure;
use penstock_proto::select::{Glob, Rule};
use penstock_store::{PosixOptions, PosixStore};

use super::*;
use penstock_api::preserve::Preserve;
use penstock_api::problem::{Exit, Problem};
use penstock_proto::id::TransferId;
use penstock_proto::select::Selector;
use penstock_proto::slicing::Slicing;
use penstock_store::StoreError;

fn source_of(root: &Path) -> Source {
    let options = PosixOptions { read_only: true, ..PosixOptions::default() };
    Source::Posix(PosixStore::open(root, options).unwrap())
}

fn scan_of(directory: &Path, files_from: &[&str]) -> Scan {
    let options = ScanOptions {
        fence: Default::default(),
        transfer: TransferId([5; 16]),
        root: Vec::new(),
        slicing: Slicing::default(),
        files_from: files_from.iter().map(|path| path.as_bytes().to_vec()).collect(),
        selector: Selector::default(),
        lookups_per_s: 0,
        preserve: Preserve::default(),
        owner_names: false,
        workers: 1,
    };
    Scan::open(directory, options).unwrap()
}

/// Returns all paths of the list of failures.
fn failed_of(scan: &Scan) -> Vec<Vec<u8>> {
    let mut failed = Vec::new();
    for part in 0.. {
        match scan.page(FAILURE_PARTS + part, Duration::ZERO).unwrap() {
            PageReply::Page(text) => {
                let items: Vec<ScanFailure> = serde_json::from_slice(&text).unwrap();
                failed.extend(items.into_iter().map(|item| item.path.0));
            }
            PageReply::End(_) => break,
            PageReply::NotYet => panic!("the scan is not complete"),
        }
    }
    failed
}

/// Promise (c): the list of failures is complete, however long it is, and memory holds one part of
/// it.
#[test]
fn c_the_list_of_failures_is_complete() {
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let wanted: Vec<_> = (0..20_000).map(|number| format!("none-{number:06}")).collect();
    let order: Vec<_> = wanted.iter().map(String::as_str).collect();
    let scan = scan_of(kept.path(), &order);
    scan.run(&source_of(root.path()));
    let failed: Vec<_> = wanted.iter().map(|path| path.as_bytes().to_vec()).collect();
    assert_eq!(failed_of(&scan), failed);
    let summary = scan.lock().summary.clone();
    assert_eq!((summary.errors, summary.errors_unseen), (20_000, 20_000));
    assert!(summary.error_parts > 1, "{summary:?}");
    // A peer that resumes the scan serves the same list.
    assert_eq!(failed_of(&scan_of(kept.path(), &order)), failed);
}

/// Returns all paths of the sealed pages, sorted.
fn paths_of(scan: &Scan) -> Vec<String> {
    let pages = (0..).map_while(|number| scan.read_sealed(number).unwrap());
    let paths = pages.flat_map(|page| {
        let paths = page.entries().iter().map(|entry| name::escape(&page.path(entry)));
        paths.collect::<Vec<_>>()
    });
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    paths
}

/// Promise (c): a directory that is named as a whole is listed as a whole, once, even if parts of
/// it are named before or after it. A named path that does not exist is an error.
#[test]
fn c_files_from_takes_every_path_once_in_any_order() {
    let root = tempfile::tempdir().unwrap();
    for path in ["a/b", "c"] {
        fs::create_dir_all(root.path().join(path)).unwrap();
    }
    for path in ["a/x", "a/y", "a/b/z", "c/u", "c/v"] {
        fs::write(root.path().join(path), b"bytes").unwrap();
    }
    let source = source_of(root.path());
    let expected = ["", "a", "a/b", "a/b/z", "a/x", "a/y", "c", "c/u"];
    for order in [["a/b/z", "a", "a/x", "c/u"], ["c/u", "a/x", "a/b/z", "a"]] {
        let kept = tempfile::tempdir().unwrap();
        let scan = scan_of(kept.path(), &order);
        scan.run(&source);
        assert_eq!(paths_of(&scan), expected, "{order:?}");
        assert_eq!(scan.lock().summary.errors, 0);
    }
    let kept = tempfile::tempdir().unwrap();
    let scan = scan_of(kept.path(), &["", "a/none"]);
    scan.run(&source);
    assert_eq!(paths_of(&scan).len(), 9);
    assert_eq!(failed_of(&scan), [b"a/none"]);
}

/// Promise: entries that a slow scan has found move before the scan ends, even if a reader has
/// waited for their page before it was the next one.
#[test]
fn a_page_that_is_waited_for_is_sealed_early() {
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, scan) = (source_of(root.path()), scan_of(kept.path(), &[]));
    scan.begin(&source).unwrap();
    let (patience, ever) = (Duration::from_secs(60), Duration::from_secs(3600));
    let (told, second) = mpsc::channel();
    let second = std::thread::scope(|scope| {
        scope.spawn(|| told.send(scan.page(1, ever)));
        assert!(matches!(scan.page(0, ever), Ok(PageReply::Page(_))));
        let draft = EntryDraft { name: b"f", ..EntryDraft::default() };
        scan.push(&mut scan.lock(), b"", &draft).unwrap();
        let second = second.recv_timeout(patience);
        scan.stop();
        second
    });
    assert!(matches!(second, Ok(Ok(PageReply::Page(_)))), "it waits in vain: {second:?}");
    assert_eq!(paths_of(&scan), ["", "f"]);
}

/// Promise: a slow scan leaves few small pages behind: the longer it takes, the longer each has to
/// fill, however many are waited for.
#[test]
fn pages_of_a_slow_scan_have_time_to_fill() {
    let begun = Instant::now();
    let early = |last_ms: u64, now_ms: u64| {
        let at = |ms: u64| begun + Duration::from_millis(ms);
        State { seals: Some((begun, at(last_ms))), ..State::default() }.seals_early(at(now_ms))
    };
    assert!(State::default().seals_early(begun));
    assert!(!early(0, 19) && early(0, 20));
    assert!(!early(20_000, 20_399) && early(20_000, 20_400));
    assert!(!early(9_000_000, 9_000_999) && early(9_000_000, 9_001_000));
}

/// Promise (c), A12: a directory that could not be listed whole is not done. After a crash it is
/// listed again and its error is reported again. Otherwise the transfer would end as if the list
/// were complete.
#[test]
fn a12_a_directory_with_an_error_is_listed_again_after_a_crash() {
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(root.path().join("sub")).unwrap();
    let source = source_of(root.path());
    let scan = scan_of(kept.path(), &[]);
    scan.begin(&source).unwrap();
    scan.lock().walk.stack.push(b"sub".to_vec());
    fs::remove_dir(root.path().join("sub")).unwrap();
    scan.work(&source);
    assert_eq!(scan.lock().summary.errors, 1);
    scan.seal(&mut scan.lock()).unwrap();
    let (done, _) = scan.read_done().unwrap();
    assert!(done.contains(&hash(b"")) && !done.contains(&hash(b"sub")));
}

/// Promise (c), C3: an entry that a server calls stale has not vanished. The entry may exist, and
/// the reply is an error of the scan. The transfer does not end, and no deletion runs, as if all
/// entries had been listed.
#[test]
fn c3_what_is_stale_has_not_vanished() {
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, scan) = (source_of(root.path()), scan_of(kept.path(), &[]));
    let dir = source.open_dir(b"").unwrap();
    let (enoent, estale) = (2, 116);
    for (errno, errors) in [(enoent, 0), (estale, 1)] {
        let cause = std::io::Error::from_raw_os_error(errno);
        let error = StoreError::Io { operation: "stat", path: "f".into(), source: cause };
        let found = Found::with(&source, &dir, b"f", Err(error), &scan.wants);
        let mut state = scan.lock();
        assert!(!scan.take(&mut state, b"", b"f", &found, &mut 0).unwrap());
        assert_eq!(state.summary.errors, errors);
    }
}

/// Promise (f): a scan that could not continue is resumed by the next attempt, not kept for ever.
#[test]
fn a12_a_scan_that_broke_off_says_so() {
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = source_of(root.path());
    let scan = scan_of(kept.path(), &[]);
    fs::remove_dir_all(kept.path()).unwrap();
    scan.run(&source);
    assert!(scan.is_broken_off());
}

/// Promise (c), A12: a resumed scan selects the same entries, and its counts of excluded entries
/// are those of an uninterrupted scan.
#[test]
fn a12_what_was_excluded_is_counted_over_a_crash() {
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for path in ["a 1 2.", "cache"] {
        fs::create_dir(root.path().join(path)).unwrap();
    }
    for path in ["a 1 2./x", "a 1 2./y.tmp", "cache/z", "u.tmp", "v"] {
        fs::write(root.path().join(path), b"bytes").unwrap();
    }
    let source = source_of(root.path());
    let rule = |glob: &str| Rule { include: false, glob: Glob::parse(glob.as_bytes()).unwrap() };
    let open = || {
        let mut scan = scan_of(kept.path(), &[]);
        scan.options.selector.rules = vec![rule("*.tmp"), rule("cache/")];
        scan
    };
    let scan = open();
    scan.run(&source);
    let expected = ["", "a 1 2.", "a 1 2./x", "v"];
    assert_eq!(
        (paths_of(&scan).as_slice(), scan.lock().summary.excluded),
        (&expected.map(str::to_owned)[..], 3)
    );
    fs::remove_file(kept.path().join("end")).unwrap();
    let again = open();
    again.run(&source);
    assert_eq!((paths_of(&again).len(), again.lock().summary.excluded), (4, 3));
    // A directory of which the line is torn is listed once more, and its count not doubled.
    fs::remove_file(kept.path().join("end")).unwrap();
    let done = fs::read_to_string(kept.path().join("done")).unwrap();
    fs::write(kept.path().join("done"), done.trim_end()).unwrap();
    let again = open();
    again.run(&source);
    assert_eq!((paths_of(&again).len(), again.lock().summary.excluded), (4, 3));
}

/// C3, E2: a root that cannot be looked at because its disk, its server or this host fails for now
/// ends no transfer: only one that is not there, or not allowed, or no root at all, does.
#[test]
fn c3_a_store_that_fails_for_now_ends_no_transfer() {
    let problem = |errno: i32| {
        let source = io::Error::from_raw_os_error(errno);
        let error = StoreError::Io { operation: "stat", path: "set".into(), source };
        Problem::from(SourceError::root(b"set", &error))
    };
    // EIO, EMFILE, ECONNABORTED, ENOTCONN, ESTALE of errno(3).
    for errno in [5, 24, 103, 107, 116] {
        assert_eq!(problem(errno).exit, Exit::Temporary, "{errno}");
    }
    // ENOENT, EACCES, ENAMETOOLONG.
    let for_good = [2, 13, 36].map(|errno| problem(errno).exit);
    assert_eq!(for_good, [Exit::SourceChanged, Exit::NotAuthorised, Exit::Fatal]);
    let error = StoreError::NotDirectory { path: "set".into() };
    assert_eq!(Problem::from(SourceError::root(b"set", &error)).exit, Exit::Fatal);
}

/// Promise: a limit of tasks ends no scan: where no thread can be started, the one that runs it
/// lists all of it.
#[test]
fn a_scan_is_made_where_no_thread_can_be_started() {
    if !worker_pool::cannot_be_started("scan::tests::a_scan_is_made_where_no_thread_can_be_started")
    {
        return;
    }
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(root.path().join("a")).unwrap();
    fs::write(root.path().join("a/x"), b"bytes").unwrap();
    let scan = scan_of(kept.path(), &[]);
    scan.run(&source_of(root.path()));
    assert_eq!(paths_of(&scan), ["", "a", "a/x"]);
    assert!(matches!(scan.page(9, Duration::ZERO), Ok(PageReply::End(_))));
}

/// Promise: a scan that fails reports that to every reader that waits for its pages, and is
/// resumed.
#[test]
fn a_scan_that_breaks_is_told() {
    let kept = tempfile::tempdir().unwrap();
    let scan = scan_of(kept.path(), &[]);
    let broken = std::thread::scope(|scope| {
        let breaks = || {
            let _running = Running(&scan);
            panic!("as where an assumption is broken");
        };
        scope.spawn(breaks).join()
    });
    assert!(broken.is_err());
    let told = scan.page(0, Duration::from_secs(60));
    assert!(matches!(told, Err(SourceError::ListingPanicked)), "{told:?}");
    assert!(scan.is_broken_off() && scan.is_at_rest());
}
