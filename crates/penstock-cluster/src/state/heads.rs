//! Heads of ledgers in SQLite.

use penstock_api::heads::{HeadCommit, HeadStore, LedgerHead, PageHead};
use penstock_api::problem::Problem;
use penstock_proto::digest::Digest;
use penstock_proto::id::{TransferId, WriterId};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::sqlite::{Commit, SqliteState, StateError, from_sql, to_sql};

impl HeadStore for SqliteState {
    fn load(&self, transfer: TransferId) -> Result<LedgerHead, Problem> {
        Ok(load(&self.read(), transfer)?)
    }

    fn commit(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem> {
        let kind = if commit.durable { Commit::Durable } else { Commit::Plain };
        Ok(self.write("commit a ledger's heads", kind, |transaction| {
            write(transaction, transfer, commit)
        })?)
    }

    fn replace(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem> {
        Ok(self.write("replace a ledger's heads", Commit::Durable, |transaction| {
            clear(transaction, transfer)?;
            write(transaction, transfer, commit)
        })?)
    }

    fn remove(&self, transfer: TransferId) -> Result<(), Problem> {
        Ok(self.write("remove a ledger's heads", Commit::Durable, |transaction| {
            clear(transaction, transfer)
        })?)
    }
}

/// Forgets a ledger.
fn clear(transaction: &Transaction<'_>, transfer: TransferId) -> Result<(), StateError> {
    let failed = StateError::statement("remove a ledger's heads");
    let statements = [
        "DELETE FROM page WHERE transfer = ?1",
        "DELETE FROM writer WHERE transfer = ?1",
        "DELETE FROM ledger WHERE transfer = ?1",
    ];
    statements.into_iter().try_for_each(|statement| {
        transaction.execute(statement, [transfer.0]).map(drop).map_err(&failed)
    })
}

impl SqliteState {
    /// Returns the transfers of which a ledger is kept.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn ledgers(&self) -> Result<Vec<TransferId>, StateError> {
        let failed = StateError::statement("list the ledgers");
        let reader = self.read();
        let mut query = reader.prepare_cached("SELECT transfer FROM ledger").map_err(&failed)?;
        let rows = query.query_map([], |row| row.get(0).map(TransferId)).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }
}

fn write(
    transaction: &Transaction<'_>,
    transfer: TransferId,
    commit: &HeadCommit,
) -> Result<(), StateError> {
    let failed = StateError::statement("commit a ledger's heads");
    let scan = commit.scan.as_ref().map(serde_json::to_string).transpose().map_err(damaged)?;
    let mounts = commit.mounts.as_ref().map(serde_json::to_string).transpose().map_err(damaged)?;
    // The counter makes every commit write a frame: a durable one without any would not sync.
    transaction
        .prepare_cached(
            "INSERT INTO ledger (transfer, scan, store, mounts)
             VALUES (?1, ?2, coalesce(?3, 0), ?4)
             ON CONFLICT (transfer) DO UPDATE SET scan = coalesce(?2, scan),
                 store = coalesce(?3, store), mounts = coalesce(?4, mounts),
                 commits = commits + 1",
        )
        .and_then(|mut statement| {
            statement.execute(params![transfer.0, scan, commit.store.map(to_sql), mounts])
        })
        .map_err(&failed)?;
    for (writer, epoch) in &commit.epochs {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO writer VALUES (?1, ?2, ?3)")
            .and_then(|mut statement| {
                statement.execute(params![transfer.0, to_sql(writer.0), to_sql(*epoch)])
            })
            .map_err(&failed)?;
    }
    let mut statement = transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO page VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .map_err(&failed)?;
    for head in &commit.pages {
        statement
            .execute(params![
                transfer.0,
                head.page,
                head.digest.0,
                to_sql(head.log_bytes),
                head.complete,
                to_sql(head.files),
                to_sql(head.bytes),
                to_sql(head.failures),
                to_sql(head.kept),
                to_sql(head.kept_bytes),
                head.asks,
            ])
            .map_err(&failed)?;
    }
    Ok(())
}

fn load(reader: &Connection, transfer: TransferId) -> Result<LedgerHead, StateError> {
    let failed = StateError::statement("read a ledger's heads");
    // One read transaction, so that pages and ledger are of one commit.
    let snapshot = reader.unchecked_transaction().map_err(&failed)?;
    let select = "SELECT scan, store, mounts FROM ledger WHERE transfer = ?1";
    let row: Option<(Option<String>, i64, Option<String>)> = snapshot
        .query_row(select, [transfer.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
        .map_err(&failed)?;
    let Some((scan, store, mounts)) = row else { return Ok(LedgerHead::default()) };
    let epochs = snapshot
        .prepare_cached("SELECT writer, epoch FROM writer WHERE transfer = ?1")
        .and_then(|mut query| {
            let of = |row: &Row<'_>| Ok((WriterId(from_sql(row.get(0)?)), from_sql(row.get(1)?)));
            query.query_map([transfer.0], of)?.collect::<Result<_, _>>()
        })
        .map_err(&failed)?;
    let mut query = snapshot
        .prepare_cached(
            "SELECT page, digest, log_bytes, complete, files, bytes, failures, kept, kept_bytes,
                 asks
             FROM page WHERE transfer = ?1 ORDER BY page",
        )
        .map_err(&failed)?;
    let pages = query
        .query_map([transfer.0], page_of)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(&failed)?;
    let scan = scan.map(|text| serde_json::from_str(&text)).transpose().map_err(damaged)?;
    let mounts = mounts.map(|text| serde_json::from_str(&text)).transpose().map_err(damaged)?;
    let (store, mounts) = (from_sql(store), mounts.unwrap_or_default());
    Ok(LedgerHead { pages, scan, epochs, store, mounts })
}

fn page_of(row: &Row<'_>) -> rusqlite::Result<PageHead> {
    Ok(PageHead {
        page: row.get(0)?,
        digest: Digest(row.get(1)?),
        // A single daemon is the whole site.
        log: 0,
        log_bytes: from_sql(row.get(2)?),
        complete: row.get(3)?,
        files: from_sql(row.get(4)?),
        bytes: from_sql(row.get(5)?),
        failures: from_sql(row.get(6)?),
        kept: from_sql(row.get(7)?),
        kept_bytes: from_sql(row.get(8)?),
        asks: row.get(9)?,
    })
}

fn damaged(error: serde_json::Error) -> StateError {
    StateError::Damaged { what: "ledger", why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::scan::ScanSummary;
    use penstock_api::task::MountSeen;
    use penstock_api::transfer::PathText;

    fn head(page: u32, log_bytes: u64) -> PageHead {
        PageHead {
            page,
            digest: Digest([page as u8; 32]),
            log: 0,
            log_bytes,
            complete: page == 1,
            files: 3,
            bytes: u64::MAX,
            failures: 1,
            kept: 2,
            kept_bytes: 7,
            asks: page == 2,
        }
    }

    fn commit(pages: Vec<PageHead>) -> HeadCommit {
        HeadCommit { pages, ..Default::default() }
    }

    /// A8: committed heads are present when the database is opened again, and fields that a commit
    /// does not name keep their values.
    #[test]
    fn a8_heads_come_back_as_committed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let (id, other) = (TransferId([1; 16]), TransferId([2; 16]));
        let scan = ScanSummary { pages: 3, entries: 9, ..Default::default() };
        let mount = MountSeen { at: PathText(b"a/\xff".to_vec()), kind: "xfs".to_owned() };
        {
            let state = SqliteState::open(&path).unwrap();
            assert_eq!(state.load(id).unwrap(), LedgerHead::default());
            let first = HeadCommit {
                scan: Some(scan.clone()),
                store: Some(u64::MAX - 1),
                mounts: Some(vec![mount.clone()]),
                durable: true,
                ..commit(vec![head(0, 5), head(2, 7)])
            };
            state.commit(id, &first).unwrap();
            let epochs = vec![(WriterId::SOLE, 3), (WriterId(u64::MAX), 9)];
            let second = HeadCommit { epochs, ..commit(vec![head(2, 9), head(1, 1)]) };
            state.commit(id, &second).unwrap();
            let epochs = vec![(WriterId::SOLE, 4)];
            state.commit(id, &HeadCommit { epochs, ..commit(Vec::new()) }).unwrap();
            state.commit(other, &commit(vec![head(0, 1)])).unwrap();
            // As after `kill -9`: no destructor runs, nothing is checkpointed.
            std::mem::forget(state);
        }
        let state = SqliteState::open(&path).unwrap();
        let expected = LedgerHead {
            pages: vec![head(0, 5), head(1, 1), head(2, 9)],
            scan: Some(scan),
            epochs: [(WriterId::SOLE, 4), (WriterId(u64::MAX), 9)].into(),
            store: u64::MAX - 1,
            mounts: vec![mount],
        };
        assert_eq!(state.load(id).unwrap(), expected);
        let after = HeadCommit { store: Some(9), durable: true, ..HeadCommit::default() };
        state.replace(id, &after).unwrap();
        assert_eq!(state.load(id).unwrap(), LedgerHead { store: 9, ..LedgerHead::default() });
        state.remove(id).unwrap();
        assert_eq!(state.load(id).unwrap(), LedgerHead::default());
        assert_eq!(state.ledgers().unwrap(), vec![other]);
    }

    /// A8, promise (d): a commit that fails in its middle leaves nothing of itself.
    #[test]
    fn a8_heads_commit_all_or_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let id = TransferId([1; 16]);
        let state = SqliteState::open(&path).unwrap();
        state.commit(id, &commit(vec![head(0, 5)])).unwrap();
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch(
            "CREATE TRIGGER fail BEFORE INSERT ON page WHEN new.page = 2
             BEGIN SELECT RAISE(ABORT, 'as if the disk were full'); END",
        )
        .unwrap();
        let epochs = vec![(WriterId::SOLE, 9)];
        let broken = HeadCommit { epochs, ..commit(vec![head(1, 1), head(2, 1)]) };
        assert!(state.commit(id, &broken).is_err());
        let loaded = state.load(id).unwrap();
        assert_eq!((loaded.pages, loaded.epochs.len()), (vec![head(0, 5)], 0));
        raw.execute_batch("DROP TRIGGER fail").unwrap();
        state.commit(id, &broken).unwrap();
        assert_eq!(state.load(id).unwrap().epoch_of(WriterId::SOLE), 9);
    }
}
