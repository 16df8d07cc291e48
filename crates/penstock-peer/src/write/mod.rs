//! Checks received records and writes them under temporary names.
//!
//! A record is compared with its digest while its bytes are in the cache, then written at its
//! offset. One lane makes a whole file, writes it, and sets its mode and times. It makes the small
//! files of one directory some at a time (`files_ahead`, `name_turns`). All lanes of the task share
//! a large file, through a table of open handles. Bytes that do not match their digest never reach
//! the disk.

pub(crate) mod attributes;
pub(crate) mod backup;
mod files_ahead;
pub(crate) mod large_files;
pub(crate) mod name_turns;
pub(crate) mod target_tree;
pub(crate) mod uncached_file;
pub(crate) mod written;

use std::sync::Arc;
use std::time::Instant;

use penstock_engine::fetch::{Item, Part};
use penstock_engine::slice::travels_whole;
use penstock_proto::digest::{Digest, DigestKind, TOGETHER_BYTES_MAX};
use penstock_proto::frame::{EntryStatus, Record};
use penstock_proto::journal::{DigestForm, EntryDigest, EntryFailure, FailurePhase};
use penstock_proto::manifest::Entry;
use penstock_proto::time_use::Activity;
use penstock_proto::units::{FileTime, MIB};
use penstock_store::{DirCache, StoreError, WriteFile};

use penstock_api::task::TaskPage;

use crate::lane::slow_start::{self, Parts};
use crate::lane::thread_time::ThreadTime;
use crate::source::read::place;
use crate::stores::errors::is_of_store;
use crate::write::files_ahead::FilesAhead;
use crate::write::large_files::LargeFiles;
use crate::write::target_tree::TargetTree;
use crate::write::written::Written;

/// Bytes of a large file for which a lane allocates blocks at once. Each time, it waits for the
/// writes of other lanes to the file.
const ALLOCATED_AT_ONCE: u64 = 16 * MIB;

/// The file that is being written by this lane.
struct OpenFile {
    index: u32,
    file: FileHandle,
    next: u64,
    digests: Vec<Digest>,
    /// Chaining values of a stride that arrives in parts.
    parts: Parts,
    sparse: bool,
    /// Set if bytes were left out, perhaps at the end: the length of the file is then set
    /// separately.
    holes: bool,
    /// Blocks are allocated up to this offset, as far as this lane knows.
    allocated: u64,
}

enum FileHandle {
    Own(WriteFile),
    Shared(Arc<WriteFile>),
}

impl FileHandle {
    fn get(&self) -> &WriteFile {
        match self {
            Self::Own(file) => file,
            Self::Shared(file) => file,
        }
    }
}

/// Writes the frames that one lane receives; each lane has its own.
pub(crate) struct PieceWriter {
    tree: TargetTree,
    large: Arc<LargeFiles>,
    time: ThreadTime,
    dirs: DirCache,
    open: Option<OpenFile>,
    /// Empty between frames.
    ahead: FilesAhead,
    failed: Option<u32>,
    /// The last entry of the reply that is over: entries come in ascending order, once each.
    ended: Option<u32>,
    outcome: Written,
    scratch: Vec<u8>,
    zeros: Vec<u8>,
    digests: Vec<Digest>,
    /// Compares records with their digests. A local lane skips this, since it has just hashed the
    /// same buffer.
    checks: bool,
    /// Syncs of the store that had failed when an entry failed last.
    failed_syncs: u32,
}

impl PieceWriter {
    /// Creates a writer for a thread whose time is `time`. With `checks` the writer compares its
    /// bytes with the digests.
    pub(crate) fn new(
        tree: TargetTree,
        large: Arc<LargeFiles>,
        checks: bool,
        time: &ThreadTime,
    ) -> Self {
        let failed_syncs = tree.target.failed_syncs();
        Self {
            tree,
            failed_syncs,
            large,
            time: time.clone(),
            dirs: DirCache::default(),
            open: None,
            ahead: FilesAhead::default(),
            failed: None,
            ended: None,
            outcome: Written::default(),
            scratch: Vec::new(),
            zeros: Vec::new(),
            digests: Vec::new(),
            checks,
        }
    }

    /// Forgets a request that was cut short: its last file is unlinked when it is asked for again.
    pub(crate) fn abandon(&mut self) {
        self.open = None;
        self.failed = None;
        self.ended = None;
        self.outcome = Written::default();
    }

    /// Handles one frame of the reply to `item`; the payload has exactly the length that the
    /// records claim.
    pub(crate) fn frame(
        &mut self,
        page: &TaskPage,
        item: &Item,
        records: &[Record],
        payload: &[u8],
    ) {
        let with_bytes = || {
            let mut rest = payload;
            records.iter().map(move |record| {
                let (bytes, behind) = rest.split_at(record.payload_bytes() as usize);
                rest = behind;
                (record, bytes)
            })
        };
        let mut digests = std::mem::take(&mut self.digests);
        digests.clear();
        if self.checks {
            let small = with_bytes().filter(|(record, _)| is_small_file(page, record));
            let hash = || self.tree.kind.whole_files(small.map(|(_, bytes)| bytes), &mut digests);
            self.time.measure(Activity::Compare, hash);
        }
        let mut known = digests.iter().copied();
        // Small files would change the account for each call. If that fails, each file reports the
        // failure.
        let _acting = self.tree.target.act().ok();
        let mut makes_ahead = true;
        for (at, (record, bytes)) in with_bytes().enumerate() {
            let is_over = self.outcome.fatal.is_some() || self.outcome.lost;
            if makes_ahead && !is_over && self.ahead.is_empty() {
                makes_ahead = self.make_ahead(page, item, &records[at..], known.clone());
            }
            let digest = if is_small_file(page, record) { known.next() } else { None };
            if !is_over {
                self.record(page, item, (record, digest), bytes);
            }
        }
        self.ahead.discard(&self.tree.target);
        drop(known);
        self.digests = digests;
    }

    /// Makes the temporary files of the small files with which `records` begin, up to the first one
    /// in another directory or with bytes that are not those of its digest. Returns false if this
    /// does not pay for the frame.
    fn make_ahead(
        &mut self,
        page: &TaskPage,
        item: &Item,
        records: &[Record],
        mut digests: impl Iterator<Item = Digest>,
    ) -> bool {
        let Some(first) = records.first().filter(|first| is_small_file(page, first)) else {
            return true;
        };
        // With a limit names are made at its pace, and not some at a time.
        if self.open.is_some() || item.length > 0 || self.tree.names.has_rate() {
            return false;
        }
        let place = |record: &Record| {
            let entry = &page.page.entries()[record.entry as usize];
            place(&self.tree.root, &page.page, entry).0
        };
        let (tree, parent) = (&self.tree, place(first));
        let make_dirs = |path: &[u8]| tree.target.make_dirs(path);
        // An error is met again, and told, when the first file is made by itself.
        let Ok(dir) = self.dirs.get(penstock_sys::boottime_now(), &parent, make_dirs) else {
            return false;
        };
        let names = tree.turns.names(&dir);
        if names == 1 || tree.target.check_gate().is_err() {
            return false;
        }
        if !tree.knows_group(&dir, page, first.entry) {
            return true;
        }
        let mut entries: Vec<u32> = Vec::new();
        for record in records.iter().take(names) {
            let is_next = entries.last().copied().or(self.ended) < Some(record.entry)
                && (item.first_entry..item.end_entry).contains(&record.entry);
            let is_sound = is_small_file(page, record)
                && record.end
                && travels_whole(&page.page.slicing, &page.page.entries()[record.entry as usize])
                && (!self.checks || digests.next() == Some(record.digest));
            if !is_next || !is_sound || place(record) != parent {
                break;
            }
            entries.push(record.entry);
        }
        if entries.len() > 1 {
            let make = || self.ahead.make(tree, &dir, page, item, &entries);
            self.time.measure(Activity::Metadata, make);
            return !self.ahead.is_empty();
        }
        true
    }

    /// Ends the reply. Returns its results.
    pub(crate) fn finish(&mut self, page: &TaskPage, item: &Item) -> Written {
        if let Some(index) = self.drop_open() {
            self.outcome.failures.push(failure(index, FailurePhase::Digest, 0));
        }
        self.failed = None;
        self.ended = None;
        let mut outcome = std::mem::take(&mut self.outcome);
        // An entry that the source passed over silently has failed too: nothing asked for may be
        // missing (promise (c)).
        if outcome.fatal.is_none() && !outcome.lost {
            let mut told = vec![false; (item.end_entry - item.first_entry) as usize];
            let digests = outcome.digests.iter().map(|digest| digest.entry);
            for entry in digests.chain(outcome.failures.iter().map(|failure| failure.entry)) {
                let place = entry.checked_sub(item.first_entry).map(|at| at as usize);
                if let Some(told) = place.and_then(|at| told.get_mut(at)) {
                    *told = true;
                }
            }
            for index in asked(page, item) {
                if outcome.part.is_none() && !told[(index - item.first_entry) as usize] {
                    outcome.failures.push(failure(index, FailurePhase::Digest, 0));
                }
            }
        }
        outcome
    }

    /// Takes one record; with its digest, if that was computed together with others.
    fn record(
        &mut self,
        page: &TaskPage,
        item: &Item,
        (record, known): (&Record, Option<Digest>),
        bytes: &[u8],
    ) {
        if self.failed == Some(record.entry) {
            return;
        }
        if self.ended.is_some_and(|ended| record.entry <= ended) {
            return;
        }
        if record.status != EntryStatus::Ok {
            self.drop_open();
            self.fail(record.entry, phase_of(record.status), record.errno);
            return;
        }
        if let Err(phase) = self.check(page, item, (record, known), bytes) {
            self.drop_open();
            self.outcome.repairs += 1;
            self.fail(record.entry, phase, 0);
            return;
        }
        if let Err(error) = self.write(page, item, record, bytes) {
            self.drop_open();
            self.write_failed(item, record.entry, error);
        }
    }

    /// Abandons the open file, and removes it if it is a whole file.
    fn drop_open(&mut self) -> Option<u32> {
        let open = self.open.take()?;
        if let FileHandle::Own(file) = &open.file {
            // It was told, and the entry fails anyway.
            let _ = files_ahead::remove(&self.tree.target, file);
        }
        Some(open.index)
    }

    fn fail(&mut self, entry: u32, phase: FailurePhase, errno: u16) {
        self.failed = Some(entry);
        self.ended = Some(entry);
        self.outcome.failures.push(failure(entry, phase, errno));
    }

    fn write_failed(&mut self, item: &Item, entry: u32, error: StoreError) {
        if is_of_store(&self.tree.target, &error) {
            self.outcome.fatal = Some(error);
        } else if item.length > 0 && error.is_vanished() {
            self.outcome.lost = true;
        } else {
            tracing::warn!(error = %crate::stores::chain(&error), "an entry could not be written");
            let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
            // A failed sync concerns the whole store (A4). Repetitions would end the transfer, and
            // discard the writes of other lanes.
            let syncs = self.tree.target.failed_syncs();
            let is_sync = std::mem::replace(&mut self.failed_syncs, syncs) != syncs;
            let phase = match error {
                StoreError::NotSet { .. } => FailurePhase::Attributes,
                _ if is_sync => FailurePhase::Publish,
                _ => FailurePhase::Write,
            };
            self.fail(entry, phase, errno);
            if error.is_passing() {
                self.outcome.short = Some(error);
            }
        }
    }

    /// Checks that a record is the next one asked for, and that its bytes match its digest.
    fn check(
        &mut self,
        page: &TaskPage,
        item: &Item,
        (record, known): (&Record, Option<Digest>),
        bytes: &[u8],
    ) -> Result<(), FailurePhase> {
        let wrong = Err(FailurePhase::Digest);
        if !(item.first_entry..item.end_entry).contains(&record.entry) {
            return wrong;
        }
        let entry = &page.page.entries()[record.entry as usize];
        if item.length == 0 && !travels_whole(&page.page.slicing, entry) {
            return wrong;
        }
        let range = range_of(item, entry);
        let expected = match &self.open {
            Some(open) if open.index == record.entry => open.next,
            Some(_) => return wrong,
            None => range.start,
        };
        let end = record.offset + record.length;
        let ends = record.end == (end == range.end);
        let stride = u64::from(page.page.slicing.stride_bytes);
        let whole = record.hole || record.length <= stride;
        let moves = record.length > 0 || entry.size == 0;
        if record.offset != expected || end > range.end || !ends || !whole || !moves {
            return wrong;
        }
        let sound = !slow_start::is_part(record, entry.size, stride)
            || (slow_start::may_part(self.tree.kind, entry.size, stride)
                && slow_start::is_sound_part(record, stride, range.end));
        if !sound {
            return wrong;
        }
        if self.checks && !record.hole {
            let time = self.time.clone();
            let hash = || self.digest_of(entry, record, bytes);
            let digest = known.unwrap_or_else(|| time.measure(Activity::Compare, hash));
            if digest != record.digest {
                return wrong;
            }
        }
        Ok(())
    }

    fn digest_of(&mut self, entry: &Entry, record: &Record, bytes: &[u8]) -> Digest {
        if record.runs.is_empty() {
            return self.tree.kind.stride(entry.size, record.offset, bytes);
        }
        self.scratch.clear();
        self.scratch.resize(record.length as usize, 0);
        let mut from = 0;
        for &(start, length) in &record.runs {
            let (start, length) = (start as usize, length as usize);
            self.scratch[start..start + length].copy_from_slice(&bytes[from..from + length]);
            from += length;
        }
        self.tree.kind.stride(entry.size, record.offset, &self.scratch)
    }

    fn write(
        &mut self,
        page: &TaskPage,
        item: &Item,
        record: &Record,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        // The file may be finished by now, by another controller's peer (B1).
        self.tree.target.check_gate()?;
        if self.open.is_none() {
            if item.offset == 0 {
                let slept = self.tree.names.take(1);
                self.time.add(Activity::WaitLimit, slept);
            }
            let time = self.time.clone();
            let open = || self.open_file(page, item, record.entry);
            self.open = Some(time.measure(Activity::Metadata, open)?);
        }
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        let entry = page.page.entries()[record.entry as usize];
        let file = open.file.get();
        if record.hole {
            open.sparse = true;
            open.holes = true;
        } else if record.runs.is_empty() {
            if !bytes.is_empty() {
                // Holes come of sparse entries only, and stay holes.
                let is_due = !entry.sparse && record.offset >= open.allocated;
                if is_due && file.wants_allocation() {
                    let end = range_of(item, &entry).end;
                    open.allocated = end.min(record.offset + ALLOCATED_AT_ONCE);
                    let bytes = open.allocated - record.offset;
                    self.time.measure(Activity::Write, || file.allocate(record.offset, bytes))?;
                }
                self.time.measure(Activity::Write, || file.write_at(record.offset, bytes))?;
            }
        } else {
            open.holes = true;
            let mut from = 0;
            for &(start, length) in &record.runs {
                let part = &bytes[from..from + length as usize];
                let offset = record.offset + u64::from(start);
                self.time.measure(Activity::Write, || file.write_at(offset, part))?;
                from += length as usize;
            }
        }
        self.outcome.bytes += bytes.len() as u64;
        let stride = u64::from(page.page.slicing.stride_bytes);
        note_digests(open, &self.tree, &entry, record, stride, &mut self.zeros);
        open.next = record.offset + record.length;
        if record.end {
            let began = Instant::now();
            let syncs = self.open.as_ref().is_some_and(|open| self.tree.syncs(open.file.get()));
            let ended = self.end_file(page, &entry, item, stride, record.seen);
            let activity = if syncs { Activity::Sync } else { Activity::Metadata };
            self.time.add(activity, began.elapsed());
            ended?;
        }
        Ok(())
    }

    fn open_file(
        &mut self,
        page: &TaskPage,
        item: &Item,
        index: u32,
    ) -> Result<OpenFile, StoreError> {
        let entry = &page.page.entries()[index as usize];
        let file = if item.length > 0 {
            FileHandle::Shared(self.large.get(&self.tree, page, item)?)
        } else if let Some(file) = self.ahead.take(&self.tree.target, index) {
            FileHandle::Own(file)
        } else {
            let (parent, _) = place(&self.tree.root, &page.page, entry);
            let target = &self.tree.target;
            let dir = self
                .dirs
                .get(penstock_sys::boottime_now(), &parent, |path| target.make_dirs(path))?;
            let made = self.tree.make_whole(&dir, page, index, item.generation);
            if made.is_err() {
                self.dirs.forget(&parent);
            }
            FileHandle::Own(made?)
        };
        Ok(OpenFile {
            index,
            file,
            next: range_of(item, entry).start,
            digests: Vec::new(),
            parts: Parts::default(),
            sparse: false,
            holes: false,
            allocated: 0,
        })
    }

    /// Ends a file, or an extent, of which all bytes are there.
    fn end_file(
        &mut self,
        page: &TaskPage,
        entry: &Entry,
        item: &Item,
        stride: u64,
        seen: Option<FileTime>,
    ) -> Result<(), StoreError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let range = range_of(item, entry);
        let whole = item.length == 0;
        let sparse = open.sparse && !self.tree.hashes_holes(entry);
        match open.file {
            FileHandle::Own(file) => {
                if open.holes {
                    file.set_len(entry.size)?;
                }
                self.tree.finish(file, &page.page, entry)?;
            }
            FileHandle::Shared(file) => {
                if self.tree.syncs(&file) || self.tree.flushes(&file) {
                    // The writer of an extent syncs it before it reports (A3). It uses another
                    // handle, since the shared one stays open for the other lanes.
                    let again = self.tree.target.open_temporary(file.dir(), file.name())?;
                    // The error may concern an extent of another lane, which would not learn of it:
                    // none of the task's extents is believed then (A4).
                    again.close(true).inspect_err(|_| self.tree.target.note_failed_sync())?;
                }
            }
        }
        self.ended = Some(open.index);
        self.outcome.files += u64::from(whole);
        if whole {
            let (form, digest) =
                digest_of(self.tree.kind, &open.digests, sparse, stride, entry.size, whole);
            self.outcome.digests.push(EntryDigest { entry: open.index, form, digest, seen });
        } else {
            let strides = open.digests;
            self.outcome.part = Some(Part { offset: range.start, strides, sparse, seen });
        }
        Ok(())
    }
}

/// Returns the digest of a whole file, or of an extent, from those of its strides. For a sparse
/// file only data counts.
fn digest_of(
    kind: DigestKind,
    strides: &[Digest],
    sparse: bool,
    stride: u64,
    length: u64,
    whole: bool,
) -> (DigestForm, Digest) {
    if sparse {
        (DigestForm::Sparse, sparse_digest(strides))
    } else {
        (DigestForm::Standard, kind.merge(strides, stride, length, whole))
    }
}

/// Returns the digest of an extent from its parts, in the order of their offsets.
pub(crate) fn extent_digest(
    kind: DigestKind,
    parts: Vec<Part>,
    stride: u64,
    length: u64,
) -> (DigestForm, Digest) {
    let sparse = parts.iter().any(|part| part.sparse);
    let strides: Vec<Digest> = parts.into_iter().flat_map(|part| part.strides).collect();
    digest_of(kind, &strides, sparse, stride, length, false)
}

/// Returns the files that a request asks for.
fn asked<'a>(page: &'a TaskPage, item: &'a Item) -> impl Iterator<Item = u32> + 'a {
    let wanted = move |index: &u32| {
        let entry = &page.page.entries()[*index as usize];
        item.length > 0 || travels_whole(&page.page.slicing, entry)
    };
    (item.first_entry..item.end_entry).filter(wanted)
}

/// Returns whether a record holds a whole file that is small enough to be hashed with others.
fn is_small_file(page: &TaskPage, record: &Record) -> bool {
    let plain = record.status == EntryStatus::Ok && !record.hole && record.runs.is_empty();
    plain
        && record.offset == 0
        && record.length <= TOGETHER_BYTES_MAX
        && page.page.entry(record.entry).is_ok_and(|entry| entry.size == record.length)
}

/// Adds the digests of a record's strides. The digests of a hole are those of zeros, if they are
/// wanted at all: they cannot be tabulated, as a chaining value depends on its place (D2).
fn note_digests(
    open: &mut OpenFile,
    tree: &TargetTree,
    entry: &Entry,
    record: &Record,
    stride: u64,
    zeros: &mut Vec<u8>,
) {
    if !record.hole {
        let whole = if slow_start::is_part(record, entry.size, stride) {
            open.parts.add(record.length, record.digest, stride)
        } else {
            Some(record.digest)
        };
        open.digests.extend(whole);
        return;
    }
    if !tree.hashes_holes(entry) {
        return;
    }
    zeros.resize(stride as usize, 0);
    let end = record.offset + record.length;
    let mut at = record.offset;
    while at < end {
        let stop = (at + stride).min(end);
        open.digests.push(tree.kind.stride(entry.size, at, &zeros[..(stop - at) as usize]));
        at = stop;
    }
}

/// Returns the digest of a file whose holes were not hashed: over the digests of its data (D2).
pub(crate) fn sparse_digest(digests: &[Digest]) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("penstock 2026 sparse file digest");
    for digest in digests {
        hasher.update(&digest.0);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Returns the bytes of the file that an item asks for.
pub(crate) fn range_of(item: &Item, entry: &Entry) -> std::ops::Range<u64> {
    if item.length > 0 { item.offset..item.offset + item.length } else { 0..entry.size }
}

fn failure(entry: u32, phase: FailurePhase, errno: u16) -> EntryFailure {
    EntryFailure { entry, phase, errno }
}

fn phase_of(status: EntryStatus) -> FailurePhase {
    match status {
        EntryStatus::Vanished => FailurePhase::Vanished,
        EntryStatus::Changed => FailurePhase::Changed,
        _ => FailurePhase::Read,
    }
}

#[cfg(test)]
mod tests;
