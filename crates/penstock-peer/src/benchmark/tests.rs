use std::path::Path;

use penstock_api::rpc::benchmark::BenchmarkStep;
use penstock_api::task::{MountSeen, TaskSpec};
use penstock_net::SocketOptions;
use penstock_proto::benchmark::BenchmarkOperation::{
    Create, List, Read, Rename, Stat, Unlink, Write,
};
use penstock_proto::benchmark::{BenchmarkOperation, CacheState};
use penstock_store::IoMode;

use super::*;
use crate::stores::{StoreSpec, Stores};

const ID: TransferId = TransferId([7; 16]);

/// A host whose store is a directory on a disk or in memory.
struct Bench {
    host: Arc<BenchmarkHost>,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::with_io(IoMode::default())
    }

    fn with_io(io: IoMode) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("store/scratch")).unwrap();
        Self { host: host_with(directory.path(), io), directory }
    }

    /// Returns the host after a restart of its daemon.
    fn next(&self) -> Arc<BenchmarkHost> {
        host_at(self.directory.path())
    }

    /// Returns the host with other caches of all its files.
    fn with_caches(&self, caches: HostCaches) -> Arc<BenchmarkHost> {
        let mut host = host_at(self.directory.path());
        Arc::get_mut(&mut host).unwrap().caches = caches;
        host
    }

    fn part(&self) -> BenchmarkPart {
        let path = "scratch".to_owned().try_into().unwrap();
        let place = BenchmarkPlace { store: "data".parse().unwrap(), path, account: None };
        let (part, parts, seconds, store_id) = (0, 1, 20, 0);
        let (id, drop_caches, mounts) = (ID, false, Vec::new());
        BenchmarkPart { id, place, part, parts, seconds, store_id, drop_caches, mounts }
    }

    fn step(
        &self,
        operation: BenchmarkOperation,
        (files, size_bytes): (u64, u64),
    ) -> (penstock_api::rpc::benchmark::BenchmarkTimes, Option<CacheState>) {
        let step = step_of(operation, (files, size_bytes), 2);
        let prepared = self.host.handle(BenchmarkOrder::Prepare(ID, step)).unwrap();
        let BenchmarkReply::Prepared { cache, threads, .. } = prepared else {
            panic!("{prepared:?}")
        };
        assert_eq!(threads, 2);
        match self.host.handle(BenchmarkOrder::Run(ID)).unwrap() {
            BenchmarkReply::Ran(times) => (times, cache),
            other => panic!("{other:?}"),
        }
    }

    /// Names in the directory of the store where benchmarks are made.
    fn left(&self) -> usize {
        self.directory.path().join("store/scratch").read_dir().unwrap().count()
    }
}

fn step_of(
    operation: BenchmarkOperation,
    (files, size_bytes): (u64, u64),
    threads: u32,
) -> BenchmarkStep {
    BenchmarkStep { operation, size_bytes, files, threads, of_part: 0, seed: 3 }
}

fn host_at(directory: &Path) -> Arc<BenchmarkHost> {
    host_with(directory, IoMode::default())
}

fn host_with(directory: &Path, io: IoMode) -> Arc<BenchmarkHost> {
    let spec = StoreSpec {
        name: "data".parse().unwrap(),
        kind: StoreKind::Posix(directory.join("store")),
        read_only: false,
        ephemeral: false,
        allow_privileged: false,
        io,
        mapped: false,
    };
    let stores = Arc::new(Stores::new([spec]));
    let target = TargetService::new(stores, None, SocketOptions::default());
    let records = directory.join("records");
    Arc::new(BenchmarkHost::new(Arc::new(target), "h1".parse().unwrap(), records))
}

/// Promise: files of all sizes are written whole, under final names, and read back whole; nothing
/// is left of them, nor of the benchmark's marker and record.
#[test]
fn files_are_written_and_read_and_removed() {
    let bench = Bench::new();
    bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    for (files, size) in [(300, 4096), (3, 40 << 20), (5, 1 << 20), (1, 0)] {
        let (written, _) = bench.step(Write, (files, size));
        assert_eq!((written.files, written.bytes), (files, files * size), "written: {size}");
        assert!(written.durable_s >= written.done_s && written.done_s > 0.0);
        let (read, cache) = bench.step(Read, (files, size));
        assert_eq!((read.files, read.bytes), (files, files * size), "read: {size}");
        assert!(cache.is_some());
    }
    bench.host.handle(BenchmarkOrder::End(ID)).unwrap();
    assert_eq!(bench.left(), 0);
    assert!(bench.host.leftovers.all().is_empty());
    let private = bench.directory.path().join("store/.penstock-store-7q2mv0kd9j");
    let names: Vec<_> = private.read_dir().unwrap().map(|name| name.unwrap().file_name()).collect();
    assert_eq!(names, ["store"], "no marker is left");
}

/// Promise: each step has as many threads as its order wants, and as many as the peer chooses where
/// it wants none.
#[test]
fn each_step_has_its_threads() {
    let bench = Bench::new();
    bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    let chosen = penstock_sys::available_cpus().clamp(1, 16) as u32;
    for operation in [Write, Read, Create] {
        for (wanted, least) in [(1, 1), (3, 3), (0, chosen)] {
            let files = if operation == Read { 0 } else { 4 };
            let order = BenchmarkOrder::Prepare(ID, step_of(operation, (files, 4096), wanted));
            let prepared = bench.host.handle(order).unwrap();
            let BenchmarkReply::Prepared { threads, .. } = prepared else { panic!("{prepared:?}") };
            // Direct I/O has more threads where the peer chooses.
            let is_right = threads == least || (wanted == 0 && threads > least);
            assert!(is_right, "{operation}: {threads} of {wanted}");
            bench.host.handle(BenchmarkOrder::Run(ID)).unwrap();
        }
    }
    bench.host.handle(BenchmarkOrder::End(ID)).unwrap();
}

/// Promise: where files are read past the page cache, four threads at least wait for the disk. The
/// operator's `io` of the store decides that.
#[test]
fn four_threads_read_past_the_cache() {
    let chosen = penstock_sys::available_cpus().clamp(1, 16) as u32;
    for (io, least) in [(IoMode::Buffered, chosen), (IoMode::Direct, chosen.max(4))] {
        let bench = Bench::with_io(io);
        bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
        bench.step(Write, (4, 4096));
        let order = BenchmarkOrder::Prepare(ID, step_of(Read, (0, 4096), 0));
        let prepared = bench.host.handle(order).unwrap();
        let BenchmarkReply::Prepared { threads, .. } = prepared else { panic!("{prepared:?}") };
        assert_eq!(threads, least, "{io:?}");
        bench.host.handle(BenchmarkOrder::Run(ID)).unwrap();
        bench.host.handle(BenchmarkOrder::End(ID)).unwrap();
    }
}

/// Promise: a host that cannot give up the caches of all files reports the reason, and never calls
/// the caches dropped. One that can, and one that was not to, reports nothing.
#[test]
fn caches_that_stay_are_named() {
    let bench = Bench::new();
    let [given_up, no_directory] =
        ["given-up", "nowhere/file"].map(|name| bench.directory.path().join(name));
    for (drop_caches, file, why) in [
        (true, &no_directory, Some("nowhere/file`: No such file")),
        (true, &given_up, None),
        (false, &no_directory, None),
    ] {
        let host = bench.with_caches(HostCaches::at(file.clone()));
        let part = BenchmarkPart { drop_caches, ..bench.part() };
        host.handle(BenchmarkOrder::Begin(part)).unwrap();
        host.handle(BenchmarkOrder::Prepare(ID, step_of(Write, (10, 4096), 2))).unwrap();
        host.handle(BenchmarkOrder::Run(ID)).unwrap();
        let read = step_of(Read, (10, 4096), 2);
        let prepared = host.handle(BenchmarkOrder::Prepare(ID, read)).unwrap();
        let BenchmarkReply::Prepared { cache, caches_kept, .. } = prepared else {
            panic!("{prepared:?}")
        };
        match (why, &caches_kept) {
            (None, None) => {}
            (Some(why), Some(said)) => assert!(said.contains(why), "{said}"),
            _ => panic!("{why:?} {caches_kept:?}"),
        }
        assert!(why.is_none() || cache != Some(CacheState::Dropped), "{cache:?}");
        host.handle(BenchmarkOrder::End(ID)).unwrap();
    }
    assert_eq!(std::fs::read(&given_up).unwrap(), b"1");
}

/// Promise: names are made, given and removed, all of those that were made; they are looked at and
/// listed for the time of a step.
#[test]
fn names_are_counted() {
    let bench = Bench::new();
    let part = BenchmarkPart { seconds: 1, ..bench.part() };
    bench.host.handle(BenchmarkOrder::Begin(part)).unwrap();
    let (made, _) = bench.step(Create, (5000, 0));
    assert!(made.files > 0 && made.files <= 5000, "{made:?}");
    for operation in [Rename, Stat, List, Unlink] {
        let (done, _) = bench.step(operation, (5000, 0));
        if matches!(operation, Stat | List) {
            assert!(done.files > 0 && done.done_s >= 1.0, "{operation}: {done:?}");
        } else {
            assert_eq!(done.files, made.files, "{operation}");
        }
    }
    let (none, _) = bench.step(List, (5000, 0));
    assert_eq!(none.files, 0);
    bench.host.handle(BenchmarkOrder::End(ID)).unwrap();
    assert_eq!(bench.left(), 0);
}

/// Promise: the files of a killed daemon are removed when the next one starts, and `clean` removes
/// files that no record names; files of users stay.
#[test]
fn leftovers_are_removed() {
    let bench = Bench::new();
    bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    bench.step(Write, (10, 100));
    assert_eq!(bench.left(), 1);
    let next = bench.next();
    let [part] = &next.leftovers.all()[..] else { panic!("one record is kept") };
    next.remove(part).unwrap();
    assert_eq!((bench.left(), next.leftovers.all().len()), (0, 0));
    let scratch = bench.directory.path().join("store/scratch");
    let strange = ".penstock-bench-of-mine";
    for name in [strange, ".penstock-bench-00112233445566778899aabbccddeeff"] {
        std::fs::create_dir_all(scratch.join(name).join("p0/w")).unwrap();
        std::fs::write(scratch.join(name).join("p0/w/file"), b"x").unwrap();
    }
    let (of_others, file) = (TransferId([9; 16]), TransferId([10; 16]));
    std::fs::create_dir(scratch.join(format!(".penstock-bench-{of_others}"))).unwrap();
    std::fs::write(scratch.join(format!(".penstock-bench-{file}")), b"of a user").unwrap();
    let clean = |spared| {
        let order = BenchmarkOrder::Clean(bench.part().place, spared);
        match next.handle(order).unwrap() {
            BenchmarkReply::Cleaned(cleaned) => (cleaned.files, cleaned.directories),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(clean(vec![of_others]), (1, 3));
    assert_eq!(bench.left(), 3);
    assert!(scratch.join(strange).join("p0/w/file").exists());
    assert_eq!(clean(Vec::new()), (0, 1), "a file is no directory of a benchmark");
    assert_eq!(bench.left(), 2);
}

/// Promise: a record is kept while its store, or a file system within it on the way to the files,
/// is not mounted, and while the store is another one. Its files are removed when the store is
/// back.
#[test]
fn records_wait_for_their_store() {
    let bench = Bench::new();
    bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    bench.step(Write, (10, 100));
    let [store, away] = ["store", "away"].map(|name| bench.directory.path().join(name));
    std::fs::rename(&store, &away).unwrap();
    std::fs::create_dir_all(store.join("scratch")).unwrap();
    let next = bench.next();
    let [part] = &next.leftovers.all()[..] else { panic!("one record is kept") };
    next.remove(part).unwrap_err();
    let clean = BenchmarkOrder::Clean(bench.part().place, Vec::new());
    next.handle(clean).unwrap_err();
    assert_eq!(next.leftovers.all().len(), 1);
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&away, &store).unwrap();
    let within = MountSeen { at: part.place.path.clone(), kind: "ext4".to_owned() };
    let unmounted = BenchmarkPart { mounts: vec![within], ..part.clone() };
    next.leftovers.record(&unmounted).unwrap();
    let [read] = &next.leftovers.all()[..] else { panic!("one record is kept") };
    assert_eq!(read.mounts, unmounted.mounts);
    next.remove(read).unwrap_err();
    assert_eq!((bench.left(), next.leftovers.all().len()), (1, 1));
    next.leftovers.record(part).unwrap();
    next.recover();
    wait_until(|| next.leftovers.all().is_empty());
    assert_eq!(bench.left(), 0);
}

/// Promise: `clean` of a store that was made again drops the records of the former store, and
/// removes the files of the new one.
#[test]
fn records_of_a_former_store_are_forgotten() {
    let bench = Bench::new();
    bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    std::fs::remove_dir_all(bench.directory.path().join("store")).unwrap();
    std::fs::create_dir_all(bench.directory.path().join("store/scratch")).unwrap();
    let next = bench.next();
    let [part] = &next.leftovers.all()[..] else { panic!("one record is kept") };
    let spec = TaskSpec { store_id: 0, ..spec_of(part, part.place.path.clone()) };
    next.target.identify(&spec).unwrap();
    let file = "store/scratch/.penstock-bench-00112233445566778899aabbccddeeff/file";
    let file = bench.directory.path().join(file);
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, b"x").unwrap();
    next.remove(part).unwrap_err();
    assert_eq!(next.leftovers.all().len(), 1, "nobody asked for it");
    let clean = BenchmarkOrder::Clean(bench.part().place, Vec::new());
    let cleaned = BenchmarkCleaned { files: 1, directories: 1 };
    assert_eq!(next.handle(clean).unwrap(), BenchmarkReply::Cleaned(cleaned));
    assert_eq!((bench.left(), next.leftovers.all().len()), (0, 0));
}

/// Promise: a removal that fails at the end is reported, and repeated until it succeeds; the next
/// benchmark does not wait for that.
#[test]
fn a_failed_removal_is_repeated() {
    let bench = Bench::new();
    bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    bench.step(Write, (10, 100));
    let private = bench.directory.path().join("store/.penstock-store-7q2mv0kd9j");
    let hidden = bench.directory.path().join("hidden");
    std::fs::rename(&private, &hidden).unwrap();
    bench.host.handle(BenchmarkOrder::End(ID)).unwrap_err();
    bench.host.handle(BenchmarkOrder::End(ID)).unwrap_err();
    assert_eq!((bench.left(), bench.host.leftovers.all().len()), (1, 1));
    assert!(bench.host.present().is_none());
    std::fs::rename(&hidden, &private).unwrap();
    bench.host.recover();
    wait_until(|| bench.host.leftovers.all().is_empty());
    assert_eq!(bench.left(), 0);
}

/// Promise: a record that was cut short is removed, and one that this release cannot read stays.
#[test]
fn records_of_other_releases_stay() {
    let bench = Bench::new();
    let records = bench.directory.path().join("records");
    std::fs::create_dir_all(&records).unwrap();
    std::fs::write(records.join("1.new"), b"{").unwrap();
    std::fs::write(records.join("2.json"), br#"{"format":2}"#).unwrap();
    assert!(bench.host.leftovers.all().is_empty());
    let names: Vec<_> = records.read_dir().unwrap().map(|name| name.unwrap().file_name()).collect();
    assert_eq!(names, ["2.json"]);
}

/// Promise: a host that is shut down leaves no file of a benchmark that runs.
#[test]
fn a_shutdown_ends_the_benchmark() {
    let bench = Bench::new();
    bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    bench.step(Write, (10, 100));
    bench.host.shut_down();
    assert_eq!((bench.left(), bench.host.leftovers.all().len()), (0, 0));
}

fn wait_until(is: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(std::time::Instant::now() < deadline, "it does not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Promise: a second benchmark does not begin beside the first, and orders for one that is over
/// are refused.
#[test]
fn one_benchmark_runs_at_a_time() {
    let bench = Bench::new();
    bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    let other = BenchmarkPart { id: TransferId([8; 16]), ..bench.part() };
    let refused = bench.host.handle(BenchmarkOrder::Begin(other)).unwrap_err();
    assert_eq!(refused.code, ProblemCode::BenchmarkRunning);
    let again = bench.host.handle(BenchmarkOrder::Begin(bench.part())).unwrap();
    assert_eq!(again, BenchmarkReply::Begun(bench.host.present().unwrap().part.store_id));
    bench.host.handle(BenchmarkOrder::Touch(ID)).unwrap();
    let present = bench.host.handle(BenchmarkOrder::Present).unwrap();
    assert_eq!(present, BenchmarkReply::Present(Some(ID)));
    let step = step_of(Write, (10, 100), 0);
    bench.host.handle(BenchmarkOrder::Prepare(ID, step)).unwrap();
    bench.host.cancel(ID);
    let stopped = bench.host.handle(BenchmarkOrder::Run(ID)).unwrap_err();
    assert_eq!(stopped.code, ProblemCode::Stopped);
    let stopped = bench.host.handle(BenchmarkOrder::Prepare(ID, step)).unwrap_err();
    assert_eq!(stopped.code, ProblemCode::Stopped);
    bench.host.handle(BenchmarkOrder::End(ID)).unwrap();
    bench.host.handle(BenchmarkOrder::End(ID)).unwrap();
    let unknown = bench.host.handle(BenchmarkOrder::Run(ID)).unwrap_err();
    assert_eq!(unknown.code, ProblemCode::BenchmarkUnknown);
    assert_eq!(bench.left(), 0);
}
