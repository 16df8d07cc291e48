//! Transfers of this site as their target, and stubs of transfers that other sites own.

use penstock_api::access::AccountName;
use penstock_api::deadline::{DeadlineView, Promise};
use penstock_api::problem::Exit;
use penstock_api::transfer::{
    Attempts, FailedItem, Location, PathText, Progress, TransferReport, TransferRequest,
    TransferState,
};
use penstock_proto::id::{Name, TransferId};
use rusqlite::{OptionalExtension as _, ToSql, params};
use serde::{Deserialize, Serialize};

use super::sqlite::{Commit, SqliteState, StateError, to_sql};

/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

/// A user's wish for a transfer; outlives the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wish {
    /// The transfer continues.
    #[default]
    None,
    /// The transfer stops and keeps its ledger.
    Pause,
    /// The transfer is abandoned.
    Cancel,
}

/// The source list that a transfer works on. A retry, and a resume after a pause, begin another
/// one, so that the transfer ends as one begun then would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Listing {
    /// Its number, from 0.
    pub number: u32,
    /// Seconds since 1970 from which ages of entries are counted.
    pub at: u64,
    /// Number of the source's process that listed it; 0 if none is known.
    #[serde(default)]
    pub instance: u64,
}

/// The stored state of a transfer that this site owns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferRecord {
    /// The request.
    pub request: TransferRequest,
    /// The site whose user asked.
    pub submitter: Name,
    /// The user at the own site who asked; `None` for the administrator of the host.
    #[serde(default)]
    pub owner: Option<Name>,
    /// Account as which mapped stores of the own site are used, as it was when the transfer was
    /// submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
    /// Seconds since 1970 of the submission.
    pub created: u64,
    /// Attempts so far, and their times.
    #[serde(default)]
    pub attempts: Attempts,
    /// Number of paths in the request. Only an overview has it, which lacks the paths themselves.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_from_count: u64,
    /// The source list that it works on, if that is not the first.
    #[serde(default)]
    pub listing: Listing,
    /// The state.
    pub state: TransferState,
    /// The wish of a user.
    pub wish: Wish,
    /// The reason for the state.
    pub reason: String,
    /// The path within the target store that no other transfer may touch meanwhile (B8).
    pub claim: PathText,
    /// Root of the data set within the target store, once the source has reported its kind.
    pub root: Option<PathText>,
    /// Figures of the last run.
    pub progress: Progress,
    /// The exit code of the command.
    pub exit: Option<Exit>,
    /// The first failed items.
    pub failures: Vec<FailedItem>,
    /// The method that made the data durable, in words.
    pub durable_by: String,
    /// Attempts in a row that have failed and moved nothing.
    #[serde(default)]
    pub idle_attempts: u32,
    /// Outlook of its deadline, as reported last.
    #[serde(default)]
    pub promise: Option<Promise>,
}

impl TransferRecord {
    /// Returns the source list that the transfer works on.
    pub fn listing(&self) -> Listing {
        if self.listing.number == 0 {
            Listing { at: self.created, ..self.listing }
        } else {
            self.listing
        }
    }

    /// Returns the user whose share of the queue it takes: the owner, or another site as a whole.
    pub fn user_text(&self) -> String {
        self.owner.as_ref().map_or_else(|| format!("@{}", self.submitter), Name::to_string)
    }

    /// Returns the id of the transfer.
    pub fn id(&self) -> TransferId {
        self.request.id
    }

    /// Returns the report for users and other sites.
    pub fn report(&self) -> TransferReport {
        let options = self.request.options.clone();
        TransferReport { options, failures: self.failures.clone(), ..self.brief() }
    }

    /// Returns the report without its lists: of paths, of rules, of failed items. The result is
    /// short for any request.
    pub fn brief(&self) -> TransferReport {
        let paths = self.request.options.files_from.len() as u64;
        TransferReport {
            id: self.request.id,
            source: self.request.source.clone(),
            target: self.request.target.clone(),
            options: self.request.options.without_lists(),
            files_from_count: self.files_from_count.max(paths),
            owner: self.owner.clone(),
            label: self.request.label.clone(),
            priority: self.request.priority,
            not_before: self.request.not_before,
            urgent: self.request.urgent,
            deadline: self.request.deadline.map(|deadline| DeadlineView {
                at: deadline.at,
                policy: deadline.policy,
                promise: self.promise.unwrap_or(Promise::Kept),
                forecast_at: None,
            }),
            state: self.state,
            waiting: None,
            reason: self.reason.clone(),
            created: self.created,
            attempts: self.attempts.clone(),
            progress: self.progress.clone(),
            exit: self.exit,
            failures: Vec::new(),
            durable_by: self.durable_by.clone(),
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A transfer that another site owns, as it was last seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stub {
    /// The site that owns it: its target.
    pub owner: Name,
    /// The user of this site that submitted it; `None` for the administrator of the host.
    #[serde(default)]
    pub user: Option<Name>,
    /// The submission, if that was made at this site: the view comes from the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Submitted>,
    /// The view as last seen.
    pub view: TransferReport,
}

/// Place of a transfer in lists: the seconds since 1970 of its submission, and its id.
pub type ListKey = (u64, TransferId);

/// Order of a list of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListOrder {
    /// The newest transfers first.
    #[default]
    NewestFirst,
    /// The oldest transfers first.
    OldestFirst,
}

/// A part of the transfers and stubs that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredIn {
    /// The state, as it was stored or last seen.
    pub state: TransferState,
    /// True for transfers of this site, false for stubs.
    pub own: bool,
}

/// The submission of a transfer that another site owns, as a user of this site made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The source.
    pub source: Location,
    /// Account of the user at that time, as which a mapped source of this site is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
}

/// A line of a list of transfers.
#[derive(Clone, Debug, PartialEq)]
pub enum Listed {
    /// A transfer of this site.
    Own(Box<TransferRecord>),
    /// A transfer of another site.
    Stub(Box<Stub>),
}

impl SqliteState {
    /// Stores a transfer, durably.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_transfer(&self, record: &TransferRecord) -> Result<(), StateError> {
        let what = "store a transfer";
        let text = serde_json::to_string(record).map_err(damaged)?;
        self.write(what, Commit::Durable, |transaction| {
            transaction
                .execute(
                    "INSERT OR REPLACE INTO transfer VALUES (?1, ?2, ?3, ?4)",
                    params![record.id().0, to_sql(record.created), record.state.as_str(), text],
                )
                .map_err(StateError::statement(what))?;
            Ok(())
        })
    }

    /// Returns one transfer that this site owns.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn transfer(&self, id: TransferId) -> Result<Option<TransferRecord>, StateError> {
        let text: Option<String> = self
            .read()
            .query_row("SELECT record FROM transfer WHERE id = ?1", [id.0], |row| row.get(0))
            .optional()
            .map_err(StateError::statement("read a transfer"))?;
        text.map(|text| serde_json::from_str(&text).map_err(damaged)).transpose()
    }

    /// Returns all transfers of this site that have not ended, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn open_transfers(&self) -> Result<Vec<TransferRecord>, StateError> {
        let failed = StateError::statement("list the open transfers");
        let reader = self.read();
        let mut query = reader
            .prepare(
                "SELECT record FROM transfer WHERE state IN ('queued', 'running', 'paused')
                 ORDER BY created, id",
            )
            .map_err(&failed)?;
        let texts: Vec<String> = query
            .query_map([], |row| row.get(0))
            .and_then(Iterator::collect::<Result<_, _>>)
            .map_err(failed)?;
        texts.iter().map(|text| serde_json::from_str(text).map_err(damaged)).collect()
    }

    /// Stores the known state of another site's transfer. Losing it costs a request, so the commit
    /// is a plain one.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_stub(&self, stub: &Stub) -> Result<(), StateError> {
        let what = "store a stub";
        let text = serde_json::to_string(stub).map_err(damaged)?;
        self.write(what, Commit::Plain, |transaction| {
            transaction
                .execute(
                    "INSERT OR REPLACE INTO stub VALUES (?1, ?2, ?3, ?4)",
                    params![
                        stub.view.id.0,
                        to_sql(stub.view.created),
                        stub.view.state.is_ended(),
                        text
                    ],
                )
                .map_err(StateError::statement(what))?;
            Ok(())
        })
    }

    /// Returns one stub.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn stub(&self, id: TransferId) -> Result<Option<Stub>, StateError> {
        let text: Option<String> = self
            .read()
            .query_row("SELECT record FROM stub WHERE id = ?1", [id.0], |row| row.get(0))
            .optional()
            .map_err(StateError::statement("read a stub"))?;
        text.map(|text| serde_json::from_str(&text).map_err(damaged)).transpose()
    }

    /// Stubs of transfers that had not ended when last seen.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn open_stubs(&self) -> Result<Vec<Stub>, StateError> {
        let failed = StateError::statement("list the stubs");
        let reader = self.read();
        let mut query = reader
            .prepare("SELECT record FROM stub WHERE ended = 0 ORDER BY created, id")
            .map_err(&failed)?;
        let texts: Vec<String> = query
            .query_map([], |row| row.get(0))
            .and_then(Iterator::collect::<Result<_, _>>)
            .map_err(failed)?;
        texts.iter().map(|text| serde_json::from_str(text).map_err(damaged)).collect()
    }

    /// Forgets a stub.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remove_stub(&self, id: TransferId) -> Result<(), StateError> {
        let what = "remove a stub";
        self.write(what, Commit::Plain, |transaction| {
            transaction
                .execute("DELETE FROM stub WHERE id = ?1", [id.0])
                .map_err(StateError::statement(what))?;
            Ok(())
        })
    }

    /// Returns up to `limit` transfers and stubs, newest first, older than `before` if that is
    /// given.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn list(&self, before: Option<ListKey>, limit: usize) -> Result<Vec<Listed>, StateError> {
        self.listed(
            "SELECT own, record FROM (
               SELECT 1 AS own, created, id, record FROM transfer
               UNION ALL SELECT 0, created, id, record FROM stub
             ) WHERE (created, id) < (?1, ?2) ORDER BY created DESC, id DESC LIMIT ?3",
            (ListOrder::NewestFirst, before, limit),
            &[],
        )
    }

    /// Returns up to `limit` transfers and stubs behind `after` in an order, without their lists:
    /// of paths, of rules, of failed items.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn overview(
        &self,
        order: ListOrder,
        after: Option<ListKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, StateError> {
        let query = match order {
            ListOrder::NewestFirst => {
                "SELECT own, record FROM overview WHERE (created, id) < (?1, ?2)
                 ORDER BY created DESC, id DESC, own DESC LIMIT ?3"
            }
            ListOrder::OldestFirst => {
                "SELECT own, record FROM overview WHERE (created, id) > (?1, ?2)
                 ORDER BY created, id, own LIMIT ?3"
            }
        };
        self.listed(query, (order, after, limit), &[])
    }

    /// Returns the part of [`Self::overview`] that is stored in a state: transfers of this site, or
    /// stubs. Costs as much as it returns, however many others there are.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn overview_in(
        &self,
        stored: StoredIn,
        order: ListOrder,
        after: Option<ListKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, StateError> {
        let query = match order {
            ListOrder::NewestFirst => {
                "SELECT own, record FROM overview
                 WHERE state = ?4 AND own = ?5 AND (created, id) < (?1, ?2)
                 ORDER BY created DESC, id DESC LIMIT ?3"
            }
            ListOrder::OldestFirst => {
                "SELECT own, record FROM overview
                 WHERE state = ?4 AND own = ?5 AND (created, id) > (?1, ?2)
                 ORDER BY created, id LIMIT ?3"
            }
        };
        self.listed(query, (order, after, limit), &[&stored.state.as_str(), &stored.own])
    }

    /// Returns the lines of a query whose first three parameters are a place and a limit.
    fn listed(
        &self,
        query: &str,
        (order, after, limit): (ListOrder, Option<ListKey>, usize),
        further: &[&dyn ToSql],
    ) -> Result<Vec<Listed>, StateError> {
        let failed = StateError::statement("list transfers");
        let (created, id) = match (after, order) {
            (Some(after), _) => sql_key(after),
            (None, ListOrder::NewestFirst) => (i64::MAX, vec![0xff; 17]),
            (None, ListOrder::OldestFirst) => (i64::MIN, Vec::new()),
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let place: [&dyn ToSql; 3] = [&created, &id, &limit];
        let values = [&place[..], further].concat();
        // Other readers do not wait until the records are parsed.
        let rows: Vec<(bool, String)> = {
            let reader = self.read();
            let mut query = reader.prepare_cached(query).map_err(&failed)?;
            query
                .query_map(&*values, |row| Ok((row.get(0)?, row.get(1)?)))
                .and_then(Iterator::collect::<Result<_, _>>)
                .map_err(failed)?
        };
        rows.into_iter()
            .map(|(own, text)| {
                Ok(if own {
                    Listed::Own(serde_json::from_str(&text).map_err(damaged)?)
                } else {
                    Listed::Stub(serde_json::from_str(&text).map_err(damaged)?)
                })
            })
            .collect()
    }

    /// Returns the ids of transfers and stubs that begin with the hexadecimal digits `prefix`.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn ids_with_prefix(&self, prefix: &str) -> Result<Vec<TransferId>, StateError> {
        let failed = StateError::statement("find a transfer");
        let Some((first, last)) = ids_between(prefix) else { return Ok(Vec::new()) };
        let reader = self.read();
        let mut query = reader
            .prepare_cached(
                "SELECT id FROM transfer WHERE id BETWEEN ?1 AND ?2
                 UNION SELECT id FROM stub WHERE id BETWEEN ?1 AND ?2",
            )
            .map_err(&failed)?;
        query
            .query_map([first.0, last.0], |row| row.get(0).map(TransferId))
            .and_then(Iterator::collect::<Result<_, _>>)
            .map_err(failed)
    }
}

/// Returns the least and the greatest id that begins with these hexadecimal digits; `None` if no id
/// does.
fn ids_between(prefix: &str) -> Option<(TransferId, TransferId)> {
    let filled = |digit: &str| -> Option<TransferId> {
        let rest = ID_DIGITS.checked_sub(prefix.len())?;
        format!("{prefix}{}", digit.repeat(rest)).parse().ok()
    };
    Some((filled("0")?, filled("f")?))
}

impl Listed {
    /// Returns the place in the order of lists.
    pub fn key(&self) -> ListKey {
        match self {
            Self::Own(record) => (record.created, record.id()),
            Self::Stub(stub) => (stub.view.created, stub.view.id),
        }
    }
}

fn sql_key((created, id): ListKey) -> (i64, Vec<u8>) {
    (to_sql(created), id.0.to_vec())
}

fn damaged(error: serde_json::Error) -> StateError {
    StateError::Damaged { what: "transfer", why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u8, created: u64, state: TransferState) -> TransferRecord {
        TransferRecord {
            request: TransferRequest::new(
                TransferId([id; 16]),
                "lab:raw/a\\xff".parse().unwrap(),
                "hpc:scratch/b".parse().unwrap(),
                Default::default(),
            ),
            submitter: "lab".parse().unwrap(),
            owner: None,
            account: None,
            created,
            attempts: Attempts::default(),
            files_from_count: 0,
            listing: Listing::default(),
            state,
            wish: Wish::None,
            reason: String::new(),
            claim: PathText(b"b\xff".to_vec()),
            root: None,
            progress: Progress::default(),
            exit: None,
            failures: Vec::new(),
            durable_by: String::new(),
            idle_attempts: 0,
            promise: None,
        }
    }

    /// Promise (a): a transfer that was accepted is there after a restart, names that are not
    /// UTF-8 included, and only those that have not ended are begun again.
    #[test]
    fn transfers_come_back_as_stored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let (queued, done) =
            (record(1, 5, TransferState::Queued), record(2, 4, TransferState::Done));
        let state = SqliteState::open(&path).unwrap();
        state.put_transfer(&queued).unwrap();
        state.put_transfer(&done).unwrap();
        std::mem::forget(state);
        let state = SqliteState::open(&path).unwrap();
        assert_eq!(state.transfer(queued.id()).unwrap(), Some(queued.clone()));
        assert_eq!(state.open_transfers().unwrap(), vec![queued]);
        assert_eq!(state.transfer(TransferId([9; 16])).unwrap(), None);
    }

    /// Promise: an overview needs no long list, whatever a request names, and counts the items that
    /// it leaves out; also after a write of an earlier release.
    #[test]
    fn an_overview_has_no_long_lists() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let state = SqliteState::open(&path).unwrap();
        let mut long = record(1, 5, TransferState::Queued);
        long.request.options.files_from = vec![PathText(b"a\xff".to_vec()); 1000];
        state.put_transfer(&long).unwrap();
        let owner = "hpc".parse().unwrap();
        let stub = Stub {
            owner,
            user: None,
            submitted: None,
            view: TransferReport { id: TransferId([2; 16]), ..long.report() },
        };
        state.put_stub(&stub).unwrap();
        let of = |state: &SqliteState| -> Vec<TransferReport> {
            let listed = state.overview(ListOrder::NewestFirst, None, 10).unwrap();
            let report = |line| match line {
                Listed::Own(record) => record.brief(),
                Listed::Stub(stub) => stub.view,
            };
            listed.into_iter().map(report).collect()
        };
        for found in of(&state) {
            assert!(found.options.files_from.is_empty());
            assert_eq!(found.files_from_count, 1000);
        }
        state
            .write("drop the overview", Commit::Plain, |transaction| {
                let drop =
                    "DROP TRIGGER overview_of_transfer; DROP TRIGGER overview_without_transfer;
                DROP TRIGGER overview_of_stub; DROP TRIGGER overview_without_stub;
                DROP TABLE overview";
                transaction.execute_batch(drop).map_err(StateError::statement("drop the overview"))
            })
            .unwrap();
        drop(state);
        let state = SqliteState::open(&path).unwrap();
        assert_eq!(of(&state).len(), 2);
        long.state = TransferState::Done;
        state.put_transfer(&long).unwrap();
        state.remove_stub(stub.view.id).unwrap();
        let found = of(&state);
        assert_eq!((found.len(), found[0].state), (1, TransferState::Done));
        assert_eq!(state.transfer(long.id()).unwrap(), Some(long));
    }

    /// Promise: a list is complete for any size of its parts, own transfers and stubs alike.
    #[test]
    fn a_list_in_parts_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let state = SqliteState::open(&directory.path().join("state.db")).unwrap();
        for id in 0..10 {
            let record = record(id, u64::from(id / 3), TransferState::Done);
            if id % 2 == 0 {
                state.put_transfer(&record).unwrap();
            } else {
                let owner = "hpc".parse().unwrap();
                state
                    .put_stub(&Stub { owner, user: None, submitted: None, view: record.report() })
                    .unwrap();
            }
        }
        let (mut before, mut seen) = (None, Vec::new());
        loop {
            let part = state.list(before, 3).unwrap();
            let same = state.overview(ListOrder::NewestFirst, before, 3).unwrap();
            let keys = |part: &[Listed]| part.iter().map(Listed::key).collect::<Vec<_>>();
            assert_eq!(keys(&same), keys(&part));
            let Some(last) = part.last() else { break };
            before = Some(last.key());
            seen.extend(part.iter().map(|listed| listed.key().1.0[0]));
        }
        assert_eq!(seen, (0..10).rev().collect::<Vec<_>>());
        let oldest = state.overview(ListOrder::OldestFirst, None, 100).unwrap();
        assert_eq!(
            oldest.iter().map(|line| line.key().1.0[0]).collect::<Vec<_>>(),
            (0..10).collect::<Vec<_>>()
        );
        assert_eq!(state.ids_with_prefix("0303").unwrap(), vec![TransferId([3; 16])]);
        assert_eq!(state.ids_with_prefix("0").unwrap().len(), 10);
        let all = "03".repeat(16);
        assert_eq!(state.ids_with_prefix(&all).unwrap(), vec![TransferId([3; 16])]);
        for none in ["04041", "1", "x", &format!("{all}0")] {
            assert_eq!(state.ids_with_prefix(none).unwrap(), vec![], "`{none}`");
        }
        assert_eq!(state.ids_with_prefix("030").unwrap().len(), 1);
        assert_eq!(state.ids_with_prefix("").unwrap().len(), 10);
    }

    /// Promise: the part of an overview in one state has all transfers of that state, in order, and
    /// follows each change; also where an earlier release has made the overview.
    #[test]
    fn an_overview_of_a_state_follows_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let state = SqliteState::open(&path).unwrap();
        for id in 0..6 {
            let phase = if id % 2 == 0 { TransferState::Queued } else { TransferState::Failed };
            state.put_transfer(&record(id, 5, phase)).unwrap();
            let owner = "hpc".parse().unwrap();
            let view = record(id + 10, 5, phase).report();
            state.put_stub(&Stub { owner, user: None, submitted: None, view }).unwrap();
        }
        let of = |state: &SqliteState, phase, own, order, after: Option<u8>| -> Vec<u8> {
            let after = after.map(|id| (5, TransferId([id; 16])));
            let stored = StoredIn { state: phase, own };
            let found = state.overview_in(stored, order, after, 2).unwrap();
            found.iter().map(|line| line.key().1.0[0]).collect()
        };
        let (newest, oldest) = (ListOrder::NewestFirst, ListOrder::OldestFirst);
        let (queued, failed) = (TransferState::Queued, TransferState::Failed);
        assert_eq!(of(&state, queued, true, newest, None), [4, 2]);
        assert_eq!(of(&state, queued, true, newest, Some(2)), [0]);
        assert_eq!(of(&state, failed, false, oldest, None), [11, 13]);
        assert_eq!(of(&state, failed, false, oldest, Some(13)), [15]);
        assert!(of(&state, TransferState::Done, true, oldest, None).is_empty());
        state.put_transfer(&record(4, 5, TransferState::Done)).unwrap();
        assert_eq!(of(&state, queued, true, newest, None), [2, 0]);
        state
            .write("forget states", Commit::Plain, |transaction| {
                let forget = "DROP INDEX overview_state; ALTER TABLE overview DROP COLUMN state";
                transaction.execute_batch(forget).map_err(StateError::statement("forget states"))
            })
            .unwrap();
        drop(state);
        let state = SqliteState::open(&path).unwrap();
        assert_eq!(of(&state, queued, true, newest, None), [2, 0]);
        assert_eq!(of(&state, TransferState::Done, true, newest, None), [4]);
        assert_eq!(of(&state, failed, false, newest, None), [15, 13]);
    }
}
