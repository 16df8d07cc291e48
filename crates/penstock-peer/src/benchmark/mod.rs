//! The part of this host in a benchmark of a store.
//!
//! Bytes are written and read by the code of a transfer, without a second form of it: a step is a
//! task ([`crate::task`]) whose source or target keeps nothing. To write, its source is a generated
//! data set; to read, its target is `null:`. This module grants the pieces of that one task, as the
//! controller does for a transfer, with the same pages and pieces.
//!
//! **On disk.** All files are below `DIR/.penstock-bench-ID/pN`, where N is the number of the peer.
//! Before that directory is made, a record of it is synced to the site directory. When the daemon
//! starts, or when files could not be removed, the daemon removes the files that the records name,
//! and repeats that until the store is available. A record is removed when the very store that it
//! names has none of its files.
//!
//! | module | duty |
//! |---|---|
//! | `session` | one benchmark from its begin to its end, and its steps |
//! | `data_step` | a step that writes or reads: the task, and its grants |
//! | `file_set` | the pages of the files of a step |
//! | `host_caches` | the caches of all files of the host |
//! | `metadata_step` | a step that works on names |
//! | `store_devices` | the block devices below the files, and their work while a step runs |
//! | `leftovers` | records of benchmarks, and the removal of their files |

mod data_step;
mod file_set;
mod host_caches;
mod leftovers;
mod metadata_step;
mod session;
mod store_devices;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use penstock_api::benchmark::{BenchmarkCleaned, BenchmarkFileSystem, BenchmarkPeer};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::benchmark::{
    BenchmarkFacts, BenchmarkOrder, BenchmarkPart, BenchmarkPlace, BenchmarkReply,
};
use penstock_api::transfer::PathText;
use penstock_proto::id::{Name, TransferId};
use penstock_store::{Source, Target};

use crate::benchmark::host_caches::HostCaches;
use crate::benchmark::leftovers::{Leftovers, directories, remove_directories, spec_of};
use crate::benchmark::session::{Prepared, Session};
use crate::benchmark::store_devices::StoreDevices;
use crate::stores::StoreKind;
use crate::stores::access::{Absence, AccessError};
use crate::stores::chain;
use crate::stores::errors::Cause;
use crate::stores::mounts::mounts_of;
use crate::target::{TargetService, id_of};
use crate::task::error::TaskError;

/// Time without an order or a sign of life after which the controller counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Interval at which an idle benchmark is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// First and longest pause before files that could not be removed are tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// This host's part in benchmarks; one runs at a time.
pub struct BenchmarkHost {
    target: Arc<TargetService>,
    peer: Name,
    leftovers: Leftovers,
    caches: HostCaches,
    session: Mutex<Option<Arc<Session>>>,
    /// Held while files are removed.
    removal: Mutex<()>,
    /// True while a thread removes the files that records name.
    removes: Mutex<bool>,
    wanted: Condvar,
}

impl BenchmarkHost {
    /// Creates the part of the peer `peer`, which keeps its records in `directory`.
    pub fn new(target: Arc<TargetService>, peer: Name, directory: PathBuf) -> Self {
        let leftovers = Leftovers::new(directory);
        let (caches, session, removal, removes, wanted) = Default::default();
        Self { target, peer, leftovers, caches, session, removal, removes, wanted }
    }

    /// Removes files that benchmarks have left, also those of an earlier process, on a thread of
    /// its own. A store that cannot be used is tried again until it can.
    pub fn recover(self: &Arc<Self>) {
        let mut removes = self.removes.lock().unwrap_or_else(PoisonError::into_inner);
        self.wanted.notify_all();
        if *removes || self.left().is_empty() {
            return;
        }
        let host = Arc::clone(self);
        let spawned = thread::Builder::new().name("benchmark".to_owned());
        match spawned.spawn(move || host.remove_all()) {
            Ok(_) => *removes = true,
            Err(error) => {
                tracing::warn!(%error, "files of a benchmark are left: there is no thread");
            }
        }
    }

    /// Returns the recorded parts of benchmarks that do not run.
    fn left(&self) -> Vec<BenchmarkPart> {
        // Without the lock a benchmark that begins meanwhile would count as one that is over.
        let present = self.lock();
        let mut left = self.leftovers.all();
        left.retain(|part| present.as_ref().is_none_or(|session| session.part.id != part.id));
        left
    }

    /// Removes the files that the records name, until no record is left.
    fn remove_all(&self) {
        let (mut pause, most) = PAUSES;
        let mut told = BTreeMap::new();
        loop {
            for part in self.left() {
                let Err(problem) = self.remove(&part) else { continue };
                // Told once, and again when it is another.
                let problem = problem.to_string();
                if told.insert(part.id, problem.clone()).as_ref() != Some(&problem) {
                    warn_of(&part, &problem);
                }
            }
            let mut removes = self.removes.lock().unwrap_or_else(PoisonError::into_inner);
            if self.left().is_empty() {
                *removes = false;
                return;
            }
            let waited = self.wanted.wait_timeout(removes, pause);
            let (_removes, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            pause = if timeout.timed_out() { most.min(pause * 2) } else { PAUSES.0 };
        }
    }

    /// Carries out an order of the controller. Blocks until that is done.
    ///
    /// # Errors
    /// `benchmark-running`, `benchmark-unknown`, `benchmark-failed`, `stopped`; those of a store
    /// that cannot be used.
    pub fn handle(self: &Arc<Self>, order: BenchmarkOrder) -> Result<BenchmarkReply, Problem> {
        match order {
            BenchmarkOrder::Look(place) => {
                self.look(&place).map(Box::new).map(BenchmarkReply::Looked)
            }
            BenchmarkOrder::Begin(part) => self.begin(part).map(BenchmarkReply::Begun),
            BenchmarkOrder::Prepare(id, step) => {
                let Prepared { cache, threads, caches_kept } = self.session(id)?.prepare(step)?;
                Ok(BenchmarkReply::Prepared { cache, threads, caches_kept })
            }
            BenchmarkOrder::Run(id) => self.session(id)?.run().map(BenchmarkReply::Ran),
            BenchmarkOrder::Cancel(id) => {
                self.cancel(id);
                Ok(BenchmarkReply::Done)
            }
            BenchmarkOrder::Touch(id) => {
                self.session(id)?.touch();
                Ok(BenchmarkReply::Done)
            }
            BenchmarkOrder::End(id) => self.end(id).map(|()| BenchmarkReply::Done),
            BenchmarkOrder::Present => {
                Ok(BenchmarkReply::Present(self.present().map(|session| session.part.id)))
            }
            BenchmarkOrder::Clean(place, spared) => self.clean(&place, spared),
        }
    }

    /// Stops the present step of a benchmark, if it runs here. Does not block.
    pub fn cancel(&self, id: TransferId) {
        if let Ok(session) = self.session(id) {
            session.stop();
        }
    }

    /// Ends the benchmark in which this host takes part, if there is one, and removes its files.
    /// Blocks.
    pub fn shut_down(self: &Arc<Self>) {
        if let Some(session) = self.present() {
            // A file that stays is warned of, and removed when the daemon starts.
            drop(self.end(session.part.id));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> Option<Arc<Session>> {
        self.lock().clone()
    }

    fn session(&self, id: TransferId) -> Result<Arc<Session>, Problem> {
        self.present().filter(|session| session.part.id == id).ok_or_else(|| {
            let title = format!("peer `{}` takes no part in benchmark {}", self.peer, id.short());
            Problem::new(ProblemCode::BenchmarkUnknown, title)
        })
    }

    /// Opens the two sides of a store, as the account of the benchmark uses it.
    fn open(&self, place: &BenchmarkPlace) -> Result<(Target, Source), Problem> {
        let (stores, asked) = (Arc::clone(&self.target.stores), place.clone());
        let opened = self.target.stores.ask(&place.store, move || {
            let account = asked.account.as_ref();
            let target = stores.target(&asked.store, account)?;
            stores.source(&asked.store, account).map(|source| (target, source))
        });
        Ok(opened.and_then(|opened| opened)?)
    }

    fn look(&self, place: &BenchmarkPlace) -> Result<BenchmarkFacts, Problem> {
        let spec = self.target.stores.spec(&place.store)?;
        let StoreKind::Posix(root) = spec.kind else {
            let source = Cause("it holds no files that could be measured".to_owned());
            return Err(AccessError::Kind { store: place.store.clone(), source }.into());
        };
        let (target, source) = self.open(place)?;
        let (store, path) = (place.store.clone(), place.path.0.clone());
        let files = directory_in(&root, place);
        let looked = self.target.stores.ask(&place.store, move || {
            let failed = |error: &dyn std::error::Error| AccessError::unanswered(&store, error);
            match target.open_dir(&path) {
                Err(error) if error.is_absent() => return Ok(None),
                opened => drop(opened.map_err(|error| failed(&error))?),
            }
            let space = target.space().map_err(|error| failed(&error))?;
            let fingerprint = source.fingerprint().map_err(|error| failed(&error))?;
            let directory = std::fs::File::open(&root);
            let options = directory.and_then(|root| penstock_sys::mount_options(&root));
            let methods: Vec<String> =
                target.durability().iter().map(ToString::to_string).collect();
            let file_system = BenchmarkFileSystem {
                kind: kind_of(&target),
                options: options.unwrap_or_default(),
                fingerprint: fingerprint.to_string(),
                durable_by: methods.join(", "),
                direct: target.writes_directly(),
                free_bytes: space.free_bytes,
                total_bytes: space.total_bytes,
                free_files: space.free_inodes,
            };
            let devices = StoreDevices::below(&files).describe();
            Ok::<_, AccessError>(Some((file_system, devices)))
        });
        let Some((file_system, devices)) = looked.and_then(|looked| looked)? else {
            return Err(no_directory(place));
        };
        let memory = penstock_sys::host_memory().map(|memory| memory.total_bytes);
        let peer = BenchmarkPeer {
            peer: self.peer.clone(),
            processors: penstock_sys::available_cpus() as u32,
            memory_bytes: memory.unwrap_or(0),
            threads: 0,
            caches_kept: None,
            devices,
        };
        Ok(BenchmarkFacts { peer, file_system })
    }

    /// Looks for the devices below a place. Blocks for the time of an answer of the store at most.
    fn devices_of(&self, place: &BenchmarkPlace) -> Result<StoreDevices, Problem> {
        let StoreKind::Posix(root) = self.target.stores.spec(&place.store)?.kind else {
            return Ok(StoreDevices::default());
        };
        let files = directory_in(&root, place);
        Ok(self.target.stores.ask(&place.store, move || StoreDevices::below(&files))?)
    }

    fn begin(self: &Arc<Self>, mut part: BenchmarkPart) -> Result<u64, Problem> {
        if let Some(present) = self.present().filter(|session| session.part.id == part.id) {
            // The reply to the same order was lost.
            return Ok(present.part.store_id);
        }
        let (target, source) = self.open(&part.place)?;
        let spec = spec_of(&part, PathText(directories(&part, part.part).1));
        part.store_id = id_of(&self.target.identify(&spec)?);
        let its = target.clone();
        let mounts = self.target.stores.ask(&part.place.store, move || mounts_of(&its, &spec));
        part.mounts = mounts.and_then(|mounts| mounts)?;
        let devices = self.devices_of(&part.place)?;
        let mut present = self.lock();
        if let Some(other) = &*present {
            if other.part.id == part.id {
                // The same order came twice at once.
                return Ok(other.part.store_id);
            }
            let title = format!("benchmark {} runs at this host", other.part.id.short());
            let why = "it ends within two minutes if its controller is lost";
            return Err(Problem::new(ProblemCode::BenchmarkRunning, title).because(why));
        }
        self.leftovers.record(&part)?;
        let (service, caches) = (Arc::clone(&self.target), self.caches.clone());
        let session = Arc::new(Session::new(part, service, (target, source), devices, caches));
        *present = Some(Arc::clone(&session));
        drop(present);
        let host = Arc::clone(self);
        let watching = thread::Builder::new().name("benchmark".to_owned());
        let watched = Arc::clone(&session);
        let watching = watching.spawn(move || {
            while watched.lasts(LOOK) {
                if watched.idle() < SILENCE_MAX {
                    continue;
                }
                tracing::warn!("the controller of a benchmark is silent: its files are removed");
                // A failure is warned of there.
                drop(host.end(watched.part.id));
            }
        });
        match watching {
            Ok(_) => Ok(session.part.store_id),
            Err(cause) => {
                drop(self.end(session.part.id));
                Err(TaskError::Thread(cause).into())
            }
        }
    }

    /// Ends a benchmark and removes its files. A failed removal is retried. A benchmark that has
    /// ended before, by itself or by an order whose reply was lost, may still have files.
    fn end(self: &Arc<Self>, id: TransferId) -> Result<(), Problem> {
        let Ok(session) = self.session(id) else {
            let left = self.left().into_iter().find(|part| part.id == id);
            return left.map_or(Ok(()), |part| self.remove(&part).map(drop));
        };
        session.end();
        let removed = self.remove(&session.part);
        let mut present = self.lock();
        present.take_if(|present| present.part.id == id);
        drop(present);
        if let Err(problem) = &removed {
            warn_of(&session.part, &problem.to_string());
            self.recover();
        }
        removed.map(drop)
    }

    /// Removes all files of a part, and then its record. Blocks: many files take their time.
    fn remove(&self, part: &BenchmarkPart) -> Result<BenchmarkCleaned, Problem> {
        let _removal = self.removal.lock().unwrap_or_else(PoisonError::into_inner);
        // Below an empty mount point there are no files, and the record would be forgotten.
        self.target.identify(&spec_of(part, part.place.path.clone()))?;
        let (target, _) = self.open(&part.place)?;
        let store = &part.place.store;
        let (cleaned, stays) = leftovers::remove_part(&target, part)
            .map_err(|error| Problem::from(AccessError::unanswered(store, &error)))?;
        if stays {
            let title = format!("files of benchmark {} stay in store `{store}`", part.id.short());
            let why = "something is made there while it is removed";
            return Err(Problem::new(ProblemCode::Clean, title).because(why));
        }
        self.leftovers.forget(part.id);
        Ok(cleaned)
    }

    /// Returns whether the store of a part was found, and is another one than the part was in.
    fn is_elsewhere(&self, part: &BenchmarkPart) -> bool {
        let found = self.target.identify(&spec_of(part, part.place.path.clone()));
        let Err(TaskError::Access(AccessError::Offline { source, .. })) = found else {
            return false;
        };
        matches!(source, Absence::OtherThanWritten)
    }

    /// Removes all files that can be removed, and then returns the first error. A record whose
    /// store was made again would never be removed by itself: a user who cleans the new store
    /// expects that.
    fn clean(
        &self,
        place: &BenchmarkPlace,
        mut spared: Vec<TransferId>,
    ) -> Result<BenchmarkReply, Problem> {
        let (mut cleaned, mut failed) = (BenchmarkCleaned::default(), None);
        for part in self.left().iter().filter(|part| part.place.store == place.store) {
            match self.remove(part) {
                Ok(more) => {
                    cleaned.files += more.files;
                    cleaned.directories += more.directories;
                }
                Err(_) if self.is_elsewhere(part) => {
                    tracing::info!(store = %place.store, id = %part.id.short(),
                        "a benchmark of another store of this name is forgotten");
                    self.leftovers.forget(part.id);
                }
                Err(problem) => drop(failed.get_or_insert(problem)),
            }
        }
        let (target, _) = self.open(place)?;
        let opened = target.open_dir(&place.path.0).map(drop);
        if opened.is_err_and(|error| error.is_absent()) {
            return Err(failed.unwrap_or_else(|| no_directory(place)));
        }
        spared.extend(self.present().map(|session| session.part.id));
        let removed = remove_directories(&target, &place.path.0, &spared, &mut cleaned);
        let removed = removed.map_err(|error| {
            let title = format!("cannot remove files of benchmarks in store `{}`", place.store);
            Problem::new(ProblemCode::Clean, title).because(chain(&error))
        });
        match failed {
            Some(problem) => Err(problem),
            None => removed.map(|()| BenchmarkReply::Cleaned(cleaned)),
        }
    }
}

/// Returns the directory of a place below the root of its store.
fn directory_in(root: &Path, place: &BenchmarkPlace) -> PathBuf {
    root.join(OsStr::from_bytes(&place.path.0))
}

fn no_directory(place: &BenchmarkPlace) -> Problem {
    let title = format!("store `{}` has no directory `{}`", place.store, place.path);
    let problem = Problem::new(ProblemCode::Request, title).at("path");
    problem.hint("make it by `penstock store mkdir`, or name one that exists")
}

fn warn_of(part: &BenchmarkPart, problem: &str) {
    let (store, id) = (&part.place.store, part.id.short());
    tracing::warn!(%store, %id, %problem, "files of a benchmark are left; the removal is repeated");
}

fn kind_of(target: &Target) -> String {
    match target {
        Target::Posix(store) => store.file_system().to_string(),
        Target::Null => String::new(),
    }
}
