//! Further pages for entries that have changed since they were listed (C1, C2).
//!
//! Pages never change. A newer version of an entry is an entry of a new page behind the last one,
//! and that page names the entries that it amends. Requests, temporary names and ledgers thereby
//! tell the versions apart. A file that is being written at this moment gets a short wait until it
//! is stable, once for a question.

use std::collections::HashSet;
use std::time::Duration;

use penstock_api::scan::{ASKED_ENTRIES_MAX, AskedPage, RecheckRequest, ScanSummary, SeenEntry};
use penstock_proto::manifest::{Amends, EntryKind, Page, PageBuilder};
use penstock_proto::slicing::STRIDE_BYTES_MAX;
use penstock_proto::units::FileTime;
use penstock_store::{Dir, DirCache, Kind, Meta, Source};

use super::found::Found;
use super::state::Scan;
use crate::source::error::SourceError;
use crate::source::read::place;
use crate::source::read_check::{age_seconds, is_same};
use crate::stores::access::AccessError;
use crate::verify::hashing::digest_of_file;

/// A file that was written to more recently than this is perhaps still being written.
const REST_SECONDS: f64 = 1.0;
/// Rest that is needed where the answer must be certain: no file system counts time in larger
/// steps.
const CERTAIN_REST_SECONDS: f64 = 2.0;
/// Most bytes that are read again for one question, so that the answer does not take too long.
/// Files beyond it are sent again.
const REREAD_BYTES_MAX: u64 = 2 << 30;

/// An entry that is asked about.
struct Asked<'a> {
    page: &'a Page,
    index: u32,
    /// Times and digest as the target read the entry; `None` if it did not.
    seen: Option<&'a SeenEntry>,
}

impl Asked<'_> {
    fn pair(&self) -> (u32, u32) {
        (self.page.number, self.index)
    }
}

/// A newer version of an entry, to be put into a page.
struct Newer {
    directory: Vec<u8>,
    name: Vec<u8>,
    found: Found,
    amends: Amends,
    linked: bool,
}

impl Scan {
    /// Answers [`penstock_api::scan::SourcePeer::ask`], one question at a time. A file that was
    /// young when it was read is read again in two cases. Either the answer must be `certain`,
    /// since the older version is removed afterwards, or its stamps are coarse. Its unchanged
    /// change time proves nothing then. `see` returns pages in the form that is comparable with
    /// this host's store.
    ///
    /// # Errors
    /// The scan is not complete, the question names unknown entries, or pages cannot be kept.
    pub(crate) fn ask(
        &self,
        source: &Source,
        question: &RecheckRequest,
        certain: bool,
        see: &dyn Fn(Page) -> Result<Page, AccessError>,
    ) -> Result<u32, SourceError> {
        let _alone = self.asking.take("to look again at what has changed")?;
        let asked = &question.asked;
        if !self.lock().complete {
            return Err(SourceError::Incomplete);
        }
        let amended = self.read_amended(question.pages)?;
        let pages = self.asked_pages(asked)?;
        let pages = pages.into_iter().map(see).collect::<Result<Vec<_>, _>>()?;
        let all: Vec<Asked<'_>> = pages
            .iter()
            .zip(asked)
            .flat_map(|(page, asked)| {
                let changed = asked.changed.iter().map(|index| (*index, None));
                let seen = asked.seen.iter().map(|seen| (seen.entry, Some(seen)));
                changed.chain(seen).map(|(index, seen)| Asked { page, index, seen })
            })
            .filter(|asked| !amended.contains(&asked.pair()))
            .collect();
        self.let_rest(source, &all, certain);
        let round = pages.iter().map(|page| page.round).max().unwrap_or(0).saturating_add(1);
        let mut dirs = DirCache::default();
        let mut bytes_left = REREAD_BYTES_MAX;
        let newer = all.iter().filter_map(|asked| {
            let stamps_tell = |seen: &SeenEntry, meta: &Meta| {
                !certain && !is_coarse(seen.ctime) && seen.ctime == meta.ctime
            };
            self.newer(source, asked, &mut dirs, &mut bytes_left, &stamps_tell)
        });
        self.seal_amending(newer, round)
    }

    /// Returns the pages that the question names.
    fn asked_pages(&self, asked: &[AskedPage]) -> Result<Vec<Page>, SourceError> {
        let count: usize = asked.iter().map(|asked| asked.changed.len() + asked.seen.len()).sum();
        if count > ASKED_ENTRIES_MAX || asked.len() > ASKED_ENTRIES_MAX {
            return Err(SourceError::TooMuchAsked);
        }
        let sealed = self.lock().sealed;
        let mut pages = Vec::with_capacity(asked.len());
        for asked in asked {
            let page = self.read_sealed(asked.page)?.filter(|page| page.number < sealed);
            let page = page.ok_or(SourceError::UnknownPageAsked)?;
            let seen = asked.seen.iter().map(|seen| seen.entry);
            for index in asked.changed.iter().copied().chain(seen) {
                let entry = page.entry(index);
                if entry.is_err() || entry.is_ok_and(|entry| entry.kind != EntryKind::File) {
                    return Err(SourceError::NoFileAsked);
                }
            }
            pages.push(page);
        }
        Ok(pages)
    }

    /// Returns the entries that are amended by pages unknown to the target. Such pages exist if the
    /// same question was asked before.
    fn read_amended(&self, known: u32) -> Result<HashSet<(u32, u32)>, SourceError> {
        let (sealed, listed) = {
            let state = self.lock();
            (state.sealed, state.sealed.saturating_sub(state.summary.amending))
        };
        let mut amended = HashSet::new();
        for number in known.max(listed)..sealed {
            if let Some(page) = self.read_sealed(number)? {
                amended.extend(page.amends().iter().map(|amends| (amends.page, amends.entry)));
            }
        }
        Ok(amended)
    }

    /// Waits until files that are being written at this moment are stable: at most [`REST_SECONDS`]
    /// for all of them. If the answer must be certain, covers unchanged files too.
    fn let_rest(&self, source: &Source, all: &[Asked<'_>], certain: bool) {
        let mut dirs = DirCache::default();
        let coarse = |seen: &SeenEntry| is_coarse(seen.ctime);
        let reread = certain || all.iter().any(|asked| asked.seen.is_some_and(coarse));
        let rest = if reread { CERTAIN_REST_SECONDS } else { REST_SECONDS };
        let changed = all.iter().filter(|asked| reread || asked.seen.is_none());
        let ages = changed.filter_map(|asked| self.look(source, asked, &mut dirs)).map(|meta| {
            // A clock that is ahead proves nothing.
            age_seconds(meta.ctime).max(0.0)
        });
        let youngest = ages.fold(rest, f64::min);
        if youngest < rest {
            std::thread::sleep(Duration::from_secs_f64(rest - youngest));
        }
    }

    fn look(&self, source: &Source, asked: &Asked<'_>, dirs: &mut DirCache) -> Option<Meta> {
        let entry = asked.page.entry(asked.index).ok()?;
        let (parent, leaf) = place(&self.options.root, asked.page, entry);
        self.lookups.take(1);
        let dir =
            dirs.get(penstock_sys::boottime_now(), &parent, |path| source.open_dir(path)).ok()?;
        source.stat_certain(&dir, &leaf).ok()
    }

    /// Returns the newer version of an entry, if it is still a file and differs from the served
    /// version.
    fn newer(
        &self,
        source: &Source,
        asked: &Asked<'_>,
        dirs: &mut DirCache,
        bytes_left: &mut u64,
        stamps_tell: &dyn Fn(&SeenEntry, &Meta) -> bool,
    ) -> Option<Newer> {
        let entry = asked.page.entry(asked.index).ok()?;
        let mut meta = self.look(source, asked, dirs)?;
        if meta.kind != Kind::File {
            return None;
        }
        let (parent, leaf) = place(&self.options.root, asked.page, entry);
        let dir =
            dirs.get(penstock_sys::boottime_now(), &parent, |path| source.open_dir(path)).ok()?;
        let seen = asked.seen.filter(|_| is_same(entry, &meta));
        let same_bytes = seen.is_some_and(|seen| {
            stamps_tell(seen, &meta)
                || take(bytes_left, meta.size)
                    && is_as_served(source, &dir, &leaf, seen).is_some_and(|now| {
                        meta = now;
                        is_same(entry, &meta)
                    })
        });
        if same_bytes && meta.ctime == entry.identity.ctime {
            return None;
        }
        let linked = meta.links > 1 && entry.linked;
        let found = Found::with(source, &dir, &leaf, Ok(meta), &self.wants);
        let (page, entry_index) = asked.pair();
        Some(Newer {
            directory: asked.page.directory(entry).to_vec(),
            name: asked.page.name(entry).to_vec(),
            found,
            amends: Amends { page, entry: entry_index, same_bytes },
            linked,
        })
    }

    /// Puts newer versions into pages, and records durably that there are more. Returns the number
    /// of all pages.
    fn seal_amending(
        &self,
        newer: impl Iterator<Item = Newer>,
        round: u8,
    ) -> Result<u32, SourceError> {
        let before = self.lock().sealed;
        let mut pages: Vec<PageBuilder> = Vec::new();
        for newer in newer {
            let Ok(meta) = &newer.found.meta else { continue };
            let Some(mut draft) = newer.found.draft(&newer.name, meta, &self.wants) else {
                continue;
            };
            draft.linked = newer.linked;
            let full = |page: &PageBuilder| page.is_full_for(&newer.directory, &draft);
            if pages.last().is_none_or(full) {
                let number = before + pages.len() as u32;
                let (transfer, slicing) = (self.options.transfer, self.options.slicing);
                pages.push(PageBuilder::amending(transfer, number, round, slicing));
            }
            if let Some(page) = pages.last_mut() {
                page.push_amending(&newer.directory, &draft, newer.amends);
            }
        }
        let added = pages.len() as u32;
        for (number, page) in (before..).zip(pages) {
            let path = self.page_path(number);
            let encoded = page.seal().encode();
            self.write_fenced(&path, &encoded)
                .map_err(|cause| SourceError::manifest(&path, cause))?;
        }
        let mut state = self.lock();
        if added > 0 {
            let mut summary = state.summary.clone();
            summary.pages = before + added;
            summary.amending += added;
            self.write_end(&summary)?;
            state.sealed = summary.pages;
            state.summary = summary;
        }
        Ok(state.sealed)
    }

    /// Records durably that the scan is complete, with its summary.
    pub(super) fn write_end(&self, summary: &ScanSummary) -> Result<(), SourceError> {
        let path = self.directory.join("end");
        let text = serde_json::to_vec(summary).unwrap_or_default();
        self.write_fenced(&path, &text).map_err(|cause| SourceError::manifest(&path, cause))
    }
}

/// Returns whether the time stamps of a file system seem to count seconds or milliseconds. Two
/// versions of a file may then carry the same stamp (ext4 with small inodes, ext3, FAT, some
/// servers).
fn is_coarse(stamp: FileTime) -> bool {
    stamp.nanoseconds.is_multiple_of(1_000_000)
}

/// Returns whether `bytes` more may be read for this question, and counts them.
fn take(bytes_left: &mut u64, bytes: u64) -> bool {
    let enough = bytes <= *bytes_left;
    *bytes_left = bytes_left.saturating_sub(bytes);
    enough
}

/// Returns the attributes of a file if its bytes are those that were served.
fn is_as_served(source: &Source, dir: &Dir, leaf: &[u8], seen: &SeenEntry) -> Option<Meta> {
    let served = seen.blake3.as_ref()?;
    let file = source.open_read(dir, leaf).ok()?;
    let mut buffer = vec![0; STRIDE_BYTES_MAX as usize];
    let (digest, meta) = digest_of_file(&file, &mut buffer).ok()??;
    (digest.to_hex() == *served).then_some(meta)
}
