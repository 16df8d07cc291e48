//! The run directory: what a sweep has measured, written so that the same command continues it.
//!
//! `run.json` and others are replaced as a whole. `cells.jsonl` grows by a line that is synced; a
//! line that a kill has cut off is taken away when the sweep continues. The line of a failed cell
//! that is to be run again moves to `retried.jsonl`, so that a cell has one line in `cells.jsonl`.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use penstock_exit::{ExitCode, Failure};
use serde::Serialize;

use super::matrix::{self, Matrix};
use super::record::{Cell, FORMAT, Run};
use crate::record_directory::{Kind, RecordDirectory};

const RUN: &str = "run.json";
const MATRIX: &str = "matrix.toml";
const CELLS: &str = "cells.jsonl";
/// Lines of cells that have failed, and were to be run again.
const RETRIED: &str = "retried.jsonl";
/// Flag of a cell that was run again.
const FLAG: &str = "retried after a failure, later than its block";
/// Folders of files for each cell, or for each store.
const FOLDERS: [&str; 4] = ["series", "statistics", "receipts", "storage"];
/// Those with a file for each cell, and the endings of the files.
const FOLDERS_OF_CELLS: [(&str, &str); 3] =
    [("series", "jsonl"), ("statistics", "json"), ("receipts", "json")];

/// A run directory that this process alone writes.
pub(super) struct RunDirectory {
    directory: RecordDirectory,
    pub(super) run: Run,
    done: BTreeSet<String>,
    retried: BTreeSet<String>,
}

const KIND: Kind = Kind { noun: "sweep", index: RUN, lines: &[CELLS, RETRIED] };

impl RunDirectory {
    /// Opens the directory of a sweep that is to continue; none if there is no sweep in it.
    ///
    /// # Errors
    /// It has something else; it is of another matrix; another process works in it.
    pub(super) fn resume(path: &Path, wanted: &Matrix) -> anyhow::Result<Option<Self>> {
        let Some(directory) = RecordDirectory::resume(path, KIND)? else { return Ok(None) };
        let (its, before) = Self::read(directory)?;
        let differences = matrix::differences(&before, wanted);
        if !differences.is_empty() {
            let message = format!("`{}` has the sweep of another matrix", path.display());
            let hint = "name a new directory by `--out`, or take the matrix as it was";
            let failure = Failure::new(ExitCode::Refused, message)
                .caused_by(differences.join("\n"))
                .hint(its.run.with_removal(hint, path));
            return Err(failure.into());
        }
        Ok(Some(its))
    }

    /// Opens the directory of a sweep, and returns its matrix too.
    ///
    /// # Errors
    /// It has no sweep; another process works in it.
    pub(super) fn open(path: &Path) -> anyhow::Result<(Self, Matrix)> {
        // The error of a directory that has something else names another option.
        read_run(path)?;
        match RecordDirectory::resume(path, KIND)? {
            Some(directory) => Self::read(directory),
            None => Err(no_sweep(path).into()),
        }
    }

    fn read(directory: RecordDirectory) -> anyhow::Result<(Self, Matrix)> {
        let path = directory.path();
        let run = read_run(path)?;
        let (matrix, _) = matrix::read(&path.join(MATRIX))?;
        let ids = |cells: Vec<Cell>| cells.into_iter().map(|cell| cell.id).collect();
        let (done, retried) = (ids(read_cells(path)?), ids(read_retried(path)?));
        Ok((Self { directory, run, done, retried }, matrix))
    }

    /// Begins a sweep in a directory that is made, or is empty.
    ///
    /// # Errors
    /// It cannot be written; another process works in it.
    pub(super) fn begin(path: &Path, matrix: &str, run: Run) -> anyhow::Result<Self> {
        let directory = RecordDirectory::begin(path, KIND)?;
        for folder in FOLDERS {
            directory.make_directory(folder)?;
        }
        let (done, retried) = Default::default();
        let its = Self { directory, run, done, retried };
        its.keep_matrix(matrix)?;
        its.write(CELLS, b"")?;
        // Last: it makes the directory one of a sweep.
        its.write_run()?;
        Ok(its)
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn is_done(&self, id: &str) -> bool {
        self.done.contains(id)
    }

    pub(super) fn done(&self) -> usize {
        self.done.len()
    }

    /// Writes the text of the matrix. That of a later start may name other daemons, which a removal
    /// asks.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn keep_matrix(&self, text: &str) -> anyhow::Result<()> {
        self.write(MATRIX, text.as_bytes())
    }

    /// Moves the lines of failed cells to `retried.jsonl`, and removes their other files: the cells
    /// are run again. Returns their number. The line of a cell that is not retriable stays.
    ///
    /// # Errors
    /// The file system refuses; the same call continues.
    pub(super) fn retry_failed(&mut self) -> anyhow::Result<usize> {
        let known = texts(read_lines(self.path(), RETRIED)?);
        let all = read_lines(self.path(), CELLS)?.into_iter();
        let (failed, kept): (Vec<_>, Vec<_>) = all.partition(|(_, cell)| cell.is_retriable());
        if failed.is_empty() {
            return Ok(0);
        }
        for (line, cell) in &failed {
            // A crash may have left a line in both files.
            if !known.contains(line) {
                self.directory.append(RETRIED, line.as_bytes())?;
            }
            for (folder, ending) in FOLDERS_OF_CELLS {
                self.directory.remove(&format!("{folder}/{}.{ending}", cell.id))?;
            }
            self.retried.insert(cell.id.clone());
            self.done.remove(&cell.id);
        }
        // Before the lines go: a sweep that has ended runs no cell.
        self.run.ended = None;
        self.write_run()?;
        let kept = texts(kept).into_iter().map(|line| line + "\n").collect::<String>();
        self.write(CELLS, kept.as_bytes())?;
        Ok(failed.len())
    }

    /// Returns whether a file is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.directory.has(name)
    }

    /// Writes a cell, durably, and flags one that was run again after a failure.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn add(&mut self, mut cell: Cell) -> anyhow::Result<()> {
        if self.retried.contains(&cell.id) {
            cell.flags.push(FLAG.to_owned());
        }
        self.directory.append(CELLS, &serde_json::to_vec(&cell)?)?;
        self.done.insert(cell.id);
        Ok(())
    }

    /// Writes `run.json`.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn write_run(&self) -> anyhow::Result<()> {
        self.write_json(RUN, &self.run)
    }

    /// Writes a file of JSON in one step.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn write_json(&self, name: &str, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Writes a file in one step: it is whole, or as it was.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        Ok(self.directory.replace(name, content)?)
    }
}

/// Reads `run.json`.
///
/// # Errors
/// It is not there, or of another format.
pub(super) fn read_run(path: &Path) -> anyhow::Result<Run> {
    let file = path.join(RUN);
    let text = fs::read(&file).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => no_sweep(path),
        _ => Failure::io(format!("read `{}`", file.display()), error),
    })?;
    let wrong = |why: String| {
        let message = format!("`{}` is no run of this format", file.display());
        Failure::new(ExitCode::Usage, message).caused_by(why)
    };
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if value["format"] != FORMAT {
        return Err(wrong(format!("format {}, where {FORMAT} is known", value["format"])).into());
    }
    Ok(serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?)
}

fn no_sweep(path: &Path) -> Failure {
    let message = format!("`{}` has no sweep", path.display());
    Failure::new(ExitCode::Usage, message).hint("name the directory of a sweep, as `--out` had it")
}

/// Reads all cells.
///
/// # Errors
/// A line is no cell: the error names it.
pub(super) fn read_cells(path: &Path) -> anyhow::Result<Vec<Cell>> {
    Ok(read_lines(path, CELLS)?.into_iter().map(|(_, cell)| cell).collect())
}

/// Reads the failed cells that were to be run again, as they were before.
///
/// # Errors
/// As [`read_cells`].
pub(super) fn read_retried(path: &Path) -> anyhow::Result<Vec<Cell>> {
    Ok(read_lines(path, RETRIED)?.into_iter().map(|(_, cell)| cell).collect())
}

fn texts(lines: Vec<(String, Cell)>) -> Vec<String> {
    lines.into_iter().map(|(line, _)| line).collect()
}

/// Reads the lines of a file, each with its cell. There may be no file with cells to be run again.
fn read_lines(path: &Path, name: &str) -> anyhow::Result<Vec<(String, Cell)>> {
    let file = path.join(name);
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound && name == RETRIED => return Ok(vec![]),
        text => text.map_err(|error| Failure::io(format!("read `{}`", file.display()), error))?,
    };
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().enumerate();
    let cell = |(at, line): (usize, &str)| {
        let cell = serde_json::from_str(line).map_err(|error| {
            let message = format!("`{}`, line {}, is no cell", file.display(), at + 1);
            Failure::new(ExitCode::Usage, message).caused_by(error)
        })?;
        Ok((line.to_owned(), cell))
    };
    lines.map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::{CellError, Verified, examples};
    use super::*;

    const TEXT: &str = "source = \"lab:a\"\ntarget = \"hpc:b\"\ndatasets = [\"1x1\"]\n";

    fn matrix(text: &str) -> Matrix {
        matrix::parse(Path::new("m"), text).unwrap()
    }

    /// Promise: a sweep continues with the cells that it has; a line that was cut off counts as
    /// not run; another matrix is refused with what differs, and so is a second process. A removal
    /// has the daemons of the last start.
    #[test]
    fn a_run_continues() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        let wanted = matrix(TEXT);
        assert!(RunDirectory::resume(&path, &wanted).unwrap().is_none());
        let mut run = RunDirectory::begin(&path, TEXT, examples::run()).unwrap();
        let busy = RunDirectory::resume(&path, &wanted).err().unwrap();
        assert!(busy.to_string().contains("another sweep"), "{busy:#}");
        let first = examples::cell("b1-a", 1, "1x1", "tls-blake3", 10.0);
        run.add(first.clone()).unwrap();
        drop(run);
        let cells = path.join(CELLS);
        let whole = fs::read_to_string(&cells).unwrap();
        fs::write(&cells, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
        let run = RunDirectory::resume(&path, &wanted).unwrap().unwrap();
        assert!(run.is_done("b1-a") && run.done() == 1 && run.run == examples::run());
        assert_eq!(fs::read_to_string(&cells).unwrap(), whole);
        assert_eq!(read_cells(&path).unwrap(), [first]);
        let moved = format!("{TEXT}[daemons]\nhpc = \"/b\"\n");
        run.keep_matrix(&moved).unwrap();
        drop(run);
        assert_eq!(RunDirectory::open(&path).unwrap().1, matrix(&moved));
        let other = matrix(&format!("{TEXT}repeats = 2\n"));
        let error = RunDirectory::resume(&path, &other).err().unwrap();
        assert!(format!("{error:#}").contains("repeats: 6 before, 2 now"), "{error:#}");
        let hint = penstock_exit::hint_of(&error).unwrap();
        let place = "lab:a/.penstock-sweep-0123456789abcdef";
        assert!(hint.contains("--clean") && hint.contains(place), "{hint}");
        fs::write(&cells, "{}\n").unwrap();
        let error = RunDirectory::resume(&path, &wanted).err().unwrap();
        assert!(error.to_string().contains("line 1"), "{error:#}");
        let error = RunDirectory::open(&root.path().join("none")).err().unwrap();
        assert!(error.to_string().contains("has no sweep"), "{error:#}");
        let full = root.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("x"), "").unwrap();
        let error = RunDirectory::resume(&full, &wanted).err().unwrap();
        assert!(error.to_string().contains("not empty"), "{error:#}");
    }

    /// Promise: a failed cell is run again, and the record has both lines, each in one file; what
    /// was measured, and a cell that has moved wrong data, stays as it is. A crash between the two
    /// files loses nothing, and doubles nothing. The new line has a flag, also if it fails again.
    #[test]
    fn failed_cells_are_run_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        let mut run = RunDirectory::begin(&path, TEXT, examples::run()).unwrap();
        let cell = |id: &str| examples::cell(id, 1, "1x1", "tls-blake3", 10.0);
        let (code, text) = ("temporary".to_owned(), "no room".to_owned());
        let failed = Cell { error: Some(CellError { code, text }), rate: None, ..cell("b1-a") };
        let (how, ok) = ("all".to_owned(), false);
        let verify = Some(Verified { how, ok, files: 1, bytes: 1 });
        let wrong = Cell { id: "b1-b".to_owned(), verify, ..failed.clone() };
        let good = cell("b1-c");
        for cell in [&failed, &wrong, &good] {
            run.add(cell.clone()).unwrap();
        }
        run.run.ended = Some(run.run.begun);
        run.write_run().unwrap();
        run.write("series/b1-a.jsonl", b"{}\n").unwrap();
        run.write("series/b1-c.jsonl", b"{}\n").unwrap();
        let before = fs::read(path.join(CELLS)).unwrap();
        assert_eq!(run.retry_failed().unwrap(), 1);
        assert_eq!(read_cells(&path).unwrap(), [wrong, good]);
        assert_eq!(read_retried(&path).unwrap(), std::slice::from_ref(&failed));
        assert!(!run.is_done("b1-a") && run.is_done("b1-c"));
        assert!(!run.has("series/b1-a.jsonl") && run.has("series/b1-c.jsonl"));
        assert_eq!(run.retry_failed().unwrap(), 0);
        fs::write(path.join(CELLS), before).unwrap();
        drop(run);
        let (mut run, _) = RunDirectory::open(&path).unwrap();
        assert!(run.run.ended.is_none(), "a sweep that has ended runs no cell");
        assert_eq!((run.done(), run.retry_failed().unwrap(), run.done()), (3, 1, 2));
        assert_eq!(read_retried(&path).unwrap(), std::slice::from_ref(&failed));
        run.add(failed).unwrap();
        let cells = read_cells(&path).unwrap();
        assert_eq!((cells.len(), run.done(), &cells[2].flags[..]), (3, 3, &[FLAG.to_owned()][..]));
    }
}
