//! A real distributed file system: several hosts share MooseFS, each by a client of its own over
//! FUSE. The tests use the store layer by itself, as several target peers do. They need root,
//! `/dev/fuse` and Debian's MooseFS, and skip, loudly, where one of them is missing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Barrier, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::units::FileTime;
use penstock_store::{
    Attributes, IoMode, Kind, LeftOver, PosixOptions, PosixStore, StoreError, Target, WriteFile,
};
use penstock_testkit::{MooseFs, Scratch, bytes, seed};

use crate::turn;

const MIB: usize = 1 << 20;
const HOSTS: usize = 3;
/// Longer than clients keep attributes and names (mfsmount(8): 1 s).
const CACHED: Duration = Duration::from_millis(1500);
const MTIME: FileTime = FileTime { seconds: 1_500_000_000, nanoseconds: 0 };

/// Three hosts that share one directory as their store.
struct Shared {
    stores: Vec<PosixStore>,
    moose: MooseFs,
    _root: Scratch,
    _turn: MutexGuard<'static, ()>,
}

impl Shared {
    fn new() -> Option<Self> {
        Self::with(IoMode::Auto)
    }

    fn with(io: IoMode) -> Option<Self> {
        let turn = turn();
        let root = Scratch::in_memory();
        let moose = MooseFs::start(root.path(), 2, HOSTS)?;
        std::fs::create_dir(moose.path(0).join("store")).unwrap();
        let stores = (0..HOSTS).map(|host| open(&moose.path(host).join("store"), io)).collect();
        Some(Self { stores, moose, _root: root, _turn: turn })
    }

    /// All hosts make or open one temporary file, and write their shares of the first half.
    fn write_half(&self, temporary: &[u8], bytes: &[u8]) -> Vec<WriteFile> {
        let make = |store: &PosixStore| {
            store.create_temporary(store.root(), temporary, LeftOver::Keep).unwrap()
        };
        let files: Vec<_> = self.stores.iter().map(make).collect();
        for (host, file) in files.iter().enumerate() {
            write_share(file, &bytes[..bytes.len() / 2], host);
        }
        files
    }

    /// Runs `act` on all hosts at the same moment.
    fn at_once<T: Send>(&self, act: impl Fn(usize, &PosixStore) -> T + Sync) -> Vec<T> {
        let barrier = Barrier::new(self.stores.len());
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .stores
                .iter()
                .enumerate()
                .map(|(host, store)| {
                    let (barrier, act) = (&barrier, &act);
                    scope.spawn(move || {
                        barrier.wait();
                        act(host, store)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

fn open(root: &Path, io: IoMode) -> PosixStore {
    PosixStore::open(root, PosixOptions { io, ..PosixOptions::default() }).unwrap()
}

fn read_all(store: &PosixStore, name: &[u8]) -> Vec<u8> {
    let file = store.open_read(store.root(), name).unwrap();
    let mut bytes = vec![0; file.meta().unwrap().size as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Puts a file there as one writer does.
fn put(store: &PosixStore, temporary: &[u8], name: &[u8], bytes: &[u8]) -> Result<(), StoreError> {
    let dir = store.root();
    let file = store.create_temporary(dir, temporary, LeftOver::Replace)?;
    file.write_at(0, bytes)?;
    file.finish(&Attributes::plain(0o640, MTIME), true)?;
    store.publish(dir, temporary, name, false)?;
    store.sync_dir(dir)
}

/// A3, A5, C1: what the file system is, as each host sees it: durable by fsync of each file; one
/// identity, whoever makes it first, also when all do at once; markers and inode numbers that all
/// see alike, though the device number is another at each.
#[test]
fn a3_a5_c1_hosts_agree_on_what_the_store_is() {
    let Some(shared) = Shared::new() else { return };
    let identities = shared.at_once(|_, store| store.open_or_init_identity().unwrap());
    assert!(identities.iter().all(|identity| *identity == identities[0]), "{identities:?}");
    let transfer = TransferId([7; 16]);
    for (host, store) in shared.stores.iter().enumerate() {
        assert_eq!(store.check_identity(&identities[0]), Ok(()));
        let said: Vec<_> = store.durability().iter().map(ToString::to_string).collect();
        assert_eq!(said, ["fsync on FUSE, as far as the server honours it"]);
        assert!(!store.writes_directly());
        let writer = WriterId(host as u64);
        store.write_marker((transfer, writer), host as u64 + 1).unwrap();
        for other in &shared.stores {
            let seen = other.read_marker((transfer, writer)).unwrap();
            assert_eq!(seen, Some(host as u64 + 1));
        }
    }
    put(&shared.stores[0], b".pst-1", b"file", &[1; 5000]).unwrap();
    let seen = |name: &[u8]| {
        let metas = shared.stores.iter().map(|store| store.stat(store.root(), name).unwrap());
        metas.collect::<Vec<_>>()
    };
    let metas = seen(b"file");
    for meta in &metas {
        assert_eq!((meta.inode, meta.ctime), (metas[0].inode, metas[0].ctime));
        assert_eq!((meta.size, meta.mtime, meta.mode), (5000, MTIME, 0o640));
    }
    let devices: BTreeSet<_> = metas.iter().map(|meta| meta.device).collect();
    assert_eq!(devices.len(), HOSTS, "device numbers are no part of an identity for a reason");
}

/// B1: one file, written by three hosts at once: one makes it, the others open what is there;
/// pieces of 1 MiB in turn, so that every block of the file system has several writers. Each syncs
/// and closes its own, then one finishes. It arrives whole everywhere.
#[test]
fn b1_a_file_that_three_hosts_write_at_once_arrives_whole() {
    let Some(shared) = Shared::new() else { return };
    let bytes = bytes(seed(), 48 * MIB + 12_345);
    let (temporary, name) = (&b".pst-many"[..], &b"many.bin"[..]);
    // Whoever comes first makes it; the names are looked up before, so that "not there" is cached.
    for store in &shared.stores {
        assert!(store.open_temporary(store.root(), temporary).unwrap_err().is_vanished());
    }
    let made = shared.at_once(|host, store| {
        let file = store.create_temporary(store.root(), temporary, LeftOver::Keep).unwrap();
        write_share(&file, &bytes, host);
        let (created, inode) = (file.was_created(), file.meta().unwrap().unwrap().inode);
        file.close(true).unwrap();
        (created, inode)
    });
    assert_eq!(made.iter().filter(|(created, _)| *created).count(), 1, "{made:?}");
    assert!(made.iter().all(|(_, inode)| *inode == made[0].1), "one inode: {made:?}");
    finish_and_check(&shared, temporary, name, &bytes);
    // A late writer finds nothing to write to.
    for store in &shared.stores {
        let late = store.open_temporary(store.root(), temporary).unwrap_err();
        assert!(late.is_vanished(), "{late}");
    }
}

/// Writes every third piece.
fn write_share(file: &WriteFile, bytes: &[u8], host: usize) {
    for (number, piece) in bytes.chunks(MIB).enumerate().skip(host).step_by(HOSTS) {
        file.write_at((number * MIB) as u64, piece).unwrap();
    }
}

/// Another host than the first one finishes; all see the whole file at once.
fn finish_and_check(shared: &Shared, temporary: &[u8], name: &[u8], bytes: &[u8]) {
    let store = &shared.stores[HOSTS - 1];
    let file = store.open_temporary(store.root(), temporary).unwrap();
    assert_eq!(file.meta().unwrap().unwrap().size, bytes.len() as u64);
    file.finish(&Attributes::plain(0o644, MTIME), true).unwrap();
    store.publish(store.root(), temporary, name, false).unwrap();
    store.sync_dir(store.root()).unwrap();
    for (host, store) in shared.stores.iter().enumerate() {
        assert!(read_all(store, name) == bytes, "content at host {host}");
    }
    // Clients answer from what they knew up to a second ago, also when asked past the cache.
    thread::sleep(CACHED);
    for (host, store) in shared.stores.iter().enumerate() {
        let meta = store.stat(store.root(), name).unwrap();
        assert_eq!(meta.mode, 0o644, "at host {host}");
    }
}

/// B1, B5: of several hosts that make one name, only one does; of several that give one final name,
/// only one does; directories that one has made are there for the others at once.
#[test]
fn b1_b5_only_one_host_makes_a_name() {
    let Some(shared) = Shared::new() else { return };
    for round in 0..20 {
        let (temporary, path) = (format!(".pst-{round}"), format!("d{round}/e/f"));
        let made = shared.at_once(|_, store| {
            let dir = store.make_dirs(path.as_bytes()).unwrap();
            let file = store.create_temporary(&dir, temporary.as_bytes(), LeftOver::Keep).unwrap();
            let created = file.was_created();
            file.close(true).unwrap();
            created
        });
        assert_eq!(made.iter().filter(|created| **created).count(), 1, "{made:?}");
        let named = shared.at_once(|host, store| {
            let dir = store.open_dir(path.as_bytes()).unwrap();
            let own = format!(".pst-own-{host}");
            let file = store.create_temporary(&dir, own.as_bytes(), LeftOver::Replace).unwrap();
            file.write_at(0, &[host as u8]).unwrap();
            file.close(true).unwrap();
            store.publish(&dir, own.as_bytes(), b"final", false)
        });
        let winner = named.iter().position(Result::is_ok).unwrap();
        assert_eq!(named.iter().filter(|named| named.is_ok()).count(), 1, "{named:?}");
        for (host, outcome) in named.iter().enumerate().filter(|(host, _)| *host != winner) {
            assert!(matches!(outcome, Err(StoreError::Exists { .. })), "host {host}: {outcome:?}");
        }
        for store in &shared.stores {
            let dir = store.open_dir(path.as_bytes()).unwrap();
            let file = store.open_read(&dir, b"final").unwrap();
            let mut byte = [99];
            assert_eq!(file.read_at(0, &mut byte).unwrap(), 1);
            assert_eq!(usize::from(byte[0]), winner);
        }
    }
}

/// A9, promise (d): a host's client is killed in the middle of a file that three hosts write. It
/// hears of it; what it had not synced is not taken for written; another host writes its share, and
/// the file is whole.
#[test]
fn a9_a_host_may_lose_its_client_in_the_middle_of_a_shared_file() {
    let Some(mut shared) = Shared::new() else { return };
    let bytes = bytes(seed(), 24 * MIB);
    let temporary = &b".pst-lost"[..];
    let files = shared.write_half(temporary, &bytes);
    shared.moose.kill_client(0);
    let mut files = files.into_iter();
    let lost = files.next().unwrap();
    assert!(lost.write_at(0, &bytes[..MIB]).unwrap_err().is_io_failure());
    let error = lost.close(true).unwrap_err();
    assert!(error.is_io_failure(), "{error}");
    let store = &shared.stores[0];
    assert!(store.check_identity(&shared.stores[1].open_or_init_identity().unwrap()).is_err());
    for (host, file) in (1..).zip(files) {
        write_share(&file, &bytes, host);
        if host == 1 {
            // The lost one's share goes to it.
            write_share(&file, &bytes, 0);
        }
        file.close(true).unwrap();
    }
    shared.moose.unmount(0);
    shared.moose.mount(0);
    shared.stores[0] = open(&shared.moose.path(0).join("store"), IoMode::Auto);
    finish_and_check(&shared, temporary, b"lost.bin", &bytes);
}

/// Promise (d): a chunk server is killed in the middle; with two copies of everything the writers
/// go on with the other one, and what was synced is there.
#[test]
fn d_a_chunk_server_may_die_in_the_middle() {
    let Some(mut shared) = Shared::new() else { return };
    let bytes = bytes(seed(), 24 * MIB);
    let temporary = &b".pst-chunk"[..];
    let files = shared.write_half(temporary, &bytes);
    let began = Instant::now();
    shared.moose.kill_chunk_server(0);
    thread::scope(|scope| {
        for (host, file) in files.into_iter().enumerate() {
            let bytes = &bytes;
            scope.spawn(move || {
                write_share(&file, bytes, host);
                file.close(true).unwrap();
            });
        }
    });
    println!("{:.1} s after the loss all was synced", began.elapsed().as_secs_f64());
    finish_and_check(&shared, temporary, b"chunk.bin", &bytes);
}

/// A9: a host that has looked at a file in which another writes afterwards, and has dropped what it
/// read, shows what was written since, at once.
#[test]
fn a9_a_host_that_has_looked_shows_what_was_written_since() {
    let Some(shared) = Shared::new() else { return };
    let bytes = bytes(seed(), 24 * MIB);
    let temporary = &b".pst-looked"[..];
    for (host, file) in shared.write_half(temporary, &bytes).into_iter().enumerate() {
        file.close(true).unwrap_or_else(|error| panic!("host {host}: {error}"));
    }
    let [writer, looker] = [&shared.stores[0], &shared.stores[1]];
    let file = writer.open_temporary(writer.root(), temporary).unwrap();
    file.write_at((bytes.len() - MIB) as u64, &bytes[bytes.len() - MIB..]).unwrap();
    file.close(true).unwrap();
    // As a look at an extent, and whatever the system reads ahead of it: zeros.
    let looked = looker.open_read(looker.root(), temporary).unwrap();
    let mut seen = vec![1; bytes.len()];
    assert_eq!(looked.read_at(0, &mut seen).unwrap(), bytes.len());
    assert!(seen != bytes, "the second half is not there yet");
    looked.drop_cache();
    drop(looked);
    let file = writer.open_temporary(writer.root(), temporary).unwrap();
    file.write_at(0, &bytes).unwrap();
    file.finish(&Attributes::plain(0o644, MTIME), true).unwrap();
    writer.publish(writer.root(), temporary, b"looked.bin", false).unwrap();
    writer.sync_dir(writer.root()).unwrap();
    assert!(read_all(looker, b"looked.bin") == bytes, "former bytes are shown");
}

/// B6, B7, D7: hard and symbolic links, extended attributes and direct writes: what the store layer
/// asks of a file system is done, or refused in a way that it understands and goes on without.
#[test]
fn b6_b7_d7_what_it_does_not_do_is_gone_without() {
    let Some(shared) = Shared::with(IoMode::Direct) else { return };
    let [one, other] = [&shared.stores[0], &shared.stores[1]];
    let bytes = bytes(seed(), 3 * MIB + 77);
    let mut file = one.create_temporary(one.root(), b".pst-d", LeftOver::Replace).unwrap();
    file.make_direct().unwrap();
    for (number, piece) in bytes.chunks(MIB).enumerate() {
        file.write_at((number * MIB) as u64, piece).unwrap();
    }
    println!("direct writes: {}", file.is_direct());
    file.finish(&Attributes::plain(0o644, MTIME), true).unwrap();
    one.publish(one.root(), b".pst-d", b"direct", false).unwrap();
    assert!(read_all(other, b"direct") == bytes);
    let target = Target::Posix(one.clone());
    target.make_hard_link(one.root(), b"direct", one.root(), b"linked").unwrap();
    let (first, second) = (b"direct".as_slice(), b"linked".as_slice());
    let inode = |store: &PosixStore, name: &[u8]| {
        let meta = store.stat(store.root(), name).unwrap();
        (meta.inode, meta.links)
    };
    assert_eq!(inode(other, first), inode(other, second));
    assert_eq!(inode(other, first).1, 2);
    target.make_symlink(one.root(), b"link", b"no/where").unwrap();
    assert_eq!(other.read_link(other.root(), b"link").unwrap(), b"no/where");
    assert_eq!(other.stat(other.root(), b"link").unwrap().kind, Kind::Symlink);
    assert!(target.space().unwrap().free_bytes > 0);
}
