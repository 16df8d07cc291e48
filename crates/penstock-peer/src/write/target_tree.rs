//! The rules by which the files of a task are made at the target.

use std::sync::Arc;

use penstock_api::task::TaskPage;
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::manifest::{Entry, EntryKind, Page, page_digest};
use penstock_proto::name;
use penstock_proto::units::FileTime;
use penstock_store::{
    DIRECT_BYTES_MIN, Dir, LeftOver, StoreError, Target, TemporaryKey, TemporaryName, WriteFile,
    temporary_name,
};

use crate::stores::pacer::Pacer;
use crate::write::attributes::AttributePolicy;
use crate::write::backup::backup_path;
use crate::write::name_turns::NameTurns;

/// The target of a task's files, and the rules by which they are made.
#[derive(Clone)]
pub(crate) struct TargetTree {
    pub(crate) target: Target,
    pub(crate) transfer: TransferId,
    /// Writer under which this peer writes.
    pub(crate) writer: WriterId,
    pub(crate) root: Vec<u8>,
    pub(crate) kind: DigestKind,
    /// Syncs each file by its writer, whatever the store's method.
    pub(crate) sync_files: bool,
    /// Syncs nothing at all.
    pub(crate) sync_nothing: bool,
    /// True if files with holes get standard digests too.
    pub(crate) digest_list: bool,
    /// True if files that are nearly all holes get standard digests as well.
    pub(crate) proves: bool,
    /// Holds the rate at which names are made.
    pub(crate) names: Arc<Pacer>,
    /// Turns in which names are made.
    pub(crate) turns: Arc<NameTurns>,
    /// Rules for the attributes of entries.
    pub(crate) keeper: Arc<AttributePolicy>,
    /// Directory for replaced entries, relative to the root.
    pub(crate) backup_dir: Option<Vec<u8>>,
    /// Start of the transfer. Backups made since then stay: they hold what existed before the
    /// transfer.
    pub(crate) began: FileTime,
}

impl TargetTree {
    /// Returns whether holes of a file are hashed as zeros, so that its digest is the standard one
    /// (D2).
    pub(super) fn hashes_holes(&self, entry: &Entry) -> bool {
        self.proves || self.digest_list && !entry.hollow
    }

    /// Returns the temporary name of an attempt at an entry (B1).
    pub(crate) fn temporary(&self, page: &TaskPage, index: u32, generation: u32) -> TemporaryName {
        temporary_of((self.transfer, self.writer), page, index, generation)
    }

    /// Returns whether other peers may write to the same store for this transfer.
    pub(crate) fn is_shared(&self) -> bool {
        self.writer != WriterId::SOLE
    }

    /// Sets the attributes of a completely written file, and closes it.
    pub(crate) fn finish(
        &self,
        file: WriteFile,
        page: &Page,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        let sync = self.syncs(&file);
        let not_set = file.finish(&self.keeper.attributes(page, entry), sync)?;
        self.keeper.settle(&page.path(entry), &not_set)
    }

    /// Returns whether the group of a new file in `dir` is known, as far as it matters for the mode
    /// with which the file of an entry is made: it is after the first file was finished there.
    pub(super) fn knows_group(&self, dir: &Dir, page: &TaskPage, index: u32) -> bool {
        let (_, gid) = self.keeper.made_with(&page.page, &page.page.entries()[index as usize]);
        gid.is_none() || dir.gives_group().is_some()
    }

    /// Makes the file of an entry that one lane writes whole.
    pub(super) fn make_whole(
        &self,
        dir: &Dir,
        page: &TaskPage,
        index: u32,
        generation: u32,
    ) -> Result<WriteFile, StoreError> {
        let entry = &page.page.entries()[index as usize];
        let name = self.temporary(page, index, generation);
        // Direct writes into a sparse file would be as small as the data between its holes.
        if entry.size >= DIRECT_BYTES_MIN && !entry.sparse && !self.sync_nothing {
            return self.make_direct_file(dir, &name, entry.size);
        }
        let (mode, gid) = self.keeper.made_with(&page.page, entry);
        let mut file = self.target.create_whole(dir, &name, mode, gid)?;
        if self.sync_nothing {
            file.make_lazy();
        }
        Ok(file)
    }

    /// Makes a file of `size` bytes that is written past the page cache, where the store allows it.
    /// It is opened a second time, which its final mode may forbid, so it does not have that yet.
    fn make_direct_file(&self, dir: &Dir, name: &[u8], size: u64) -> Result<WriteFile, StoreError> {
        let mut file = self.target.create_temporary(dir, name, LeftOver::Replace)?;
        let sized = file.make_direct().and_then(|()| match file.is_direct() {
            true => file.set_len(size),
            false => Ok(()),
        });
        if let Err(error) = sized {
            // It was told, and the entry fails anyway.
            let _ = self.target.remove(file.dir(), file.name());
            return Err(error);
        }
        Ok(file)
    }

    /// Keeps the entry that is about to be replaced in the backup directory, if there is one. Does
    /// so only while the new file waits for the name, since a crash may have come after the rename.
    pub(crate) fn back_up(
        &self,
        dir: &Dir,
        temporary: &[u8],
        leaf: &[u8],
    ) -> Result<(), StoreError> {
        let Some(backup) = &self.backup_dir else { return Ok(()) };
        let target = &self.target;
        let replaces = target.meta(dir, temporary)?.is_some() && target.meta(dir, leaf)?.is_some();
        if !replaces {
            return Ok(());
        }
        let path = name::join(dir.path(), leaf);
        let below = path.strip_prefix(self.root.as_slice()).unwrap_or(&path);
        let below = below.strip_prefix(b"/").unwrap_or(below);
        // A data set that is one file has its backups beside itself.
        let (root, below) = match below {
            [] => (dir.path(), leaf),
            below => (self.root.as_slice(), below),
        };
        let kept = backup_path(root, backup, below);
        let Some((kept_in, kept_as)) = name::split(&kept) else { return Ok(()) };
        let to = target.make_dirs(kept_in)?;
        target.keep_aside(dir, leaf, (&to, kept_as), self.began)
    }

    /// Returns whether this peer's bytes of a large file must leave its cache before another may
    /// finish the file, whatever the durability. A later flush would move its time (B2).
    pub(super) fn flushes(&self, file: &WriteFile) -> bool {
        self.is_shared() && file.dir().durability().is_per_file()
    }

    /// Returns whether a file in the directory of `file` must be synced by its writer (A3).
    pub(crate) fn syncs(&self, file: &WriteFile) -> bool {
        !self.sync_nothing && (self.sync_files || file.dir().durability().is_per_file())
    }
}

/// Returns the temporary name of an attempt at an entry (B1). The name of a file that one peer
/// writes alone contains its writer, so that a late write touches no other peer's file. Large files
/// are written by several.
pub(crate) fn temporary_of(
    (transfer, writer): (TransferId, WriterId),
    page: &TaskPage,
    index: u32,
    generation: u32,
) -> TemporaryName {
    let entry = &page.page.entries()[index as usize];
    let large = entry.kind == EntryKind::File && page.page.slicing.is_split(entry.size);
    // A resumed attempt lists again, and finds the written bytes of a large file under its name
    // there.
    let (of, number) = match large {
        true => (page_digest(&page.page.path(entry)), page.page.round.into()),
        false => (page.digest, index),
    };
    temporary_name(&TemporaryKey {
        transfer,
        of,
        number,
        size: entry.size,
        mtime: entry.mtime,
        identity: entry.identity,
        generation,
        writer: if large { WriterId::SOLE } else { writer },
    })
}
