//! Is it still the same store? (A5, C3)

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use penstock_proto::id::{TransferId, WriterId};

use super::*;

const TRANSFER: (TransferId, WriterId) = (TransferId([0xab; 16]), WriterId::SOLE);

/// Promise (A5): a store without its identity, with a damaged one or with another is offline, and
/// no check ever makes a new one.
#[test]
fn a5_a_store_without_its_identity_is_offline() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    let expected = StoreIdentity { id: [1; 16], created_seconds: 0 };
    let missing = store.check_identity(&expected);
    assert!(matches!(missing, Err(StoreOffline::IdentityMissing { .. })), "{missing:?}");
    assert!(!private(tree.path()).exists(), "a check must not make anything");
    let refused = store.write_marker(TRANSFER, 1).unwrap_err();
    assert!(refused.is_offline(), "{refused}");
    assert!(!private(tree.path()).exists());
    let identity = store.open_or_init_identity().unwrap();
    assert_eq!(store.check_identity(&identity), Ok(()));
    let other = store.check_identity(&expected);
    assert!(matches!(other, Err(StoreOffline::OtherStore { .. })), "{other:?}");
    let file = private(tree.path()).join("store");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("created ", "created 1")).unwrap();
    let damaged = store.check_identity(&identity);
    assert!(matches!(damaged, Err(StoreOffline::IdentityDamaged { .. })), "{damaged:?}");
    assert!(store.open_or_init_identity().unwrap_err().is_offline(), "never overwritten");
    fs::remove_file(file).unwrap();
    let missing = store.check_identity(&identity);
    assert!(matches!(missing, Err(StoreOffline::IdentityMissing { .. })), "{missing:?}");
}

/// Promise (A5): a store that is not mounted yet, or no longer, is offline: nothing is written into
/// the empty mount point. Needs root.
#[test]
fn a5_an_unmounted_store_is_offline() {
    let place = tempfile::tempdir().unwrap();
    let Some(mounted) = TinyMount::over(place.path()) else { return };
    let store = open(place.path(), Resolution::Kernel);
    let identity = store.open_or_init_identity().unwrap();
    let fingerprint = store.fingerprint().unwrap();
    assert_eq!(store.check_identity(&identity), Ok(()));
    assert_eq!(store.check_fingerprint(&fingerprint), Ok(()));
    drop(mounted);
    let gone = store.check_identity(&identity);
    assert!(matches!(gone, Err(StoreOffline::OtherMount { .. })), "{gone:?}");
    let gone = store.check_fingerprint(&fingerprint);
    assert!(matches!(gone, Err(StoreOffline::OtherMount { .. })), "{gone:?}");
    // After a reboot the daemon opens the store as it is.
    let restarted = open(place.path(), Resolution::Kernel);
    let missing = restarted.check_identity(&identity);
    assert!(matches!(missing, Err(StoreOffline::IdentityMissing { .. })), "{missing:?}");
    let other = restarted.check_fingerprint(&fingerprint);
    assert!(matches!(other, Err(StoreOffline::OtherMount { .. })), "C3: {other:?}");
    let _other_disk = TinyMount::over(place.path()).unwrap();
    let other = open(place.path(), Resolution::Kernel);
    other.open_or_init_identity().unwrap();
    let other = other.check_identity(&identity);
    assert!(matches!(other, Err(StoreOffline::OtherStore { .. })), "{other:?}");
}

/// Promise (C3): a root that was removed or renamed away is offline, and no file has vanished.
#[test]
fn c3_a_root_that_moved_is_offline() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    fs::create_dir(&root).unwrap();
    let store = open(&root, Resolution::Kernel);
    let fingerprint = store.fingerprint().unwrap();
    assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
    fs::rename(&root, place.path().join("elsewhere")).unwrap();
    let gone = store.check_fingerprint(&fingerprint);
    assert!(matches!(gone, Err(StoreOffline::Unreachable { .. })), "{gone:?}");
    fs::create_dir(&root).unwrap();
    let other = store.check_fingerprint(&fingerprint);
    assert!(matches!(other, Err(StoreOffline::OtherMount { .. })), "{other:?}");
    for bad in ["", "1-2", "1-2-3-4-5", "x-1-2", "1-2-3-", "fffffffff-1-1"] {
        assert!(bad.parse::<StoreFingerprint>().is_err());
    }
}

/// Promise (A5, C3): a root that was removed and made again is another one, even if it has the
/// inode number of the old one. A fingerprint without a birth time is compared by its other parts.
#[test]
fn c3_a_root_that_was_made_anew_is_another() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let open = || {
        fs::create_dir_all(&root).unwrap();
        let options = PosixOptions { ephemeral: true, ..PosixOptions::default() };
        PosixStore::open(&root, options).unwrap()
    };
    let old = open();
    let (then, identity) = (old.fingerprint().unwrap(), old.open_or_init_identity().unwrap());
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    let Some(born) = then.root_birth_ns else {
        eprintln!("NOT JUDGED: the file system has no birth times that stay");
        return;
    };
    let undated = StoreFingerprint { root_birth_ns: None, ..then };
    assert_eq!(old.check_fingerprint(&undated), Ok(()));
    assert_eq!(undated.to_string().parse(), Ok(undated));
    let reborn = StoreFingerprint { root_birth_ns: Some(born + 1), ..then };
    let other = old.check_fingerprint(&reborn);
    assert!(matches!(other, Err(StoreOffline::OtherMount { .. })), "{other:?}");
    drop(old);
    // The kernel stamps births in steps of a timer's tick.
    let mut new = open();
    while new.fingerprint().unwrap().root_birth_ns == Some(born) {
        drop(new);
        fs::remove_dir(&root).unwrap();
        new = open();
    }
    assert!(new.check_fingerprint(&then).is_err());
    assert!(new.check_identity(&identity).is_err());
}

/// Promise (A5): peers that meet at a new store agree on one identity.
#[test]
fn a5_one_identity_wins() {
    let tree = tempfile::tempdir().unwrap();
    let identities: Vec<_> = std::thread::scope(|scope| {
        let open = || open(tree.path(), Resolution::Kernel).open_or_init_identity().unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(identities.iter().all(|identity| *identity == identities[0]));
    let names = fs::read_dir(private(tree.path())).unwrap().count();
    assert_eq!(names, 1, "no drafts are left");
}

/// Promise: a store of one transfer gets no identity. Its marker is one file of this user's own in
/// the root, whose time stays. A directory that has taken the place of the root is another store.
#[test]
fn a_store_of_one_transfer_holds_a_marker_alone() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("root");
    let open = || {
        let options = PosixOptions { ephemeral: true, ..PosixOptions::default() };
        PosixStore::open(&root, options).unwrap()
    };
    fs::create_dir(&root).unwrap();
    fs::write(root.join(".penstock"), "of anybody").unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5);
    fs::File::open(&root).unwrap().set_modified(old).unwrap();
    let store = open();
    let identity = store.open_or_init_identity().unwrap();
    assert_eq!(store.read_marker(TRANSFER).unwrap(), None);
    store.reserve_marker(TRANSFER).unwrap();
    store.write_marker(TRANSFER, 7).unwrap();
    let store = open();
    assert_eq!(store.check_identity(&identity), Ok(()));
    store.reserve_marker(TRANSFER).unwrap();
    assert_eq!(store.read_marker(TRANSFER).unwrap(), Some(7));
    let mut names: Vec<_> = fs::read_dir(&root).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.retain(|name| name != ".penstock");
    let own: Vec<_> = names.iter().filter_map(|name| name::own(name.as_bytes())).collect();
    assert_eq!((names.len(), own.len(), own[0].kind), (1, 1, OwnKind::Marker));
    assert_eq!(own[0].run, RunTag::of(TRANSFER.0));
    assert_eq!(fs::metadata(root.join(&names[0])).unwrap().mode() & 0o777, 0o600);
    store.remove_marker(TRANSFER).unwrap();
    assert_eq!(store.read_marker(TRANSFER).unwrap(), None);
    assert_eq!(fs::metadata(&root).unwrap().modified().unwrap(), old);
    fs::rename(&root, base.path().join("aside")).unwrap();
    fs::create_dir(&root).unwrap();
    assert!(store.check_identity(&identity).is_err());
    assert!(open().check_identity(&identity).is_err());
}

/// Promise (A5): a marker has the last counter, and one torn by a power cut the counter before.
#[test]
fn a5_a_torn_marker_tells_the_counter_before() {
    let tree = tempfile::tempdir().unwrap();
    let store = open(tree.path(), Resolution::Kernel);
    store.open_or_init_identity().unwrap();
    assert_eq!(store.read_marker(TRANSFER).unwrap(), None);
    for counter in [1, 2, 3] {
        store.write_marker(TRANSFER, counter).unwrap();
        assert_eq!(store.read_marker(TRANSFER).unwrap(), Some(counter));
    }
    let path = private(tree.path()).join(format!("marker-{}", TRANSFER.0));
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_at(b"torn", 4096 + 10).unwrap();
    assert_eq!(store.read_marker(TRANSFER).unwrap(), Some(2));
    file.set_len(7).unwrap();
    assert_eq!(store.read_marker(TRANSFER).unwrap(), None);
    store.remove_marker(TRANSFER).unwrap();
    assert!(!path.exists());
}
