//! Rules of the queue in SQLite: limits, shares, windows, pause rules.

use penstock_api::queue::QueueRule;
use rusqlite::params;

use super::sqlite::{Commit, SqliteState, StateError};

/// The table of the rules of the queue.
pub(super) struct QueueRuleTable<'a>(pub(super) &'a SqliteState);

impl QueueRuleTable<'_> {
    /// Returns all rules, by key.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(super) fn all(&self) -> Result<Vec<QueueRule>, StateError> {
        let failed = StateError::statement("list the rules of the queue");
        let reader = self.0.read();
        let mut query =
            reader.prepare_cached("SELECT record FROM queue_rule ORDER BY key").map_err(&failed)?;
        let rows = query
            .query_map([], |row| row.get::<_, String>(0))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(failed)?;
        rows.iter().map(|text| serde_json::from_str(text).map_err(damaged)).collect()
    }

    /// Stores a rule, or replaces the one with the same key. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(super) fn put(&self, rule: &QueueRule) -> Result<(), StateError> {
        let what = "store a rule of the queue";
        let text = serde_json::to_string(rule).map_err(damaged)?;
        self.0.write(what, Commit::Durable, |transaction| {
            transaction
                .execute(
                    "INSERT OR REPLACE INTO queue_rule VALUES (?1, ?2)",
                    params![rule.key(), text],
                )
                .map(drop)
                .map_err(StateError::statement(what))
        })
    }

    /// Removes a rule. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(super) fn remove(&self, key: &str) -> Result<(), StateError> {
        let what = "remove a rule of the queue";
        self.0.write(what, Commit::Durable, |transaction| {
            transaction
                .execute("DELETE FROM queue_rule WHERE key = ?1", [key])
                .map(drop)
                .map_err(StateError::statement(what))
        })
    }
}

fn damaged(error: serde_json::Error) -> StateError {
    StateError::Damaged { what: "rule of the queue", why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use penstock_api::queue::QueueShare;

    use super::*;

    /// Promise: rules survive a restart of the daemon, a database of a build that knew none
    /// included; a rule replaces the one of its key, and a removed one stays removed.
    #[test]
    fn rules_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        drop(SqliteState::open(&path).unwrap());
        let raw = rusqlite::Connection::open(&path).unwrap();
        raw.execute_batch("DROP TABLE queue_rule").unwrap();
        drop(raw);
        let state = SqliteState::open(&path).unwrap();
        let share =
            |user: &str, weight| QueueRule::Share(QueueShare { user: user.to_owned(), weight });
        for rule in [share("anna", 2), share("ben", 3), share("anna", 4)] {
            QueueRuleTable(&state).put(&rule).unwrap();
        }
        drop(state);
        let state = SqliteState::open(&path).unwrap();
        assert_eq!(QueueRuleTable(&state).all().unwrap(), [share("anna", 4), share("ben", 3)]);
        QueueRuleTable(&state).remove("shares/anna").unwrap();
        assert_eq!(QueueRuleTable(&state).all().unwrap(), [share("ben", 3)]);
    }
}
