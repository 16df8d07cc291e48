//! Checks of pieces that an earlier run, or a lost peer, has written.

use penstock_api::task::{Report, TaskPage};
use penstock_engine::epoch::Publication;
use penstock_engine::slice::Piece;
use penstock_proto::journal::{DigestForm, EntryDigest, EntryFailure};
use penstock_proto::slicing::PieceRef;
use penstock_store::{ReadFile, Step, StoreError};

use super::publisher::Publisher;
use super::renamer::remove_temporary;
use crate::source::read::place;
use crate::stores::chain;
use crate::stores::errors::StoreFault;
use crate::task::context::Pieces;
use crate::write::uncached_file::UncachedFile;

impl Publisher<'_> {
    /// Checks a piece that was written before a restart.
    pub(super) fn recheck(
        &mut self,
        piece: PieceRef,
        generation: u32,
        doubt: bool,
        digests: Vec<EntryDigest>,
        failures: Vec<EntryFailure>,
    ) {
        let Some(pieces) = self.page(piece) else { return };
        let Some(kind) = pieces.pieces.get(piece.piece as usize).copied() else { return };
        let found = self.is_written(&pieces, kind, generation, doubt, &digests);
        // An error does not prove that a file is missing: the file is kept.
        let mut unknown = false;
        if let Err(error) = &found {
            if let Some(fault) = StoreFault::of(&self.shared.tree.target, error) {
                self.shared.broken(fault);
                return;
            }
            tracing::warn!(error = %chain(error), "written files cannot be examined");
            unknown = !error.is_absent();
        }
        let stands = found.unwrap_or(false);
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        if !stands {
            let report = match kind {
                Piece::Extent { entry, .. } if !doubt && !unknown => {
                    Report::Lost { page: piece.page, entry, generation }
                }
                _ => Report::Returned { piece, generation },
            };
            self.shared.report(state, report);
            return;
        }
        let pack = matches!(kind, Piece::Pack { .. });
        state.except(piece, pack, &failures);
        if pack {
            state.found.insert(piece);
        }
        let publication = pack.then_some(Publication { piece, generation });
        let files = if pack { digests.len() as u64 } else { 0 };
        let now = penstock_sys::boottime_now();
        let epoch = state.epochs.handle_written(now, 0, files, publication);
        let fetched = false;
        let report = Report::Written { piece, generation, epoch, digests, failures, fetched };
        self.shared.report(state, report);
    }

    /// Returns whether a piece is there, and in case of doubt whether its bytes are right.
    fn is_written(
        &mut self,
        pieces: &Pieces,
        kind: Piece,
        generation: u32,
        doubt: bool,
        digests: &[EntryDigest],
    ) -> Result<bool, StoreError> {
        match kind {
            Piece::Pack { .. } => {
                for digest in digests {
                    let right = match doubt {
                        false => self.stands(pieces, digest, generation)?,
                        true => self.matches(pieces, digest, generation, 0, 0)?,
                    };
                    if !right {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Piece::Extent { entry, offset, length } => match digests.first().filter(|_| doubt) {
                Some(digest) => self.matches(pieces, digest, generation, offset, length),
                None => Ok(self.find(&pieces.page, entry, generation)?.is_some()),
            },
            Piece::Finish { .. } => Ok(false),
        }
    }

    /// Returns whether a file of a pack is there: under its temporary name, which is this task's
    /// alone and that of the last attempt (B1), or under its final name with the right bytes. Size
    /// and time are not enough, since an older file may have the same (promise (c)).
    fn stands(
        &mut self,
        pieces: &Pieces,
        digest: &EntryDigest,
        generation: u32,
    ) -> Result<bool, StoreError> {
        let entry = &pieces.page.page.entries()[digest.entry as usize];
        let (parent, _) = place(&self.shared.tree.root, &pieces.page.page, entry);
        let dir = self.renamer.dir(&parent)?;
        let temporary = self.shared.tree.temporary(&pieces.page, digest.entry, generation);
        self.shared.hang.step();
        let tree = &self.shared.tree;
        if tree.target.meta(&dir, &temporary)?.is_some() {
            return Ok(true);
        }
        self.matches(pieces, digest, generation, 0, 0)
    }

    /// Opens the written file of an entry: under its temporary name, or under its final one if that
    /// has the manifest's size and time.
    fn find(
        &mut self,
        page: &TaskPage,
        index: u32,
        generation: u32,
    ) -> Result<Option<ReadFile>, StoreError> {
        let tree = &self.shared.tree;
        let entry = &page.page.entries()[index as usize];
        let (parent, leaf) = place(&tree.root, &page.page, entry);
        let temporary = tree.temporary(page, index, generation);
        let dir = match self.shared.tree.target.open_dir(&parent) {
            Ok(dir) => dir,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(error),
        };
        match tree.target.open_read(&dir, &temporary) {
            Ok(file) => return Ok(Some(file)),
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
        let there = tree.target.meta(&dir, &leaf)?;
        // Special bits are not compared: they go where an owner could not be set.
        let mode = tree.keeper.mode(&page.page, entry).map(|mode| mode & 0o777);
        let same = there.is_some_and(|meta| {
            let fits = mode.is_none_or(|mode| mode == meta.mode & 0o777);
            let dated = dir.has_time(&meta, entry.mtime, Step::EXACT);
            meta.size == entry.size && dated && fits
        });
        if same && tree.keeper.sets_times() {
            tree.target.open_read(&dir, &leaf).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads back the bytes of a digest, and compares them. Reads a whole file if `length` is 0.
    fn matches(
        &mut self,
        pieces: &Pieces,
        expected: &EntryDigest,
        generation: u32,
        offset: u64,
        length: u64,
    ) -> Result<bool, StoreError> {
        if expected.form == DigestForm::Sparse {
            return Ok(false);
        }
        let page = &pieces.page;
        let entry = page.page.entries()[expected.entry as usize];
        let Some(file) = self.find(page, expected.entry, generation)? else { return Ok(false) };
        let range = if length > 0 { offset..offset + length } else { 0..entry.size };
        if file.meta()?.size != entry.size {
            return Ok(false);
        }
        // Other hosts may have written to it since this one read it, or be about to (A9).
        let file = UncachedFile::at(file, self.shared.tree.is_shared());
        let kind = self.shared.tree.kind;
        let stride = u64::from(page.page.slicing.stride_bytes);
        let mut buffer = self.shared.pool.take();
        let mut digests = Vec::new();
        let mut at = range.start;
        loop {
            self.shared.hang.step();
            let end = (at + stride).min(range.end);
            let bytes = &mut buffer[..(end - at) as usize];
            if file.read_at(at, bytes)? < bytes.len() {
                return Ok(false);
            }
            digests.push(kind.stride(entry.size, at, bytes));
            at = end;
            if at >= range.end {
                break;
            }
        }
        let total = range.end - range.start;
        if kind.merge(&digests, stride, total, length == 0) != expected.digest {
            return Ok(false);
        }
        if length == 0 {
            // The attributes may have been lost where the bytes were not.
            let (parent, _) = place(&self.shared.tree.root, &page.page, &entry);
            let dir = self.renamer.dir(&parent)?;
            let name = self.shared.tree.temporary(page, expected.entry, generation);
            if let Ok(file) = self.shared.tree.target.open_written(&dir, &name) {
                self.shared.tree.finish(file, &page.page, &entry)?;
            }
        }
        Ok(true)
    }

    pub(super) fn discard(&mut self, number: u32, index: u32, generation: u32) {
        self.shared.lock().fetch.handle_file_forgotten(number, index, generation);
        self.shared.large.give_up(number, index, generation);
        let Some(pieces) = self.page(PieceRef { page: number, piece: 0 }) else { return };
        remove_temporary(self.shared, &pieces.page, index, generation);
    }
}
