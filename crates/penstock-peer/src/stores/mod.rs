//! The stores that this host reaches, by name.
//!
//! A store is opened when it is first needed and checked at each use: its fingerprint at the source
//! (C3), its identity at the target (A5). A store that has changed is *offline*: no item fails, and
//! the transfer waits with that reason. A store is offline too if a file system was mounted there
//! and none is now, since the empty directory below is not the store.

pub(crate) mod access;
mod accounts;
mod call_tally;
#[cfg(test)]
pub(crate) mod dead_mount;
pub(crate) mod errors;
pub(crate) mod guard;
pub(crate) mod mounts;
pub(crate) mod pacer;
pub(crate) mod single_flight;
pub(crate) mod worker_pool;

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::access::AccountName;
use penstock_proto::id::Name;
use penstock_store::{
    FailedSyncs, IoMode, MemSpec, MemStore, PosixOptions, PosixStore, Source, StoreFingerprint,
    Target,
};
use penstock_sys::{Account, Permit, Semaphore};

use access::{Absence, AccessError};
use accounts::Accounts;
use call_tally::CallTally;
pub use call_tally::StoreFigures;
use errors::Cause;
pub(crate) use errors::chain;

/// Longest time for a look at a store before it counts as hung. A journal that is written behind
/// gigabytes of other data takes its time (A8).
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Longest time for a look at a source, where nothing waits for a journal. Requests that need more
/// than a look wait no longer than this.
const LOOK_MAX: Duration = Duration::from_secs(8);
/// Largest number of looks at one source at a time, so that no more threads hang in it.
pub(crate) const LOOKS_MAX: usize = 8;

/// The kinds of stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A directory tree.
    Posix(PathBuf),
    /// Generated entries; a source only.
    Mem(MemSpec),
    /// Keeps nothing; a target only.
    Null,
}

/// A store of a site, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Its name at the site.
    pub name: Name,
    /// Kind of the store.
    pub kind: StoreKind,
    /// Forbids every write to the store.
    pub read_only: bool,
    /// For `copy`, whose target is a directory of a user and no permanent store: see
    /// [`PosixOptions::ephemeral`].
    pub ephemeral: bool,
    /// Lets data sets of other sites set owners, special modes, devices, ACLs, trusted and security
    /// attributes. Anyone with the right to write there can then become any user of this host (D7).
    pub allow_privileged: bool,
    /// Method for writing large files to the store.
    pub io: IoMode,
    /// True if its files are used as the account of each request, with that account's rights, and
    /// not as the daemon.
    pub mapped: bool,
}

/// All stores of this host.
#[derive(Debug)]
pub struct Stores {
    stores: RwLock<BTreeMap<Name, Arc<Entry>>>,
    accounts: Accounts,
    /// [`LOOK_MAX`], but in tests.
    look_max: Duration,
}

#[derive(Debug)]
struct Entry {
    spec: StoreSpec,
    open: Mutex<Open>,
    /// A file system was mounted at its path when it was opened, since this process began.
    mounted: AtomicBool,
    /// Threads that hang in it, and were left behind.
    hung: Mutex<Vec<JoinHandle<()>>>,
    looks: Arc<Semaphore>,
    calls: CallTally,
    /// Failed syncs of all handles of the store that were ever opened for writing.
    failed_syncs: FailedSyncs,
}

impl Entry {
    fn new(spec: StoreSpec) -> Self {
        let (open, hung) = (Mutex::default(), Mutex::default());
        let (calls, failed_syncs) = (CallTally::default(), FailedSyncs::default());
        let (looks, mounted) = (Arc::new(Semaphore::new(LOOKS_MAX)), AtomicBool::default());
        Self { spec, open, mounted, hung, looks, calls, failed_syncs }
    }

    fn open_posix(&self, root: &Path, options: PosixOptions) -> Result<PosixStore, AccessError> {
        let StoreSpec { name, ephemeral, .. } = &self.spec;
        let opened = PosixStore::open(root, options);
        let store = opened.map_err(|error| AccessError::unopened(name, *ephemeral, &error))?;
        let is_mounted = store.is_mount_root();
        if self.mounted.fetch_or(is_mounted, Ordering::Relaxed) && !is_mounted {
            return Err(AccessError::offline(name, Absence::NotMounted(root.to_owned())));
        }
        Ok(store)
    }
}

#[derive(Debug, Default)]
struct Open {
    source: Option<(Source, StoreFingerprint)>,
    target: Option<Target>,
}

fn unfit(store: &Name, why: &str) -> AccessError {
    AccessError::Kind { store: store.clone(), source: Cause(why.to_owned()) }
}

impl Stores {
    /// Creates the registry of the given stores; none is opened yet.
    pub fn new(specs: impl IntoIterator<Item = StoreSpec>) -> Self {
        let (stores, accounts) = (RwLock::default(), Accounts::default());
        let stores = Self { stores, accounts, look_max: LOOK_MAX };
        stores.replace(specs);
        stores
    }

    /// Replaces the stores. An unchanged store keeps its open handles. Work in a removed store ends
    /// with the handles that it holds; new work does not find that store.
    pub fn replace(&self, specs: impl IntoIterator<Item = StoreSpec>) {
        let mut stores = self.stores.write().unwrap_or_else(PoisonError::into_inner);
        let mut old = mem::take(&mut *stores);
        for spec in specs {
            let known = old.remove(&spec.name).filter(|entry| entry.spec == spec);
            let name = spec.name.clone();
            stores.insert(name, known.unwrap_or_else(|| Arc::new(Entry::new(spec))));
        }
    }

    /// Sets how long the stores wait for a look.
    #[cfg(test)]
    pub(crate) fn looking_for(self, look_max: Duration) -> Self {
        Self { look_max, ..self }
    }

    /// Returns the figures of all stores. Takes short locks, and none that is held over I/O.
    pub(crate) fn figures(&self) -> Vec<StoreFigures> {
        let figures = |(name, entry): (&Name, &Arc<Entry>)| {
            let hung = entry.hung.lock().unwrap_or_else(PoisonError::into_inner);
            let hanging = hung.iter().filter(|thread| !thread.is_finished()).count();
            let (free, waiting) = entry.looks.usage();
            entry.calls.figures(name, hanging, (LOOKS_MAX.saturating_sub(free), waiting))
        };
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        stores.iter().map(figures).collect()
    }

    fn entry(&self, name: &Name) -> Result<Arc<Entry>, AccessError> {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        stores.get(name).cloned().ok_or_else(|| {
            let known = stores.keys().cloned().collect();
            AccessError::Unknown { store: name.clone(), known }
        })
    }

    /// Returns the configuration of a store.
    ///
    /// # Errors
    /// `store-unknown`.
    pub(crate) fn spec(&self, name: &Name) -> Result<StoreSpec, AccessError> {
        self.entry(name).map(|entry| entry.spec.clone())
    }

    /// Returns the account as which the files of a store are used by a request that names `asked`;
    /// `None` where the daemon uses them itself. Blocks on the name service.
    ///
    /// # Errors
    /// `store-unknown`; `account-missing`, `account-refused`, `account-unknown`: the store is
    /// mapped, and this host cannot use it as that account.
    pub(crate) fn account(
        &self,
        name: &Name,
        asked: Option<&AccountName>,
    ) -> Result<Option<Account>, AccessError> {
        if !self.entry(name)?.spec.mapped {
            return Ok(None);
        }
        let store = || name.clone();
        let asked = asked.ok_or_else(|| AccessError::NoAccount(store()))?;
        let found = self.accounts.get(asked);
        found.map(Some).map_err(|source| AccessError::Account { store: store(), source })
    }

    /// Returns a store to read from, checked to be the one that was opened first, as the account of
    /// a request uses it. Blocks on the store: a caller that must not hang uses `Stores::look`.
    ///
    /// # Errors
    /// Those of [`Stores::account`]; `store-offline`, `store-kind`.
    pub(crate) fn source(
        &self,
        name: &Name,
        account: Option<&AccountName>,
    ) -> Result<Source, AccessError> {
        let account = self.account(name, account)?;
        let source = self.own_source(name)?;
        match account {
            None => Ok(source),
            Some(account) => {
                source.acting_as(&account).map_err(|error| AccessError::unanswered(name, &error))
            }
        }
    }

    /// Returns a store to read from as [`Stores::source`] does, as the daemon itself uses it: for
    /// questions about the store as a whole.
    ///
    /// # Errors
    /// `store-unknown`, `store-offline`, `store-kind`.
    pub(crate) fn own_source(&self, name: &Name) -> Result<Source, AccessError> {
        let entry = self.entry(name)?;
        // The store is asked without the lock, so that a hung store blocks its own caller alone.
        let open = || entry.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open().source.clone();
        if let Some((source, fingerprint)) = known {
            return match source.check_fingerprint(&fingerprint) {
                Ok(()) => Ok(source),
                Err(offline) => {
                    open().source = None;
                    Err(AccessError::gone(name, offline))
                }
            };
        }
        let source = match &entry.spec.kind {
            StoreKind::Posix(root) => {
                let io = entry.spec.io;
                let options = PosixOptions { read_only: true, io, ..PosixOptions::default() };
                Source::Posix(entry.open_posix(root, options)?)
            }
            StoreKind::Mem(spec) => Source::Mem(MemStore::new(*spec)),
            StoreKind::Null => return Err(unfit(name, "`null:` cannot be read from")),
        };
        let fingerprint = source.fingerprint().map_err(|error| AccessError::gone(name, error))?;
        Ok(open().source.get_or_insert((source, fingerprint)).0.clone())
    }

    /// Notes that threads hang in calls to a store. As long as one of them does, no new work begins
    /// there, so that one store does not take all threads (E2).
    pub(crate) fn leave_behind(
        &self,
        name: &Name,
        threads: impl IntoIterator<Item = JoinHandle<()>>,
    ) {
        if let Ok(entry) = self.entry(name) {
            entry.hung.lock().unwrap_or_else(PoisonError::into_inner).extend(threads);
        }
    }

    /// Returns an error if a thread is known to hang in the store.
    fn check_answers(&self, name: &Name, entry: &Entry) -> Result<(), AccessError> {
        let mut hung = entry.hung.lock().unwrap_or_else(PoisonError::into_inner);
        hung.retain(|thread| !thread.is_finished());
        if hung.is_empty() { Ok(()) } else { Err(AccessError::Hung(name.clone())) }
    }

    /// Runs a call to a store that may block for ever, on another thread. If the store hangs, only
    /// that thread does.
    ///
    /// # Errors
    /// `store-hung`: no answer came within [`ANSWER_MAX`], or an earlier call still hangs.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        name: &Name,
        ask: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AccessError> {
        self.ask_within(name, &*self.entry(name)?, ANSWER_MAX, ask)
    }

    /// Runs a look at a store that is read from, which takes a sound store no time: at its marks,
    /// or at the root of a data set. Waits for at most [`LOOK_MAX`], and as long for other looks if
    /// many are under way.
    ///
    /// # Errors
    /// `store-hung`, as [`Stores::ask`].
    pub(crate) fn look<T: Send + 'static>(
        &self,
        name: &Name,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AccessError> {
        let entry = self.entry(name)?;
        if !matches!(entry.spec.kind, StoreKind::Posix(_)) {
            return Ok(look());
        }
        self.check_answers(name, &entry)?;
        let place = Permit::acquire_within(Arc::clone(&entry.looks), self.look_max)
            .ok_or_else(|| AccessError::Hung(name.clone()))?;
        self.ask_within(name, &entry, self.look_max, move || {
            let found = look();
            drop(place);
            found
        })
    }

    fn ask_within<T: Send + 'static>(
        &self,
        name: &Name,
        entry: &Entry,
        most: Duration,
        ask: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AccessError> {
        self.check_answers(name, entry)?;
        let (asked, (answer, answered)) = (Instant::now(), channel());
        let thread = std::thread::Builder::new().name("store".to_owned());
        // A late answer has no receiver.
        let thread = thread.spawn(move || drop(answer.send(ask())));
        let thread = thread.map_err(|cause| AccessError::Thread(Arc::new(cause)))?;
        match answered.recv_timeout(most) {
            Ok(answer) => {
                entry.calls.count_answer(asked.elapsed());
                Ok(answer)
            }
            Err(RecvTimeoutError::Timeout) => {
                entry.calls.count_unanswered();
                tracing::error!(store = %name, "a store hangs: what was asked is left behind");
                self.leave_behind(name, [thread]);
                Err(AccessError::Hung(name.clone()))
            }
            Err(RecvTimeoutError::Disconnected) => Err(AccessError::Panicked(name.clone())),
        }
    }

    /// Returns a store to write to, as the account of a request uses it.
    ///
    /// # Errors
    /// Those of [`Stores::account`]; `store-offline`, `store-kind`, `store-read-only`; `store-hung`
    /// while a call to it has not returned.
    pub(crate) fn target(
        &self,
        name: &Name,
        account: Option<&AccountName>,
    ) -> Result<Target, AccessError> {
        let account = self.account(name, account)?;
        let target = self.own_target(name)?;
        match account {
            None => Ok(target),
            Some(account) => {
                target.acting_as(&account).map_err(|error| AccessError::unanswered(name, &error))
            }
        }
    }

    /// Returns a store to write to, for the daemon's own files, whatever rights its users have.
    ///
    /// # Errors
    /// As [`Stores::target`], without those of accounts.
    pub(crate) fn own_target(&self, name: &Name) -> Result<Target, AccessError> {
        let entry = self.entry(name)?;
        self.check_answers(name, &entry)?;
        if entry.spec.read_only {
            return Err(AccessError::ReadOnly(name.clone()));
        }
        let open = || entry.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = &open().target {
            return Ok(target.clone());
        }
        // Without the lock, so that readers of the store do not wait for this.
        let target = match &entry.spec.kind {
            StoreKind::Posix(root) => {
                let (io, failed_syncs) = (entry.spec.io, entry.failed_syncs.clone());
                let ephemeral = entry.spec.ephemeral;
                let options =
                    PosixOptions { io, failed_syncs, ephemeral, ..PosixOptions::default() };
                Target::Posix(entry.open_posix(root, options)?)
            }
            StoreKind::Null => Target::Null,
            StoreKind::Mem(_) => return Err(unfit(name, "`mem:` cannot be written to")),
        };
        Ok(open().target.get_or_insert(target).clone())
    }

    /// Forgets the open handle of a target store, after a check of it has failed: the next use
    /// opens it again, perhaps mounted again.
    pub(crate) fn reopen(&self, name: &Name) {
        if let Ok(entry) = self.entry(name) {
            *entry.open.lock().unwrap_or_else(PoisonError::into_inner) = Open::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, read_only: bool) -> StoreSpec {
        StoreSpec {
            name: name.parse().unwrap(),
            kind: StoreKind::Mem("mem:files=1,size=1K".parse().unwrap()),
            read_only,
            ephemeral: false,
            allow_privileged: false,
            io: IoMode::Auto,
            mapped: false,
        }
    }

    /// Promise: stores come and go while a peer works; one that stays keeps its open handle, and
    /// one that has gone is unknown.
    #[test]
    fn stores_come_and_go() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let stores = Stores::new([spec("stays", false), spec("goes", false)]);
        let (stays, goes) = (stores.entry(&name("stays")).unwrap(), name("goes"));
        stores.source(&goes, None).unwrap();
        stores.replace([spec("stays", false), spec("comes", true)]);
        assert!(Arc::ptr_eq(&stays, &stores.entry(&name("stays")).unwrap()));
        assert!(stores.spec(&name("comes")).unwrap().read_only);
        assert!(matches!(stores.source(&goes, None), Err(AccessError::Unknown { .. })));
    }
}
