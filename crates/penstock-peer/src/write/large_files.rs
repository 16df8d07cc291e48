//! The open temporary files of large files, shared by the lanes of a task, and perhaps by peers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use penstock_api::task::TaskPage;
use penstock_engine::fetch::Item;
use penstock_store::{Dir, LeftOver, Meta, StoreError, WriteFile};

use crate::source::read::place;
use crate::write::target_tree::TargetTree;

/// Number of open files; one descriptor each, two where whole blocks bypass the page cache. No
/// message reports that an open file is no longer needed, since another peer may finish it.
const OPEN_MAX: usize = 300;
/// Number of look-ups of a file that another peer has made. The wait before the second of them
/// doubles with each try up to the last: some 5 s. A network file system may report for that long
/// that the file is missing (B5).
const LOOK_TRIES: u32 = 9;
const LOOK_WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Number of ended attempts that are remembered; late answers to their requests arrive soon.
const OVER_MAX: usize = 4096;

/// The table of them.
#[derive(Default)]
pub(crate) struct LargeFiles {
    files: Mutex<BTreeMap<(u32, u32), LargeFile>>,
    /// Page, entry and generation of abandoned attempts, the latest last.
    over: Mutex<VecDeque<(u32, u32, u32)>>,
}

struct LargeFile {
    generation: u32,
    /// `None` until the first extent is written: the file is then made again.
    open: Option<Arc<WriteFile>>,
}

impl LargeFiles {
    /// Begins a file of which no extent was written in this generation. The first lane makes its
    /// temporary file.
    pub(crate) fn begin(&self, page: u32, entry: u32, generation: u32) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert((page, entry), LargeFile { generation, open: None });
    }

    /// Returns the file of an entry in a generation. Makes it if it was begun here, else opens it
    /// as it is.
    pub(crate) fn get(
        &self,
        tree: &TargetTree,
        page: &TaskPage,
        item: &Item,
    ) -> Result<Arc<WriteFile>, StoreError> {
        let key = (item.piece.page, item.first_entry);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.get(&key).filter(|file| file.generation == item.generation);
        let begun = match known {
            Some(LargeFile { open: Some(file), .. }) => return Ok(Arc::clone(file)),
            Some(_) => true,
            None => false,
        };
        let entry = &page.page.entries()[item.first_entry as usize];
        let (parent, _) = place(&tree.root, &page.page, entry);
        let dir = tree.target.make_dirs(&parent)?;
        let name = tree.temporary(page, item.first_entry, item.generation);
        let mut file = if begun {
            make(tree, &dir, &name, entry.size)?
        } else if tree.is_shared() {
            // Other lanes may write meanwhile, and one of them may open the same file.
            drop(files);
            let attempt = (key.0, key.1, item.generation);
            let file = look_for(tree, &dir, &name, || self.is_over(attempt))?;
            files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            let known = files.get(&key).filter(|file| file.generation == item.generation);
            if let Some(LargeFile { open: Some(file), .. }) = known {
                return Ok(Arc::clone(file));
            }
            file
        } else {
            tree.target.open_temporary(&dir, &name)?
        };
        if tree.sync_nothing {
            file.make_lazy();
        } else {
            file.make_direct()?;
        }
        let open = Arc::new(file);
        let generation = item.generation;
        // A late item of an old attempt takes no place from the new one.
        if files.get(&key).is_none_or(|known| known.generation <= generation) {
            if files.len() >= OPEN_MAX {
                // A file that no lane writes to now is opened again when it is needed.
                let in_use = |file: &LargeFile| {
                    file.open.as_ref().is_none_or(|file| Arc::strong_count(file) > 1)
                };
                files.retain(|_, file| in_use(file));
            }
            files.insert(key, LargeFile { generation, open: Some(Arc::clone(&open)) });
        }
        Ok(open)
    }

    /// Closes the file of an entry, before its times are set (see
    /// [`crate::publish::mtime_settle`]). Returns the attributes of the file, as far as they are
    /// known, if this task has written to it.
    pub(crate) fn close(&self, page: u32, entry: u32) -> Option<Option<Meta>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files.remove(&(page, entry))?.open?;
        Some(file.meta().ok().flatten())
    }
}

impl LargeFiles {
    /// Records that an attempt at a file was abandoned: its temporary file disappears, and is no
    /// longer looked for. Otherwise a lane with a hundred answers under way would stop for minutes.
    pub(crate) fn give_up(&self, page: u32, entry: u32, generation: u32) {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if over.len() >= OVER_MAX {
            over.pop_front();
        }
        over.push_back((page, entry, generation));
        drop(over);
        self.close(page, entry);
    }

    fn is_over(&self, attempt: (u32, u32, u32)) -> bool {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).contains(&attempt)
    }
}

/// Makes the temporary file. Where several peers write, an existing one is another peer's, or an
/// earlier run's. It has the bytes of this attempt or none, and is used further (B1).
fn make(tree: &TargetTree, dir: &Dir, name: &[u8], size: u64) -> Result<WriteFile, StoreError> {
    let left_over = if tree.is_shared() { LeftOver::Keep } else { LeftOver::Replace };
    let file = tree.target.create_temporary(dir, name, left_over)?;
    // The file may be finished by now, and belong to its user, if this peer was stopped since (B1).
    tree.target.check_gate()?;
    if file.meta()?.is_none_or(|meta| meta.size < size) {
        file.set_len(size)?;
    }
    Ok(file)
}

/// Opens a file that another peer has made, and never makes it (B1). Stops when the attempt was
/// abandoned.
fn look_for(
    tree: &TargetTree,
    dir: &Dir,
    name: &[u8],
    is_over: impl Fn() -> bool,
) -> Result<WriteFile, StoreError> {
    let mut wait = LOOK_WAIT.0;
    let mut outcome = tree.target.open_temporary(dir, name);
    for _ in 1..LOOK_TRIES {
        match &outcome {
            Err(error) if error.is_vanished() && !is_over() => {}
            _ => break,
        }
        thread::sleep(wait);
        wait = (wait * 2).min(LOOK_WAIT.1);
        // A new handle asks the server again for the content of the directory.
        let fresh = tree.target.open_dir(dir.path());
        outcome = fresh.and_then(|dir| tree.target.open_temporary(&dir, name));
    }
    outcome
}
