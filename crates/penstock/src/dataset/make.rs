//! `penstock dataset make`: fills a directory with incompressible files.
//!
//! The arguments become a list of file sizes, which `--seed` shuffles. Worker threads take jobs
//! from one cursor over that list: a run of small files, or a segment of a large one. The content
//! of a block follows from seed, file number and block number alone, so who writes what when does
//! not matter. Nothing is synced to stable storage: a test set can be made again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{ArgGroup, Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use penstock_proto::units::{MIB, counted, format_bytes, parse_size};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use rustix::fs::OFlags;
use tokio::sync::mpsc;

use super::preset::{self, Preset};
use super::shape::Shape;
use crate::signals::{Ending, Endings};
use penstock_exit::{self as exit, ExitCode, Failure};

/// What one generator stream fills, and one `write` writes: fits the cache of a core.
const BLOCK_BYTES: u64 = MIB / 4;
/// What one worker takes of a large file at a time.
const SEGMENT_BYTES: u64 = 64 * MIB;
const _: () = assert!(SEGMENT_BYTES.is_multiple_of(BLOCK_BYTES), "segments are whole blocks");
/// What one worker takes of small files at a time, in files and in bytes.
const RUN_FILES: usize = 64;
const RUN_BYTES: u64 = 4 * MIB;
/// Files per directory of `--layout tree`.
const DIRECTORY_FILES: usize = 1_000;
/// Most files of one set: the list of sizes takes 8 bytes for each.
const FILES_MAX: u64 = 100_000_000;

/// Arguments of `penstock dataset make`.
#[derive(Args)]
#[command(
    after_help = exit::help_of(&[
        (ExitCode::Done, "the data set is complete"),
        (ExitCode::Unclassified, ""),
        (ExitCode::Usage, ""),
        (ExitCode::Refused, "refused: the directory is not empty"),
        (ExitCode::Fatal, ""),
        (ExitCode::Interrupted, "interrupted"),
    ]),
    group = ArgGroup::new("shape").required(true).args(["files", "preset"]),
    group = ArgGroup::new("each").args(["size", "sizes"]),
)]
pub(crate) struct MakeArgs {
    /// Directory to fill. It is created if missing, and must be empty
    dir: PathBuf,
    /// Number of files, at most 100,000,000
    #[arg(long, value_name = "N", requires = "each",
          value_parser = clap::value_parser!(u64).range(1..=FILES_MAX))]
    files: Option<u64>,
    /// Size of every file, in bytes or with a unit: 4096, 64K, 1.5GiB (binary), 2GB (decimal)
    #[arg(long, value_name = "S", requires = "files", value_parser = parse_size)]
    size: Option<u64>,
    /// Smallest and largest size of a file, as 4K-1M; drawn uniformly in log2, so that each power
    /// of two between them has about as many files
    #[arg(long, value_name = "A-B", requires = "files", value_parser = parse_sizes)]
    sizes: Option<RangeInclusive<u64>>,
    /// Published shape, scaled to --bytes: each class of sizes keeps its share of the bytes
    #[arg(long, value_name = "NAME", requires = "bytes")]
    preset: Option<Preset>,
    /// Bytes of the whole preset, with a unit as in --size; at least 1 MiB
    #[arg(long, value_name = "B", requires = "preset", value_parser = parse_size)]
    bytes: Option<u64>,
    /// Where files lie: `tree` in directories of 1,000 two levels deep, `flat` all in DIR
    #[arg(long, value_name = "LAYOUT", default_value = "tree")]
    layout: Layout,
    /// Number that decides names, order, sizes and bytes: the same seed makes the same set
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Writing threads, 1 to 1024 [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write into a directory that is not empty: replaces files of the same name, keeps others
    #[arg(long)]
    force: bool,
    /// Print the summary as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Layout {
    Flat,
    Tree,
}

fn parse_sizes(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (low, high) = text.split_once('-').ok_or("give the smallest and the largest as A-B")?;
    let read = |text| parse_size(text).map_err(|error| error.to_string());
    let (low, high) = (read(low)?, read(high)?);
    if low == 0 || low > high {
        return Err("the first must be at least 1 and at most the second".to_owned());
    }
    Ok(low..=high)
}

/// Runs the command; blocks until the set is made or a signal stops it.
pub(crate) fn run(args: &MakeArgs) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let set = Set::plan(args)?;
    check_empty(args)?;
    check_space(&args.dir, &set)?;
    set.make_directories()?;
    let work = Work::new(&set);
    let interrupted = work.run(threads(args))?;
    report(args, &work, interrupted, begun.elapsed())
}

fn threads(args: &MakeArgs) -> usize {
    match args.threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// What is to be made.
struct Set {
    dir: PathBuf,
    sizes: Vec<u64>,
    bytes: u64,
    layout: Layout,
    seed: u64,
}

impl Set {
    fn plan(args: &MakeArgs) -> Result<Self, Failure> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(args.seed);
        let mut sizes = match (args.preset, args.bytes) {
            (Some(preset), Some(bytes)) if bytes >= preset::BYTES_MIN => preset.sizes(bytes),
            (Some(_), _) => {
                let message = "a preset needs --bytes of at least 1 MiB";
                return Err(Failure::new(ExitCode::Usage, message));
            }
            (None, _) => {
                let files = args.files.unwrap_or(0);
                (0..files).map(|_| size_of_next(args, &mut random)).collect()
            }
        };
        let bytes = bytes_of(&sizes)?;
        shuffle(&mut sizes, &mut random);
        Ok(Self { dir: args.dir.clone(), sizes, bytes, layout: args.layout, seed: args.seed })
    }

    fn path(&self, file: usize) -> PathBuf {
        match self.layout {
            Layout::Flat => self.dir.join(file_name(file)),
            Layout::Tree => self.dir.join(path_within(self.sizes.len(), file)),
        }
    }

    fn make_directories(&self) -> Result<(), Failure> {
        let make = |path: &Path| {
            fs::create_dir_all(path)
                .map_err(|error| Failure::io(format!("make directory `{}`", path.display()), error))
        };
        make(&self.dir)?;
        if self.layout == Layout::Tree {
            let (leaves, per_parent) = leaves(self.sizes.len());
            for leaf in 0..leaves {
                make(&self.dir.join(leaf_within(leaf, per_parent)))?;
            }
        }
        Ok(())
    }
}

/// Returns the number of leaf directories, and how many of them share a parent: as many as there
/// are parents.
fn leaves(files: usize) -> (usize, usize) {
    let leaves = files.div_ceil(DIRECTORY_FILES);
    (leaves, (leaves as f64).sqrt().ceil() as usize)
}

fn leaf_within(leaf: usize, per_parent: usize) -> String {
    format!("d{:03}/d{:03}", leaf / per_parent, leaf % per_parent)
}

fn file_name(file: usize) -> String {
    format!("f{file:08}")
}

/// Returns the path of a file within a set of so many files that [`fill`] makes.
pub(crate) fn path_within(files: usize, file: usize) -> PathBuf {
    let leaf = leaf_within(file / DIRECTORY_FILES, leaves(files).1);
    Path::new(&leaf).join(file_name(file))
}

/// Returns the bytes of files together.
fn bytes_of(sizes: &[u64]) -> Result<u64, Failure> {
    let bytes = sizes.iter().try_fold(0_u64, |sum, &size| sum.checked_add(size));
    // The rest of the program and the kernel count in 63 bits.
    bytes
        .filter(|&bytes| bytes <= i64::MAX as u64)
        .ok_or_else(|| Failure::new(ExitCode::Usage, "the files together are larger than 8 EiB"))
}

/// Result of [`fill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// The set is complete.
    Whole,
    /// A signal stopped it; a further call makes the set whole.
    Interrupted,
}

/// Fills a directory with the files of a shape, in directories of 1,000, as `dataset make` does
/// with the same seed. Files of the same names are replaced. Catches SIGINT and SIGTERM, and blocks
/// until the set is made.
///
/// # Errors
/// There is too little room; a file cannot be written.
pub(crate) fn fill(dir: &Path, shape: &Shape, seed: u64) -> anyhow::Result<Filled> {
    let mut sizes = shape.sizes();
    let bytes = bytes_of(&sizes)?;
    shuffle(&mut sizes, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
    let set = Set { dir: dir.to_owned(), sizes, bytes, layout: Layout::Tree, seed };
    check_space(dir, &set)?;
    set.make_directories()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let interrupted = Work::new(&set).run(threads)?;
    Ok(if interrupted { Filled::Interrupted } else { Filled::Whole })
}

/// The size of the next file of a set that is no preset.
fn size_of_next(args: &MakeArgs, random: &mut Xoshiro256PlusPlus) -> u64 {
    match &args.sizes {
        Some(sizes) => {
            let (low, high) = ((*sizes.start() as f64).log2(), (*sizes.end() as f64).log2());
            let part = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let size = (low + part * (high - low)).exp2().round() as u64;
            size.clamp(*sizes.start(), *sizes.end())
        }
        None => args.size.unwrap_or(0),
    }
}

/// Fisher and Yates, written out so that a seed gives the same order for ever.
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut Xoshiro256PlusPlus) {
    for last in (1..items.len()).rev() {
        let other = (u128::from(random.next_u64()) * (last as u128 + 1)) >> 64;
        items.swap(last, other as usize);
    }
}

/// Refuses a directory that holds something, unless the user insists.
fn check_empty(args: &MakeArgs) -> Result<(), Failure> {
    let dir = args.dir.display();
    let mut entries = match fs::read_dir(&args.dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::io(format!("list directory `{dir}`"), error)),
        Ok(entries) => entries,
    };
    if args.force || entries.next().is_none() {
        return Ok(());
    }
    let message = format!("directory `{dir}` is not empty");
    let hint = "name another directory, or add --force to write into this one";
    Err(Failure::new(ExitCode::Refused, message).hint(hint))
}

/// Refuses a set that the file system has no room for. A guess from below: metadata is not
/// counted, and others may write at the same time.
fn check_space(dir: &Path, set: &Set) -> Result<(), Failure> {
    let absolute = std::path::absolute(dir)
        .map_err(|error| Failure::io(format!("find directory `{}`", dir.display()), error))?;
    let existing = absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let room = rustix::fs::statvfs(existing).map_err(|error| {
        Failure::io(format!("ask for the free space at `{}`", existing.display()), error.into())
    })?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let block = room.f_frsize.max(1);
    let needed = set
        .sizes
        .iter()
        .fold(0_u64, |sum, size| sum.saturating_add(size.div_ceil(block).saturating_mul(block)));
    let full = |message: String| {
        Err(Failure::new(ExitCode::Fatal, message).hint("free some, or make a smaller set"))
    };
    if needed > free {
        let (needed, free) = (format_bytes(needed), format_bytes(free));
        return full(format!("the set needs {needed}, `{}` has {free} free", dir.display()));
    }
    // Some file systems make inodes as they need them, and report none.
    if room.f_files > 0 && set.sizes.len() as u64 > room.f_favail {
        let (files, free) = (set.sizes.len(), room.f_favail);
        let dir = dir.display();
        let files = counted(files as u64, "file");
        return full(format!("the set has {files}, `{dir}` has {free} inodes free"));
    }
    Ok(())
}

/// What a worker does next.
enum Job {
    /// Whole files, by number.
    Run(std::ops::Range<usize>),
    /// The segment of a file that begins at a byte; its length follows from the file's size.
    Segment { file: usize, offset: u64 },
}

/// Where the next job begins.
#[derive(Default)]
struct Cursor {
    file: usize,
    offset: u64,
}

/// A set in the making, shared by the workers.
struct Work<'a> {
    set: &'a Set,
    cursor: Mutex<Cursor>,
    stop: AtomicBool,
    bytes: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

impl<'a> Work<'a> {
    fn new(set: &'a Set) -> Self {
        Self {
            set,
            cursor: Mutex::default(),
            stop: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    /// Makes the set with `threads` workers; true if a signal stopped it.
    fn run(&self, threads: usize) -> anyhow::Result<bool> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot set up waiting for signals")?;
        let signals = {
            let _inside = runtime.enter();
            let wanted = [Ending::Interrupt, Ending::Terminate];
            Endings::catch(&wanted).context("cannot set up waiting for signals")?
        };
        let interrupted = std::thread::scope(|scope| {
            let (alive, ended) = mpsc::channel(1);
            for started in 0..threads {
                let alive = alive.clone();
                let work = move || {
                    self.work();
                    drop(alive);
                };
                match std::thread::Builder::new().spawn_scoped(scope, work) {
                    Ok(_) => {}
                    Err(cause) if started == 0 => {
                        return Err(anyhow::Error::from(Failure::no_thread(cause)));
                    }
                    // Those that there are do the work of all.
                    Err(_) => break,
                }
            }
            drop(alive);
            let watched = runtime.block_on(self.watch(ended, signals));
            if watched.is_err() {
                self.stop.store(true, Ordering::Relaxed);
            }
            watched
        })?;
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(interrupted), |failure| Err(failure.into()))
    }

    /// Shows progress until every worker has ended; true if a signal came before that.
    async fn watch(
        &self,
        mut ended: mpsc::Receiver<()>,
        mut signals: Endings,
    ) -> anyhow::Result<bool> {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        let bar = progress_bar(self.set.bytes)?;
        let mut interrupted = false;
        loop {
            tokio::select! {
                _ = ended.recv() => break,
                _ = signals.next() => interrupted = true,
                _ = tick.tick() => bar.set_position(self.bytes.load(Ordering::Relaxed)),
            }
            if interrupted {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        bar.finish_and_clear();
        // A signal after the last byte spoiled nothing.
        Ok(interrupted && self.bytes.load(Ordering::Relaxed) < self.set.bytes)
    }

    fn work(&self) {
        let mut block = vec![0; BLOCK_BYTES as usize];
        while let Some(job) = self.next_job() {
            let done = match job {
                Job::Run(files) => files
                    .into_iter()
                    .try_for_each(|file| self.write(file, 0, self.set.sizes[file], &mut block)),
                Job::Segment { file, offset } => {
                    let end = self.set.sizes[file].min(offset + SEGMENT_BYTES);
                    self.write(file, offset, end, &mut block)
                }
            };
            if let Err(failure) = done {
                self.stop.store(true, Ordering::Relaxed);
                let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(failure);
            }
        }
    }

    fn next_job(&self) -> Option<Job> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = &self.set.sizes[cursor.file..];
        if *sizes.first()? > SEGMENT_BYTES {
            let job = Job::Segment { file: cursor.file, offset: cursor.offset };
            cursor.offset += SEGMENT_BYTES;
            if cursor.offset >= sizes[0] {
                *cursor = Cursor { file: cursor.file + 1, offset: 0 };
            }
            return Some(job);
        }
        let mut bytes = 0;
        let fits = sizes.iter().take(RUN_FILES).take_while(|&&size| {
            bytes += size;
            bytes <= RUN_BYTES
        });
        let end = cursor.file + fits.count().max(1);
        let run = cursor.file..end;
        cursor.file = end;
        Some(Job::Run(run))
    }

    /// Writes the bytes of `file` from `start` to `end`; ends early when told to stop.
    fn write(&self, file: usize, start: u64, end: u64, block: &mut [u8]) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let path = self.set.path(file);
        let at = |error| Failure::io(format!("write `{}`", path.display()), error);
        let size = self.set.sizes[file];
        let out = open(&path, size <= SEGMENT_BYTES).map_err(at)?;
        if size > SEGMENT_BYTES {
            // Also cuts a longer file that was there; other workers' segments are untouched.
            out.set_len(size).map_err(at)?;
        }
        let mut offset = start;
        while offset < end && !self.stop.load(Ordering::Relaxed) {
            let bytes = &mut block[..(end - offset).min(BLOCK_BYTES) as usize];
            content(self.set.seed, file as u64, offset / BLOCK_BYTES).fill_bytes(bytes);
            out.write_all_at(bytes, offset).map_err(at)?;
            offset += bytes.len() as u64;
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn open(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(truncate)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

/// The generator of one block. The multipliers are those of SplitMix64, which spreads any change
/// of the input over the whole output, so that neighbouring blocks have nothing in common.
fn content(seed: u64, file: u64, block: u64) -> Xoshiro256PlusPlus {
    let mix = |value: u64| {
        let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    };
    // One is added as zero is the only value that mixes to itself.
    let key = [file, block].iter().fold(mix(seed.wrapping_add(1)), |key, part| mix(key ^ part));
    Xoshiro256PlusPlus::seed_from_u64(key)
}

/// A bar on standard error if that is a terminal, otherwise one that shows nothing.
fn progress_bar(bytes: u64) -> anyhow::Result<ProgressBar> {
    if !io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let template = "{bar:30} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  \
                    {binary_bytes_per_sec}  {eta} left";
    let style = ProgressStyle::with_template(template).context("cannot set up the progress bar")?;
    Ok(ProgressBar::new(bytes).with_style(style))
}

/// Says how it ended: the summary on standard output, what to do next on standard error.
fn report(
    args: &MakeArgs,
    work: &Work<'_>,
    interrupted: bool,
    took: Duration,
) -> anyhow::Result<ExitCode> {
    let (set, written) = (work.set, work.bytes.load(Ordering::Relaxed));
    let (dir, seconds) = (set.dir.display(), took.as_secs_f64());
    let state = if interrupted { "interrupted" } else { "done" };
    let per_second = written as f64 / seconds;
    if args.json {
        let summary = serde_json::json!({
            "type": "summary",
            "version": 1,
            "state": state,
            "files": set.sizes.len(),
            "bytes": set.bytes,
            "bytes_written": written,
            "seconds": seconds,
            "rate_bits_per_s": per_second * 8.0,
            "seed": set.seed,
        });
        exit::print(&summary.to_string())?;
    } else if !interrupted {
        exit::print(&format!(
            "{}, {} ({} bytes) in `{dir}`, seed {}, {seconds:.2} s, {}/s",
            counted(set.sizes.len() as u64, "file"),
            format_bytes(set.bytes),
            set.bytes,
            set.seed,
            format_bytes(per_second as u64),
        ))?;
    }
    if !interrupted {
        return Ok(ExitCode::Done);
    }
    exit::warn(&format!(
        "error: interrupted: `{dir}` holds a part of the set, {} of {}\n\
         hint:  the same command with --force makes it whole",
        format_bytes(written),
        format_bytes(set.bytes),
    ));
    Ok(ExitCode::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Promise: no two blocks of a set start alike, so that nothing in it can be told apart
    /// or found twice by compression or deduplication.
    #[test]
    fn blocks_differ() {
        let mut seen = HashSet::new();
        for file in 0..300 {
            for block in 0..300 {
                assert!(seen.insert(content(0, file, block).next_u64()), "{file} {block}");
            }
        }
    }

    /// Promise: the bytes of a seed stay what they were in earlier releases.
    #[test]
    fn content_is_fixed_for_ever() {
        let mut bytes = [0; 8];
        content(7, 3, 1).fill_bytes(&mut bytes);
        assert_eq!(
            bytes,
            [44, 92, 50, 10, 236, 113, 114, 52],
            "update only with a changelog entry"
        );
    }

    /// Promise: ranges of sizes are read as `A-B` and refused when they make no sense.
    #[test]
    fn ranges_are_read() {
        assert_eq!(parse_sizes("4K-1M"), Ok(4096..=1_048_576));
        for bad in ["4K", "0-1K", "2K-1K", "a-b", ""] {
            assert!(parse_sizes(bad).is_err(), "`{bad}` must be refused");
        }
    }
}
