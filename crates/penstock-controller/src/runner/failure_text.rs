//! Failed items in words, as users see them.

use std::io::{ErrorKind, Write};
use std::path::Path;

use penstock_api::problem::Problem;
use penstock_api::scan::ScanFailure;
use penstock_api::transfer::{FailedItem, PathText};
use penstock_proto::journal::{EntryFailure, FailurePhase};
use penstock_proto::manifest::Page;
use penstock_proto::name::{self, OwnKind};
use rustix::io::Errno;

use super::journal::failed;

/// Code of a file at the source that a copy has not finished.
const UNFINISHED: &str = "unfinished";

/// Returns a failure in words.
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
        // The only cause that `penstock_store` reports in this way while it lists.
        ErrorKind::FileTooLarge => "its file system does not report its length, and reading it \
                                    found no end within 64 MiB (64 GiB on FUSE), or waited for 10 s"
            .to_owned(),
        ErrorKind::ArgumentListTooLong => "the names of its extended attributes take more than \
                                           64 KiB, which the kernel does not list; `--no-preserve \
                                           xattrs` copies it without them"
            .to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the message of the system, and a remedy. A data set of one file (`root`) causes no
/// deletion.
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

/// Returns the failed item for an entry that could not be listed at the source, or is left out
/// there.
pub(crate) fn unlisted_item(failure: ScanFailure) -> FailedItem {
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

pub(crate) fn write_item(
    out: &mut dyn Write,
    path: &Path,
    item: &FailedItem,
) -> Result<(), Problem> {
    let line = serde_json::to_string(item).unwrap_or_default();
    writeln!(out, "{line}").map_err(|cause| failed("write", path, &cause))
}
