//! Renames the files of packs and large files to their final names, when their bytes are durable.

use std::collections::BTreeMap;

use penstock_api::task::TaskPage;
use penstock_engine::epoch::Publication;
use penstock_engine::slice::{Piece, travels_whole};
use penstock_proto::compared::refused;
use penstock_proto::journal::{EntryFailure, FailurePhase};
use penstock_proto::time_use::Activity;
use penstock_store::{Dir, DirCache, Meta, Step, StoreError};

use super::taken_names::FinalNames;
use crate::lane::thread_time::ThreadTime;
use crate::source::read::place;
use crate::stores::chain;
use crate::stores::errors::StoreFault;
use crate::task::context::{Pieces, TaskContext};
use crate::write::name_turns::NameTurn;

/// Names after which a renamer without turns looks again whether they pay.
const NAMES_WITHOUT: usize = 64;

/// Makes final names, in one thread.
pub(super) struct Renamer<'a> {
    pub(super) shared: &'a TaskContext,
    pub(super) dirs: DirCache,
    /// The time of its thread.
    pub(super) time: ThreadTime,
    /// The final names, which may be taken.
    pub(super) names: FinalNames<'a>,
}

/// The result of giving a file its final name.
pub(super) enum Named {
    /// The file has its final name.
    Yes,
    /// Neither the temporary nor the final name leads to it.
    Gone,
}

/// Says whether a file may have its final name already, from an interrupted run or from another
/// peer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// No: this task wrote the file, and no other names it.
    No,
    /// Unknown: its size and time decide.
    Perhaps,
    /// Yes: under the final name lies the very file that was written here.
    Yes,
}

/// The number of renamed files of a piece, and the entries that failed.
pub(super) struct RenamedPiece {
    pub(super) files: u64,
    pub(super) failures: Vec<EntryFailure>,
}

impl<'a> Renamer<'a> {
    pub(super) fn new(shared: &'a TaskContext, time: ThreadTime) -> Self {
        Self { shared, dirs: DirCache::default(), time, names: FinalNames::new(shared) }
    }

    /// Waits until the limit lets so many names be made.
    pub(super) fn pace_names(&self, names: u64) {
        let slept = self.shared.tree.names.take(names);
        self.time.add(Activity::WaitLimit, slept);
    }

    pub(super) fn dir(&mut self, path: &[u8]) -> Result<Dir, StoreError> {
        let target = &self.shared.tree.target;
        self.dirs.get(penstock_sys::boottime_now(), path, |path| target.make_dirs(path))
    }

    /// Returns the failure of an entry. Returns `None` if the store accepts no more work or the
    /// host lacks a resource: the task then ends, and no item has failed.
    pub(super) fn failure(&self, entry: u32, error: &StoreError) -> Option<EntryFailure> {
        if let Some(fault) = StoreFault::of(&self.shared.tree.target, error) {
            self.shared.broken(fault);
            return None;
        }
        tracing::warn!(
            error = %chain(error),
            "an entry could not be given its name or attributes"
        );
        if let StoreError::Exists { .. } = error {
            return Some(refused(entry, 0));
        }
        let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
        let phase = match error {
            StoreError::NotSet { .. } => FailurePhase::Attributes,
            _ => FailurePhase::Publish,
        };
        Some(EntryFailure { entry, phase, errno })
    }

    /// Renames the files of one piece. Returns `None` if a file of the piece is gone.
    pub(super) fn rename_piece(
        &mut self,
        publication: Publication,
        pieces: &Pieces,
        touched: &mut BTreeMap<Vec<u8>, Dir>,
    ) -> Option<RenamedPiece> {
        let Publication { piece, generation } = publication;
        let mut failures = Vec::new();
        let mut files = 0;
        match *pieces.pieces.get(piece.piece as usize)? {
            Piece::Extent { .. } => return None,
            Piece::Finish { entry } => {
                let written = self.shared.large.close(piece.page, entry);
                match self.finish(&pieces.page, entry, generation, written, touched) {
                    Ok(Named::Yes) => files = 1,
                    Ok(Named::Gone) => return None,
                    // Its temporary files are removed when the controller has committed the
                    // failure.
                    Err(error) => failures.push(self.failure(entry, &error)?),
                }
            }
            Piece::Pack { first, end, .. } => {
                let (excepted, found) = {
                    let mut state = self.shared.lock();
                    (state.excepted.get(&piece).cloned(), state.found.remove(&piece))
                };
                let excepted = excepted.unwrap_or_default();
                let before = if found { Before::Perhaps } else { Before::No };
                let _acting = self.shared.tree.target.act().ok();
                for index in &excepted {
                    // A lane that died may have begun it.
                    remove_temporary(self.shared, &pieces.page, *index, generation);
                }
                let (mut turn, mut names) = (None, 0);
                for index in first..end {
                    let entry = &pieces.page.page.entries()[index as usize];
                    let slicing = &pieces.page.page.slicing;
                    if !travels_whole(slicing, entry) || excepted.contains(&index) {
                        continue;
                    }
                    if names == 0 {
                        // It waits for one that it has.
                        drop(turn.take());
                        (turn, names) = self.turn(&pieces.page, index);
                    }
                    names -= 1;
                    match self.rename(&pieces.page, index, generation, before, touched) {
                        Ok(Named::Yes) => files += 1,
                        Ok(Named::Gone) => return None,
                        Err(error) => {
                            failures.push(self.failure(index, &error)?);
                            remove_temporary(self.shared, &pieces.page, index, generation);
                        }
                    }
                }
            }
        }
        Some(RenamedPiece { files, failures })
    }

    /// Takes a turn in the directory of an entry, for so many names. There is none where turns do
    /// not pay, and where a rename may come with other work than that.
    fn turn(&mut self, page: &TaskPage, index: u32) -> (Option<NameTurn<'a>>, usize) {
        let shared = self.shared;
        let tree = &shared.tree;
        let entry = &page.page.entries()[index as usize];
        let (parent, _) = place(&tree.root, &page.page, entry);
        // An error is met again when the entry is renamed.
        let Ok(dir) = self.dir(&parent) else { return (None, 1) };
        let names = tree.turns.names(&dir);
        if names == 1 || tree.names.has_rate() || tree.backup_dir.is_some() || tree.sync_nothing {
            return (None, NAMES_WITHOUT);
        }
        (tree.turns.take(&dir), names)
    }

    /// Sets the attributes of a large file, then its name. If its temporary name is gone, `written`
    /// shows whether another peer has named it since (A6). See [`Renamer::rename`] for files that
    /// were not written here.
    fn finish(
        &mut self,
        page: &TaskPage,
        index: u32,
        generation: u32,
        written: Option<Option<Meta>>,
        touched: &mut BTreeMap<Vec<u8>, Dir>,
    ) -> Result<Named, StoreError> {
        let entry = &page.page.entries()[index as usize];
        let (parent, leaf) = place(&self.shared.tree.root, &page.page, entry);
        let dir = self.dir(&parent)?;
        let name = self.shared.tree.temporary(page, index, generation);
        let mut before = if written.is_none() { Before::Perhaps } else { Before::No };
        match self.shared.tree.target.open_written(&dir, &name) {
            Ok(file) => {
                self.shared.tree.finish(file, &page.page, entry)?;
            }
            Err(error) if error.is_vanished() => {
                if let Some(mine) = written.flatten() {
                    let there = self.shared.tree.target.meta(&dir, &leaf)?;
                    let same = |it: Meta| (it.inode, it.device) == (mine.inode, mine.device);
                    if there.is_some_and(same) {
                        before = Before::Yes;
                    }
                }
            }
            Err(error) => return Err(error),
        }
        self.rename(page, index, generation, before, touched)
    }

    /// Renames one file, unless it was renamed `before`.
    fn rename(
        &mut self,
        page: &TaskPage,
        index: u32,
        generation: u32,
        before: Before,
        touched: &mut BTreeMap<Vec<u8>, Dir>,
    ) -> Result<Named, StoreError> {
        let tree = &self.shared.tree;
        let entry = &page.page.entries()[index as usize];
        let (parent, leaf) = place(&tree.root, &page.page, entry);
        let dir = self.dir(&parent)?;
        let temporary = tree.temporary(page, index, generation);
        if tree.sync_nothing && tree.target.meta(&dir, &leaf)?.is_some() {
            // A replaced name is never risked, whatever the policy (A1). It may have been replaced
            // before a crash, which the rename shows.
            match tree.target.open_written(&dir, &temporary) {
                Ok(file) => file.close(true)?,
                Err(error) if error.is_vanished() => {}
                Err(error) => return Err(error),
            }
        }
        self.pace_names(1);
        self.shared.hang.step();
        let named_in = match self.names.give_name((page, index), (&dir, &temporary, &leaf)) {
            Ok(Some(())) => dir,
            Ok(None) => return Ok(Named::Gone),
            Err(error) if error.is_vanished() => {
                self.dirs.forget(&parent);
                let tree = &self.shared.tree;
                let dir = tree.target.open_dir(&parent)?;
                let there = tree.target.meta(&dir, &leaf)?;
                let (whole, timely) = there.map_or((false, false), |meta| {
                    (meta.size == entry.size, dir.has_time(&meta, entry.mtime, Step::EXACT))
                });
                let named = match before {
                    Before::No => false,
                    Before::Perhaps => whole && timely && tree.keeper.sets_times(),
                    // Times need not be those of the source, if they are not kept.
                    Before::Yes => whole,
                };
                if !named {
                    return Ok(Named::Gone);
                }
                dir
            }
            Err(error) => return Err(error),
        };
        // A crash may have come between the rename and this.
        if named_in.durability().is_per_file() && !self.shared.tree.sync_nothing {
            touched.insert(parent.into_owned(), named_in);
        }
        Ok(Named::Yes)
    }
}

/// Removes the temporary file of an entry, if there is one.
pub(super) fn remove_temporary(shared: &TaskContext, page: &TaskPage, index: u32, generation: u32) {
    let tree = &shared.tree;
    let entry = &page.page.entries()[index as usize];
    let (parent, _) = place(&tree.root, &page.page, entry);
    let name = tree.temporary(page, index, generation);
    let removed = tree.target.open_dir(&parent).and_then(|dir| tree.target.remove(&dir, &name));
    if let Err(error) = removed
        && !error.is_vanished()
    {
        tracing::warn!(error = %chain(&error), "a temporary file is left");
    }
}
