//! The run directory: what a sweep has measured, written so that the same command continues it.
//!
//! `run.json` and others are replaced as a whole. `cells.jsonl` grows by a line that is synced; a
//! line that a kill has cut off is taken away when the sweep continues.

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
/// Folders of files for each cell, or for each store.
const FOLDERS: [&str; 4] = ["series", "statistics", "receipts", "storage"];

/// A run directory that this process alone writes.
pub(super) struct RunDirectory {
    directory: RecordDirectory,
    pub(super) run: Run,
    done: BTreeSet<String>,
}

const KIND: Kind = Kind { noun: "sweep", index: RUN, lines: &[CELLS] };

impl RunDirectory {
    /// Opens the directory of a sweep that is to continue; none if there is no sweep in it.
    ///
    /// # Errors
    /// It has something else; it is of another matrix; another process works in it.
    pub(super) fn resume(path: &Path, wanted: &Matrix) -> anyhow::Result<Option<Self>> {
        let Some(directory) = RecordDirectory::resume(path, KIND)? else { return Ok(None) };
        let run = read_run(path)?;
        let (before, _) = matrix::read(&path.join(MATRIX))?;
        let differences = matrix::differences(&before, wanted);
        if !differences.is_empty() {
            let message = format!("`{}` has the sweep of another matrix", path.display());
            let failure = Failure::new(ExitCode::Refused, message)
                .caused_by(differences.join("\n"))
                .hint("name a new directory by `--out`, or take the matrix as it was");
            return Err(failure.into());
        }
        let done = read_cells(path)?.into_iter().map(|cell| cell.id).collect();
        Ok(Some(Self { directory, run, done }))
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
        let its = Self { directory, run, done: BTreeSet::new() };
        its.write(MATRIX, matrix.as_bytes())?;
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

    /// Returns whether a file is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.directory.has(name)
    }

    /// Writes a cell, durably: it is never run again.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn add(&mut self, cell: &Cell) -> anyhow::Result<()> {
        self.directory.append(CELLS, &serde_json::to_vec(cell)?)?;
        self.done.insert(cell.id.clone());
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
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            let message = format!("`{}` has no sweep", path.display());
            Failure::new(ExitCode::Usage, message)
                .hint("name the directory of a sweep, as `--out` had it")
        }
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

/// Reads all cells.
///
/// # Errors
/// A line is no cell: the error names it.
pub(super) fn read_cells(path: &Path) -> anyhow::Result<Vec<Cell>> {
    let file = path.join(CELLS);
    let text = fs::read_to_string(&file)
        .map_err(|error| Failure::io(format!("read `{}`", file.display()), error))?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().enumerate();
    let cell = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let message = format!("`{}`, line {}, is no cell", file.display(), at + 1);
            Failure::new(ExitCode::Usage, message).caused_by(error).into()
        })
    };
    lines.map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::examples;
    use super::*;

    const TEXT: &str = "source = \"lab:a\"\ntarget = \"hpc:b\"\ndatasets = [\"1x1\"]\n";

    fn matrix(text: &str) -> Matrix {
        matrix::parse(Path::new("m"), text).unwrap()
    }

    /// Promise: a sweep continues with the cells that it has; a line that was cut off counts as
    /// not run; another matrix is refused with what differs, and so is a second process.
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
        run.add(&first).unwrap();
        drop(run);
        let cells = path.join(CELLS);
        let whole = fs::read_to_string(&cells).unwrap();
        fs::write(&cells, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
        let run = RunDirectory::resume(&path, &wanted).unwrap().unwrap();
        assert!(run.is_done("b1-a") && run.done() == 1 && run.run == examples::run());
        assert_eq!(fs::read_to_string(&cells).unwrap(), whole);
        assert_eq!(read_cells(&path).unwrap(), [first]);
        drop(run);
        let other = matrix(&format!("{TEXT}repeats = 2\n"));
        let error = RunDirectory::resume(&path, &other).err().unwrap();
        assert!(format!("{error:#}").contains("repeats: 6 before, 2 now"), "{error:#}");
        fs::write(&cells, "{}\n").unwrap();
        let error = RunDirectory::resume(&path, &wanted).err().unwrap();
        assert!(error.to_string().contains("line 1"), "{error:#}");
        let full = root.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("x"), "").unwrap();
        let error = RunDirectory::resume(&full, &wanted).err().unwrap();
        assert!(error.to_string().contains("not empty"), "{error:#}");
    }
}
