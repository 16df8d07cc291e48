//! Final names of packs and of large files, when their bytes are durable.

use std::collections::BTreeMap;

use penstock_api::task::{Report, TaskPage};
use penstock_engine::epoch::Publication;
use penstock_engine::slice::{Piece, travels_whole};
use penstock_proto::journal::EntryFailure;
use penstock_proto::time_use::Activity;
use penstock_store::{Dir, Meta, Step, StoreError};

use super::publisher::{Before, Named, Publisher};
use super::recheck::remove_temporary;
use crate::source::read::place;
use crate::write::name_turns::NameTurn;

/// Names after which a publisher without turns looks again whether they pay.
const NAMES_WITHOUT: usize = 64;

impl<'a> Publisher<'a> {
    /// Renames the files of pieces whose data is durable.
    pub(super) fn publish(&mut self, pieces: &[Publication]) {
        let mut touched = BTreeMap::new();
        let mut done = Vec::new();
        for publication in pieces {
            self.shared.hang.step();
            let outcome = self.publish_piece(*publication, &mut touched);
            if !self.shared.may_name() {
                // The next controller finds the named entries by this.
                return;
            }
            done.push((*publication, outcome));
        }
        let target = &self.shared.tree.target;
        let synced = touched.into_values().try_for_each(|dir| {
            self.shared.hang.step();
            self.time.measure(Activity::Sync, || target.sync_dir(&dir))
        });
        if let Err(error) = synced {
            self.names_not_durable(pieces, &error);
            return;
        }
        let files = done.iter().map(|(_, outcome)| outcome.as_ref().map_or(0, |o| o.0)).sum();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let epoch = state.epochs.handle_renamed(penstock_sys::boottime_now(), pieces.len(), files);
        for (Publication { piece, generation }, outcome) in done {
            state.excepted.remove(&piece);
            let report = match outcome {
                Some((_, failures)) => Report::Published { piece, generation, epoch, failures },
                // The task ends, and written bytes stay: the next run checks them again.
                None if self.shared.is_stopping() => continue,
                None => Report::Returned { piece, generation },
            };
            self.shared.report(state, report);
        }
    }

    /// Publishes one piece. Returns the number of files and the failures; `None` if a file of it is
    /// gone.
    fn publish_piece(
        &mut self,
        publication: Publication,
        touched: &mut BTreeMap<Vec<u8>, Dir>,
    ) -> Option<(u64, Vec<EntryFailure>)> {
        let Publication { piece, generation } = publication;
        let pieces = self.page(piece)?;
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
        Some((files, failures))
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
    /// shows whether another peer has named it since (A6). See [`Publisher::rename`] for files that
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
    pub(super) fn rename(
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
