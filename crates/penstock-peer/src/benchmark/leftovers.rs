//! Records of benchmarks in the site directory, and the removal of their files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use penstock_api::benchmark::BenchmarkCleaned;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::benchmark::BenchmarkPart;
use penstock_api::task::TaskSpec;
use penstock_api::transfer::PathText;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::name;
use penstock_store::{Kind, ListBuffer, Removal, StoreError, Target};

/// Begin of the name of the directory of a benchmark; its id follows.
const PREFIX: &str = ".penstock-bench-";

/// Records of benchmarks that may have files.
pub(super) struct Leftovers {
    directory: PathBuf,
    /// Records that cannot be read, and were warned of.
    unreadable: Mutex<BTreeSet<PathBuf>>,
}

impl Leftovers {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, unreadable: Mutex::default() }
    }

    fn path(&self, id: TransferId) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    /// Records a part before it makes its first file. Durable.
    pub(super) fn record(&self, part: &BenchmarkPart) -> Result<(), Problem> {
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.directory)?;
            let path = self.path(part.id);
            let fresh = path.with_extension("new");
            let mut file = File::create(&fresh)?;
            file.write_all(&serde_json::to_vec(part)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        write().map_err(|error| {
            let title = format!("cannot record the benchmark in `{}`", self.directory.display());
            Problem::new(ProblemCode::BenchmarkFailed, title).because(error)
        })
    }

    /// Forgets a part whose files are removed.
    pub(super) fn forget(&self, id: TransferId) {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the record of a benchmark stays");
            }
            _ => {}
        }
    }

    /// Returns all recorded parts. A record that a crash has cut short is older than any file of
    /// its benchmark, and is removed. A record that this release cannot read stays.
    pub(super) fn all(&self) -> Vec<BenchmarkPart> {
        let Ok(found) = fs::read_dir(&self.directory) else { return Vec::new() };
        let mut parts = Vec::new();
        for path in found.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "new") {
                drop(fs::remove_file(&path));
                continue;
            }
            let read = fs::read(&path).map(|bytes| serde_json::from_slice(&bytes));
            match read.and_then(|part| part.map_err(io::Error::from)) {
                Ok(part) => parts.push(part),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let mut told = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
                    if told.insert(path.clone()) {
                        let path = path.display();
                        tracing::warn!(%error, %path, "cannot read the record of a benchmark");
                    }
                }
            }
        }
        parts
    }
}

/// Returns the directory of a benchmark, and below it that of a peer.
pub(super) fn directories(part: &BenchmarkPart, of_part: u32) -> (Vec<u8>, Vec<u8>) {
    let own = format!("{PREFIX}{}", part.id);
    let all = name::join(&part.place.path.0, own.as_bytes());
    let own = name::join(&all, format!("p{of_part}").as_bytes());
    (all, own)
}

/// Returns the writer as which a peer takes part: the only one, or one of several.
pub(super) fn writer_of(part: &BenchmarkPart) -> WriterId {
    match part.parts {
        0 | 1 => WriterId::SOLE,
        _ => WriterId(u64::from(part.part) + 1),
    }
}

/// Returns a task on files of a benchmark, which checks that its store is the same, and that all is
/// mounted that was when the benchmark began.
pub(super) fn spec_of(part: &BenchmarkPart, root: PathText) -> TaskSpec {
    TaskSpec {
        store_id: part.store_id,
        mounts: part.mounts.clone(),
        account: part.place.account.clone(),
        ..TaskSpec::of_cleaning(part.id, part.place.store.clone(), root)
    }
}

/// Returns whether a server, whose cache this host cannot drop, may answer a read.
pub(super) fn has_server(target: &Target) -> bool {
    match target {
        Target::Posix(store) => store.file_system().is_network(),
        Target::Null => false,
    }
}

/// Removes the files of a part and its sync marker, and the directory of the benchmark if no other
/// peer has files there. Returns the removed files, and whether any stay. Blocks. May be repeated.
///
/// # Errors
/// The store cannot be used.
pub(super) fn remove_part(
    target: &Target,
    part: &BenchmarkPart,
) -> Result<(BenchmarkCleaned, bool), StoreError> {
    let (all, own) = directories(part, part.part);
    let mut cleaned = BenchmarkCleaned::default();
    remove_tree(target, &own, &mut cleaned, &|| false)?;
    let stays = is_there(target, &own)?;
    cleaned.directories += u64::from(remove_if_empty(target, &all)?);
    target.remove_marker((part.id, writer_of(part)))?;
    Ok((cleaned, stays))
}

/// Removes the directories of all benchmarks in the directory at `path`, but for those in `spared`.
///
/// # Errors
/// Those of [`remove_part`].
pub(super) fn remove_directories(
    target: &Target,
    path: &[u8],
    spared: &[TransferId],
    cleaned: &mut BenchmarkCleaned,
) -> Result<(), StoreError> {
    for (name, kind) in names_in(target, path)? {
        let id = std::str::from_utf8(&name).ok().and_then(|name| name.strip_prefix(PREFIX));
        let Some(Ok(id)) = id.map(str::parse::<TransferId>) else { continue };
        // A file or a link of this name belongs to no benchmark.
        if !spared.contains(&id) && kind_of(target, path, (&name, kind))? == Some(Kind::Directory) {
            remove_tree(target, &name::join(path, &name), cleaned, &|| false)?;
        }
    }
    Ok(())
}

/// A name of a directory, with its kind if the listing has it.
type ListedName = (Vec<u8>, Option<Kind>);

fn names_in(target: &Target, path: &[u8]) -> Result<Vec<ListedName>, StoreError> {
    let dir = match target.open_dir(path) {
        Ok(dir) => dir,
        Err(error) if error.is_absent() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    target.list(&dir, &mut ListBuffer::new(), &mut |entry| {
        names.push((entry.name.to_vec(), entry.kind));
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

/// Returns the kind of a listed name; `None` if it has gone.
fn kind_of(
    target: &Target,
    path: &[u8],
    (name, kind): (&[u8], Option<Kind>),
) -> Result<Option<Kind>, StoreError> {
    match kind {
        Some(kind) => Ok(Some(kind)),
        None => Ok(target.meta(&target.open_dir(path)?, name)?.map(|meta| meta.kind)),
    }
}

/// Returns whether there is something at a path.
fn is_there(target: &Target, path: &[u8]) -> Result<bool, StoreError> {
    let Some((parent, name)) = name::split(path) else { return Ok(true) };
    match target.open_dir(parent) {
        Ok(dir) => Ok(target.meta(&dir, name)?.is_some()),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a directory of ours with its content, until `stops` returns true. A missing directory is
/// no error. Links are removed and never followed.
///
/// # Errors
/// Those of [`remove_part`].
pub(super) fn remove_tree(
    target: &Target,
    path: &[u8],
    cleaned: &mut BenchmarkCleaned,
    stops: &dyn Fn() -> bool,
) -> Result<(), StoreError> {
    let names = names_in(target, path)?;
    if !names.is_empty() {
        let dir = target.open_dir(path)?;
        for (name, kind) in names {
            if stops() {
                return Ok(());
            }
            match kind_of(target, path, (&name, kind))? {
                Some(Kind::Directory) => {
                    remove_tree(target, &name::join(path, &name), cleaned, stops)?;
                }
                Some(_) => cleaned.files += u64::from(target.remove(&dir, &name)?),
                None => {}
            }
        }
    }
    cleaned.directories += u64::from(remove_if_empty(target, path)?);
    Ok(())
}

fn remove_if_empty(target: &Target, path: &[u8]) -> Result<bool, StoreError> {
    let Some((parent, name)) = name::split(path) else { return Ok(false) };
    let dir = match target.open_dir(parent) {
        Ok(dir) => dir,
        Err(error) if error.is_absent() => return Ok(false),
        Err(error) => return Err(error),
    };
    let Some(seen) = target.meta(&dir, name)? else { return Ok(false) };
    target.remove_seen(&dir, name, &seen).map(|removal| removal == Removal::Done)
}
