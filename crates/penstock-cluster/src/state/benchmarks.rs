//! Results of benchmarks of stores in SQLite.

use penstock_api::benchmark::Benchmark;
use penstock_proto::id::TransferId;
use rusqlite::params;

use super::sqlite::{Commit, SqliteState, StateError};

/// The table of the results.
pub(super) struct BenchmarkTable<'a>(pub(super) &'a SqliteState);

impl BenchmarkTable<'_> {
    /// Returns all results, oldest first. A result of a later release that this one cannot read is
    /// left out.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn all(&self) -> Result<Vec<Benchmark>, StateError> {
        let failed = StateError::statement("list the benchmarks of stores");
        let reader = self.0.read();
        let mut query =
            reader.prepare_cached("SELECT record FROM benchmark ORDER BY key").map_err(&failed)?;
        let rows = query
            .query_map([], |row| row.get::<_, String>(0))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(failed)?;
        let mut all: Vec<Benchmark> =
            rows.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        all.sort_by_key(|benchmark| benchmark.began);
        Ok(all)
    }

    /// Stores a result, or replaces the one with the same id. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(super) fn put(&self, benchmark: &Benchmark) -> Result<(), StateError> {
        let what = "store a benchmark";
        let text = serde_json::to_string(benchmark)
            .map_err(|error| StateError::Damaged { what: "benchmark", why: error.to_string() })?;
        self.0.write(what, Commit::Durable, |transaction| {
            transaction
                .execute(
                    "INSERT OR REPLACE INTO benchmark VALUES (?1, ?2)",
                    params![benchmark.id.to_string(), text],
                )
                .map(drop)
                .map_err(StateError::statement(what))
        })
    }

    /// Removes a result. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(super) fn remove(&self, id: TransferId) -> Result<(), StateError> {
        let what = "remove a benchmark";
        self.0.write(what, Commit::Durable, |transaction| {
            transaction
                .execute("DELETE FROM benchmark WHERE key = ?1", [id.to_string()])
                .map(drop)
                .map_err(StateError::statement(what))
        })
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::benchmark::{BenchmarkFileSystem, BenchmarkState};
    use penstock_api::timestamp::Timestamp;

    use super::*;

    fn benchmark(id: u8, began: u64) -> Benchmark {
        Benchmark {
            id: TransferId([id; 16]),
            store: "data".parse().unwrap(),
            path: "bench".to_owned().try_into().unwrap(),
            state: BenchmarkState::Done,
            user: "anna".to_owned(),
            began: Timestamp::of_seconds(began),
            ended: None,
            version: "1".to_owned(),
            steps_done: 2,
            steps: 2,
            step: String::new(),
            seconds: 10,
            repeats: 1,
            budget_bytes: 7,
            with_load: false,
            peers: Vec::new(),
            threads_asked: vec![1, 2],
            peers_left_out: 3,
            file_system: BenchmarkFileSystem::default(),
            left_out: Vec::new(),
            unread: Vec::new(),
            points: Vec::new(),
            problem: None,
            stale: None,
        }
    }

    /// Promise: results survive a restart of the daemon, a database of a build that knew none
    /// included, oldest first; a removed one stays removed.
    #[test]
    fn results_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        drop(SqliteState::open(&path).unwrap());
        let raw = rusqlite::Connection::open(&path).unwrap();
        raw.execute_batch("DROP TABLE benchmark").unwrap();
        drop(raw);
        let state = SqliteState::open(&path).unwrap();
        for result in [benchmark(1, 20), benchmark(2, 10), benchmark(1, 30)] {
            BenchmarkTable(&state).put(&result).unwrap();
        }
        drop(state);
        let state = SqliteState::open(&path).unwrap();
        assert_eq!(BenchmarkTable(&state).all().unwrap(), [benchmark(2, 10), benchmark(1, 30)]);
        BenchmarkTable(&state).remove(TransferId([2; 16])).unwrap();
        assert_eq!(BenchmarkTable(&state).all().unwrap(), [benchmark(1, 30)]);
    }
}
