//! Reads the audit log of this peer from its end: the file that is written now, then those that
//! were put aside, the newest first.
//!
//! No more of a file is in memory than a block and a line. One request reads [`BYTES_MAX`] at most:
//! a selection that finds little returns a short part and the place of the next one.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use penstock_api::access::AuditLine;
use penstock_api::rest::{AuditFilter, AuditPart, AuditPosition};

use crate::access::audit_log::{AUDIT_NAME, aside_files};

/// Bytes that one request reads.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes that are read at a time.
const BLOCK_BYTES: u64 = 256 << 10;
/// Digits of the digest of a file's first line that name the file.
const MARK_DIGITS: usize = 16;
/// Lines are written in the order of time, but for steps of the clock up to this.
const CLOCK_STEP_MS: u64 = 24 * 3600 * 1000;

/// A file of the log.
struct LogFile {
    file: File,
    bytes: u64,
    /// First digits of the digest of its first line.
    mark: String,
}

impl LogFile {
    /// Opens a file; `None` of one that is gone, or has no line.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let bytes = file.metadata()?.len();
        let mut begin = vec![0; bytes.min(BLOCK_BYTES) as usize];
        file.read_exact_at(&mut begin, 0)?;
        let first = begin.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first: Option<AuditLine> = serde_json::from_slice(first).ok();
        let mark = first.and_then(|line| Some(line.digest.get(..MARK_DIGITS)?.to_owned()));
        Ok(mark.map(|mark| Self { file, bytes, mark }))
    }

    /// Passes whole lines that end before `end` to `visit`, the last one first, each with its
    /// place. Reading stops where `visit` breaks.
    fn lines_back(
        &self,
        end: u64,
        visit: &mut dyn FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let mut begin = end.min(self.bytes);
        // Bytes from `begin` on that are not visited yet.
        let mut rest: Vec<u8> = Vec::new();
        let mut is_cut = true;
        loop {
            while let Some(at) = rest.iter().rposition(|byte| *byte == b'\n') {
                // A line that is being written has no end yet.
                if !std::mem::take(&mut is_cut)
                    && visit(&rest[at + 1..], begin + at as u64 + 1).is_break()
                {
                    return Ok(());
                }
                rest.truncate(at);
            }
            if begin == 0 {
                if !is_cut && !rest.is_empty() {
                    let _ = visit(&rest, 0);
                }
                return Ok(());
            }
            let length = begin.min(BLOCK_BYTES);
            let mut block = vec![0; length as usize];
            begin -= length;
            self.file.read_exact_at(&mut block, begin)?;
            block.append(&mut rest);
            rest = block;
        }
    }
}

/// Returns up to `limit` selected lines that are older than a place, or than the log's end. Blocks
/// on the disk.
///
/// # Errors
/// A file cannot be read.
pub(super) fn lines_before(
    directory: &Path,
    filter: &AuditFilter,
    before: Option<&AuditPosition>,
    limit: usize,
) -> io::Result<AuditPart> {
    // First the one that is written: if it is put aside meanwhile, it is met a second time below.
    let current = LogFile::open(&directory.join(AUDIT_NAME))?;
    let aside: Vec<PathBuf> =
        aside_files(directory)?.into_iter().rev().map(|aside| aside.1).collect();
    let mut reading = Reading { filter, limit, read: 0, part: AuditPart::default() };
    let mut seen = Vec::new();
    let mut place = before;
    let opened = aside.iter().map(|path| LogFile::open(path));
    for file in std::iter::once(Ok(current)).chain(opened) {
        let Some(file) = file? else { continue };
        if seen.contains(&file.mark) || place.is_some_and(|place| place.file != file.mark) {
            continue;
        }
        let end = place.take().map_or(file.bytes, |place| place.offset);
        if reading.file(&file, end)?.is_break() {
            return Ok(reading.part);
        }
        seen.push(file.mark);
    }
    // A file that was removed takes all older ones with it.
    reading.part.next = None;
    Ok(reading.part)
}

/// Lines that were found so far.
struct Reading<'a> {
    filter: &'a AuditFilter,
    limit: usize,
    /// Bytes that were read.
    read: u64,
    part: AuditPart,
}

impl Reading<'_> {
    /// Reads a file; breaks if no older line is wanted now, or at all.
    fn file(&mut self, file: &LogFile, end: u64) -> io::Result<ControlFlow<()>> {
        let mut outcome = ControlFlow::Continue(());
        file.lines_back(end, &mut |text, offset| {
            if self.part.lines.len() >= self.limit || self.read >= BYTES_MAX {
                outcome = ControlFlow::Break(());
                return outcome;
            }
            self.read += text.len() as u64 + 1;
            let place = AuditPosition { file: file.mark.clone(), offset };
            self.part.next = Some(place.clone());
            // A damaged line is for `penstock audit check`.
            let Ok(line) = serde_json::from_slice::<AuditLine>(text) else { return outcome };
            let too_old = |since: u64| line.at_ms.saturating_add(CLOCK_STEP_MS) < since;
            if self.filter.since_ms.is_some_and(too_old) {
                self.part.next = None;
                outcome = ControlFlow::Break(());
            } else if self.filter.selects(&line) {
                self.part.lines.push((line, place));
            }
            outcome
        })?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;
    use crate::access::audit_log::AuditLog;

    fn line(at_ms: u64, user: &str) -> AuditLine {
        AuditLine {
            at_ms,
            user: user.parse().unwrap(),
            via: "socket uid 0".to_owned(),
            from: String::new(),
            request: "PUT /api/v1/users/anna".to_owned(),
            status: 200,
            request_id: at_ms.to_string(),
            previous: String::new(),
            digest: String::new(),
        }
    }

    /// Follows the places to the begin; returns the times of the lines.
    fn all(directory: &Path, filter: &AuditFilter, limit: usize) -> Vec<u64> {
        let (mut times, mut before) = (Vec::new(), None);
        loop {
            let part = lines_before(directory, filter, before.as_ref(), limit).unwrap();
            assert!(part.lines.len() <= limit);
            times.extend(part.lines.iter().map(|(line, _)| line.at_ms));
            before = part.next;
            if before.is_none() {
                return times;
            }
        }
    }

    /// Promise (C9): all lines are returned, the newest first and each once, in parts of any
    /// length, over files that were put aside before or between two parts. A cut line is ignored.
    #[test]
    fn c9_lines_of_all_files_come_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(all(path, &AuditFilter::default(), 5), [0; 0]);
        // A file has some lines.
        let log = AuditLog::with_limit(path, 2000);
        (1..=40).for_each(|at| log.append(line(at, if at % 4 == 0 { "ben" } else { "anna" })));
        assert!(aside_files(path).unwrap().len() > 3);
        let expected: Vec<u64> = (1..=40).rev().collect();
        for limit in [1, 3, 7, 100] {
            assert_eq!(all(path, &AuditFilter::default(), limit), expected);
        }
        let actor = Some("ben".parse().unwrap());
        let of_ben = AuditFilter { actor, ..AuditFilter::default() };
        assert_eq!(all(path, &of_ben, 3), [40, 36, 32, 28, 24, 20, 16, 12, 8, 4]);
        let first = lines_before(path, &AuditFilter::default(), None, 3).unwrap();
        (41..=60).for_each(|at| log.append(line(at, "anna")));
        let next = lines_before(path, &AuditFilter::default(), first.next.as_ref(), 2).unwrap();
        let times: Vec<_> = next.lines.iter().map(|(line, _)| line.at_ms).collect();
        assert_eq!(times, [37, 36], "the file was put aside meanwhile");
        let mut file = fs::OpenOptions::new().append(true).open(path.join(AUDIT_NAME)).unwrap();
        file.write_all(b"{\"at_ms\":61,").unwrap();
        assert_eq!(all(path, &AuditFilter::default(), 7)[0], 60);
        let oldest = aside_files(path).unwrap()[0].1.clone();
        let place =
            AuditPosition { file: LogFile::open(&oldest).unwrap().unwrap().mark, offset: 9 };
        fs::remove_file(oldest).unwrap();
        let gone = lines_before(path, &AuditFilter::default(), Some(&place), 7).unwrap();
        assert_eq!(gone, AuditPart::default(), "a file that was removed has nothing older");
    }
}
