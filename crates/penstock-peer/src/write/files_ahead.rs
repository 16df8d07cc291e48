//! Temporary files of a frame that are made some at a time, before their bytes are written.

use std::collections::VecDeque;

use penstock_engine::fetch::Item;
use penstock_store::{Dir, StoreError, Target, WriteFile};

use penstock_api::task::TaskPage;

use crate::write::target_tree::TargetTree;

/// Files that one lane has made and not written, by ascending entries.
#[derive(Default)]
pub(super) struct FilesAhead(VecDeque<(u32, WriteFile)>);

impl FilesAhead {
    /// Returns whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes files for these entries of one directory, in one turn. Stops at the first error: the
    /// lane meets the error again when it makes that file by itself.
    pub(super) fn make(
        &mut self,
        tree: &TargetTree,
        dir: &Dir,
        page: &TaskPage,
        item: &Item,
        entries: &[u32],
    ) {
        let _turn = tree.turns.take(dir);
        for entry in entries {
            match tree.make_whole(dir, page, *entry, item.generation) {
                Ok(file) => self.0.push_back((*entry, file)),
                Err(_) => return,
            }
        }
    }

    /// Returns the file of an entry, if it was made. Removes those of entries before it, which
    /// failed.
    pub(super) fn take(&mut self, target: &Target, entry: u32) -> Option<WriteFile> {
        let behind = self.0.partition_point(|(made, _)| *made < entry);
        remove_all(target, self.0.drain(..behind).map(|(_, file)| file));
        let is_made = self.0.front().is_some_and(|(made, _)| *made == entry);
        if is_made { self.0.pop_front().map(|(_, file)| file) } else { None }
    }

    /// Removes all files.
    pub(super) fn discard(&mut self, target: &Target) {
        remove_all(target, self.0.drain(..).map(|(_, file)| file));
    }
}

fn remove_all(target: &Target, files: impl Iterator<Item = WriteFile>) {
    for file in files {
        if remove(target, &file).is_err_and(|error| error.is_offline()) {
            return;
        }
    }
}

/// Removes the temporary file of an entry that is given up. One that stays goes with the other
/// temporary files of its transfer.
pub(super) fn remove(target: &Target, file: &WriteFile) -> Result<(), StoreError> {
    target.remove(file.dir(), file.name()).map(drop).inspect_err(|error| {
        tracing::warn!(error = %crate::stores::chain(error), "a temporary file is left");
    })
}
