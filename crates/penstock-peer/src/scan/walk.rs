//! The walk: workers take units, look at each name, and hand it to the builder.
//!
//! Units are directories, and names of large ones. A worker reads names faster than it can look at
//! them, so it leaves them in parts to idle workers. A directory counts as done when all its parts
//! were handed over, each by exactly one worker.

use std::mem;
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use penstock_proto::name::{self, Own};
use penstock_proto::select::Verdict;
use penstock_store::{Dir, DirEntry, Kind, ListBuffer, Meta, Source};
use penstock_sys::Acting;

use super::found::{Found, is_mount};
use super::state::{Scan, hash};
use super::units::{BATCH_ENTRIES, Ended, Part, PartNames, Sample, Unit};
use crate::source::error::SourceError;

/// Bytes of extended attributes after which a batch accepts no more entries.
const BATCH_BYTES: usize = 1 << 20;
/// Names of a large directory that are looked at together.
const PART_NAMES: usize = 256;
/// A directory of fewer entries is not shared.
const LARGE_ENTRIES: usize = 2048;
/// A worker with nothing to do looks this often whether another peer is late.
const LATE_LOOK: Duration = Duration::from_millis(100);
/// Interval at which an idle worker checks whether to stop, if it is not woken.
pub(super) const STOP_LOOK: Duration = Duration::from_secs(1);
/// Entries that are kept to compare this host's view of the store with that of others.
const SAMPLE_ENTRIES: usize = 64;

impl Scan {
    /// Runs one worker, which takes directories until there are none and none can come.
    pub(super) fn work(&self, source: &Source) {
        let mut buffer = ListBuffer::new();
        while let Some(unit) = self.next_unit() {
            let mut ended = Ended::of(&unit, true);
            let outcome = match &unit {
                Unit::Directory(directory) => self.list(source, directory, &mut buffer, &mut ended),
                Unit::Part(part) => self.look_at(source, part, &mut ended),
            };
            self.end_unit(unit.directory(), outcome.map(|()| ended));
        }
    }

    fn next_unit(&self) -> Option<Unit> {
        let mut state = self.lock();
        loop {
            if self.marks.is_stopped() || state.error.is_some() {
                return None;
            }
            match state.walk.take() {
                Ok(Some(unit)) => return Some(unit),
                Ok(None) => {}
                Err(cause) => {
                    state.error.get_or_insert(SourceError::manifest(&self.directory, cause));
                    self.wake.notify_all();
                    return None;
                }
            }
            if state.walk.listing == 0 {
                self.wake.notify_all();
                self.lend.notify_all();
                return None;
            }
            state.walk.idle += 1;
            let look = if state.walk.lent.is_empty() { STOP_LOOK } else { LATE_LOOK };
            let waited = self.wake.wait_timeout(state, look);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.walk.idle -= 1;
        }
    }

    /// Ends a unit.
    pub(super) fn end_unit(&self, directory: &[u8], outcome: Result<Ended, SourceError>) {
        let mut state = self.lock();
        state.walk.listing -= 1;
        match outcome {
            Ok(Ended { whole, passed, large }) => {
                state.pass(passed);
                let done = match large {
                    Some(key) => state.walk.end_part(key, whole, passed),
                    // An incomplete directory is listed again after a crash, so that its errors are
                    // reported again (promise (c)).
                    None => whole.then(|| (directory.to_vec(), passed)),
                };
                state.done.extend(done);
            }
            Err(problem) => {
                state.error.get_or_insert(problem);
            }
        }
        self.wake.notify_all();
    }

    /// Lists one directory.
    fn list(
        &self,
        source: &Source,
        directory: &[u8],
        buffer: &mut ListBuffer,
        ended: &mut Ended,
    ) -> Result<(), SourceError> {
        let full = name::join(&self.options.root, directory);
        let dir = match source.open_dir(&full) {
            Ok(dir) => dir,
            Err(error) => {
                self.fail(&mut self.lock(), directory, &error, false)?;
                ended.whole = false;
                return Ok(());
            }
        };
        let device = self.lock().device;
        if is_mount(source, &dir, device) {
            ended.passed.excluded += 1;
            return Ok(());
        }
        let mut batch = Batch::new(self, source, &dir, directory, ended);
        let (mut seen, mut leaving) = (0, false);
        let mut names: PartNames = Vec::new();
        let mut problem = None;
        let listed = source.list(&dir, buffer, &mut |entry| {
            if seen % PART_NAMES == 0 {
                leaving = seen >= LARGE_ENTRIES && self.wants_names();
            }
            seen += 1;
            if let Some(own) = entry.own {
                return match batch.leave_out(&entry, own) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(failed) => {
                        problem = Some(failed);
                        ControlFlow::Break(())
                    }
                };
            }
            if leaving {
                names.push((entry.name.to_vec(), entry.kind));
                if names.len() == PART_NAMES {
                    batch.acting = None;
                    let mut state = self.lock();
                    state.walk.leave(&mut batch.ended.large, directory, mem::take(&mut names));
                    self.wake.notify_all();
                    self.lend.notify_all();
                }
                return ControlFlow::Continue(());
            }
            batch.look(&entry).unwrap_or_else(|failed| {
                problem = Some(failed);
                ControlFlow::Break(())
            })
        });
        if let Some(problem) = problem {
            return Err(problem);
        }
        batch.look_at(&names)?;
        batch.end()?;
        if let Err(error) = listed {
            if directory.is_empty() && error.is_denied() {
                return Err(SourceError::unlisted(&self.options.root, &error));
            }
            self.fail(&mut self.lock(), directory, &error, false)?;
            ended.whole = false;
        }
        Ok(())
    }

    /// Returns whether idle workers could look at names of large directories.
    fn wants_names(&self) -> bool {
        let state = self.lock();
        state.walk.parts.len() < 2 * (state.walk.idle + state.walk.lenders)
    }

    /// Looks at a part of a large directory.
    fn look_at(&self, source: &Source, part: &Part, ended: &mut Ended) -> Result<(), SourceError> {
        let full = name::join(&self.options.root, &part.directory);
        let dir = match source.open_dir(&full) {
            Ok(dir) => dir,
            Err(error) => {
                self.fail(&mut self.lock(), &part.directory, &error, false)?;
                ended.whole = false;
                return Ok(());
            }
        };
        let mut batch = Batch::new(self, source, &dir, &part.directory, ended);
        batch.look_at(&part.names)?;
        batch.end()
    }

    /// Looks at a name of a directory; `None` if it is not selected.
    pub(super) fn choose(
        &self,
        source: &Source,
        dir: &Dir,
        directory: &[u8],
        entry: &DirEntry<'_>,
    ) -> Option<Found> {
        let selector = &self.options.selector;
        // On nearly all file systems, rules need no more than the listing returns: no stat then.
        let told = match entry.kind {
            Some(kind) => Some(kind == Kind::Directory),
            None if selector.asks_for_kind() => None,
            None => Some(false),
        };
        let mut path = Vec::new();
        if !selector.rules.is_empty() {
            path = name::join(directory, entry.name);
            if told.is_some_and(|is| selector.verdict_here(&path, is) == Verdict::Excluded) {
                return None;
            }
        }
        self.lookups.take(1);
        let _acting = source.act().ok();
        let meta = source.stat(dir, entry.name);
        let chosen = match (&meta, told) {
            (Err(_), _) => true,
            (Ok(meta), Some(_)) => {
                meta.kind != Kind::File || selector.takes_file(meta.size, meta.mtime)
            }
            (Ok(meta), None) => self.is_chosen(&path, meta),
        };
        chosen.then(|| Found::with(source, dir, entry.name, meta, &self.wants))
    }

    /// Returns whether rules and limits select the entry at a path whose directories they select.
    pub(super) fn is_chosen(&self, path: &[u8], meta: &Meta) -> bool {
        let selector = &self.options.selector;
        selector.verdict_here(path, meta.kind == Kind::Directory) == Verdict::Included
            && (meta.kind != Kind::File || selector.takes_file(meta.size, meta.mtime))
    }

    /// Hands a batch to the builder. Returns `false` if the scan must stop.
    pub(super) fn hand_over(
        &self,
        directory: &[u8],
        batch: &mut Vec<Found>,
        skipped: &mut u64,
    ) -> Result<bool, SourceError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        for found in batch.drain(..) {
            let path = name::join(directory, &found.name);
            let known = !state.emitted.is_empty() && state.emitted.contains(&hash(&path));
            if !known && self.take(state, directory, &found.name, &found, skipped)? {
                state.walk.stack.push(path);
            }
        }
        self.wake.notify_all();
        if state.walk.lenders > 0 {
            self.lend.notify_one();
        }
        Ok(!self.marks.is_stopped())
    }

    /// Keeps some entries, so that others can be asked how they see them.
    fn note_sample(&self, directory: &[u8], batch: &[Found]) {
        if self.helpers.get().is_none() {
            return;
        }
        let files = batch.iter().filter_map(|found| {
            let meta = found.meta.as_ref().ok().filter(|meta| meta.kind == Kind::File)?;
            Some((found.name.clone(), *meta))
        });
        let mut state = self.lock();
        let held = state.walk.sample.as_ref().map_or(0, |sample| sample.entries.len());
        if held < SAMPLE_ENTRIES {
            let entries: Vec<_> = files.take(SAMPLE_ENTRIES).collect();
            if entries.len() > held {
                let directory = directory.to_vec();
                state.walk.sample = Some(Arc::new(Sample { directory, entries }));
            }
        }
    }
}

/// Entries of one directory that are examined and handed over together.
struct Batch<'a> {
    scan: &'a Scan,
    source: &'a Source,
    dir: &'a Dir,
    directory: &'a [u8],
    found: Vec<Found>,
    /// Bytes of their extended attributes.
    bytes: usize,
    ended: &'a mut Ended,
    /// Held from one name to the next, as each would change the account of this thread. The
    /// builder writes the daemon's own files, so it goes before a batch is handed over.
    acting: Option<Acting>,
}

impl<'a> Batch<'a> {
    fn new(
        scan: &'a Scan,
        source: &'a Source,
        dir: &'a Dir,
        directory: &'a [u8],
        ended: &'a mut Ended,
    ) -> Self {
        let found = Vec::with_capacity(BATCH_ENTRIES);
        Self { scan, source, dir, directory, found, bytes: 0, ended, acting: None }
    }

    /// Looks at names until the scan must stop.
    fn look_at(&mut self, names: &[(Vec<u8>, Option<Kind>)]) -> Result<(), SourceError> {
        for (name, kind) in names {
            if self.look(&DirEntry { name, kind: *kind, own: None })?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Leaves out an [own name](name::own). An unfinished file of a copy is reported as a failure,
    /// since the file that it belongs to may be missing. Other own names are counted.
    fn leave_out(&mut self, entry: &DirEntry<'_>, own: Own) -> Result<(), SourceError> {
        self.acting = None;
        let path = name::join(self.directory, entry.name);
        let selector = &self.scan.options.selector;
        if !own.kind.holds_data() {
            self.ended.passed.own_state += 1;
        } else if selector.verdict_here(&path, false) == Verdict::Excluded {
            self.ended.passed.excluded += 1;
        } else {
            self.scan.fail_unfinished(&mut self.scan.lock(), &path)?;
            self.ended.cut();
        }
        Ok(())
    }

    /// Looks at one name. Returns whether to continue.
    fn look(&mut self, entry: &DirEntry<'_>) -> Result<ControlFlow<()>, SourceError> {
        if self.acting.is_none() {
            // If that fails, the look at the name reports the failure.
            self.acting = self.source.act().ok();
        }
        let Some(found) = self.scan.choose(self.source, self.dir, self.directory, entry) else {
            self.ended.passed.excluded += 1;
            return Ok(ControlFlow::Continue(()));
        };
        self.ended.note(&found);
        self.bytes += found.xattrs.len();
        self.found.push(found);
        if self.found.len() < BATCH_ENTRIES && self.bytes < BATCH_BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        if self.hand_over()? {
            return Ok(ControlFlow::Continue(()));
        }
        self.ended.cut();
        Ok(ControlFlow::Break(()))
    }

    fn hand_over(&mut self) -> Result<bool, SourceError> {
        self.acting = None;
        self.bytes = 0;
        self.scan.note_sample(self.directory, &self.found);
        self.scan.hand_over(self.directory, &mut self.found, &mut self.ended.passed.skipped)
    }

    fn end(mut self) -> Result<(), SourceError> {
        self.hand_over().map(drop)
    }
}
