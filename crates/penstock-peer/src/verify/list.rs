//! Compares a tree with a list of checksums.
//!
//! Lines are read one after another and handed to threads. Where a list does not name its kind of
//! checksum, its length leaves a few kinds. All of them are computed in one pass until the first
//! file matches one, which is the kind for the rest of the list. Extra files are found by walking
//! the tree against the names of the list. At most [`NAMES_MAX`] names are in memory at a time: a
//! longer list costs another walk for each such number.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Seek as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use penstock_proto::checksum::{Checksum, ChecksumKind, LineError, ListLine, parse_line};
use penstock_proto::digest::DigestKind;
use penstock_proto::name;
use penstock_proto::slicing::{STRIDE_BYTES_MAX, Slicing};
use penstock_store::checksum::Checksums;
use penstock_store::{
    Dir, DirCache, Kind, ListBuffer, Meta, PosixOptions, PosixStore, ReadFile, StoreError,
};

use super::findings::{Finding, Teller, Told, VerifyFigures};
use super::jobs::{Jobs, WaitingPath, WaitingPaths};
use crate::stores::chain;
use crate::stores::worker_pool;
use crate::verify::hashing::{CHUNK_BYTES, TreeHash, feed};

/// Directories of a walk that wait to be listed.
type Directories = Jobs<WaitingPath, WaitingPaths>;

/// Most names of a list that are in memory at a time, as 16 bytes each.
const NAMES_MAX: u128 = 4 << 20;
/// Longest line of a list: the longest path that we carry, each byte escaped, and a checksum.
const LINE_BYTES_MAX: u64 = 2 * name::PATH_BYTES_MAX as u64 + 1024;
/// Bytes of one thread's buffer: a stride, however pages are cut.
const BUFFER_BYTES: usize = STRIDE_BYTES_MAX as usize;
/// Files above this are hashed by several threads, where the checksum allows that.
const SPLIT_BYTES: u64 = 64 << 20;

/// The reasons why a list could not be used at all.
#[derive(Debug, thiserror::Error)]
pub enum ListProblem {
    /// The list cannot be read.
    #[error("cannot read the list")]
    Read(#[from] io::Error),
    /// A line is not one.
    #[error("line {number} of the list cannot be read")]
    Line {
        /// Number of the line, from 1.
        number: u64,
        /// The error in the line.
        source: LineError,
    },
    /// A line is of another kind than was asked for.
    #[error("line {number} of the list holds {found}, not {wanted}")]
    Kind {
        /// Number of the line, from 1.
        number: u64,
        /// Kinds of checksums that the list holds.
        found: String,
        /// Kind of checksum that was asked for.
        wanted: ChecksumKind,
    },
    /// The directory cannot be opened.
    #[error("{}", chain(.0))]
    Store(#[from] StoreError),
}

/// Compares the tree at `directory` with `list`; blocks until everything is reported. `kind` is the
/// kind of an untagged list; `None` finds it out. Returns the kind, if any file has matched it.
///
/// # Errors
/// The list could not be used beyond a line: earlier reports hold.
pub fn verify_list(
    list: &mut File,
    directory: &Path,
    kind: Option<ChecksumKind>,
    workers: usize,
    figures: &VerifyFigures,
    tell: &Teller<'_>,
) -> Result<Option<ChecksumKind>, ListProblem> {
    let options = PosixOptions { read_only: true, ..PosixOptions::default() };
    let check = Check {
        store: PosixStore::open(directory, options)?,
        settled: OnceLock::new(),
        told: Told::new(figures, tell),
        workers: workers.max(1),
        exclude: own_identity(list),
    };
    let jobs = Jobs::new();
    let mut names = 0_u64;
    let work = || {
        let mut own = Own::default();
        jobs.work(|job| check.run(job, &jobs, &mut own));
    };
    let read = std::thread::scope(|scope| {
        let started = (0..check.workers).take_while(|_| worker_pool::start(scope, work).is_ok());
        // Where there can be no other thread each line is looked at as it is read.
        let mut alone = (started.count() == 0).then(Own::default);
        let read = read_lines(list, kind, |line| {
            names += 1;
            match &mut alone {
                None => jobs.put(Job::Line(line)),
                Some(own) => check.run(Job::Line(line), &jobs, own),
            }
        });
        jobs.produced();
        if alone.is_some() {
            work();
        }
        read
    });
    read?;
    let parts = u128::from(names).div_ceil(NAMES_MAX).max(1);
    for part in 0..parts {
        let mut known = HashSet::new();
        list.rewind()?;
        read_lines(list, kind, |line| {
            let path = relative(&line.name).map(|path| fold(&path));
            known.extend(path.filter(|hash| hash % parts == part));
        })?;
        check.walk(&Known { hashes: known, part, parts });
    }
    Ok(kind.or_else(|| check.settled.get().copied()))
}

enum Job {
    Line(ListLine),
    Extent(Arc<Large>, u64),
}

/// The state of each thread.
struct Own {
    dirs: DirCache,
    buffer: Vec<u8>,
}

impl Default for Own {
    fn default() -> Self {
        Self { dirs: DirCache::default(), buffer: vec![0; BUFFER_BYTES] }
    }
}

/// A large file that several threads hash.
struct Large {
    line: ListLine,
    path: Vec<u8>,
    file: ReadFile,
    before: Meta,
    hash: TreeHash,
    broken: AtomicBool,
}

/// A part of the names of a list: those whose hash leaves `part` when divided by `parts`.
struct Known {
    hashes: HashSet<u128>,
    part: u128,
    parts: u128,
}

impl Known {
    /// Returns whether a path belongs to this part and is not in the list.
    fn lacks(&self, path: &[u8]) -> bool {
        let hash = fold(path);
        hash % self.parts == self.part && !self.hashes.contains(&hash)
    }
}

/// Returns the first 16 bytes of a path's BLAKE3. Two of 10^9 paths share them with a chance of
/// 10^-21.
fn fold(path: &[u8]) -> u128 {
    let hash = blake3::hash(path);
    hash.as_bytes()[..16].iter().fold(0, |folded, byte| folded << 8 | u128::from(*byte))
}

/// Converts a name of a list to a path below the directory, without `./`; `None` if it leads
/// elsewhere.
fn relative(name: &[u8]) -> Option<Vec<u8>> {
    let parts = name.split(|byte| *byte == b'/').filter(|part| *part != b".");
    let path = parts.collect::<Vec<_>>().join(&b'/');
    (!path.is_empty() && name::check_relative(&path).is_ok()).then_some(path)
}

/// Returns whether exactly one checksum has this value.
fn is_one(value: &[u8], found: &[Checksum]) -> bool {
    found.iter().filter(|checksum| checksum.value() == value).count() == 1
}

/// Returns the device and inode of the list, which may lie in the tree and is no part of it.
fn own_identity(list: &File) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    list.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

fn read_lines(
    list: &mut File,
    wanted: Option<ChecksumKind>,
    mut take: impl FnMut(ListLine),
) -> Result<(), ListProblem> {
    let mut input = io::BufReader::with_capacity(256 * 1024, list);
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let length = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text)?;
        if length == 0 {
            break;
        }
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        let line = parse_line(&text).map_err(|source| ListProblem::Line { number, source })?;
        let Some(mut line) = line else { continue };
        if let Some(wanted) = wanted {
            let fits = line.kind.is_none_or(|kind| kind == wanted)
                && line.value.len() == wanted.value_bytes();
            if !fits {
                let digits = format!("a checksum of {} digits", line.value.len() * 2);
                let found = line.kind.map_or(digits, |kind| kind.to_string());
                return Err(ListProblem::Kind { number, found, wanted });
            }
            line.kind = Some(wanted);
        }
        take(line);
    }
    Ok(())
}

struct Check<'a> {
    store: PosixStore,
    /// Kind of checksum in an untagged list, known once a file has matched it.
    settled: OnceLock<ChecksumKind>,
    told: Told<'a>,
    workers: usize,
    exclude: Option<(u64, u64)>,
}

impl Check<'_> {
    fn run(&self, job: Job, jobs: &Jobs<Job>, own: &mut Own) {
        match job {
            Job::Line(line) => self.line(line, &mut own.dirs, jobs, &mut own.buffer),
            Job::Extent(large, extent) => self.extent(&large, extent, &mut own.buffer),
        }
    }

    fn line(&self, line: ListLine, dirs: &mut DirCache, jobs: &Jobs<Job>, buffer: &mut [u8]) {
        let Some(path) = relative(&line.name) else {
            let message = "the list names something that is not below the directory";
            return self.told.say(Finding::Unreadable, &line.name, message);
        };
        let (parent, leaf) = name::split(&path).unwrap_or((b"", b""));
        let opened = dirs
            .get(penstock_sys::boottime_now(), parent, |parent| self.store.open_dir(parent))
            .and_then(|dir| self.store.open_read(&dir, leaf))
            .and_then(|file| file.measured(true).map(|meta| (file, meta)));
        let (file, before) = match opened {
            Ok(opened) => opened,
            Err(error) if error.is_vanished() => {
                return self.told.say(Finding::Missing, &path, "");
            }
            Err(error) => return self.failed(&path, &error),
        };
        if self.kinds(&line) == [ChecksumKind::Blake3] && before.size > SPLIT_BYTES {
            let hash = TreeHash::new(DigestKind::Blake3, &Slicing::default(), before.size);
            let broken = AtomicBool::new(false);
            let large = Arc::new(Large { line, path, file, before, hash, broken });
            for extent in 0..large.hash.count() {
                if jobs.offer(Job::Extent(Arc::clone(&large), extent)).is_some() {
                    self.extent(&large, extent, buffer);
                }
            }
            return;
        }
        let mut checksums = Checksums::new(&self.kinds(&line));
        let sparse = before.is_sparse();
        match feed(&file, before.size, sparse, &mut checksums, &mut buffer[..CHUNK_BYTES]) {
            Ok(_) => self.judge(&line, &path, &file, &before, &checksums.finish()),
            Err(error) => self.failed(&path, &error),
        }
    }

    fn extent(&self, large: &Large, extent: u64, buffer: &mut [u8]) {
        let read = |at, length, buffer: &mut [u8]| large.file.read_at(at, &mut buffer[..length]);
        if !large.broken.load(Ordering::Acquire) {
            match large.hash.hash(extent, buffer, read, |_| {}) {
                Ok(true) => {}
                Ok(false) if large.broken.swap(true, Ordering::AcqRel) => {}
                Ok(false) => self.told.say(Finding::Changed, &large.path, "while it was read"),
                Err(_) if large.broken.swap(true, Ordering::AcqRel) => {}
                Err(error) => self.failed(&large.path, &error),
            }
        }
        if let Some(digest) = large.hash.end_extent()
            && !large.broken.load(Ordering::Acquire)
        {
            let found = [Checksum::new(ChecksumKind::Blake3, &digest.0)];
            self.judge(&large.line, &large.path, &large.file, &large.before, &found);
        }
    }

    /// Returns the kinds of checksums that a line may hold.
    fn kinds(&self, line: &ListLine) -> Vec<ChecksumKind> {
        match line.kind.or_else(|| self.settled.get().copied()) {
            Some(kind) if kind.value_bytes() == line.value.len() => vec![kind],
            _ => ChecksumKind::candidates(line.value.len()),
        }
    }

    /// Reports whether a file that was read to its end matches the list.
    fn judge(
        &self,
        line: &ListLine,
        path: &[u8],
        file: &ReadFile,
        before: &Meta,
        found: &[Checksum],
    ) {
        match file.meta_read_to(before.size, true) {
            Ok(after)
                if (after.size, after.mtime, after.ctime)
                    != (before.size, before.mtime, before.ctime) =>
            {
                return self.told.say(Finding::Changed, path, "while it was read");
            }
            Ok(_) => {}
            Err(error) => return self.failed(path, &error),
        }
        self.told.add(|figures| &figures.files, 1);
        self.told.add(|figures| &figures.bytes, before.size);
        match found.iter().find(|checksum| checksum.value() == line.value) {
            // An empty file has one value as CRC-32 and as CRC-32C, which decides nothing.
            Some(checksum) if line.kind.is_none() && is_one(&line.value, found) => {
                self.settled.get_or_init(|| checksum.kind);
            }
            Some(_) => {}
            None => {
                let found: Vec<_> = found.iter().map(|found| format!("{found:?}")).collect();
                let message = format!("its content has {}", found.join(" or "));
                self.told.say(Finding::Differs, path, &message);
            }
        }
    }

    fn failed(&self, path: &[u8], error: &StoreError) {
        match error {
            StoreError::WrongKind { found, .. } => {
                self.told.say(Finding::Differs, path, &format!("it is {found}, not a file"));
            }
            error => self.told.failed(path, "directory", error),
        }
    }

    /// Walks the tree and reports the files that the list lacks.
    fn walk(&self, known: &Known) {
        let jobs = Jobs::waiting_in(WaitingPaths::new());
        jobs.force(Ok(Vec::new()));
        jobs.produced();
        worker_pool::at_once(self.workers, &|| {
            let mut buffer = ListBuffer::new();
            jobs.work(|path: WaitingPath| match path {
                Ok(path) => self.list(&path, known, &jobs, &mut buffer),
                Err(error) => self.failed(b"", &error),
            });
        });
    }

    /// Directories wait without a limit, but not in memory (promise (g)).
    fn list(&self, path: &[u8], known: &Known, jobs: &Directories, buffer: &mut ListBuffer) {
        let listed = self.store.open_dir(path).and_then(|dir| {
            self.store.list(&dir, buffer, &mut |entry| {
                let path = name::join(path, entry.name);
                if let Some(own) = entry.own {
                    // The list is read in parts, and the tree once for each.
                    if known.part == 0 {
                        self.told.own(&path, "directory", own);
                    }
                    return ControlFlow::Continue(());
                }
                match self.kind_of(&dir, entry.name, entry.kind) {
                    Some(Kind::Directory) => jobs.force(Ok(path)),
                    Some(Kind::File) if known.lacks(&path) => self.extra(&dir, entry.name, &path),
                    _ => {}
                }
                ControlFlow::Continue(())
            })
        });
        match listed {
            Ok(()) if known.part == 0 => self.told.add(|figures| &figures.directories, 1),
            Ok(()) => {}
            Err(error) => self.failed(path, &error),
        }
    }

    fn kind_of(&self, dir: &Dir, item: &[u8], told: Option<Kind>) -> Option<Kind> {
        told.or_else(|| self.store.stat(dir, item).ok().map(|meta| meta.kind))
    }

    fn extra(&self, dir: &Dir, item: &[u8], path: &[u8]) {
        let is_list = || {
            let meta = self.store.stat(dir, item).ok()?;
            Some((meta.device, meta.inode) == self.exclude?)
        };
        if is_list() != Some(true) {
            self.told.say(Finding::Extra, path, "");
        }
    }
}
