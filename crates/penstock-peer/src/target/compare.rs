//! Compares a page with the target, before the page is opened in the ledger.
//!
//! One stat for each entry decides, by size and time of last modification (of links, by their
//! text). A few threads share a page, because on a network file system a stat is a round trip. An
//! equal entry gets the attributes of the source where those differ, and no other change. Where
//! entries at the target may not be replaced, an error is not taken for an empty place: an entry
//! that cannot be examined stays, and counts as failed.

use std::ops::Range;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use penstock_api::task::TaskSpec;
use penstock_api::update::{IfExists, UpdateOptions};
use penstock_proto::compared::{Comparison, EntrySet, refused};
use penstock_proto::journal::EntryFailure;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_proto::name;
use penstock_proto::units::FileTime;
use penstock_store::{Attributes, Dir, DirCache, Kind, Meta, Step, StoreError, Target};

use crate::source::read::place;
use crate::stores::chain;
use crate::stores::errors::{StoreFault, is_of_store};
use crate::stores::worker_pool;
use crate::task::error::TaskError;
use crate::write::attributes::AttributePolicy;

/// Threads that share a page.
const THREADS: usize = 4;
/// Fewer entries than this are not worth a thread.
const ENTRIES_PER_THREAD: usize = 512;

/// errno(3) of [`StoreError::SpecialFile`]: `ESPIPE`.
const SPECIAL_FILE: u16 = 29;

/// The decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The entry is moved, and nothing has its name.
    New,
    /// The entry is moved, and replaces the one at the target.
    Replace,
    /// The entry at the target stays.
    Keep,
    /// The entry at the target stays, and the entry counts as failed.
    Refuse,
    /// The entry cannot be made before an obstacle is removed: a directory of its name, or
    /// something else where a directory belongs.
    Blocked,
}

/// The decision about an entry, and its grounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) verdict: Verdict,
    /// The entry at the target, if there is one.
    pub(crate) there: Option<Meta>,
    /// Set if the entry at the target equals the source's, as far as the options compare them.
    pub(crate) same: bool,
    /// Set if the entry at the target has the source's time, within the resolution of both file
    /// systems.
    pub(crate) dated: bool,
    /// Set if its attributes differ from the source's. Computed for equal files that stay and for
    /// directories, and only where nothing may be touched.
    pub(crate) stale: bool,
    /// Error number (errno(3)) of an entry that cannot be examined or brought up to date; 0 if
    /// there is none.
    pub(crate) errno: u16,
}

impl Compared {
    fn of(verdict: Verdict, there: Option<Meta>) -> Self {
        Self { verdict, there, same: false, dated: false, stale: false, errno: 0 }
    }
}

/// The parameters of a comparison.
#[derive(Clone)]
pub(crate) struct Comparer {
    pub(crate) target: Target,
    pub(crate) root: Vec<u8>,
    pub(crate) update: UpdateOptions,
    pub(crate) keeper: Arc<AttributePolicy>,
    /// True if the comparison sets the attributes of files that stay; false if it may change
    /// nothing.
    pub(crate) touches: bool,
    /// Files with equal contents, where contents were compared.
    same: Option<Arc<EntrySet>>,
}

impl Comparer {
    pub(crate) fn new(
        target: Target,
        spec: &TaskSpec,
        touches: bool,
        allow_privileged: bool,
    ) -> Self {
        let own = spec.source.is_of_own_site();
        let keeper = AttributePolicy::new(&spec.preserve, own, allow_privileged);
        let keeper = Arc::new(keeper.made_by(target.account()));
        Self {
            target,
            root: spec.root.0.clone(),
            update: spec.update.clone(),
            keeper,
            touches,
            same: None,
        }
    }

    /// Takes exactly these files of a page as equal.
    pub(crate) fn with_same(self, same: EntrySet) -> Self {
        Self { same: Some(Arc::new(same)), ..self }
    }

    /// Returns the files of a page that have the size of their entries, by one stat for each.
    ///
    /// # Errors
    /// The store is at fault.
    pub(crate) fn same_size(&self, page: &Page) -> Result<Vec<u32>, TaskError> {
        let mut dirs = Dirs::of(page);
        let mut found = Vec::new();
        for (index, entry) in (0..).zip(page.entries()) {
            if entry.kind != EntryKind::File {
                continue;
            }
            let (parent, leaf) = place(&self.root, page, entry);
            let there = dirs.get(&self.target, &parent).and_then(|place| match place {
                Place::Directory(dir) => self.target.meta(&dir, &leaf),
                _ => Ok(None),
            });
            match there {
                Ok(Some(meta)) if meta.kind == Kind::File && meta.size == entry.size => {
                    found.push(index);
                }
                Err(error) if is_of_store(&self.target, &error) => {
                    return Err(StoreFault::of_store(&error).into());
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Compares a whole page but for the entries `left`, which stay. Blocks; see the module's
    /// story.
    ///
    /// # Errors
    /// The store is at fault.
    pub(crate) fn compare(&self, page: &Page, left: &EntrySet) -> Result<Comparison, TaskError> {
        let mut kept = Vec::new();
        let mut failed: Vec<EntryFailure> = Vec::new();
        let (mut existed, mut in_the_way) = (Vec::new(), 0);
        for (index, compared) in self.verdicts(page, left)?.into_iter().enumerate() {
            // An obstacle counts among the entries that would be removed, not among those that
            // stay.
            let stands = compared.there.is_some() && compared.verdict != Verdict::Blocked;
            existed.extend(stands.then_some(index as u32));
            match compared.verdict {
                Verdict::Keep => kept.push(index as u32),
                Verdict::Refuse => failed.push(refused(index as u32, compared.errno)),
                Verdict::Blocked => in_the_way += 1,
                Verdict::New | Verdict::Replace => {}
            }
        }
        let (kept, existed) = (kept.into_iter().collect(), existed.into_iter().collect());
        Ok(Comparison { kept, failed, existed, carried: Vec::new(), in_the_way })
    }

    /// Returns the entries that stay, for a page that amends earlier ones. Files whose bytes are at
    /// the target already, under an older change time at the source (C2), get the attributes that
    /// they have now. Files also stay where the target's is newer and that decides. Blocks.
    ///
    /// # Errors
    /// The store is at fault.
    pub(crate) fn compare_amending(&self, page: &Page) -> Result<Comparison, TaskError> {
        let mut dirs = Dirs::of(page);
        let (mut kept, mut failed) = (Vec::new(), Vec::new());
        for (index, (entry, amends)) in (0..).zip(page.entries().iter().zip(page.amends())) {
            let kept_there = match amends.same_bytes {
                true => self.is_kept(page, entry, &mut dirs),
                false => self.is_spared(page, entry, &mut dirs),
            };
            match kept_there {
                Ok(true) => kept.push(index),
                Ok(false) => {}
                Err(error) => {
                    if let Some(fault) = StoreFault::of(&self.target, &error) {
                        return Err(fault.into());
                    }
                    // An entry that this transfer has not moved may be a user's newer file.
                    if amends.same_bytes {
                        tracing::debug!(error = %chain(&error), "an entry could not be compared");
                    } else {
                        failed.push(refused(index, refusal(&error)));
                    }
                }
            }
        }
        Ok(Comparison { kept: kept.into_iter().collect(), failed, ..Comparison::default() })
    }

    /// Returns whether a newer version may not replace the entry at the target. This holds if the
    /// entry is newer itself, and the older version was not moved, so that it belongs to another
    /// writer.
    fn is_spared(&self, page: &Page, entry: &Entry, dirs: &mut Dirs) -> Result<bool, StoreError> {
        if self.update.if_exists != IfExists::Newer {
            return Ok(false);
        }
        let (parent, leaf) = place(&self.root, page, entry);
        let Place::Directory(dir) = dirs.get(&self.target, &parent)? else { return Ok(false) };
        let there = self.target.meta(&dir, &leaf)?;
        let newer = |there: &Meta| is_newer(entry, there, dirs.dated(&dir, entry, there));
        Ok(there.is_some_and(|there| !newer(&there)))
    }

    fn is_kept(&self, page: &Page, entry: &Entry, dirs: &mut Dirs) -> Result<bool, StoreError> {
        let (parent, leaf) = place(&self.root, page, entry);
        let Place::Directory(dir) = dirs.get(&self.target, &parent)? else { return Ok(false) };
        let Some(meta) = self.target.meta(&dir, &leaf)? else { return Ok(false) };
        let there = There { dir: &dir, leaf: &leaf, meta, dated: dirs.dated(&dir, entry, &meta) };
        if !self.is_same(page, entry, &there)? {
            return Ok(false);
        }
        self.refresh(page, entry, &there)?;
        Ok(true)
    }

    /// Returns the verdict on every entry, with the entry at the target. Entries in `left` are not
    /// examined.
    pub(crate) fn verdicts(
        &self,
        page: &Page,
        left: &EntrySet,
    ) -> Result<Vec<Compared>, TaskError> {
        let count = page.entries().len();
        let threads = (count / ENTRIES_PER_THREAD).clamp(1, THREADS);
        let share = count.div_ceil(threads).max(1);
        if threads == 1 {
            return self.part(page, 0..count, left);
        }
        let parts: Vec<_> = std::thread::scope(|scope| {
            let spawn = |first: usize| {
                let range = first..(first + share).min(count);
                let own = range.clone();
                worker_pool::start(scope, move || self.part(page, range, left)).map_err(|_| own)
            };
            let handles: Vec<_> = (0..count).step_by(share).map(spawn).collect();
            let join = |handle: Result<ScopedJoinHandle<'_, _>, Range<usize>>| match handle {
                Ok(handle) => handle.join(),
                Err(own) => Ok(self.part(page, own, left)),
            };
            handles.into_iter().map(join).collect()
        });
        let mut verdicts = Vec::with_capacity(count);
        for part in parts {
            match part {
                Ok(part) => verdicts.extend(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(verdicts)
    }

    fn part(
        &self,
        page: &Page,
        range: Range<usize>,
        left: &EntrySet,
    ) -> Result<Vec<Compared>, TaskError> {
        let mut dirs = Dirs::of(page);
        // Each look would change the account by itself. If that fails, each entry reports the
        // failure.
        let _acting = self.target.act().ok();
        let look = |index: usize| {
            let index = index as u32;
            if left.contains(index) {
                return Ok(Compared::of(Verdict::Keep, None));
            }
            self.look(page, index, &mut dirs)
        };
        range.map(look).collect()
    }

    fn look(&self, page: &Page, index: u32, dirs: &mut Dirs) -> Result<Compared, TaskError> {
        let mut found = self.entry(page, index, dirs);
        let again = |error: &StoreError| error.is_io_failure() || error.is_absent();
        if self.protects() && found.as_ref().is_err_and(again) {
            // The error may pass. If the entry was replaced or removed meanwhile, another look
            // shows it.
            dirs.cache.forget(&place(&self.root, page, &page.entries()[index as usize]).0);
            found = self.entry(page, index, dirs);
        }
        found.or_else(|error| match StoreFault::of(&self.target, &error) {
            Some(fault) => Err(fault.into()),
            None => Ok(self.unknown(&page.entries()[index as usize], &error)),
        })
    }

    /// Returns whether an entry at the target needs a check before it is replaced.
    fn protects(&self) -> bool {
        self.update.if_exists != IfExists::Replace
    }

    /// Returns the decision about an entry whose name cannot be examined at the target. An error
    /// replaces nothing that options protect, and never a directory.
    fn unknown(&self, entry: &Entry, error: &StoreError) -> Compared {
        if !self.protects() || entry.kind == EntryKind::Directory {
            // Moving it will fail in the same way, and report the error.
            tracing::debug!(error = %chain(error), "an entry could not be compared");
            return Compared::of(Verdict::New, None);
        }
        Compared { errno: refusal(error), ..Compared::of(Verdict::Refuse, None) }
    }

    fn entry(&self, page: &Page, index: u32, dirs: &mut Dirs) -> Result<Compared, StoreError> {
        let entry = &page.entries()[index as usize];
        let (parent, leaf) = place(&self.root, page, entry);
        let dir = match dirs.get(&self.target, &parent)? {
            Place::Directory(dir) => dir,
            Place::Absent => return Ok(Compared::of(Verdict::New, None)),
            Place::Blocked => return Ok(Compared::of(Verdict::Blocked, None)),
        };
        let Some(meta) = self.target.meta(&dir, &leaf)? else {
            return Ok(Compared::of(Verdict::New, None));
        };
        let dated = dirs.dated(&dir, entry, &meta);
        let there = There { dir: &dir, leaf: &leaf, meta, dated };
        let asks = self.update.sync || self.protects();
        let same = match &self.same {
            Some(same) if entry.kind == EntryKind::File && meta.kind == Kind::File => {
                same.contains(index)
            }
            _ => asks && self.is_same(page, entry, &there)?,
        };
        let verdict = self.verdict(entry, &meta, same, dated);
        let mut compared = Compared { same, dated, ..Compared::of(verdict, Some(meta)) };
        if verdict == Verdict::Refuse && self.update.if_exists == IfExists::Replace {
            compared.errno = SPECIAL_FILE;
        }
        let keeps = verdict == Verdict::Keep && same;
        if self.touches && keeps {
            self.refresh(page, entry, &there)?;
        }
        let directory = entry.kind == EntryKind::Directory && meta.kind == Kind::Directory;
        if !self.touches && (keeps || directory) {
            let wanted = self.wanted(page, entry, &meta);
            compared.stale = !self.is_as_wanted(entry, &there, &wanted)?;
        }
        Ok(compared)
    }

    /// Returns whether the first name of `link`, a further name, will be as the source has it when
    /// further names are made. The source counts time in steps of `source`.
    ///
    /// # Errors
    /// The first name cannot be examined.
    pub(crate) fn will_have_first_name(
        &self,
        page: &Page,
        link: &Entry,
        (dirs, source): (&mut DirCache, Step),
    ) -> Result<bool, StoreError> {
        let clears = self.update.delete && self.update.if_exists == IfExists::Replace;
        let path = name::join(&self.root, page.link(link));
        let (parent, leaf) = name::split(&path).unwrap_or_default();
        let now = penstock_sys::boottime_now();
        let dir = match Place::of(dirs.get(now, parent, |path| self.target.open_dir(path)))? {
            Place::Directory(dir) => dir,
            Place::Absent => return Ok(true),
            Place::Blocked => return Ok(clears),
        };
        let Some(there) = self.target.meta(&dir, leaf)? else { return Ok(true) };
        let dated = dir.has_time(&there, link.mtime, source);
        let sized = there.kind != Kind::File || there.size == link.size;
        let is_directory = there.kind == Kind::Directory;
        Ok(match self.first_name_verdict(link, &there, dated) {
            Verdict::New => true,
            Verdict::Replace => !is_directory,
            // A file whose contents are equal gets its time before.
            Verdict::Keep => !is_directory && sized && (dated || self.same.is_some()),
            Verdict::Blocked => clears,
            Verdict::Refuse => false,
        })
    }

    /// Returns the verdict on the first name of `link`, a further name. It depends on the entry
    /// under the first name, and on whether that is `dated` as the link is.
    pub(crate) fn first_name_verdict(&self, link: &Entry, there: &Meta, dated: bool) -> Verdict {
        let mut first = *link;
        first.kind = EntryKind::File;
        let same = match there.kind {
            Kind::File => link.size == there.size && dated,
            Kind::Directory => false,
            _ => dated,
        };
        self.verdict(&first, there, same, dated)
    }

    fn verdict(&self, entry: &Entry, there: &Meta, same: bool, dated: bool) -> Verdict {
        if entry.kind == EntryKind::Directory {
            if self.update.only_new && there.kind == Kind::Directory {
                return Verdict::Keep;
            }
            // An entry that a file may not replace may not be replaced by a directory either.
            let blocked =
                there.kind != Kind::Directory && self.update.if_exists == IfExists::Replace;
            return if blocked { Verdict::Blocked } else { Verdict::Replace };
        }
        if self.update.sync && same {
            return Verdict::Keep;
        }
        match self.update.if_exists {
            IfExists::Replace if there.kind == Kind::Directory => Verdict::Blocked,
            IfExists::Replace if self.is_kept_special(entry, there) => Verdict::Refuse,
            IfExists::Newer if self.is_kept_special(entry, there) => Verdict::Keep,
            IfExists::Replace => Verdict::Replace,
            IfExists::Skip => Verdict::Keep,
            IfExists::Newer if is_newer(entry, there, dated) => Verdict::Replace,
            IfExists::Newer => Verdict::Keep,
            IfExists::Fail => Verdict::Refuse,
        }
    }

    /// Returns whether a device, pipe or socket is there that only its own kind may replace.
    fn is_kept_special(&self, entry: &Entry, there: &Meta) -> bool {
        let plain = matches!(there.kind, Kind::File | Kind::Directory | Kind::Symlink);
        let own = there.kind.entry_kind() == Some(entry.kind)
            || entry.kind == EntryKind::HardLink && entry.special;
        !plain && !own && !self.update.delete
    }

    fn is_same(&self, page: &Page, entry: &Entry, there: &There<'_>) -> Result<bool, StoreError> {
        let (meta, dated) = (&there.meta, there.dated);
        match (entry.kind, meta.kind) {
            (EntryKind::File, Kind::File) => Ok(entry.size == meta.size && dated && !entry.special),
            (EntryKind::Symlink, Kind::Symlink) => {
                let text = page.link(entry);
                let read = || self.target.read_link(there.dir, there.leaf);
                Ok(meta.size == text.len() as u64 && read()? == text)
            }
            (EntryKind::Fifo, Kind::Fifo) => Ok(dated),
            (EntryKind::CharDevice, Kind::CharDevice)
            | (EntryKind::BlockDevice, Kind::BlockDevice) => {
                Ok(dated && entry.device == meta.special)
            }
            // A further name is made last, if it does not exist by then.
            _ => Ok(false),
        }
    }

    /// Returns the attributes that an entry which stays should have.
    fn wanted<'p>(&self, page: &'p Page, entry: &Entry, there: &Meta) -> Attributes<'p> {
        let mut wanted = self.keeper.attributes(page, entry);
        // Where modes are not to be set, that which is there stays; but no program runs with the
        // rights of another owner.
        let left = if owner_stays(&wanted, there) { there.mode } else { there.mode & !0o6000 };
        wanted.mode = wanted.mode.or(Some(left));
        wanted
    }

    fn is_as_wanted(
        &self,
        entry: &Entry,
        there: &There<'_>,
        wanted: &Attributes<'_>,
    ) -> Result<bool, StoreError> {
        let link = entry.kind == EntryKind::Symlink;
        Ok((link || wanted.mode.is_none_or(|mode| mode == there.meta.mode))
            && owner_stays(wanted, &there.meta)
            && (wanted.mtime.is_none() || there.dated)
            && self.target.has_xattrs(there.dir, there.leaf, wanted)?)
    }

    /// Sets the source's attributes on equal entries, where they differ. An entry that stays for
    /// another reason is not the source's, and is not changed.
    fn refresh(&self, page: &Page, entry: &Entry, there: &There<'_>) -> Result<(), StoreError> {
        let wanted = self.wanted(page, entry, &there.meta);
        if self.is_as_wanted(entry, there, &wanted)? {
            return Ok(());
        }
        let (dir, leaf) = (there.dir, there.leaf);
        let not_set = if entry.kind == EntryKind::File {
            let file = self.target.open_written(dir, leaf)?;
            if file.meta()?.is_none_or(|meta| meta.inode != there.meta.inode) {
                // Another entry was put there meanwhile.
                return Ok(());
            }
            file.finish(&wanted, false)?
        } else {
            self.target.set_node_attributes(dir, leaf, &wanted)?
        };
        self.keeper.settle(&page.path(entry), &not_set)
    }
}

/// Returns the step in which the file systems of a page's entries count time, by all of their
/// stamps. It is exact if the source reports no change times.
pub(crate) fn step_of(page: &Page) -> Step {
    let told = page.entries().iter().filter(|entry| entry.identity.ctime != FileTime::default());
    Step::of(told.flat_map(|entry| [entry.identity.ctime, entry.mtime]))
}

/// The entry at the target under the name of an entry.
struct There<'a> {
    dir: &'a Dir,
    leaf: &'a [u8],
    meta: Meta,
    /// Set if it has the entry's time, within the resolution of both file systems.
    dated: bool,
}

/// Returns whether an entry is newer than the one at the target, which may be `dated` as the entry
/// is.
pub(crate) fn is_newer(entry: &Entry, there: &Meta, dated: bool) -> bool {
    !dated && entry.mtime > there.mtime
}

/// Returns the number of an error that refuses an entry.
fn refusal(error: &StoreError) -> u16 {
    tracing::warn!(error = %chain(error), "an entry could not be compared, and stays as it is");
    error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0)
}

fn owner_stays(wanted: &Attributes<'_>, there: &Meta) -> bool {
    wanted.uid.is_none_or(|uid| uid == there.owner.uid)
        && wanted.gid.is_none_or(|gid| gid == there.owner.gid)
}

/// A directory that an entry belongs in.
#[derive(Clone)]
enum Place {
    Directory(Dir),
    /// There is no such directory.
    Absent,
    /// Something else has its name, or that of a directory above it.
    Blocked,
}

impl Place {
    /// Interprets the result of opening the directory. A handle that its server no longer knows
    /// proves nothing.
    fn of(opened: Result<Dir, StoreError>) -> Result<Self, StoreError> {
        match opened {
            Ok(dir) => Ok(Self::Directory(dir)),
            Err(StoreError::NotDirectory { .. }) => Ok(Self::Blocked),
            Err(error) if error.is_absent() => Ok(Self::Absent),
            Err(error) => Err(error),
        }
    }
}

/// The open directories of a page, and the last missing one: everything in it is new.
struct Dirs {
    cache: DirCache,
    missing: Option<(Arc<[u8]>, Place)>,
    /// The step in which the source counts time.
    source: Step,
}

impl Dirs {
    fn of(page: &Page) -> Self {
        Self { cache: DirCache::default(), missing: None, source: step_of(page) }
    }

    /// Returns whether `there`, which is in `dir`, has the time of `entry`.
    fn dated(&self, dir: &Dir, entry: &Entry, there: &Meta) -> bool {
        dir.has_time(there, entry.mtime, self.source)
    }

    fn get(&mut self, target: &Target, path: &[u8]) -> Result<Place, StoreError> {
        if let Some((missing, place)) = &self.missing
            && **missing == *path
        {
            return Ok(place.clone());
        }
        let opened =
            self.cache.get(penstock_sys::boottime_now(), path, |path| target.open_dir(path));
        let place = Place::of(opened)?;
        if !matches!(place, Place::Directory(_)) {
            self.missing = Some((path.into(), place.clone()));
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests;
