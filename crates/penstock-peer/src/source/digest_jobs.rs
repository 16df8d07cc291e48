//! Digests of files that a target wants to compare with its own (`--compare digest`).
//!
//! Each request has threads of its own, while the target polls its progress. A job that is not
//! polled for [`FORGOTTEN`] ends. A restarted source starts again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::scan::{DigestWish, WishedDigests};
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_proto::slicing::STRIDE_BYTES_MAX;
use penstock_store::{Meta, ReadFile, Source, StoreError};

use crate::source::error::SourceError;
use crate::source::read::place;
use crate::source::read_check::is_same;
use crate::stores::chain;
use crate::stores::worker_pool;
use crate::verify::hashing::TreeHash;

/// Number of jobs kept for one data set: the one at work, and the one whose answer may be lost.
const KEPT: usize = 2;
/// Time without a question after which a request for digests is dropped.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Most threads that work on one.
const WORKERS_MAX: usize = 8;

/// The digest jobs of one data set.
#[derive(Default)]
pub(crate) struct DigestJobs(Mutex<Vec<Arc<Job>>>);

struct Job {
    wish: DigestWish,
    state: Mutex<JobState>,
    wake: Condvar,
}

struct JobState {
    found: Option<WishedDigests>,
    asked: Instant,
}

impl Job {
    fn lock(&self) -> std::sync::MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_forgotten(&self) -> bool {
        self.lock().asked.elapsed() > FORGOTTEN
    }
}

impl DigestJobs {
    /// Returns the digests, if they are ready within `wait`. `page` is the page that the request
    /// names.
    ///
    /// # Errors
    /// No thread can be started, or the request does not fit the page.
    pub(crate) fn get(
        &self,
        source: Source,
        root: &[u8],
        page: Page,
        wish: &DigestWish,
        wait: Duration,
    ) -> Result<Option<WishedDigests>, SourceError> {
        let files = wish
            .entries
            .iter()
            .all(|index| page.entry(*index).is_ok_and(|entry| entry.kind == EntryKind::File));
        if !files || wish.entries.len() > page.entries().len() {
            return Err(SourceError::NoFilesWished);
        }
        let job = self.job(source, root, page, wish)?;
        let mut state = job.lock();
        state.asked = Instant::now();
        let waited = job.wake.wait_timeout_while(state, wait, |state| state.found.is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Ok(state.found.clone())
    }

    fn job(
        &self,
        source: Source,
        root: &[u8],
        page: Page,
        wish: &DigestWish,
    ) -> Result<Arc<Job>, SourceError> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.retain(|job| !job.is_forgotten());
        if let Some(job) = jobs.iter().find(|job| job.wish == *wish) {
            return Ok(Arc::clone(job));
        }
        let state = Mutex::new(JobState { found: None, asked: Instant::now() });
        let job = Arc::new(Job { wish: wish.clone(), state, wake: Condvar::new() });
        let (at_work, root) = (Arc::clone(&job), root.to_vec());
        std::thread::Builder::new()
            .name("hash".to_owned())
            .spawn(move || {
                let found = hash_files(&source, &root, &page, &at_work);
                at_work.lock().found = Some(found);
                at_work.wake.notify_all();
            })
            .map_err(SourceError::thread)?;
        if jobs.len() >= KEPT {
            jobs.remove(0);
        }
        jobs.push(Arc::clone(&job));
        Ok(job)
    }
}

/// A file that several threads read.
struct Shared {
    tree: TreeHash,
    /// Attributes of the file when the first thread opened it.
    meta: Meta,
    broken: AtomicBool,
}

/// Hashes the files of a request, large ones in extents by several threads.
fn hash_files(source: &Source, root: &[u8], page: &Page, job: &Job) -> WishedDigests {
    let wish = &job.wish.entries;
    let mut units = Vec::new();
    for (slot, index) in wish.iter().enumerate() {
        let entry = &page.entries()[*index as usize];
        units.extend((0..page.slicing.extent_count(entry.size).max(1)).map(|at| (slot, at)));
    }
    let shared: Vec<OnceLock<Shared>> = wish.iter().map(|_| OnceLock::new()).collect();
    let found = Mutex::new(vec![None; wish.len()]);
    let next = AtomicUsize::new(0);
    let workers = penstock_sys::available_cpus().clamp(1, WORKERS_MAX).min(units.len());
    worker_pool::at_once(workers, &|| {
        let mut buffer = vec![0; STRIDE_BYTES_MAX as usize];
        while let Some((slot, extent)) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            if job.is_forgotten() {
                return;
            }
            let entry = &page.entries()[wish[*slot] as usize];
            let opened = open(source, root, page, entry);
            let hashed = opened.and_then(|file| {
                hash_extent(&file, page, entry, &shared[*slot], *extent, &mut buffer)
            });
            match hashed {
                Ok(None) => {}
                Ok(Some(digest)) => {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found[*slot] = Some(digest.to_hex());
                }
                Err(error) => {
                    if let Some(shared) = shared[*slot].get() {
                        shared.broken.store(true, Ordering::Release);
                    }
                    tracing::debug!(error = %chain(&error), "a file cannot be hashed");
                }
            }
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn open(source: &Source, root: &[u8], page: &Page, entry: &Entry) -> Result<ReadFile, StoreError> {
    let (parent, leaf) = place(root, page, entry);
    source.open_read(&source.open_dir(&parent)?, &leaf)
}

/// Hashes an extent. Returns the digest of the file, if this was its last extent and all are of the
/// page's version.
fn hash_extent(
    file: &ReadFile,
    page: &Page,
    entry: &Entry,
    shared: &OnceLock<Shared>,
    extent: u64,
    buffer: &mut [u8],
) -> Result<Option<Digest>, StoreError> {
    let meta = file.meta_read_to(entry.size, true)?;
    let shared = shared.get_or_init(|| Shared {
        tree: TreeHash::new(DigestKind::Blake3, &page.slicing, entry.size),
        meta,
        broken: AtomicBool::new(false),
    });
    let read = |at, length, buffer: &mut [u8]| file.read_at(at, &mut buffer[..length]);
    let whole = is_same(entry, &meta) && shared.tree.hash(extent, buffer, read, |_| {})?;
    let after = file.meta_read_to(entry.size, true)?;
    let same = whole && is_same(entry, &after) && after.ctime == shared.meta.ctime;
    shared.broken.fetch_or(!same, Ordering::AcqRel);
    let digest = shared.tree.end_extent();
    Ok(digest.filter(|_| !shared.broken.load(Ordering::Acquire)))
}
