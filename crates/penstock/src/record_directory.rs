//! A directory of records that a command keeps for hours or days, so that the same command
//! continues after an interrupt, a kill or a power cut.
//!
//! Files are replaced as a whole, or grow by lines; both are durable when a method returns. A line
//! that a crash has cut short is cut off when the directory is opened. One process at a time writes
//! there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use penstock_exit::{ExitCode, Failure};
use penstock_sys::{LockError, LockFile};

const LOCK: &str = "lock";

/// What a directory has records of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The noun, as `soak`.
    pub(crate) noun: &'static str,
    /// The file that makes a directory one of this kind.
    pub(crate) index: &'static str,
    /// Files that grow by lines.
    pub(crate) lines: &'static [&'static str],
}

/// A directory of records that this process alone writes.
pub(crate) struct RecordDirectory {
    path: PathBuf,
    _lock: LockFile,
}

impl RecordDirectory {
    /// Opens the directory of what is to continue; none if it was not begun there. Nothing is made.
    ///
    /// # Errors
    /// It is a file, or has something else; another process works in it; it cannot be written.
    pub(crate) fn resume(path: &Path, kind: Kind) -> anyhow::Result<Option<Self>> {
        if path.join(kind.index).exists() {
            return Self::open(path, kind).map(Some);
        }
        let hint = "name a new directory by `--out`";
        let has_something = match fs::read_dir(path) {
            Ok(mut entries) => entries.any(|entry| {
                let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
                !name.to_string_lossy().starts_with(LOCK)
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                let title = format!("`{}` is not a directory", path.display());
                return Err(Failure::new(ExitCode::Usage, title).hint(hint).into());
            }
            Err(error) => {
                return Err(Failure::io(format!("list `{}`", path.display()), error).into());
            }
        };
        if has_something {
            let title = format!("`{}` is not empty, and has no {}", path.display(), kind.noun);
            return Err(Failure::new(ExitCode::Refused, title).hint(hint).into());
        }
        Ok(None)
    }

    /// Makes a new directory, or opens an empty one.
    ///
    /// # Errors
    /// It cannot be written; another process works in it, or has begun something there meanwhile.
    pub(crate) fn begin(path: &Path, kind: Kind) -> anyhow::Result<Self> {
        let failed = |error| Failure::io(format!("make `{}`", path.display()), error);
        fs::create_dir_all(path).map_err(failed)?;
        let directory = Self::open(path, kind)?;
        if directory.has(kind.index) {
            let title =
                format!("another {} has begun in `{}` meanwhile", kind.noun, path.display());
            let hint = "run the same command again, or name a new directory by `--out`";
            return Err(Failure::new(ExitCode::Refused, title).hint(hint).into());
        }
        Ok(directory)
    }

    fn open(path: &Path, kind: Kind) -> anyhow::Result<Self> {
        let lock = LockFile::acquire(&path.join(LOCK)).map_err(|error| match error {
            LockError::Held { .. } => {
                let title = format!("another {} works in `{}`", kind.noun, path.display());
                let hint = "wait for its end, or name a new directory by `--out`";
                Failure::new(ExitCode::Refused, title).hint(hint)
            }
            error => Failure::new(ExitCode::Fatal, format!("cannot lock `{}`", path.display()))
                .caused_by(error),
        })?;
        for name in kind.lines {
            let file = path.join(name);
            cut_torn_line(&file)
                .map_err(|error| Failure::io(format!("mend `{}`", file.display()), error))?;
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Returns the directory itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether a file is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Makes a directory within it, or finds it made.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn make_directory(&self, name: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        let failed = |error| Failure::io(format!("make `{}`", path.display()), error);
        fs::create_dir_all(&path).map_err(failed)
    }

    /// Writes a file in one step: it is whole, or as it was.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let (path, next) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let write = || -> io::Result<()> {
            let mut file = File::create(&next)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&next, &path)?;
            File::open(path.parent().unwrap_or(&self.path))?.sync_all()
        };
        write().map_err(|error| unwritten(&path, error))
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unwritten(&path, error)),
            _ => Ok(()),
        }
    }

    /// Adds a line to a file.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn append(&self, name: &str, line: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(&[line, b"\n"].concat())?;
            file.sync_all()
        };
        write().map_err(|error| unwritten(&path, error))
    }
}

fn unwritten(path: &Path, error: io::Error) -> Failure {
    Failure::io(format!("write `{}`", path.display()), error)
}

/// Removes what follows the last end of a line.
fn cut_torn_line(path: &Path) -> io::Result<()> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        bytes => bytes?,
    };
    let whole = whole_lines(&bytes).len();
    if whole == bytes.len() {
        return Ok(());
    }
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(whole as u64)?;
    file.sync_all()
}

/// Returns the lines that have an end: another process may be about to write the last one.
pub(crate) fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { noun: "soak", index: "soak.json", lines: &["rounds.jsonl"] };

    /// Promise: a directory that does not exist is not made by a look, an empty one is a new one,
    /// and one with other files or a file in its place is refused.
    #[test]
    fn a_directory_with_other_files_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("new");
        let resume = |path: &Path| RecordDirectory::resume(path, KIND);
        assert!(resume(&path).unwrap().is_none() && !path.exists());
        drop(RecordDirectory::begin(&path, KIND).unwrap());
        assert!(resume(&path).unwrap().is_none(), "it has nothing but its lock");
        let file = path.join("notes");
        fs::write(&file, "").unwrap();
        let error = resume(&path).err().unwrap();
        assert!(error.to_string().contains("is not empty, and has no soak"), "{error:#}");
        let error = resume(&file).err().unwrap();
        assert!(error.to_string().contains("is not a directory"), "{error:#}");
        fs::write(path.join(KIND.index), "{}").unwrap();
        let error = RecordDirectory::begin(&path, KIND).err().unwrap();
        assert!(error.to_string().contains("meanwhile"), "{error:#}");
        let opened = resume(&path).unwrap().unwrap();
        let error = resume(&path).err().unwrap();
        assert!(error.to_string().contains("another soak works in"), "{error:#}");
        drop(opened);
    }

    /// Promise: a line that a crash has cut short is not in the way of the next one, and a file is
    /// replaced as a whole.
    #[test]
    fn a_torn_line_is_cut_off() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = RecordDirectory::begin(scratch.path(), KIND).unwrap();
        directory.append("rounds.jsonl", b"1").unwrap();
        directory.replace(KIND.index, b"long and old").unwrap();
        directory.replace(KIND.index, b"new").unwrap();
        drop(directory);
        let path = scratch.path().join("rounds.jsonl");
        fs::write(&path, "1\n{\"tor").unwrap();
        let directory = RecordDirectory::resume(scratch.path(), KIND).unwrap().unwrap();
        directory.append("rounds.jsonl", b"2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"1\n2\n");
        assert_eq!(fs::read(scratch.path().join(KIND.index)).unwrap(), b"new");
    }
}
