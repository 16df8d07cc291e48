//! The work of earlier attempts at a transfer, for an attempt that lists the source again.
//!
//! ```text
//! DIR/listing                  number of the list that the ledger is of; none: the first, 0
//! DIR/ended                    the run of the ledger came to its end, and removed its markers
//! DIR/earlier-N.sqlite         what the attempts before list N have done, by path
//! DIR/earlier/DIGEST.page      pages of earlier lists in which temporary files may be left
//! DIR/earlier/DIGEST.done      entries of such a page of which none is left
//! DIR/earlier/lost             a page is damaged; names of its temporary files are not known
//! ```
//! A resumed attempt does the same as a first attempt: the source lists its data set again, and all
//! further work starts from that list. The ledger before becomes a table by path. The table proves
//! that a file is done if the source shows the same version of the file, and the target still has
//! the copy made of that version. The table also proves extents of a large file, which stay under
//! their temporary name. See docs/design/0044.
//!
//! The table is either complete under its name or absent, and no ledger is discarded before it is
//! complete. A crash at any point therefore costs only a repetition of the same work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::heads::{HeadCommit, LedgerHead, PageHead};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{TargetPeer, TaskPage, TaskSpec};
use penstock_api::update::{CompareBy, IfExists, UpdateOptions};
use penstock_engine::slice::{Piece, slice_without};
use penstock_engine::transfer::compared_of;
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::journal::{DigestForm, EntryDigest, Incarnation, JournalRecord};
use penstock_proto::manifest::{Entry, EntryKind, Page, page_digest};
use penstock_proto::name;
use penstock_proto::units::FileTime;
use penstock_proto::wire::{DecodeError, Reader, Writer};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::input::RunInput;
use super::journal::names::{beside, last, own};
use super::journal::page_log::{amended_entries, failures_of};
use super::journal::{Journal, failed, writer_record};
use super::pages::puller::Compare;

/// Memory that the table may use, in KiB; the rest is on disk.
const CACHE_KIB: i64 = 64 * 1024;
/// Bytes of the hashes of a path's directory and of its name, which represent them in the table.
/// Entries of one directory are neighbours, so that a page is found with few reads.
const KEY_BYTES: usize = 16;

const CREATE: &str =
    "CREATE TABLE IF NOT EXISTS known (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID";

const LISTING: &str = "listing";
const ENDED: &str = "ended";
const PAGES: &str = "earlier";
const LOST: &str = "lost";
const GENERATION: &str = "generation-";

/// The recorded state of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// The version that was read: size, and times and inode at the source.
    size: u64,
    mtime: FileTime,
    ctime: FileTime,
    inode: u64,
    /// Set if an entry existed at the path before the transfer; `None` if no attempt compared it.
    existed: Option<bool>,
    /// Set if the whole file is done; there is one record then, with its digest.
    done: bool,
    /// The written pieces, counted from the first extent, for entry 0. Empty if the entry was only
    /// planned.
    records: Vec<JournalRecord>,
}

impl Known {
    fn planned(entry: &Entry, existed: Option<bool>) -> Self {
        Self {
            size: entry.size,
            mtime: entry.mtime,
            ctime: entry.identity.ctime,
            inode: entry.identity.inode,
            existed,
            done: false,
            records: Vec::new(),
        }
    }

    /// Returns whether the source still shows this version (C1).
    fn is_of(&self, entry: &Entry) -> bool {
        entry.kind == EntryKind::File
            && (self.size, self.mtime) == (entry.size, entry.mtime)
            && (self.ctime, self.inode) == (entry.identity.ctime, entry.identity.inode)
    }

    /// Returns whether the transfer created the present entry where none existed before.
    fn is_made(&self) -> bool {
        self.existed == Some(false) && (self.done || !self.records.is_empty())
    }

    /// Returns the digests that it has.
    fn digests(&self) -> impl Iterator<Item = &EntryDigest> {
        let written = self.records.iter().filter_map(|record| match record {
            JournalRecord::Written { digests, .. } => Some(digests),
            _ => None,
        });
        written.flatten()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u64(self.size);
        for time in [self.mtime, self.ctime] {
            out.i64(time.seconds);
            out.u32(time.nanoseconds);
        }
        out.u64(self.inode);
        let existed = u8::from(self.existed == Some(true));
        out.u8(existed | u8::from(self.done) << 1 | u8::from(self.existed.is_some()) << 2);
        let mut bytes = out.into_bytes();
        self.records.iter().for_each(|record| record.append_to(&mut bytes));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let size = input.u64("size")?;
        let mut time = || -> Result<FileTime, DecodeError> {
            let (seconds, nanoseconds) = (input.i64("seconds")?, input.u32("nanoseconds")?);
            Ok(FileTime { seconds, nanoseconds })
        };
        let (mtime, ctime) = (time()?, time()?);
        let inode = input.u64("inode")?;
        let flags = input.u8("flags")?;
        let mut records = Vec::new();
        while input.remaining() > 0 {
            records.push(JournalRecord::take_from(&mut input)?);
        }
        let (existed, done) = ((flags & 4 != 0).then_some(flags & 1 != 0), flags & 2 != 0);
        Ok(Self { size, mtime, ctime, inode, existed, done, records })
    }
}

/// The final state of a page according to its log.
#[derive(Default)]
struct Standing<'a> {
    written: BTreeMap<u32, (Incarnation, &'a JournalRecord)>,
    durable: BTreeSet<u32>,
    generations: BTreeMap<u32, u32>,
}

impl<'a> Standing<'a> {
    fn of(log: &'a [JournalRecord], large: &BTreeMap<u32, (u32, u32)>) -> Self {
        let mut stands = Self::default();
        let mut under = Incarnation::default();
        for record in log {
            match record {
                JournalRecord::Incarnation(incarnation) => under = *incarnation,
                JournalRecord::Written { piece, .. } => {
                    stands.durable.remove(piece);
                    stands.written.insert(*piece, (under, record));
                }
                JournalRecord::Durable { pieces } => {
                    let known = pieces.iter().filter(|piece| stands.written.contains_key(piece));
                    stands.durable.extend(known);
                }
                JournalRecord::Missing { pieces } => pieces.iter().for_each(|it| stands.lose(*it)),
                JournalRecord::Generation { entry, generation } => {
                    stands.generations.insert(*entry, *generation);
                    if let Some((first, finish)) = large.get(entry) {
                        (*first..=*finish).for_each(|piece| stands.lose(piece));
                    }
                }
                _ => {}
            }
        }
        stands
    }

    fn lose(&mut self, piece: u32) {
        self.written.remove(&piece);
        self.durable.remove(&piece);
    }

    /// Returns the digests of whole files that are durable.
    fn whole(&self, pieces: &[Piece]) -> BTreeMap<u32, EntryDigest> {
        let is_whole =
            |piece: &&u32| !matches!(pieces.get(**piece as usize), Some(Piece::Extent { .. }));
        let durable = self.durable.iter().filter(is_whole);
        let records = durable.filter_map(|piece| self.written.get(piece));
        let digests = records.filter_map(|(_, record)| match record {
            JournalRecord::Written { digests, .. } => Some(digests),
            _ => None,
        });
        digests.flatten().map(|digest| (digest.entry, *digest)).collect()
    }

    /// Returns the existing extents of a large file, in the form of [`Known::records`].
    fn extents(&self, entry: u32, (first, finish): (u32, u32)) -> Vec<JournalRecord> {
        let (mut records, mut durable, mut last) = (Vec::new(), Vec::new(), None);
        if let Some(generation) = self.generations.get(&entry) {
            records.push(JournalRecord::Generation { entry: 0, generation: *generation });
        }
        for (piece, (under, record)) in self.written.range(first..finish) {
            if last.replace(*under) != Some(*under) {
                records.push(JournalRecord::Incarnation(*under));
            }
            records.extend(moved(record, |it| it - first, 0));
            durable.extend(self.durable.contains(piece).then_some(piece - first));
        }
        if last.is_none() {
            return Vec::new();
        }
        if !durable.is_empty() {
            records.push(JournalRecord::Durable { pieces: durable });
        }
        records
    }
}

/// Returns the change time under which a record's file was read, where that is another than was
/// listed.
fn seen_in(record: &JournalRecord) -> Option<FileTime> {
    match record {
        JournalRecord::Written { digests, .. } => digests.iter().find_map(|digest| digest.seen),
        _ => None,
    }
}

/// Returns a record of a large file under other numbers.
fn moved(record: &JournalRecord, piece: impl Fn(u32) -> u32, entry: u32) -> Option<JournalRecord> {
    Some(match record {
        JournalRecord::Written { piece: was, generation, epoch, digests, .. } => {
            let digests = digests.iter().map(|digest| EntryDigest { entry, ..*digest }).collect();
            let (piece, failures) = (piece(*was), Vec::new());
            let (generation, epoch) = (*generation, *epoch);
            JournalRecord::Written { piece, generation, epoch, digests, failures }
        }
        JournalRecord::Durable { pieces } => {
            JournalRecord::Durable { pieces: pieces.iter().map(|was| piece(*was)).collect() }
        }
        JournalRecord::Generation { generation, .. } => {
            JournalRecord::Generation { entry, generation: *generation }
        }
        JournalRecord::Incarnation(under) => JournalRecord::Incarnation(*under),
        _ => return None,
    })
}

/// Returns the first extent and finish of the large files among pieces, by entry.
fn large_files(pieces: &[Piece]) -> BTreeMap<u32, (u32, u32)> {
    let mut files = BTreeMap::new();
    let mut first = None;
    for (index, piece) in (0..).zip(pieces) {
        match piece {
            Piece::Extent { .. } => drop(first.get_or_insert(index)),
            Piece::Finish { entry } => {
                files.insert(*entry, (first.take().unwrap_or(index), index));
            }
            Piece::Pack { .. } => {}
        }
    }
    files
}

/// Returns the state of a page's entries from the page and its log, by index. Omits entries that
/// were left unchanged, and entries of which a later page has a newer version.
fn known_of(page: &Page, log: &[JournalRecord]) -> BTreeMap<u32, Known> {
    let asked = compared_of(log).is_some();
    let compared = compared_of(log).cloned().unwrap_or_default();
    let pieces = slice_without(page, &compared.left());
    let large = large_files(&pieces);
    let stands = Standing::of(log, &large);
    let mut whole = stands.whole(&pieces);
    whole.extend(compared.carried.iter().map(|digest| (digest.entry, *digest)));
    let failed: BTreeSet<u32> =
        failures_of(log, &pieces).iter().map(|failure| failure.entry).collect();
    let amended: BTreeSet<u32> = amended_entries(log).collect();
    let mut known = BTreeMap::new();
    for (index, entry) in (0..).zip(page.entries()) {
        let refused = compared.failed.iter().any(|failure| failure.entry == index);
        if refused || compared.kept.contains(index) || amended.contains(&index) {
            continue;
        }
        let existed = asked.then(|| compared.existed.contains(index));
        let mut found = Known::planned(entry, existed);
        if failed.contains(&index) {
            known.insert(index, found);
            continue;
        }
        let extents = large.get(&index).map(|range| stands.extents(index, *range));
        let seen = extents.iter().flatten().find_map(seen_in);
        if let Some(digest) = whole.get(&index) {
            found.done = true;
            // The digest of a large file is merged from its extents, which record the version seen
            // (C2).
            let seen = digest.seen.or(seen);
            found.records = vec![JournalRecord::Written {
                piece: 0,
                generation: 0,
                epoch: 0,
                digests: vec![EntryDigest { entry: 0, seen, ..*digest }],
                failures: Vec::new(),
            }];
        } else if page.round == 0 && seen.is_none_or(|seen| seen == found.ctime) {
            // Else the temporary file has another name than the next attempt looks for.
            found.records = extents.unwrap_or_default();
        }
        let seen = found.digests().find_map(|digest| digest.seen);
        found.ctime = seen.unwrap_or(found.ctime);
        known.insert(index, found);
    }
    known
}

/// The table of the work of earlier attempts.
#[derive(Debug)]
pub(crate) struct Earlier {
    path: PathBuf,
    table: Mutex<Connection>,
    /// Set once a part of the table could not be read, which is logged once.
    is_damaged: AtomicBool,
}

impl Earlier {
    fn open(path: &Path, flags: OpenFlags) -> Result<Self, Problem> {
        Self::opened(path, flags).map_err(|cause| broken(path, &cause))
    }

    fn opened(path: &Path, flags: OpenFlags) -> rusqlite::Result<Self> {
        let open = || -> rusqlite::Result<Connection> {
            // One process uses it, and its file system may have no locks.
            let table = Connection::open_with_flags_and_vfs(path, flags, "unix-none")?;
            table.pragma_update(None, "journal_mode", "off")?;
            table.pragma_update(None, "synchronous", "off")?;
            table.pragma_update(None, "cache_size", -CACHE_KIB)?;
            Ok(table)
        };
        let table = Mutex::new(open()?);
        Ok(Self { path: path.to_owned(), table, is_damaged: AtomicBool::new(false) })
    }

    /// Opens a table to read it; `None` if it is damaged.
    ///
    /// # Errors
    /// The table cannot be read now.
    fn to_read(path: &Path) -> Result<Option<Self>, Problem> {
        let look = |earlier: Self| {
            let table = earlier.table.lock().unwrap_or_else(PoisonError::into_inner);
            table.query_row(
                "SELECT count(*) FROM (SELECT 1 FROM known LIMIT 1)",
                [],
                |_| Ok(()),
            )?;
            drop(table);
            Ok(earlier)
        };
        match Self::opened(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(look) {
            Ok(earlier) => Ok(Some(earlier)),
            Err(cause) if is_damage(&cause) => {
                warn_of_damage(path, &cause);
                Ok(None)
            }
            Err(cause) => Err(broken(path, &cause)),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Problem> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        act(&table).map_err(|cause| broken(&self.path, &cause))
    }

    /// Adds the facts that a page and its log record.
    fn put(&self, page: &Page, log: &[JournalRecord]) -> Result<(), Problem> {
        self.with(|table| {
            let mut insert =
                table.prepare_cached("INSERT OR REPLACE INTO known VALUES (?1, ?2)")?;
            for (index, known) in &known_of(page, log) {
                let entry = &page.entries()[*index as usize];
                let key = key_of(page.directory(entry), page.name(entry));
                insert.execute(params![&key[..], known.encode()])?;
            }
            Ok(())
        })
    }

    fn find(&self, directory: &[u8], leaf: &[u8]) -> Result<Option<Known>, Problem> {
        let key = key_of(directory, leaf);
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let value: rusqlite::Result<Option<Vec<u8>>> = table
            .prepare_cached("SELECT value FROM known WHERE key = ?1")
            .and_then(|mut select| select.query_row([&key[..]], |row| row.get(0)).optional());
        drop(table);
        // A damaged record proves nothing.
        match value {
            Ok(value) => Ok(value.and_then(|value| Known::decode(&value).ok())),
            Err(cause) if is_damage(&cause) => {
                if !self.is_damaged.swap(true, Ordering::Relaxed) {
                    warn_of_damage(&self.path, &cause);
                }
                Ok(None)
            }
            Err(cause) => Err(broken(&self.path, &cause)),
        }
    }

    /// Returns the recorded state of the entries of a page, by index.
    fn known(&self, page: &Page) -> Result<BTreeMap<u32, Known>, Problem> {
        let mut known = BTreeMap::new();
        for (index, entry) in (0..).zip(page.entries()) {
            if let Some(found) = self.find(page.directory(entry), page.name(entry))? {
                known.insert(index, found);
            }
        }
        Ok(known)
    }

    /// Returns whether an earlier attempt created the entry at a path of the data set where none
    /// existed before.
    pub(crate) fn made(&self, path: &[u8]) -> Result<bool, Problem> {
        let (directory, leaf) = name::split(path).unwrap_or_default();
        Ok(self.find(directory, leaf)?.is_some_and(|known| known.is_made()))
    }

    /// Returns the extents of large files of a page that earlier attempts wrote. They have the form
    /// of records of that page, cut without the entries `left`. With `standard`, only digests that
    /// other programs compute as well are accepted.
    ///
    /// # Errors
    /// The table cannot be read.
    pub(crate) fn extents(
        &self,
        page: &Page,
        left: &EntrySet,
        standard: bool,
    ) -> Result<Vec<JournalRecord>, Problem> {
        let mut records = Vec::new();
        for (index, (first, finish)) in large_files(&slice_without(page, left)) {
            let entry = &page.entries()[index as usize];
            let known = self.find(page.directory(entry), page.name(entry))?;
            let Some(known) = known.filter(|known| !known.done && known.is_of(entry)) else {
                continue;
            };
            let fits = |record: &JournalRecord| match record {
                JournalRecord::Written { piece, .. } => piece + first < finish,
                JournalRecord::Durable { pieces } => pieces.iter().all(|it| it + first < finish),
                _ => true,
            };
            if known.records.iter().all(fits) && is_usable(&known, entry, standard) {
                let moved = known.records.iter().filter_map(|it| moved(it, |at| at + first, index));
                records.extend(moved);
            }
        }
        Ok(records)
    }
}

/// Returns whether the known digests are of the kind that is required (D2).
fn is_usable(known: &Known, entry: &Entry, standard: bool) -> bool {
    let wanted = standard && !entry.hollow;
    !wanted || known.digests().all(|digest| digest.form == DigestForm::Standard)
}

fn key_of(directory: &[u8], leaf: &[u8]) -> [u8; 2 * KEY_BYTES] {
    let mut key = [0; 2 * KEY_BYTES];
    for (part, text) in key.chunks_mut(KEY_BYTES).zip([directory, leaf]) {
        part.copy_from_slice(&page_digest(text).0[..KEY_BYTES]);
    }
    key
}

/// Returns whether an error means that a table is damaged, rather than unreadable for now.
fn is_damage(cause: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode as Code;
    match cause.sqlite_error_code() {
        // Without a code: a value of another type. `Unknown`: a file of no bytes has no tables.
        None | Some(Code::DatabaseCorrupt | Code::NotADatabase | Code::Unknown) => true,
        Some(Code::SchemaChanged | Code::TypeMismatch | Code::ConstraintViolation) => true,
        Some(_) => false,
    }
}

fn warn_of_damage(path: &Path, cause: &rusqlite::Error) {
    tracing::warn!(
        path = %path.display(),
        %cause,
        "the table of earlier attempts is damaged; the items in it are moved again"
    );
}

/// Removes the damaged tables of earlier attempts in a journal, and returns their paths: the files
/// that they proved are moved again. Blocks: each table is read whole.
pub fn drop_damaged_proofs(journal: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(journal).into_iter().flatten().filter_map(Result::ok);
    let tables = found.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("earlier-") && name.contains(".sqlite") && !name.ends_with(".new")
    });
    let damaged = tables.filter(|path| is_damaged_table(path));
    damaged.filter(|path| fs::remove_file(path).is_ok()).collect()
}

fn broken(path: &Path, cause: &rusqlite::Error) -> Problem {
    let title = format!("cannot use what earlier attempts have left in {}", path.display());
    Problem::new(ProblemCode::Journal, title).because(cause)
}

/// Returns the tables that attempts have left for these lists, in their order.
fn tables_in(journal: &Path, listings: std::ops::Range<u32>) -> Result<Vec<PathBuf>, Problem> {
    let cannot = |cause| failed("list", journal, &cause);
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(journal).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("earlier-"));
        let number = number.and_then(|it| it.split_once(".sqlite")?.0.parse().ok());
        numbers.extend(number.filter(|number| listings.contains(number)));
    }
    let tables = numbers.into_iter().map(|number| last(&table_path(journal, number)));
    tables.collect::<Result<_, _>>().map_err(cannot)
}

fn table_path(journal: &Path, listing: u32) -> PathBuf {
    journal.join(format!("earlier-{listing}.sqlite"))
}

/// Returns the number of the source list that the ledger in a journal belongs to.
///
/// # Errors
/// The journal cannot be read.
fn listing_of(journal: &Path) -> Result<u32, Problem> {
    let path = last(&journal.join(LISTING)).map_err(|cause| failed("read", journal, &cause))?;
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(cause) => Err(failed("read", &path, &cause)),
    }
}

/// Replaces the ledger of an earlier list, if `input` is of a later one, and keeps the facts that
/// it proves. Returns the known work of earlier attempts. Blocks: it reads every page and log of
/// that ledger.
///
/// # Errors
/// The journal store or the heads cannot be read or written.
pub(crate) fn begin(input: &RunInput) -> Result<Option<Arc<Earlier>>, Problem> {
    let (journal, epoch) = (&input.journal, input.fence.epoch());
    fs::create_dir_all(journal).map_err(|cause| failed("make", journal, &cause))?;
    let before = listing_of(journal)?;
    let listing = input.listing.max(before);
    let table = table_path(journal, listing);
    let last_table = || last(&table).map_err(|cause| failed("read", journal, &cause));
    if input.is_new_target && listing == before && input.heads.load(input.id)?.store != 0 {
        return Err(target_replaced());
    }
    if listing > before {
        let head = input.heads.load(input.id)?;
        let ledger = Journal::open(journal, epoch, &head.pages)?;
        let tables = tables_in(journal, before..listing)?;
        // An attempt that was killed right here has left a table for a list of its own.
        let known = tables.iter().rev().find(|table| table.exists());
        let own = own(&table, epoch);
        if input.is_new_target {
            // The table proves nothing about another target, even with the same names, sizes and
            // times.
            build(&own, None, &ledger, &[])?;
        } else if !last_table()?.exists() {
            build(&own, known.map(PathBuf::as_path), &ledger, &head.pages)?;
        }
        keep_pages(&ledger, &head)?;
        drop(ledger);
        input.fence.check()?;
        give_up(input, head)?;
        note_listing(&super::journal::names::own(&journal.join(LISTING), epoch), listing)?;
        tables.iter().for_each(|table| drop(fs::remove_file(table)));
    }
    let path = last_table()?;
    if !path.exists() {
        return Ok(None);
    }
    Ok(Earlier::to_read(&path)?.map(Arc::new))
}

fn target_replaced() -> Problem {
    let title = "the target was removed or replaced after files were moved to it";
    Problem::new(ProblemCode::TargetReplaced, title)
        .hint("the same command again moves there what the source still holds")
}

/// Notes durably which list the ledger is of from now on.
fn note_listing(path: &Path, listing: u32) -> Result<(), Problem> {
    let error = |cause| failed("write", path, &cause);
    let temporary = beside(path, ".new");
    fs::write(&temporary, format!("{listing}\n")).map_err(error)?;
    fs::File::open(&temporary).and_then(|file| file.sync_all()).map_err(error)?;
    fs::rename(&temporary, path).map_err(error)
}

/// Writes the table: the table of the attempts before, extended by the ledger of the last one.
/// Where the table before is damaged, the new one has the ledger only.
fn build(
    path: &Path,
    before: Option<&Path>,
    journal: &Journal,
    heads: &[PageHead],
) -> Result<(), Problem> {
    match build_from(path, before, journal, heads) {
        Err(problem) if before.is_some_and(is_damaged_table) => {
            tracing::warn!(%problem, "rebuilding the table of earlier attempts");
            build_from(path, None, journal, heads)
        }
        built => built,
    }
}

/// Returns whether a table is damaged. Reads it whole.
fn is_damaged_table(path: &Path) -> bool {
    let checked = Earlier::opened(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|earlier| {
        let table = earlier.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.query_row("SELECT count(*) FROM (SELECT 1 FROM known LIMIT 1)", [], |_| Ok(()))?;
        table.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    });
    match checked {
        Ok(told) => told != "ok",
        Err(cause) => is_damage(&cause),
    }
}

fn build_from(
    path: &Path,
    before: Option<&Path>,
    journal: &Journal,
    heads: &[PageHead],
) -> Result<(), Problem> {
    let temporary = beside(path, ".new");
    let error = |cause| failed("write", &temporary, &cause);
    let _ = fs::remove_file(&temporary);
    if let Some(before) = before {
        fs::copy(before, &temporary).map_err(error)?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let earlier = Earlier::open(&temporary, flags)?;
    earlier.with(|table| {
        table.execute_batch(CREATE)?;
        table.execute_batch("BEGIN")
    })?;
    for head in heads {
        if let Some((page, log)) = read_whole(journal, head) {
            earlier.put(&page, &log)?;
        }
    }
    earlier.with(|table| table.execute_batch("COMMIT"))?;
    drop(earlier);
    fs::File::open(&temporary).and_then(|file| file.sync_all()).map_err(error)?;
    fs::rename(&temporary, path).map_err(|cause| failed("write", path, &cause))?;
    let directory = journal.directory();
    let synced = fs::File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|cause| failed("sync", directory, &cause))
}

/// Returns a page and its log; `None` if one of them is lost or damaged: then it proves nothing.
fn read_whole(journal: &Journal, head: &PageHead) -> Option<(Page, Vec<JournalRecord>)> {
    let encoded = journal.read_page(head.page).ok().flatten();
    let whole = encoded.filter(|encoded| page_digest(encoded) == head.digest);
    let page = whole.and_then(|encoded| Page::decode(&encoded).ok());
    let log = journal.read_log(head.page, head.log_bytes).ok();
    let both = page.zip(log.map(|(log, _)| log));
    if both.is_none() {
        tracing::warn!(
            page = head.page,
            "a page of an earlier attempt is lost: its files are moved again"
        );
    }
    both
}

/// Keeps pages in which temporary files may be left, to look there at the end.
fn keep_pages(journal: &Journal, head: &LedgerHead) -> Result<(), Problem> {
    let directory = journal.directory().join(PAGES);
    let cannot = |cause| failed("write", &directory, &cause);
    fs::create_dir_all(&directory).map_err(cannot)?;
    let heads: BTreeMap<u32, &PageHead> = head.pages.iter().map(|head| (head.page, head)).collect();
    let mut most = 0;
    for number in journal.pages_in_work(&head.pages)? {
        let mut done = EntrySet::default();
        if let Some((page, log)) = heads.get(&number).and_then(|head| read_whole(journal, head)) {
            let known = known_of(&page, &log);
            let is_done = |index: &u32| known.get(index).is_none_or(|known| known.done);
            done = (0..page.entries().len() as u32).filter(is_done).collect();
            let generations = log.iter().filter_map(|record| match record {
                JournalRecord::Generation { generation, .. } => Some(*generation),
                _ => None,
            });
            most = generations.fold(most, u32::max);
        }
        let is_whole = |encoded: &Vec<u8>| {
            Page::decode(encoded).is_ok()
                && heads.get(&number).is_none_or(|head| head.digest == page_digest(encoded))
        };
        let Some(encoded) = journal.read_page(number)?.filter(is_whole) else {
            fs::write(directory.join(LOST), []).map_err(cannot)?;
            continue;
        };
        // Lists of a source that has not changed have the same pages: each is kept once.
        let stem = directory.join(page_digest(&encoded).to_hex());
        if let Some(before) = left_page(&stem.with_extension("page")) {
            done = before.left.iter().filter(|entry| done.contains(*entry)).collect();
        }
        let mut out = Writer::new();
        done.encode(&mut out);
        fs::write(stem.with_extension("done"), out.into_bytes()).map_err(cannot)?;
        fs::write(stem.with_extension("new"), encoded).map_err(cannot)?;
        fs::rename(stem.with_extension("new"), stem.with_extension("page")).map_err(cannot)?;
    }
    let (_, before) = left_pages(journal.directory());
    fs::write(directory.join(format!("{GENERATION}{}", most.max(before))), []).map_err(cannot)
}

/// Forgets the ledger, except its facts about the target's store.
fn give_up(input: &RunInput, head: LedgerHead) -> Result<(), Problem> {
    let journal = &input.journal;
    // A run that came to its end has removed its markers: none is looked for.
    let ended = last(&journal.join(ENDED)).map_err(|cause| failed("read", journal, &cause))?;
    let ended = ended.exists();
    let epochs = if ended { BTreeMap::new() } else { head.epochs };
    let commit = match head.store != 0 && !input.is_new_target {
        true => HeadCommit {
            store: Some(head.store),
            mounts: Some(head.mounts),
            epochs: epochs.into_iter().collect(),
            durable: true,
            ..HeadCommit::default()
        },
        false => HeadCommit { durable: true, ..HeadCommit::default() },
    };
    input.heads.replace(input.id, &commit)?;
    writer_record::forget_pages(journal, input.fence.epoch())?;
    // The following files are named by the numbers of pages.
    let cannot = |cause| failed("remove what is in", journal, &cause);
    for entry in fs::read_dir(journal).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        let removed = match stem {
            "pages" | "logs" | "proof" | "removed" => remove_tree(&entry.path()),
            "unlisted" | ENDED => fs::remove_file(entry.path()),
            _ => Ok(()),
        };
        removed.map_err(cannot)?;
    }
    Ok(())
}

/// Removes a directory of the journal. `fs::remove_dir_all` asks fcntl(2) for flags, which fails
/// where a file system answers each call of it with `ENOLCK`.
fn remove_tree(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_tree(&entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir(directory)
}

/// Notes that a run has come to its end: its sync markers are removed.
///
/// # Errors
/// The journal cannot be written.
pub(crate) fn note_end(journal: &Path, epoch: u64) -> Result<(), Problem> {
    let path = own(&journal.join(ENDED), epoch);
    fs::write(&path, []).map_err(|cause| failed("write", &path, &cause))
}

/// Returns whether a page of an earlier list was damaged, so that the names of its temporary files
/// are not known. Such files are found by the tag of their run alone.
pub fn has_lost_names(journal: &Path) -> bool {
    journal.join(PAGES).join(LOST).exists()
}

/// Returns where the pages of earlier lists are in which temporary files may be left, and the
/// greatest number of an attempt at any of their files.
pub(crate) fn left_pages(journal: &Path) -> (Vec<PathBuf>, u32) {
    let found = fs::read_dir(journal.join(PAGES)).into_iter().flatten().filter_map(Result::ok);
    let (mut pages, mut most) = (Vec::new(), 0);
    for entry in found {
        let path = entry.path();
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(GENERATION)?.parse().ok());
        most = number.unwrap_or(0).max(most);
        if path.extension().is_some_and(|extension| extension == "page") {
            pages.push(path);
        }
    }
    (pages, most)
}

/// Returns a page that [`left_pages`] names, with the entries that have left nothing.
pub(crate) fn left_page(path: &Path) -> Option<TaskPage> {
    let encoded = fs::read(path).ok()?;
    let page = Page::decode(&encoded).ok()?;
    let done = fs::read(path.with_extension("done")).ok();
    let done = done.and_then(|done| EntrySet::decode(&mut Reader::new(&done)).ok());
    let (page, left) = (Arc::new(page), Arc::new(done.unwrap_or_default()));
    Some(TaskPage { page, digest: page_digest(&encoded), left })
}

/// Returns the comparison for pages where earlier attempts have done something. Their files that
/// exist are carried over; they are neither kept nor rejected because they exist. `compare` decides
/// the rest, if the run `compares` anything at all.
pub(crate) fn carrying(
    earlier: Option<&Arc<Earlier>>,
    peer: Arc<dyn TargetPeer>,
    spec: &TaskSpec,
    compares: bool,
    compare: Compare,
) -> Compare {
    let Some(earlier) = earlier.cloned() else { return compare };
    let spec = spec.clone();
    Arc::new(move |page: &Page| {
        if page.round > 0 {
            return compare(page);
        }
        let known = earlier.known(page)?;
        let stands = stands(&known, &*peer, &spec, page)?;
        let compared = compares.then(|| compare(page)).transpose()?;
        Ok(carried_over(&known, &stands, page, &spec, compared))
    })
}

/// Returns the files of a page whose version is known and that the target has, by size and time.
fn stands(
    known: &BTreeMap<u32, Known>,
    peer: &dyn TargetPeer,
    spec: &TaskSpec,
    page: &Page,
) -> Result<EntrySet, Problem> {
    // Where the store has gone back, or times are not set, stamps prove nothing.
    if spec.doubt || !spec.preserve.times {
        return Ok(EntrySet::default());
    }
    let is_of = |index: u32| {
        let entry = page.entry(index);
        entry.is_ok_and(|entry| known.get(&index).is_some_and(|known| known.is_of(entry)))
    };
    let others: EntrySet = (0..page.entries().len() as u32).filter(|it| !is_of(*it)).collect();
    if others.iter().count() == page.entries().len() {
        return Ok(EntrySet::default());
    }
    let update = UpdateOptions { sync: true, ..UpdateOptions::default() };
    let look = TaskSpec { update, ..spec.clone() };
    let found = peer.compare(&look, page, &others)?;
    Ok(found.kept.iter().filter(|index| !others.contains(*index)).collect())
}

fn carried_over(
    known: &BTreeMap<u32, Known>,
    stands: &EntrySet,
    page: &Page,
    spec: &TaskSpec,
    compared: Option<Comparison>,
) -> Comparison {
    let compares = compared.is_some();
    let mut compared = compared.unwrap_or_default();
    let by_digest = compares && spec.update.sync && spec.update.compare == CompareBy::Digest;
    let standard = spec.digest_list || spec.proves;
    let digest_of = |(index, known): (&u32, &Known)| {
        let entry = page.entry(*index).ok()?;
        let same = stands.contains(*index) && (!by_digest || compared.kept.contains(*index));
        let carried = known.done && same && is_usable(known, entry, standard);
        let digest = known.digests().next().filter(|_| carried)?;
        Some(EntryDigest { entry: *index, ..*digest })
    };
    compared.carried = known.iter().filter_map(digest_of).collect();
    // A file that an earlier attempt has named, and that no ledger knows, is its own all the same.
    let protects = spec.update.if_exists != IfExists::Replace && !spec.update.sync;
    let is_own = |index: u32| {
        compared.carried.binary_search_by_key(&index, |digest| digest.entry).is_ok()
            || (protects && stands.contains(index))
    };
    compared.kept = compared.kept.iter().filter(|index| !is_own(*index)).collect();
    compared.failed.retain(|failure| !is_own(failure.entry));
    // Where nothing was compared, any entry may have existed.
    let existed = |index: &u32| match known.get(index) {
        Some(known) if known.is_made() => false,
        _ => !compares || compared.existed.contains(*index),
    };
    compared.existed = (0..page.entries().len() as u32).filter(existed).collect();
    compared
}

#[cfg(test)]
mod tests;
