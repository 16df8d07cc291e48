//! The run directory: what a sweep has measured, written so that the same command continues it.
//!
//! `run.json` and others are replaced as a whole. `cells.jsonl` grows by a line that is synced; a
//! line that a kill has cut off is taken away when the sweep continues.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use penstock_exit::{ExitCode, Failure};
use penstock_sys::{LockError, LockFile};
use serde::Serialize;

use super::matrix::{self, Matrix};
use super::record::{Cell, FORMAT, Run};

const RUN: &str = "run.json";
const MATRIX: &str = "matrix.toml";
const CELLS: &str = "cells.jsonl";
const LOCK: &str = "lock";
/// Folders of files for each cell, or for each store.
const FOLDERS: [&str; 4] = ["series", "statistics", "receipts", "storage"];

/// A run directory that this process alone writes.
pub(super) struct RunDirectory {
    path: PathBuf,
    pub(super) run: Run,
    done: BTreeSet<String>,
    _lock: LockFile,
}

impl RunDirectory {
    /// Opens the directory of a sweep that is to continue; none if there is no sweep in it.
    ///
    /// # Errors
    /// It has something else; it is of another matrix; another process works in it.
    pub(super) fn resume(path: &Path, wanted: &Matrix) -> anyhow::Result<Option<Self>> {
        if !path.join(RUN).exists() {
            let has_something = match fs::read_dir(path) {
                Ok(mut entries) => entries.any(|entry| {
                    let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
                    !name.to_string_lossy().starts_with(LOCK)
                }),
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(error) if error.kind() == ErrorKind::NotADirectory => {
                    let message = format!("`{}` is not a directory", path.display());
                    let hint = "name a new directory by `--out`";
                    return Err(Failure::new(ExitCode::Usage, message).hint(hint).into());
                }
                Err(error) => {
                    return Err(Failure::io(format!("list `{}`", path.display()), error).into());
                }
            };
            if has_something {
                let message = format!("`{}` is not empty, and has no sweep", path.display());
                let hint = "name a new directory by `--out`";
                return Err(Failure::new(ExitCode::Refused, message).hint(hint).into());
            }
            return Ok(None);
        }
        let lock = lock(path)?;
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
        mend_cells(&path.join(CELLS))?;
        let done = read_cells(path)?.into_iter().map(|cell| cell.id).collect();
        Ok(Some(Self { path: path.to_owned(), run, done, _lock: lock }))
    }

    /// Begins a sweep in a directory that is made, or is empty.
    ///
    /// # Errors
    /// It cannot be written; another process works in it.
    pub(super) fn begin(path: &Path, matrix: &str, run: Run) -> anyhow::Result<Self> {
        let failed = |error| Failure::io(format!("make `{}`", path.display()), error);
        fs::create_dir_all(path).map_err(failed)?;
        let lock = lock(path)?;
        if path.join(RUN).exists() {
            let message = format!("another sweep has begun in `{}` meanwhile", path.display());
            let hint = "run the same command again, or name a new directory by `--out`";
            return Err(Failure::new(ExitCode::Refused, message).hint(hint).into());
        }
        for folder in FOLDERS {
            fs::create_dir_all(path.join(folder)).map_err(failed)?;
        }
        let its = Self { path: path.to_owned(), run, done: BTreeSet::new(), _lock: lock };
        its.write(MATRIX, matrix.as_bytes())?;
        its.write(CELLS, b"")?;
        // Last: it makes the directory one of a sweep.
        its.write_run()?;
        Ok(its)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_done(&self, id: &str) -> bool {
        self.done.contains(id)
    }

    pub(super) fn done(&self) -> usize {
        self.done.len()
    }

    /// Returns whether a file is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Writes a cell, durably: it is never run again.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn add(&mut self, cell: &Cell) -> anyhow::Result<()> {
        let path = self.path.join(CELLS);
        let mut line = serde_json::to_vec(cell)?;
        line.push(b'\n');
        let append = || {
            let mut file = File::options().append(true).open(&path)?;
            file.write_all(&line)?;
            file.sync_all()
        };
        append().map_err(|error| Failure::io(format!("write `{}`", path.display()), error))?;
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
        let path = self.path.join(name);
        let temporary = self.path.join(format!("{name}.new"));
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|error| Failure::io(format!("write `{}`", path.display()), error))?;
        Ok(())
    }
}

fn lock(path: &Path) -> anyhow::Result<LockFile> {
    LockFile::acquire(&path.join(LOCK)).map_err(|error| match error {
        LockError::Held { .. } => {
            let message = format!("another sweep works in `{}`", path.display());
            Failure::new(ExitCode::Refused, message).hint("wait for its end").into()
        }
        error => Failure::new(ExitCode::Fatal, format!("cannot lock `{}`", path.display()))
            .caused_by(error)
            .into(),
    })
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

/// Cuts off a last line that is not whole.
fn mend_cells(file: &Path) -> anyhow::Result<()> {
    let mend = || {
        let text = fs::read(file)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            let file = File::options().write(true).open(file)?;
            file.set_len(whole as u64)?;
            file.sync_all()?;
        }
        std::io::Result::Ok(())
    };
    mend().map_err(|error| Failure::io(format!("mend `{}`", file.display()), error).into())
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
