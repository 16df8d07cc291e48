//! Files that an abandoned peer may have written to after they were finished (B1).
//!
//! The journal records such files as soon as they are known. A run that ends before it has checked
//! them, and a later controller, leave the check to the controller that finishes the transfer. If
//! the peer is still silent then, the run reports that: later writes are not repaired.
//!
//! A peer that returns checks the files itself. In a distributed file system its client knows times
//! of late writes that the server, and so all other peers, learn only seconds later
//! (docs/design/0025).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{Mended, TargetPeer};
use penstock_proto::id::WriterId;
use penstock_proto::journal::LateFile;
use penstock_proto::manifest::Page;

use crate::runner::context::RunContext;
use crate::runner::journal::page_log;
use crate::runner::shared::RunShared;
use crate::runner::tasks::TaskSet;

/// Files that are named in words; of more there is the count.
const NAMED_MAX: usize = 3;

/// The time that a peer which may have written late has to check files of a page, besides the time
/// for reading them at the rate below.
const MEND_MAX: Duration = Duration::from_secs(30);
const MEND_RATE: u64 = 20 << 20;

type ByWriter = BTreeMap<WriterId, BTreeSet<u32>>;

/// Returns the files by page and by the writer that may write them.
fn by_page(late: &BTreeSet<LateFile>) -> BTreeMap<u32, ByWriter> {
    let mut pages: BTreeMap<u32, ByWriter> = BTreeMap::new();
    for (writer, page, entry) in late {
        pages.entry(*page).or_default().entry(*writer).or_default().insert(*entry);
    }
    pages
}

/// Reports at the end the abandoned peers that have been silent since and may still write to
/// finished files.
pub(crate) fn report_silent(context: &RunContext, tasks: &TaskSet) {
    let silent = tasks.silent();
    if silent.is_empty() {
        return;
    }
    let of_them = tasks.late().iter().filter(|(writer, ..)| silent.contains_key(writer));
    let files: BTreeSet<(u32, u32)> = of_them.map(|(_, page, entry)| (*page, *entry)).collect();
    let peers = silent.into_values().collect::<Vec<_>>().join(", ");
    let problem = silent_writer(&peers, files.len(), &names_of(&context.shared, &files));
    context.control.note(problem.clone());
    let remark = format!("{}; {}", problem.title, problem.hint);
    context.control.update(|view| view.remark = remark);
}

/// Checks the attributes of these files, and sets them where a late write has changed them. All
/// tasks are over by now, except those of silent peers. Only files that the log calls finished
/// are checked, by their digests. The digest distinguishes a late write, which repeats the same
/// bytes, from a later change of the file by another program.
///
/// # Errors
/// The journal store cannot be read or written; no peer can check a file.
pub(crate) fn mend(context: &RunContext, tasks: &mut TaskSet) -> Result<(), Problem> {
    let shared = &context.shared;
    tasks.keep_late()?;
    let late = by_page(tasks.late());
    if late.is_empty() {
        return Ok(());
    }
    for head in context.heads.load(context.id)?.pages {
        let Some(writers) = late.get(&head.page) else { continue };
        let page = shared.read_page(head.page)?;
        let log = shared.journal().read_log(head.page, head.log_bytes)?.0;
        let failed = page_log::failed_entries(&page, &log);
        let amended: BTreeSet<u32> = page_log::amended_entries(&log).collect();
        let listed = page_log::listed(&page_log::digests_of(&page, &log));
        let others = |entry: &u32| failed.contains(entry) || amended.contains(entry);
        for (writer, entries) in writers {
            let digest_of = |entry: &u32| Some((*entry, listed.get(entry)?.clone()));
            let files = entries.iter().filter(|entry| !others(entry)).filter_map(digest_of);
            let files: Vec<(u32, String)> = files.collect();
            if !files.is_empty() {
                mend_page(context, tasks, *writer, &page.page, &files)?;
            }
        }
    }
    Ok(())
}

fn names_of(shared: &RunShared, files: &BTreeSet<(u32, u32)>) -> Vec<String> {
    let named = files.iter().take(NAMED_MAX).filter_map(|(page, entry)| {
        let page = shared.read_page(*page).ok()?.page;
        let path = page.path(page.entries().get(*entry as usize)?);
        Some(format!("`{}`", penstock_proto::name::escape(&path)))
    });
    named.collect()
}

/// Lets the peer that may have written late check files of a page, if it is known and answers;
/// otherwise any peer.
fn mend_page(
    context: &RunContext,
    tasks: &mut TaskSet,
    writer: WriterId,
    page: &Page,
    files: &[(u32, String)],
) -> Result<(), Problem> {
    let own = match tasks.heard(writer) {
        Some(peer) => mend_at(context, tasks, (writer, peer), page, files),
        None => None,
    };
    let Mended { mended, others } = match own {
        Some(mended) => mended,
        None => context.peer.mend(&context.spec, page, files)?,
    };
    if mended > 0 {
        tracing::warn!(
            transfer = %context.id, page = page.number, files = mended,
            "a lost peer wrote late; attributes were set again"
        );
    }
    if others > 0 {
        tracing::warn!(
            transfer = %context.id, page = page.number, files = others,
            "files were changed by somebody else since they were finished: left as they are"
        );
    }
    Ok(())
}

/// Asks one peer to check and repair files, on a thread of its own: of all peers, the store of
/// this one may hang again. If the call fails or takes too long, the peer counts as silent from
/// then on.
fn mend_at(
    context: &RunContext,
    tasks: &mut TaskSet,
    (writer, peer): (WriterId, Arc<dyn TargetPeer>),
    page: &Page,
    files: &[(u32, String)],
) -> Option<Mended> {
    let sizes = files.iter().filter_map(|(entry, _)| page.entries().get(*entry as usize));
    let bytes: u64 = sizes.map(|entry| entry.size).sum();
    let most = MEND_MAX + Duration::from_secs(bytes / MEND_RATE);
    let (answer, answered) = channel();
    let (spec, page, files) = (context.spec.clone(), page.clone(), files.to_vec());
    let mend = move || drop(answer.send(peer.mend(&spec, &page, &files)));
    let thread = std::thread::Builder::new().name("mend".to_owned()).spawn(mend);
    let why = match thread.map(|_| answered.recv_timeout(most)) {
        Ok(Ok(Ok(mended))) => return Some(mended),
        Ok(Ok(Err(problem))) => problem.to_string(),
        Ok(Err(_)) => format!("no answer in {} s", most.as_secs()),
        Err(error) => error.to_string(),
    };
    tracing::warn!(
        transfer = %context.id, %writer, why,
        "a peer that may have written late does not check its files; another peer does"
    );
    tasks.handle_silent(writer);
    None
}

fn silent_writer(peers: &str, files: usize, named: &[String]) -> Problem {
    let (s, more) = match files {
        1 => ("", String::new()),
        _ if files > named.len() => ("s", format!(" and {} more", files - named.len())),
        _ => ("s", String::new()),
    };
    let named = named.join(", ");
    let title = format!(
        "{peers} was lost and has not answered since: if it still runs, it may write the same \
         bytes again to {files} file{s} that others have finished ({named}{more}), which changes \
         their times"
    );
    Problem::new(ProblemCode::SilentWriter, title).hint(
        "wait until it has rejoined, or make sure that its host is off, before you change \
               these files",
    )
}
