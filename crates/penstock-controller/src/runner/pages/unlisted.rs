//! The list of items that the source could not list. The run fetches it in parts when the scan has
//! ended, and keeps it in the journal until the failed items are written.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use penstock_api::heads::LedgerHead;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::{FAILURE_PARTS, PageReply, PageSource, ScanFailure, ScanSummary};
use penstock_api::transfer::FailedItem;

use crate::runner::failure_text::{unlisted_item, write_item};
use crate::runner::journal::{failed, names, write_lines};
use crate::runner::shared::RunShared;

const UNLISTED: &str = "unlisted.jsonl";
/// The longest time that one request may wait at the source, in ms: the list exists at the scan's
/// end.
const WAIT_MS: u32 = 1_000;

/// Returns the path of the list, as the last controller that fetched it has left it.
///
/// # Errors
/// The journal cannot be read.
pub(crate) fn path_of(journal: &Path) -> Result<PathBuf, Problem> {
    names::last(&journal.join(UNLISTED)).map_err(|cause| failed("read", journal, &cause))
}

/// Returns the known state of a transfer. Drops the end of its scan if the list that belongs to it
/// is lost; the run then asks for the end again.
///
/// # Errors
/// As [`path_of`].
pub(crate) fn checked(head: LedgerHead, journal: &Path) -> Result<LedgerHead, Problem> {
    let is_there = path_of(journal)?.exists();
    let scan = head.scan.filter(|scan| scan.errors == 0 || is_there);
    Ok(LedgerHead { scan, ..head })
}

/// Returns the first items of the list, for users that watch the run.
pub(crate) fn first(scan: Option<&ScanSummary>, journal: &Path, most: usize) -> Vec<FailedItem> {
    if scan.is_none_or(|scan| scan.errors == 0) {
        return Vec::new();
    }
    // The counts are only shown: the failed items are written from the list itself.
    let opened = path_of(journal).ok().and_then(|path| File::open(path).ok());
    let Some(file) = opened else { return Vec::new() };
    let lines = BufReader::new(file).lines().map_while(Result::ok).take(most);
    lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
}

/// Returns the first items of the list, asked of the source: for plans, which keep no list. Blocks
/// for one request.
///
/// # Errors
/// As [`PageSource::page`].
pub(crate) fn first_of(
    source: &mut dyn PageSource,
    scan: &ScanSummary,
    most: usize,
) -> Result<Vec<FailedItem>, Problem> {
    if scan.error_parts == 0 {
        return Ok(Vec::new());
    }
    let PageReply::Page(text) = source.page(FAILURE_PARTS, WAIT_MS)? else {
        return Ok(Vec::new());
    };
    let failures: Vec<ScanFailure> = serde_json::from_slice(&text).unwrap_or_default();
    Ok(failures.into_iter().take(most).map(unlisted_item).collect())
}

/// Fetches the list of a scan that has ended, before the end is used in any other way. Blocks for
/// as many requests as there are parts; memory holds one part at a time.
///
/// # Errors
/// The errors of [`PageSource::page`]; the journal cannot be written; the list differs from the
/// summary.
pub(crate) fn fetch(
    source: &mut dyn PageSource,
    scan: &ScanSummary,
    shared: &RunShared,
) -> Result<(), Problem> {
    if scan.errors == 0 {
        return Ok(());
    }
    let path = shared.journal().own(UNLISTED);
    let broken = || {
        let title = "the source's list of items that could not be listed is not complete";
        Problem::new(ProblemCode::ManifestIncomplete, title)
    };
    write_lines(&path, |out| {
        let mut told = 0;
        for part in 0..scan.error_parts {
            let PageReply::Page(text) = source.page(FAILURE_PARTS + part, WAIT_MS)? else {
                return Err(broken());
            };
            let failures: Vec<ScanFailure> =
                serde_json::from_slice(&text).map_err(|cause| broken().because(cause))?;
            told += failures.len() as u64;
            for failure in failures {
                write_item(out, &path, &unlisted_item(failure))?;
            }
        }
        if told == scan.errors { Ok(()) } else { Err(broken()) }
    })
}
