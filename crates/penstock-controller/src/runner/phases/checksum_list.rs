//! The lines of lists of checksums: one for every name of a file that was verified, page by page.
//!
//! A file of several names was verified under its first name (B6). The other names have the same
//! value, which may lie many pages back. A table on disk holds the values of files that have other
//! names, so that memory does not grow with their number.

use std::path::PathBuf;

use penstock_api::heads::PageHead;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::TaskPage;
use penstock_api::transfer::PathText;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::{Entry, EntryKind};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::runner::journal::page_log::{Values, failed_entries, listed_name};
use crate::runner::shared::RunShared;

/// Memory that the table may use, in KiB; the rest is on disk.
const CACHE_KIB: i64 = 4 * 1024;

/// Passes every line to `take`: entry, name, value. `values_of` returns the values of a page's own
/// entries, from its log and head.
///
/// # Errors
/// The journal cannot be read, or the error that `take` returns.
pub(crate) fn each_line(
    shared: &RunShared,
    pages: &[PageHead],
    root: &PathText,
    mut values_of: impl FnMut(&PageHead, &TaskPage, &[JournalRecord]) -> Values,
    mut take: impl FnMut(&Entry, &[u8], &str) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut linked = Linked::new(shared);
    for head in pages {
        let page = shared.read_page(head.page)?;
        let log = shared.journal().read_log(head.page, head.log_bytes)?.0;
        let values = values_of(head, &page, &log);
        let failed = failed_entries(&page, &log);
        for (index, entry) in (0..).zip(page.page.entries()) {
            let found = match entry.kind {
                EntryKind::HardLink if page.left.contains(index) || failed.contains(&index) => None,
                EntryKind::HardLink => linked.find(page.page.link(entry))?,
                _ => values.get(&index).cloned(),
            };
            let Some(value) = found else { continue };
            if entry.linked && entry.kind == EntryKind::File {
                linked.note(&page.page.path(entry), &value)?;
            }
            take(entry, &listed_name(&page.page, entry, root), &value)?;
        }
    }
    Ok(())
}

/// Values of files that have other names, by the path of their first.
struct Linked {
    path: PathBuf,
    table: Option<Connection>,
}

impl Linked {
    fn new(shared: &RunShared) -> Self {
        Self { path: shared.journal().own("linked.sqlite"), table: None }
    }

    fn failed(&self, cause: &rusqlite::Error) -> Problem {
        let title = format!("cannot keep values in {}", self.path.display());
        Problem::new(ProblemCode::Journal, title).because(cause)
    }

    /// Returns the table, made when it is first needed: most data sets have no hard links.
    fn open(&self) -> rusqlite::Result<Connection> {
        let _ = std::fs::remove_file(&self.path);
        let table = Connection::open(&self.path)?;
        // The table does not outlive this list.
        table.pragma_update(None, "journal_mode", "off")?;
        table.pragma_update(None, "synchronous", "off")?;
        table.pragma_update(None, "locking_mode", "exclusive")?;
        table.pragma_update(None, "cache_size", -CACHE_KIB)?;
        table.execute_batch(
            "CREATE TABLE linked (path BLOB PRIMARY KEY, value TEXT) WITHOUT ROWID; BEGIN",
        )?;
        Ok(table)
    }

    fn note(&mut self, path: &[u8], value: &str) -> Result<(), Problem> {
        let table = match self.table.take() {
            Some(table) => table,
            None => self.open().map_err(|cause| self.failed(&cause))?,
        };
        let noted = table
            .prepare_cached("INSERT OR REPLACE INTO linked VALUES (?1, ?2)")
            .and_then(|mut insert| insert.execute(params![path, value]));
        noted.map_err(|cause| self.failed(&cause))?;
        self.table = Some(table);
        Ok(())
    }

    fn find(&self, path: &[u8]) -> Result<Option<String>, Problem> {
        let Some(table) = &self.table else { return Ok(None) };
        table
            .prepare_cached("SELECT value FROM linked WHERE path = ?1")
            .and_then(|mut select| select.query_row([path], |row| row.get(0)).optional())
            .map_err(|cause| self.failed(&cause))
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        if self.table.take().is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
