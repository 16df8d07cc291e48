//! Compares two trees.
//!
//! A directory is listed at the source, and idle threads look at batches of its names at both
//! sides. After all of them, the target's names are counted. Extra names are searched for only if
//! the target has more names than were found. No set of names is kept, and a directory of ten
//! million files needs no more memory than one of ten.

use std::ops::ControlFlow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use penstock_proto::name;
use penstock_store::{
    Dir, Inspection, Kind, ListBuffer, Meta, PosixOptions, PosixStore, StoreError, inspect,
    tells_size,
};

use super::content::{Buffers, FilePair, SideError, Verdict};
use super::findings::{Finding, Teller, Told, VerifyFigures};
use super::jobs::{Jobs, WAITING_MAX, Waiting, WaitingPaths};
use crate::stores::worker_pool;

/// Number of names that one thread looks at before another may take some.
const BATCH_NAMES: usize = 128;
/// Depth to which a thread recurses where too many jobs wait.
const NESTED_MAX: usize = 64;
/// Type bits of a socket (inode(7)).
const SOCKET: u32 = 0o140_000;

/// The options of a comparison of trees.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Compares mode, owner, times and extended attributes too.
    pub attributes: bool,
    /// Threads.
    pub workers: usize,
}

/// An end of a comparison: a directory tree, or one file, link or device in its directory.
#[derive(Clone, Copy, Debug)]
pub struct TreeEnd<'a> {
    /// The directory: the tree itself, or the parent of the single entry.
    pub directory: &'a Path,
    /// Name of the single thing; empty for the whole tree.
    pub name: &'a [u8],
}

/// Compares the tree at `target` with that at `source`; blocks until everything is reported. A
/// missing or extra directory is reported once, without its contents.
///
/// # Errors
/// A root cannot be opened.
pub fn verify_trees(
    source: TreeEnd<'_>,
    target: TreeEnd<'_>,
    options: TreeOptions,
    figures: &VerifyFigures,
    tell: &Teller<'_>,
) -> Result<(), StoreError> {
    let open = |end: TreeEnd<'_>| {
        let options = PosixOptions { read_only: true, ..PosixOptions::default() };
        PosixStore::open(end.directory, options)
    };
    let trees = Trees {
        source: open(source)?,
        target: open(target)?,
        options,
        jobs: Jobs::waiting_in(TreeJobs { waiting: Vec::new(), directories: WaitingPaths::new() }),
        told: Told::new(figures, tell),
    };
    let single = !source.name.is_empty() || !target.name.is_empty();
    if single {
        let pair = trees.root_pair();
        trees.single(&pair, source.name, target.name);
    } else {
        trees.root();
    }
    trees.jobs.produced();
    worker_pool::at_once(options.workers.max(1), &|| {
        let mut worker = Worker { buffers: Buffers::new(), nested: 0 };
        trees.jobs.work(|job| trees.run(job, &mut worker));
    });
    Ok(())
}

/// A directory at both sides.
struct DirPair {
    source: Dir,
    target: Dir,
    /// Names of the source that the target has too.
    matched: AtomicU64,
    /// Batches not done, and 1 for the listing.
    left: AtomicUsize,
}

enum Job {
    Directory(Vec<u8>),
    Names(Arc<DirPair>, Vec<Box<[u8]>>),
    Extent(Arc<FilePair>, Range<u64>),
    /// Directories that waited cannot be read again.
    Lost(StoreError),
}

/// Waiting jobs. Directories beyond the limit are not in memory (promise (g)).
struct TreeJobs {
    waiting: Vec<Job>,
    directories: WaitingPaths,
}

impl Waiting<Job> for TreeJobs {
    fn push(&mut self, job: Job) {
        match job {
            Job::Directory(path) if self.waiting.len() >= WAITING_MAX => {
                self.directories.push(Ok(path));
            }
            job => self.waiting.push(job),
        }
    }

    fn pop(&mut self) -> Option<Job> {
        self.waiting.pop().or_else(|| {
            self.directories.pop().map(|path| path.map_or_else(Job::Lost, Job::Directory))
        })
    }

    fn in_memory(&self) -> usize {
        self.waiting.len()
    }
}

struct Worker {
    buffers: Buffers,
    nested: usize,
}

struct Trees<'a> {
    source: PosixStore,
    target: PosixStore,
    options: TreeOptions,
    jobs: Jobs<Job, TreeJobs>,
    told: Told<'a>,
}

/// An entry at both sides.
struct Item<'a> {
    pair: &'a DirPair,
    source_name: &'a [u8],
    target_name: &'a [u8],
    /// Path below the root, for the report.
    path: &'a [u8],
    source: Meta,
    target: Meta,
}

impl Trees<'_> {
    fn run(&self, job: Job, worker: &mut Worker) {
        match job {
            Job::Directory(path) => self.directory(&path, worker),
            Job::Names(pair, names) => {
                for item in &names {
                    self.name(&pair, item, worker);
                }
                self.end_part(&pair);
            }
            Job::Extent(pair, range) => self.extent(&pair, range, worker),
            Job::Lost(error) => self.told.failed(b"", "source", &error),
        }
    }

    /// Hands a job to an idle thread, or does it.
    fn give(&self, job: Job, worker: &mut Worker) {
        let Some(job) = self.jobs.offer(job) else { return };
        if worker.nested >= NESTED_MAX {
            return self.jobs.force(job);
        }
        worker.nested += 1;
        self.run(job, worker);
        worker.nested -= 1;
    }

    fn root_pair(&self) -> DirPair {
        self.pair(self.source.root().clone(), self.target.root().clone())
    }

    fn pair(&self, source: Dir, target: Dir) -> DirPair {
        DirPair { source, target, matched: AtomicU64::new(0), left: AtomicUsize::new(1) }
    }

    fn root(&self) {
        let pair = self.root_pair();
        let look =
            || Ok((self.source.stat(&pair.source, b"")?, self.target.stat(&pair.target, b"")?));
        match look() {
            Ok((source, target)) if self.options.attributes => {
                let (source_name, target_name, path) = (&b""[..], &b""[..], &b""[..]);
                let item = Item { pair: &pair, source_name, target_name, path, source, target };
                self.attributes(&item);
            }
            Ok(_) => {}
            Err(error) => self.told.failed(b"", "root", &error),
        }
        self.jobs.force(Job::Directory(Vec::new()));
    }

    fn single(&self, pair: &DirPair, source_name: &[u8], target_name: &[u8]) {
        let mut worker = Worker { buffers: Buffers::new(), nested: 0 };
        self.entry(pair, source_name, target_name, source_name, &mut worker);
    }

    fn directory(&self, path: &[u8], worker: &mut Worker) {
        let open = |store: &PosixStore, side| match store.open_dir(path) {
            Ok(dir) => Some(dir),
            Err(error) => {
                self.told.failed(path, side, &error);
                None
            }
        };
        let Some(source) = open(&self.source, "source") else { return };
        let Some(target) = open(&self.target, "target") else { return };
        let pair = Arc::new(self.pair(source, target));
        let mut names = Vec::new();
        // Its own buffer of 64 KiB: a nested directory is listed during this one.
        let mut buffer = ListBuffer::new();
        let listed = self.source.list(&pair.source, &mut buffer, &mut |entry| {
            if let Some(own) = entry.own {
                self.told.own(&name::join(path, entry.name), "source", own);
                return ControlFlow::Continue(());
            }
            names.push(Box::from(entry.name));
            if names.len() >= BATCH_NAMES {
                pair.left.fetch_add(1, Ordering::Relaxed);
                let batch = std::mem::take(&mut names);
                self.give(Job::Names(Arc::clone(&pair), batch), worker);
            }
            ControlFlow::Continue(())
        });
        drop(buffer);
        if let Err(error) = listed {
            self.told.failed(path, "source", &error);
        }
        for item in &names {
            self.name(&pair, item, worker);
        }
        self.told.add(|figures| &figures.directories, 1);
        self.end_part(&pair);
    }

    /// Ends a batch, or the listing, of a directory. The thread that ends the last of them looks
    /// for extras.
    fn end_part(&self, pair: &DirPair) {
        if pair.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.extras(pair);
        }
    }

    fn extras(&self, pair: &DirPair) {
        let mut buffer = ListBuffer::new();
        let mut there = 0;
        let counted = self.target.list(&pair.target, &mut buffer, &mut |entry| {
            match entry.own {
                Some(own) => {
                    self.told.own(&name::join(pair.target.path(), entry.name), "target", own);
                }
                None => there += 1,
            }
            ControlFlow::Continue(())
        });
        let matched = pair.matched.load(Ordering::Acquire);
        let listed = counted.and_then(|()| {
            if there == matched {
                return Ok(());
            }
            self.target.list(&pair.target, &mut buffer, &mut |entry| {
                if entry.own.is_none() {
                    self.extra(pair, entry.name);
                }
                ControlFlow::Continue(())
            })
        });
        if let Err(error) = listed {
            self.told.failed(pair.target.path(), "target", &error);
        }
    }

    fn extra(&self, pair: &DirPair, item: &[u8]) {
        let path = name::join(pair.target.path(), item);
        match self.source.stat_if_exists(&pair.source, item) {
            Ok(Some(_)) => {}
            Ok(None) => {
                let kind = self.target.stat(&pair.target, item).map(|meta| meta.kind);
                self.told.say(Finding::Extra, &path, kind.map_or("", word));
            }
            Err(error) => self.told.failed(&path, "source", &error),
        }
    }

    fn name(&self, pair: &DirPair, item: &[u8], worker: &mut Worker) {
        let path = name::join(pair.source.path(), item);
        self.entry(pair, item, item, &path, worker);
    }

    fn entry(
        &self,
        pair: &DirPair,
        source_name: &[u8],
        target_name: &[u8],
        path: &[u8],
        worker: &mut Worker,
    ) {
        let target = match self.target.stat_if_exists(&pair.target, target_name) {
            Ok(target) => target,
            Err(error) => {
                pair.matched.fetch_add(1, Ordering::AcqRel);
                return self.told.failed(path, "target", &error);
            }
        };
        pair.matched.fetch_add(u64::from(target.is_some()), Ordering::AcqRel);
        let source = match self.source.stat(&pair.source, source_name) {
            Ok(source) => source,
            Err(error) => return self.told.failed(path, "source", &error),
        };
        let Some(target) = target else {
            if source.kind == Kind::Other && self.is_socket(pair, source_name) {
                return self.told.add(|figures| &figures.skipped, 1);
            }
            return self.told.say(Finding::Missing, path, word(source.kind));
        };
        let item = Item { pair, source_name, target_name, path, source, target };
        let (expected, found) = (word(item.source.kind), word(item.target.kind));
        if expected != found {
            let message = format!("{found} at the target, {expected} at the source");
            return self.told.say(Finding::Differs, path, &message);
        }
        if self.options.attributes {
            self.attributes(&item);
        }
        match item.source.kind {
            Kind::Directory => self.give(Job::Directory(path.to_vec()), worker),
            Kind::File => self.file(&item, worker),
            Kind::Symlink => self.link(&item),
            _ => self.special(&item),
        }
    }

    fn is_socket(&self, pair: &DirPair, item: &[u8]) -> bool {
        inspect(&pair.source, item, false).is_ok_and(|found| found.file_type == SOCKET)
    }

    fn file(&self, item: &Item<'_>, worker: &mut Worker) {
        let (pair, told) = (item.pair, &self.told);
        let differ = |source: u64, target: u64| {
            let message = format!("{target} B at the target, {source} B at the source");
            told.say(Finding::Differs, item.path, &message);
        };
        let tell = tells_size(&pair.source, &item.source) && tells_size(&pair.target, &item.target);
        if tell && item.source.size != item.target.size {
            return differ(item.source.size, item.target.size);
        }
        let open = |store: &PosixStore, dir, name, seen: Meta| {
            let file = store.open_read(dir, name)?;
            let meta = file.measured(true)?;
            let sized = meta.size == seen.size || !tells_size(dir, &seen);
            let stamped = meta.mtime == seen.mtime || meta.made;
            Ok((file, meta, sized && stamped))
        };
        let source = match open(&self.source, &pair.source, item.source_name, item.source) {
            Ok(source) => source,
            Err(error) => return told.failed(item.path, "source", &error),
        };
        let target = match open(&self.target, &pair.target, item.target_name, item.target) {
            Ok(target) => target,
            Err(error) => return told.failed(item.path, "target", &error),
        };
        if !source.2 || !target.2 {
            return told.say(Finding::Changed, item.path, "while it was compared");
        }
        if source.1.size != target.1.size {
            return differ(source.1.size, target.1.size);
        }
        let (source, target) = ((source.0, source.1), (target.0, target.1));
        let pair = Arc::new(FilePair::new(item.path.to_vec(), source, target));
        let mut extents = pair.extents();
        let first = extents.next();
        for range in extents {
            self.give(Job::Extent(Arc::clone(&pair), range), worker);
        }
        if let Some(range) = first {
            self.extent(&pair, range, worker);
        }
    }

    fn extent(&self, pair: &FilePair, range: Range<u64>, worker: &mut Worker) {
        if let Err(error) = pair.compare(range, &mut worker.buffers) {
            self.unreadable(pair, error);
        }
        match pair.end_extent() {
            None | Some(Ok(Verdict::Broken)) => return,
            Some(Ok(Verdict::Changed)) => {
                return self.told.say(Finding::Changed, &pair.path, "while it was compared");
            }
            Some(Ok(Verdict::DiffersAt(at))) => {
                let message = format!("content, from byte {at}");
                self.told.say(Finding::Differs, &pair.path, &message);
            }
            Some(Ok(Verdict::Same)) => {}
            Some(Err(error)) => return self.unreadable(pair, error),
        }
        self.told.add(|figures| &figures.files, 1);
        self.told.add(|figures| &figures.bytes, pair.size());
    }

    fn unreadable(&self, pair: &FilePair, (side, error): SideError) {
        if pair.give_up() {
            self.told.failed(&pair.path, side, &error);
        }
    }

    fn link(&self, item: &Item<'_>) {
        let source = self.source.read_link(&item.pair.source, item.source_name);
        let target = self.target.read_link(&item.pair.target, item.target_name);
        match (source, target) {
            (Ok(source), Ok(target)) if source == target => {
                self.told.add(|figures| &figures.others, 1);
            }
            (Ok(source), Ok(target)) => {
                let (source, target) = (name::escape(&source), name::escape(&target));
                let message =
                    format!("leads to `{target}` at the target, `{source}` at the source");
                self.told.say(Finding::Differs, item.path, &message);
            }
            (Err(error), _) => self.told.failed(item.path, "source", &error),
            (_, Err(error)) => self.told.failed(item.path, "target", &error),
        }
    }

    /// Devices, pipes, sockets.
    fn special(&self, item: &Item<'_>) {
        match self.inspect(item, false) {
            Some((source, target))
                if (source.file_type, source.device) != (target.file_type, target.device) =>
            {
                let show = |found: &Inspection| {
                    format!("{:o}/{}:{}", found.file_type, found.device.0, found.device.1)
                };
                let (target, source) = (show(&target), show(&source));
                let message = format!("kind {target} at the target, {source} at the source");
                self.told.say(Finding::Differs, item.path, &message);
            }
            Some(_) => self.told.add(|figures| &figures.others, 1),
            None => {}
        }
    }

    fn inspect(&self, item: &Item<'_>, xattrs: bool) -> Option<(Inspection, Inspection)> {
        let source = inspect(&item.pair.source, item.source_name, xattrs);
        let target = inspect(&item.pair.target, item.target_name, xattrs);
        match (source, target) {
            (Ok(source), Ok(target)) => Some((source, target)),
            (Err(error), _) => {
                self.told.failed(item.path, "source", &error);
                None
            }
            (_, Err(error)) => {
                self.told.failed(item.path, "target", &error);
                None
            }
        }
    }

    fn attributes(&self, item: &Item<'_>) {
        let mut found = Vec::new();
        let mut differ = |what: &str, target: String, source: String| {
            if target != source {
                found.push(format!("{what} {target} at the target, {source} at the source"));
            }
        };
        let (source, target) = (&item.source, &item.target);
        if source.kind != Kind::Symlink {
            differ("mode", format!("{:04o}", target.mode), format!("{:04o}", source.mode));
        }
        let time = |meta: &Meta| format!("{}.{:09}", meta.mtime.seconds, meta.mtime.nanoseconds);
        let step = item.pair.source.step(source);
        if !item.pair.target.has_time(target, source.mtime, step) {
            differ("mtime", time(target), time(source));
        }
        let Some((source, target)) = self.inspect(item, true) else { return };
        let owner = |found: &Inspection| format!("{}:{}", found.uid, found.gid);
        differ("owner", owner(&target), owner(&source));
        let all = source.xattrs.keys().chain(target.xattrs.keys());
        let mut names: Vec<_> = all.collect();
        names.sort();
        names.dedup();
        for attribute in names {
            let what = match (source.xattrs.get(attribute), target.xattrs.get(attribute)) {
                (Some(source), Some(target)) if source == target => continue,
                (Some(_), Some(_)) => "has another value at the target",
                (Some(_), None) => "is not at the target",
                _ => "is not at the source",
            };
            found.push(format!("attribute `{}` {what}", name::escape(attribute)));
        }
        if !found.is_empty() {
            self.told.say(Finding::Differs, item.path, &found.join("; "));
        }
    }
}

/// Returns the word for a kind.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "a file",
        Kind::Directory => "a directory",
        Kind::Symlink => "a link",
        _ => "a device, pipe or socket",
    }
}
