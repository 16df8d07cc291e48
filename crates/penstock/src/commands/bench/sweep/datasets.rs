//! The data sets of a sweep, and its own directories in the stores.
//!
//! All that a sweep makes in a store is below `.penstock-sweep-ID` in the directory of the matrix:
//! `data` with the data sets, `run` for the cells, `none` with nothing but an empty directory, from
//! which a transfer clears `run` where this host does not reach it, and `at-SITE-STORE`. The id is
//! drawn by chance.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use penstock_api::place::{Location, PathText};
use penstock_api::plan::ItemKind;
use penstock_api::rest::StoreSpace;
use penstock_api::transfer::{TransferOptions, TransferRequest};
use penstock_api::update::UpdateOptions;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::TransferId;
use penstock_proto::units::{counted, format_bytes};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};
use rustix::fs::{Access, AtFlags, CWD, accessat, syncfs};

use super::ends::{End, Ends};
use super::matrix::{DatasetName, Direction, Matrix, Origin};
use super::record::{DIRECTORY, Dataset};
use crate::commands::bench::interruption::interrupted;
use crate::commands::bench::mover::Mover;
use crate::dataset::{Counts, Filled, Shape, fill, path_within};

/// Files of a data set of which a sample is.
const SAMPLE_FILES: usize = 64;
/// Bytes that a file takes beside its content, at most, where room is reckoned.
const FILE_BYTES: u64 = 4096;
/// The next step where this user may not write.
const AS_USER: &str = "run the sweep as root or as the user of the daemon; or make the data set \
                       with `penstock dataset make`, and name it as dir:PATH";

/// A data set that was counted, with the paths of some of its files.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) dataset: Dataset,
    pub(super) sample: Vec<PathText>,
}

/// Counts the files of a data set; has an existing one listed by the daemons.
///
/// # Errors
/// It cannot be listed, or has no file.
pub(super) fn count(ends: &Ends, name: &DatasetName, seed: u64) -> anyhow::Result<Counted> {
    let mut counts = Counts::default();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut sample = Vec::new();
    // Each file of those so far is in the sample with the same chance (J. S. Vitter, Random
    // Sampling with a Reservoir, 1985).
    let mut see = |files: u64, path: &mut dyn FnMut() -> PathText| {
        let place = random.next_u64() % files;
        match sample.get_mut(place as usize) {
            _ if files <= SAMPLE_FILES as u64 => sample.push(path()),
            Some(other) => *other = path(),
            None => {}
        }
    };
    match &name.origin {
        Origin::Made(shape) => {
            let sizes = shape.sizes();
            for (file, size) in sizes.iter().enumerate() {
                counts.add(*size);
                let path = || path_within(sizes.len(), file).into_os_string().into_vec();
                see(file as u64 + 1, &mut || PathText(path()));
            }
        }
        Origin::Existing(path) => {
            let what = format!("data set `{}`", name.as_str());
            ends.check_directory(&ends.source, path, &what)?;
            let source = ends.source.at(path.clone(), true);
            let target = ends.target.at(ends.target.path(".penstock-sweep-plan"), false);
            let id = TransferId(rand::random());
            let options = TransferOptions::default();
            let mut files = 0;
            ends.plan(TransferRequest::new(id, source, target, options), |item| {
                if item.kind == ItemKind::File {
                    files += 1;
                    counts.add(item.size);
                    see(files, &mut || item.path.clone());
                }
            })?;
        }
    }
    if counts.files() == 0 {
        let message = format!("data set `{}` has no file", name.as_str());
        let hint = "name a directory with files; a transfer of none has no rate";
        return Err(Failure::new(ExitCode::Usage, message).hint(hint).into());
    }
    Ok(Counted { dataset: Dataset::of(name.as_str(), &counts), sample })
}

/// Bytes and files that an end has to have room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

/// Returns the room that source and target need: for the data sets that are made or copied there,
/// and for the largest cell.
pub(super) fn room(matrix: &Matrix, sets: &[Dataset]) -> [Room; 2] {
    let directions = matrix.direction.all();
    let is = |direction| directions.contains(&direction);
    let mut rooms = [Room::default(); 2];
    let mut largest = Room::default();
    for (name, set) in matrix.datasets.iter().zip(sets) {
        let is_made = matches!(name.origin, Origin::Made(_));
        let has = [is(Direction::Forward) && is_made, is(Direction::Reverse)];
        for (room, _) in rooms.iter_mut().zip(has).filter(|(_, has)| *has) {
            room.bytes += set.bytes + set.files * FILE_BYTES;
            room.files += set.files;
        }
        let bytes = set.bytes + set.files * FILE_BYTES;
        largest.bytes = largest.bytes.max(bytes);
        largest.files = largest.files.max(set.files);
    }
    for (room, receives) in rooms.iter_mut().zip([Direction::Reverse, Direction::Forward]) {
        if is(receives) {
            room.bytes += largest.bytes;
            room.files += largest.files;
        }
    }
    rooms
}

/// Checks that a store has room.
///
/// # Errors
/// It has too little.
pub(super) fn check_room(
    place: &str,
    needed: Room,
    space: Option<&StoreSpace>,
) -> anyhow::Result<()> {
    let Some(space) = space else { return Ok(()) };
    let why = if needed.bytes > space.free_bytes {
        let (needed, free) = (format_bytes(needed.bytes), format_bytes(space.free_bytes));
        format!("the sweep needs {needed} at a time, {free} are free")
    } else if space.free_files.is_some_and(|free| needed.files > free) {
        let free = space.free_files.unwrap_or_default();
        format!("the sweep needs {} at a time, {free} can be made", counted(needed.files, "file"))
    } else {
        return Ok(());
    };
    Err(Failure::new(ExitCode::Fatal, format!("`{place}` has too little room"))
        .caused_by(why)
        .hint("free some, take smaller data sets, or sweep them one by one")
        .into())
}

/// The directories of one sweep.
pub(super) struct Directories<'a> {
    pub(super) ends: &'a Ends,
    pub(super) id: String,
}

impl Directories<'_> {
    fn own(&self, end: &End, below: &str) -> PathText {
        let name = format!("{DIRECTORY}{}", self.id);
        end.path(&if below.is_empty() { name } else { format!("{name}/{below}") })
    }

    /// Returns where a directory of the sweep is on this host, if this host reaches the store.
    ///
    /// A directory that the API made in this very store has to be there: another host may have its
    /// store at the same path. The path has no symbolic link: another user may have put one there.
    fn on_host(&self, end: &End, below: &str) -> Option<PathBuf> {
        let place = end.on_host(&self.own(end, ""))?;
        let path = if below.is_empty() { place.clone() } else { place.join(below) };
        let is_plain = path.canonicalize().is_ok_and(|real| {
            end.on_host(&PathText(Vec::new()))
                .and_then(|root| Some((root.canonicalize().ok()?, path.strip_prefix(root).ok()?)))
                .is_some_and(|(root, below)| root.join(below) == real)
        });
        (is_plain && path.is_dir() && place.join(mark_of(end)).is_dir()).then_some(path)
    }

    fn data(&self, end: &End, name: &DatasetName) -> Location {
        end.at(self.own(end, &format!("data/{}", name.slug())), true)
    }

    /// Returns the source of a cell.
    pub(super) fn source(&self, name: &DatasetName, direction: Direction) -> Location {
        let (from, _) = self.ends.of(direction);
        match (&name.origin, direction) {
            (Origin::Existing(path), Direction::Forward) => from.at(path.clone(), true),
            _ => self.data(from, name),
        }
    }

    /// Returns the target of a cell: a directory that no other cell has.
    pub(super) fn target(&self, cell: &str, direction: Direction) -> Location {
        let (_, to) = self.ends.of(direction);
        to.at(self.own(to, &format!("run/{cell}")), false)
    }

    /// Makes directories and data sets that are not there yet. Blocks for as long as that takes.
    ///
    /// # Errors
    /// A directory or a file cannot be made; a data set is needed where this host reaches neither
    /// store; exit 130.
    pub(super) fn prepare(
        &self,
        matrix: &Matrix,
        mover: &Mover<'_>,
        seed: u64,
    ) -> anyhow::Result<()> {
        let directions = matrix.direction.all();
        let makes = matrix.datasets.iter().any(|name| matches!(name.origin, Origin::Made(_)));
        let (source, target) = (&self.ends.source, &self.ends.target);
        if makes || directions.contains(&Direction::Reverse) {
            mover.ask_patiently(|_| self.make_own(source))?;
        }
        mover.ask_patiently(|_| self.make_own(target))?;
        for name in &matrix.datasets {
            mover.interruption.check()?;
            self.provide(name, directions, mover, seed)?;
        }
        Ok(())
    }

    fn make_own(&self, end: &End) -> anyhow::Result<()> {
        for below in ["", "data", "run", "none", "none/empty", &mark_of(end)] {
            self.ends.make_directory(end, self.own(end, below))?;
        }
        Ok(())
    }

    /// Makes a data set where it is needed: by this host where it reaches the store, else by a
    /// transfer from the other end.
    fn provide(
        &self,
        name: &DatasetName,
        directions: &[Direction],
        mover: &Mover<'_>,
        seed: u64,
    ) -> anyhow::Result<()> {
        let ends = [&self.ends.source, &self.ends.target];
        let is_needed = |at: usize| match (&name.origin, at) {
            (Origin::Existing(_), 0) => false,
            (_, 0) => directions.contains(&Direction::Forward),
            _ => directions.contains(&Direction::Reverse),
        };
        let mut has = [matches!(name.origin, Origin::Existing(_)), false];
        if let Origin::Made(shape) = &name.origin {
            let may_make = |path: &PathBuf| is_whole(path) || path.parent().is_some_and(may_write);
            let path = |end: &End| Some(self.on_host(end, "data")?.join(name.slug()));
            let local = ends.map(|end| path(end).filter(may_make));
            for (at, path) in local.iter().enumerate() {
                // One that is not needed here is copied from here.
                let Some(path) = path.as_ref().filter(|_| is_needed(at) || local[1 - at].is_none())
                else {
                    continue;
                };
                make(path, shape, seed, &ends[at].shown())?;
                has[at] = true;
            }
        }
        for at in (0..2).filter(|at| is_needed(*at)) {
            if has[at] {
                continue;
            }
            if !has[1 - at] {
                let local = ends.into_iter().find_map(|end| self.on_host(end, "data"));
                return Err(cannot_make(name, &ends[at].shown(), local.as_deref()).into());
            }
            let from = match &name.origin {
                Origin::Existing(path) => ends[0].at(path.clone(), true),
                Origin::Made(_) => self.data(ends[1 - at], name),
            };
            exit::warn(&format!("copying {} to {}", name.as_str(), ends[at].shown()));
            let to = Location { slash: false, ..self.data(ends[at], name) };
            let update = UpdateOptions { sync: true, ..UpdateOptions::default() };
            let options = TransferOptions { update, ..TransferOptions::default() };
            if let Some(error) = mover.run("copies a data set", from, to, options)?.error() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Empties the directory of cells at the target of a direction.
    ///
    /// # Errors
    /// Something cannot be removed; as [`Mover::run`].
    pub(super) fn clear(&self, direction: Direction, mover: &Mover<'_>) -> anyhow::Result<()> {
        let (_, to) = self.ends.of(direction);
        self.empty(to, "run", mover)
    }

    fn empty(&self, end: &End, below: &str, mover: &Mover<'_>) -> anyhow::Result<()> {
        if let Some(path) = self.on_host(end, below) {
            match fs::remove_dir_all(&path) {
                Ok(()) => {
                    let make = || self.ends.make_directory(end, self.own(end, below));
                    return mover.ask_patiently(|_| make());
                }
                // The daemon may be another user.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                Err(error) => {
                    return Err(Failure::io(format!("remove `{}`", path.display()), error).into());
                }
            }
        }
        // A transfer is submitted at the own site, which has one of its ends.
        let is_own = end.site == self.ends.own;
        let other = if end.store == self.ends.source.store && end.site == self.ends.source.site {
            &self.ends.target
        } else {
            &self.ends.source
        };
        let from = if is_own { end } else { other };
        mover.ask_patiently(|_| self.make_own(from))?;
        let source = from.at(self.own(from, "none"), true);
        let target = end.at(self.own(end, below), false);
        let update = UpdateOptions {
            sync: true,
            delete: true,
            max_delete: Some(u64::MAX),
            ..UpdateOptions::default()
        };
        let options = TransferOptions { update, ..TransferOptions::default() };
        match mover.run("clears its directory", source, target, options)?.error() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns whether an end has the directory of the sweep.
    fn is_there(&self, end: &End, mover: &Mover<'_>) -> anyhow::Result<bool> {
        let own = self.own(end, "");
        mover.ask_patiently(|_| self.ends.has_directory(end, &own))
    }

    /// Removes all that the sweep has made in the stores, and returns what is left at each end.
    /// Where this host does not reach a store, or may not write there, empty directories stay,
    /// which are named.
    ///
    /// # Errors
    /// As [`Directories::clear`], with the place.
    pub(super) fn remove(&self, mover: &Mover<'_>) -> anyhow::Result<[(Location, Remains); 2]> {
        let ends = [&self.ends.source, &self.ends.target];
        let mut remains = ends.map(|end| (end.at(self.own(end, ""), false), Remains::NotThere));
        // One end may be emptied from a directory of the other.
        for (end, (place, remains)) in ends.into_iter().zip(&mut remains) {
            let empty = || -> anyhow::Result<Remains> {
                if !self.is_there(end, mover)? {
                    return Ok(Remains::NotThere);
                }
                if let Some(data) = self.on_host(end, "data") {
                    let failed = |error| Failure::io(format!("unmark `{}`", data.display()), error);
                    unmark(&data).map_err(failed)?;
                }
                self.empty(end, "run", mover)?;
                self.empty(end, "data", mover)?;
                Ok(Remains::Removed)
            };
            let failed = |error: anyhow::Error| error.context(format!("cannot empty {place}"));
            *remains = empty().map_err(failed)?;
        }
        for (end, (place, remains)) in ends.into_iter().zip(&mut remains) {
            let is_removed =
                self.on_host(end, "").is_some_and(|path| fs::remove_dir_all(path).is_ok());
            if !is_removed && self.is_there(end, mover)? {
                *remains = Remains::EmptyDirectories;
                exit::warn(&format!("empty directories stay in {place}: remove them there"));
            }
        }
        Ok(remains)
    }
}

/// The state of a sweep's directory in a store after its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remains {
    /// It was not there before.
    NotThere,
    /// It is removed.
    Removed,
    /// It has no file any more.
    EmptyDirectories,
}

/// Returns the name of the directory that tells one end from the other.
fn mark_of(end: &End) -> String {
    format!("at-{}-{}", end.site, end.store)
}

/// Returns the mark beside a data set that says that it is whole.
fn mark_beside(path: &Path) -> PathBuf {
    let mut mark = path.to_owned().into_os_string();
    mark.push(".made");
    PathBuf::from(mark)
}

fn is_whole(path: &Path) -> bool {
    mark_beside(path).exists()
}

/// Returns whether this user may make files in a directory.
fn may_write(directory: &Path) -> bool {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, directory, access, AtFlags::EACCESS).is_ok()
}

/// Makes a data set on this host, unless a mark beside it says that it is whole.
fn make(path: &Path, shape: &Shape, seed: u64, place: &str) -> anyhow::Result<()> {
    if is_whole(path) {
        return Ok(());
    }
    exit::warn(&format!("making {shape} in {place}"));
    let filled = fill(path, shape, seed).map_err(|error| match is_denied(&error) {
        true => Failure::new(exit::code_of(&error), format!("{error:#}")).hint(AS_USER).into(),
        false => error,
    })?;
    if filled == Filled::Interrupted {
        return Err(interrupted());
    }
    let failed = |error| Failure::io(format!("sync `{}`", path.display()), error);
    Ok(settle(path).map_err(failed)?)
}

/// Syncs a data set, so that no cell competes with the writing of what was made; then makes its
/// mark, durably. So a mark that a power cut leaves is that of a whole data set.
fn settle(path: &Path) -> io::Result<()> {
    syncfs(File::open(path)?)?;
    let mark = mark_beside(path);
    File::create(&mark)?.sync_all()?;
    File::open(mark.parent().unwrap_or(path))?.sync_all()
}

/// Removes the marks of all data sets in a directory, durably, if this user may: a data set that an
/// interruption leaves in part is then made anew.
fn unmark(data: &Path) -> io::Result<()> {
    let remove = || {
        for entry in fs::read_dir(data)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "made") && path.is_file() {
                fs::remove_file(path)?;
            }
        }
        File::open(data)?.sync_all()
    };
    match remove() {
        Err(error) if error.kind() != ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

fn is_denied(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|link| link.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::PermissionDenied)
}

/// Checks that this host can make the data sets of a matrix. Nothing is made. A directory that the
/// daemon makes later may still belong to its user alone.
///
/// # Errors
/// It has neither directory of the matrix, or this user may write in neither.
pub(super) fn check_makable(ends: &Ends, matrix: &Matrix) -> Result<(), Failure> {
    let is_made = |name: &&DatasetName| matches!(name.origin, Origin::Made(_));
    let Some(name) = matrix.datasets.iter().find(is_made) else { return Ok(()) };
    let both = [&ends.source, &ends.target].into_iter();
    let local = both.filter(|end| end.seems_local()).filter_map(|end| end.on_host(&end.dir));
    let local: Vec<PathBuf> = local.collect();
    if local.iter().any(|directory| may_write(directory)) {
        return Ok(());
    }
    Err(cannot_make(name, &ends.source.shown(), local.first().map(PathBuf::as_path)))
}

/// Returns the failure of a data set for which this host has neither directory, or in whose
/// `local` one this user may not write.
fn cannot_make(name: &DatasetName, place: &str, local: Option<&Path>) -> Failure {
    let name = name.as_str();
    let message = format!("data set `{name}` cannot be made in `{place}` from this host");
    match local {
        Some(path) => Failure::new(ExitCode::NotAuthorised, message)
            .caused_by(format!("this user may not write in `{}`", path.display()))
            .hint(AS_USER),
        None => Failure::new(ExitCode::Usage, message).hint(
            "run the sweep on a host that has the directory of the store, as a user who may write \
             there; or make the data set there with `penstock dataset make`, and name it as \
             dir:PATH",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::matrix::parse;
    use super::*;

    fn needed(direction: &str) -> [Room; 2] {
        let text = format!(
            "source = \"a:b\"\ntarget = \"c:d\"\ndatasets = [\"10x1MiB\", \"dir:x\"]\n\
             direction = \"{direction}\"\n"
        );
        let matrix = parse(Path::new("m"), &text).unwrap();
        let set = |files: u64, bytes| {
            let name = String::new();
            Dataset { name, files, bytes, histogram: Vec::new() }
        };
        room(&matrix, &[set(10, 10 << 20), set(1, 1 << 30)])
    }

    /// Promise: a data set is made once: it has its mark when it is whole, and then is not touched,
    /// until its removal begins.
    #[test]
    fn a_data_set_is_made_once() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("2x1KiB");
        let shape: Shape = "2x1KiB".parse().unwrap();
        assert!(may_write(root.path()) && !may_write(&path) && !is_whole(&path));
        make(&path, &shape, 7, "a:b").unwrap();
        assert!(is_whole(&path));
        let file = path.join(path_within(2, 0));
        fs::write(&file, "other").unwrap();
        make(&path, &shape, 7, "a:b").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"other");
        unmark(root.path()).unwrap();
        assert!(!is_whole(&path) && file.exists());
        make(&path, &shape, 7, "a:b").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().len(), 1024);
    }

    /// Promise: a user who may not write is told so, with the next step.
    #[test]
    fn a_denied_data_set_has_a_hint() {
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        let error = Failure::io("make directory `x`", denied).into();
        let full = Failure::io("make directory `x`", ErrorKind::StorageFull.into()).into();
        assert!(is_denied(&error) && !is_denied(&full));
        let name = DatasetName::try_from("1x1".to_owned()).unwrap();
        let text = |local: Option<&Path>| {
            let error = cannot_make(&name, "lab:data", local).into();
            (format!("{error:#}"), exit::hint_of(&error).unwrap().to_owned())
        };
        let (denied, hint) = text(Some(Path::new("/srv/data")));
        assert!(denied.contains("may not write in `/srv/data`") && hint.contains("as root"));
        let (elsewhere, hint) = text(None);
        assert!(!elsewhere.contains("may not") && hint.contains("on a host"), "{elsewhere}");
    }

    /// Promise: room is needed for what is made or copied, and for the largest cell at whatever end
    /// receives.
    #[test]
    fn room_is_for_sets_and_the_largest_cell() {
        let small = Room { bytes: (10 << 20) + 10 * 4096, files: 10 };
        let large = Room { bytes: (1 << 30) + 4096, files: 10 };
        let both = Room { bytes: small.bytes + large.bytes, files: 11 };
        assert_eq!(needed("forward"), [small, large]);
        assert_eq!(needed("reverse"), [large, both]);
        let all = |one: Room, other: Room| Room {
            bytes: one.bytes + other.bytes,
            files: one.files + other.files,
        };
        assert_eq!(needed("both"), [all(small, large), all(both, large)]);
        let space = |free_bytes, free_files| StoreSpace { free_bytes, total_bytes: 0, free_files };
        let check = |space: StoreSpace| check_room("a:b", small, Some(&space));
        assert!(check(space(small.bytes, None)).is_ok());
        assert!(check(space(small.bytes - 1, None)).is_err());
        assert!(check(space(small.bytes, Some(9))).is_err());
        assert!(check_room("a:b", small, None).is_ok());
    }
}
