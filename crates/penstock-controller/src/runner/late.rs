//! Files that a peer which was given up may have written to after they were finished (B1).
//!
//! They are kept in the journal store as soon as they are known: a run that ends before it has
//! looked at them again, and a later controller, leave that to whoever finishes the transfer. If
//! that one has not heard of the peer since, it says so: what is written later nobody mends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use penstock_api::problem::{Exit, Problem};
use penstock_api::task::Mended;
use penstock_proto::id::WriterId;

use super::journal::failed;
use super::{Run, outcome};

/// Who may write to it, a page, and an entry of that.
type LateFile = (WriterId, u32, u32);

/// Files that are named in words; of more there is the count.
const NAMED_MAX: usize = 3;

/// The files that are to be looked at again, as far as they are kept.
#[derive(Debug)]
pub(super) struct LateFiles {
    /// One file for each controller, so that one that is deposed spoils nothing (B4).
    path: PathBuf,
    known: BTreeSet<LateFile>,
}

impl LateFiles {
    /// What this controller under `epoch`, and earlier ones, have kept in a journal.
    ///
    /// # Errors
    /// The journal store cannot be read.
    pub(super) fn open(journal: &Path, epoch: u64) -> Result<Self, Problem> {
        let mut known = BTreeSet::new();
        let cannot = |cause| failed("read", journal, &cause);
        for entry in fs::read_dir(journal).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.starts_with("late.") || name.ends_with(".new") {
                continue;
            }
            let text = fs::read(&path).map_err(|cause| failed("read", &path, &cause))?;
            let files: Vec<LateFile> = serde_json::from_slice(&text)
                .map_err(|cause| failed("read", &path, &cause.into()))?;
            known.extend(files);
        }
        Ok(Self { path: journal.join(format!("late.{epoch:016x}")), known })
    }

    /// Adds files; what is new is durable then.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(super) fn add(&mut self, files: impl Iterator<Item = LateFile>) -> Result<(), Problem> {
        let before = self.known.len();
        self.known.extend(files);
        if self.known.len() == before {
            return Ok(());
        }
        let new = self.path.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec(&self.known)?)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
        };
        write().map_err(|cause| failed("write", &self.path, &cause))
    }

    fn by_page(&self) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut pages: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (_, page, entry) in &self.known {
            pages.entry(*page).or_default().insert(*entry);
        }
        pages
    }
}

impl Run {
    /// Keeps which files are to be looked at again at the end.
    pub(super) fn keep_late(&mut self) -> Result<(), Problem> {
        let found: Vec<LateFile> = self.shared.machine().late_files().collect();
        self.late.add(found.into_iter())
    }

    /// Keeps who writes nothing any more, after what it may have written late: nobody waits for it
    /// from then on, and nobody else would know of these files.
    pub(super) fn keep_settled(&mut self) -> Result<(), Problem> {
        if self.tasks.has_news_of_settled() {
            self.keep_late()?;
            self.tasks.keep_settled()?;
        }
        Ok(())
    }

    /// Says at the end who was given up, has not been heard of since, and may still write to files
    /// that are finished.
    pub(super) fn tell_silent(&self) {
        let late: BTreeSet<WriterId> = self.late.known.iter().map(|(writer, ..)| *writer).collect();
        let silent = self.tasks.silent(late);
        if silent.is_empty() {
            return;
        }
        let of_them = self.late.known.iter().filter(|(writer, ..)| silent.contains_key(writer));
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

    /// Has their attributes looked at again, and set where a late write has moved them. All tasks
    /// are over by now, but those of peers that are silent. Only what the log calls finished is
    /// looked at, with its digest: it tells a late write, which repeats the same bytes, from what
    /// somebody else has made of the file since.
    pub(super) fn mend_late(&mut self) -> Result<(), Problem> {
        self.keep_late()?;
        let late = self.late.by_page();
        if late.is_empty() {
            return Ok(());
        }
        let heads = self.heads.load(self.id)?.pages;
        for head in heads {
            let Some(entries) = late.get(&head.page) else { continue };
            let page = self.shared.read_page(head.page)?;
            let log = self.shared.journal().read_log(head.page, head.log_bytes)?.0;
            let failed = outcome::failed_entries(&page, &log);
            let amended: BTreeSet<u32> = outcome::amended_entries(&log).collect();
            let listed = outcome::listed(&outcome::digests_of(&page, &log));
            let others = |entry: &u32| failed.contains(entry) || amended.contains(entry);
            let files: Vec<(u32, String)> = listed
                .into_iter()
                .filter(|(entry, _)| entries.contains(entry) && !others(entry))
                .collect();
            if files.is_empty() {
                continue;
            }
            let Mended { mended, others } = self.peer.mend(&self.spec, &page.page, &files)?;
            if mended > 0 {
                tracing::warn!(
                    transfer = %self.id, page = head.page, files = mended,
                    "a peer that was given up had written late: attributes were set again"
                );
            }
            if others > 0 {
                tracing::warn!(
                    transfer = %self.id, page = head.page, files = others,
                    "files were changed by somebody else since they were finished: left as they are"
                );
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// B1: what is to be looked at again outlives the run, and the controller.
    #[test]
    fn b1_late_files_are_known_to_whoever_finishes() {
        let journal = tempfile::tempdir().unwrap();
        let of = |writer, page, entry| std::iter::once((WriterId(writer), page, entry));
        let mut late = LateFiles::open(journal.path(), 3).unwrap();
        late.add(of(8, 1, 2).chain(of(8, 1, 5))).unwrap();
        late.add(of(9, 0, 9)).unwrap();
        let mut next = LateFiles::open(journal.path(), 4).unwrap();
        assert_eq!(next.known, late.known);
        next.add(of(9, 7, 7)).unwrap();
        let last = LateFiles::open(journal.path(), 4).unwrap().by_page();
        assert_eq!(last.into_keys().collect::<Vec<_>>(), [0, 1, 7]);
    }
}
