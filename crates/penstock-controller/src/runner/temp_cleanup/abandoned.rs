//! Removal of the temporary files of a transfer that will not be continued.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_api::heads::LedgerHead;
use penstock_api::io_problem::failed;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{TargetPeer, TaskPage, TaskSpec};
use penstock_proto::id::WriterId;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::wire::Reader;

use crate::runner::earlier::{left_page, left_pages};

/// Removes the temporary files and sync markers that a transfer has left at the target, as far as
/// its journal and heads show. Blocks: it checks every entry of every page that is kept.
///
/// # Errors
/// The journal cannot be read; the store cannot be asked for all of it.
pub fn clean_abandoned(
    target: &dyn TargetPeer,
    spec: &TaskSpec,
    head: &LedgerHead,
    journal: &Path,
) -> Result<(), Problem> {
    let unreadable = |cause: io::Error| {
        failed(ProblemCode::Journal, format!("cannot read {}", journal.display()), &cause)
    };
    let (earlier, most) = left_pages(journal);
    let generation_max = generation_max(&journal.join("logs")).map_err(unreadable)?.max(most);
    let pages = files(&journal.join("pages")).map_err(unreadable)?;
    // A site that has had one peer may not have noted yet that it wrote.
    let mut writers: BTreeSet<WriterId> = head.epochs.keys().copied().collect();
    writers.insert(WriterId::SOLE);
    for writer in writers {
        let spec = TaskSpec { writer, ..spec.clone() };
        let mut broken = None;
        let read = |path: &PathBuf| page(path).map_err(|cause| broken = Some(cause)).ok();
        let before = earlier.iter().filter_map(|path| left_page(path));
        let mut given = pages.iter().map_while(read).flatten().chain(before);
        let cleaned = target.clean(&spec, &mut given, generation_max);
        match cleaned {
            // Without pages there is nothing that could be found, now or later.
            Err(problem) if pages.is_empty() && earlier.is_empty() => {
                tracing::info!(transfer = %spec.transfer, %problem, "a sync marker may be left");
            }
            cleaned => cleaned?,
        }
        broken.map_or(Ok(()), |cause| Err(unreadable(cause)))?;
    }
    Ok(())
}

/// Returns the paths of all entries of a directory; an empty list if the directory does not exist.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns a page as it is kept; `None` if it was never whole: no file of such a page was begun.
fn page(path: &Path) -> io::Result<Option<TaskPage>> {
    let encoded = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let page = Page::decode(&encoded).ok().map(Arc::new);
    Ok(page.map(|page| TaskPage { page, digest: page_digest(&encoded), left: Arc::default() }))
}

/// Returns the last attempt at any file of which the logs know; `runner::journal` has their layout.
fn generation_max(logs: &Path) -> io::Result<u32> {
    let mut most = 0;
    for path in files(logs)? {
        let log = match fs::read(path) {
            // A later controller may have removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read?,
        };
        let mut input = Reader::new(&log);
        while let Ok(record) = JournalRecord::take_from(&mut input) {
            if let JournalRecord::Generation { generation, .. } = record {
                most = most.max(generation);
            }
        }
    }
    Ok(most)
}
