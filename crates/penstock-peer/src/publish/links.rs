//! Links, devices, further names of files and attributes of directories, at the end of a transfer.

use penstock_api::task::{Report, TaskPage};
use penstock_api::update::IfExists;
use penstock_proto::journal::{EntryFailure, FailurePhase};
use penstock_proto::manifest::{Entry, EntryKind};
use penstock_proto::name;
use penstock_proto::slicing::PieceRef;
use penstock_store::{Dir, Kind, Meta, Step, StoreError, Target};

use super::publisher::Publisher;
use crate::publish::name_races::{refreshed, settled};
use crate::source::read::place;
use crate::target::compare::step_of;

/// The reasons why a further name was not made.
enum LinkError {
    Store(StoreError),
    /// The first name is missing, or is not as the source has it.
    NoPrimary,
}

impl LinkError {
    fn of_primary(error: StoreError) -> Self {
        if error.is_vanished() { Self::NoPrimary } else { Self::Store(error) }
    }
}

impl From<StoreError> for LinkError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Publisher<'_> {
    /// Makes the links and the directories of a page.
    pub(super) fn links(&mut self, number: u32) {
        let Some(pieces) = self.page(PieceRef { page: number, piece: 0 }) else { return };
        let mut failures = Vec::new();
        let mut made = 0;
        for (index, entry) in pieces.page.page.entries().iter().enumerate() {
            self.shared.hang.step();
            let outcome = match entry.kind {
                _ if pieces.page.left.contains(index as u32) => continue,
                // Further names come last, when all first names are there (B6).
                EntryKind::File | EntryKind::HardLink => continue,
                EntryKind::Directory => {
                    self.renamer.pace_names(1);
                    let path = name::join(&self.shared.tree.root, &pieces.page.page.path(entry));
                    self.renamer.dir(&path).map(|_| ())
                }
                EntryKind::Symlink
                | EntryKind::Fifo
                | EntryKind::CharDevice
                | EntryKind::BlockDevice => self.node(&pieces.page, index as u32, entry),
            };
            made += 1;
            if let Err(error) = outcome {
                let Some(failure) = self.renamer.failure(index as u32, &error) else { return };
                failures.push(failure);
            }
        }
        self.tail_done(made, |epoch| Report::LinksDone { page: number, failures, epoch });
    }

    /// Makes a symbolic link, pipe or device.
    fn node(&mut self, page: &TaskPage, index: u32, entry: &Entry) -> Result<(), StoreError> {
        let tree = &self.shared.tree;
        if !tree.keeper.makes(entry) {
            return Ok(());
        }
        let (parent, leaf) = place(&tree.root, &page.page, entry);
        let dir = self.renamer.dir(&parent)?;
        let tree = &self.shared.tree;
        let target = &tree.target;
        // The link is made and named: two operations.
        self.renamer.pace_names(2);
        let temporary = tree.temporary(page, index, 0);
        let made = match entry.kind {
            EntryKind::Symlink => target.make_symlink(&dir, &temporary, page.page.link(entry)),
            EntryKind::Fifo => target.make_node(&dir, &temporary, Kind::Fifo, entry.device),
            EntryKind::CharDevice => {
                target.make_node(&dir, &temporary, Kind::CharDevice, entry.device)
            }
            _ => target.make_node(&dir, &temporary, Kind::BlockDevice, entry.device),
        };
        made?;
        let wanted = tree.keeper.attributes(&page.page, entry);
        let published = target
            .set_node_attributes(&dir, &temporary, &wanted)
            .and_then(|not_set| tree.keeper.settle(&page.page.path(entry), &not_set))
            .and_then(|()| self.renamer.names.give_name((page, index), (&dir, &temporary, &leaf)))
            .map(|_| ());
        let leads_there =
            |dir: &Dir| target.read_link(dir, &leaf).is_ok_and(|to| to == page.page.link(entry));
        // Pipes and devices show too little to tell them from others.
        let published = settled(published, target, (&dir, &leaf[..]), |dir, there| {
            there.kind == Kind::Symlink && entry.kind == EntryKind::Symlink && leads_there(dir)
        });
        if published.is_err() {
            // A directory has the name: the temporary file is removed again.
            let _ = target.remove(&dir, &temporary);
        }
        published
    }

    /// Makes a further name of a file, if its first name exists as the source has it (B6). The
    /// source counts time in steps of `source`.
    fn hard_link(
        &mut self,
        page: &TaskPage,
        index: u32,
        entry: &Entry,
        source: Step,
    ) -> Result<(), LinkError> {
        let keeper = &self.shared.tree.keeper;
        if !keeper.makes(entry) {
            return Ok(());
        }
        self.make_hard_link(page, index, entry, source)
    }

    fn make_hard_link(
        &mut self,
        page: &TaskPage,
        index: u32,
        entry: &Entry,
        source: Step,
    ) -> Result<(), LinkError> {
        let tree = &self.shared.tree;
        if matches!(tree.target, Target::Null) {
            return Ok(());
        }
        let primary = name::join(&tree.root, page.page.link(entry));
        let (parent, primary) = name::split(&primary).unwrap_or_default();
        // Under a name that was to be replaced is something else; an unfinished file has no name
        // yet.
        self.shared.hang.rest();
        let failed = self.shared.control.has_failed(page.page.link(entry));
        self.shared.hang.step();
        if name::own(primary).is_some() || failed {
            return Err(LinkError::NoPrimary);
        }
        let of = self
            .renamer
            .dirs
            .get(penstock_sys::boottime_now(), parent, |path| tree.target.open_dir(path));
        let of = of.map_err(LinkError::of_primary)?;
        let found = self.waits.look(&tree.target, of, primary, tree.is_shared())?;
        let (of, there) = found.ok_or(LinkError::NoPrimary)?;
        let keeper = &tree.keeper;
        let timed = keeper.sets_times() && of.takes_times();
        let moved = !timed && self.replaces_primary(page, entry);
        let fits = |there: &Meta| {
            let same = moved || of.has_time(there, entry.mtime, source);
            same && (there.kind != Kind::File || there.size == entry.size)
        };
        let there = match fits(&there) || !tree.is_shared() {
            true => there,
            false => refreshed(&tree.target, &of, primary, there),
        };
        if there.kind == Kind::Directory || !fits(&there) {
            return Err(LinkError::NoPrimary);
        }
        let (parent, leaf) = place(&tree.root, &page.page, entry);
        let dir = self
            .renamer
            .dirs
            .get(penstock_sys::boottime_now(), &parent, |path| tree.target.make_dirs(path))?;
        let is_it = |meta: Meta| (meta.inode, meta.device) == (there.inode, there.device);
        if tree.target.meta(&dir, &leaf)?.is_some_and(is_it) {
            return Ok(());
        }
        let temporary = tree.temporary(page, index, 0);
        self.renamer.pace_names(2);
        tree.target.make_hard_link(&of, primary, &dir, &temporary)?;
        let published =
            self.renamer.names.give_name((page, index), (&dir, &temporary, &leaf)).map(|_| ());
        let tree = &self.shared.tree;
        let published = settled(published, &tree.target, (&dir, &leaf[..]), |_, meta| is_it(*meta));
        // If another process has just made the same name, rename(2) did nothing and left the
        // temporary name.
        let removed = tree.target.remove(&dir, &temporary);
        published?;
        removed?;
        Ok(())
    }

    /// Returns whether the first name of a hard link is always replaced. Without times, an older
    /// file of the same size cannot be distinguished from the new one (promise (c)).
    fn replaces_primary(&self, page: &TaskPage, entry: &Entry) -> bool {
        let (parent, leaf) = name::split(page.page.link(entry)).unwrap_or_default();
        let first = page.page.entries().iter().position(|other| {
            page.page.name(other) == leaf && page.page.directory(other) == parent
        });
        match first {
            Some(index) => !page.left.contains(index as u32),
            None => self.shared.spec.update.if_exists == IfExists::Replace,
        }
    }

    fn link_failure(&self, entry: u32, error: LinkError) -> Option<EntryFailure> {
        match error {
            LinkError::Store(error) => self.renamer.failure(entry, &error),
            LinkError::NoPrimary => {
                tracing::warn!(entry, "a hard link's first name is not at the target");
                Some(EntryFailure { entry, phase: FailurePhase::Link, errno: 0 })
            }
        }
    }

    fn directory(&self, page: &TaskPage, entry: &Entry) -> Result<(), StoreError> {
        let tree = &self.shared.tree;
        let path = page.page.path(entry);
        let wanted = tree.keeper.attributes(&page.page, entry);
        let not_set = tree.target.set_dir_attributes(&name::join(&tree.root, &path), &wanted)?;
        tree.keeper.settle(&path, &not_set)
    }

    /// Sets the attributes of the directories of a page, children before parents (B5). Runs after
    /// the page's further names of files were made: all first names exist by then (B6).
    pub(super) fn directories(&mut self, number: u32) {
        let Some(pieces) = self.page(PieceRef { page: number, piece: 0 }) else { return };
        self.renamer.dirs.clear();
        self.shared.tree.keeper.count_withheld(&pieces.page.page);
        let source = step_of(&pieces.page.page);
        let mut failures = Vec::new();
        let mut set = 0;
        for (index, entry) in pieces.page.page.entries().iter().enumerate() {
            if entry.kind != EntryKind::HardLink || pieces.page.left.contains(index as u32) {
                continue;
            }
            set += 1;
            self.shared.hang.step();
            if let Err(error) = self.hard_link(&pieces.page, index as u32, entry, source) {
                let Some(failure) = self.link_failure(index as u32, error) else { return };
                failures.push(failure);
            }
        }
        for (index, entry) in pieces.page.page.entries().iter().enumerate().rev() {
            if entry.kind != EntryKind::Directory || pieces.page.left.contains(index as u32) {
                continue;
            }
            set += 1;
            self.shared.hang.step();
            if let Err(error) = self.directory(&pieces.page, entry) {
                let Some(failure) = self.renamer.failure(index as u32, &error) else { return };
                failures.push(failure);
            }
        }
        self.tail_done(set, |epoch| Report::DirectoriesDone { page: number, failures, epoch });
    }
}
