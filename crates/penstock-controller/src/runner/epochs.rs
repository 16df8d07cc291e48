//! Files of the journal that only one controller writes (B4).
//!
//! A deposed controller that does not know it yet may still write, truncate and rename files, and
//! no file system fences it off. Every file that is rewritten instead of appended to therefore has
//! its controller's epoch in its name: `NAME.EPOCH`, as the logs of pages. Of several such files,
//! the one with the greatest epoch counts. Where one daemon is the whole site (epoch 0) the name is
//! `NAME`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use penstock_api::problem::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::journal_io::failed;

/// `path`, as only the controller under `epoch` writes it.
pub(crate) fn own(path: &Path, epoch: u64) -> PathBuf {
    if epoch == 0 { path.to_owned() } else { beside(path, &format!(".{epoch:016x}")) }
}

/// `path` with something behind its name.
pub(crate) fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

/// Returns all files that controllers have written as `path`, the last first. A deposed controller
/// may add further ones at any time, behind those that count.
pub(crate) fn all(path: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Vec::new();
    };
    let epoch_of = |found: &std::ffi::OsStr| {
        let behind = found.as_encoded_bytes().strip_prefix(name.as_encoded_bytes())?;
        match behind.strip_prefix(b".") {
            Some(digits) if digits.len() == 16 => {
                u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
            }
            _ => behind.is_empty().then_some(0),
        }
    };
    let found = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> =
        found.filter_map(|entry| Some((epoch_of(&entry.file_name())?, entry.path()))).collect();
    found.sort_by_key(|(epoch, _)| std::cmp::Reverse(*epoch));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns the file that counts among those that controllers wrote as `path`; `path` if none
/// exists.
pub(crate) fn last(path: &Path) -> PathBuf {
    all(path).into_iter().next().unwrap_or_else(|| path.to_owned())
}

/// Removes the files that controllers before the one under `epoch` have written as `path`: that one
/// has written its own.
pub(super) fn remove_earlier(path: &Path, epoch: u64) {
    let own = own(path, epoch);
    for earlier in all(path).into_iter().skip_while(|path| *path != own).skip(1) {
        let _ = fs::remove_file(earlier);
    }
}

/// A durable set that only grows, of facts that the last controller of a transfer must know. Each
/// controller keeps a file of its own, `NAME.EPOCH`, so that a deposed controller damages nothing.
/// The set is the union of all these files.
#[derive(Debug)]
pub(super) struct Kept<T> {
    path: PathBuf,
    /// Open once something was added: a line each time.
    file: Option<File>,
    known: BTreeSet<T>,
}

impl<T: Ord + Serialize + DeserializeOwned> Kept<T> {
    /// Opens the set `name` in a journal, with the items that the controller under `epoch` and
    /// earlier controllers recorded.
    ///
    /// # Errors
    /// The journal store cannot be read.
    pub(super) fn open(journal: &Path, name: &str, epoch: u64) -> Result<Self, Problem> {
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

    pub(super) fn known(&self) -> impl Iterator<Item = &T> {
        self.known.iter()
    }

    /// Adds items to the set; new ones are durable when this returns.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(super) fn add(&mut self, more: impl IntoIterator<Item = T>) -> Result<(), Problem> {
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

/// A directory of the journal that is one look's alone: of one controller, and of one of the
/// threads that it may have left behind in a call to a store that hangs. It goes with this value.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

/// Prefix of the names of directories for searches at the target.
const SCRATCH: &str = "surplus.";

impl Scratch {
    /// A new one in the journal of a transfer, for the controller under `epoch`.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(journal: &Path, epoch: u64) -> Result<Self, Problem> {
        /// Numbers those of this process, which is the only one that has its epoch.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = journal.join(format!("{SCRATCH}{epoch:016x}.{number}"));
        // A process before this one may have left it, where all have the same epoch.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|cause| failed("make", &path, &cause))?;
        Ok(Self(path))
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the directories that searches whose processes have ended have left in a journal. A
/// search that still runs fails.
pub(super) fn remove_scratch(journal: &Path) {
    for entry in fs::read_dir(journal).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()) {
            let _ = fs::remove_dir_all(entry.path());
        }
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
        let open = |epoch| Kept::<(u64, u32)>::open(journal.path(), "late", epoch).unwrap();
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
        assert_eq!(Kept::<(u64, u32)>::open(journal.path(), "lat", 4).unwrap().known.len(), 0);
        let mut again = open(3);
        again.add([(9, 8)]).unwrap();
        assert!(open(4).known().any(|it| *it == (9, 8)), "one that goes on behind half a line");
    }

    /// B4: what a deposed controller writes late is behind what its successor has written; names
    /// that only begin alike are others.
    #[test]
    fn b4_what_the_last_controller_wrote_counts() {
        let journal = tempfile::tempdir().unwrap();
        let path = journal.path().join("list");
        assert_eq!((last(&path), all(&path).len()), (path.clone(), 0));
        for epoch in [9, 0x10, 0, 7] {
            fs::write(own(&path, epoch), epoch.to_string()).unwrap();
        }
        for other in ["list.new", "list.md5", "lists", "list.000000000000ffff.new"] {
            fs::write(journal.path().join(other), "").unwrap();
        }
        let found = all(&path).into_iter().map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(found.collect::<Vec<_>>(), ["16", "9", "7", "0"]);
        remove_earlier(&path, 9);
        assert_eq!(all(&path), [own(&path, 16), own(&path, 9)], "a later one stays");
        assert_eq!(last(&path), own(&path, 16));
    }

    /// B4: no two looks share a directory, not even those of one controller; none is left.
    #[test]
    fn b4_looks_at_the_target_share_nothing() {
        let journal = tempfile::tempdir().unwrap();
        let [a, b] = [7, 7].map(|epoch| Scratch::new(journal.path(), epoch).unwrap());
        fs::write(a.path().join("known-000"), "a").unwrap();
        assert_eq!(fs::read_dir(b.path()).unwrap().count(), 0);
        drop(a);
        assert_eq!(fs::read_dir(journal.path()).unwrap().count(), 1);
        std::mem::forget(b);
        fs::write(journal.path().join("facts.json"), "").unwrap();
        remove_scratch(journal.path());
        assert_eq!(fs::read_dir(journal.path()).unwrap().count(), 1);
    }
}
