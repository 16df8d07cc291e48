//! Finds entries that are at the target and not in the data set, and deletes them.
//!
//! Finding joins two lists of paths: those of the manifest, as hashes, and those of a walk of the
//! target. Hashes of up to [`HASHES_MAX`] paths are kept in memory. Beyond that, both lists are
//! spilled into files by the first byte of the hash. Each pair of files is then joined by itself (a
//! grace hash join), so that memory does not grow with the number of files (promise (g)). Two paths
//! would need the same 128 bits of BLAKE3 to be taken for each other, and the entry would then
//! stay.
//!
//! Deleting follows the list that finding has made: files, then directories from the deepest up.
//! Each entry is checked once more before it is deleted (B4, C3).
//!
//! A path that is a directory on one side only is two paths to the join. The entry at the target is
//! extraneous, and an obstacle to the one that is to be made.
//!
//! Where the target is on another host, the join, its files and the list stay with the controller.
//! That host lists directories ([`TargetLister`]) and deletes the entries that it is sent, a batch
//! at a time.

mod obstacle;
mod path_hash;
mod record;
mod walk;

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use penstock_api::delete::{DeleteOrder, Surplus, SurplusKind, SurplusQuery};
use penstock_api::fence::Fence;
use penstock_api::plan::PlanItem;
use penstock_api::problem::Problem;
use penstock_api::task::{TaskPage, TaskSpec};
use penstock_api::transfer::{FailedItem, PathText};
use penstock_api::update::{IfExists, UpdateOptions};
use penstock_proto::manifest::EntryKind;
use penstock_proto::name;
use penstock_store::{DirCache, Removal, StoreError, Target};

use crate::stores::chain;
use crate::stores::errors::{StoreFault, is_of_store};
use crate::task::error::TaskError;
use crate::write::backup::backup_path;

use obstacle::Obstacles;
use path_hash::{HASHES_MAX, PathHash, Wish, hash_of, other_kind, spill_failed};
use record::{key_of, line_of, read_line, seen};
use walk::{Here, walk};

pub use walk::{LIST_DIRECTORIES_MAX, TakeSurplus, TargetLister};

/// Files that each list is spilled into.
const PARTS: usize = 256;
/// Number of depths of directories that have a file of their own; deeper ones share the last.
const DEPTHS: usize = 200;
/// Number of deletions after which the store's identity is checked again.
const CHECK_EVERY: u64 = 1024;

/// The permission to look on. A thread that was stuck in a call, or slept, may wake after its run
/// has ended or another controller leads. It then touches nothing, and its findings do not count
/// (B4).
#[derive(Clone, Copy)]
struct GoesOn<'a> {
    stop: &'a AtomicBool,
    fence: &'a Fence,
}

impl GoesOn<'_> {
    fn check(&self) -> Result<(), TaskError> {
        match self.stop.load(Ordering::Acquire) {
            true => Err(TaskError::WalkStopped),
            false => Ok(self.fence.check()?),
        }
    }
}

/// Files that a list is spilled into by hash.
struct Parts {
    files: Vec<(PathBuf, BufWriter<File>)>,
}

impl Parts {
    fn create(scratch: &Path, what: &str) -> Result<Self, TaskError> {
        let create = |part: usize| {
            let path = scratch.join(format!("{what}-{part:03}"));
            let file = File::create(&path).map_err(|cause| spill_failed(&path, cause))?;
            Ok((path, BufWriter::new(file)))
        };
        Ok(Self { files: (0..PARTS).map(create).collect::<Result<_, TaskError>>()? })
    }

    fn write(&mut self, hash: &PathHash, bytes: &[u8]) -> Result<(), TaskError> {
        let (path, file) = &mut self.files[hash[0] as usize];
        file.write_all(bytes).map_err(|cause| spill_failed(path, cause))
    }

    fn end(self) -> Result<Vec<PathBuf>, TaskError> {
        let end = |(path, mut file): (PathBuf, BufWriter<File>)| match file.flush() {
            Ok(()) => Ok(path),
            Err(cause) => Err(spill_failed(&path, cause)),
        };
        self.files.into_iter().map(end).collect()
    }
}

/// The paths of the manifest.
enum Known {
    Memory(HashSet<PathHash>),
    Spilled(Vec<PathBuf>, Parts),
}

/// The paths of the data set, in memory or in files.
struct DataSet {
    paths: Known,
    /// Directories of the data set that were not listed, since something is mounted there: at most
    /// [`HASHES_MAX`].
    unlisted: HashSet<PathHash>,
}

/// The list that is made: files first, directories by their depth.
struct List<'a> {
    choose: &'a mut dyn FnMut(PlanItem) -> Result<bool, Problem>,
    path: PathBuf,
    scratch: PathBuf,
    out: BufWriter<File>,
    depths: BTreeMap<usize, BufWriter<File>>,
    found: u64,
    /// Directories that hold something of ours: they stay.
    kept: HashSet<PathHash>,
}

impl<'a> List<'a> {
    fn create(
        path: &Path,
        scratch: &Path,
        choose: &'a mut dyn FnMut(PlanItem) -> Result<bool, Problem>,
    ) -> Result<Self, TaskError> {
        let file = File::create(path).map_err(|cause| spill_failed(path, cause))?;
        Ok(Self {
            choose,
            path: path.to_owned(),
            scratch: scratch.to_owned(),
            out: BufWriter::new(file),
            depths: BTreeMap::new(),
            found: 0,
            kept: HashSet::new(),
        })
    }

    /// Keeps the directories that hold something of ours at `path`.
    fn keep(&mut self, path: &[u8]) {
        let mut at = path;
        while let Some((parent, _)) = name::split(at) {
            // The directories above it are then kept as well.
            if !self.kept.insert(hash_of(parent, true)) {
                break;
            }
            at = parent;
        }
    }

    fn depth_path(&self, depth: usize) -> PathBuf {
        self.scratch.join(format!("depth-{depth:03}"))
    }

    fn add(&mut self, surplus: &Surplus) -> Result<(), TaskError> {
        let path = self.path.clone();
        let failed = |cause: io::Error| spill_failed(&path, cause);
        let line = line_of(surplus);
        if !surplus.is_directory() {
            return self.choose(surplus, &line);
        }
        let depth = surplus.path.0.iter().filter(|byte| **byte == b'/').count().min(DEPTHS);
        if !self.depths.contains_key(&depth) {
            let file = File::create(self.depth_path(depth)).map_err(failed)?;
            self.depths.insert(depth, BufWriter::new(file));
        }
        match self.depths.get_mut(&depth) {
            Some(out) => out.write_all(&line).map_err(failed),
            None => Ok(()),
        }
    }

    /// Adds an entry to the list, if it should be deleted.
    fn choose(&mut self, surplus: &Surplus, line: &[u8]) -> Result<(), TaskError> {
        if !(self.choose)(surplus.planned())? {
            return Ok(());
        }
        self.found += 1;
        self.out.write_all(line).map_err(|cause| spill_failed(&self.path, cause))
    }

    /// Chooses a directory, unless it holds something of ours.
    fn choose_directory(&mut self, line: &str) -> Result<(), TaskError> {
        let surplus = read_line(line, &self.path)?;
        if self.kept.contains(&key_of(&surplus)) {
            return Ok(());
        }
        self.choose(&surplus, &line_of(&surplus))
    }

    /// Appends the directories, deepest first.
    fn end(mut self) -> Result<u64, TaskError> {
        let path = self.path.clone();
        let failed = |cause: io::Error| spill_failed(&path, cause);
        for (depth, mut file) in std::mem::take(&mut self.depths).into_iter().rev() {
            file.flush().map_err(failed)?;
            drop(file);
            let mut spilled = File::open(self.depth_path(depth)).map_err(failed)?;
            if depth < DEPTHS {
                for line in BufReader::new(spilled).lines() {
                    self.choose_directory(&line.map_err(failed)?)?;
                }
                continue;
            }
            // A child is listed after its parent.
            let mut text = String::new();
            spilled.read_to_string(&mut text).map_err(failed)?;
            for line in text.lines().rev() {
                self.choose_directory(line)?;
            }
        }
        self.out.flush().map_err(failed)?;
        Ok(self.found)
    }
}

/// Finds entries below the data set's root at the target that are not in the data set. Returns
/// their number.
///
/// # Errors
/// The target cannot be listed completely: nothing may be deleted then.
pub(crate) fn find(
    target: &Target,
    spec: &TaskSpec,
    query: SurplusQuery<'_>,
) -> Result<u64, TaskError> {
    let mut here = Here::new(target, Wish::of(spec))?;
    find_with(&mut here, (&spec.update, &spec.fence), query, HASHES_MAX)
}

/// Finds extraneous entries like `find`, at a target on another host.
///
/// # Errors
/// As `find`, and errors of `lister`.
pub fn find_surplus_with(
    lister: &mut dyn TargetLister,
    spec: &TaskSpec,
    query: SurplusQuery<'_>,
) -> Result<u64, Problem> {
    Ok(find_with(lister, (&spec.update, &spec.fence), query, HASHES_MAX)?)
}

/// Lists directories of the target for a controller on another host.
///
/// # Errors
/// As [`TargetLister::list`].
pub(crate) fn list_for(
    target: &Target,
    spec: &TaskSpec,
    directories: Vec<PathText>,
    take: TakeSurplus<'_>,
) -> Result<(), TaskError> {
    Ok(Here::new(target, Wish::of(spec))?.list(directories, take)?)
}

/// Finds extraneous entries like [`find`], with `hashes_max` hashes in memory.
fn find_with(
    lister: &mut dyn TargetLister,
    (update, fence): (&UpdateOptions, &Fence),
    query: SurplusQuery<'_>,
    hashes_max: u64,
) -> Result<u64, TaskError> {
    let goes_on = GoesOn { stop: query.stop, fence };
    let spills = query.entries > hashes_max;
    // An obstacle that may not be replaced is not extraneous, but its contents are.
    let both_kinds = update.if_exists != IfExists::Replace;
    let spill_in = spills.then_some(query.scratch);
    let mut known = read_known(query.pages, spill_in, both_kinds, goes_on)?;
    let mut list = List::create(query.list, query.scratch, query.choose)?;
    let unlisted = std::mem::take(&mut known.unlisted);
    walk(lister, &unlisted, query.scratch, &mut |surplus| {
        goes_on.check()?;
        if surplus.kind == SurplusKind::Own {
            list.keep(&surplus.path.0);
            return Ok(());
        }
        let hash = key_of(&surplus);
        match &mut known.paths {
            Known::Memory(hashes) if hashes.contains(&hash) => Ok(()),
            Known::Memory(hashes) => {
                Ok(list.add(&surplus.in_the_way_if(hashes.contains(&other_kind(hash))))?)
            }
            Known::Spilled(_, there) => Ok(there.write(&hash, &line_of(&surplus))?),
        }
    })?;
    if let Known::Spilled(known, there) = known.paths {
        for (known, there) in known.iter().zip(there.end()?) {
            join(known, &there, &mut list, goes_on)?;
        }
    }
    goes_on.check()?;
    list.end()
}

/// Reads the paths of the data set into memory, or into files in a directory; with `both_kinds`
/// as if each were a directory and something else too.
fn read_known(
    pages: &mut dyn Iterator<Item = Result<TaskPage, Problem>>,
    spill_in: Option<&Path>,
    both_kinds: bool,
    goes_on: GoesOn<'_>,
) -> Result<DataSet, TaskError> {
    goes_on.check()?;
    let (mut memory, mut unlisted) = (HashSet::new(), HashSet::new());
    let mut spilled = spill_in.map(|scratch| Parts::create(scratch, "known")).transpose()?;
    for page in pages {
        let page = page?.page;
        goes_on.check()?;
        for entry in page.entries() {
            let hash = hash_of(&page.path(entry), entry.kind == EntryKind::Directory);
            if entry.special && entry.kind == EntryKind::Directory {
                unlisted.insert(hash);
                if unlisted.len() as u64 > HASHES_MAX {
                    return Err(TaskError::TooManyMounts(HASHES_MAX));
                }
            }
            for hash in std::iter::once(hash).chain(both_kinds.then(|| other_kind(hash))) {
                match &mut spilled {
                    Some(parts) => parts.write(&hash, &hash)?,
                    None => drop(memory.insert(hash)),
                }
            }
        }
    }
    goes_on.check()?;
    let paths = match (spilled, spill_in) {
        (Some(parts), Some(scratch)) => {
            Known::Spilled(parts.end()?, Parts::create(scratch, "there")?)
        }
        _ => Known::Memory(memory),
    };
    Ok(DataSet { paths, unlisted })
}

/// Adds the entries of `there` that are not in `known`.
fn join(
    known: &Path,
    there: &Path,
    list: &mut List<'_>,
    goes_on: GoesOn<'_>,
) -> Result<(), TaskError> {
    goes_on.check()?;
    let bytes = fs::read(known).map_err(|cause| spill_failed(known, cause))?;
    let hashes: HashSet<&[u8]> = bytes.chunks_exact(16).collect();
    let file = File::open(there).map_err(|cause| spill_failed(there, cause))?;
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|cause| spill_failed(there, cause))?;
        goes_on.check()?;
        let surplus = read_line(&line, there)?;
        let hash = key_of(&surplus);
        if !hashes.contains(&hash[..]) {
            list.add(&surplus.in_the_way_if(hashes.contains(&other_kind(hash)[..])))?;
        }
    }
    Ok(())
}

/// Deletes the entries of the list, or moves them to the backup directory.
///
/// # Errors
/// The store is at fault, or the list cannot be read. Failures of single entries are handed over.
pub(crate) fn delete(
    target: &Target,
    spec: &TaskSpec,
    order: DeleteOrder<'_>,
    check_store: &dyn Fn() -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let target = &target.for_data_set(&spec.root.0, spec.preserve.mode, true);
    let mut remover = Remover { target, spec, dirs: DirCache::default() };
    let mut at = 0_u64;
    let deleted = each_listed(order.list, order.only_in_the_way, &mut |surplus| {
        GoesOn { stop: order.stop, fence: &spec.fence }.check()?;
        if at.is_multiple_of(CHECK_EVERY) {
            check_store()?;
        }
        at += 1;
        match remover.deal_with(surplus)? {
            Dealt::Deleted => {
                order.deleted.fetch_add(1, Ordering::Relaxed);
            }
            Dealt::Gone => {}
            Dealt::Failed(item) => (order.failed)(item)?,
        }
        Ok(())
    });
    Ok(deleted?)
}

/// Passes on a list, or only its obstacles, in its order: files, then directories from the deepest
/// up.
///
/// # Errors
/// The list cannot be read; errors of `take`.
pub fn each_listed(
    list: &Path,
    only_in_the_way: bool,
    take: TakeSurplus<'_>,
) -> Result<(), Problem> {
    let file = File::open(list).map_err(|cause| spill_failed(list, cause))?;
    let chosen = if only_in_the_way { Some(Obstacles::read(list)?) } else { None };
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|cause| spill_failed(list, cause))?;
        let surplus = read_line(&line, list)?;
        if chosen.as_ref().is_none_or(|chosen| chosen.holds(&surplus)) {
            take(surplus)?;
        }
    }
    Ok(())
}

/// Deletes some of a list for a controller on another host; see
/// [`crate::TargetService::delete_for`].
///
/// # Errors
/// The store is at fault. Failures of single entries are handed over.
pub(crate) fn delete_for(
    target: &Target,
    spec: &TaskSpec,
    items: Vec<Surplus>,
    goes_on: &dyn Fn() -> bool,
    take: &mut dyn FnMut(Dealt),
) -> Result<usize, TaskError> {
    let target = &target.for_data_set(&spec.root.0, spec.preserve.mode, true);
    let mut remover = Remover { target, spec, dirs: DirCache::default() };
    let mut count = 0;
    for surplus in items {
        if !goes_on() {
            break;
        }
        let dealt = remover.deal_with(surplus)?;
        if matches!(dealt, Dealt::Failed(_)) && !spec.fence.holds() {
            break;
        }
        take(dealt);
        count += 1;
    }
    Ok(count)
}

/// The result of deleting one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dealt {
    /// The entry was deleted by this call.
    Deleted,
    /// The entry was gone already, or holds something that was not to be deleted.
    Gone,
    /// The entry stays, and its deletion has failed.
    Failed(FailedItem),
}

struct Remover<'a> {
    target: &'a Target,
    spec: &'a TaskSpec,
    dirs: DirCache,
}

impl Remover<'_> {
    fn deal_with(&mut self, surplus: Surplus) -> Result<Dealt, TaskError> {
        let why = match self.remove(&surplus) {
            Ok(Removal::Done) => return Ok(Dealt::Deleted),
            // Something of ours or of others is in it, that was not to be deleted.
            Ok(Removal::Vanished | Removal::NotEmpty) => return Ok(Dealt::Gone),
            Ok(Removal::Changed) => "it changed after it was examined".to_owned(),
            Err(error) if is_of_store(self.target, &error) => {
                return Err(StoreFault::of_store(&error).into());
            }
            Err(error) => chain(&error),
        };
        Ok(Dealt::Failed(FailedItem {
            path: surplus.path,
            code: "delete".to_owned(),
            message: format!("was not deleted at the target: {why}"),
        }))
    }

    fn remove(&mut self, surplus: &Surplus) -> Result<Removal, StoreError> {
        let root = &self.spec.root.0;
        let path = name::join(root, &surplus.path.0);
        let Some((parent, leaf)) = name::split(&path) else { return Ok(Removal::Vanished) };
        if name::own(leaf).is_some() {
            return Ok(Removal::Changed);
        }
        let target = self.target;
        let opened =
            self.dirs.get(penstock_sys::boottime_now(), parent, |path| target.open_dir(path));
        let dir = match opened {
            Ok(dir) => dir,
            Err(error) if error.is_vanished() => return Ok(Removal::Vanished),
            Err(error) => return Err(error),
        };
        let Some(now) = target.meta(&dir, leaf)? else { return Ok(Removal::Vanished) };
        let seen = seen(surplus, &now);
        let Some(backup) = &self.spec.update.backup_dir else {
            return target.remove_seen(&dir, leaf, &seen);
        };
        if surplus.is_directory() {
            return target.remove_seen(&dir, leaf, &seen);
        }
        let kept = backup_path(root, &backup.0, &surplus.path.0);
        let Some((kept_in, kept_as)) = name::split(&kept) else { return Ok(Removal::Vanished) };
        let to =
            self.dirs.get(penstock_sys::boottime_now(), kept_in, |path| target.make_dirs(path))?;
        target.move_seen(&dir, leaf, &seen, (&to, kept_as))
    }
}

#[cfg(test)]
mod tests;
