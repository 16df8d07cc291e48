use std::io;

use penstock_api::preserve::Preserve;
use penstock_proto::id::TransferId;
use penstock_proto::journal::FailurePhase;
use penstock_proto::manifest::{Amends, EntryDraft, PageBuilder};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::FileTime;
use penstock_store::{PosixOptions, PosixStore};

use super::*;
use crate::stores::dead_mount::{DeadMount, ENOTCONN};

/// Returns a page of a file `d/f` and the link `d/s`; of the version of `d/f` that an earlier page
/// has, if it amends.
fn page(amends: Option<Amends>) -> Page {
    let (id, slicing, round) = (TransferId([1; 16]), Slicing::default(), amends.is_some().into());
    let mut builder = PageBuilder::amending(id, 1, round, slicing);
    let mtime = FileTime { seconds: 2_000_000_000, nanoseconds: 0 };
    let file = EntryDraft { name: b"f", size: 3, mtime, ..EntryDraft::default() };
    if let Some(amends) = amends {
        builder.push_amending(b"d", &file, amends);
        return builder.seal();
    }
    let kind = EntryKind::Symlink;
    builder.push(b"d", &file);
    builder.push(b"d", &EntryDraft { name: b"s", kind, link: b"t", ..EntryDraft::default() });
    builder.seal()
}

fn comparer(target: &Target, if_exists: IfExists) -> Comparer {
    Comparer {
        target: target.clone(),
        root: Vec::new(),
        update: UpdateOptions { if_exists, ..UpdateOptions::default() },
        keeper: Arc::new(AttributePolicy::new(&Preserve::default(), false, false)),
        touches: true,
        same: None,
    }
}

/// Promise (c), A5: an error does not count as a free name. An entry that cannot be examined stays
/// if the user protects existing entries, and the reason is reported. If all may be replaced, the
/// transfer moves the entry as before.
#[test]
fn c_what_cannot_be_looked_at_is_not_replaced() {
    let base = tempfile::tempdir().unwrap();
    let target = Target::Posix(PosixStore::open(base.path(), PosixOptions::default()).unwrap());
    target.open_or_init_identity().unwrap();
    let Some(_dead) = DeadMount::at(&base.path().join("d")) else { return };
    let found = |if_exists| {
        comparer(&target, if_exists).compare(&page(None), &EntrySet::default()).unwrap()
    };
    let refusals: Vec<_> = [0, 1].map(|entry| refused(entry, ENOTCONN as u16)).into();
    assert!(refusals.iter().all(|refusal| refusal.phase == FailurePhase::Exists));
    for if_exists in [IfExists::Skip, IfExists::Newer, IfExists::Fail] {
        assert_eq!(found(if_exists).failed, refusals, "{if_exists:?}");
    }
    assert_eq!(found(IfExists::Replace), Comparison::default());
    let amends = Amends { page: 0, entry: 0, same_bytes: false };
    let newer = comparer(&target, IfExists::Newer).compare_amending(&page(Some(amends))).unwrap();
    assert_eq!(newer.failed, refusals[..1]);
}

/// Promise (c), A5: the same where the store itself does not answer: no item has failed, and the
/// page is compared again.
#[test]
fn a5_a_store_that_is_gone_ends_the_comparison() {
    let base = tempfile::tempdir().unwrap();
    let target = Target::Posix(PosixStore::open(base.path(), PosixOptions::default()).unwrap());
    let Some(_dead) = DeadMount::at(&base.path().join("d")) else { return };
    let compared =
        comparer(&target, IfExists::Skip).compare(&page(None), &EntrySet::default()).unwrap_err();
    assert!(matches!(compared, TaskError::Fault(StoreFault::Failing(_))), "{compared}");
}

/// Promise (c): a directory whose handle its server no longer knows is in an unknown state. It does
/// not count as a missing one, in which every name would be free.
#[test]
fn c_a_stale_directory_is_not_an_absent_one() {
    let of = |errno| {
        let source = io::Error::from_raw_os_error(errno);
        Place::of(Err(StoreError::Io { operation: "open directory", path: "d".into(), source }))
    };
    let (enoent, eio, estale) = (2, 5, 116);
    assert!(matches!(of(enoent), Ok(Place::Absent)));
    assert!(of(eio).is_err() && of(estale).is_err());
}
