//! The journal store of one transfer: its pages and page logs, as files.
//!
//! ```text
//! DIR/pages/00000000.page     immutable, named by number; the head holds its digest
//! DIR/logs/00000000.log       append-only; the head holds how much of it counts
//! DIR/logs/00000000.EPOCH.log the same, begun under a controller's epoch (B4): only that one
//!                             writes it, a later one continues in a copy of the part that counts
//! DIR/began                   when the transfer began, where there is a backup directory
//! DIR/failures.jsonl          failed items, written when a run ends
//! DIR/digests                 the digest list, written when it was asked for and all is done
//! DIR/checksums.KIND          the same for other checksums; `readback` keeps `DIR/proof/` for them
//! DIR/facts.json              facts for a receipt, written when a run ends
//! DIR/pieces.json             the piece map, written when a run ends
//! DIR/removed/00000000.json   the results for a page's entries at the source of a move
//! DIR/writers                 the last controller, and what writers may still write or have
//!                             left: see `writer_record`
//! ```
//! From `began` on, all names also end in the epoch of their controller: see `names`.
//!
//! A log may be longer than its head records. The tail was never committed, and the next append
//! cuts it off. A page may exist without a head; the run then reads it again from the source.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use penstock_api::heads::PageHead;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_engine::transfer::compared_of;
use penstock_proto::compared::Comparison;
use penstock_proto::journal::JournalRecord;
use penstock_proto::units::FileTime;
use penstock_proto::wire::{DecodeError, Reader};

use super::error::failed;
use super::names::{beside, last, own};

/// Open logs are kept for appending; at this many all are closed and opened again as needed.
const OPEN_LOGS_MAX: usize = 64;

/// The files of one transfer's ledger.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    open: BTreeMap<u32, (File, u64)>,
    /// Epoch of the controller that writes now.
    epoch: u64,
    /// Epochs of the logs that earlier controllers wrote and this one has not gone on with.
    earlier: BTreeMap<u32, u64>,
}

impl Journal {
    /// Opens the journal at `directory`, making it if it does not exist, for writing under `epoch`;
    /// `heads` name the logs that count.
    pub(crate) fn open(directory: &Path, epoch: u64, heads: &[PageHead]) -> Result<Self, Problem> {
        for part in ["pages", "logs"] {
            let path = directory.join(part);
            fs::create_dir_all(&path).map_err(|cause| failed("make", &path, &cause))?;
        }
        let earlier = heads.iter().filter(|head| head.log != epoch);
        let earlier = earlier.map(|head| (head.page, head.log)).collect();
        Ok(Self { directory: directory.to_owned(), open: BTreeMap::new(), epoch, earlier })
    }

    /// Returns the directory of the journal.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the epoch of the controller that writes now.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the path under which this controller writes the file `name`.
    pub(crate) fn own(&self, name: &str) -> PathBuf {
        own(&self.directory.join(name), self.epoch)
    }

    fn page_path(&self, page: u32) -> PathBuf {
        self.directory.join("pages").join(format!("{page:08}.page"))
    }

    /// Returns the epoch of the log that counts for a page.
    pub(crate) fn log_epoch(&self, page: u32) -> u64 {
        self.earlier.get(&page).copied().unwrap_or(self.epoch)
    }

    fn log_path(&self, page: u32) -> PathBuf {
        self.log_path_of(page, self.log_epoch(page))
    }

    fn log_path_of(&self, page: u32, epoch: u64) -> PathBuf {
        let name = match epoch {
            0 => format!("{page:08}.log"),
            epoch => format!("{page:08}.{epoch:016x}.log"),
        };
        self.directory.join("logs").join(name)
    }

    /// Continues a log that an earlier controller wrote, in a copy, since that controller may not
    /// know yet that it is deposed.
    fn take_over_log(&mut self, page: u32, bytes: u64) -> io::Result<()> {
        let Some(epoch) = self.earlier.get(&page).copied() else { return Ok(()) };
        let mut counts = Vec::new();
        match File::open(self.log_path_of(page, epoch)) {
            Ok(file) => drop(file.take(bytes).read_to_end(&mut counts)?),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(cause),
        }
        fs::write(self.log_path_of(page, self.epoch), &counts)?;
        self.earlier.remove(&page);
        Ok(())
    }

    /// Keeps an encoded page, whole or not at all.
    pub(crate) fn write_page(&self, page: u32, encoded: &[u8]) -> Result<(), Problem> {
        let path = self.page_path(page);
        let temporary = match self.epoch {
            0 => path.with_extension("new"),
            epoch => path.with_extension(format!("{epoch:016x}.new")),
        };
        fs::write(&temporary, encoded)
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|cause| failed("write", &path, &cause))
    }

    /// Returns the pages that may have been worked on and are not complete: of some that are kept
    /// here there is no head yet.
    pub(crate) fn pages_in_work(&self, heads: &[PageHead]) -> Result<BTreeSet<u32>, Problem> {
        let path = self.directory.join("pages");
        let cannot = |cause| failed("read", &path, &cause);
        let mut pages = BTreeSet::new();
        for entry in fs::read_dir(&path).map_err(cannot)? {
            let name = entry.map_err(cannot)?.file_name();
            let number: Option<u32> =
                name.to_str().and_then(|name| name.strip_suffix(".page")?.parse().ok());
            pages.extend(number);
        }
        for head in heads {
            match head.complete {
                true => drop(pages.remove(&head.page)),
                false => drop(pages.insert(head.page)),
            }
        }
        Ok(pages)
    }

    /// Returns the encoded page; `None` if it is not there.
    pub(crate) fn read_page(&self, page: u32) -> Result<Option<Vec<u8>>, Problem> {
        let path = self.page_path(page);
        match fs::read(&path) {
            Ok(encoded) => Ok(Some(encoded)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(failed("read", &path, &cause)),
        }
    }

    /// Returns the sound records in the first `log_bytes` of a page's log, and their length.
    ///
    /// A head that survives `kill -9` can outlive a power cut that its log did not. Lost records of
    /// the log were never called durable, so only their pieces are missing again.
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
        loop {
            match JournalRecord::take_from(&mut input) {
                Ok(record) => records.push(record),
                Err(DecodeError::Unknown(_)) => return Err(later(&path, sound)),
                Err(_) => break,
            }
            sound = bytes.len() - input.remaining();
        }
        if (sound as u64) < log_bytes && log_bytes < u64::MAX {
            tracing::warn!(
                path = %path.display(), sound, log_bytes,
                "a page log is shorter than committed; the lost pieces are fetched again"
            );
        }
        Ok((records, sound as u64))
    }

    /// Returns the result of comparing a page with the target, from the log of the page. The
    /// default, in which no entry stays, is returned if the log has none. The result is committed
    /// before any piece of the page is handed out.
    pub(crate) fn read_compared(&self, page: u32) -> Result<Comparison, Problem> {
        Ok(self.find_compared(page)?.unwrap_or_default())
    }

    /// Returns the result of comparing a page with the target, or `None` if its log has none.
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
        let start = log_bytes - append.len() as u64;
        let old = self.log_path(page);
        self.take_over_log(page, start).map_err(|cause| failed("copy", &old, &cause))?;
        let path = self.log_path(page);
        let mut write = || -> io::Result<()> {
            if self.open.len() >= OPEN_LOGS_MAX && !self.open.contains_key(&page) {
                // Appended data that was not synced stays in the page cache; the next sync opens
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
                match sync_data(&path) {
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

/// Writes a file of the journal line by line, whole or not at all. The caller is its only writer.
pub(crate) fn write_lines(
    path: &Path,
    fill: impl FnOnce(&mut dyn io::Write) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let temporary = beside(path, ".new");
    let error = |cause: io::Error| failed("write", path, &cause);
    let mut out = io::BufWriter::new(File::create(&temporary).map_err(error)?);
    fill(&mut out)?;
    out.flush().map_err(error)?;
    fs::rename(&temporary, path).map_err(error)
}

/// Syncs a file of the journal. After a failure, the kernel treats data as clean that never reached
/// the disk (A4). The cache of the file is dropped, so that the next attempt reads the data on the
/// disk, not the data written.
fn sync_data(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_data().inspect_err(|_| {
        if let Err(error) = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed) {
            tracing::warn!(path = %path.display(), %error, "page cache not dropped");
        }
    })
}

/// Returns the error for a log that a later release has written to. Its records must not be treated
/// as a torn tail, which is cut off.
fn later(path: &Path, at: usize) -> Problem {
    let title = format!(
        "{} holds a record, at byte {at}, that this release of penstock does not know",
        path.display()
    );
    Problem::new(ProblemCode::JournalVersion, title)
        .hint("a later release wrote it: install that one again, and retry the transfer")
}

/// Returns when the transfer began, by the clock of this host. The time is recorded on the first
/// call, so that it survives a restart and a change to a controller later than the one under
/// `epoch`.
///
/// # Errors
/// The time cannot be read or recorded.
pub(crate) fn began(directory: &Path, epoch: u64) -> Result<FileTime, Problem> {
    let name = directory.join("began");
    let path = last(&name).map_err(|cause| failed("read", directory, &cause))?;
    match std::fs::read(&path) {
        Ok(text) => {
            return serde_json::from_slice(&text)
                .map_err(|cause| failed("read", &path, &cause.into()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("read", &path, &error)),
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let began = FileTime { seconds, nanoseconds: now.subsec_nanos() };
    let text = serde_json::to_vec(&began).unwrap_or_default();
    let path = own(&name, epoch);
    write_lines(&path, |out| out.write_all(&text).map_err(|cause| failed("write", &path, &cause)))?;
    Ok(began)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::problem::Exit;
    use penstock_proto::digest::Digest;

    /// A2: a torn tail beyond the committed length is cut off and never replayed.
    #[test]
    fn a2_an_uncommitted_tail_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), 0, &[]).unwrap();
        let mut committed = Vec::new();
        JournalRecord::Durable { pieces: vec![1] }.append_to(&mut committed);
        let mut torn = Vec::new();
        JournalRecord::Missing { pieces: vec![1] }.append_to(&mut torn);
        let committed_bytes = committed.len() as u64;
        journal.append(3, &committed, committed_bytes).unwrap();
        journal.append(3, &torn, committed_bytes + torn.len() as u64).unwrap();
        drop(journal);

        let mut journal = Journal::open(directory.path(), 0, &[]).unwrap();
        let durable = [JournalRecord::Durable { pieces: vec![1] }];
        assert_eq!(journal.read_log(3, committed_bytes).unwrap().0, durable);
        let mut next = Vec::new();
        JournalRecord::Durable { pieces: vec![2] }.append_to(&mut next);
        let next_bytes = committed_bytes + next.len() as u64;
        journal.append(3, &next, next_bytes).unwrap();
        assert_eq!(journal.read_log(3, next_bytes).unwrap().0.len(), 2);
    }

    /// A8: after a power cut a log may be shorter than its head records, or torn within: the sound
    /// part counts, and the next append goes behind it.
    #[test]
    fn a8_a_log_that_lost_its_tail_counts_as_far_as_it_is_sound() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), 0, &[]).unwrap();
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

    /// A10: a record that a later release wrote is neither misread nor cut off as a torn tail: the
    /// log is refused, by name, and left as it is.
    #[test]
    fn a10_a_record_of_a_later_release_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), 0, &[]).unwrap();
        let mut log = Vec::new();
        JournalRecord::Durable { pieces: vec![1] }.append_to(&mut log);
        let first = log.len();
        for unknown in [&[255, 2, 0, 0, 0, 7, 7][..], &[6, 1, 0, 0, 0, 1]] {
            let mut log = log.clone();
            log.extend(unknown);
            log.extend(&blake3::hash(unknown).as_bytes()[..4]);
            let head = log.len() as u64;
            journal.append(0, &log, head).unwrap();
            let problem = journal.read_log(0, head).unwrap_err();
            assert_eq!((&problem.code, problem.exit), (&ProblemCode::JournalVersion, Exit::Fatal));
            assert!(problem.title.contains(&format!("at byte {first}")), "{problem}");
            assert_eq!(fs::metadata(journal.log_path(0)).unwrap().len(), head);
            journal = Journal::open(directory.path(), 0, &[]).unwrap();
            fs::remove_file(journal.log_path(0)).unwrap();
        }
    }

    /// B4: late additions of a deposed controller to its log never reach the log of its successor.
    /// The successor has all valid records of the old log.
    #[test]
    fn b4_a_stale_controllers_log_is_not_the_new_ones() {
        let directory = tempfile::tempdir().unwrap();
        let record = |piece: u32| {
            let mut log = Vec::new();
            JournalRecord::Durable { pieces: vec![piece] }.append_to(&mut log);
            log
        };
        let head = |log: u64, log_bytes: u64| PageHead {
            page: 0,
            digest: Digest([0; 32]),
            log,
            log_bytes,
            complete: false,
            files: 0,
            bytes: 0,
            failures: 0,
            kept: 0,
            kept_bytes: 0,
            asks: false,
        };
        let mut old = Journal::open(directory.path(), 7, &[]).unwrap();
        let bytes = record(1).len() as u64;
        old.append(0, &record(1), bytes).unwrap();
        let mut new = Journal::open(directory.path(), 9, &[head(7, bytes)]).unwrap();
        assert_eq!((new.log_epoch(0), new.read_log(0, bytes).unwrap().1), (7, bytes));
        old.append(0, &record(66), 2 * bytes).unwrap();
        new.append(0, &record(2), 2 * bytes).unwrap();
        old.append(0, &record(67), 3 * bytes).unwrap();
        let expected: Vec<_> =
            [1, 2].map(|piece| JournalRecord::Durable { pieces: vec![piece] }).into();
        assert_eq!(
            (new.log_epoch(0), new.read_log(0, 2 * bytes).unwrap().0),
            (9, expected.clone())
        );
        let later = Journal::open(directory.path(), 11, &[head(9, 2 * bytes)]).unwrap();
        assert_eq!(later.read_log(0, 2 * bytes).unwrap().0, expected);
    }
}
