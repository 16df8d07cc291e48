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

use penstock_api::problem::{Exit, Problem};
use penstock_api::task::{Mended, TargetPeer};
use penstock_proto::id::WriterId;
use penstock_proto::manifest::Page;

use crate::runner::Run;
use crate::runner::journal::{DurableSet, page_log};

/// A file that may be written late: the writer, a page, and an entry of that page.
pub(crate) type LateFile = (WriterId, u32, u32);

/// Files that are named in words; of more there is the count.
const NAMED_MAX: usize = 3;

/// The time that a peer which may have written late has to check files of a page, besides the time
/// for reading them at the rate below.
const MEND_MAX: Duration = Duration::from_secs(30);
const MEND_RATE: u64 = 20 << 20;

/// Name in the journal of the set of files that must be checked again.
pub(crate) const LATE: &str = "late";

type ByWriter = BTreeMap<WriterId, BTreeSet<u32>>;

fn by_page(late: &DurableSet<LateFile>) -> BTreeMap<u32, ByWriter> {
    let mut pages: BTreeMap<u32, ByWriter> = BTreeMap::new();
    for (writer, page, entry) in late.known() {
        pages.entry(*page).or_default().entry(*writer).or_default().insert(*entry);
    }
    pages
}

impl Run {
    /// Records the files that must be checked again at the end.
    pub(crate) fn keep_late(&mut self) -> Result<(), Problem> {
        let found: Vec<LateFile> = self.shared.machine().late_files().collect();
        self.late.add(found)
    }

    /// Records the writers that write no more, after the files that they may have written late. The
    /// run does not wait for them from then on, and nothing else would record these files.
    pub(crate) fn keep_settled(&mut self) -> Result<(), Problem> {
        if self.tasks.has_news_of_settled() {
            self.keep_late()?;
            self.tasks.keep_settled()?;
        }
        Ok(())
    }

    /// Returns whether the end of the run waits for a peer that may have written late, and calls it
    /// back.
    pub(crate) fn calls_back(&mut self) -> Result<bool, Problem> {
        self.keep_late()?;
        let late = self.late.known().map(|(writer, ..)| *writer).collect();
        Ok(self.tasks.call_back(&late))
    }

    /// Reports at the end the abandoned peers that have been silent since and may still write to
    /// finished files.
    pub(crate) fn tell_silent(&self) {
        let late: BTreeSet<WriterId> = self.late.known().map(|(writer, ..)| *writer).collect();
        let silent = self.tasks.silent(late);
        if silent.is_empty() {
            return;
        }
        let of_them = self.late.known().filter(|(writer, ..)| silent.contains_key(writer));
        let files: BTreeSet<(u32, u32)> = of_them.map(|(_, page, entry)| (*page, *entry)).collect();
        let peers = silent.into_values().collect::<Vec<_>>().join(", ");
        let problem = silent_writer(&peers, files.len(), &self.names_of(&files));
        self.control.note(problem.clone());
        let remark = format!("{}; {}", problem.title, problem.hint);
        self.control.update(|view| view.remark = remark);
    }

    fn names_of(&self, files: &BTreeSet<(u32, u32)>) -> Vec<String> {
        let named = files.iter().take(NAMED_MAX).filter_map(|(page, entry)| {
            let page = self.shared.read_page(*page).ok()?.page;
            let path = page.path(page.entries().get(*entry as usize)?);
            Some(format!("`{}`", penstock_proto::name::escape(&path)))
        });
        named.collect()
    }

    /// Checks the attributes of these files, and sets them where a late write has changed them. All
    /// tasks are over by now, except those of silent peers. Only files that the log calls finished
    /// are checked, by their digests. The digest distinguishes a late write, which repeats the same
    /// bytes, from a later change of the file by another program.
    pub(crate) fn mend_late(&mut self) -> Result<(), Problem> {
        self.keep_late()?;
        let late = by_page(&self.late);
        if late.is_empty() {
            return Ok(());
        }
        let heads = self.heads.load(self.id)?.pages;
        for head in heads {
            let Some(writers) = late.get(&head.page) else { continue };
            let page = self.shared.read_page(head.page)?;
            let log = self.shared.journal().read_log(head.page, head.log_bytes)?.0;
            let failed = page_log::failed_entries(&page, &log);
            let amended: BTreeSet<u32> = page_log::amended_entries(&log).collect();
            let listed = page_log::listed(&page_log::digests_of(&page, &log));
            let others = |entry: &u32| failed.contains(entry) || amended.contains(entry);
            for (writer, entries) in writers {
                let digest_of = |entry: &u32| Some((*entry, listed.get(entry)?.clone()));
                let files = entries.iter().filter(|entry| !others(entry)).filter_map(digest_of);
                let files: Vec<(u32, String)> = files.collect();
                if !files.is_empty() {
                    self.mend_page(*writer, &page.page, &files)?;
                }
            }
        }
        Ok(())
    }

    /// Lets the peer that may have written late check files of a page, if it was heard of and
    /// answers; otherwise any peer.
    fn mend_page(
        &mut self,
        writer: WriterId,
        page: &Page,
        files: &[(u32, String)],
    ) -> Result<(), Problem> {
        let own = match self.tasks.heard(writer) {
            Some(peer) => self.mend_at(writer, peer, page, files),
            None => None,
        };
        let Mended { mended, others } = match own {
            Some(mended) => mended,
            None => self.peer.mend(&self.spec, page, files)?,
        };
        if mended > 0 {
            tracing::warn!(
                transfer = %self.id, page = page.number, files = mended,
                "a peer that was given up had written late: attributes were set again"
            );
        }
        if others > 0 {
            tracing::warn!(
                transfer = %self.id, page = page.number, files = others,
                "files were changed by somebody else since they were finished: left as they are"
            );
        }
        Ok(())
    }

    /// Asks one peer to check and repair files, on a thread of its own: of all peers, the store of
    /// this one may hang again. If the call fails or takes too long, the peer counts as silent from
    /// then on.
    fn mend_at(
        &mut self,
        writer: WriterId,
        peer: Arc<dyn TargetPeer>,
        page: &Page,
        files: &[(u32, String)],
    ) -> Option<Mended> {
        let sizes = files.iter().filter_map(|(entry, _)| page.entries().get(*entry as usize));
        let bytes: u64 = sizes.map(|entry| entry.size).sum();
        let most = MEND_MAX + Duration::from_secs(bytes / MEND_RATE);
        let (answer, answered) = channel();
        let (spec, page, files) = (self.spec.clone(), page.clone(), files.to_vec());
        let mend = move || drop(answer.send(peer.mend(&spec, &page, &files)));
        let thread = std::thread::Builder::new().name("mend".to_owned()).spawn(mend);
        let why = match thread.map(|_| answered.recv_timeout(most)) {
            Ok(Ok(Ok(mended))) => return Some(mended),
            Ok(Ok(Err(problem))) => problem.to_string(),
            Ok(Err(_)) => format!("no answer in {} s", most.as_secs()),
            Err(error) => error.to_string(),
        };
        tracing::warn!(
            transfer = %self.id, %writer, why,
            "a peer that may have written late does not look at it: another one does"
        );
        self.tasks.unhear(writer);
        None
    }
}

fn silent_writer(peers: &str, files: usize, named: &[String]) -> Problem {
    let (s, more) = match files {
        1 => ("", String::new()),
        _ if files > named.len() => ("s", format!(" and {} more", files - named.len())),
        _ => ("s", String::new()),
    };
    let named = named.join(", ");
    let title = format!(
        "{peers} was given up and has not been heard of since: if it still runs, it may write \
         late to {files} file{s} that others have finished ({named}{more}), the same bytes, which \
         moves their times"
    );
    Problem::new(Exit::Temporary, "silent-writer", title)
        .hint("let it come back, or make sure that its host is off, before you change these files")
}
