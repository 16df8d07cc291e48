//! The file of a transfer's records, and how many files are kept.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use penstock_api::fence::Fence;
use penstock_api::rest::FlightRecord;

/// Files that are kept, of the transfers that were worked at last.
const FILES_MAX: usize = 1000;
/// Files beyond that before the oldest are removed.
const FILES_SLACK: usize = 64;

/// The file of one transfer.
#[derive(Clone, Debug)]
pub(crate) struct FlightFile {
    path: PathBuf,
    fence: Fence,
}

impl FlightFile {
    /// Returns the file at a path. Under a closed fence the file is no longer written: the next
    /// controller writes it.
    pub(crate) fn new(path: PathBuf, fence: Fence) -> Self {
        Self { path, fence }
    }

    /// Returns the records in the file; none if it cannot be read.
    pub(super) fn read(&self) -> Vec<FlightRecord> {
        let Ok(file) = File::open(&self.path) else { return Vec::new() };
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        // A line that a crash has cut is ignored.
        lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// Replaces the records in the file. Makes the directory, and removes the files of transfers
    /// that were not worked at for longest.
    ///
    /// # Errors
    /// The directory or the file cannot be written.
    pub(super) fn write<'a>(
        &self,
        records: impl Iterator<Item = &'a FlightRecord>,
    ) -> io::Result<()> {
        if !self.fence.holds() {
            return Ok(());
        }
        let Some(directory) = self.path.parent() else { return Ok(()) };
        let is_new = !self.path.exists();
        self.replace(directory, records)?;
        if is_new {
            prune(directory, FILES_MAX, FILES_SLACK);
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn replace<'a>(
        &self,
        directory: &Path,
        records: impl Iterator<Item = &'a FlightRecord>,
    ) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record)?;
            text.push(b'\n');
        }
        // Each controller has a name of its own for its unfinished file (B4).
        let unfinished = self.path.with_extension(format!("{:x}.new", self.fence.epoch()));
        let written = File::create(&unfinished).and_then(|mut file| file.write_all(&text));
        written.and_then(|()| fs::rename(&unfinished, &self.path)).inspect_err(|_| {
            // A full disk has made an empty one.
            let _ = fs::remove_file(&unfinished);
        })
    }
}

/// Removes the oldest files of a directory beyond `most`, once there are `slack` more than that.
fn prune(directory: &Path, most: usize, slack: usize) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    if paths.len() <= most + slack {
        return;
    }
    let changed = |path: &PathBuf| {
        let modified = fs::metadata(path).and_then(|found| found.modified());
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let mut dated: Vec<_> = paths.into_iter().map(|path| (changed(&path), path)).collect();
    dated.sort();
    for (_, path) in dated.iter().take(dated.len() - most) {
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(%error, path = %path.display(), "old flight records are not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Promise: the records of old transfers go, those of the last ones stay.
    #[test]
    fn the_files_of_old_transfers_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = |at: u64| directory.path().join(format!("{at}.jsonl"));
        for at in 0..8 {
            let file = File::create(path(at)).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + at);
            file.set_modified(time).unwrap();
        }
        prune(directory.path(), 5, 3);
        assert!(path(0).exists(), "not beyond the slack yet");
        prune(directory.path(), 5, 2);
        let left: Vec<bool> = (0..8).map(|at| path(at).exists()).collect();
        assert_eq!(left, [false, false, false, true, true, true, true, true]);
    }

    /// Promise (B4): a deposed controller does not overwrite the records of its successor.
    #[test]
    fn b4_a_deposed_controller_writes_no_records() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.jsonl");
        let holds = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&holds);
        let fence = Fence::new(7, Arc::new(move || asked.load(Ordering::Relaxed)));
        FlightFile::new(path.clone(), fence.clone()).write([].iter()).unwrap();
        assert!(!path.exists());
        holds.store(true, Ordering::Relaxed);
        FlightFile::new(path.clone(), fence).write([].iter()).unwrap();
        assert!(path.exists());
    }
}
