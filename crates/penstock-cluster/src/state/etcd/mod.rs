//! The state of a site of several peers, in etcd and in the journal store that they share.
//!
//! Only the controller reads and writes it. A new controller reads all records into a database of
//! its own, which is from then on as good as etcd. Each write goes to etcd first, in a transaction
//! that compares the create revision of the leader's key with its own (B4). The transaction of a
//! deposed controller is rejected, and that controller stops.
//!
//! ```text
//! /penstock/SITE/incarnation    random; another one means another history of the site
//! /penstock/SITE/format         the format of the records; a controller must know it
//! /penstock/SITE/tail           written with each record: the number of the last one
//! /penstock/SITE/recovering     the host that changes their incarnation; no election then
//! /penstock/SITE/leader         the controller, under its lease; its create revision is the epoch
//! /penstock/SITE/peers/NAME     the card of a peer, under its lease
//! /penstock/SITE/known/NAME     a peer that belongs to the site, present or not
//! /penstock/SITE/draining/NAME  a peer that gets no new work
//! /penstock/SITE/transfers/ID   records    /penstock/SITE/stubs/ID
//! /penstock/SITE/pairings/SITE  pairings
//! /penstock/SITE/users/NAME     users      /penstock/SITE/tokens/ID
//! /penstock/SITE/webhooks/NAME  webhooks
//! /penstock/SITE/queue/KEY       rules of the queue
//! /penstock/SITE/benchmarks/ID   results of benchmarks of stores
//! /penstock/SITE/sessions/ID    sessions   /penstock/SITE/links/PURPOSE
//! /penstock/SITE/heads/ID       the ledger's head: what is open; see `heads`
//! ```
//! A value longer than [`VALUE_INLINE_MAX`] lies in the journal store, in a file that is named by
//! its content and never changed; etcd then holds the name (E6).

mod heads;
mod journal;
mod recover;
mod voters;

pub use journal::{JournalError, SharedJournal};
pub use recover::{RecoverError, Recovered, is_cut_short, recover};
pub use voters::KnownMember;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::access::{Link, Session, SessionId, Token, TokenId, User};
use penstock_api::benchmark::Benchmark;
use penstock_api::fence::Fence;
use penstock_api::queue::QueueRule;
use penstock_api::webhook::Webhook;
use penstock_proto::id::{Name, TransferId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    ListKey, ListOrder, Listed, Pairing, SiteState, SqliteState, StateError, StoredIn, Stub,
    TransferRecord,
};
use crate::etcd::{Etcd, EtcdError, Operation};
use crate::keys::Keys;
use crate::tenure::Tenure;
use heads::Ledgers;
use journal::Copy;

/// Longest value that is kept in etcd itself.
const VALUE_INLINE_MAX: usize = 32 << 10;
/// The longest time that one attempt at a transaction may take.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Wait between attempts.
const AGAIN: Duration = Duration::from_millis(200);
/// The longest time that reading all records may take.
const LOAD: Duration = Duration::from_secs(20);
/// Rate of writes for a site, in bytes per second (E6).
const BYTES_PER_S: f64 = 64.0 * 1024.0;
/// Rate of writes for a site, in transactions per second.
const TRANSACTIONS_PER_S: f64 = 20.0;

/// The state of a site in etcd, as its controller uses it.
pub struct EtcdState {
    etcd: Arc<Etcd>,
    keys: Keys,
    tenure: Arc<Tenure>,
    /// Copy of all records in etcd.
    cache: SqliteState,
    /// The shared journal store.
    journal: PathBuf,
    ledgers: Ledgers,
    budget: Mutex<Budget>,
    /// Files that hold long values now, by key.
    files: Mutex<HashMap<String, PathBuf>>,
    /// The copy of all records in the journal store; none while it cannot be written.
    copy: Mutex<Option<Copy>>,
}

/// Budget for writes: the time until which the writes so far use it up.
struct Budget {
    paid_until: Instant,
}

impl Budget {
    fn spend(&mut self, bytes: usize) {
        let worth = (bytes as f64 / BYTES_PER_S).max(1.0 / TRANSACTIONS_PER_S);
        self.paid_until = self.paid_until.max(Instant::now()) + Duration::from_secs_f64(worth);
    }

    fn debt(&self) -> Duration {
        self.paid_until.saturating_duration_since(Instant::now())
    }
}

impl EtcdState {
    /// Reads all records of the site into a database at `cache`, whose content before is dropped.
    /// `journal` is the directory in the journal store that all peers share. Blocks.
    ///
    /// # Errors
    /// etcd cannot be read, or its records cannot be understood.
    pub fn open(
        etcd: Arc<Etcd>,
        keys: Keys,
        tenure: Arc<Tenure>,
        cache: &Path,
        journal: &Path,
    ) -> Result<Self, StateError> {
        for end in ["", "-wal", "-shm"] {
            let mut path = cache.as_os_str().to_owned();
            path.push(end);
            let _ = fs::remove_file(&path);
        }
        let state = Self {
            etcd,
            keys,
            tenure,
            cache: SqliteState::open(cache)?,
            journal: journal.to_owned(),
            ledgers: Ledgers::default(),
            budget: Mutex::new(Budget { paid_until: Instant::now() }),
            files: Mutex::default(),
            copy: Mutex::default(),
        };
        let what = "copy the site's records";
        let copy = state.begin_copy().map_err(|source| StateError::Etcd { what, source })?;
        *state.copy.lock().unwrap_or_else(PoisonError::into_inner) = copy;
        for record in state.records::<TransferRecord>("transfers/")? {
            state.cache.put_transfer(&record)?;
        }
        for stub in state.records::<Stub>("stubs/")? {
            state.cache.put_stub(&stub)?;
        }
        for pairing in state.records::<Pairing>("pairings/")? {
            state.cache.pair(&pairing)?;
        }
        for user in state.records::<User>("users/")? {
            state.cache.put_user(&user)?;
        }
        for token in state.records::<Token>("tokens/")? {
            state.cache.put_token(&token)?;
        }
        for webhook in state.records::<Webhook>("webhooks/")? {
            state.cache.put_webhook(&webhook)?;
        }
        for rule in state.records::<QueueRule>("queue/")? {
            state.cache.put_queue_rule(&rule)?;
        }
        for benchmark in state.records::<serde_json::Value>("benchmarks/")? {
            // A result of a later release does not prevent this peer from leading.
            match serde_json::from_value::<Benchmark>(benchmark) {
                Ok(benchmark) => state.cache.put_benchmark(&benchmark)?,
                Err(error) => tracing::warn!(%error, "a benchmark of another release is left out"),
            }
        }
        for session in state.records::<Session>("sessions/")? {
            state.cache.put_session(&session)?;
        }
        for link in state.records::<Link>("links/")? {
            state.cache.put_link(&link)?;
        }
        Ok(state)
    }

    /// Takes over the records of a site of one peer: its pairings, stubs and transfers. Heads and
    /// journals of transfers that have not ended are copied with them. So are receipts, records of
    /// decisions, and scans that other sites work on. Records that are in etcd already are not
    /// taken. May be repeated if it was cut short, but not later: records removed meanwhile would
    /// return.
    ///
    /// # Errors
    /// The records cannot be read or written.
    pub fn import(&self, from: &SqliteState, journal: &Path) -> Result<usize, StateError> {
        use penstock_api::heads::{HeadCommit, HeadStore as _};
        let damaged = |why: penstock_api::problem::Problem| StateError::Damaged {
            what: "ledger",
            why: why.to_string(),
        };
        for kept in ["receipts", "flights", "source"] {
            copy_tree(&journal.with_file_name(kept), &self.journal.with_file_name(kept))?;
        }
        for pairing in from.pairings()? {
            if self.cache.pairing(&pairing.site)?.is_none() {
                self.pair(&pairing)?;
            }
        }
        self.import_principals(from)?;
        self.import_queue_rules(from)?;
        self.import_benchmarks(from)?;
        let (mut before, mut taken) = (None, 0);
        loop {
            let part = from.list(before, 500)?;
            let Some(last) = part.last() else { return Ok(taken) };
            before = Some(last.key());
            for listed in part {
                let id = listed.key().1;
                match listed {
                    Listed::Own(record) if self.cache.transfer(id)?.is_none() => {
                        let head = from.load(id).map_err(damaged)?;
                        let (old, new) =
                            (journal.join(id.to_string()), self.journal.join(id.to_string()));
                        copy_tree(&old, &new)?;
                        let commit = HeadCommit {
                            pages: head.pages,
                            scan: head.scan,
                            epochs: head.epochs.into_iter().collect(),
                            store: Some(head.store),
                            mounts: Some(head.mounts),
                            durable: true,
                        };
                        if head.store != 0 {
                            self.commit(id, &commit).map_err(damaged)?;
                        }
                        self.put_transfer(&record)?;
                        taken += 1;
                    }
                    Listed::Stub(stub) if self.cache.stub(id)?.is_none() => self.put_stub(&stub)?,
                    _ => {}
                }
            }
        }
    }

    fn import_principals(&self, from: &SqliteState) -> Result<(), StateError> {
        let (users, tokens) = (self.cache.users()?, self.cache.tokens()?);
        for user in from.users()? {
            if users.iter().all(|known| known.name != user.name) {
                self.put_user(&user)?;
            }
        }
        for token in from.tokens()? {
            if tokens.iter().all(|known| known.id != token.id) {
                self.put_token(&token)?;
            }
        }
        let webhooks = self.cache.webhooks()?;
        for webhook in from.webhooks()? {
            if webhooks.iter().all(|known| known.name != webhook.name) {
                self.put_webhook(&webhook)?;
            }
        }
        let sessions = self.cache.sessions()?;
        for session in from.sessions()? {
            if sessions.iter().all(|known| known.id != session.id) {
                self.put_session(&session)?;
            }
        }
        Ok(())
    }

    fn import_queue_rules(&self, from: &SqliteState) -> Result<(), StateError> {
        let known = self.cache.queue_rules()?;
        for rule in from.queue_rules()? {
            if known.iter().all(|known| known.key() != rule.key()) {
                self.put_queue_rule(&rule)?;
            }
        }
        Ok(())
    }

    fn import_benchmarks(&self, from: &SqliteState) -> Result<(), StateError> {
        let known = self.cache.benchmarks()?;
        for benchmark in from.benchmarks()? {
            if known.iter().all(|known| known.id != benchmark.id) {
                self.put_benchmark(&benchmark)?;
            }
        }
        Ok(())
    }

    fn records<T: DeserializeOwned>(&self, under: &str) -> Result<Vec<T>, StateError> {
        let what = "read the site's records";
        let found = self
            .etcd
            .list(&self.keys.at(under), LOAD)
            .map_err(|source| StateError::Etcd { what, source })?;
        found.iter().map(|found| self.decode(&found.key, &found.value)).collect()
    }

    /// Runs a transaction under this controllership, again and again while etcd does not answer,
    /// until the lease is over.
    fn write(&self, what: &'static str, operations: &[Operation]) -> Result<(), StateError> {
        let stands = self.tenure.stands(&self.keys);
        let mut all = operations.to_vec();
        all.push(Operation::Put(self.keys.tail(), Vec::new(), 0));
        loop {
            if !self.tenure.holds() {
                return Err(StateError::NotController { what });
            }
            match self.etcd.transact(&stands, &all, ATTEMPT) {
                Ok(answer) if answer.succeeded => {
                    self.copy(operations, answer.revision);
                    break;
                }
                Ok(_) => {
                    tracing::warn!(what, "refused by etcd: another peer is the controller");
                    self.tenure.end();
                    return Err(StateError::NotController { what });
                }
                Err(source @ EtcdError::Unavailable(_)) => {
                    tracing::warn!(what, %source, "tried again");
                    std::thread::sleep(AGAIN);
                }
                Err(source) => return Err(StateError::Etcd { what, source }),
            }
        }
        let bytes = operations.iter().map(|operation| match operation {
            Operation::Put(key, value, _) => key.len() + value.len(),
            _ => 64,
        });
        let bytes = bytes.sum();
        self.budget.lock().unwrap_or_else(PoisonError::into_inner).spend(bytes);
        Ok(())
    }

    /// Begins the copy of all records in the journal store. `None` if that cannot be written; this
    /// is logged and retried at the next write.
    fn begin_copy(&self) -> Result<Option<Copy>, EtcdError> {
        let own = self.keys.at("");
        let stands = self.tenure.stands(&self.keys);
        let tail = Operation::Put(self.keys.tail(), Vec::new(), 0);
        let begun = self.etcd.transact(&stands, &[tail], LOAD)?;
        if !begun.succeeded {
            return Ok(None);
        }
        // The listed records are of this revision or later: no other process writes records.
        let (found, revision) = (self.etcd.list(&own, LOAD)?, begun.revision);
        let records = found.iter().filter_map(|found| {
            let key = found.key.strip_prefix(&own).filter(|key| is_record(key))?;
            Some((key, found.value.as_slice(), found.written))
        });
        let root = self.journal.parent().unwrap_or(&self.journal);
        let shared = SharedJournal::new(root);
        let begun = Copy::begin(&shared, self.tenure.epoch(), revision, records);
        Ok(begun.map_err(|error| self.copy_fails(&error)).ok())
    }

    fn copy_fails(&self, error: &std::io::Error) {
        tracing::error!(journal = %self.journal.display(), %error,
            "the copy of the records of the site in the journal cannot be written; until it can, \
             `site recover` would continue from an older copy");
    }

    /// Copies writes that etcd has confirmed to the journal store.
    fn copy(&self, operations: &[Operation], revision: u64) {
        let own = self.keys.at("");
        let changes: Vec<_> = operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Put(key, value, _) => {
                    Some((key.strip_prefix(&own)?, Some(value.as_slice())))
                }
                Operation::Delete(key) => Some((key.strip_prefix(&own)?, None)),
                _ => None,
            })
            .filter(|(key, _)| is_record(key))
            .collect();
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = match copy.as_mut().map(|copy| copy.append(revision, &changes)) {
            Some(Ok(long)) => !long,
            Some(Err(error)) => {
                self.copy_fails(&error);
                false
            }
            None => false,
        };
        if !whole {
            *copy = self.begin_copy().unwrap_or_default();
        }
    }

    /// Stores a value under a key, and drops the file that held the last one.
    fn put(
        &self,
        what: &'static str,
        key: String,
        value: &impl Serialize,
    ) -> Result<(), StateError> {
        let (bytes, file) = self.encode(&key, value)?;
        self.write(what, &[Operation::Put(key.clone(), bytes, 0)])?;
        self.replace_file(key, file);
        Ok(())
    }

    fn delete(&self, what: &'static str, key: String) -> Result<(), StateError> {
        self.write(what, &[Operation::Delete(key.clone())])?;
        self.replace_file(key, None);
        Ok(())
    }

    fn replace_file(&self, key: String, file: Option<PathBuf>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let old = match file.clone() {
            Some(file) => files.insert(key, file),
            None => files.remove(&key),
        };
        if let Some(old) = old.filter(|old| Some(old) != file.as_ref()) {
            let _ = fs::remove_file(old);
        }
    }

    /// Returns a value as etcd is to hold it, and the file that holds it if it is long.
    fn encode(
        &self,
        key: &str,
        value: &impl Serialize,
    ) -> Result<(Vec<u8>, Option<PathBuf>), StateError> {
        let bytes = serde_json::to_vec(value).map_err(damaged)?;
        if bytes.len() <= VALUE_INLINE_MAX {
            return Ok((bytes, None));
        }
        let mut name = blake3::Hasher::new();
        name.update(key.as_bytes()).update(&[0]).update(&bytes);
        let name = name.finalize().to_hex().to_string();
        let path = self.value_path(&name);
        let failed = |source| StateError::File { what: "write", path: path.clone(), source };
        let temporary = path.with_extension(format!("{:016x}.new", self.tenure.epoch()));
        fs::create_dir_all(self.values()).map_err(failed)?;
        let mut file = File::create(&temporary).map_err(failed)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&temporary, &path).map_err(failed)?;
        File::open(self.values()).and_then(|values| values.sync_all()).map_err(failed)?;
        let named = serde_json::to_vec(&serde_json::json!({ IN_FILE: name })).map_err(damaged)?;
        Ok((named, Some(path)))
    }

    fn decode<T: DeserializeOwned>(&self, key: &str, bytes: &[u8]) -> Result<T, StateError> {
        let value: Value = serde_json::from_slice(bytes).map_err(damaged)?;
        let Some(name) = value[IN_FILE].as_str() else {
            return serde_json::from_value(value).map_err(damaged);
        };
        let path = self.value_path(name);
        let bytes = fs::read(&path);
        let bytes = bytes.map_err(|source| StateError::File {
            what: "read",
            path: path.clone(),
            source,
        })?;
        self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), path);
        serde_json::from_slice(&bytes).map_err(damaged)
    }

    fn values(&self) -> PathBuf {
        self.journal.with_file_name("values")
    }

    fn value_path(&self, name: &str) -> PathBuf {
        self.values().join(format!("{name}.json"))
    }

    /// Returns the fence of this controllership.
    pub fn fence(&self) -> Fence {
        self.tenure.fence()
    }
}

/// Returns whether a key, without the prefix of the site, is a record of the site. Keys of present
/// peers and of the records' incarnation are not.
fn is_record(key: &str) -> bool {
    let of_now = ["", "leader", "incarnation", "recovering", "adding", "tail"];
    !of_now.contains(&key) && !key.starts_with("peers/")
}

/// Names the file of a value that is not in etcd.
const IN_FILE: &str = "in_file";

fn damaged(error: serde_json::Error) -> StateError {
    StateError::Damaged { what: "record", why: error.to_string() }
}

/// Copies a directory, if there is one.
fn copy_tree(from: &Path, to: &Path) -> Result<(), StateError> {
    let failed = |source| StateError::File { what: "copy", path: from.to_owned(), source };
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    fs::create_dir_all(to).map_err(failed)?;
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let to = to.join(entry.file_name());
        if entry.file_type().map_err(failed)?.is_dir() {
            copy_tree(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).map_err(failed)?;
            File::open(&to).and_then(|file| file.sync_all()).map_err(failed)?;
        }
    }
    Ok(())
}

impl SiteState for EtcdState {
    fn format(&self) -> u16 {
        self.tenure.format()
    }

    fn put_transfer(&self, record: &TransferRecord) -> Result<(), StateError> {
        let key = self.keys.at(&format!("transfers/{}", record.id()));
        self.put("store a transfer", key, record)?;
        self.cache.put_transfer(record)
    }

    fn transfer(&self, id: TransferId) -> Result<Option<TransferRecord>, StateError> {
        self.cache.transfer(id)
    }

    fn open_transfers(&self) -> Result<Vec<TransferRecord>, StateError> {
        self.cache.open_transfers()
    }

    fn put_stub(&self, stub: &Stub) -> Result<(), StateError> {
        // Each look at another site's transfer brings other figures: only its state is worth one.
        let state =
            |stub: &Stub| (stub.view.state, stub.view.exit, stub.owner.clone(), stub.user.clone());
        let known = self.cache.stub(stub.view.id)?;
        if known.is_none_or(|known| state(&known) != state(stub)) {
            let key = self.keys.at(&format!("stubs/{}", stub.view.id));
            self.put("store a stub", key, stub)?;
        }
        self.cache.put_stub(stub)
    }

    fn stub(&self, id: TransferId) -> Result<Option<Stub>, StateError> {
        self.cache.stub(id)
    }

    fn open_stubs(&self) -> Result<Vec<Stub>, StateError> {
        self.cache.open_stubs()
    }

    fn remove_stub(&self, id: TransferId) -> Result<(), StateError> {
        self.delete("remove a stub", self.keys.at(&format!("stubs/{id}")))?;
        self.cache.remove_stub(id)
    }

    fn overview(
        &self,
        order: ListOrder,
        after: Option<ListKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, StateError> {
        self.cache.overview(order, after, limit)
    }

    fn overview_in(
        &self,
        stored: StoredIn,
        order: ListOrder,
        after: Option<ListKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, StateError> {
        self.cache.overview_in(stored, order, after, limit)
    }

    fn ids_with_prefix(&self, prefix: &str) -> Result<Vec<TransferId>, StateError> {
        self.cache.ids_with_prefix(prefix)
    }

    fn ledgers(&self) -> Result<Vec<TransferId>, StateError> {
        let what = "list the ledgers";
        let under = self.keys.at("heads/");
        let found = self.etcd.list(&under, LOAD);
        let found = found.map_err(|source| StateError::Etcd { what, source })?;
        let ids = found.iter().filter_map(|found| found.key.strip_prefix(&under)?.parse().ok());
        Ok(ids.collect())
    }

    fn pairings(&self) -> Result<Vec<Pairing>, StateError> {
        self.cache.pairings()
    }

    fn pairing(&self, site: &Name) -> Result<Option<Pairing>, StateError> {
        self.cache.pairing(site)
    }

    fn pair(&self, pairing: &Pairing) -> Result<(), StateError> {
        self.put("store a pairing", self.keys.at(&format!("pairings/{}", pairing.site)), pairing)?;
        self.cache.pair(pairing)
    }

    fn unpair(&self, site: &Name) -> Result<bool, StateError> {
        self.delete("remove a pairing", self.keys.at(&format!("pairings/{site}")))?;
        self.cache.unpair(site)
    }

    fn users(&self) -> Result<Vec<User>, StateError> {
        self.cache.users()
    }

    fn put_user(&self, user: &User) -> Result<(), StateError> {
        self.put("store a user", self.keys.at(&format!("users/{}", user.name)), user)?;
        self.cache.put_user(user)
    }

    fn remove_user(&self, name: &Name) -> Result<(), StateError> {
        self.delete("remove a user", self.keys.at(&format!("users/{name}")))?;
        self.cache.remove_user(name)
    }

    fn tokens(&self) -> Result<Vec<Token>, StateError> {
        self.cache.tokens()
    }

    fn put_token(&self, token: &Token) -> Result<(), StateError> {
        self.put("store a token", self.keys.at(&format!("tokens/{}", token.id)), token)?;
        self.cache.put_token(token)
    }

    fn remove_token(&self, id: TokenId) -> Result<(), StateError> {
        self.delete("remove a token", self.keys.at(&format!("tokens/{id}")))?;
        self.cache.remove_token(id)
    }

    fn webhooks(&self) -> Result<Vec<Webhook>, StateError> {
        self.cache.webhooks()
    }

    fn put_webhook(&self, webhook: &Webhook) -> Result<(), StateError> {
        let key = self.keys.at(&format!("webhooks/{}", webhook.name));
        self.put("store a webhook", key, webhook)?;
        self.cache.put_webhook(webhook)
    }

    fn remove_webhook(&self, name: &Name) -> Result<(), StateError> {
        self.delete("remove a webhook", self.keys.at(&format!("webhooks/{name}")))?;
        self.cache.remove_webhook(name)
    }

    fn queue_rules(&self) -> Result<Vec<QueueRule>, StateError> {
        self.cache.queue_rules()
    }

    fn put_queue_rule(&self, rule: &QueueRule) -> Result<(), StateError> {
        let key = self.keys.at(&format!("queue/{}", rule.key()));
        self.put("store a rule of the queue", key, rule)?;
        self.cache.put_queue_rule(rule)
    }

    fn remove_queue_rule(&self, key: &str) -> Result<(), StateError> {
        self.delete("remove a rule of the queue", self.keys.at(&format!("queue/{key}")))?;
        self.cache.remove_queue_rule(key)
    }

    fn benchmarks(&self) -> Result<Vec<Benchmark>, StateError> {
        self.cache.benchmarks()
    }

    fn put_benchmark(&self, benchmark: &Benchmark) -> Result<(), StateError> {
        let key = self.keys.at(&format!("benchmarks/{}", benchmark.id));
        self.put("store a benchmark", key, benchmark)?;
        self.cache.put_benchmark(benchmark)
    }

    fn remove_benchmark(&self, id: TransferId) -> Result<(), StateError> {
        self.delete("remove a benchmark", self.keys.at(&format!("benchmarks/{id}")))?;
        self.cache.remove_benchmark(id)
    }

    fn sessions(&self) -> Result<Vec<Session>, StateError> {
        self.cache.sessions()
    }

    fn put_session(&self, session: &Session) -> Result<(), StateError> {
        self.put("store a session", self.keys.at(&format!("sessions/{}", session.id)), session)?;
        self.cache.put_session(session)
    }

    fn remove_session(&self, id: SessionId) -> Result<(), StateError> {
        self.delete("remove a session", self.keys.at(&format!("sessions/{id}")))?;
        self.cache.remove_session(id)
    }

    fn links(&self) -> Result<Vec<Link>, StateError> {
        self.cache.links()
    }

    fn put_link(&self, link: &Link) -> Result<(), StateError> {
        self.put("store a link", self.keys.at(&format!("links/{}", link.purpose.key())), link)?;
        self.cache.put_link(link)
    }

    fn remove_link(&self, key: &str) -> Result<(), StateError> {
        self.delete("remove a link", self.keys.at(&format!("links/{key}")))?;
        self.cache.remove_link(key)
    }
}

#[cfg(test)]
mod tests;
