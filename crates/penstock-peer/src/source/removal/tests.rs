use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_api::preserve::Preserve;
use penstock_api::scan::{PageReply, ScanRequest, SourcePeer as _};
use penstock_api::select::Selection;
use penstock_api::transfer::PathText;
use penstock_proto::id::PeerId;
use penstock_proto::manifest::{EntryDraft, Identity, PageBuilder, page_digest};
use penstock_proto::slicing::Slicing;
use penstock_store::IoMode;

use super::*;
use crate::source::SourceService;
use crate::stores::{StoreKind, StoreSpec, Stores};

const TRANSFER: TransferId = TransferId([9; 16]);

/// Returns a peer that keeps its scans in `work` and reaches the store `work/data`.
fn service(work: &Path, peer: &str) -> SourceService {
    let spec = StoreSpec {
        name: "data".parse().unwrap(),
        kind: StoreKind::Posix(work.join("data")),
        read_only: false,
        ephemeral: false,
        allow_privileged: false,
        io: IoMode::Auto,
        mapped: false,
    };
    let peer = PeerId { site: "a".parse().unwrap(), peer: peer.parse().unwrap() };
    SourceService::new(Arc::new(Stores::new([spec])), &work.join("scans"), peer, None)
}

fn page_path(work: &Path) -> PathBuf {
    work.join("scans").join(TRANSFER.to_string()).join("pages/00000000.page")
}

/// Lists the store, as the first controller does.
fn list(work: &Path) {
    let service = service(work, "first");
    let request = ScanRequest {
        transfer: TRANSFER,
        listing: 0,
        store: "data".parse().unwrap(),
        root: PathText::default(),
        slicing: Slicing::default(),
        files_from: Vec::new(),
        select: Selection::default(),
        metadata_ops_per_s: None,
        preserve: Preserve::default(),
        owner_names: false,
        remove: true,
        account: None,
        user: None,
    };
    service.open_scan(&request).unwrap();
    while !matches!(service.page(TRANSFER, 1, 1_000).unwrap(), PageReply::End(_)) {}
}

/// Adds `by` to the inode numbers of the listed entries, as another mount would number them.
fn renumber(work: &Path, by: u64) {
    let page = Page::decode(&fs::read(page_path(work)).unwrap()).unwrap();
    let mut other = PageBuilder::new(TRANSFER, 0, page.slicing);
    for entry in page.entries() {
        let identity = Identity { inode: entry.identity.inode + by, ..entry.identity };
        let draft = EntryDraft {
            name: page.name(entry),
            kind: entry.kind,
            linked: entry.linked,
            mode: entry.mode,
            size: entry.size,
            mtime: entry.mtime,
            identity,
            ..EntryDraft::default()
        };
        other.push(page.directory(entry), &draft);
    }
    fs::write(page_path(work), other.seal().encode()).unwrap();
}

/// Orders the peer to remove all that was listed.
fn remove(service: &SourceService, work: &Path) -> (u64, Vec<String>) {
    let bytes = fs::read(page_path(work)).unwrap();
    let page = Page::decode(&bytes).unwrap();
    let count = page.entries().len() as u32;
    let digest = page_digest(&bytes).to_hex();
    let order = RemoveOrder { page: 0, digest, entries: vec![(0, count)], below: count };
    let reply = service.remove(TRANSFER, &order).unwrap();
    assert_eq!(reply.next, 0);
    let path = |failure: &RemoveFailure| {
        assert_eq!(failure.errno, 0);
        String::from_utf8(page.path(page.entry(failure.entry).unwrap())).unwrap()
    };
    let mut failures: Vec<_> = reply.failures.iter().map(path).collect();
    failures.sort_unstable();
    (reply.removed, failures)
}

fn files(work: &Path) -> PathBuf {
    let data = work.join("data");
    for at in 0..30 {
        fs::create_dir_all(data.join(format!("d{}", at % 3))).unwrap();
        fs::write(data.join(format!("d{}/f{at}", at % 3)), format!("file {at:02}")).unwrap();
    }
    data
}

/// Puts another file of the same size and time of modification in the place of `path`.
fn replace_alike(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let other = path.with_extension("other");
    let bytes = vec![b'#'; fs::metadata(path).unwrap().len() as usize];
    fs::write(&other, bytes).unwrap();
    fs::File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
    fs::rename(&other, path).unwrap();
}

/// C1, C6: a move continues after a failover to a peer whose mount numbers inodes differently.
/// Unchanged items are removed. Changed items stay, even if their size and time of modification are
/// the same, and also when most items are gone already.
#[test]
fn c1_a_move_goes_on_where_inode_numbers_are_others() {
    let work = tempfile::tempdir().unwrap();
    let data = files(work.path());
    list(work.path());
    renumber(work.path(), 1 << 40);
    replace_alike(&data.join("d0/f3"));
    fs::write(data.join("d1/f4"), "longer than it was").unwrap();
    for gone in (6..30).filter(|at| at % 3 != 2) {
        fs::remove_file(data.join(format!("d{}/f{gone}", gone % 3))).unwrap();
    }
    let (removed, failures) = remove(&service(work.path(), "second"), work.path());
    assert_eq!(failures, ["d0/f3", "d1/f4"]);
    assert_eq!(removed, 28 + 1, "all other files, and a directory that is empty by then");
    assert_eq!(fs::read(data.join("d0/f3")).unwrap(), b"#######");
    assert!(!data.join("d2").exists() && !data.join("d0/f0").exists());
}

/// C6: equal numbering makes inode numbers count: a file in the place of a listed one stays. If the
/// numbering is unknown, every item with another number stays.
#[test]
fn c6_inode_numbers_count_where_nothing_tells_that_they_are_others() {
    let work = tempfile::tempdir().unwrap();
    let data = files(work.path());
    list(work.path());
    for at in 0..30 {
        replace_alike(&data.join(format!("d{}/f{at}", at % 3)));
    }
    let (removed, failures) = remove(&service(work.path(), "second"), work.path());
    assert_eq!((removed, failures.len()), (0, 30));
}

/// C6: an item that an earlier attempt at another mount left under its temporary name gets its own
/// name again: there is no proof that it is the listed item.
#[test]
fn c6_what_was_left_aside_at_another_mount_gets_its_name_back() {
    let work = tempfile::tempdir().unwrap();
    let data = files(work.path());
    list(work.path());
    renumber(work.path(), 1 << 40);
    let bytes = fs::read(page_path(work.path())).unwrap();
    let page = Page::decode(&bytes).unwrap();
    let at = page.entries().iter().position(|entry| page.path(entry) == b"d0/f0").unwrap();
    let entry = &page.entries()[at];
    let aside = interrupted_removal::name_of(TRANSFER, page_digest(&bytes), at as u32, entry);
    let aside = String::from_utf8(aside.to_vec()).unwrap();
    fs::rename(data.join("d0/f0"), data.join("d0").join(&aside)).unwrap();
    let (_, failures) = remove(&service(work.path(), "second"), work.path());
    assert_eq!(failures, ["d0/f0"]);
    assert_eq!(fs::read(data.join("d0/f0")).unwrap(), b"file 00");
    assert!(!data.join("d0").join(&aside).exists());
}
