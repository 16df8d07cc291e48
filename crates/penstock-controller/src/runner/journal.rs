//! The journal store of one transfer: its pages and page logs, as files.
//!
//! ```text
//! DIR/pages/00000000.page     immutable, named by number; the head holds its digest
//! DIR/logs/00000000.log       append-only; the head holds how much of it counts
//! DIR/failures.jsonl          what failed, written when a run ends
//! DIR/digests                 the digest list, written when it was asked for and all is done
//! DIR/checksums.KIND          the same for other checksums; `proving` keeps `DIR/proof/` for them
//! ```
//! A log may be longer than its head says: the tail was never committed and is cut off before the
//! next append. A page may be there without a head: it is read again from the source.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use penstock_api::problem::{Exit, Problem};
use penstock_engine::transfer::compared_of;
use penstock_proto::compared::Comparison;
use penstock_proto::journal::JournalRecord;
use penstock_proto::wire::Reader;

/// Open logs are kept for appending; at this many all are closed and opened again as needed.
const OPEN_LOGS_MAX: usize = 64;

/// The files of one transfer's ledger.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    open: BTreeMap<u32, (File, u64)>,
}

impl Journal {
    /// Opens the journal at `directory`, making it if it is not there.
    pub(crate) fn open(directory: &Path) -> Result<Self, Problem> {
        for part in ["pages", "logs"] {
            let path = directory.join(part);
            fs::create_dir_all(&path).map_err(|cause| failed("make", &path, &cause))?;
        }
        Ok(Self { directory: directory.to_owned(), open: BTreeMap::new() })
    }

    /// Where all of it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the failures of the last run are listed.
    pub(crate) fn failures_path(&self) -> PathBuf {
        self.directory.join("failures.jsonl")
    }

    /// Where the digest list is written.
    pub(crate) fn digests_path(&self) -> PathBuf {
        self.directory.join("digests")
    }

    fn page_path(&self, page: u32) -> PathBuf {
        self.directory.join("pages").join(format!("{page:08}.page"))
    }

    fn log_path(&self, page: u32) -> PathBuf {
        self.directory.join("logs").join(format!("{page:08}.log"))
    }

    /// Keeps an encoded page, whole or not at all.
    pub(crate) fn write_page(&self, page: u32, encoded: &[u8]) -> Result<(), Problem> {
        let path = self.page_path(page);
        let temporary = path.with_extension("new");
        fs::write(&temporary, encoded)
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|cause| failed("write", &path, &cause))
    }

    /// The encoded page; `None` if it is not there.
    pub(crate) fn read_page(&self, page: u32) -> Result<Option<Vec<u8>>, Problem> {
        let path = self.page_path(page);
        match fs::read(&path) {
            Ok(encoded) => Ok(Some(encoded)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(failed("read", &path, &cause)),
        }
    }

    /// The sound records in the first `log_bytes` of a page's log, and their length.
    ///
    /// A head that survives `kill -9` can outlive a power cut that its log did not: what the log
    /// has lost was never called durable, so the pieces are missing again and nothing else is.
    pub(crate) fn read_log(
        &self,
        page: u32,
        log_bytes: u64,
    ) -> Result<(Vec<JournalRecord>, u64), Problem> {
        let path = self.log_path(page);
        let mut bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(cause) => return Err(failed("read", &path, &cause)),
        };
        bytes.truncate(usize::try_from(log_bytes).unwrap_or(usize::MAX));
        let mut input = Reader::new(&bytes);
        let mut records = Vec::new();
        let mut sound = 0;
        while let Ok(record) = JournalRecord::take_from(&mut input) {
            records.push(record);
            sound = bytes.len() - input.remaining();
        }
        if (sound as u64) < log_bytes && log_bytes < u64::MAX {
            tracing::warn!(
                path = %path.display(), sound, log_bytes,
                "a page log is shorter than was committed: what it lost is fetched again"
            );
        }
        Ok((records, sound as u64))
    }

    /// What the log of a page says of how it was compared with the target; nothing stays if it does
    /// not say. It is committed before anything of the page is handed out.
    pub(crate) fn read_compared(&self, page: u32) -> Result<Comparison, Problem> {
        Ok(self.find_compared(page)?.unwrap_or_default())
    }

    /// The same, and `None` if it does not say.
    pub(crate) fn find_compared(&self, page: u32) -> Result<Option<Comparison>, Problem> {
        let log = self.read_log(page, u64::MAX)?.0;
        Ok(compared_of(&log).cloned())
    }

    /// Appends to a page's log, so that it is `log_bytes` long afterwards; an uncommitted tail of
    /// an earlier run is cut off before.
    pub(crate) fn append(
        &mut self,
        page: u32,
        append: &[u8],
        log_bytes: u64,
    ) -> Result<(), Problem> {
        if append.is_empty() {
            return Ok(());
        }
        let path = self.log_path(page);
        let start = log_bytes - append.len() as u64;
        let mut write = || -> io::Result<()> {
            if self.open.len() >= OPEN_LOGS_MAX && !self.open.contains_key(&page) {
                // What was appended and not synced stays in the page cache; the next sync opens
                // the logs it needs again.
                self.open.clear();
            }
            let (file, length) = match self.open.entry(page) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let file =
                        OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
                    let length = file.metadata()?.len();
                    entry.insert((file, length))
                }
            };
            if *length > start {
                file.set_len(start)?;
            }
            file.write_all_at(append, start)?;
            *length = log_bytes;
            Ok(())
        };
        write().map_err(|cause| failed("append to", &path, &cause))
    }

    /// Makes the named pages and their logs durable (A8), with the names of new files.
    pub(crate) fn sync(&mut self, pages: impl IntoIterator<Item = u32>) -> Result<(), Problem> {
        for page in pages {
            for path in [self.log_path(page), self.page_path(page)] {
                match File::open(&path).and_then(|file| file.sync_data()) {
                    Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                        return Err(failed("sync", &path, &cause));
                    }
                    _ => {}
                }
            }
        }
        for part in ["pages", "logs"] {
            let path = self.directory.join(part);
            File::open(&path)
                .and_then(|directory| directory.sync_all())
                .map_err(|cause| failed("sync", &path, &cause))?;
        }
        Ok(())
    }
}

/// Writes a file of the journal line by line, whole or not at all.
pub(crate) fn write_lines(
    path: &Path,
    fill: impl FnOnce(&mut dyn io::Write) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let temporary = path.with_extension("new");
    let error = |cause: io::Error| failed("write", path, &cause);
    let mut out = io::BufWriter::new(File::create(&temporary).map_err(error)?);
    fill(&mut out)?;
    out.flush().map_err(error)?;
    fs::rename(&temporary, path).map_err(error)
}

/// An error of the journal store: nothing more can be committed, so the transfer stops.
pub(crate) fn failed(what: &str, path: &Path, cause: &io::Error) -> Problem {
    let exit = match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Exit::Temporary,
        _ => Exit::Fatal,
    };
    Problem::new(exit, "journal", format!("cannot {what} {}", path.display()))
        .because(cause)
        .hint("check the state directory's disk; the transfer resumes where it was")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A2: a torn tail beyond the committed length is cut off and never replayed.
    #[test]
    fn a2_an_uncommitted_tail_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        let mut committed = Vec::new();
        JournalRecord::Durable { pieces: vec![1] }.append_to(&mut committed);
        let mut torn = Vec::new();
        JournalRecord::Missing { pieces: vec![1] }.append_to(&mut torn);
        let committed_bytes = committed.len() as u64;
        journal.append(3, &committed, committed_bytes).unwrap();
        journal.append(3, &torn, committed_bytes + torn.len() as u64).unwrap();
        drop(journal);

        let mut journal = Journal::open(directory.path()).unwrap();
        let durable = [JournalRecord::Durable { pieces: vec![1] }];
        assert_eq!(journal.read_log(3, committed_bytes).unwrap().0, durable);
        let mut next = Vec::new();
        JournalRecord::Durable { pieces: vec![2] }.append_to(&mut next);
        let next_bytes = committed_bytes + next.len() as u64;
        journal.append(3, &next, next_bytes).unwrap();
        assert_eq!(journal.read_log(3, next_bytes).unwrap().0.len(), 2);
    }

    /// A8: after a power cut a log may be shorter than its head says, or torn within: the sound
    /// part counts, and the next append goes behind it.
    #[test]
    fn a8_a_log_that_lost_its_tail_counts_as_far_as_it_is_sound() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        let mut log = Vec::new();
        JournalRecord::Durable { pieces: vec![1] }.append_to(&mut log);
        let first = log.len() as u64;
        JournalRecord::Durable { pieces: vec![2] }.append_to(&mut log);
        journal.append(0, &log, log.len() as u64).unwrap();
        let head = log.len() as u64;
        fs::OpenOptions::new()
            .write(true)
            .open(journal.log_path(0))
            .and_then(|file| file.set_len(head - 3))
            .unwrap();
        let (records, sound) = journal.read_log(0, head).unwrap();
        assert_eq!((records.len(), sound), (1, first));
        assert_eq!(journal.read_log(9, 77).unwrap(), (Vec::new(), 0), "a log that is gone");
    }
}
