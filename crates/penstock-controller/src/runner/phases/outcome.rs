//! The outcome of a run: the lists of failed items and of digests, and the exit code.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};

use penstock_api::heads::LedgerHead;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::ScanSummary;
use penstock_api::task::TaskPage;
use penstock_api::transfer::PathText;
use penstock_engine::slice::slice_without;
use penstock_proto::checksum::format_line;
use penstock_proto::journal::{DigestForm, FailurePhase, JournalRecord};
use penstock_proto::units::counted;

use super::checksum_list::each_line;
use super::source_removal::{CHANGED, each_failure};
use crate::runner::failure_text::{failed_item, write_item};
use crate::runner::journal::page_log::{digests_of, failures_of, listed};
use crate::runner::journal::{RunFiles, failed, write_lines};
use crate::runner::pages::unlisted;
use crate::runner::shared::RunShared;

/// Numbers of failures, by kind.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    integrity: u64,
    source: u64,
    other: u64,
    /// Items that were to be done, whether their kind is known or not.
    items: u64,
    /// Files that the digest list lacks, because nearly all of each is holes (D2).
    pub(crate) not_listed: u64,
}

impl Tally {
    fn count(&mut self, phase: FailurePhase) {
        match phase {
            FailurePhase::Digest | FailurePhase::ReadBack => self.integrity += 1,
            FailurePhase::Vanished | FailurePhase::Changed => self.source += 1,
            _ => self.other += 1,
        }
    }

    /// Returns the problem that the transfer ends with; `None` if every planned item is verified.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let all = self.integrity + self.source + self.other;
        if all == 0 {
            return None;
        }
        let code = match self {
            Self { integrity: 1.., .. } => ProblemCode::Integrity,
            Self { other: 0, .. } => ProblemCode::SourceChanged,
            _ => ProblemCode::SomeFailed,
        };
        let title = format!("{all} of {} failed", counted(self.items.max(all), "item"));
        Some(
            Problem::new(code, title)
                .hint("the failed items are listed; `--files-from` moves just these"),
        )
    }
}

/// Writes the list of failures, and the digest list if it was asked for, page by page from the
/// ledger's logs: memory does not grow with the data set.
pub(crate) fn write_lists(
    shared: &RunShared,
    head: &LedgerHead,
    scan: &ScanSummary,
    root: &PathText,
    digest_list: bool,
    undeleted: Option<PathBuf>,
) -> Result<Tally, Problem> {
    let mut tally = Tally { items: scan.entries, ..Tally::default() };
    let (directory, files) = {
        let journal = shared.journal();
        (journal.directory().to_owned(), RunFiles::own(journal.directory(), journal.epoch()))
    };
    tally.items += scan.errors_unseen;
    let (failures_path, digests_path) = (files.failures, files.digests);
    let with_failures = head.pages.iter().filter(|page| page.failures > 0);
    write_lines(&failures_path, |out| {
        if scan.errors > 0 {
            tally.other += append_lines(out, &failures_path, &unlisted::path_of(&directory)?)?;
        }
        for page_head in with_failures.clone() {
            let page = shared.read_page(page_head.page)?;
            let log = shared.journal().read_log(page_head.page, page_head.log_bytes)?.0;
            for failure in failures_of(&log, &slice_without(&page.page, &page.left)) {
                tally.count(failure.phase);
                if let Some(item) = failed_item(&page.page, &failure) {
                    write_item(out, &failures_path, &item)?;
                }
            }
        }
        if let Some(undeleted) = undeleted {
            let stay = append_lines(out, &failures_path, &undeleted)?;
            tally.other += stay;
            // These entries are no items of the data set.
            tally.items += stay;
        }
        each_failure(&directory, &head.pages, |item| {
            match item.code.as_str() {
                CHANGED => tally.source += 1,
                _ => tally.other += 1,
            }
            write_item(out, &failures_path, item)
        })?;
        Ok(())
    })?;
    if digest_list {
        write_lines(&digests_path, |out| {
            let not_listed = &mut tally.not_listed;
            let values = |_: &_, page: &TaskPage, log: &[JournalRecord]| {
                let digests = digests_of(page, log);
                let sparse = digests.iter().filter(|digest| digest.form == DigestForm::Sparse);
                *not_listed += sparse.count() as u64;
                listed(&digests)
            };
            each_line(shared, &head.pages, root, values, |_, name, digest| {
                let line = format_line(digest, name);
                out.write_all(&line).map_err(|cause| failed("write", &digests_path, &cause))
            })
        })?;
    }
    Ok(tally)
}

/// Appends the lines of a file, if it exists. Returns their number.
fn append_lines(out: &mut dyn Write, to: &Path, from: &Path) -> Result<u64, Problem> {
    let file = match File::open(from) {
        Ok(file) => file,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(cause) => return Err(failed("read", from, &cause)),
    };
    let mut count = 0;
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|cause| failed("read", from, &cause))?;
        writeln!(out, "{line}").map_err(|cause| failed("write", to, &cause))?;
        count += 1;
    }
    Ok(count)
}
