//! Finds what is at the target and not in the data set, and deletes it.
//!
//! Finding joins two lists of paths: those of the manifest, as hashes, and those of a walk of the
//! target. Up to [`HASHES_MAX`] paths the hashes are in memory; beyond, both lists are spilled into
//! files by the first byte of the hash, and each pair of files is joined by itself (a grace hash
//! join), so that memory does not grow with the number of files (promise (g)). Two paths would have
//! to share 128 bits of BLAKE3 for one to be taken for the other, and then it would stay.
//!
//! Deleting goes by the list that finding has made: files, then directories from the deepest up,
//! each looked at once more before it goes (B4, C3).
//!
//! A path that is a directory on one side only is two paths to the join: what is at the target is
//! surplus, and is in the way of what is to come.

mod line;
mod way;

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::plan::PlanItem;
use penstock_api::problem::{Exit, Problem};
use penstock_api::select::Selection;
use penstock_api::task::{TaskPage, TaskSpec};
use penstock_api::transfer::FailedItem;
use penstock_api::update::{IfExists, UpdateOptions};
use penstock_io::store::{
    DirCache, Kind, ListBuffer, Meta, Removal, StoreError, Target, is_temporary_name,
};
use penstock_io::sys;
use penstock_proto::manifest::EntryKind;
use penstock_proto::name;
use penstock_proto::select::{Selector, Verdict};

use crate::stores::chain;
use crate::task::{full_problem, is_of_store};
use crate::waiting::PathStack;

use line::{Surplus, SurplusKind, read_line};
use way::InTheWay;

/// Hashes of paths that are kept in memory at a time: some 48 MiB.
const HASHES_MAX: u64 = 1 << 20;
/// Files that each list is spilled into.
const PARTS: usize = 256;
/// Depths of directories that have a file of their own; deeper ones share the last.
const DEPTHS: usize = 200;
/// The store's identity is checked again after so many deletions.
const CHECK_EVERY: u64 = 1024;

type PathHash = [u8; 16];

/// The hash of a path as a directory's, or as that of anything else: they differ in one bit.
fn hash_of(path: &[u8], directory: bool) -> PathHash {
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    hash[15] = hash[15] & !1 | u8::from(directory);
    hash
}

/// The hash of the same path as the other kind of thing.
fn other_kind(mut hash: PathHash) -> PathHash {
    hash[15] ^= 1;
    hash
}

fn spill_failed(path: &Path, cause: &io::Error) -> Problem {
    let title = format!("cannot keep `{}`", path.display());
    Problem::new(Exit::Temporary, "journal", title).because(cause)
}

fn stopped() -> Problem {
    Problem::new(Exit::Interrupted, "stopped", "stopped while looking at the target")
}

/// Files that a list is spilled into by hash.
struct Parts {
    files: Vec<(PathBuf, BufWriter<File>)>,
}

impl Parts {
    fn create(scratch: &Path, what: &str) -> Result<Self, Problem> {
        let create = |part: usize| {
            let path = scratch.join(format!("{what}-{part:03}"));
            let file = File::create(&path).map_err(|cause| spill_failed(&path, &cause))?;
            Ok((path, BufWriter::new(file)))
        };
        Ok(Self { files: (0..PARTS).map(create).collect::<Result<_, Problem>>()? })
    }

    fn write(&mut self, hash: &PathHash, bytes: &[u8]) -> Result<(), Problem> {
        let (path, file) = &mut self.files[hash[0] as usize];
        file.write_all(bytes).map_err(|cause| spill_failed(path, &cause))
    }

    fn end(self) -> Result<Vec<PathBuf>, Problem> {
        let end = |(path, mut file): (PathBuf, BufWriter<File>)| match file.flush() {
            Ok(()) => Ok(path),
            Err(cause) => Err(spill_failed(&path, &cause)),
        };
        self.files.into_iter().map(end).collect()
    }
}

/// The paths of the manifest.
enum Known {
    Memory(HashSet<PathHash>),
    Spilled(Vec<PathBuf>, Parts),
}

/// What is known of the data set.
struct DataSet {
    paths: Known,
    /// Its directories in which nobody has looked, as something is mounted there: [`HASHES_MAX`]
    /// at most.
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
}

impl<'a> List<'a> {
    fn create(
        path: &Path,
        scratch: &Path,
        choose: &'a mut dyn FnMut(PlanItem) -> Result<bool, Problem>,
    ) -> Result<Self, Problem> {
        let file = File::create(path).map_err(|cause| spill_failed(path, &cause))?;
        Ok(Self {
            choose,
            path: path.to_owned(),
            scratch: scratch.to_owned(),
            out: BufWriter::new(file),
            depths: BTreeMap::new(),
            found: 0,
        })
    }

    fn depth_path(&self, depth: usize) -> PathBuf {
        self.scratch.join(format!("depth-{depth:03}"))
    }

    fn add(&mut self, surplus: &Surplus) -> Result<(), Problem> {
        if !(self.choose)(surplus.planned())? {
            return Ok(());
        }
        self.found += 1;
        let path = self.path.clone();
        let failed = |cause: io::Error| spill_failed(&path, &cause);
        let mut line = serde_json::to_vec(surplus).unwrap_or_default();
        line.push(b'\n');
        if surplus.kind != SurplusKind::Directory {
            return self.out.write_all(&line).map_err(failed);
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

    /// Appends the directories, deepest first.
    fn end(mut self) -> Result<u64, Problem> {
        let path = self.path.clone();
        let failed = |cause: io::Error| spill_failed(&path, &cause);
        for (depth, mut file) in std::mem::take(&mut self.depths).into_iter().rev() {
            file.flush().map_err(failed)?;
            drop(file);
            let mut spilled = File::open(self.depth_path(depth)).map_err(failed)?;
            if depth < DEPTHS {
                io::copy(&mut spilled, &mut self.out).map_err(failed)?;
                continue;
            }
            // A child is listed after its parent.
            let mut text = String::new();
            spilled.read_to_string(&mut text).map_err(failed)?;
            for line in text.lines().rev() {
                writeln!(self.out, "{line}").map_err(failed)?;
            }
        }
        self.out.flush().map_err(failed)?;
        Ok(self.found)
    }
}

/// Finds what is below the data set's root at the target and not in the data set; gives how many.
///
/// # Errors
/// The target cannot be listed completely: nothing may be deleted then.
pub(crate) fn find(
    target: &Target,
    spec: &TaskSpec,
    query: SurplusQuery<'_>,
) -> Result<u64, Problem> {
    let wish = Wish { root: &spec.root.0, update: &spec.update, select: &spec.select };
    find_with(target, wish, query, HASHES_MAX)
}

/// What finding has to know of a task.
#[derive(Clone, Copy)]
struct Wish<'a> {
    root: &'a [u8],
    update: &'a UpdateOptions,
    select: &'a Selection,
}

/// As [`find`], with so many hashes in memory.
fn find_with(
    target: &Target,
    wish: Wish<'_>,
    query: SurplusQuery<'_>,
    hashes_max: u64,
) -> Result<u64, Problem> {
    let spills = query.entries > hashes_max;
    // What is in the way and may not be replaced is not surplus; what is in it is.
    let both_kinds = wish.update.if_exists != IfExists::Replace;
    let mut known = read_known(query.pages, spills.then_some(query.scratch), both_kinds)?;
    let mut list = List::create(query.list, query.scratch, query.choose)?;
    let mut walk = Walk::new(target, wish, std::mem::take(&mut known.unlisted))?;
    walk.run(query.scratch, &mut |surplus| {
        if query.stop.load(Ordering::Acquire) {
            return Err(stopped());
        }
        let hash = surplus.hash();
        match &mut known.paths {
            Known::Memory(hashes) if hashes.contains(&hash) => Ok(()),
            Known::Memory(hashes) => {
                list.add(&surplus.in_the_way_if(hashes.contains(&other_kind(hash))))
            }
            Known::Spilled(_, there) => {
                let mut line = serde_json::to_vec(&surplus).unwrap_or_default();
                line.push(b'\n');
                there.write(&hash, &line)
            }
        }
    })?;
    if let Known::Spilled(known, there) = known.paths {
        for (known, there) in known.iter().zip(there.end()?) {
            join(known, &there, &mut list)?;
        }
    }
    list.end()
}

/// Reads the paths of the data set into memory, or into files in a directory; with `both_kinds`
/// as if each were a directory and something else too.
fn read_known(
    pages: &mut dyn Iterator<Item = Result<TaskPage, Problem>>,
    spill_in: Option<&Path>,
    both_kinds: bool,
) -> Result<DataSet, Problem> {
    let (mut memory, mut unlisted) = (HashSet::new(), HashSet::new());
    let mut spilled = spill_in.map(|scratch| Parts::create(scratch, "known")).transpose()?;
    for page in pages {
        let page = page?.page;
        for entry in page.entries() {
            let hash = hash_of(&page.path(entry), entry.kind == EntryKind::Directory);
            if entry.special && entry.kind == EntryKind::Directory {
                unlisted.insert(hash);
                if unlisted.len() as u64 > HASHES_MAX {
                    return Err(too_many_mounts());
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
    let paths = match (spilled, spill_in) {
        (Some(parts), Some(scratch)) => {
            Known::Spilled(parts.end()?, Parts::create(scratch, "there")?)
        }
        _ => Known::Memory(memory),
    };
    Ok(DataSet { paths, unlisted })
}

fn too_many_mounts() -> Problem {
    let title = format!("more than {HASHES_MAX} mounts were left out at the source");
    Problem::new(Exit::Refused, "delete-refused", title)
}

/// Adds what is in `there` and not in `known`.
fn join(known: &Path, there: &Path, list: &mut List<'_>) -> Result<(), Problem> {
    let bytes = fs::read(known).map_err(|cause| spill_failed(known, &cause))?;
    let hashes: HashSet<&[u8]> = bytes.chunks_exact(16).collect();
    let file = File::open(there).map_err(|cause| spill_failed(there, &cause))?;
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|cause| spill_failed(there, &cause))?;
        let surplus = read_line(&line, there)?;
        let hash = surplus.hash();
        if !hashes.contains(&hash[..]) {
            list.add(&surplus.in_the_way_if(hashes.contains(&other_kind(hash)[..])))?;
        }
    }
    Ok(())
}

/// A walk of everything below the data set's root at the target, but for what is protected there:
/// what the user's rules exclude, at either side; what lies where something was mounted that was
/// left out at the source; with `--one-file-system`, what is mounted here; the backup directory.
struct Walk<'a> {
    target: &'a Target,
    root: &'a [u8],
    backup: Option<&'a [u8]>,
    selector: Selector,
    unlisted: HashSet<PathHash>,
    /// The root's file system.
    device: Option<u64>,
}

impl<'a> Walk<'a> {
    fn new(
        target: &'a Target,
        wish: Wish<'a>,
        unlisted: HashSet<PathHash>,
    ) -> Result<Self, Problem> {
        let Wish { root, update, select } = wish;
        let selector = select.compile().map_err(|cause| {
            Problem::new(Exit::Usage, "select", "what to choose cannot be read").because(cause)
        })?;
        let backup = update.backup_dir.as_ref().map(|path| path.0.as_slice());
        Ok(Self { target, root, backup, selector, unlisted, device: None })
    }

    /// Whether something is to be passed over, with all that is in it.
    fn is_protected(&self, path: &[u8], meta: &Meta) -> bool {
        let directory = meta.kind == Kind::Directory;
        self.backup == Some(path)
            || self.selector.verdict_here(path, directory) == Verdict::Excluded
            || self.device.is_some_and(|device| directory && device != meta.device)
    }

    /// Shows all that is not protected; directories that wait are kept in `scratch` if they are
    /// many.
    fn run(
        &mut self,
        scratch: &Path,
        visit: &mut dyn FnMut(Surplus) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut buffer = ListBuffer::new();
        let mut stack = PathStack::new(scratch);
        stack.push(Vec::new());
        while let Some(directory) = stack.pop().map_err(|cause| spill_failed(scratch, &cause))? {
            self.list(&directory, &mut buffer, &mut stack, visit)?;
        }
        Ok(())
    }

    fn list(
        &mut self,
        directory: &[u8],
        buffer: &mut ListBuffer,
        stack: &mut PathStack,
        visit: &mut dyn FnMut(Surplus) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let failed = |error: &StoreError| {
            let title = "the target cannot be listed, so nothing is deleted";
            Problem::new(Exit::Refused, "delete-refused", title).because(chain(error))
        };
        let target = self.target;
        let dir = match target.open_dir(&name::join(self.root, directory)) {
            Ok(dir) => dir,
            Err(error) if error.is_vanished() => return Ok(()),
            // The root itself is a file or link: there is nothing below it.
            Err(StoreError::NotDirectory { .. }) if directory.is_empty() => return Ok(()),
            Err(error) => return Err(failed(&error)),
        };
        if self.selector.one_file_system && directory.is_empty() {
            let root = target.meta(&dir, b"").map_err(|error| failed(&error))?;
            self.device = root.map(|root| root.device);
        }
        let mut outcome = Ok(());
        let listed = target.list(&dir, buffer, &mut |entry| {
            let path = name::join(directory, entry.name);
            let meta = match target.meta(&dir, entry.name) {
                Ok(Some(meta)) => meta,
                Ok(None) => return ControlFlow::Continue(()),
                Err(error) => {
                    outcome = Err(failed(&error));
                    return ControlFlow::Break(());
                }
            };
            if self.is_protected(&path, &meta) {
                return ControlFlow::Continue(());
            }
            let unknown =
                !self.unlisted.is_empty() && self.unlisted.contains(&hash_of(&path, true));
            if meta.kind == Kind::Directory && !unknown {
                stack.push(path.clone());
            }
            outcome = visit(Surplus::of(path, &meta));
            if outcome.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        outcome?;
        listed.map_err(|error| failed(&error))
    }
}

/// Deletes what the list says, or moves it to the backup directory.
///
/// # Errors
/// The store is at fault; the list cannot be read. What fails by itself is handed over.
pub(crate) fn delete(
    target: &Target,
    spec: &TaskSpec,
    order: DeleteOrder<'_>,
    check_store: &dyn Fn() -> Result<(), Problem>,
) -> Result<(), Problem> {
    let file = File::open(order.list).map_err(|cause| spill_failed(order.list, &cause))?;
    let mut remover = Remover { target, spec, dirs: DirCache::default() };
    let chosen = if order.only_in_the_way { Some(InTheWay::read(order.list)?) } else { None };
    for (at, line) in BufReader::new(file).lines().enumerate() {
        if order.stop.load(Ordering::Acquire) {
            return Err(stopped());
        }
        if (at as u64).is_multiple_of(CHECK_EVERY) {
            check_store()?;
        }
        let line = line.map_err(|cause| spill_failed(order.list, &cause))?;
        let surplus = read_line(&line, order.list)?;
        if chosen.as_ref().is_some_and(|chosen| !chosen.holds(&surplus)) {
            continue;
        }
        let why = match remover.remove(&surplus) {
            Ok(Removal::Done) => {
                order.deleted.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Ok(Removal::Vanished) => continue,
            Ok(Removal::Changed) => "it changed after it was looked at".to_owned(),
            // Something of ours or of others is in it, that was not to be deleted.
            Ok(Removal::NotEmpty) => continue,
            Err(error) if is_of_store(target, &error) => return Err(full_problem(&error)),
            Err(error) => chain(&error),
        };
        (order.failed)(FailedItem {
            path: surplus.path,
            code: "delete".to_owned(),
            message: format!("was not deleted at the target: {why}"),
        })?;
    }
    Ok(())
}

struct Remover<'a> {
    target: &'a Target,
    spec: &'a TaskSpec,
    dirs: DirCache,
}

impl Remover<'_> {
    fn remove(&mut self, surplus: &Surplus) -> Result<Removal, StoreError> {
        let root = &self.spec.root.0;
        let path = name::join(root, &surplus.path.0);
        let Some((parent, leaf)) = name::split(&path) else { return Ok(Removal::Vanished) };
        if is_temporary_name(leaf) {
            return Ok(Removal::Changed);
        }
        let target = self.target;
        let opened = self.dirs.get(sys::boottime_now(), parent, |path| target.open_dir(path));
        let dir = match opened {
            Ok(dir) => dir,
            Err(error) if error.is_vanished() => return Ok(Removal::Vanished),
            Err(error) => return Err(error),
        };
        let Some(now) = target.meta(&dir, leaf)? else { return Ok(Removal::Vanished) };
        let seen = surplus.seen(&now);
        let Some(backup) = &self.spec.update.backup_dir else {
            return target.remove_seen(&dir, leaf, &seen);
        };
        if surplus.kind == SurplusKind::Directory {
            return target.remove_seen(&dir, leaf, &seen);
        }
        let kept = backup_path(root, &backup.0, &surplus.path.0);
        let Some((kept_in, kept_as)) = name::split(&kept) else { return Ok(Removal::Vanished) };
        let to = self.dirs.get(sys::boottime_now(), kept_in, |path| target.make_dirs(path))?;
        target.move_seen(&dir, leaf, &seen, (&to, kept_as))
    }
}

/// Where the old version of something goes: the same path below the backup directory.
pub(crate) fn backup_path(root: &[u8], backup: &[u8], path: &[u8]) -> Vec<u8> {
    name::join(&name::join(root, backup), path)
}

#[cfg(test)]
mod tests;
