//! The record of the target peers that took part in a transfer, for the next run and the next
//! controller: `DIR/writers.EPOCH`.
//!
//! The record has three kinds of facts. The *standing* names the last controller's own peer, and
//! the writers that hold no grant (B3, B4): see `penstock_engine::writers`. *Late* files are those
//! that an abandoned peer may have written to after they were finished (B1). *Left* pages are
//! complete pages in which a writer may have left temporary files that no head records.
//!
//! A file has a line of JSON for each addition. Each controller appends to a file of its own: a
//! deposed controller damages nothing. Of late files and left pages the union of all lines counts.
//! Of standings the last line of the greatest epoch counts: an addition of a deposed controller
//! settles no writer (B4).
//!
//! A controller that begins, or begins again, first adds two line ends. A line that is not JSON was
//! being added when its controller died, before any action followed from it. Such a line is the
//! last one, or an empty line follows. Any other such line is damage, and an error.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use penstock_api::problem::Problem;
use penstock_proto::id::WriterId;
use penstock_proto::journal::{LateFile, WriterLine, WriterStanding};

use super::error::failed;
use super::names::{all, beside, own, remove_earlier};

/// Name of the record in the journal.
const NAME: &str = "writers";
/// Bytes of standings, all but the last one of no use, after which the file is rewritten.
const STANDINGS_BYTES_MAX: usize = 1 << 20;

/// The record, as one controller reads and extends it.
#[derive(Debug)]
pub(crate) struct WriterRecord {
    path: PathBuf,
    /// Open once something was added.
    file: Option<File>,
    /// The union of all lines, with the last standing.
    known: WriterLine,
    /// Bytes of the standings in the file since it was last rewritten.
    standings_bytes: usize,
}

impl WriterRecord {
    /// Opens the record in a journal for the controller under `epoch`, with its additions and those
    /// of earlier controllers. Blocks for the time of reading.
    ///
    /// # Errors
    /// The journal store cannot be read, or the record is damaged.
    pub(crate) fn open(journal: &Path, epoch: u64) -> Result<Self, Problem> {
        let name = journal.join(NAME);
        // A journal store that is not mounted has no record either: that is no empty one (B1).
        fs::read_dir(journal).map_err(|cause| failed("read", journal, &cause))?;
        let mut known = WriterLine::default();
        for path in all(&name).map_err(|cause| failed("read", journal, &cause))? {
            let text = fs::read(&path).map_err(|cause| failed("read", &path, &cause))?;
            let lines = read_lines(&text).map_err(|cause| failed("read", &path, &cause))?;
            let mut standing = None;
            for line in lines {
                standing = line.standing.or(standing);
                known.late.extend(line.late);
                known.left.extend(line.left);
            }
            // The files come in order, the last controller's first.
            known.standing = known.standing.or(standing);
        }
        Ok(Self { path: own(&name, epoch), file: None, known, standings_bytes: 0 })
    }

    /// Returns the last standing.
    pub(crate) fn standing(&self) -> WriterStanding {
        self.known.standing.clone().unwrap_or_default()
    }

    /// Returns the files that may be written late.
    pub(crate) fn late(&self) -> &BTreeSet<LateFile> {
        &self.known.late
    }

    /// Returns the complete pages in which writers may have left temporary files.
    pub(crate) fn left(&self) -> &BTreeSet<(WriterId, u32)> {
        &self.known.left
    }

    /// Adds facts to the record, all or none of them; new ones are durable when this returns.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(crate) fn add(&mut self, mut line: WriterLine) -> Result<(), Problem> {
        line.late.retain(|file| !self.known.late.contains(file));
        line.left.retain(|page| !self.known.left.contains(page));
        if line == WriterLine::default() {
            return Ok(());
        }
        let written = self.append(&line);
        written.map_err(|cause| {
            // The next addition begins behind half a line.
            self.file = None;
            failed("write", &self.path, &cause)
        })?;
        self.known.late.extend(line.late);
        self.known.left.extend(line.left);
        self.known.standing = line.standing.or_else(|| self.known.standing.take());
        if self.standings_bytes > STANDINGS_BYTES_MAX {
            self.write_anew().map_err(|cause| failed("write", &self.path, &cause))?;
        }
        Ok(())
    }

    fn append(&mut self, line: &WriterLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = File::options().create(true).append(true).open(&self.path)?;
                file.write_all(b"\n\n")?;
                self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())?;
                none.insert(file)
            }
        };
        file.write_all(&text)?;
        if line.standing.is_some() {
            self.standings_bytes += text.len();
        }
        file.sync_data()
    }

    /// Replaces the own file by one with all known facts.
    fn write_anew(&mut self) -> io::Result<()> {
        let new = beside(&self.path, ".new");
        let mut text = serde_json::to_vec(&self.known)?;
        text.push(b'\n');
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        (self.file, self.standings_bytes) = (None, 0);
        self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }
}

/// Forgets the files and pages of a discarded ledger, and keeps the standing. Later controllers'
/// files stay as they are.
///
/// # Errors
/// The journal store cannot be read or written, or the record is damaged.
pub(crate) fn forget_pages(journal: &Path, epoch: u64) -> Result<(), Problem> {
    let name = journal.join(NAME);
    if all(&name).map_err(|cause| failed("read", journal, &cause))?.is_empty() {
        return Ok(());
    }
    let mut record = WriterRecord::open(journal, epoch)?;
    record.known = WriterLine { standing: record.known.standing, ..WriterLine::default() };
    record.write_anew().map_err(|cause| failed("write", &record.path, &cause))?;
    remove_earlier(&name, epoch);
    Ok(())
}

fn read_lines(text: &[u8]) -> io::Result<Vec<WriterLine>> {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let mut read: Vec<WriterLine> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        match serde_json::from_slice(line) {
            _ if line.is_empty() => {}
            Ok(line) => read.push(line),
            // Cut off before its end: no work was granted under it.
            Err(_) if at + 1 == lines.len() => {}
            Err(_) if lines[at + 1].is_empty() && at + 2 < lines.len() => {}
            // The end of this file is damaged: it may have named fewer settled writers.
            Err(_) if lines[at + 1].is_empty() => {
                let standings = read.iter_mut().filter_map(|line| line.standing.as_mut());
                standings.for_each(|standing| standing.settled.clear());
            }
            Err(cause) => return Err(cause.into()),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(own: u64, epoch: u64, settled: &[u64]) -> WriterLine {
        let settled = settled.iter().copied().map(WriterId).collect();
        let standing = WriterStanding { own: Some(WriterId(own)), epoch, settled };
        WriterLine { standing: Some(standing), ..WriterLine::default() }
    }

    fn late(files: &[(u64, u32, u32)]) -> WriterLine {
        let late = files.iter().map(|(writer, page, entry)| (WriterId(*writer), *page, *entry));
        WriterLine { late: late.collect(), ..WriterLine::default() }
    }

    fn left(pages: &[(u64, u32)]) -> WriterLine {
        let left = pages.iter().map(|(writer, page)| (WriterId(*writer), *page));
        WriterLine { left: left.collect(), ..WriterLine::default() }
    }

    /// Promise: facts of late files and left pages outlive the run and the controller; controllers
    /// that write at once do not write one file (B1, B4).
    #[test]
    fn b1_what_is_recorded_is_known_to_whoever_finishes() {
        let journal = tempfile::tempdir().unwrap();
        let open = |epoch| WriterRecord::open(journal.path(), epoch).unwrap();
        let mut first = open(3);
        assert_eq!(first.known, WriterLine::default());
        first.add(late(&[(8, 1, 0), (8, 5, 2)])).unwrap();
        first.add(left(&[(9, 4)])).unwrap();
        let bytes = |epoch| fs::read(own(&journal.path().join(NAME), epoch)).unwrap().len();
        let before = bytes(3);
        first.add(late(&[(8, 1, 0)])).unwrap();
        assert_eq!(bytes(3), before, "what is known is not written again");
        let mut next = open(4);
        assert_eq!(next.known, first.known);
        // The first one dies in the middle of a write.
        first.file.as_ref().unwrap().write_all(b"{\"late\":[[\"6").unwrap();
        next.add(late(&[(9, 7, 1)])).unwrap();
        assert_eq!(open(4).known.late.len(), 3);
        let mut again = open(3);
        again.add(late(&[(9, 8, 1)])).unwrap();
        assert_eq!(open(4).known.late.len(), 4, "one that goes on behind half a line");
        assert_eq!(open(4).known.left, left(&[(9, 4)]).left);
    }

    /// Promise: the standing of the last controller counts, whatever a deposed one adds late. Of
    /// one controller's standings the last complete one counts (B3, B4).
    #[test]
    fn b4_a_deposed_controller_settles_no_writer() {
        let journal = tempfile::tempdir().unwrap();
        let open = |epoch| WriterRecord::open(journal.path(), epoch).unwrap();
        assert_eq!(open(3).standing(), WriterStanding::default());
        let mut deposed = open(3);
        deposed.add(standing(7, 3, &[1])).unwrap();
        let mut next = open(4);
        next.add(standing(9, 4, &[1, 2])).unwrap();
        next.add(standing(9, 4, &[2])).unwrap();
        deposed.add(standing(7, 3, &[1, 2, 4])).unwrap();
        assert_eq!(Some(open(5).standing()), standing(9, 4, &[2]).standing);
        next.file.as_ref().unwrap().write_all(b"{\"standing\":{\"own\":null,").unwrap();
        assert_eq!(Some(open(5).standing()), standing(9, 4, &[2]).standing);
        // A controller without a standing of its own uses the one before.
        open(5).add(left(&[(1, 1)])).unwrap();
        assert_eq!(Some(open(5).standing()), standing(9, 4, &[2]).standing);
    }

    /// Promise: a damaged line is an error, as a writer that has got work since may be called
    /// settled by the line before it (B3).
    #[test]
    fn b3_a_damaged_line_is_no_line_that_was_cut_off() {
        let journal = tempfile::tempdir().unwrap();
        let path = own(&journal.path().join(NAME), 3);
        let line = |line: &WriterLine| serde_json::to_string(line).unwrap();
        let (a, b) = (line(&standing(7, 3, &[1, 2])), line(&standing(7, 3, &[1])));
        fs::write(&path, format!("\n\n{a}\n{{\"stan\0\0\0\n{b}\n")).unwrap();
        assert!(WriterRecord::open(journal.path(), 4).is_err());
        fs::write(&path, format!("\n\n{a}\n{{\"stan\0\0\0\n\n{b}\n")).unwrap();
        let read = WriterRecord::open(journal.path(), 4).unwrap();
        assert_eq!(Some(read.standing()), standing(7, 3, &[1]).standing);
        fs::write(&path, format!("\n\n{a}\n{{\"stan\0\0\0\n")).unwrap();
        let read = WriterRecord::open(journal.path(), 4).unwrap();
        assert_eq!(
            Some(read.standing()),
            standing(7, 3, &[]).standing,
            "nobody is settled for sure"
        );
    }

    /// Promise: the record does not grow with the time of a run, and a discarded ledger does not
    /// change the standing.
    #[test]
    fn what_counts_no_more_is_dropped() {
        let journal = tempfile::tempdir().unwrap();
        let name = journal.path().join(NAME);
        forget_pages(journal.path(), 3).unwrap();
        assert!(all(&name).unwrap().is_empty());
        let mut record = WriterRecord::open(journal.path(), 3).unwrap();
        record.add(late(&[(8, 1, 0)])).unwrap();
        record.standings_bytes = STANDINGS_BYTES_MAX - 10;
        for settled in [1, 2, 3] {
            record.add(standing(7, 3, &[settled])).unwrap();
        }
        let text = fs::read_to_string(&record.path).unwrap();
        assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 3, "{text}");
        let read = WriterRecord::open(journal.path(), 4).unwrap();
        assert_eq!(read.known, record.known);
        WriterRecord::open(journal.path(), 9).unwrap().add(left(&[(3, 3)])).unwrap();
        forget_pages(journal.path(), 4).unwrap();
        assert_eq!(all(&name).unwrap(), [own(&name, 9), own(&name, 4)], "a later one stays");
        let read = WriterRecord::open(journal.path(), 4).unwrap();
        assert_eq!(Some(read.standing()), standing(7, 3, &[3]).standing);
        assert_eq!((read.late().len(), read.left().len()), (0, 1));
    }
}
