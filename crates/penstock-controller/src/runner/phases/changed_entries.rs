//! The phase after all pages are settled: the source is asked about entries that changed during the
//! run, and its answers replace older entries (C1, C2).
//!
//! When all pages are closed, the run reads the logs of pages with changed entries. These are
//! entries that had changed when they were to be read, and entries that must be looked at again.
//! The source puts newer versions of them into further pages, which are moved like all others. Two
//! facts are committed at once: that the source was asked about a page, and that further pages
//! exist. After a crash before that commit the run repeats the question, and the source answers
//! with the same pages.

use std::collections::{BTreeMap, BTreeSet};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::{ASKED_ENTRIES_MAX, AskedPage, RecheckRequest, SeenEntry};
use penstock_api::task::TaskPage;
use penstock_engine::slice::slice_without;
use penstock_proto::compared::Comparison;
use penstock_proto::digest::DigestKind;
use penstock_proto::journal::{Amendment, JournalRecord};
use penstock_proto::manifest::{EntryKind, Page};

use crate::runner::context::RunContext;
use crate::runner::journal::page_log::{
    amended_entries, digests_of, failures_of, is_apart, listed, seen_entries,
};
use crate::runner::state::RunState;

/// Rounds of newer versions of a file that are tried; then it is listed as changed.
pub(crate) const ROUNDS_MAX: u8 = 3;
/// Pages that are read for one question.
const PAGES_MAX: usize = 256;

/// The question that the source is asked at the moment.
#[derive(Debug, Default)]
pub(crate) struct ChangedEntries {
    /// Pages that the source is being asked about.
    asked: Option<Vec<u32>>,
}

impl ChangedEntries {
    /// Asks the source about the next pages with changed entries, or takes over its answer. Never
    /// waits for the source.
    ///
    /// # Errors
    /// The journal store cannot be read; the source cannot answer.
    pub(crate) fn step(
        &mut self,
        context: &RunContext,
        state: &mut RunState,
    ) -> Result<(), Problem> {
        match self.asked.take() {
            None => self.ask(context, state)?,
            Some(asked) => match state.puller.answer() {
                None => self.asked = Some(asked),
                Some(pages) => {
                    let pages = state.scan.extend(pages?);
                    context.shared.machine().handle_asked(asked, pages);
                }
            },
        }
        state.progress.is_asking = self.asked.is_some();
        Ok(())
    }

    fn ask(&mut self, context: &RunContext, state: &RunState) -> Result<(), Problem> {
        let shared = &context.shared;
        let mut question = RecheckRequest { pages: state.scan.pages(), asked: Vec::new() };
        let (mut numbers, mut count) = (Vec::new(), 0);
        let asking = shared.machine().asking(PAGES_MAX);
        for (number, log_bytes) in asking {
            let page = shared.read_page(number)?;
            let log = shared.journal().read_log(number, log_bytes)?.0;
            let asked = asked_of(&page, &log, context.spec.digest);
            let entries = asked.changed.len() + asked.seen.len();
            if count + entries > ASKED_ENTRIES_MAX {
                break;
            }
            numbers.push(number);
            // After the last round an entry that has changed again is a failure; to a plan, any
            // other version is one.
            let newer = page.page.round < ROUNDS_MAX && context.followed.is_none();
            if entries > 0 && newer {
                count += entries;
                question.asked.push(asked);
            }
        }
        if question.asked.is_empty() {
            shared.machine().handle_asked(numbers, question.pages);
        } else {
            state.puller.ask(question);
            self.asked = Some(numbers);
        }
        Ok(())
    }
}

/// Returns the older entries that the entries of a further page replace, by the page of the
/// older, and the bytes of these that failed: as large files, or because they were refused.
///
/// # Errors
/// The source amends an entry that does not exist, or one under another path; the journal
/// cannot be read.
pub(crate) fn amendments(
    context: &RunContext,
    page: &Page,
    compared: &Comparison,
) -> Result<BTreeMap<u32, (Amendment, u64)>, Problem> {
    let mut by_page: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for (index, amends) in (0..).zip(page.amends()) {
        by_page.entry(amends.page).or_default().push((amends.entry, index));
    }
    let mut amendments = BTreeMap::new();
    // The part of a log beyond its head was never committed, and is cut off.
    let heads = if by_page.is_empty() { Vec::new() } else { context.heads.load(context.id)?.pages };
    for (number, pairs) in by_page {
        let older = context.shared.read_page(number)?;
        let committed = heads.iter().find(|head| head.page == number);
        let log_bytes = committed.map_or(0, |head| head.log_bytes);
        let log = context.shared.journal().read_log(number, log_bytes)?.0;
        let pieces = slice_without(&older.page, &older.left);
        let failed: BTreeSet<u32> =
            failures_of(&log, &pieces).iter().map(|failure| failure.entry).collect();
        let known: BTreeSet<u32> = amended_entries(&log).collect();
        let (mut amendment, mut failed_bytes) = (Amendment::default(), 0);
        for (entry, index) in pairs {
            let (was, is) = (older.page.entry(entry), page.entry(index));
            let (Ok(was), Ok(is)) = (was, is) else { return Err(wrong_page(page.number)) };
            if was.kind != EntryKind::File || older.page.path(was) != page.path(is) {
                return Err(wrong_page(page.number));
            }
            // An entry that stays as it is was moved under the older version.
            if compared.kept.contains(index) || known.contains(&entry) {
                continue;
            }
            amendment.entries.push(entry);
            let is_failed = failed.contains(&entry);
            amendment.failures += u32::from(is_failed);
            amendment.files += u32::from(!is_failed);
            // A file that failed in a pack is in the bytes of its pack.
            match is_failed && is_apart(&log, &older, entry) {
                true => failed_bytes += was.size,
                false => amendment.bytes += was.size,
            }
        }
        amendment.entries.sort_unstable();
        if !amendment.entries.is_empty() {
            amendments.insert(number, (amendment, failed_bytes));
        }
    }
    Ok(amendments)
}

fn wrong_page(number: u32) -> Problem {
    let title = format!("page {number} of the data set amends what is not in it");
    Problem::new(ProblemCode::Manifest, title)
}

/// Returns the entries of a page that the source is to look at again.
fn asked_of(page: &TaskPage, log: &[JournalRecord], kind: DigestKind) -> AskedPage {
    let pieces = slice_without(&page.page, &page.left);
    let failures = failures_of(log, &pieces);
    let failed: BTreeSet<u32> = failures.iter().map(|failure| failure.entry).collect();
    let amended: BTreeSet<u32> = amended_entries(log).collect();
    let is_file =
        |entry: u32| page.page.entry(entry).is_ok_and(|entry| entry.kind == EntryKind::File);
    let mended = failures.iter().filter(|failure| failure.may_be_mended());
    let changed = mended
        .map(|failure| failure.entry)
        .filter(|entry| is_file(*entry) && !amended.contains(entry))
        .collect();
    let seen = seen_entries(log);
    let standard = match kind {
        DigestKind::Blake3 => listed(&digests_of(page, log)),
        DigestKind::Xxh3 => Default::default(),
    };
    let seen = seen
        .into_iter()
        .filter(|(entry, _)| !failed.contains(entry) && !amended.contains(entry))
        .map(|(entry, ctime)| {
            let blake3 = standard.get(&entry).cloned();
            SeenEntry { entry, ctime, blake3 }
        })
        .collect();
    AskedPage { page: page.page.number, changed, seen }
}
