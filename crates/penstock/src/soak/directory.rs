//! The directory of a soak: its records, durable when a method returns.
//!
//! `soak.json` and `open-faults.json` are replaced as a whole; the others grow by lines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use penstock_exit::{ExitCode, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{FaultRecord, OpenFault, RoundRecord, SampleRecord, SoakRecord};
use crate::record_directory::{Kind, RecordDirectory, whole_lines};

/// Files of the directory.
const SOAK: &str = "soak.json";
const OPEN_FAULTS: &str = "open-faults.json";
const ROUNDS: &str = "rounds.jsonl";
const FAULTS: &str = "faults.jsonl";
const SAMPLES: &str = "samples.jsonl";
const RECEIPTS: &str = "receipts.jsonl";
const COMMAND_LOG: &str = "commands.log";

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
pub(super) struct Directory(RecordDirectory);

const KIND: Kind = Kind { noun: "soak", index: SOAK, lines: &[ROUNDS, FAULTS, SAMPLES, RECEIPTS] };

impl Directory {
    /// Opens the directory of a soak that is to continue; none if no soak was begun there.
    ///
    /// # Errors
    /// As [`RecordDirectory::resume`].
    pub(super) fn resume(path: &Path) -> anyhow::Result<Option<Self>> {
        Ok(RecordDirectory::resume(path, KIND)?.map(Self))
    }

    /// Makes the directory of a new soak, or opens it where it is empty.
    ///
    /// # Errors
    /// As [`RecordDirectory::begin`].
    pub(super) fn begin(path: &Path) -> anyhow::Result<Self> {
        RecordDirectory::begin(path, KIND).map(Self)
    }

    /// Returns the file to which commands of faults write.
    pub(super) fn command_log(&self) -> PathBuf {
        self.path().join(COMMAND_LOG)
    }

    /// Returns the directory itself.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the records; none of a directory in which no soak was begun.
    ///
    /// # Errors
    /// As [`read`].
    pub(super) fn records(&self) -> anyhow::Result<Option<Records>> {
        read(self.path())
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

    /// Removes a file that is not true any more, if it is there.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn remove(&self, name: &str) -> anyhow::Result<()> {
        Ok(self.0.remove(name)?)
    }

    fn replace(&self, name: &str, text: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.replace(name, &[text, b"\n"].concat())?)
    }

    fn add(&self, name: &str, line: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.append(name, line)?)
    }
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

/// Returns the failure of a command for a directory in which no soak was begun.
pub(super) fn no_soak(path: &Path) -> Failure {
    let title = format!("`{}` has no soak", path.display());
    Failure::new(ExitCode::Usage, title).hint("give its `--out`")
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
    let lines = whole_lines(&bytes).split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
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
    /// two soaks never write to one directory, and a file has no soak.
    #[test]
    fn a_torn_line_is_not_read() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = Directory::begin(scratch.path()).unwrap();
        directory.add_sample(&sample(1.0)).unwrap();
        assert!(Directory::begin(scratch.path()).is_err());
        drop(directory);
        let path = scratch.path().join(SAMPLES);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"at_sec"].concat()).unwrap();
        assert_eq!(lines::<SampleRecord>(&path).unwrap(), [sample(1.0)]);
        let directory = Directory::begin(scratch.path()).unwrap();
        directory.add_sample(&sample(2.0)).unwrap();
        assert_eq!(lines::<SampleRecord>(&path).unwrap(), [sample(1.0), sample(2.0)]);
        assert!(directory.records().unwrap().is_none() && read(&path).unwrap().is_none());
    }
}
