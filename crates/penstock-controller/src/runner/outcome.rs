//! The result of a run: the lists of failed items and of digests, and the exit code.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use penstock_api::heads::LedgerHead;
use penstock_api::preserve::{NotKept, NotKeptWhy, add_not_kept};
use penstock_api::problem::{Exit, Problem};
use penstock_api::scan::{ScanFailure, ScanSummary};
use penstock_api::task::TaskPage;
use penstock_api::transfer::{FailedItem, PathText};
use penstock_engine::slice::{Piece, slice_without};
use penstock_engine::transfer::compared_of;
use penstock_proto::attributes::AttributeClass;
use penstock_proto::checksum::format_line;
use penstock_proto::journal::{DigestForm, EntryDigest, EntryFailure, FailurePhase, JournalRecord};
use penstock_proto::manifest::{Entry, Page};
use penstock_proto::name::{self, OwnKind};
use rustix::io::Errno;

use super::RunFiles;
use super::control::Shared;
use super::journal::{failed, write_lines};
use super::lines::{Values, each_line};
use super::removal::{CHANGED, each_failure};
use super::unlisted;

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

    /// The problem that the transfer ends with; `None` if every planned item is verified.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let all = self.integrity + self.source + self.other;
        if all == 0 {
            return None;
        }
        let (exit, code) = match self {
            Self { integrity: 1.., .. } => (Exit::Integrity, "integrity"),
            Self { other: 0, .. } => (Exit::SourceChanged, "source-changed"),
            _ => (Exit::SomeFailed, "some-failed"),
        };
        let title = format!("{all} of {} items failed", self.items.max(all));
        Some(
            Problem::new(exit, code, title)
                .hint("the failed items are listed; `--files-from` moves just these"),
        )
    }
}

/// Returns all attributes that were not kept: at the target, and already at the source.
pub(crate) fn not_kept(mut told: Vec<NotKept>, scan: Option<&ScanSummary>) -> Vec<NotKept> {
    let items = scan.map_or(0, |scan| scan.xattrs_left_out);
    if items > 0 {
        let (class, why) = (AttributeClass::UserXattrs, NotKeptWhy::Unfit);
        add_not_kept(&mut told, &[NotKept { class, why, items }]);
    }
    told
}

/// Code of a file at the source that a copy has not finished.
const UNFINISHED: &str = "unfinished";

/// A failure in words.
pub(crate) fn failed_item(page: &Page, failure: &EntryFailure) -> Option<FailedItem> {
    let entry = page.entry(failure.entry).ok()?;
    let path = page.path(entry);
    let (code, mut what) = words(failure.phase);
    let special = std::io::Error::from_raw_os_error(i32::from(failure.errno));
    if failure.phase == FailurePhase::Exists && special.kind() == ErrorKind::NotSeekable {
        what = "could not be written at the target";
    } else if failure.phase == FailurePhase::Exists && failure.errno != 0 {
        what = "may exist at the target already, where it cannot be compared";
    }
    let why = match failure.errno {
        0 => String::new(),
        errno => {
            let error = std::io::Error::from_raw_os_error(i32::from(errno));
            why_at_target(failure.phase, error, path.is_empty())
        }
    };
    Some(FailedItem {
        path: PathText(path),
        code: code.to_owned(),
        message: format!("{what}{why}"),
    })
}

/// Returns the reason, in words, why an entry could not be listed.
fn why_at_source(error: &std::io::Error) -> String {
    match error.kind() {
        // The only cause that `io::store` reports in this way while it lists.
        ErrorKind::FileTooLarge => "its file system does not tell its length, and reading it \
                                    reached no end within 64 MiB (64 GiB on FUSE), or waited for \
                                    10 s"
            .to_owned(),
        ErrorKind::ArgumentListTooLong => "the names of its extended attributes take more than \
                                           64 KiB, which the kernel does not list; `--no-preserve \
                                           xattrs` copies it without them"
            .to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the message of the system, and a remedy. Nothing is deleted for a data set that is one
/// file (`root`).
fn why_at_target(phase: FailurePhase, error: std::io::Error, root: bool) -> String {
    let at_target =
        matches!(phase, FailurePhase::Write | FailurePhase::Publish | FailurePhase::Exists);
    if phase == FailurePhase::Attributes {
        return match error.kind() {
            // The disk has room: this file system keeps attributes in a place of their own.
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                ": the target has no room for attributes of this size".to_owned()
            }
            _ if error.raw_os_error() == Some(Errno::RANGE.raw_os_error()) => {
                ": the target's file system cannot keep such a time".to_owned()
            }
            _ => format!(": {error}"),
        };
    }
    let in_the_way = match error.kind() {
        ErrorKind::IsADirectory if at_target => "a directory of its name is in the way",
        ErrorKind::NotSeekable if at_target => "a device, pipe or socket of its name is in the way",
        ErrorKind::NotADirectory if at_target => "in the way of its directory is something else",
        _ => return format!(": {error}"),
    };
    let help = if root { "remove it, or give another target" } else { "`--delete` removes it" };
    format!(": {in_the_way}; {help}")
}

fn words(phase: FailurePhase) -> (&'static str, &'static str) {
    match phase {
        FailurePhase::Scan => ("scan", "could not be listed at the source"),
        FailurePhase::Read => ("read", "could not be read at the source"),
        FailurePhase::Vanished => ("vanished", "vanished from the source after it was listed"),
        FailurePhase::Changed => ("changed", "changed at the source after it was listed"),
        FailurePhase::Digest => ("digest", "did not match its digest on arrival, again and again"),
        FailurePhase::Write => ("write", "could not be written at the target"),
        FailurePhase::Publish => ("publish", "could not be finished at the target"),
        FailurePhase::ReadBack => {
            ("readback", "read again at the target it is not what was written")
        }
        FailurePhase::Exists => ("exists", "exists at the target already"),
        FailurePhase::Link => ("link", "is another name of a file that is not at the target"),
        FailurePhase::Attributes => ("attributes", "could not be given its attributes"),
    }
}

/// Writes the list of failures, and the digest list if it was asked for, page by page from the
/// ledger's logs: memory does not grow with the data set.
pub(crate) fn write_lists(
    shared: &Shared,
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
            tally.other += append_lines(out, &failures_path, &unlisted::path_of(&directory))?;
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
            // They are no items of the data set.
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
fn append_lines(out: &mut dyn std::io::Write, to: &Path, from: &Path) -> Result<u64, Problem> {
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

/// Returns the failed item for an entry that could not be listed at the source, or is left out
/// there.
pub(super) fn unlisted_item(failure: ScanFailure) -> FailedItem {
    if failure.unfinished {
        let own = name::split(&failure.path.0).and_then(|(_, leaf)| name::own(leaf));
        let run = own.map(|own| format!(" {}", own.run)).unwrap_or_default();
        let message = match own.map(|own| own.kind) {
            Some(OwnKind::Aside) => format!("was put aside by move{run}, which was interrupted"),
            _ => format!("is an unfinished file of copy{run}, which runs or was interrupted"),
        };
        return FailedItem { path: failure.path, code: UNFINISHED.to_owned(), message };
    }
    let what = words(FailurePhase::Scan).1;
    let message = match failure.errno {
        0 => what.to_owned(),
        errno => {
            let why = std::io::Error::from_raw_os_error(i32::from(errno));
            format!("{what}: {}", why_at_source(&why))
        }
    };
    FailedItem { path: failure.path, code: "scan".to_owned(), message }
}

pub(super) fn write_item(
    out: &mut dyn std::io::Write,
    path: &std::path::Path,
    item: &FailedItem,
) -> Result<(), Problem> {
    let line = serde_json::to_string(item).unwrap_or_default();
    writeln!(out, "{line}").map_err(|cause| failed("write", path, &cause))
}

/// Returns the failures at the end of a log. A later record about a piece replaces an earlier one:
/// an entry of a pack that was fetched again has failed only if it failed then. Large files lie
/// between the entries of packs and do not belong to them; neither do rejected entries.
pub(super) fn failures_of(log: &[JournalRecord], pieces: &[Piece]) -> Vec<EntryFailure> {
    let mut failed = std::collections::BTreeMap::new();
    let mut apart: std::collections::BTreeSet<u32> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Finish { entry } => Some(*entry),
            _ => None,
        })
        .collect();
    let refused = compared_of(log).map(|compared| compared.failed.as_slice()).unwrap_or_default();
    for failure in refused {
        apart.insert(failure.entry);
        failed.insert(failure.entry, *failure);
    }
    let forget = |failed: &mut std::collections::BTreeMap<u32, EntryFailure>, piece: u32| {
        if let Some(Piece::Pack { first, end, .. }) = pieces.get(piece as usize) {
            failed.retain(|entry, _| apart.contains(entry) || !(first..end).contains(&entry));
        }
    };
    for record in log {
        match record {
            JournalRecord::Written { piece, failures, .. } => {
                forget(&mut failed, *piece);
                failed.extend(failures.iter().map(|failure| (failure.entry, *failure)));
            }
            JournalRecord::Missing { pieces } => {
                for piece in pieces {
                    forget(&mut failed, *piece);
                }
            }
            JournalRecord::Failed(failure) => {
                failed.insert(failure.entry, *failure);
            }
            _ => {}
        }
    }
    // They count in a later page, even if they are read here once more (a repair).
    for entry in amended_entries(log) {
        failed.remove(&entry);
    }
    failed.into_values().collect()
}

/// Entries of which a later page has a newer version.
pub(super) fn amended_entries(log: &[JournalRecord]) -> impl Iterator<Item = u32> + '_ {
    let entries = log.iter().filter_map(|record| match record {
        JournalRecord::Amended(amendment) => Some(&amendment.entries),
        _ => None,
    });
    entries.flatten().copied()
}

/// The digests that a page's log ends with: of whole files, in the order of the entries, without
/// those that failed.
pub(super) fn digests_of(page: &TaskPage, log: &[JournalRecord]) -> Vec<EntryDigest> {
    let pieces = slice_without(&page.page, &page.left);
    let carried = compared_of(log).map(|compared| compared.carried.clone());
    let mut digests: Vec<EntryDigest> = carried.unwrap_or_default();
    for record in log {
        if let JournalRecord::Written { piece, digests: found, .. } = record {
            let of_extent = matches!(pieces.get(*piece as usize), Some(Piece::Extent { .. }));
            if !of_extent {
                digests.extend(found);
            }
        }
    }
    // The last record of an entry counts. The stable sort puts it first among those of the entry.
    digests.reverse();
    digests.sort_by_key(|digest| digest.entry);
    digests.dedup_by_key(|digest| digest.entry);
    let failed = failures_of(log, &pieces);
    let mut out: std::collections::BTreeSet<u32> =
        failed.iter().map(|failure| failure.entry).collect();
    out.extend(amended_entries(log));
    if !out.is_empty() {
        digests.retain(|digest| !out.contains(&digest.entry));
    }
    digests
}

/// The name of an entry in lists. A data set that is one file has the name that it got at the
/// target.
pub(super) fn listed_name(page: &Page, entry: &Entry, root: &PathText) -> Vec<u8> {
    let name = page.path(entry);
    if name.is_empty() {
        return name::split(&root.0).map(|(_, leaf)| leaf.to_vec()).unwrap_or_default();
    }
    name
}

/// Entries of a page that its log ends with as failed.
pub(super) fn failed_entries(
    page: &TaskPage,
    log: &[JournalRecord],
) -> std::collections::BTreeSet<u32> {
    let pieces = slice_without(&page.page, &page.left);
    failures_of(log, &pieces).iter().map(|failure| failure.entry).collect()
}

/// Returns those digests of files that are standard, in the form that lists use.
pub(super) fn listed(digests: &[EntryDigest]) -> Values {
    digests
        .iter()
        .filter(|digest| digest.form == DigestForm::Standard)
        .map(|digest| (digest.entry, digest.digest.to_hex()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (c): a large file that failed stays failed, whatever is said later of the pack that
    /// its entry lies in; an entry of a pack has failed only if it did the last time.
    #[test]
    fn c_a_pack_does_not_take_back_the_failure_of_a_large_file() {
        let pieces = [
            Piece::Pack { first: 0, end: 3, files: 2, bytes: 2 },
            Piece::Extent { entry: 1, offset: 0, length: 1 },
            Piece::Finish { entry: 1 },
        ];
        let failure = |entry| EntryFailure { entry, phase: FailurePhase::Vanished, errno: 2 };
        let written = |failures| JournalRecord::Written {
            piece: 0,
            generation: 0,
            epoch: 1,
            digests: Vec::new(),
            failures,
        };
        let log = [
            written(vec![failure(0), failure(2)]),
            JournalRecord::Failed(failure(1)),
            JournalRecord::Missing { pieces: vec![0] },
            written(vec![failure(2)]),
        ];
        assert_eq!(failures_of(&log, &pieces), [failure(1), failure(2)]);
    }
}
