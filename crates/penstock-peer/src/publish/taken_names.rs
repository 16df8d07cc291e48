//! Final names that are taken although nothing may be replaced (B9).
//!
//! The comparison of a page may be minutes older than its names. Where the options protect existing
//! entries, a file therefore gets its final name only while that name is free. The file system
//! checks this in the same step ([`PosixStore::publish`](penstock_store::PosixStore::publish)).
//! Under a name that is taken, only two kinds of entries are replaced. One is a file that this
//! transfer has named itself: before a crash, before a failed sync, or in an earlier version. The
//! other is an older file, with `--if-exists newer`. Everything else stays, and the entry fails as
//! one that the comparison has refused.

use std::sync::Arc;

use penstock_api::task::TaskPage;
use penstock_api::update::IfExists;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_store::{Dir, Kind, Meta, Step, StoreError};

use crate::target::compare::{is_newer, step_of};
use crate::task::context::TaskContext;

/// Bytes that are compared at a time.
const COMPARED_BYTES: usize = 1 << 16;

/// The judgement of a name that is taken.
enum Taken {
    /// The name is free again.
    Free,
    /// The entry may be replaced.
    Own,
    /// The entry stays.
    Foreign,
    /// An earlier version cannot be read: the task ends.
    Unknown,
}

/// The final names of a task, which the options may protect.
pub(super) struct FinalNames<'a> {
    shared: &'a TaskContext,
    /// A page, by number, and the step in which its source counts time.
    steps: Option<(u32, Step)>,
}

impl<'a> FinalNames<'a> {
    pub(super) fn new(shared: &'a TaskContext) -> Self {
        Self { shared, steps: None }
    }

    /// Returns whether any file or link may be replaced.
    pub(super) fn replaces_all(&self) -> bool {
        self.shared.spec.update.if_exists == IfExists::Replace
    }

    /// Renames a temporary file or link to its final name. Replaces an entry of that name if the
    /// options allow it, and then keeps the old entry in the backup directory. Returns `None` if
    /// the task ends instead.
    ///
    /// # Errors
    /// `Exists` if the name is taken by an entry that stays, and those of
    /// [`PosixStore::publish`](penstock_store::PosixStore::publish).
    pub(super) fn give_name(
        &mut self,
        (page, index): (&TaskPage, u32),
        (dir, temporary, leaf): (&Dir, &[u8], &[u8]),
    ) -> Result<Option<()>, StoreError> {
        let tree = &self.shared.tree;
        if !self.replaces_all() {
            let named = tree.target.publish(dir, temporary, leaf, false);
            let Err(taken @ StoreError::Exists { .. }) = named else { return named.map(Some) };
            match self.taken((page, index), (dir, leaf), temporary)? {
                Taken::Own => {}
                Taken::Free => {
                    return tree.target.publish(dir, temporary, leaf, false).map(Some);
                }
                Taken::Foreign => return Err(taken),
                Taken::Unknown => return Ok(None),
            }
        }
        tree.back_up(dir, temporary, leaf)?;
        tree.target.publish(dir, temporary, leaf, true).map(Some)
    }

    /// Judges the entry that has the final name of an entry of a page. `temporary` is the present
    /// name of the file that is to get it. Blocks while the controller looks for the pages of
    /// earlier versions.
    ///
    /// # Errors
    /// `BadPath`; `Io`.
    fn taken(
        &mut self,
        (page, index): (&TaskPage, u32),
        (dir, leaf): (&Dir, &[u8]),
        temporary: &[u8],
    ) -> Result<Taken, StoreError> {
        let Some(there) = self.shared.tree.target.meta(dir, leaf)? else { return Ok(Taken::Free) };
        let entry = &page.page.entries()[index as usize];
        if self.shared.spec.update.if_exists == IfExists::Newer {
            let step = self.step(&page.page);
            let plain = matches!(there.kind, Kind::File | Kind::Symlink);
            if plain && is_newer(entry, &there, dir.has_time(&there, entry.mtime, step)) {
                return Ok(Taken::Own);
            }
        }
        let (mut version, mut at) = (Arc::clone(&page.page), index as usize);
        loop {
            if self.is_version(&version, at, &there, (dir, leaf), temporary)? {
                return Ok(Taken::Own);
            }
            let Some(amends) = version.amends().get(at).copied() else { return Ok(Taken::Foreign) };
            let earlier = self.shared.required_page(amends.page);
            let Some(pieces) = earlier else { return Ok(Taken::Unknown) };
            (version, at) = (Arc::clone(&pieces.page.page), amends.entry as usize);
            if at >= version.entries().len() {
                return Ok(Taken::Foreign);
            }
        }
    }

    /// Returns whether the entry that is there shows all that this version would show. Where times
    /// are not kept, a file must have the bytes that are to get its name: it is the file that this
    /// transfer has named, or replacing it changes no byte.
    fn is_version(
        &mut self,
        page: &Page,
        at: usize,
        there: &Meta,
        (dir, leaf): (&Dir, &[u8]),
        temporary: &[u8],
    ) -> Result<bool, StoreError> {
        let entry: &Entry = &page.entries()[at];
        let tree = &self.shared.tree;
        let timed = tree.keeper.sets_times() && dir.takes_times();
        let dated = !timed || dir.has_time(there, entry.mtime, self.step(page));
        Ok(match (entry.kind, there.kind) {
            (EntryKind::File | EntryKind::HardLink, Kind::File) if timed => {
                there.size == entry.size && dated
            }
            (EntryKind::File | EntryKind::HardLink, Kind::File) => {
                there.size == entry.size && self.are_equal(dir, temporary, leaf)?
            }
            (EntryKind::Symlink, Kind::Symlink) => {
                tree.target.read_link(dir, leaf)? == page.link(entry)
            }
            (EntryKind::CharDevice, Kind::CharDevice)
            | (EntryKind::BlockDevice, Kind::BlockDevice) => dated && there.special == entry.device,
            (EntryKind::Fifo, Kind::Fifo) => dated,
            (EntryKind::HardLink, kind) => entry.special && kind != Kind::Directory && dated,
            _ => false,
        })
    }

    /// Returns whether two files of a directory have the same bytes.
    fn are_equal(&self, dir: &Dir, temporary: &[u8], leaf: &[u8]) -> Result<bool, StoreError> {
        let target = &self.shared.tree.target;
        let (ours, there) = (target.open_read(dir, temporary)?, target.open_read(dir, leaf)?);
        let mut bytes = [vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]];
        let mut at = 0;
        loop {
            self.shared.hang.step();
            let [one, other] = &mut bytes;
            let (read, found) = (ours.read_at(at, one)?, there.read_at(at, other)?);
            if one[..read] != other[..found] {
                return Ok(false);
            }
            if read < COMPARED_BYTES {
                return Ok(true);
            }
            at += read as u64;
        }
    }

    /// Returns the step in which the source of a page counts time.
    fn step(&mut self, page: &Page) -> Step {
        match self.steps {
            Some((number, step)) if number == page.number => step,
            _ => {
                let step = step_of(page);
                self.steps = Some((page.number, step));
                step
            }
        }
    }
}
