//! Lists a data set in parallel, into immutable pages on disk.
//!
//! ```text
//! DIR/pages/00000000.page   sealed pages, each synced before it counts.
//! DIR/done                  directories whose entries are all in sealed pages, one a line.
//!                           A line counts excluded, skipped and own entries. The path is escaped.
//! DIR/failed-00000000       parts of the list of items that could not be listed.
//! DIR/links                 files with several names, while the scan runs (`hard_links`).
//! DIR/end                   the summary, written when the scan is complete.
//!                           It is written again when further pages amend it (`changed_entries`).
//! ```
//! Workers take directories from a stack (depth first, so that it stays short) and look at each
//! name. They hand batches to one builder, which seals a page when it is full ([`walk`]). A
//! directory's own entry is handed over before the directory is pushed, so it always precedes its
//! contents. Where a site has several peers, others list a part of the tree ([`sharing`],
//! [`assist`]). Their findings are handed over here, by the same rules.
//!
//! **After a crash** the scan resumes (A12). Directories in `done` are not listed again. A
//! directory that was cut short is listed again, and its entries in sealed pages are skipped.
//! Sealed pages never change, so everything that a target has made of them stays true.
//!
//! **A store that disappears** ([`Guard`]) ends the scan for now. With each page the guard checks
//! that the store is unchanged, so that nothing is missing from the list because its disk was.
//!
//! **An entry that is not selected** ([`Selector`]) costs its place in the listing of its directory
//! and, where that does not suffice, a stat. It is not handed over, and an excluded directory is
//! not listed.

mod assist;
mod changed_entries;
mod failures;
mod found;
mod hard_links;
mod helpers;
mod page_files;
pub(crate) mod path_stack;
mod roots;
mod sharing;
mod state;
mod units;
mod walk;

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::scan::{FAILURE_PARTS, PageReply, ScanSummary};
use penstock_proto::id::Name;
use penstock_proto::listing::ListWork;
use penstock_proto::manifest::{EntryDraft, EntryKind, Page, PageBuilder};
use penstock_proto::name::{self};
use penstock_proto::units::FileTime;
use penstock_store::{DirCache, Kind, Meta, Source};
use tokio::sync::watch;

use crate::source::error::SourceError;
use crate::source::interrupted_removal::{self, REMOVING};
use crate::stores::Stores;
use crate::stores::access::AccessError;
use crate::stores::guard::Guard;
use crate::stores::pacer::Pacer;
use crate::stores::single_flight::SingleFlight;
use crate::stores::worker_pool;

use assist::Emit;
use found::{Found, WantedAttributes};
use hard_links::LinkTable;
pub use helpers::{Helpers, Listing};
pub(crate) use page_files::read_kept;
use page_files::write_synced;
use roots::own_within;
pub(crate) use roots::{look, root_kind};
pub(crate) use state::Scan;
pub use state::ScanOptions;
use state::{EARLY_SEAL, Marks, State, hash, lies_below};
use units::{Passed, Walk};

/// File systems stamp with a clock that lags by up to a tick of the kernel (10 ms at 100 Hz).
const TICK_NS: u32 = 20_000_000;

impl Scan {
    /// Opens a scan that keeps its pages in `directory`. Pages that an earlier process sealed there
    /// count.
    pub(crate) fn open(directory: &Path, options: ScanOptions) -> Result<Self, SourceError> {
        let pages = directory.join("pages");
        fs::create_dir_all(&pages).map_err(|cause| SourceError::manifest(&pages, cause))?;
        let marks = Arc::<Marks>::default();
        let walk = Walk::new(directory);
        let state = State { walk, marks: Arc::clone(&marks), ..State::default() };
        let scan = Self {
            directory: directory.to_owned(),
            lookups: Pacer::new(options.lookups_per_s.into()),
            wants: WantedAttributes::of(&options.preserve, options.owner_names),
            options,
            state: Mutex::new(state),
            marks,
            asking: SingleFlight::default(),
            mark: rand::random(),
            wake: Condvar::new(),
            news: watch::Sender::default(),
            lend: Condvar::new(),
            guard: OnceLock::new(),
            helpers: OnceLock::new(),
            named: OnceLock::new(),
        };
        scan.restore()?;
        Ok(scan)
    }

    /// Lets `guard` check the store whenever a page is sealed, and at the end. Entries listed, or
    /// missing, in a changed store never count (C3). A store that hangs counts as changed.
    pub(crate) fn guard_by(&self, guard: Arc<Guard>, stores: Arc<Stores>) {
        // Called once, before it runs.
        let _ = self.guard.set((guard, stores));
    }

    /// Allows other peers of the site to list a part, in their store of that name.
    pub(crate) fn share_with(&self, store: &Name, helpers: Arc<dyn Helpers>) {
        // Called once, before it runs.
        let _ = self.helpers.set((store.clone(), helpers));
    }

    fn check_store(&self) -> Result<(), SourceError> {
        let Some((guard, stores)) = self.guard.get() else { return Ok(()) };
        Ok(guard.check_by(stores)?)
    }

    /// Opens a scan that another peer of the site makes, to serve its sealed pages from here too.
    pub(crate) fn of_another(directory: &Path, options: ScanOptions) -> Self {
        let marks = Arc::<Marks>::default();
        marks.broken_off.store(true, Ordering::Release);
        marks.ended.store(true, Ordering::Release);
        let state = State { marks: Arc::clone(&marks), ..State::default() };
        Self {
            directory: directory.to_owned(),
            lookups: Pacer::new(0),
            wants: WantedAttributes::of(&options.preserve, options.owner_names),
            options,
            state: Mutex::new(state),
            marks,
            asking: SingleFlight::default(),
            mark: rand::random(),
            wake: Condvar::new(),
            news: watch::Sender::default(),
            lend: Condvar::new(),
            guard: OnceLock::new(),
            helpers: OnceLock::new(),
            named: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page_path(&self, number: u32) -> PathBuf {
        self.directory.join("pages").join(format!("{number:08}.page"))
    }

    /// Restores the state that an earlier process left.
    fn restore(&self) -> Result<(), SourceError> {
        let mut state = self.lock();
        let end = self.directory.join("end");
        let summary = read_kept(&end)?;
        if let Some(Ok(summary)) = summary.map(|text| serde_json::from_slice::<ScanSummary>(&text))
        {
            state.sealed = summary.pages;
            state.summary = summary;
            state.complete = true;
            self.marks.ended.store(true, Ordering::Release);
            return Ok(());
        }
        let (done, passed) = self.read_done()?;
        state.pass(passed);
        while let Some(page) = self.read_sealed(state.sealed)? {
            for entry in page.entries() {
                state.summary.entries += 1;
                let path = page.path(entry);
                match entry.kind {
                    EntryKind::File => {
                        state.summary.files += 1;
                        state.summary.bytes += entry.size;
                    }
                    EntryKind::Directory
                        if !done.contains(&hash(&path)) && self.is_wanted(&path) =>
                    {
                        state.walk.stack.push(path.clone());
                    }
                    _ => {}
                }
                if !done.contains(&hash(page.directory(entry))) {
                    state.emitted.insert(hash(&path));
                }
            }
            state.sealed += 1;
        }
        Ok(())
    }

    /// Returns whether the whole of a directory belongs to the data set, not only some paths below
    /// it.
    fn is_wanted(&self, directory: &[u8]) -> bool {
        let below = |path: &Vec<u8>| {
            directory
                .strip_prefix(path.as_slice())
                .is_some_and(|rest| rest.is_empty() || path.is_empty() || rest.starts_with(b"/"))
        };
        self.options.files_from.is_empty() || self.options.files_from.iter().any(below)
    }

    /// Returns the hashes of finished directories, and the counts of names passed over in them.
    fn read_done(&self) -> Result<(HashSet<u64>, Passed), SourceError> {
        let path = self.directory.join("done");
        let (mut done, mut passed) = (HashSet::new(), Passed::default());
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok((done, passed)),
            Err(cause) => return Err(SourceError::manifest(&path, cause)),
        };
        let mut lines = io::BufReader::new(file);
        let mut line = String::new();
        // A torn last line costs one listing.
        while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let mut fields = line.strip_suffix('\n').unwrap_or_default().splitn(4, ' ');
            let mut count = || fields.next()?.parse::<u64>().ok();
            if let (Some(excluded), Some(skipped), Some(own_state)) = (count(), count(), count())
                && let Some(directory) = fields.next().and_then(name::unescape)
            {
                passed.add(Passed { excluded, skipped, own_state });
                done.insert(hash(&directory));
            }
            line.clear();
        }
        Ok((done, passed))
    }

    fn read_sealed(&self, number: u32) -> Result<Option<Page>, SourceError> {
        let path = self.page_path(number);
        let Some(encoded) = read_kept(&path)? else { return Ok(None) };
        let decoded = Page::decode(&encoded);
        decoded.map(Some).map_err(|source| SourceError::PageDamaged { path, source })
    }

    /// Lists everything. Returns when the scan is complete, stopped, or blocked by a problem.
    /// Blocks.
    pub(crate) fn run(&self, source: &Source) {
        if self.lock().complete {
            return;
        }
        let _running = Running(self);
        // If the store has just gone, its root does not count as missing (C3).
        let begun = self.begin(source);
        let outcome = begun.map_err(|error| self.check_store().err().unwrap_or(error));
        if outcome.is_ok() {
            std::thread::scope(|scope| {
                let workers = 0..self.options.workers.max(1);
                let work = || {
                    let _running = Running(self);
                    self.work(source);
                };
                let started =
                    workers.take_while(|_| worker_pool::start(scope, work).is_ok()).count();
                // A limit covers all look-ups, so this host keeps it alone.
                if self.options.lookups_per_s == 0
                    && matches!(source, Source::Posix(_))
                    && let Some((store, helpers)) = self.helpers.get()
                {
                    let share = move || self.share(scope, source, store, helpers.as_ref());
                    // Without it this host lists all of it.
                    let _ = worker_pool::start(scope, share);
                }
                if started == 0 {
                    work();
                }
            });
        }
        let mut state = self.lock();
        if let Err(error) = outcome {
            state.error.get_or_insert(error);
        }
        if state.error.is_none() && !self.marks.is_stopped() {
            let ended = self.end(&mut state);
            if let Err(error) = ended {
                state.error = Some(error);
            }
        }
        self.marks.broken_off.store(state.error.is_some(), Ordering::Release);
        self.marks.ended.store(state.complete || state.error.is_some(), Ordering::Release);
        self.tell();
    }

    /// Returns whether all pages are sealed.
    pub(crate) fn is_complete(&self) -> bool {
        self.lock().complete
    }

    /// Returns whether the scan ended with a problem that a later attempt may not meet again.
    pub(crate) fn is_broken_off(&self) -> bool {
        self.marks.is_broken_off()
    }

    /// Returns whether no worker of this host has anything left to do for the scan.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.marks.ended.load(Ordering::Acquire) || self.marks.is_stopped()
    }

    /// Hands over the root, or the paths of `files_from`.
    fn begin(&self, source: &Source) -> Result<(), SourceError> {
        // The store is examined without the lock: sealed pages are served meanwhile.
        let mut state = self.lock().set_aside();
        let outcome = self.hand_over_roots(source, &mut state);
        *self.lock() = state;
        outcome
    }

    fn hand_over_roots(&self, source: &Source, state: &mut State) -> Result<(), SourceError> {
        let resumed = state.sealed > 0;
        if self.options.selector.one_file_system {
            let (_, _, meta) = look(source, &self.options.root)
                .map_err(|error| SourceError::root(&self.options.root, &error))?;
            state.device = Some(meta.device);
        }
        if resumed {
            self.note_sealed_links(source, state)?;
        }
        if resumed && self.options.files_from.is_empty() {
            return Ok(());
        }
        let root = &self.options.root;
        let (dir, leaf, meta) =
            look(source, root).map_err(|error| SourceError::root(root, &error))?;
        let single = meta.kind != Kind::Directory;
        // A single file is chosen by its own name.
        if single && !self.is_chosen(&leaf, &meta) {
            state.summary.excluded = 1;
            return Ok(());
        }
        if !resumed {
            let found = Found::with(source, &dir, &leaf, Ok(meta), &self.wants);
            if let Err(error) = &found.meta {
                return Err(SourceError::root(root, error));
            }
            let mut skipped = 0;
            self.take(state, b"", b"", &found, &mut skipped)?;
            state.summary.skipped += skipped;
        }
        if single {
            return self.begin_single(source, state);
        }
        if self.options.files_from.is_empty() {
            state.walk.stack.push(Vec::new());
            return Ok(());
        }
        let wanted: HashSet<&[u8]> = self.options.files_from.iter().map(Vec::as_slice).collect();
        if !resumed && wanted.contains(&b""[..]) {
            state.walk.stack.push(Vec::new());
        }
        let mut given = HashSet::new();
        for path in &self.options.files_from {
            if let Some(own) = own_within(path) {
                if own.kind.holds_data() {
                    self.fail_unfinished(state, path)?;
                } else {
                    state.summary.own_state += 1;
                }
                continue;
            }
            if lies_below(path, |parent| wanted.contains(parent)) {
                // The listing of that directory hands it over, if it is there.
                if let Err(error) = look(source, &name::join(root, path)) {
                    self.fail(state, path, &error, true)?;
                }
                continue;
            }
            self.begin_path(source, path, &mut given, state)?;
        }
        Ok(())
    }

    /// Handles a data set that is one file. A list names it by the empty path alone, since nothing
    /// lies below a file.
    fn begin_single(&self, source: &Source, state: &mut State) -> Result<(), SourceError> {
        let below = self.options.files_from.iter().filter(|path| !path.is_empty());
        for path in below {
            if let Err(error) = look(source, &name::join(&self.options.root, path)) {
                self.fail(state, path, &error, true)?;
            }
        }
        Ok(())
    }

    /// Hands over one path of `files_from`, after the directories that lead to it.
    fn begin_path(
        &self,
        source: &Source,
        path: &[u8],
        given: &mut HashSet<Vec<u8>>,
        state: &mut State,
    ) -> Result<(), SourceError> {
        let mut ends: Vec<usize> =
            path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
        ends.push(path.len());
        for end in ends {
            let part = &path[..end];
            let known = state.emitted.contains(&hash(part));
            if part.is_empty() || known || !given.insert(part.to_vec()) {
                continue;
            }
            let full = name::join(&self.options.root, part);
            let whole = end == path.len();
            match look(source, &full) {
                Ok((_, _, meta)) if !self.is_chosen(part, &meta) => {
                    state.summary.excluded += 1;
                    break;
                }
                Ok((dir, leaf, meta)) => {
                    let found = Found::with(source, &dir, &leaf, Ok(meta), &self.wants);
                    let (parent, leaf) = name::split(part).unwrap_or((b"", b""));
                    let mut skipped = 0;
                    self.take(state, parent, leaf, &found, &mut skipped)?;
                    state.summary.skipped += skipped;
                    if whole && meta.kind == Kind::Directory {
                        state.walk.stack.push(part.to_vec());
                    }
                }
                Err(error) => {
                    self.fail(state, path, &error, true)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds a found name to the manifest, as `leaf` of `directory`. Returns whether it is a
    /// directory to be listed. A name that cannot be examined is noted as a failure.
    fn take(
        &self,
        state: &mut State,
        directory: &[u8],
        leaf: &[u8],
        found: &Found,
        skipped: &mut u64,
    ) -> Result<bool, SourceError> {
        let meta = match &found.meta {
            Ok(meta) => meta,
            Err(error) => {
                // An entry that vanished during the listing was never part of the set. A server
                // that no longer knows a handle does not prove that the entry is missing (C3).
                if !error.is_absent() {
                    self.fail(state, &name::join(directory, leaf), error, true)?;
                }
                return Ok(false);
            }
        };
        let Some(mut draft) = found.draft(leaf, meta, &self.wants) else {
            *skipped += 1;
            state.summary.sockets += u64::from(meta.kind == Kind::Other);
            return Ok(false);
        };
        state.summary.xattrs_left_out += u64::from(found.left_out > 0);
        let path = name::join(directory, leaf);
        if meta.kind == Kind::Directory {
            draft.special = state.device.is_some_and(|device| meta.device != device);
        }
        let several = meta.links > 1 && meta.kind != Kind::Directory && !path.is_empty();
        let primary = if several && self.options.preserve.hardlinks {
            draft.linked = true;
            self.note_link(state, meta, &path)?
        } else {
            None
        };
        if let Some(primary) = &primary {
            draft.kind = EntryKind::HardLink;
            draft.size = if meta.kind == Kind::File { meta.size } else { 0 };
            (draft.sparse, draft.hollow) = (false, false);
            draft.special = !matches!(meta.kind, Kind::File | Kind::Symlink);
            draft.device = Default::default();
            draft.link = primary;
            draft.xattrs = b"";
        }
        self.push(state, directory, &draft)?;
        Ok(meta.kind == Kind::Directory)
    }

    /// Notes a name of a file with several. Returns its first name, if this is another one (B6).
    fn note_link(
        &self,
        state: &mut State,
        meta: &Meta,
        path: &[u8],
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let table_path = self.directory.join("links");
        let failed =
            |cause: rusqlite::Error| SourceError::manifest(&table_path, io::Error::other(cause));
        let table = match &mut state.links {
            Some(table) => table,
            none => none.insert(LinkTable::open(&table_path).map_err(failed)?),
        };
        table.note(meta, path).map_err(failed)
    }

    /// Fills the table of links from the pages that an earlier process sealed. Devices may have
    /// other numbers since, so each file is examined again. A file that is gone is no primary.
    fn note_sealed_links(&self, source: &Source, state: &mut State) -> Result<(), SourceError> {
        let mut dirs = DirCache::default();
        for number in 0..state.sealed {
            let Some(page) = self.read_sealed(number)? else { break };
            for entry in page.entries().iter().filter(|entry| entry.linked) {
                let parent = name::join(&self.options.root, page.directory(entry));
                let dir =
                    dirs.get(penstock_sys::boottime_now(), &parent, |path| source.open_dir(path));
                if let Ok(meta) = dir.and_then(|dir| source.stat(&dir, page.name(entry)))
                    && meta.links > 1
                {
                    self.note_link(state, &meta, &page.path(entry))?;
                }
            }
        }
        Ok(())
    }

    fn push(
        &self,
        state: &mut State,
        directory: &[u8],
        draft: &EntryDraft<'_>,
    ) -> Result<(), SourceError> {
        if state.builder.as_ref().is_some_and(|builder| builder.is_full_for(directory, draft)) {
            self.seal(state)?;
        }
        let (transfer, slicing) = (self.options.transfer, self.options.slicing);
        let number = state.sealed;
        let builder =
            state.builder.get_or_insert_with(|| PageBuilder::new(transfer, number, slicing));
        builder.push(directory, draft);
        state.summary.entries += 1;
        if draft.kind == EntryKind::File {
            state.summary.files += 1;
            state.summary.bytes += draft.size;
        }
        Ok(())
    }

    fn seal(&self, state: &mut State) -> Result<(), SourceError> {
        self.check_store()?;
        if let Some(builder) = state.builder.take() {
            let path = self.page_path(state.sealed);
            let encoded = builder.seal().encode();
            self.write_once(&path, &encoded)
                .map_err(|cause| SourceError::manifest(&path, cause))?;
            state.sealed += 1;
            let now = Instant::now();
            state.seals = Some((state.seals.map_or(now, |(first, _)| first), now));
        }
        let done = std::mem::take(&mut state.done);
        if !done.is_empty() {
            let path = self.directory.join("done");
            let mut lines = String::new();
            for directory in &done {
                let (directory, Passed { excluded, skipped, own_state }) = directory;
                let directory = name::escape(directory);
                lines.push_str(&format!("{excluded} {skipped} {own_state} {directory}\n"));
            }
            let append = OpenOptions::new().create(true).append(true).open(&path);
            append
                .and_then(|mut file| file.write_all(lines.as_bytes()))
                .map_err(|cause| SourceError::manifest(&path, cause))?;
        }
        self.tell();
        Ok(())
    }

    /// Writes a page. Where several peers share the directory, an existing page was sealed by
    /// another controller's scan, which replaces this one (B4).
    fn write_once(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.options.fence.epoch() == 0 {
            return write_synced(path, bytes);
        }
        let temporary = self.write_temporary(path, bytes)?;
        match fs::hard_link(&temporary, path) {
            // A file system without links: the name is checked instead.
            Err(error) if error.raw_os_error().is_some() && !path.try_exists()? => {
                fs::rename(&temporary, path)
            }
            linked => fs::remove_file(&temporary).and(linked),
        }
    }

    /// Writes a file that may replace an earlier one: the end, and pages that count once the end
    /// names them.
    fn write_fenced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.options.fence.epoch() == 0 {
            return write_synced(path, bytes);
        }
        fs::rename(self.write_temporary(path, bytes)?, path)
    }

    /// Writes a file under a name of this scan's own, if its controller may still act. A scan of
    /// the same controller may still run at a peer that was abandoned meanwhile.
    fn write_temporary(&self, path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
        let fence = &self.options.fence;
        let temporary = path.with_extension(format!("{:x}-{:x}.new", fence.epoch(), self.mark));
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        if !fence.holds() {
            fs::remove_file(&temporary)?;
            let kind = io::ErrorKind::StaleNetworkFileHandle;
            return Err(io::Error::new(kind, "this peer is not the controller now"));
        }
        Ok(temporary)
    }

    fn end(&self, state: &mut State) -> Result<(), SourceError> {
        self.seal(state)?;
        self.keep_failed(state)?;
        state.summary.pages = state.sealed;
        self.write_end(&state.summary)?;
        state.complete = true;
        state.links = None;
        Ok(())
    }

    /// Returns the encoded page `number`, waiting up to `wait` for it. A page with a waiter is
    /// sealed before it is full, so that the first bytes move before the scan ends. The numbers
    /// from [`FAILURE_PARTS`] on are those of the list of failures.
    pub(crate) fn page(&self, number: u32, wait: Duration) -> Result<PageReply, SourceError> {
        if let Some(part) = number.checked_sub(FAILURE_PARTS) {
            return self.failures(part);
        }
        let until = Instant::now() + wait;
        let waits = |state: &mut State| {
            number >= state.sealed
                && !state.complete
                && state.error.is_none()
                && !self.marks.is_stopped()
        };
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_next = number <= state.sealed;
            // A page further behind is not sealed early: it waits for its turn.
            let most = if is_next { left.min(EARLY_SEAL) } else { left };
            let waited = self.wake.wait_timeout_while(state, most, |state| {
                waits(state) && (is_next || number > state.sealed)
            });
            let (held, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = held;
            if !waits(&mut state) {
                break;
            }
            if !timeout.timed_out() {
                continue;
            }
            let begun = number == state.sealed && state.builder.is_some();
            let early = begun && state.seals_early(Instant::now());
            if early && let Err(error) = self.seal(&mut state) {
                state.error.get_or_insert(error);
                self.tell();
            }
            if left <= EARLY_SEAL {
                break;
            }
        }
        if number < state.sealed {
            drop(state);
            let path = self.page_path(number);
            return fs::read(&path)
                .map(PageReply::Page)
                .map_err(|cause| SourceError::manifest(&path, cause));
        }
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        Ok(if state.complete { PageReply::End(state.summary.clone()) } else { PageReply::NotYet })
    }

    /// Returns a sealed page, for serving; `None` if there is no such page.
    ///
    /// # Errors
    /// The page cannot be read now.
    pub(crate) fn sealed_page(&self, number: u32) -> Result<Option<Vec<u8>>, SourceError> {
        // Another scan may have continued where this one broke off, or was stopped.
        let marks = &self.marks;
        let over = marks.is_broken_off() || marks.is_stopped() || !self.options.fence.holds();
        let sealed = over || number < self.lock().sealed;
        if sealed { read_kept(&self.page_path(number)) } else { Ok(None) }
    }

    /// Changes whenever [`Scan::page`] may have another answer.
    pub(crate) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Wakes those that wait for pages.
    fn tell(&self) {
        self.wake.notify_all();
        self.news.send_replace(());
    }

    /// Asks the workers to stop; sealed pages stay. Waits for nothing: a worker that has just
    /// checked and is about to wait wakes by itself ([`walk::STOP_LOOK`]).
    pub(crate) fn stop(&self) {
        self.marks.stopped.store(true, Ordering::Release);
        self.lookups.end();
        self.tell();
        self.lend.notify_all();
    }

    /// Returns the time of the first order to remove, by the clock of the source's file system and
    /// never too late. Removing one name of a file changes its other names, which are stamped
    /// later. The time is kept on disk, so that a restart uses the same one.
    ///
    /// # Errors
    /// The time cannot be stored.
    pub(crate) fn removal_began(&self) -> Result<FileTime, SourceError> {
        let path = self.directory.join(REMOVING);
        match fs::read(&path) {
            Ok(text) => {
                return serde_json::from_slice(&text)
                    .map_err(|cause| SourceError::manifest(&path, io::Error::from(cause)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(SourceError::manifest(&path, error)),
        }
        let now = penstock_sys::wall_clock_now();
        let began = match now.nanoseconds.checked_sub(TICK_NS) {
            Some(nanoseconds) => FileTime { nanoseconds, ..now },
            None => FileTime {
                seconds: now.seconds - 1,
                nanoseconds: now.nanoseconds + 1_000_000_000 - TICK_NS,
            },
        };
        let text = serde_json::to_vec(&began).unwrap_or_default();
        self.write_fenced(&path, &text).map_err(|cause| SourceError::manifest(&path, cause))?;
        Ok(began)
    }

    /// Records that an order to remove entries of a page is under way.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(crate) fn note_order(&self, page: u32) -> Result<(), SourceError> {
        let noted = interrupted_removal::note_order(&self.directory, page);
        noted.map_err(|cause| SourceError::manifest(&self.directory, cause))
    }

    /// Records that each order to remove entries of a page has ended.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(crate) fn note_order_done(&self, page: u32) -> Result<(), SourceError> {
        let noted = interrupted_removal::note_order_done(&self.directory, page);
        noted.map_err(|cause| SourceError::manifest(&self.directory, cause))
    }

    /// Returns whether a user has named this path or a directory above it. Directories that only
    /// lead to such a path are listed too, and the transfer must not remove them.
    pub(crate) fn is_named(&self, path: &[u8]) -> bool {
        if self.options.files_from.is_empty() {
            return true;
        }
        let named = self
            .named
            .get_or_init(|| self.options.files_from.iter().cloned().collect::<HashSet<Vec<u8>>>());
        named.contains(path) || lies_below(path, |parent| named.contains(parent))
    }
    /// Lists the directories that another peer asks for. Blocks for as long as the store takes.
    /// `check` says whether the store is unchanged since the scan began.
    pub(crate) fn list_for(
        &self,
        source: &Source,
        check: &dyn Fn() -> Result<(), AccessError>,
        work: &ListWork,
        emit: &mut Emit<'_>,
    ) {
        assist::list_for(self, source, check, work, emit);
    }

    /// Returns the root of the data set within the store.
    pub(crate) fn root(&self) -> &[u8] {
        &self.options.root
    }
}

/// Reports the end of a scan to its waiters if the thread that runs it panics.
struct Running<'a>(&'a Scan);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.0.lock().error.get_or_insert(SourceError::ListingPanicked);
        self.0.marks.broken_off.store(true, Ordering::Release);
        self.0.marks.ended.store(true, Ordering::Release);
        self.0.tell();
        self.0.lend.notify_all();
    }
}

#[cfg(test)]
mod tests;
