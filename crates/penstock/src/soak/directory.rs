//! The directory of a soak: its records, durable when a method returns.
//!
//! `soak.json` and `open-faults.json` are replaced as a whole; the others grow by lines. A line
//! that a crash has cut short is removed when the directory is opened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use penstock_exit::{ExitCode, Failure};
use penstock_sys::LockFile;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{FaultRecord, OpenFault, RoundRecord, SampleRecord, SoakRecord};

/// Files of the directory.
const SOAK: &str = "soak.json";
const OPEN_FAULTS: &str = "open-faults.json";
const ROUNDS: &str = "rounds.jsonl";
const FAULTS: &str = "faults.jsonl";
const SAMPLES: &str = "samples.jsonl";
const RECEIPTS: &str = "receipts.jsonl";
const COMMAND_LOG: &str = "commands.log";
const LOCK: &str = "lock";

/// All records of a soak.
#[derive(Debug, Clone)]
pub(super) struct Records {
    /// What is repeated.
    pub(super) soak: SoakRecord,
    /// The rounds that have ended.
    pub(super) rounds: Vec<RoundRecord>,
    /// The faults that are over.
    pub(super) faults: Vec<FaultRecord>,
    /// Figures of daemons.
    pub(super) samples: Vec<SampleRecord>,
}

/// The directory of a soak, which one process at a time writes to.
pub(super) struct Directory {
    path: PathBuf,
    _lock: LockFile,
}

impl Directory {
    /// Opens the directory of a soak that is to continue; none if no soak was begun there.
    ///
    /// # Errors
    /// It is a file, or has something else; another soak works with it; it cannot be written.
    pub(super) fn resume(path: &Path) -> anyhow::Result<Option<Self>> {
        if path.join(SOAK).exists() {
            return Self::open(path).map(Some);
        }
        let has_something = match fs::read_dir(path) {
            Ok(mut entries) => entries.any(|entry| {
                let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
                name != LOCK
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let title = format!("`{}` is not a directory", path.display());
                let hint = "name a new directory by `--out`";
                return Err(Failure::new(ExitCode::Usage, title).hint(hint).into());
            }
            Err(error) => {
                return Err(Failure::io(format!("list `{}`", path.display()), error).into());
            }
        };
        if has_something {
            let title = format!("`{}` is not empty, and has no soak", path.display());
            let hint = "name a new directory by `--out`";
            return Err(Failure::new(ExitCode::Refused, title).hint(hint).into());
        }
        Ok(None)
    }

    /// Makes the directory of a new soak, or opens it where it is empty.
    ///
    /// # Errors
    /// It cannot be written; another soak works with it, or has begun there meanwhile.
    pub(super) fn begin(path: &Path) -> anyhow::Result<Self> {
        let failed = |error| Failure::io(format!("make `{}`", path.display()), error);
        fs::create_dir_all(path).map_err(failed)?;
        let directory = Self::open(path)?;
        if path.join(SOAK).exists() {
            let title = format!("another soak has begun in `{}` meanwhile", path.display());
            let hint = "run the same command again, or name a new directory by `--out`";
            return Err(Failure::new(ExitCode::Refused, title).hint(hint).into());
        }
        Ok(directory)
    }

    fn open(path: &Path) -> anyhow::Result<Self> {
        let lock = LockFile::acquire(&path.join(LOCK)).map_err(|error| {
            let title = format!("another soak may work with `{}`", path.display());
            Failure::new(ExitCode::Refused, title).caused_by(error).hint("give another `--out`")
        })?;
        let directory = Self { path: path.to_owned(), _lock: lock };
        for name in [ROUNDS, FAULTS, SAMPLES, RECEIPTS] {
            let file = path.join(name);
            cut_torn_line(&file).map_err(|error| unwritten(&file, error))?;
        }
        Ok(directory)
    }

    /// Returns the file to which commands of faults write.
    pub(super) fn command_log(&self) -> PathBuf {
        self.path.join(COMMAND_LOG)
    }

    /// Returns the directory itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the records; none of a directory in which no soak was begun.
    ///
    /// # Errors
    /// As [`read`].
    pub(super) fn records(&self) -> anyhow::Result<Option<Records>> {
        read(&self.path)
    }

    /// Replaces `soak.json`.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&self, soak: &SoakRecord) -> anyhow::Result<()> {
        self.replace(SOAK, &serde_json::to_vec_pretty(soak)?)
    }

    /// Adds a round.
    ///
    /// # Errors
    /// As [`Directory::save`].
    pub(super) fn add_round(&self, round: &RoundRecord) -> anyhow::Result<()> {
        self.add(ROUNDS, &serde_json::to_vec(round)?)
    }

    /// Adds a fault.
    ///
    /// # Errors
    /// As [`Directory::save`].
    pub(super) fn add_fault(&self, fault: &FaultRecord) -> anyhow::Result<()> {
        self.add(FAULTS, &serde_json::to_vec(fault)?)
    }

    /// Adds figures of a daemon.
    ///
    /// # Errors
    /// As [`Directory::save`].
    pub(super) fn add_sample(&self, sample: &SampleRecord) -> anyhow::Result<()> {
        self.add(SAMPLES, &serde_json::to_vec(sample)?)
    }

    /// Adds a receipt as it was received, in one line.
    ///
    /// # Errors
    /// As [`Directory::save`].
    pub(super) fn add_receipt(&self, receipt: &serde_json::Value) -> anyhow::Result<()> {
        self.add(RECEIPTS, &serde_json::to_vec(receipt)?)
    }

    /// Replaces the fault that has to be undone.
    ///
    /// # Errors
    /// As [`Directory::save`].
    pub(super) fn set_open_fault(&self, open: Option<&OpenFault>) -> anyhow::Result<()> {
        self.replace(OPEN_FAULTS, &serde_json::to_vec_pretty(&open)?)
    }

    /// Writes a file of the result.
    ///
    /// # Errors
    /// As [`Directory::save`].
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.replace(name, bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let (path, next) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let write = || -> io::Result<()> {
            let mut file = File::create(&next)?;
            file.write_all(bytes)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&next, &path)?;
            File::open(&self.path)?.sync_all()
        };
        Ok(write().map_err(|error| unwritten(&path, error))?)
    }

    fn add(&self, name: &str, line: &[u8]) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(&[line, b"\n"].concat())?;
            file.sync_data()
        };
        Ok(write().map_err(|error| unwritten(&path, error))?)
    }
}

fn unwritten(path: &Path, error: io::Error) -> Failure {
    Failure::io(format!("write `{}`", path.display()), error)
}

/// Removes what follows the last end of a line.
fn cut_torn_line(path: &Path) -> io::Result<()> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        bytes => bytes?,
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole == bytes.len() {
        return Ok(());
    }
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(whole as u64)?;
    file.sync_all()
}

/// Reads the records of a directory, also while a soak writes there; none if no soak was begun.
///
/// # Errors
/// A file cannot be read, or is none of a soak.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<Records>> {
    let Some(soak) = object::<SoakRecord>(&path.join(SOAK))? else { return Ok(None) };
    let rounds = lines(&path.join(ROUNDS))?;
    Ok(Some(Records {
        soak,
        rounds,
        faults: lines(&path.join(FAULTS))?,
        samples: lines(&path.join(SAMPLES))?,
    }))
}

/// Returns the fault that is not undone.
///
/// # Errors
/// As [`read`].
pub(super) fn open_fault(path: &Path) -> anyhow::Result<Option<OpenFault>> {
    Ok(object::<Option<OpenFault>>(&path.join(OPEN_FAULTS))?.flatten())
}

fn object<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    match fs::read(path) {
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Failure::io(format!("read `{}`", path.display()), error).into()),
        Ok(bytes) => Ok(Some(parse(path, &bytes)?)),
    }
}

/// Returns whether an error says that there is no such file; a file in the place of the directory
/// has none either.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn lines<T: DeserializeOwned + Serialize>(path: &Path) -> anyhow::Result<Vec<T>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes.map_err(|error| Failure::io(format!("read `{}`", path.display()), error))?,
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse(path, line)).collect()
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let title = format!("`{}` is no record of a soak", path.display());
        Failure::new(ExitCode::Fatal, title)
            .caused_by(error)
            .hint("give another `--out`, or the release that has written it")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_seconds: f64) -> SampleRecord {
        SampleRecord { at_seconds, daemon: "a/h1".to_owned(), ..SampleRecord::default() }
    }

    /// Promise: a line that a crash has cut short is neither read nor in the way of the next one,
    /// and two soaks never write to one directory.
    #[test]
    fn a_torn_line_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = Directory::begin(scratch.path()).unwrap();
        directory.add_sample(&sample(1.0)).unwrap();
        assert!(Directory::begin(scratch.path()).is_err());
        drop(directory);
        let path = scratch.path().join(SAMPLES);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"at_sec"].concat()).unwrap();
        assert_eq!(lines::<SampleRecord>(&path).unwrap(), [sample(1.0)]);
        let directory = Directory::open(scratch.path()).unwrap();
        directory.add_sample(&sample(2.0)).unwrap();
        assert_eq!(lines::<SampleRecord>(&path).unwrap(), [sample(1.0), sample(2.0)]);
        assert!(directory.records().unwrap().is_none());
    }

    /// Promise: a directory that does not exist is not made by a look, an empty one is a new one,
    /// and one with other files or a file in its place is refused.
    #[test]
    fn a_directory_with_other_files_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let missing = scratch.path().join("missing");
        assert!(Directory::resume(&missing).unwrap().is_none() && !missing.exists());
        drop(Directory::begin(&missing).unwrap());
        assert!(Directory::resume(&missing).unwrap().is_none(), "it has nothing but its lock");
        let file = missing.join("notes");
        fs::write(&file, "").unwrap();
        let error = Directory::resume(&missing).err().unwrap();
        assert!(error.to_string().contains("not empty"), "{error:#}");
        let error = Directory::resume(&file).err().unwrap();
        assert!(error.to_string().contains("not a directory"), "{error:#}");
        assert!(read(&file).unwrap().is_none());
        fs::write(missing.join(SOAK), "{}").unwrap();
        assert!(Directory::begin(&missing).is_err() && Directory::resume(&missing).is_ok());
    }
}
