//! Checks what arrives and writes it under temporary names, or under none (`held`).
//!
//! A record is compared with its digest while its bytes are hot, then written at its offset. A
//! whole file is made, written and given its mode and times by one lane; a large file is shared by
//! all lanes of the task, through a table of open handles. Bytes that do not match their digest
//! never reach the disk.

pub(crate) mod attributes;
pub(crate) mod large_files;
pub(crate) mod uncached_file;
pub(crate) mod unnamed_files;

use std::sync::Arc;

use penstock_engine::fetch::{Item, Part};
use penstock_engine::slice::travels_whole;
use penstock_io::store::{
    Dir, DirCache, Nameless, StoreError, Target, TemporaryKey, TemporaryName, WriteFile,
    temporary_name,
};
use penstock_io::sys;
use penstock_proto::digest::{Digest, DigestKind, TOGETHER_BYTES_MAX};
use penstock_proto::frame::{EntryStatus, Record};
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::journal::{DigestForm, EntryDigest, EntryFailure, FailurePhase};
use penstock_proto::manifest::{Entry, EntryKind, Page, page_digest};
use penstock_proto::name;
use penstock_proto::units::FileTime;

use penstock_api::task::TaskPage;

use crate::lane::slow_start::{self, Parts};
use crate::source::read::place;
use crate::stores::pacer::Pacer;
use crate::target::extraneous::backup_path;
use crate::task::is_of_store;
use crate::write::attributes::Keeper;
use crate::write::large_files::LargeFiles;
use crate::write::unnamed_files::{NamedLater, NamelessFiles};

/// Larger files have a temporary name: what it costs is little beside their bytes, and these need
/// not be fetched again after `kill -9`.
const NAMELESS_BYTES_MAX: u64 = 256 << 10;

/// Where the files of a task go.
#[derive(Clone)]
pub(crate) struct TargetTree {
    pub(crate) target: Target,
    pub(crate) transfer: TransferId,
    /// Whom this peer writes as.
    pub(crate) writer: WriterId,
    pub(crate) root: Vec<u8>,
    pub(crate) kind: DigestKind,
    /// Whether each file is synced by its writer, whatever the store's method.
    pub(crate) sync_files: bool,
    /// Whether nothing is synced at all.
    pub(crate) sync_nothing: bool,
    /// Whether standard digests are wanted of files with holes too.
    pub(crate) digest_list: bool,
    /// Whether of those that are nearly all holes as well.
    pub(crate) proves: bool,
    /// Holds the rate at which names are made.
    pub(crate) names: Arc<Pacer>,
    /// What entries get beside their bytes.
    pub(crate) keeper: Arc<Keeper>,
    /// Where what is replaced goes, relative to the root.
    pub(crate) backup_dir: Option<Vec<u8>>,
    /// What was put there since stays: it is what stood there before the transfer.
    pub(crate) began: FileTime,
    /// Where small files get no temporary names.
    pub(crate) named_later: Arc<NamedLater>,
}

impl TargetTree {
    /// Whether holes of a file are hashed as zeros, so that its digest is the standard one (D2).
    fn hashes_holes(&self, entry: &Entry) -> bool {
        self.proves || self.digest_list && !entry.hollow
    }

    /// The temporary name of an attempt at an entry (B1).
    pub(crate) fn temporary(&self, page: &TaskPage, index: u32, generation: u32) -> TemporaryName {
        temporary_of((self.transfer, self.writer), page, index, generation)
    }

    /// Whether others may write to the same store for this transfer.
    pub(crate) fn is_shared(&self) -> bool {
        self.writer != WriterId::SOLE
    }

    /// Gives a file whose bytes are all there its attributes, and closes it.
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

    /// As [`TargetTree::finish`], for a file that has no name yet.
    fn finish_nameless(
        &self,
        file: WriteFile,
        page: &Page,
        entry: &Entry,
    ) -> Result<Nameless, StoreError> {
        let (file, not_set) = file.finish_nameless(&self.keeper.attributes(page, entry))?;
        self.keeper.settle(&page.path(entry), &not_set).map(|()| file)
    }

    /// Whether a file of an entry may have no name before its final one: where nobody else has to
    /// find it and that name waits for no disk. Such a file is gone with its process, and what was
    /// reported a second ago may not be (promise (d)).
    pub(crate) fn may_be_nameless(&self, dir: &Dir, entry: &Entry) -> bool {
        !self.is_shared()
            && entry.size <= NAMELESS_BYTES_MAX
            && (self.sync_nothing || !dir.durability().takes_time())
    }

    /// Makes the file of an entry that one lane writes whole.
    fn make_whole(
        &self,
        dir: &Dir,
        leaf: &[u8],
        page: &TaskPage,
        (index, generation): (u32, u32),
    ) -> Result<WriteFile, StoreError> {
        let entry = &page.page.entries()[index as usize];
        let (mode, gid) = self.keeper.made_with(&page.page, entry);
        let temporary = || self.temporary(page, index, generation);
        if self.may_be_nameless(dir, entry) {
            let number = page.page.number;
            // Where there is a rate of names, or one is replaced without a sync of the store, the
            // names would come long after their files.
            let at_once = self.named_later.is_for(number)
                && !self.names.holds()
                && !(self.sync_nothing && self.target.meta(dir, leaf)?.is_some());
            if at_once
                && let Some(file) = self.target.create_nameless(dir, leaf, temporary, (mode, gid))
            {
                return Ok(file);
            }
            self.named_later.end_in(number);
        }
        self.target.create_whole(dir, &temporary(), mode, gid)
    }

    /// Keeps what stands at the place of an entry in the backup directory, if there is one, as
    /// long as its successor is there to take the name: a crash may have come after that.
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

    /// Whether what this peer wrote of a large file must be out of its cache before another may
    /// finish it, whatever durability is asked for: a later flush would move its time (B2).
    fn flushes(&self, file: &WriteFile) -> bool {
        self.is_shared() && file.dir().durability().is_per_file()
    }

    /// Whether a file in the directory of `file` is to be synced by its writer (A3).
    pub(crate) fn syncs(&self, file: &WriteFile) -> bool {
        !self.sync_nothing && (self.sync_files || file.dir().durability().is_per_file())
    }
}

/// The temporary name of an attempt at an entry (B1). Of what one peer writes alone it is that
/// peer's: whoever writes late touches nobody else's file. Large files are written by several.
pub(crate) fn temporary_of(
    (transfer, writer): (TransferId, WriterId),
    page: &TaskPage,
    index: u32,
    generation: u32,
) -> TemporaryName {
    let entry = &page.page.entries()[index as usize];
    let large = entry.kind == EntryKind::File && page.page.slicing.is_split(entry.size);
    // A resumed attempt lists anew: what was written of a large file stays under its name there.
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

/// What became of the entries of one request.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Of whole files.
    pub(crate) digests: Vec<EntryDigest>,
    /// Of an extent, or what of it was asked for.
    pub(crate) part: Option<Part>,
    pub(crate) failures: Vec<EntryFailure>,
    /// Whole files that have no name yet.
    pub(crate) nameless: NamelessFiles,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// The temporary file of a large file is gone.
    pub(crate) lost: bool,
    /// The store cannot take more: the task is to stop.
    pub(crate) fatal: Option<StoreError>,
    /// The host ran short of something, which is no entry's fault.
    pub(crate) short: Option<StoreError>,
    pub(crate) repairs: u64,
}

/// The file that is being written by this lane.
struct OpenFile {
    index: u32,
    file: FileHandle,
    next: u64,
    digests: Vec<Digest>,
    /// Of a stride that comes in parts.
    parts: Parts,
    sparse: bool,
    /// Whether bytes were left out, at the end perhaps: the file gets its length by itself.
    holes: bool,
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

/// Writes what one lane receives; one per lane.
pub(crate) struct PieceWriter {
    tree: TargetTree,
    large: Arc<LargeFiles>,
    dirs: DirCache,
    open: Option<OpenFile>,
    failed: Option<u32>,
    /// The last entry of the reply that is over: entries come in ascending order, once each.
    ended: Option<u32>,
    outcome: Written,
    scratch: Vec<u8>,
    zeros: Vec<u8>,
    digests: Vec<Digest>,
    /// Whether records are compared with their digests: not where they were hashed in this very
    /// buffer a moment ago.
    checks: bool,
    /// Syncs of the store that had failed when an entry failed last.
    failed_syncs: u32,
}

impl PieceWriter {
    pub(crate) fn new(tree: TargetTree, large: Arc<LargeFiles>, checks: bool) -> Self {
        let failed_syncs = tree.target.failed_syncs();
        Self {
            tree,
            failed_syncs,
            large,
            dirs: DirCache::default(),
            open: None,
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

    /// Takes one frame of the reply to `item`; the payload is exactly what the records claim.
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
            self.tree.kind.whole_files(small.map(|(_, bytes)| bytes), &mut digests);
        }
        let mut known = digests.iter().copied();
        for (record, bytes) in with_bytes() {
            let digest = if is_small_file(page, record) { known.next() } else { None };
            if self.outcome.fatal.is_none() && !self.outcome.lost {
                self.record(page, item, (record, digest), bytes);
            }
        }
        drop(known);
        self.digests = digests;
    }

    /// The reply is over: what became of it.
    pub(crate) fn finish(&mut self, page: &TaskPage, item: &Item) -> Written {
        if let Some(index) = self.drop_open() {
            self.outcome.failures.push(failure(index, FailurePhase::Digest, 0));
        }
        self.failed = None;
        self.ended = None;
        let mut outcome = std::mem::take(&mut self.outcome);
        // An entry that the source passed over without a word has failed too: nothing may be
        // missing from what was asked for (promise (c)).
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

    /// Gives up the open file; what was written of a whole file goes with it.
    fn drop_open(&mut self) -> Option<u32> {
        let open = self.open.take()?;
        if let FileHandle::Own(file) = &open.file
            && !file.is_nameless()
            && let Err(error) = self.tree.target.remove(file.dir(), file.name())
        {
            tracing::warn!(error = %crate::stores::chain(&error), "a temporary file is left");
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
            // A sync that failed is one of the whole store (A4): tried again and again it would end
            // the transfer, and take what others wrote meanwhile with it.
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

    /// Whether a record is what was asked for, in order, and its bytes match its digest.
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
            let digest = known.unwrap_or_else(|| self.digest_of(entry, record, bytes));
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
            self.open = Some(self.open_file(page, item, record.entry)?);
        }
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        let file = open.file.get();
        if record.hole {
            open.sparse = true;
            open.holes = true;
        } else if record.runs.is_empty() {
            if !bytes.is_empty() {
                file.write_at(record.offset, bytes)?;
            }
        } else {
            open.holes = true;
            let mut from = 0;
            for &(start, length) in &record.runs {
                let part = &bytes[from..from + length as usize];
                file.write_at(record.offset + u64::from(start), part)?;
                from += length as usize;
            }
        }
        self.outcome.bytes += bytes.len() as u64;
        let entry = page.page.entries()[record.entry as usize];
        let stride = u64::from(page.page.slicing.stride_bytes);
        note_digests(open, &self.tree, &entry, record, stride, &mut self.zeros);
        open.next = record.offset + record.length;
        if record.end {
            self.end_file(page, &entry, item, stride, record.seen)?;
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
        if item.offset == 0 {
            self.tree.names.take(1);
        }
        let file = if item.length > 0 {
            FileHandle::Shared(self.large.get(&self.tree, page, item)?)
        } else {
            let (parent, leaf) = place(&self.tree.root, &page.page, entry);
            let target = &self.tree.target;
            let dir = self.dirs.get(sys::boottime_now(), &parent, |path| target.make_dirs(path))?;
            let made = self.tree.make_whole(&dir, &leaf, page, (index, item.generation));
            if made.is_err() {
                self.dirs.forget(&parent);
            }
            let mut file = made?;
            if self.tree.sync_nothing {
                file.make_lazy();
            }
            FileHandle::Own(file)
        };
        Ok(OpenFile {
            index,
            file,
            next: range_of(item, entry).start,
            digests: Vec::new(),
            parts: Parts::default(),
            sparse: false,
            holes: false,
        })
    }

    /// All bytes of a file, or of an extent, are there.
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
                if file.is_nameless() {
                    let file = self.tree.finish_nameless(file, &page.page, entry)?;
                    self.outcome.nameless.push((open.index, file));
                } else {
                    self.tree.finish(file, &page.page, entry)?;
                }
            }
            FileHandle::Shared(file) => {
                if self.tree.syncs(&file) || self.tree.flushes(&file) {
                    // The writer of an extent syncs it before it reports (A3); another handle does,
                    // as the shared one stays open for the other lanes.
                    let again = self.tree.target.open_temporary(file.dir(), file.name())?;
                    // It may tell what is about an extent of another lane, which would hear nothing
                    // of it: none of the task's is believed then (A4).
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

/// The digest of a whole file, or of an extent, from those of its strides; a sparse one counts its
/// data alone.
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

/// The digest of an extent from its parts, in the order of their offsets.
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

/// The files that a request asks for.
fn asked<'a>(page: &'a TaskPage, item: &'a Item) -> impl Iterator<Item = u32> + 'a {
    let wanted = move |index: &u32| {
        let entry = &page.page.entries()[*index as usize];
        item.length > 0 || travels_whole(&page.page.slicing, entry)
    };
    (item.first_entry..item.end_entry).filter(wanted)
}

/// Whether a record holds all bytes of a file that is small enough to be hashed with others.
fn is_small_file(page: &TaskPage, record: &Record) -> bool {
    let plain = record.status == EntryStatus::Ok && !record.hole && record.runs.is_empty();
    plain
        && record.offset == 0
        && record.length <= TOGETHER_BYTES_MAX
        && page.page.entry(record.entry).is_ok_and(|entry| entry.size == record.length)
}

/// Adds the digests of a record's strides. Those of a hole are of zeros, if they are wanted at all:
/// they cannot be tabulated, as a chaining value depends on its place (D2).
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

/// The digest of a file whose holes were not hashed: over the digests of its data (D2).
pub(crate) fn sparse_digest(digests: &[Digest]) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("penstock 2026 sparse file digest");
    for digest in digests {
        hasher.update(&digest.0);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The bytes of the file that an item asks for.
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
