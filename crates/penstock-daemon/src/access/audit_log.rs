//! The audit log of this peer: `audit.jsonl` in the site directory.
//!
//! A file of more than 64 MiB is put aside under the time of its last line, and the chain of
//! digests continues in the next one (see `penstock_api::access::audit`). Files whose last line is
//! older than `[audit] keep` are removed; the chain then begins after a line that is gone, which a
//! check reports. A line that cannot be written is logged, and the request is served, so that a
//! full disk stops no transfer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use penstock_api::access::{AuditLine, CHAIN_BEGIN};

/// Name of the file that is written now.
pub(crate) const AUDIT_NAME: &str = "audit.jsonl";
/// A file is put aside beyond this.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Longest line: paths of requests are bounded by the listener.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The audit log.
pub(crate) struct AuditLog {
    directory: PathBuf,
    file_bytes_max: u64,
    open: Mutex<Option<Open>>,
    written: AtomicU64,
    lost: AtomicU64,
}

struct Open {
    file: File,
    bytes: u64,
    /// Digest of the last line.
    last: String,
}

impl AuditLog {
    /// Returns the log of a site directory. The file is opened with the first line.
    pub(crate) fn new(directory: &Path) -> Self {
        Self::with_limit(directory, FILE_BYTES_MAX)
    }

    /// Returns a log whose files are put aside beyond this length, in bytes.
    pub(crate) fn with_limit(directory: &Path, file_bytes_max: u64) -> Self {
        let (open, written, lost) = Default::default();
        Self { directory: directory.to_owned(), file_bytes_max, open, written, lost }
    }

    /// Appends a line. Blocks for a write to the page cache.
    pub(crate) fn append(&self, line: AuditLine) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let request = line.request.clone();
        let written = self.write(&mut open, line);
        let counter = if written.is_ok() { &self.written } else { &self.lost };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = written {
            tracing::error!(%error, request, "the audit log cannot be written");
            // The next line reads the end of the file again.
            *open = None;
        }
    }

    /// Returns the lines since the process began: those that were written, and those that could not
    /// be.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.written.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }

    /// Removes files that were put aside and whose last line is older than this time, in
    /// milliseconds since 1970. The newest of them stays while no later line continues its chain.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// The directory cannot be listed, or a file cannot be removed.
    pub(crate) fn remove_before(&self, time_ms: u64) -> io::Result<()> {
        // No file is put aside meanwhile.
        let _open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut aside = aside_files(&self.directory)?;
        let current = fs::metadata(self.directory.join(AUDIT_NAME));
        if current.map_or(0, |current| current.len()) == 0 {
            aside.pop();
        }
        for (_, path) in aside.into_iter().filter(|(last_ms, _)| *last_ms < time_ms) {
            fs::remove_file(&path)?;
            tracing::info!(file = %path.display(), "an old file of the audit log is removed");
        }
        Ok(())
    }

    /// Opens the file. Without a line in it, the chain continues from the file that was put aside
    /// last: a crash or a full disk may have come between that and the first line.
    fn reopen(&self, path: &Path) -> io::Result<Open> {
        let mut open = Open::at(path)?;
        if open.bytes == 0
            && let Some((_, aside)) = aside_files(&self.directory)?.last()
        {
            open.last = Open::at(aside)?.last;
        }
        Ok(open)
    }

    fn write(&self, slot: &mut Option<Open>, line: AuditLine) -> io::Result<()> {
        let path = self.directory.join(AUDIT_NAME);
        let mut open = match slot.take() {
            Some(open) => open,
            None => self.reopen(&path)?,
        };
        if open.bytes > self.file_bytes_max {
            let aside = self.directory.join(format!("audit-{}.jsonl", line.at_ms));
            fs::rename(&path, aside)?;
            open = Open { last: open.last, ..Open::at(&path)? };
        }
        let line = line.after(&open.last);
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        open.file.write_all(&text)?;
        open.bytes += text.len() as u64;
        open.last = line.digest;
        *slot = Some(open);
        Ok(())
    }
}

/// Returns the files that were put aside, the oldest first, each with the time of its last line in
/// milliseconds since 1970.
pub(crate) fn aside_files(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut aside = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let time = name.to_str().and_then(|name| name.strip_prefix("audit-"));
        let time = time.and_then(|rest| rest.strip_suffix(".jsonl")?.parse::<u64>().ok());
        aside.extend(time.map(|time| (time, directory.join(&name))));
    }
    aside.sort();
    Ok(aside)
}

impl Open {
    /// Opens the file, and finds the digest of its last line. A line that a crash has cut is
    /// removed.
    fn at(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).read(true).append(true).mode(0o640).open(path)?;
        let bytes = file.metadata()?.len();
        let begin = bytes.saturating_sub(2 * LINE_BYTES_MAX);
        file.seek(SeekFrom::Start(begin))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        let whole = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let bytes = begin + whole as u64;
        file.set_len(bytes)?;
        let last = end[..whole].trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
        let last = last.and_then(|line| serde_json::from_slice::<AuditLine>(line).ok());
        let last = last.map_or_else(|| CHAIN_BEGIN.to_owned(), |line| line.digest);
        Ok(Self { file, bytes, last })
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use penstock_api::access::check_audit;

    use super::*;

    fn line(at_ms: u64) -> AuditLine {
        AuditLine {
            at_ms,
            user: "anna".parse().unwrap(),
            via: "socket uid 0".to_owned(),
            from: "10.0.0.1".to_owned(),
            request: "POST /api/v1/transfers".to_owned(),
            status: 403,
            request_id: "7".to_owned(),
            previous: String::new(),
            digest: String::new(),
        }
    }

    /// Promise (C9): the chain continues after a restart, also if a crash has cut the last line.
    #[test]
    fn c9_the_chain_goes_on_after_a_crash() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(AUDIT_NAME);
        let log = AuditLog::new(directory.path());
        (0..3).for_each(|at| log.append(line(at)));
        drop(log);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at_ms\":3,").unwrap();
        let log = AuditLog::new(directory.path());
        (3..5).for_each(|at| log.append(line(at)));
        let checked = check_audit(BufReader::new(File::open(&path).unwrap())).unwrap();
        assert_eq!(checked.lines, 5);
    }

    /// Promise (C9): the chain continues where a crash or a full disk comes between a file that is
    /// put aside and the first line of the next one.
    #[test]
    fn c9_the_chain_goes_on_over_files_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let current = directory.path().join(AUDIT_NAME);
        // A file is put aside at its second line.
        let log = || AuditLog::with_limit(directory.path(), 1);
        let first = log();
        (0..2).for_each(|at| first.append(line(at)));
        fs::rename(&current, directory.path().join("audit-2.jsonl")).unwrap();
        log().append(line(3));
        let mut files = Vec::new();
        for name in ["audit-1.jsonl", "audit-2.jsonl", AUDIT_NAME] {
            files.extend(fs::read(directory.path().join(name)).unwrap());
        }
        assert_eq!(check_audit(BufReader::new(&*files)).unwrap().lines, 3);
    }

    /// Promise (C9): old files go after their time, the chain of the others is whole, and the next
    /// line continues it also where no other file is left.
    #[test]
    fn c9_old_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let log = AuditLog::with_limit(directory.path(), 1);
        (1..=4).for_each(|at| log.append(line(at)));
        let times = || {
            let files = aside_files(directory.path()).unwrap().into_iter();
            files.map(|file| file.0).collect::<Vec<_>>()
        };
        // Each file is named by the line that came after its last one.
        assert_eq!(times(), [2, 3, 4]);
        log.remove_before(4).unwrap();
        assert_eq!(times(), [4]);
        let current = directory.path().join(AUDIT_NAME);
        let mut files = fs::read(directory.path().join("audit-4.jsonl")).unwrap();
        files.extend(fs::read(&current).unwrap());
        let checked = check_audit(BufReader::new(&*files)).unwrap();
        assert_eq!((checked.lines, checked.begins_after.is_empty()), (2, false));
        fs::remove_file(&current).unwrap();
        let again = AuditLog::with_limit(directory.path(), 1 << 20);
        again.remove_before(u64::MAX).unwrap();
        assert_eq!(times(), [4]);
        again.append(line(9));
        again.remove_before(u64::MAX).unwrap();
        assert!(times().is_empty());
        let checked = check_audit(BufReader::new(File::open(&current).unwrap())).unwrap();
        assert!(!checked.begins_after.is_empty(), "it follows the file that is gone");
    }
}
