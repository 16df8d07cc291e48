//! Opens the database, keeps its schema, runs transactions.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_api::io_problem;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_proto::version;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, ffi};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

/// Returns the newest format of the tables, and of all that belongs to them, that this release
/// knows.
fn newest() -> i64 {
    version::known().formats().newest.into()
}

/// The longest time that a statement waits for a lock. Only a stray `sqlite3` shell can hold one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
CREATE TABLE transfer (
    id BLOB PRIMARY KEY, created INTEGER NOT NULL, state TEXT NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX transfer_created ON transfer (created, id);
CREATE INDEX transfer_state ON transfer (state);
CREATE TABLE ledger (
    transfer BLOB PRIMARY KEY, scan TEXT, mounts TEXT,
    store INTEGER NOT NULL DEFAULT 0, commits INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE writer (
    transfer BLOB NOT NULL, writer INTEGER NOT NULL, epoch INTEGER NOT NULL,
    PRIMARY KEY (transfer, writer)
) WITHOUT ROWID;
CREATE TABLE page (
    transfer BLOB NOT NULL, page INTEGER NOT NULL, digest BLOB NOT NULL,
    log_bytes INTEGER NOT NULL, complete INTEGER NOT NULL, files INTEGER NOT NULL,
    bytes INTEGER NOT NULL, failures INTEGER NOT NULL,
    kept INTEGER NOT NULL, kept_bytes INTEGER NOT NULL,
    asks INTEGER NOT NULL, PRIMARY KEY (transfer, page)
) WITHOUT ROWID;
CREATE TABLE pairing (
    site TEXT PRIMARY KEY, ca BLOB NOT NULL, capability_key BLOB NOT NULL,
    addresses TEXT NOT NULL, paired INTEGER NOT NULL, keys INTEGER NOT NULL,
    revoked TEXT NOT NULL, told INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE stub (
    id BLOB PRIMARY KEY, created INTEGER NOT NULL, ended INTEGER NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX stub_created ON stub (created, id);
";

const PRINCIPALS: &str = "
CREATE TABLE IF NOT EXISTS principal (
    kind TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (kind, name)
) WITHOUT ROWID;
";

/// The rows of `transfer` and `stub` without their long fields: lists need no more, and a request
/// may have 64 MiB. Triggers maintain the table, so that it is right also after a write of an
/// earlier release.
const OVERVIEW: &str = "
DROP TRIGGER IF EXISTS overview_of_transfer;
DROP TRIGGER IF EXISTS overview_without_transfer;
DROP TRIGGER IF EXISTS overview_of_stub;
DROP TRIGGER IF EXISTS overview_without_stub;
DROP TABLE IF EXISTS overview;
CREATE TABLE overview (
    created INTEGER NOT NULL, id BLOB NOT NULL, own INTEGER NOT NULL, record TEXT NOT NULL,
    state TEXT NOT NULL, PRIMARY KEY (created, id, own)
) WITHOUT ROWID;
CREATE INDEX overview_state ON overview (state, own, created, id);
CREATE TRIGGER overview_of_transfer AFTER INSERT ON transfer BEGIN
    INSERT OR REPLACE INTO overview VALUES (new.created, new.id, 1, json_set(
        json_remove(new.record, '$.request.options.files_from', '$.request.options.select'),
        '$.failures', json('[]'), '$.files_from_count',
        coalesce(json_array_length(new.record, '$.request.options.files_from'), 0)
    ), new.state);
END;
CREATE TRIGGER overview_without_transfer AFTER DELETE ON transfer BEGIN
    DELETE FROM overview WHERE created = old.created AND id = old.id AND own = 1;
END;
CREATE TRIGGER overview_of_stub AFTER INSERT ON stub BEGIN
    INSERT OR REPLACE INTO overview VALUES (new.created, new.id, 0, json_set(
        json_remove(new.record, '$.view.options.files_from', '$.view.options.select'),
        '$.view.failures', json('[]'), '$.view.files_from_count', max(
            coalesce(json_array_length(new.record, '$.view.options.files_from'), 0),
            coalesce(json_extract(new.record, '$.view.files_from_count'), 0)
        )
    ), coalesce(json_extract(new.record, '$.view.state'), ''));
END;
CREATE TRIGGER overview_without_stub AFTER DELETE ON stub BEGIN
    DELETE FROM overview WHERE created = old.created AND id = old.id AND own = 0;
END;
INSERT OR REPLACE INTO transfer SELECT * FROM transfer;
INSERT OR REPLACE INTO stub SELECT * FROM stub;
";

const QUEUE_RULES: &str = "
CREATE TABLE IF NOT EXISTS queue_rule (
    key TEXT PRIMARY KEY, record TEXT NOT NULL
) WITHOUT ROWID;
";

const BENCHMARKS: &str = "
CREATE TABLE IF NOT EXISTS benchmark (
    key TEXT PRIMARY KEY, record TEXT NOT NULL
) WITHOUT ROWID;
";

/// The reason why the state cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The database cannot be opened or made.
    #[error("open the state database `{}`", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// Its directory cannot be synced.
    #[error("sync the directory of `{}`", .path.display())]
    Directory {
        /// The database.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A later release wrote the database.
    #[error(
        "`{}` is of format {found}; this release knows up to {}",
        .path.display(),
        newest()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// A statement failed.
    #[error("cannot {what} in the state database")]
    Statement {
        /// The action that failed.
        what: &'static str,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// This peer is no longer the controller of its site: nothing was written.
    #[error("cannot {what}: this peer is not the controller of its site now")]
    NotController {
        /// The action that failed.
        what: &'static str,
    },
    /// A request to etcd failed.
    #[error("cannot {what} in etcd")]
    Etcd {
        /// The action that failed.
        what: &'static str,
        /// The error of etcd.
        source: crate::etcd::EtcdError,
    },
    /// A file in the journal store cannot be read or written.
    #[error("cannot {what} `{}`", .path.display())]
    File {
        /// The action that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A thread that works on transfers cannot be started.
    #[error("cannot start a thread")]
    Thread {
        /// The error of the system.
        source: std::io::Error,
    },
    /// A row cannot be read.
    #[error("the state database holds a damaged {what}: {why}")]
    Damaged {
        /// The kind of row.
        what: &'static str,
        /// The reason.
        why: String,
    },
}

impl StateError {
    /// Returns the exit code: temporary if the error may pass.
    fn exit(&self) -> Exit {
        match self {
            Self::Open { source, .. } | Self::Statement { source, .. } => exit_of(source),
            Self::Directory { source, .. } | Self::File { source, .. } => {
                io_problem::exit_of(source)
            }
            Self::NotController { .. } | Self::Etcd { .. } | Self::Thread { .. } => Exit::Temporary,
            Self::Version { .. } | Self::Damaged { .. } => Exit::Fatal,
        }
    }

    pub(super) fn statement(what: &'static str) -> impl Fn(rusqlite::Error) -> Self {
        move |source| Self::Statement { what, source }
    }
}

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        match &error {
            StateError::NotController { .. } => return penstock_api::fence::not_controller(),
            StateError::Thread { source } => return Self::no_thread(source),
            StateError::Etcd { .. } => {
                return Self::new(ProblemCode::Etcd, error.to_string())
                    .because(cause.unwrap_or_default())
                    .hint("`penstock site status` shows how etcd is");
            }
            _ => {}
        }
        let code = match &error {
            StateError::Version { .. } => ProblemCode::StateVersion,
            _ => ProblemCode::State,
        };
        let problem = Self::new(code, error.to_string()).exit(error.exit());
        let problem = problem.because(cause.unwrap_or_default());
        match (&error, problem.exit) {
            (StateError::File { source, .. } | StateError::Directory { source, .. }, _) => {
                problem.hint(io_problem::hint_of(source))
            }
            (_, Exit::Temporary) => problem.hint(
                "check the disk of the site directory: space, mode, mount; the transfer then \
                 resumes",
            ),
            _ => problem,
        }
    }
}

/// Returns the exit code for an error of SQLite: temporary if the error may pass. A failed sync is
/// fatal. Data of earlier commits in the write-ahead log may be lost, and a later sync that
/// succeeds does not show that (A4).
fn exit_of(error: &rusqlite::Error) -> Exit {
    let rusqlite::Error::SqliteFailure(told, _) = error else { return Exit::Fatal };
    let syncs = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
    match told.code {
        _ if syncs.contains(&told.extended_code) => Exit::Fatal,
        ErrorCode::DiskFull
        | ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied
        | ErrorCode::ReadOnly
        | ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::OutOfMemory => Exit::Temporary,
        _ => Exit::Fatal,
    }
}

/// The required durability of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// The commit survives `kill -9`.
    Plain,
    /// The commit survives a power cut.
    Durable,
}

/// The state of a site in SQLite. All methods block for a transaction, or an fsync if it is
/// durable; call them from threads that may block. Readers do not wait for writers.
#[derive(Debug)]
pub struct SqliteState {
    writer: Mutex<Connection>,
    /// The second connection, for reads. `None` where the file system has no locks. One connection
    /// then does all work: without locks and shared memory, two would not see each other's pending
    /// writes.
    reader: Option<Mutex<Connection>>,
}

impl SqliteState {
    /// Opens the database at `path`, or makes it (with the mode that the process's umask leaves).
    /// The caller holds a lock that keeps other daemons out.
    ///
    /// # Errors
    /// The database cannot be opened, or is of a later release.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let failed = |source| StateError::Open { path: path.to_owned(), source };
        let locks = has_locks(path);
        let mut writer = if locks {
            let writer = Connection::open(path).map_err(failed)?;
            writer.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
            writer.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
            writer
        } else {
            open_without_locks(path).map_err(failed)?
        };
        writer.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        migrate(&mut writer, path)?;
        // SQLite syncs the directory when it makes the WAL, not when it makes the database.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))
            .and_then(|directory| directory.sync_all())
            .map_err(|source| StateError::Directory { path: path.to_owned(), source })?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open_reader = || {
            let reader = Connection::open_with_flags(path, flags).map_err(failed)?;
            reader.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
            Ok(Mutex::new(reader))
        };
        let reader = locks.then(open_reader).transpose()?;
        Ok(Self { writer: Mutex::new(writer), reader })
    }

    /// Runs `body` in one transaction: all of it is committed, or nothing.
    pub(super) fn write<T>(
        &self,
        what: &'static str,
        commit: Commit,
        body: impl FnOnce(&Transaction<'_>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let failed = StateError::statement(what);
        // A poisoned lock is of a panic in `body`: its transaction was rolled back by drop.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let level = if commit == Commit::Durable { "FULL" } else { "NORMAL" };
        writer.pragma_update(None, "synchronous", level).map_err(&failed)?;
        let transaction =
            writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        let value = body(&transaction)?;
        transaction.commit().map_err(failed)?;
        Ok(value)
    }

    /// Writes the newest format from now on, and earlier releases leave the database alone. For a
    /// site of one peer: no other process has to read it.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn take_newest_format(&self) -> Result<(), StateError> {
        let what = "raise the format";
        self.write(what, Commit::Durable, |transaction| {
            transaction
                .pragma_update(None, "user_version", newest())
                .map_err(StateError::statement(what))
        })
    }

    /// Returns the connection for reading; it sees the last commit.
    pub(super) fn read(&self) -> MutexGuard<'_, Connection> {
        let reader = self.reader.as_ref().unwrap_or(&self.writer);
        reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the file system of `path` has the locks of fcntl(2) that SQLite needs. Tests a
/// file beside it: closing another descriptor of the database would release this process's locks on
/// it.
fn has_locks(path: &Path) -> bool {
    let mut probe = path.as_os_str().to_owned();
    probe.push("-probe");
    let probe = Path::new(&probe);
    // Opening the database reports any other error there.
    let Ok(file) = File::create(probe) else { return true };
    let locked = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    let _ = std::fs::remove_file(probe);
    let without = [Errno::NOSYS, Errno::NOLCK, Errno::OPNOTSUPP, Errno::INVAL];
    !locked.is_err_and(|errno| without.contains(&errno))
}

/// Opens the database where there are no locks. The caller's own lock keeps others out. A log that
/// is written ahead would need shared memory, so old pages are kept in a journal of the usual kind.
fn open_without_locks(path: &Path) -> rusqlite::Result<Connection> {
    tracing::info!(path = %path.display(), "no locks here: the database is opened without them");
    let writer = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), c"unix-none")?;
    // Before any read: the write-ahead log of an earlier run then needs no shared memory.
    writer.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    writer.pragma_update(None, "journal_mode", "TRUNCATE")?;
    Ok(writer)
}

fn migrate(writer: &mut Connection, path: &Path) -> Result<(), StateError> {
    let failed = |source| StateError::Open { path: path.to_owned(), source };
    let transaction =
        writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found: i64 =
        transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if found > newest() {
        return Err(StateError::Version { path: path.to_owned(), found });
    }
    if found == 0 {
        transaction.execute_batch(SCHEMA).map_err(failed)?;
        let oldest = version::known().formats().oldest;
        transaction.pragma_update(None, "user_version", oldest).map_err(failed)?;
    }
    // A file that a build of before `mounts` has made: no mounts are known of its transfers.
    let named = "SELECT count(*) FROM pragma_table_info('ledger') WHERE name = 'mounts'";
    let has: i64 = transaction.query_row(named, (), |row| row.get(0)).map_err(failed)?;
    if has == 0 {
        transaction.execute_batch("ALTER TABLE ledger ADD COLUMN mounts TEXT").map_err(failed)?;
    }
    // A file that a build of before users, or before rules of the queue, has made.
    transaction.execute_batch(PRINCIPALS).map_err(failed)?;
    // A file that a build of before overviews has made, or of before states in them.
    let named = "SELECT count(*) FROM pragma_table_info('overview') WHERE name = 'state'";
    let has: i64 = transaction.query_row(named, (), |row| row.get(0)).map_err(failed)?;
    if has == 0 {
        transaction.execute_batch(OVERVIEW).map_err(failed)?;
    }
    transaction.execute_batch(QUEUE_RULES).map_err(failed)?;
    transaction.execute_batch(BENCHMARKS).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// Counts are u64 and SQLite's integers i64: the same 64 bits.
pub(super) fn to_sql(count: u64) -> i64 {
    i64::from_ne_bytes(count.to_ne_bytes())
}

/// Reverses [`to_sql`].
pub(super) fn from_sql(stored: i64) -> u64 {
    u64::from_ne_bytes(stored.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the state is also kept on a file system without locks, by one connection, whatever
    /// a run with locks has left in its log. A later run with locks continues with it.
    #[test]
    fn a_database_is_kept_without_locks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let make = "CREATE TABLE kept (value INTEGER)";
        let state = SqliteState::open(&path).unwrap();
        state.writer.lock().unwrap().execute(make, ()).unwrap();
        // As after a kill: the log is there and was not written back.
        let killed = tempfile::tempdir().unwrap();
        for end in ["", "-wal"] {
            let name = format!("state.db{end}");
            std::fs::copy(directory.path().join(&name), killed.path().join(&name)).unwrap();
        }
        let path = killed.path().join("state.db");
        let writer = open_without_locks(&path).unwrap();
        let state = SqliteState { writer: Mutex::new(writer), reader: None };
        let write = state.write("keep", Commit::Durable, |transaction| {
            transaction
                .execute("INSERT INTO kept VALUES (7)", ())
                .map_err(StateError::statement("keep"))
        });
        assert_eq!(write.unwrap(), 1);
        let read = |state: &SqliteState| -> i64 {
            state.read().query_row("SELECT value FROM kept", (), |row| row.get(0)).unwrap()
        };
        assert_eq!(read(&state), 7);
        drop(state);
        assert_eq!(read(&SqliteState::open(&path).unwrap()), 7);
    }

    /// Promise: a database of a later release is refused and left alone.
    #[test]
    fn a_later_schema_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        drop(SqliteState::open(&path).unwrap());
        drop(SqliteState::open(&path).unwrap());
        let raw = Connection::open(&path).unwrap();
        raw.pragma_update(None, "user_version", newest() + 1).unwrap();
        drop(raw);
        let error = SqliteState::open(&path).unwrap_err();
        assert!(matches!(error, StateError::Version { found, .. } if found == newest() + 1));
        // `penstock copy` removes state that cannot be read, but not with this code.
        assert_eq!(Problem::from(error).code, ProblemCode::StateVersion);
    }

    /// Promise: a database of a build without the column of mounts stays usable.
    #[test]
    fn a_ledger_without_mounts_is_given_the_column() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        drop(SqliteState::open(&path).unwrap());
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch("ALTER TABLE ledger DROP COLUMN mounts; DROP TABLE principal").unwrap();
        drop(raw);
        let state = SqliteState::open(&path).unwrap();
        assert!(state.read().prepare("SELECT mounts FROM ledger").is_ok());
    }

    /// Promise: a state database that is full, locked or on a disk that fails ends no transfer, a
    /// damaged one does; A4: and so does one whose sync has failed.
    #[test]
    fn a4_what_may_pass_is_told_from_what_may_not() {
        let problem = |code| {
            let source = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            Problem::from(StateError::Statement { what: "commit", source })
        };
        let passing = [ffi::SQLITE_FULL, ffi::SQLITE_BUSY, ffi::SQLITE_READONLY];
        let failing =
            [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR_SHORT_READ];
        for code in passing.into_iter().chain(failing) {
            assert_eq!(problem(code).exit, Exit::Temporary, "{code}");
            assert!(!problem(code).hint.is_empty());
        }
        let lasting = [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_CONSTRAINT];
        let syncs = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
        for code in lasting.into_iter().chain(syncs) {
            assert_eq!(problem(code).exit, Exit::Fatal, "{code}");
        }
        let file = |errno| StateError::File {
            what: "write",
            path: "/journal/x/heads.1".into(),
            source: std::io::Error::from_raw_os_error(errno),
        };
        for errno in [5, 28, 110, 116] {
            assert_eq!(Problem::from(file(errno)).exit, Exit::Temporary, "{errno}");
        }
        let damaged = StateError::Damaged { what: "ledger", why: "it is cut short".to_owned() };
        assert_eq!(Problem::from(damaged).exit, Exit::Fatal);
    }

    /// A8: plain commits do not wait for the disk, durable ones do; each transaction sets its own.
    #[test]
    fn a8_the_sync_level_follows_each_commit() {
        let directory = tempfile::tempdir().unwrap();
        let state = SqliteState::open(&directory.path().join("state.db")).unwrap();
        for (commit, level) in [(Commit::Plain, 1), (Commit::Durable, 2), (Commit::Plain, 1)] {
            let seen = state
                .write("test", commit, |transaction| {
                    let query: Result<i64, _> =
                        transaction.pragma_query_value(None, "synchronous", |row| row.get(0));
                    query.map_err(StateError::statement("test"))
                })
                .unwrap();
            assert_eq!(seen, level);
        }
    }
}
