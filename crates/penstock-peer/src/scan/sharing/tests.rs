//! Scans that are shared, with peers of this process: slow ones, and such as fail.
#![allow(clippy::print_stdout, reason = "seeds and what was measured, for who reads the output")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use penstock_api::preserve::Preserve;
use penstock_api::problem::ProblemCode;
use penstock_proto::manifest::EntryKind;
use penstock_proto::select::Selector;
use penstock_proto::slicing::Slicing;
use penstock_store::{PosixOptions, PosixStore};

use super::*;
use crate::scan::ScanOptions;
use crate::scan::helpers::Listing;
use crate::stores::access::{Absence, AccessError};
use crate::stores::pacer::Pacer;
use penstock_proto::id::TransferId;

/// A fault of another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Its answers break off after so many parts in all.
    Dies(usize),
    /// The peer falls silent after so many parts in all.
    Hangs(usize),
    /// Its store disappears then.
    Unmounts(usize),
    /// The peer leaves everything to its caller.
    Errs,
    /// Its inode and device numbers are others.
    OtherNumbers,
}

/// A second peer, on threads of this process.
struct Fake {
    source: Source,
    scan: Scan,
    fault: Fault,
    parts: AtomicUsize,
    requests: AtomicUsize,
    bytes: AtomicU64,
}

#[derive(Clone)]
struct Fakes(Arc<BTreeMap<Name, Arc<Fake>>>);

struct FakeListing(Receiver<ListPart>);

impl Helpers for Fakes {
    fn peers(&self, store: &Name) -> Vec<Name> {
        assert_eq!(store.as_str(), "data");
        self.0.keys().cloned().collect()
    }

    fn list(&self, peer: &Name, _: TransferId, work: &ListWork) -> Box<dyn Listing> {
        let fake = Arc::clone(&self.0[peer]);
        // Encoded and decoded, as on the wire.
        let work = ListWork::decode(&work.encode()).unwrap();
        let (parts, listing) = sync_channel(4);
        fake.requests.fetch_add(1, Ordering::Relaxed);
        std::thread::spawn(move || fake.answer(&work, &parts));
        Box::new(FakeListing(listing))
    }
}

impl Fake {
    fn answer(&self, work: &ListWork, parts: &SyncSender<ListPart>) {
        let goes_wrong = |after: usize| self.parts.load(Ordering::Relaxed) >= after;
        let check = || match self.fault {
            Fault::Unmounts(after) if goes_wrong(after) => {
                Err(AccessError::offline(&"data".parse().unwrap(), Absence::IdentityGone))
            }
            _ => Ok(()),
        };
        let mut emit = |mut part: ListPart| {
            match self.fault {
                Fault::Dies(after) if goes_wrong(after) => return false,
                Fault::Hangs(after) if goes_wrong(after) => {
                    // Until no receiver waits for it.
                    while parts.send(ListPart::Alive { looked: 0 }).is_ok() {
                        std::thread::sleep(LOOK);
                    }
                    return false;
                }
                Fault::Errs if matches!(part, ListPart::Found { names: 0, .. }) => {
                    part = ListPart::Left;
                }
                Fault::OtherNumbers => renumber(&mut part),
                _ => {}
            }
            self.parts.fetch_add(1, Ordering::Relaxed);
            let framed = part.encode_framed(Vec::new());
            self.bytes.fetch_add(framed.len() as u64, Ordering::Relaxed);
            parts.send(ListPart::decode(&framed[4..]).unwrap()).is_ok()
        };
        self.scan.list_for(&self.source, &check, work, &mut emit);
    }
}

fn renumber(part: &mut ListPart) {
    match part {
        ListPart::Begun { device } => *device += 7,
        ListPart::Found { entries, .. } => {
            for entry in entries {
                entry.inode ^= 0x5555;
                entry.device += 7;
            }
        }
        _ => {}
    }
}

impl Listing for FakeListing {
    fn next(&mut self, wait: Duration) -> Result<Option<ListPart>, Problem> {
        match self.0.recv_timeout(wait) {
            Ok(part) => Ok(Some(part)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Problem::new(ProblemCode::PeerLost, "the peer is gone"))
            }
        }
    }
}

fn options(preserve: Preserve) -> ScanOptions {
    ScanOptions {
        fence: Default::default(),
        transfer: TransferId([5; 16]),
        root: Vec::new(),
        slicing: Slicing::default(),
        files_from: Vec::new(),
        selector: Selector::default(),
        lookups_per_s: 0,
        preserve,
        owner_names: false,
        workers: 2,
    }
}

fn source_of(root: &Path) -> Source {
    let options = PosixOptions { read_only: true, ..PosixOptions::default() };
    Source::Posix(PosixStore::open(root, options).unwrap())
}

/// A scan of `root` by a host that looks up `rate` names per second, with peers that do as many.
struct World {
    root: PathBuf,
    rate: u64,
    kept: tempfile::TempDir,
    scan: Scan,
    fakes: Fakes,
}

impl World {
    fn new(root: &Path, rate: u64, faults: &[Fault]) -> Self {
        let roots: Vec<_> = faults.iter().map(|_| root).collect();
        Self::over(root, rate, faults, &roots)
    }

    fn over(root: &Path, rate: u64, faults: &[Fault], roots: &[&Path]) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let fake = |(number, (fault, root)): (usize, (&Fault, &&Path))| {
            let mut scan = Scan::of_another(kept.path(), options(Preserve::default()));
            scan.lookups = Pacer::new(rate);
            let fake = Fake {
                source: source_of(root),
                scan,
                fault: *fault,
                parts: AtomicUsize::new(0),
                requests: AtomicUsize::new(0),
                bytes: AtomicU64::new(0),
            };
            (format!("h{}", number + 2).parse().unwrap(), Arc::new(fake))
        };
        let fakes = faults.iter().zip(roots).enumerate().map(fake).collect();
        let fakes = Fakes(Arc::new(fakes));
        let mut scan = Scan::open(kept.path(), options(Preserve::default())).unwrap();
        scan.lookups = Pacer::new(rate);
        scan.share_with(&"data".parse().unwrap(), Arc::new(fakes.clone()));
        Self { root: root.to_owned(), rate, kept, scan, fakes }
    }

    /// Runs the scan, and returns its duration.
    fn run(&self) -> Duration {
        let began = Instant::now();
        self.scan.run(&source_of(&self.root));
        let state = self.scan.lock();
        assert!(state.complete, "{:?}", state.error);
        assert_eq!(state.summary.errors, 0);
        began.elapsed()
    }

    /// Runs the scan on a host that looks up at most `slow` names per second until `is` holds of
    /// every peer. On a busy machine, other peers may start late and still find work.
    fn run_with_all(&self, slow: u64, is: impl Fn(&PeerProgress) -> bool + Sync) -> Duration {
        self.scan.lookups.set_rate(slow);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut state = self.scan.lock();
                let all = |state: &State| {
                    let peers = &state.walk.peers;
                    peers.len() == self.fakes.0.len() && peers.values().all(&is)
                };
                while !state.is_at_end() && !all(&state) {
                    let waited = self.scan.lend.wait_timeout(state, LOOK);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                drop(state);
                self.scan.lookups.set_rate(self.rate);
            });
            self.run()
        })
    }

    fn all_entries(&self) -> u64 {
        self.scan.lock().summary.entries
    }

    /// Returns the number of entries that each other peer has listed.
    fn entries(&self) -> Vec<u64> {
        self.scan.lock().walk.peers.values().map(|peer| peer.entries).collect()
    }

    fn requests(&self) -> Vec<usize> {
        self.fakes.0.values().map(|fake| fake.requests.load(Ordering::Relaxed)).collect()
    }

    /// Asserts that every path is in the pages once, after its directory's own, and nothing else.
    fn assert_whole(&self) {
        let mut listed = BTreeMap::new();
        for number in 0.. {
            let Some(page) = self.scan.read_sealed(number).unwrap() else { break };
            for entry in page.entries() {
                let path = page.path(entry);
                let parent = page.directory(entry).to_vec();
                assert!(path.is_empty() || listed.contains_key(&parent), "before its directory");
                let twice = listed.insert(path, (entry.kind, entry.size));
                assert_eq!(twice, None, "{}", name::escape(&page.path(entry)));
            }
        }
        let mut there = vec![Vec::new()];
        walk(&self.root, b"", &mut there);
        let listed: Vec<_> = listed.into_keys().collect();
        there.sort();
        assert_eq!(listed.len(), there.len());
        assert_eq!(listed, there);
        let done = self.scan.read_done().unwrap().0.len();
        let directories = there.iter().filter(|path| is_dir(&self.root, path)).count();
        assert_eq!(done, directories, "directories that are done");
    }
}

fn is_dir(root: &Path, path: &[u8]) -> bool {
    root.join(String::from_utf8(path.to_vec()).unwrap()).is_dir()
}

fn walk(root: &Path, below: &[u8], found: &mut Vec<Vec<u8>>) {
    let at = root.join(String::from_utf8(below.to_vec()).unwrap());
    for entry in fs::read_dir(at).unwrap() {
        let entry = entry.unwrap();
        let leaf = entry.file_name().into_encoded_bytes();
        let path = name::join(below, &leaf);
        found.push(path.clone());
        if entry.file_type().unwrap().is_dir() {
            walk(root, &path, found);
        }
    }
}

/// Makes `directories` of `files` each, three levels deep, and one of `large` files.
fn make_tree(root: &Path, directories: usize, files: usize, large: usize) {
    for number in 0..directories {
        let dir = root.join(format!("{}/{}/{number}", number % 7, number % 31));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..files {
            fs::write(dir.join(format!("file-{file}")), &b"bytes"[..file % 5]).unwrap();
        }
    }
    let dir = root.join("large");
    fs::create_dir_all(&dir).unwrap();
    for file in 0..large {
        fs::write(dir.join(format!("one-of-many-{file}")), b"").unwrap();
    }
}

fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Promise: every peer that sees the store lists a part, one of two as one of three, of wide trees
/// and of large directories. How much faster that is, is the machine's matter.
#[test]
fn every_peer_lists_a_part() {
    let (wide, large) = (scratch(), scratch());
    make_tree(wide.path(), 400, 20, 0);
    make_tree(large.path(), 0, 0, 10_000);
    for (root, slow) in [(wide, 100), (large, 1_000)] {
        for peers in 2..=3 {
            let world = World::new(root.path(), 4_000, &vec![Fault::None; peers - 1]);
            let took = world.run_with_all(slow, |peer| peer.entries > 500);
            world.assert_whole();
            let (all, others) = (world.all_entries(), world.entries());
            println!("{peers} peers: {took:.2?}, of {all} entries by others {others:?}");
            assert!(others.iter().all(|entries| *entries > 500), "by others {others:?}");
        }
    }
}

/// Promise: the messages of sharing are few in proportion to the listed entries.
#[test]
fn a_request_is_worth_its_round_trip() {
    let root = scratch();
    make_tree(root.path(), 1_000, 40, 40_000);
    let world = World::new(root.path(), 30_000, &[Fault::None, Fault::None]);
    let took = world.run_with_all(1_000, |peer| peer.entries > 1_000);
    world.assert_whole();
    let entries: u64 = world.entries().iter().sum();
    let state = world.scan.lock();
    let requests: usize = world.requests().iter().sum();
    let parts: usize = world.fakes.0.values().map(|fake| fake.parts.load(Ordering::Relaxed)).sum();
    let bytes: u64 = world.fakes.0.values().map(|fake| fake.bytes.load(Ordering::Relaxed)).sum();
    let per = |count: usize| count as f64 * 1e5 / entries as f64;
    println!(
        "{entries} of {} entries by others in {took:.2?}: per 10^5 entries {:.0} requests, \
         {:.0} parts, {:.1} MB",
        state.summary.entries,
        per(requests),
        per(parts),
        bytes as f64 * 0.1 / entries as f64,
    );
    assert!(per(requests) < 1_000.0);
}

/// Promise: a small tree is listed without a request to another peer.
#[test]
fn a_small_tree_is_not_shared() {
    let root = scratch();
    make_tree(root.path(), 20, 5, 100);
    let world = World::new(root.path(), 0, &[Fault::None]);
    world.run();
    world.assert_whole();
    assert_eq!(world.requests(), [0]);
}

/// Promise (e): whatever other peers do in the middle, no entry is listed twice, and no directory
/// is incomplete.
#[test]
fn e_peers_that_fail_lose_nothing_and_double_nothing() {
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let root = scratch();
    make_tree(root.path(), 200, 20, 3_000);
    let after = |at: u32| 3 + (seed >> (8 * at)) as usize % 60;
    let cases = [
        [Fault::Dies(after(0)), Fault::None],
        [Fault::Hangs(after(1)), Fault::None],
        [Fault::Unmounts(after(2)), Fault::Dies(after(3))],
        [Fault::Errs, Fault::None],
    ];
    for faults in cases {
        let world = World::new(root.path(), 6_000, &faults);
        let took = world.run_with_all(100, |peer| peer.requests > 0);
        println!("{faults:?}: {took:.2?}, requests {:?}", world.requests());
        world.assert_whole();
        assert!(world.requests().iter().all(|requests| *requests > 0));
        // An idle peer takes over the units of a hanging one, long before that one is left out.
        let hangs = faults.iter().any(|fault| matches!(fault, Fault::Hangs(_)));
        let state = world.scan.lock();
        let given_up = state.walk.peers.values().any(|peer| peer.not_before.is_some());
        assert!(!(hangs && given_up), "{faults:?}: waited for until it was given up: {took:?}");
    }
}

/// Promise: a peer that is sixty times slower slows only its own share. It holds only units for a
/// moment, and not a third of all, for which every peer would wait.
#[test]
fn one_slow_peer_slows_its_share_only() {
    let root = scratch();
    make_tree(root.path(), 300, 20, 6_000);
    let world = World::new(root.path(), 6_000, &[Fault::None, Fault::None]);
    world.fakes.0.values().next().unwrap().scan.lookups.set_rate(100);
    let took = world.run();
    println!("{took:.2?}, requests {:?}", world.requests());
    world.assert_whole();
    let (all, slow) = (world.all_entries(), world.entries()[0]);
    assert!(slow * 5 < all, "of {all} entries {slow} by the slow one");
}

/// C3: a peer whose store is another one takes no part, and nothing of it gets into a page.
#[test]
fn c3_a_peer_with_another_store_is_left_out() {
    let (root, other) = (scratch(), scratch());
    make_tree(root.path(), 200, 20, 100);
    make_tree(other.path(), 300, 25, 0);
    let empty = scratch();
    let faults = [Fault::None, Fault::None];
    let world = World::over(root.path(), 4_000, &faults, &[other.path(), empty.path()]);
    world.run_with_all(100, |peer| peer.not_before.is_some());
    world.assert_whole();
    let state = world.scan.lock();
    assert_eq!(state.walk.peers.len(), 2);
    assert!(state.walk.peers.values().all(|peer| peer.entries == 0 && peer.not_before.is_some()));
}

/// C1, B6: where another peer sees other inode and device numbers, pages hold none of them, and
/// the names of one file are one group all the same.
#[test]
fn c1_b6_numbers_of_another_peer_are_not_taken_for_our_own() {
    for fault in [Fault::None, Fault::OtherNumbers] {
        let root = scratch();
        make_tree(root.path(), 200, 20, 4_000);
        let (mut group, mut inodes) = (BTreeMap::new(), BTreeMap::new());
        for number in 0..200 {
            let path = format!("{}/{}/{number}", number % 7, number % 31);
            let (from, to) = (root.path().join(&path).join("file-0"), format!("{path}/zz"));
            fs::hard_link(&from, root.path().join(&to)).unwrap();
            fs::hard_link(&from, root.path().join(format!("large/{number}"))).unwrap();
            group.insert(fs::metadata(&from).unwrap().ino(), 3);
        }
        let world = World::new(root.path(), 4_000, &[fault, fault]);
        world.run_with_all(100, |peer| peer.requests > 2);
        let mut without = 0;
        for number in 0.. {
            let Some(page) = world.scan.read_sealed(number).unwrap() else { break };
            for entry in page.entries() {
                let path = root.path().join(String::from_utf8(page.path(entry)).unwrap());
                let inode = fs::metadata(&path).unwrap().ino();
                without += usize::from(entry.identity.inode == 0);
                assert!([0, inode].contains(&entry.identity.inode), "{}", path.display());
                if entry.linked {
                    let first = inodes.insert(inode, entry.kind != EntryKind::HardLink);
                    assert_eq!(first.is_none(), entry.kind != EntryKind::HardLink, "a group split");
                    *group.get_mut(&inode).unwrap() -= 1;
                }
            }
        }
        assert!(group.values().all(|left| *left == 0), "names are missing");
        assert_eq!(without > 0, fault == Fault::OtherNumbers, "{without}");
        assert!(world.requests().iter().all(|requests| *requests > 2));
        drop(world.kept);
    }
}

/// A mount that ends with this.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a file system; `None` where only root may mount.
    fn new(arguments: &[&str], at: &Path) -> Option<Self> {
        let mounted = std::process::Command::new("mount").args(arguments).arg(at).output().unwrap();
        if mounted.status.success() {
            return Some(Self(at.to_owned()));
        }
        println!("SKIPPED: mounting needs root: {}", String::from_utf8_lossy(&mounted.stderr));
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// C3, promise (e): a file system that is mounted below the root on this host, and not at a peer or
/// the other way round, is listed as this host sees it: nothing in it is missed, and so deleted.
#[test]
fn c3_what_is_mounted_within_the_data_set_is_listed_by_this_host() {
    let base = scratch();
    let (root, there) = (base.path().join("here"), base.path().join("there"));
    fs::create_dir_all(&there).unwrap();
    make_tree(&root, 100, 5, 0);
    for number in 0..60 {
        fs::create_dir_all(root.join(format!("group-{number}"))).unwrap();
    }
    // The same file system, without the mounts in it.
    let source = root.to_str().unwrap();
    let Some(_there) = Mounted::new(&["--bind", source], &there) else { return };
    let mut mounts = Vec::new();
    for number in 0..60 {
        // Half of them are mounted here only, the others at the peer only.
        let at = if number % 2 == 0 { &root } else { &there };
        let at = at.join(format!("group-{number}"));
        mounts.push(Mounted::new(&["-t", "tmpfs", "-o", "size=1m", "none"], &at).unwrap());
        for inner in 0..4 {
            fs::create_dir(at.join(inner.to_string())).unwrap();
            fs::write(at.join(format!("{inner}/file-{number}")), b"bytes").unwrap();
        }
    }
    let world = World::over(&root, 200, &[Fault::None], &[&there]);
    world.run_with_all(50, |peer| peer.entries > 0);
    assert!(world.entries()[0] > 0, "the peer has listed nothing");
    world.assert_whole();
}
