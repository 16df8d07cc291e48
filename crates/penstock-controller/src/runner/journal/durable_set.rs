//! Durable sets of facts that the last controller of a transfer must know.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use penstock_api::problem::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::failed;

/// A durable set that only grows, of facts that the last controller of a transfer must know. Each
/// controller keeps a file of its own, `NAME.EPOCH`, so that a deposed controller damages nothing.
/// The set is the union of all these files.
#[derive(Debug)]
pub(crate) struct DurableSet<T> {
    path: PathBuf,
    /// Open once something was added: a line each time.
    file: Option<File>,
    known: BTreeSet<T>,
}

impl<T: Ord + Serialize + DeserializeOwned> DurableSet<T> {
    /// Opens the set `name` in a journal, with the items that the controller under `epoch` and
    /// earlier controllers recorded.
    ///
    /// # Errors
    /// The journal store cannot be read.
    pub(crate) fn open(journal: &Path, name: &str, epoch: u64) -> Result<Self, Problem> {
        let mut known = BTreeSet::new();
        let cannot = |cause| failed("read", journal, &cause);
        let prefix = format!("{name}.");
        for entry in fs::read_dir(journal).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let found = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !found.starts_with(&prefix) {
                continue;
            }
            let text = fs::read(&path).map_err(|cause| failed("read", &path, &cause))?;
            // A line that is not whole was being added when its controller died, before anything
            // followed from it.
            let lines = text.split(|byte| *byte == b'\n');
            known.extend(
                lines.filter_map(|line| serde_json::from_slice::<Vec<T>>(line).ok()).flatten(),
            );
        }
        Ok(Self { path: journal.join(format!("{prefix}{epoch:016x}")), file: None, known })
    }

    pub(crate) fn known(&self) -> impl Iterator<Item = &T> {
        self.known.iter()
    }

    /// Adds items to the set; new ones are durable when this returns.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(crate) fn add(&mut self, more: impl IntoIterator<Item = T>) -> Result<(), Problem> {
        let news: BTreeSet<T> = more.into_iter().filter(|it| !self.known.contains(it)).collect();
        if news.is_empty() {
            return Ok(());
        }
        self.write(&news).map_err(|cause| failed("write", &self.path, &cause))?;
        self.known.extend(news);
        Ok(())
    }

    fn write(&mut self, news: &BTreeSet<T>) -> io::Result<()> {
        let mut line = serde_json::to_vec(news)?;
        line.push(b'\n');
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = File::options().create(true).append(true).open(&self.path)?;
                // A line that an earlier attempt may have begun ends here.
                file.write_all(b"\n")?;
                self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())?;
                none.insert(file)
            }
        };
        file.write_all(&line)?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B1, B4: what is to be looked at again outlives the run, and the controller; and controllers
    /// that write at once do not write one file.
    #[test]
    fn b1_what_is_kept_is_known_to_whoever_finishes() {
        let journal = tempfile::tempdir().unwrap();
        let open = |epoch| DurableSet::<(u64, u32)>::open(journal.path(), "late", epoch).unwrap();
        let mut first = open(3);
        assert_eq!(first.known().count(), 0);
        first.add([(8, 1), (8, 5)]).unwrap();
        first.add([(9, 0)]).unwrap();
        let mut next = open(4);
        assert_eq!(next.known, first.known);
        // The first one dies in the middle of a write.
        first.file.as_ref().unwrap().write_all(b"[[6,6],[7").unwrap();
        next.add([(9, 7)]).unwrap();
        assert_eq!(open(4).known().collect::<Vec<_>>(), [&(8, 1), &(8, 5), &(9, 0), &(9, 7)]);
        assert_eq!(
            DurableSet::<(u64, u32)>::open(journal.path(), "lat", 4).unwrap().known.len(),
            0
        );
        let mut again = open(3);
        again.add([(9, 8)]).unwrap();
        assert!(open(4).known().any(|it| *it == (9, 8)), "one that goes on behind half a line");
    }
}
