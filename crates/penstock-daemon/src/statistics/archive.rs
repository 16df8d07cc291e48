//! The series of this peer on disk: a database of SQLite in the site directory.
//!
//! The recorder writes every ten seconds, so a kill of the daemon loses as many. A crash of the
//! host loses the points that the kernel has not written, about half a minute. A damaged archive is
//! put aside, and a new one is started: old figures never keep the daemon from its work. An archive
//! of a later release is not changed, and figures are in memory. The lock on the site directory
//! keeps other processes out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_proto::id::TransferId;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Transaction, params};

use super::core_times::CoreTimes;
use super::points::{Cell, HOUR, Point, TIERS, begins, thin};
use super::sample::{DRAM_WATTS, PACKAGE_WATTS, RATE, Sample};

/// Name of the database in the site directory.
pub(crate) const ARCHIVE_NAME: &str = "statistics.db";
/// The newest format of the tables that this release knows (`user_version`). A release that changes
/// the tables writes the next number.
const FORMAT: i64 = 0;
/// Most bytes of the database; the oldest transfers go first.
const BYTES_MAX: u64 = 256 << 20;
/// Bytes at which the oldest transfers go.
const BYTES_FULL: u64 = 224 << 20;
/// Transfers that go at once.
const DROPPED_AT_ONCE: u32 = 32;
/// Most columns of a series. Further ones take the place of those that no kept point has, which are
/// looked for once an hour, and are left out else.
const COLUMNS_MAX: usize = 64;
/// Seconds by which samples are behind a series whose newest ones came from a clock that was ahead.
const CLOCK_BEHIND: u64 = 60;
/// Seconds by which a clock is too far beyond the newest sample to remove anything by it.
const CLOCK_AHEAD: u64 = 24 * 3600;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    columns TEXT NOT NULL,
    last INTEGER NOT NULL,
    cores BLOB NOT NULL,
    cipher TEXT NOT NULL,
    bytes REAL NOT NULL,
    seconds INTEGER NOT NULL,
    shared_seconds INTEGER NOT NULL,
    package_joules REAL,
    dram_joules REAL
);
CREATE INDEX IF NOT EXISTS series_last ON series (last);
CREATE TABLE IF NOT EXISTS point (
    series INTEGER NOT NULL REFERENCES series (id) ON DELETE CASCADE,
    seconds INTEGER NOT NULL,
    at INTEGER NOT NULL,
    cells BLOB NOT NULL,
    PRIMARY KEY (series, seconds, at)
) WITHOUT ROWID;
";

/// The subject of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// This host.
    Host,
    /// A transfer for which this peer has worked.
    Transfer(TransferId),
}

impl Subject {
    fn key(self) -> String {
        match self {
            Self::Host => "host".to_owned(),
            Self::Transfer(id) => id.to_string(),
        }
    }
}

/// The points that are added to a series at once.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) subject: Subject,
    pub(crate) samples: Vec<Sample>,
    /// All seconds of its processors so far.
    pub(crate) cores: CoreTimes,
    /// The cipher of its lanes, once that is known.
    pub(crate) cipher: String,
    /// Seconds of these samples in which the peer worked for other transfers too.
    pub(crate) shared_seconds: u64,
}

/// A series as it is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Names of its columns.
    pub(crate) columns: Vec<String>,
    /// Length of each point, in seconds, and the point; ascending.
    pub(crate) points: Vec<(u64, Point)>,
}

/// Sums of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) cipher: String,
    pub(crate) bytes: f64,
    pub(crate) seconds: u64,
    pub(crate) shared_seconds: u64,
    pub(crate) package_joules: Option<f64>,
    pub(crate) dram_joules: Option<f64>,
}

/// The reason why the archive cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// SQLite fails.
    #[error("cannot {what} the statistics in `{}`: {source}", .path.display())]
    Database {
        /// The action that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// A later release wrote the database.
    #[error("`{}` is of format {found}; this release knows up to {FORMAT}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
    },
}

impl ArchiveError {
    /// Returns whether the file is no database, or is damaged.
    fn is_damage(&self) -> bool {
        let Self::Database { source, .. } = self else { return false };
        let code = source.sqlite_error_code();
        matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }
}

/// The archive. Its methods block on the disk of the site directory.
pub(crate) struct Archive {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl Archive {
    /// Opens the archive of a site directory. A damaged one is put aside as
    /// `statistics.db.damaged`; where there can be no file, or a later release has written it, the
    /// archive is in memory.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn open(directory: &Path) -> Result<Self, ArchiveError> {
        let path = directory.join(ARCHIVE_NAME);
        let mut opened = connect(&path);
        if opened.as_ref().is_err_and(ArchiveError::is_damage) {
            put_aside(&path);
            opened = connect(&path);
        }
        let connection = opened.or_else(|error| {
            tracing::warn!(%error, "statistics are in memory only");
            connect(Path::new(":memory:"))
        })?;
        Ok(Self { path, connection: Mutex::new(connection) })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, what: &'static str) -> impl Fn(rusqlite::Error) -> ArchiveError {
        let path = self.path.clone();
        move |source| ArchiveError::Database { what, path: path.clone(), source }
    }

    /// Adds to series, all in one transaction, and thins points that have become older.
    ///
    /// # Errors
    /// The disk is full, or fails. A damaged archive is replaced by an empty one, and the batches
    /// are lost.
    pub(crate) fn record(&self, batches: &[Batch]) -> Result<(), ArchiveError> {
        let mut connection = self.lock();
        let written = write(&mut connection, batches).map_err(self.failed("write"));
        if written.as_ref().is_err_and(ArchiveError::is_damage) {
            self.begin_anew(&mut connection)?;
        }
        written
    }

    /// Puts the damaged database aside, and begins with an empty one.
    fn begin_anew(&self, connection: &mut Connection) -> Result<(), ArchiveError> {
        // SQLite removes `statistics.db-wal` by its name when it closes the damaged database, so
        // that comes before the new one has such a file.
        *connection = connect(Path::new(":memory:"))?;
        put_aside(&self.path);
        *connection = connect(&self.path)?;
        Ok(())
    }

    /// Returns the result of a query. A damaged archive is replaced by an empty one, and the query
    /// fails.
    fn query<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ArchiveError> {
        let mut connection = self.lock();
        let found = query(&connection).map_err(self.failed("read"));
        if found.as_ref().is_err_and(ArchiveError::is_damage) {
            self.begin_anew(&mut connection)?;
        }
        found
    }

    /// Returns a series between two times, in seconds since 1970, both included, with all columns.
    /// Empty if there is no such series.
    ///
    /// # Errors
    /// The archive cannot be read. A damaged one is replaced by an empty one.
    pub(crate) fn series(
        &self,
        subject: Subject,
        since: u64,
        until: u64,
    ) -> Result<Series, ArchiveError> {
        self.query(|connection| read(connection, subject, since, until))
    }

    /// Returns the processors of a series, and its sums; `None` if there is no such series.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub(crate) fn totals(
        &self,
        subject: Subject,
    ) -> Result<Option<(CoreTimes, Totals)>, ArchiveError> {
        let sql =
            "SELECT cipher, bytes, seconds, shared_seconds, package_joules, dram_joules, cores
                   FROM series WHERE key = ?1";
        self.query(|connection| {
            let found = connection.query_row(sql, [subject.key()], |row| {
                Ok((CoreTimes::decode(&row.get::<_, Vec<u8>>(6)?), totals_of(row)?))
            });
            found.optional()
        })
    }

    /// Returns the sums of all transfers by cipher, of those whose energy was measured.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub(crate) fn energy_by_cipher(&self) -> Result<Vec<Totals>, ArchiveError> {
        let sql = "SELECT cipher, sum(bytes), sum(seconds), sum(shared_seconds),
                          sum(package_joules), sum(dram_joules)
                   FROM series WHERE package_joules IS NOT NULL AND key <> 'host'
                   GROUP BY cipher ORDER BY cipher";
        self.query(|connection| {
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([], totals_of)?;
            rows.collect()
        })
    }

    /// Removes transfers that are older than the longest points are kept, and the oldest ones while
    /// the archive is nearly full. Removes nothing by a clock that is far beyond the newest sample.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub(crate) fn expire(&self, now: u64) -> Result<(), ArchiveError> {
        let failed = self.failed("thin");
        let connection = self.lock();
        let sql = "SELECT coalesce(max(last), 0) FROM series";
        let newest: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(&failed)?;
        if now <= newest.unsigned_abs().saturating_add(CLOCK_AHEAD) {
            let before = begins(now)[TIERS.len() - 1];
            let sql = "DELETE FROM series WHERE key <> 'host' AND last < ?1";
            connection.execute(sql, [before as i64]).map_err(&failed)?;
        }
        while used_bytes(&connection).map_err(&failed)? > BYTES_FULL {
            let sql = "DELETE FROM series WHERE id IN (SELECT id FROM series WHERE key <> 'host'
                       ORDER BY last LIMIT ?1)";
            if connection.execute(sql, [DROPPED_AT_ONCE]).map_err(&failed)? == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn totals_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Totals> {
    Ok(Totals {
        cipher: row.get(0)?,
        bytes: row.get(1)?,
        seconds: row.get::<_, i64>(2)?.unsigned_abs(),
        shared_seconds: row.get::<_, i64>(3)?.unsigned_abs(),
        package_joules: row.get(4)?,
        dram_joules: row.get(5)?,
    })
}

/// Returns the bytes of pages in use.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok((pages * pragma("page_size")?).unsigned_abs())
}

fn connect(path: &Path) -> Result<Connection, ArchiveError> {
    let failed = |source| ArchiveError::Database { what: "open", path: path.to_owned(), source };
    // The lock on the site directory keeps others out, and some file systems have no other locks.
    let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), c"unix-none")
        .map_err(failed)?;
    // Before any read: its write-ahead log then needs no shared memory.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(failed)?;
    let found: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if found > FORMAT {
        return Err(ArchiveError::Version { path: path.to_owned(), found });
    }
    let set_up = || {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.execute_batch(SCHEMA)?;
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        connection.pragma_update(None, "max_page_count", BYTES_MAX as i64 / page)
    };
    set_up().map_err(failed)?;
    Ok(connection)
}

fn put_aside(path: &Path) {
    tracing::warn!(path = %path.display(), "the statistics are damaged, and begin anew");
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    // A file that cannot be renamed fails again at the opening of the database, which reports it.
    let _ = fs::rename(path, beside(".damaged"));
    let _ = fs::remove_file(beside("-wal"));
}

fn write(connection: &mut Connection, batches: &[Batch]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for batch in batches {
        write_one(&transaction, batch)?;
    }
    transaction.commit()
}

fn write_one(transaction: &Transaction<'_>, batch: &Batch) -> rusqlite::Result<()> {
    let Some(newest) = batch.samples.iter().map(|sample| sample.at).max() else { return Ok(()) };
    let find = "SELECT id, columns, last FROM series WHERE key = ?1";
    let found = transaction.query_row(find, [batch.subject.key()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
    });
    let (id, mut columns, last) = match found.optional()? {
        // Unreadable names are dropped: later cells then get new names.
        Some((id, columns, last)) => {
            (id, serde_json::from_str(&columns).unwrap_or_default(), last.unsigned_abs())
        }
        None => {
            let sql = "INSERT INTO series VALUES (NULL, ?1, '[]', 0, x'', '', 0, 0, 0, NULL, NULL)";
            transaction.execute(sql, [batch.subject.key()])?;
            (transaction.last_insert_rowid(), Vec::new(), 0)
        }
    };
    let mut unused = Vec::new();
    if columns.len() >= COLUMNS_MAX && newest / HOUR != last / HOUR {
        unused = unused_columns(transaction, id, &columns, batch)?;
    }
    let point_of = |sample| point_of(sample, &mut columns, &mut unused);
    let points: Vec<Point> = batch.samples.iter().map(point_of).collect();
    let last = if newest + CLOCK_BEHIND < last {
        let sql = "DELETE FROM point WHERE series = ?1 AND at > ?2";
        transaction.execute(sql, params![id, newest as i64])?;
        newest
    } else {
        newest.max(last)
    };
    update_series(transaction, (id, last), &columns, batch)?;
    for (tier, begin) in TIERS.iter().zip(begins(last)) {
        for point in thin(&points, tier.seconds) {
            merge_point(transaction, (id, tier.seconds), point)?;
        }
        let sql = "DELETE FROM point WHERE series = ?1 AND seconds = ?2 AND at < ?3";
        transaction.execute(sql, params![id, tier.seconds as i64, begin as i64])?;
    }
    Ok(())
}

/// Returns the places of columns that neither a kept point nor a sample of the batch has. The
/// longest points are kept for longest, and have the seconds of all others.
fn unused_columns(
    transaction: &Transaction<'_>,
    id: i64,
    columns: &[String],
    batch: &Batch,
) -> rusqlite::Result<Vec<usize>> {
    let names = batch.samples.iter().flat_map(|sample| &sample.values).map(|(name, _)| &**name);
    let names: BTreeSet<&str> = names.collect();
    let is_named = |place: &usize| names.contains(columns[*place].as_str());
    let mut unused: Vec<usize> = (0..columns.len()).filter(|place| !is_named(place)).collect();
    let sql = "SELECT cells FROM point WHERE series = ?1 AND seconds = ?2";
    let mut statement = transaction.prepare(sql)?;
    let mut rows = statement.query(params![id, TIERS[TIERS.len() - 1].seconds as i64])?;
    while let Some(row) = rows.next()? {
        let cells = Point::decode(0, &row.get::<_, Vec<u8>>(0)?).cells;
        unused.retain(|place| cells.get(*place).copied().flatten().is_none());
    }
    Ok(unused)
}

/// Returns the point of a sample, whose cells are in the order of `columns`; new ones are added, or
/// take places that are `unused`.
fn point_of(sample: &Sample, columns: &mut Vec<String>, unused: &mut Vec<usize>) -> Point {
    let mut cells = vec![None; columns.len()];
    for (name, value) in &sample.values {
        let at = match columns.iter().position(|column| *column == **name) {
            Some(at) => at,
            None if columns.len() < COLUMNS_MAX => {
                columns.push(name.to_string());
                cells.push(None);
                columns.len() - 1
            }
            None => {
                let Some(at) = unused.pop() else { continue };
                columns[at] = name.to_string();
                at
            }
        };
        cells[at] = value.is_finite().then(|| Cell::of(*value, sample.seconds));
    }
    Point { at: sample.at, cells }
}

fn update_series(
    transaction: &Transaction<'_>,
    (id, last): (i64, u64),
    columns: &[String],
    batch: &Batch,
) -> rusqlite::Result<()> {
    let sum = |name: &str| {
        let values = batch.samples.iter().filter_map(|sample| sample.total(name));
        values.reduce(|sum, value| sum + value)
    };
    let seconds: u64 = batch.samples.iter().map(|sample| u64::from(sample.seconds)).sum();
    // A sum with a part that is unknown is that of the other parts.
    let sql = "UPDATE series SET columns = ?2, last = ?3, cores = ?4,
               cipher = CASE WHEN ?5 = '' THEN cipher ELSE ?5 END,
               bytes = bytes + ?6, seconds = seconds + ?7, shared_seconds = shared_seconds + ?8,
               package_joules = coalesce(package_joules + ?9, package_joules, ?9),
               dram_joules = coalesce(dram_joules + ?10, dram_joules, ?10)
               WHERE id = ?1";
    let columns = serde_json::to_string(columns).unwrap_or_default();
    let values = params![
        id,
        columns,
        last as i64,
        batch.cores.encode(),
        batch.cipher,
        sum(RATE).unwrap_or(0.0) / 8.0,
        seconds as i64,
        batch.shared_seconds as i64,
        sum(PACKAGE_WATTS),
        sum(DRAM_WATTS),
    ];
    transaction.execute(sql, values).map(drop)
}

fn merge_point(
    transaction: &Transaction<'_>,
    (id, seconds): (i64, u64),
    point: Point,
) -> rusqlite::Result<()> {
    let place = (id, seconds as i64, point.at as i64);
    let find = "SELECT cells FROM point WHERE series = ?1 AND seconds = ?2 AND at = ?3";
    let found = transaction.prepare_cached(find)?.query_row(place, |row| row.get::<_, Vec<u8>>(0));
    let merged = match found.optional()? {
        Some(cells) => {
            let mut earlier = Point::decode(point.at, &cells);
            earlier.merge(&point);
            earlier
        }
        None => point,
    };
    let sql = "INSERT OR REPLACE INTO point VALUES (?1, ?2, ?3, ?4)";
    let values = params![place.0, place.1, place.2, merged.encode()];
    transaction.prepare_cached(sql)?.execute(values).map(drop)
}

fn read(
    connection: &Connection,
    subject: Subject,
    since: u64,
    until: u64,
) -> rusqlite::Result<Series> {
    let find = "SELECT id, columns, last FROM series WHERE key = ?1";
    let found = connection.query_row(find, [subject.key()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
    });
    let Some((id, columns, last)) = found.optional()? else { return Ok(Series::default()) };
    let sql = "SELECT at, cells FROM point
               WHERE series = ?1 AND seconds = ?2 AND at >= ?3 AND at < ?4 ORDER BY at";
    let mut statement = connection.prepare(sql)?;
    let mut points = BTreeMap::new();
    let mut end = until.saturating_add(1);
    for (tier, begin) in TIERS.iter().zip(begins(last.unsigned_abs())) {
        let from = begin.max(since.saturating_sub(since % tier.seconds));
        let bounds = params![id, tier.seconds as i64, from as i64, end.min(i64::MAX as u64) as i64];
        let rows = statement.query_map(bounds, |row| {
            let at = row.get::<_, i64>(0)?.unsigned_abs();
            Ok(Point::decode(at, &row.get::<_, Vec<u8>>(1)?))
        })?;
        for point in rows {
            let point = point?;
            points.insert(point.at, (tier.seconds, point));
        }
        end = end.min(begin);
    }
    let columns = serde_json::from_str(&columns).unwrap_or_default();
    Ok(Series { columns, points: points.into_values().collect() })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const ID: TransferId = TransferId([7; 16]);
    const TRANSFER: Subject = Subject::Transfer(ID);

    fn sample(at: u64, values: &[(&'static str, f64)]) -> Sample {
        let values = values.iter().map(|(name, value)| (Cow::Borrowed(*name), *value));
        Sample { at, seconds: 1, exact_seconds: 1.0, values: values.collect() }
    }

    fn batch(subject: Subject, samples: Vec<Sample>) -> Batch {
        let (cores, cipher) = (CoreTimes::default(), "AES-128-GCM".to_owned());
        Batch { subject, samples, cores, cipher, shared_seconds: 0 }
    }

    /// Records a rate of 8 bit/s and one watt for each second of a time, ten seconds at once.
    fn record(archive: &Archive, subject: Subject, seconds: std::ops::Range<u64>) {
        let all: Vec<u64> = seconds.collect();
        for ten in all.chunks(10) {
            let samples = ten.iter().map(|at| sample(*at, &[(RATE, 8.0), (PACKAGE_WATTS, 1.0)]));
            archive.record(&[batch(subject, samples.collect())]).unwrap();
        }
    }

    fn seconds_of(series: &Series) -> u64 {
        let cells = series.points.iter().filter_map(|(_, point)| point.cells[0]);
        cells.map(|cell| u64::from(cell.seconds)).sum()
    }

    /// Promise: recorded points survive a restart, each second once, however they were thinned;
    /// sums cover all of them.
    #[test]
    fn a_restart_keeps_series() {
        let directory = tempfile::tempdir().unwrap();
        const BEGIN: u64 = 1_800_000_003;
        const SECONDS: u64 = 30_000;
        let archive = Archive::open(directory.path()).unwrap();
        record(&archive, TRANSFER, BEGIN..BEGIN + SECONDS / 2);
        drop(archive);
        let archive = Archive::open(directory.path()).unwrap();
        record(&archive, TRANSFER, BEGIN + SECONDS / 2..BEGIN + SECONDS);
        let series = archive.series(TRANSFER, 0, u64::MAX).unwrap();
        assert_eq!(series.columns, [RATE, PACKAGE_WATTS]);
        assert_eq!(seconds_of(&series), SECONDS);
        let lengths: Vec<u64> = series.points.iter().map(|(length, _)| *length).collect();
        assert!(lengths.is_sorted_by(|older, newer| older >= newer));
        assert_eq!((lengths[0], *lengths.last().unwrap()), (60, 1));
        assert!(lengths.len() < 600 + 10 + 2160 + 6 + 160, "{} points", lengths.len());
        let (_, totals) = archive.totals(TRANSFER).unwrap().unwrap();
        assert_eq!((totals.bytes, totals.seconds), (SECONDS as f64, SECONDS));
        assert_eq!((totals.package_joules, totals.dram_joules), (Some(SECONDS as f64), None));
        let by_cipher = archive.energy_by_cipher().unwrap();
        assert_eq!(by_cipher, [totals]);
        let part = archive.series(TRANSFER, BEGIN + SECONDS - 5, BEGIN + SECONDS - 2).unwrap();
        assert_eq!(seconds_of(&part), 4);
        let other = archive.series(Subject::Host, 0, u64::MAX).unwrap();
        assert!(other.points.is_empty());
    }

    /// Promise: a new column is added to the earlier ones, and a column that ends is unknown from
    /// then on.
    #[test]
    fn columns_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let first = batch(TRANSFER, vec![sample(5, &[("lanes", 1.0)])]);
        let second = batch(TRANSFER, vec![sample(6, &[(RATE, 2.0), ("lanes", f64::NAN)])]);
        archive.record(&[first, second]).unwrap();
        let series = archive.series(TRANSFER, 0, 10).unwrap();
        assert_eq!(series.columns, ["lanes", RATE]);
        let cells: Vec<_> = series.points.iter().map(|(_, point)| point.cells.clone()).collect();
        assert_eq!(cells, [vec![Some(Cell::of(1.0, 1))], vec![None, Some(Cell::of(2.0, 1))]]);
        let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
        let values = names.iter().map(|name| (Cow::Owned(name.clone()), 1.0)).collect();
        let many = Sample { at: 7, seconds: 1, exact_seconds: 1.0, values };
        archive.record(&[batch(TRANSFER, vec![many])]).unwrap();
        assert_eq!(archive.series(TRANSFER, 0, 10).unwrap().columns.len(), COLUMNS_MAX);
    }

    /// Promise: names that no kept point has make room for new ones, and those with values stay.
    #[test]
    fn unused_columns_are_taken() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let many = |at: u64, names: &[String]| {
            let values = names.iter().map(|name| (Cow::Owned(name.clone()), 1.0)).collect();
            let sample = Sample { at, seconds: 1, exact_seconds: 1.0, values };
            archive.record(&[batch(Subject::Host, vec![sample])]).unwrap();
            archive.series(Subject::Host, 0, u64::MAX).unwrap().columns
        };
        let old: Vec<String> = (0..COLUMNS_MAX).map(|number| format!("n{number}")).collect();
        assert_eq!(many(1000, &old), old);
        let now = 500 * 24 * HOUR;
        assert_eq!(many(now, &old[1..]), old);
        // The place of `n0` was in use until the write before thinned it away.
        let new = ["new".to_owned(), "newer".to_owned()];
        assert_eq!(many(now + 1, &new), old);
        let columns = many(now + HOUR, &new);
        assert_eq!((columns[0].as_str(), &columns[1..]), ("new", &old[1..]));
    }

    /// Promise: a clock that was ahead for a while costs its own samples. Later samples are read,
    /// and no transfer is removed by a clock that is far beyond the newest sample.
    #[test]
    fn a_clock_ahead_hides_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let begin = 1_800_000_000;
        let old = begin - 10 * 24 * HOUR;
        record(&archive, Subject::Host, old..old + 20);
        record(&archive, TRANSFER, begin..begin + 20);
        let ahead = begin + 30 * 24 * HOUR;
        record(&archive, Subject::Host, ahead..ahead + 10);
        record(&archive, Subject::Host, begin + 30..begin + 50);
        let series = archive.series(Subject::Host, 0, u64::MAX).unwrap();
        assert_eq!(seconds_of(&series), 40);
        assert!(series.points.iter().all(|(_, point)| point.at < begin + 50));
        archive.expire(begin + 500 * 24 * HOUR).unwrap();
        assert!(archive.totals(TRANSFER).unwrap().is_some());
    }

    /// Promise: an archive that is damaged while it is open starts again, with a log of its own.
    #[test]
    fn a_later_damage_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(ARCHIVE_NAME);
        let archive = Archive::open(directory.path()).unwrap();
        record(&archive, Subject::Host, 100..200);
        let sql = "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA shrink_memory;";
        archive.lock().execute_batch(sql).unwrap();
        fs::write(&path, vec![7; fs::metadata(&path).unwrap().len() as usize]).unwrap();
        let lost = batch(Subject::Host, vec![sample(200, &[(RATE, 1.0)])]);
        assert!(archive.record(&[lost]).unwrap_err().is_damage());
        record(&archive, Subject::Host, 210..220);
        assert!(directory.path().join("statistics.db.damaged").exists());
        assert!(directory.path().join("statistics.db-wal").exists());
        drop(archive);
        let archive = Archive::open(directory.path()).unwrap();
        assert_eq!(seconds_of(&archive.series(Subject::Host, 0, 300).unwrap()), 10);
    }

    /// Promise: an archive whose damage a reader finds is also replaced; that reader gets an error.
    #[test]
    fn a_damage_that_a_reader_finds_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(ARCHIVE_NAME);
        let archive = Archive::open(directory.path()).unwrap();
        record(&archive, Subject::Host, 100..200);
        let sql = "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA shrink_memory;";
        archive.lock().execute_batch(sql).unwrap();
        fs::write(&path, vec![7; fs::metadata(&path).unwrap().len() as usize]).unwrap();
        assert!(archive.series(Subject::Host, 0, 300).unwrap_err().is_damage());
        assert!(directory.path().join("statistics.db.damaged").exists());
        record(&archive, Subject::Host, 210..220);
        assert_eq!(seconds_of(&archive.series(Subject::Host, 0, 300).unwrap()), 10);
    }

    /// Promise: an archive of a later release is left as it is, and figures are recorded in memory.
    #[test]
    fn an_archive_of_a_later_release_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        record(&archive, TRANSFER, 1_000_000..1_000_010);
        drop(archive);
        let path = directory.path().join(ARCHIVE_NAME);
        let later = "PRAGMA journal_mode = DELETE; ALTER TABLE point RENAME COLUMN cells TO cell;
                     PRAGMA user_version = 1";
        Connection::open(&path).unwrap().execute_batch(later).unwrap();
        let before = fs::read(&path).unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        record(&archive, TRANSFER, 2_000_000..2_000_010);
        let series = archive.series(TRANSFER, 0, 3_000_000).unwrap();
        assert_eq!(seconds_of(&series), 10);
        drop(archive);
        assert!(fs::read(&path).unwrap() == before, "the file was written");
        assert!(!directory.path().join("statistics.db.damaged").exists());
    }

    /// Promise: a damaged archive is put aside, and the daemon records on.
    #[test]
    fn a_damaged_archive_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(ARCHIVE_NAME);
        fs::write(&path, [7; 9000]).unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        record(&archive, Subject::Host, 100..120);
        assert_eq!(seconds_of(&archive.series(Subject::Host, 0, 200).unwrap()), 20);
        assert!(directory.path().join("statistics.db.damaged").exists());
    }

    /// Promise: old transfers go with their points, and the host stays.
    #[test]
    fn old_transfers_go() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let other = Subject::Transfer(TransferId([8; 16]));
        record(&archive, TRANSFER, 1000..1010);
        record(&archive, Subject::Host, 1000..1010);
        let year = 500 * 24 * 3600;
        record(&archive, other, year..year + 10);
        archive.expire(year + 20).unwrap();
        assert!(archive.totals(TRANSFER).unwrap().is_none());
        assert!(archive.totals(Subject::Host).unwrap().is_some());
        assert!(archive.totals(other).unwrap().is_some());
        let sql = "SELECT count(*) FROM point WHERE series NOT IN (SELECT id FROM series)";
        let left: i64 = archive.lock().query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}
