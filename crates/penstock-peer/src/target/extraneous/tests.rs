use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use penstock_api::problem::{Exit, ProblemCode};
use penstock_api::select::SelectRule;
use penstock_api::transfer::PathText;
use penstock_proto::id::TransferId;
use penstock_proto::manifest::{EntryDraft, PageBuilder};
use penstock_proto::slicing::Slicing;
use penstock_store::{PosixOptions, PosixStore};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::stores::dead_mount::DeadMount;
use penstock_api::select::Selection;

/// Lists the surplus of `root` with so many hashes in memory: path, and whether it is in the way.
fn surplus_of(
    root: &Path,
    entries: &[(String, bool)],
    rules: Vec<SelectRule>,
    hashes_max: u64,
) -> BTreeSet<(Vec<u8>, bool)> {
    let store = PosixStore::open(root, PosixOptions::default()).unwrap();
    let mut builder = PageBuilder::new(TransferId([7; 16]), 0, Slicing::default());
    let dir = EntryDraft { kind: EntryKind::Directory, ..EntryDraft::default() };
    builder.push(b"", &dir);
    for (path, directory) in entries {
        let (parent, leaf) = name::split(path.as_bytes()).unwrap();
        let kind = if *directory { EntryKind::Directory } else { EntryKind::File };
        builder.push(parent, &EntryDraft { name: leaf, kind, ..EntryDraft::default() });
    }
    let page = TaskPage {
        page: Arc::new(builder.seal()),
        digest: Default::default(),
        left: Arc::default(),
    };
    let scratch = tempfile::tempdir().unwrap();
    let list = scratch.path().join("list");
    let query = SurplusQuery {
        choose: &mut |_| Ok(true),
        pages: &mut std::iter::once(Ok(page)),
        entries: entries.len() as u64 + 1,
        scratch: scratch.path(),
        list: &list,
        stop: &AtomicBool::new(false),
    };
    let update = UpdateOptions { delete: true, ..UpdateOptions::default() };
    let select = Selection { rules, ..Selection::default() };
    let (wish, target) =
        (Wish { root: b"", update: &update, select: &select }, Target::Posix(store));
    let mut here = Here::new(&target, wish).unwrap();
    let found = find_with(&mut here, (&update, &Fence::default()), query, hashes_max).unwrap();
    let text = fs::read_to_string(&list).unwrap();
    let lines: Vec<_> = text.lines().map(|line| read_line(line, &list).unwrap()).collect();
    assert_eq!(lines.len() as u64, found);
    let directories = lines.iter().position(Surplus::is_directory).unwrap_or(lines.len());
    assert!(lines[directories..].iter().all(Surplus::is_directory), "files come first");
    let depths: Vec<_> = lines[directories..]
        .iter()
        .map(|line| line.path.0.iter().filter(|byte| **byte == b'/').count())
        .collect();
    assert!(depths.is_sorted_by(|a, b| a >= b), "the deepest come first: {depths:?}");
    lines.into_iter().map(|line| (line.path.0, line.in_the_way)).collect()
}

/// Promise (g), C3: the surplus, and its part that is in the way, is the same with paths in memory
/// and in files, as for millions of them. It equals the difference of the two sets. Paths that the
/// rules exclude are never surplus.
#[test]
// The output of the test has its seed.
#[allow(clippy::print_stdout)]
fn g_surplus_beyond_memory_is_the_same() {
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..5 {
        let root = tempfile::tempdir().unwrap();
        let (mut entries, mut there) = (Vec::new(), BTreeSet::new());
        for at in 0..20 {
            let directory = format!("d{at}");
            let at_target = rng.random_range(0..4);
            // 0: not at the target, 1: a file there, else a directory there.
            let at_source = rng.random_range(0..4);
            match at_source {
                0 => {}
                1 => entries.push((directory.clone(), false)),
                _ => entries.push((directory.clone(), true)),
            }
            match at_target {
                0 => {}
                1 => {
                    fs::write(root.path().join(&directory), "x").unwrap();
                    there.insert((directory.clone(), false));
                }
                _ => {
                    fs::create_dir(root.path().join(&directory)).unwrap();
                    there.insert((directory.clone(), true));
                }
            }
            for file in 0..10 {
                let path = format!("{directory}/f{file}{}", if file == 9 { ".tmp" } else { "" });
                if at_source > 1 && rng.random_bool(0.7) && file != 9 {
                    entries.push((path.clone(), false));
                }
                if at_target > 1 && rng.random_bool(0.7) {
                    fs::write(root.path().join(&path), "x").unwrap();
                    there.insert((path, false));
                }
            }
        }
        let known: BTreeSet<_> = entries.iter().cloned().collect();
        let expected: BTreeSet<_> = there
            .iter()
            .filter(|(path, _)| !path.ends_with(".tmp"))
            .filter(|item| !known.contains(*item))
            .map(|(path, kind)| (path.clone().into_bytes(), known.contains(&(path.clone(), !kind))))
            .collect();
        let rules = vec![SelectRule { include: false, glob: PathText(b"*.tmp".to_vec()) }];
        for hashes_max in [HASHES_MAX, 10] {
            let found = surplus_of(root.path(), &entries, rules.clone(), hashes_max);
            assert_eq!(found, expected, "with {hashes_max} in memory");
        }
    }
}

/// B4: a thread that wakes after the end of its controllership, or of its run, ends wherever it is.
/// No part of the program acts on the paths that it has read or put into files. Little memory is
/// used, as for millions of files.
#[test]
fn b4_looking_ends_when_another_may_lead() {
    let root = tempfile::tempdir().unwrap();
    let mut builder = PageBuilder::new(TransferId([7; 16]), 0, Slicing::default());
    let dir = EntryDraft { kind: EntryKind::Directory, ..EntryDraft::default() };
    builder.push(b"", &dir);
    for at in 0..20 {
        fs::write(root.path().join(format!("surplus{at}")), "x").unwrap();
        let name = format!("file{at}");
        builder.push(b"", &EntryDraft { name: name.as_bytes(), ..EntryDraft::default() });
    }
    let page = Arc::new(builder.seal());
    let page = TaskPage { page, digest: Default::default(), left: Arc::default() };
    let store = PosixStore::open(root.path(), PosixOptions::default()).unwrap();
    let target = Target::Posix(store);
    let (update, select) = (UpdateOptions::default(), Selection::default());
    // Stops when it is asked for a page, or shows something; or its fence falls at some question.
    let look = |stops_at_page: bool, stops_at_item: bool, holds: u64| {
        let (scratch, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let asked = std::sync::atomic::AtomicU64::new(0);
        let fence = Fence::new(7, Arc::new(move || asked.fetch_add(1, Ordering::Relaxed) < holds));
        let query = SurplusQuery {
            choose: &mut |_| {
                stop.fetch_or(stops_at_item, Ordering::AcqRel);
                Ok(true)
            },
            pages: &mut std::iter::once_with(|| {
                stop.fetch_or(stops_at_page, Ordering::AcqRel);
                Ok(page.clone())
            }),
            entries: 21,
            scratch: scratch.path(),
            list: &scratch.path().join("list"),
            stop: &stop,
        };
        let mut here =
            Here::new(&target, Wish { root: b"", update: &update, select: &select }).unwrap();
        let found = find_with(&mut here, (&update, &fence), query, 10);
        (found.map_err(|error| error.code()), scratch.path().join("there-000").exists())
    };
    assert_eq!(look(false, false, u64::MAX).0, Ok(20));
    assert_eq!(look(true, false, u64::MAX), (Err(ProblemCode::Stopped), false));
    assert_eq!(look(false, true, u64::MAX).0, Err(ProblemCode::Stopped));
    let mut holds = 0;
    while let (Err(code), _) = look(false, false, holds) {
        assert_eq!(code, ProblemCode::NotController);
        holds += 7;
    }
    // Each thing that was found, when it was met and when it was looked up; each pair of files.
    assert!(holds >= 2 * 20 + PARTS as u64, "asked {holds} times");
}

/// Lists the root, as for a deletion, while a directory within it does not answer.
fn list_dead(base: &Path, known: bool) -> Option<Problem> {
    let target = Target::Posix(PosixStore::open(base, PosixOptions::default()).unwrap());
    if known {
        target.open_or_init_identity().unwrap();
    }
    let _dead = DeadMount::at(&base.join("d"))?;
    let (update, select) = (UpdateOptions::default(), Selection::default());
    let mut here =
        Here::new(&target, Wish { root: b"", update: &update, select: &select }).unwrap();
    let directories = vec![PathText(b"d".to_vec())];
    Some(here.list(directories, &mut |_| Ok(())).unwrap_err())
}

/// A5, C3: a target store that disappears during the search for surplus does not fail the deletion,
/// as a single directory would that cannot be listed: the search is repeated.
#[test]
fn a5_a_store_that_is_gone_refuses_no_deletion() {
    let base = tempfile::tempdir().unwrap();
    let Some(gone) = list_dead(base.path(), false) else { return };
    assert_eq!((gone.exit, &gone.code), (Exit::Temporary, &ProblemCode::StoreOffline));
    let refused = list_dead(base.path(), true).unwrap();
    assert_eq!((refused.exit, &refused.code), (Exit::Refused, &ProblemCode::DeleteRefused));
}
