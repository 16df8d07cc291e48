//! Turns written bytes into files: syncs, renames, links, attributes, re-checks.
//!
//! One thread does this in the order of the epoch machine and the controller. Every step is
//! idempotent, because a crash may repeat it. A temporary name may be gone while the final name has
//! the size and time of the manifest: that file was renamed before (A6).

pub(crate) mod mtime_settle;
pub(crate) mod name_races;

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use penstock_api::problem::{Exit, Problem};
use penstock_api::task::{Report, TaskPage, Work};
use penstock_api::update::IfExists;
use penstock_engine::epoch::{EpochAction, Publication};
use penstock_engine::slice::{Piece, travels_whole};
use penstock_io::store::{
    Dir, DirCache, DurabilityMethod, Kind, Meta, Nameless, ReadFile, Step, StoreError, Target,
};
use penstock_io::sys;
use penstock_proto::journal::{DigestForm, EntryDigest, EntryFailure, FailurePhase};
use penstock_proto::manifest::{Entry, EntryKind};
use penstock_proto::name;
use penstock_proto::slicing::PieceRef;

use crate::publish::name_races::{NameWaits, refreshed, settled};
use crate::source::read::place;
use crate::stores::errors::{full_problem, is_of_store};
use crate::stores::errors::{of_no_item, short_problem};
use crate::stores::mounts::check_mounts;
use crate::stores::{chain, store_gone};
use crate::target::compare::step_of;
use crate::task::context::{Pieces, TaskContext};
use crate::write::uncached_file::UncachedFile;

/// The publisher looks around at least this often.
const TICK: Duration = Duration::from_millis(500);

/// Runs until the task stops and its writes are durable, or its patience is over.
pub(crate) fn run(shared: &TaskContext) {
    shared.hang.attend();
    let mut publisher = Publisher {
        shared,
        dirs: DirCache::default(),
        waits: NameWaits::default(),
        failed_syncs: shared.incarnation.failed_syncs,
    };
    loop {
        let next = publisher.next();
        if !matches!(next, Next::End) {
            shared.hang.step();
        }
        match next {
            Next::Chore(chore) => publisher.chore(chore),
            Next::Action(EpochAction::Sync { epoch }) => publisher.sync(epoch),
            Next::Action(EpochAction::Publish { pieces }) => publisher.publish(&pieces),
            Next::End => return,
        }
        shared.hang.rest();
    }
}

enum Next {
    Chore(Work),
    Action(EpochAction),
    End,
}

struct Publisher<'a> {
    shared: &'a TaskContext,
    dirs: DirCache,
    waits: NameWaits,
    /// Number of failed syncs of the store, by any task, before the first write that is not yet
    /// durable.
    failed_syncs: u32,
}

/// The result of giving a file its final name.
enum Named {
    /// The file has its final name.
    Yes,
    /// Neither the temporary nor the final name leads to it.
    Gone,
}

/// Says whether a file may have its final name already, from an interrupted run or from another
/// peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// No: this task wrote the file, and no other names it.
    No,
    /// Unknown: its size and time decide.
    Perhaps,
    /// Yes: under the final name lies the very file that was written here.
    Yes,
}

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
    /// Waits for something to do.
    fn next(&self) -> Next {
        let mut state = self.shared.lock();
        loop {
            let stopping = self.shared.is_stopping();
            if self.shared.is_overdue() {
                drop(state);
                self.tell_fence();
                return Next::End;
            }
            if self.shared.only_writes() {
                // The next controller gives the orders; written bytes stay until then (B4).
                let waited = self.shared.publish_wake.wait_timeout(state, TICK);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                if stopping {
                    return Next::End;
                }
                continue;
            }
            if !stopping && let Some(chore) = state.chores.pop_front() {
                return Next::Chore(chore);
            }
            let now = sys::boottime_now();
            if let Some(action) = state.epochs.poll_action(now) {
                return Next::Action(action);
            }
            if stopping && state.epochs.is_clean() {
                return Next::End;
            }
            if stopping {
                // An epoch that stays sealed, its store being offline, is never clean again.
                state.epochs.handle_flush();
                return state.epochs.poll_action(now).map_or(Next::End, Next::Action);
            }
            let due = state.epochs.poll_timeout().map_or(TICK, |at| at.since(now).min(TICK));
            let waited = self.shared.publish_wake.wait_timeout(state, due);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the task if its controller was deposed, or has not answered for too long.
    fn tell_fence(&self) {
        if self.shared.is_over() {
            // It was left behind, and that was said.
            return;
        }
        if self.shared.grant.as_ref().is_some_and(|grant| !grant.holds()) {
            let title = "the controller has not answered for as long as this peer may write";
            self.shared.broken(Problem::new(Exit::Temporary, "grant-over", title));
        } else if self.shared.grant.is_none()
            && let Err(problem) = self.shared.spec.fence.check()
        {
            self.shared.broken(problem);
        }
    }

    /// Syncs the store, with the marker that proves later that it happened here (A5).
    fn sync(&mut self, epoch: u64) {
        let shared = self.shared;
        if let Err(offline) = shared.tree.target.check_identity(&shared.identity) {
            // The epoch stays sealed: nothing of it is renamed or reported, and the task ends.
            shared.broken(store_gone(&shared.spec.store, &offline));
            return;
        }
        if let Err(problem) = check_mounts(&shared.tree.target, &shared.spec) {
            // Bytes that were not durable may be lost, even though the store is mounted again.
            self.count_failed_sync();
            shared.broken(problem);
            return;
        }
        let outcome = if shared.tree.sync_nothing {
            Ok(())
        } else {
            let mut methods = shared.tree.target.durability().into_iter();
            if methods.any(DurabilityMethod::takes_time) {
                // A disk is mounted within, and is synced with the rest.
                shared.tree.named_later.end();
            }
            let marked = if shared.keep_marker.load(Ordering::Acquire) {
                Ok(())
            } else {
                let writer = (shared.spec.transfer, shared.spec.writer);
                shared.tree.target.write_marker(writer, epoch)
            };
            marked.and_then(|()| shared.tree.target.sync_since(self.failed_syncs))
        };
        if let Err(short) = &outcome
            && short.is_passing()
            && shared.tree.target.failed_syncs() == self.failed_syncs
        {
            // The marker could not be written: nothing was synced, and nothing failed to be.
            shared.broken(short_problem(short));
            return;
        }
        if outcome.as_ref().is_err_and(StoreError::is_fenced) {
            // Nothing has failed: the epoch stays sealed, and the task ends.
            self.tell_fence();
            return;
        }
        if outcome.is_err() {
            self.count_failed_sync();
        }
        let mut guard = shared.lock();
        let state = &mut *guard;
        state.epochs.handle_synced(outcome.is_ok());
        match outcome {
            Ok(()) => shared.report(state, Report::Synced { epoch }),
            Err(error) => {
                tracing::error!(epoch, error = %chain(&error), "sync failed");
                let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
                shared.report(state, Report::SyncFailed { epoch, errno });
                state.return_all();
                drop(guard);
                if is_of_store(&shared.tree.target, &error) {
                    shared.broken(full_problem(&error));
                }
            }
        }
    }

    /// Notes that a sync has failed, here or in another task of the same store, so that nothing
    /// counts that is not durable. Call it before the failure is reported: the next sync then finds
    /// other failures.
    fn count_failed_sync(&mut self) {
        let target = &self.shared.tree.target;
        if target.failed_syncs() == self.failed_syncs {
            // The sync was the marker's. The incarnation changes all the same.
            target.note_failed_sync();
        }
        self.failed_syncs = target.failed_syncs();
    }

    /// Renames the files of pieces whose data is durable.
    fn publish(&mut self, pieces: &[Publication]) {
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
            target.sync_dir(&dir)
        });
        if let Err(error) = synced {
            self.names_not_durable(pieces, &error);
            return;
        }
        let files = done.iter().map(|(_, outcome)| outcome.as_ref().map_or(0, |o| o.0)).sum();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let epoch = state.epochs.handle_renamed(sys::boottime_now(), pieces.len(), files);
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

    /// Handles a failed sync of a directory after the names of `pieces` were given: nothing that is
    /// not durable counts (A4). Large files are durable except for their names, which are given
    /// again.
    fn names_not_durable(&mut self, pieces: &[Publication], error: &StoreError) {
        tracing::error!(error = %chain(error), "a directory could not be synced");
        self.count_failed_sync();
        let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
        let is_finish = |publication: &&Publication| {
            let piece = publication.piece;
            self.page(piece).is_some_and(|pieces| {
                matches!(pieces.pieces.get(piece.piece as usize), Some(Piece::Finish { .. }))
            })
        };
        let finishes: Vec<Publication> = pieces.iter().filter(is_finish).copied().collect();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let epoch = state.epochs.handle_renamed(sys::boottime_now(), pieces.len(), 0);
        state.epochs.handle_synced(false);
        finishes.into_iter().for_each(|finish| state.epochs.handle_finish(finish));
        self.shared.report(state, Report::SyncFailed { epoch, errno });
        state.return_all();
        drop(guard);
        if is_of_store(&self.shared.tree.target, error) {
            self.shared.broken(full_problem(error));
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
                let (excepted, found, mut held) = {
                    let mut state = self.shared.lock();
                    let excepted = state.excepted.get(&piece).cloned();
                    (excepted, state.found.remove(&piece), state.held.take(piece))
                };
                let excepted = excepted.unwrap_or_default();
                for index in &excepted {
                    // A lane that died may have begun it.
                    remove_temporary(self.shared, &pieces.page, *index, generation);
                }
                for index in first..end {
                    let entry = &pieces.page.page.entries()[index as usize];
                    let slicing = &pieces.page.page.slicing;
                    if !travels_whole(slicing, entry) || excepted.contains(&index) {
                        continue;
                    }
                    let before = if found { Before::Perhaps } else { Before::No };
                    let named = match held.file_of(index) {
                        Some(file) => self.name(&pieces.page, index, generation, &file),
                        None => self.rename(&pieces.page, index, generation, before, touched),
                    };
                    match named {
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

    /// Returns a page and its pieces. Blocks while the controller looks for it.
    fn page(&self, piece: PieceRef) -> Option<std::sync::Arc<Pieces>> {
        self.shared.hang.rest();
        let page = self.shared.page(piece.page);
        self.shared.hang.step();
        match page {
            Ok(pieces) => Some(pieces),
            Err(problem) => {
                self.shared.broken(problem);
                None
            }
        }
    }

    /// Gives a large file its attributes, then its name. If its temporary name is gone, `written`
    /// says whether another peer has named it since (A6). See [`Publisher::rename`] for files that
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
        tree.names.take(1);
        self.shared.hang.step();
        tree.back_up(&dir, &temporary, &leaf)?;
        let named_in = match tree.target.publish(&dir, &temporary, &leaf, true) {
            Ok(()) => dir,
            Err(error) if error.is_vanished() => {
                self.dirs.forget(&parent);
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
        if named_in.durability().is_per_file() && !tree.sync_nothing {
            touched.insert(parent.into_owned(), named_in);
        }
        Ok(Named::Yes)
    }

    /// Gives a file that has no name its final one, in the directory that is at its path now.
    fn name(
        &mut self,
        page: &TaskPage,
        index: u32,
        generation: u32,
        file: &Nameless,
    ) -> Result<Named, StoreError> {
        let entry = &page.page.entries()[index as usize];
        let (parent, leaf) = place(&self.shared.tree.root, &page.page, entry);
        let mut dir = self.dir(&parent)?;
        let tree = &self.shared.tree;
        if tree.sync_nothing && tree.target.meta(&dir, &leaf)?.is_some() {
            // A replaced name is never risked, whatever the policy (A1).
            file.sync(&dir)?;
        }
        tree.names.take(1);
        self.shared.hang.step();
        let temporary = || tree.temporary(page, index, generation);
        let mut named = tree.target.publish_nameless(&dir, file, &leaf, temporary);
        if named.as_ref().is_err_and(StoreError::is_vanished) {
            // The handle may be of a replaced directory; the path counts.
            self.dirs.forget(&parent);
            dir = self.dir(&parent)?;
            named = self.shared.tree.target.publish_nameless(&dir, file, &leaf, temporary);
        }
        match named {
            Ok(()) => Ok(Named::Yes),
            Err(error) if error.is_vanished() => Ok(Named::Gone),
            Err(error) => Err(error),
        }
    }

    fn dir(&mut self, path: &[u8]) -> Result<Dir, StoreError> {
        let target = &self.shared.tree.target;
        self.dirs.get(sys::boottime_now(), path, |path| target.make_dirs(path))
    }

    fn chore(&mut self, chore: Work) {
        match chore {
            Work::Recheck { piece, generation, doubt, digests, failures } => {
                self.recheck(piece, generation, doubt, digests, failures);
            }
            Work::Discard { page, entry, generation } => self.discard(page, entry, generation),
            Work::Links { page } => self.links(page),
            Work::Directories { page } => self.directories(page),
            // Fetches and finishes went to their machines.
            Work::Fetch { .. } | Work::Finish { .. } => {}
        }
    }

    /// Checks a piece that was written before a restart.
    fn recheck(
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
        // An error does not prove that a file is missing: a file in hand is not given up for it.
        let mut unknown = false;
        if let Err(error) = &found {
            if let Some(problem) = of_no_item(&self.shared.tree.target, error) {
                self.shared.broken(problem);
                return;
            }
            tracing::warn!(error = %chain(error), "what was written cannot be looked at");
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
        let now = sys::boottime_now();
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
    /// alone, or under its final name with the right bytes. Size and time are not enough, since an
    /// older file may have the same (promise (c)). A temporary name is not enough where the file
    /// may have had none, since it may be of another attempt (B1).
    fn stands(
        &mut self,
        pieces: &Pieces,
        digest: &EntryDigest,
        generation: u32,
    ) -> Result<bool, StoreError> {
        let entry = &pieces.page.page.entries()[digest.entry as usize];
        let (parent, _) = place(&self.shared.tree.root, &pieces.page.page, entry);
        let dir = self.dir(&parent)?;
        let temporary = self.shared.tree.temporary(&pieces.page, digest.entry, generation);
        self.shared.hang.step();
        let tree = &self.shared.tree;
        if !tree.may_be_nameless(&dir, entry) && tree.target.meta(&dir, &temporary)?.is_some() {
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
            let dir = self.dir(&parent)?;
            let name = self.shared.tree.temporary(page, expected.entry, generation);
            if let Ok(file) = self.shared.tree.target.open_written(&dir, &name) {
                self.shared.tree.finish(file, &page.page, &entry)?;
            }
        }
        Ok(true)
    }

    fn discard(&mut self, number: u32, index: u32, generation: u32) {
        self.shared.lock().fetch.handle_file_forgotten(number, index, generation);
        self.shared.large.give_up(number, index, generation);
        let Some(pieces) = self.page(PieceRef { page: number, piece: 0 }) else { return };
        remove_temporary(self.shared, &pieces.page, index, generation);
    }

    /// Makes the links and the directories of a page.
    fn links(&mut self, number: u32) {
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
                    self.shared.tree.names.take(1);
                    let path = name::join(&self.shared.tree.root, &pieces.page.page.path(entry));
                    self.dir(&path).map(|_| ())
                }
                EntryKind::Symlink
                | EntryKind::Fifo
                | EntryKind::CharDevice
                | EntryKind::BlockDevice => self.node(&pieces.page, index as u32, entry),
            };
            made += 1;
            if let Err(error) = outcome {
                let Some(failure) = self.failure(index as u32, &error) else { return };
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
        let dir = self.dir(&parent)?;
        let tree = &self.shared.tree;
        let target = &tree.target;
        // It is made, and it is named.
        tree.names.take(2);
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
            .and_then(|()| tree.back_up(&dir, &temporary, &leaf))
            .and_then(|()| target.publish(&dir, &temporary, &leaf, true));
        let leads_there =
            |dir: &Dir| target.read_link(dir, &leaf).is_ok_and(|to| to == page.page.link(entry));
        // Pipes and devices show too little to tell them from others.
        let published = settled(published, target, (&dir, &leaf[..]), |dir, there| {
            there.kind == Kind::Symlink && entry.kind == EntryKind::Symlink && leads_there(dir)
        });
        if published.is_err() {
            // A directory has the name: the temporary file made for it is removed again.
            let _ = target.remove(&dir, &temporary);
        }
        published
    }

    fn directory(&self, page: &TaskPage, entry: &Entry) -> Result<(), StoreError> {
        let tree = &self.shared.tree;
        let path = page.page.path(entry);
        let wanted = tree.keeper.attributes(&page.page, entry);
        let not_set = tree.target.set_dir_attributes(&name::join(&tree.root, &path), &wanted)?;
        tree.keeper.settle(&path, &not_set)
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
        let of = self.dirs.get(sys::boottime_now(), parent, |path| tree.target.open_dir(path));
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
        let dir =
            self.dirs.get(sys::boottime_now(), &parent, |path| tree.target.make_dirs(path))?;
        let is_it = |meta: Meta| (meta.inode, meta.device) == (there.inode, there.device);
        if tree.target.meta(&dir, &leaf)?.is_some_and(is_it) {
            return Ok(());
        }
        let temporary = tree.temporary(page, index, 0);
        tree.names.take(2);
        tree.target.make_hard_link(&of, primary, &dir, &temporary)?;
        tree.back_up(&dir, &temporary, &leaf)?;
        let published = tree.target.publish(&dir, &temporary, &leaf, true);
        let published = settled(published, &tree.target, (&dir, &leaf[..]), |_, meta| is_it(*meta));
        // If the same name was just made by somebody else, rename(2) did nothing and left the
        // temporary name.
        let removed = tree.target.remove(&dir, &temporary);
        published?;
        removed?;
        Ok(())
    }

    /// Returns whether the first name of a hard link is always replaced. Without times, an older
    /// file of the same size cannot be told from the new one (promise (c)).
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
            LinkError::Store(error) => self.failure(entry, &error),
            LinkError::NoPrimary => {
                tracing::warn!(entry, "a hard link's first name is not at the target");
                Some(EntryFailure { entry, phase: FailurePhase::Link, errno: 0 })
            }
        }
    }

    /// Sets the attributes of the directories of a page, children before parents (B5). Runs after
    /// the page's further names of files were made: all first names exist by then (B6).
    fn directories(&mut self, number: u32) {
        let Some(pieces) = self.page(PieceRef { page: number, piece: 0 }) else { return };
        self.dirs.clear();
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
                let Some(failure) = self.failure(index as u32, &error) else { return };
                failures.push(failure);
            }
        }
        self.tail_done(set, |epoch| Report::DirectoriesDone { page: number, failures, epoch });
    }

    /// Returns the failure of an entry. Returns `None` if the store takes no more or the host lacks
    /// a resource: the task then ends, and no item has failed.
    fn failure(&self, entry: u32, error: &StoreError) -> Option<EntryFailure> {
        if let Some(problem) = of_no_item(&self.shared.tree.target, error) {
            self.shared.broken(problem);
            return None;
        }
        tracing::warn!(
            error = %chain(error),
            "an entry could not be given its name or attributes"
        );
        let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
        let phase = match error {
            StoreError::NotSet { .. } => FailurePhase::Attributes,
            _ => FailurePhase::Publish,
        };
        Some(EntryFailure { entry, phase, errno })
    }

    fn tail_done(&self, entries: u64, report: impl FnOnce(u64) -> Report) {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let epoch = state.epochs.handle_renamed(sys::boottime_now(), 0, entries);
        self.shared.report(state, report(epoch));
    }
}

fn remove_temporary(shared: &TaskContext, page: &TaskPage, index: u32, generation: u32) {
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
