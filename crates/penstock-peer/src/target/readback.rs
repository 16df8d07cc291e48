//! Reads the files that a transfer has made: from storage to prove them (`--readback`), and to
//! compute checksums for catalogues, which do not merge over the extents of lanes.
//!
//! Every pass compares with the ledger's digests too, so that a checksum is reported only for
//! verified bytes. It runs when everything is durable, page by page, with a few threads for each
//! page. The threads share the split files of a page, unless checksums need them in order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use penstock_api::proof::{PageProof, ProofProgress, ProofRequest};
use penstock_api::task::TaskPage;
use penstock_proto::compared::EntrySet;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::journal::{DigestForm, EntryDigest, EntryFailure, FailurePhase};
use penstock_proto::manifest::{Entry, Page};
use penstock_store::checksum::Checksums;
use penstock_store::{ReadBackFile, ReadFile, Step, StoreError, Target};
use penstock_sys::buffer::BufferPool;

use crate::source::read::place;
use crate::stores::chain;
use crate::stores::errors::StoreFault;
use crate::stores::worker_pool;
use crate::task::error::TaskError;
use crate::verify::hashing::TreeHash;

/// Most threads that read a page's files.
const WORKERS_MAX: usize = 8;

/// The context that the threads of one page share.
pub(crate) struct Readback<'a> {
    pub(crate) target: &'a Target,
    /// Root of the data set within the store.
    pub(crate) root: &'a [u8],
    pub(crate) kind: DigestKind,
    pub(crate) pool: &'a BufferPool,
}

/// A file, or an extent of it.
struct Unit {
    /// Index in the request's digests.
    file: usize,
    extent: Option<u64>,
}

/// A file that several threads read.
struct Split {
    tree: TreeHash,
    /// Told already: damaged, or failed.
    broken: AtomicBool,
}

enum Reader {
    Cached(ReadFile),
    Storage(ReadBackFile),
}

impl Reader {
    fn read(&mut self, at: u64, length: usize, buffer: &mut [u8]) -> Result<usize, StoreError> {
        match self {
            Self::Cached(file) => file.read_at(at, &mut buffer[..length]),
            Self::Storage(file) => file.read_at(at, length, buffer),
        }
    }

    fn is_direct(&self) -> bool {
        matches!(self, Self::Storage(file) if file.is_direct())
    }
}

/// The state in which a file or a part of it was found.
enum Found {
    Right {
        direct: bool,
    },
    /// The content differs from the written bytes.
    Damaged,
    /// The content differs from the written bytes, and the file was changed since.
    Changed,
    /// The decision lies with another part of the file.
    Part,
}

impl Readback<'_> {
    /// Reads the files of a page again; blocks.
    ///
    /// # Errors
    /// The store is at fault, or the error passes: nothing is known of the page.
    pub(crate) fn prove(&self, request: &ProofRequest<'_>) -> Result<PageProof, TaskError> {
        let units = self.units(request);
        let splits: Vec<OnceLock<Split>> =
            request.digests.iter().map(|_| OnceLock::new()).collect();
        let (proof, failed) = (Mutex::new(PageProof::default()), OnceLock::new());
        let next = AtomicUsize::new(0);
        let workers = penstock_sys::available_cpus().clamp(2, WORKERS_MAX).min(units.len());
        worker_pool::at_once(workers, &|| {
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                if request.progress.is_stopped() || failed.get().is_some() {
                    return;
                }
                if let Err(error) = self.unit(request, unit, &splits, &proof) {
                    let _ = failed.set(error);
                }
            }
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let mut proof = proof.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A file that was left in its middle may have been the last.
        proof.stopped |= request.progress.is_stopped();
        proof.checksums.sort_unstable_by_key(|(entry, _)| *entry);
        proof.damaged.sort_unstable();
        Ok(proof)
    }

    /// Returns the files of a page whose BLAKE3 is the given one, in hex; `None` if it was stopped.
    /// Blocks for a read of all of them.
    ///
    /// # Errors
    /// As [`Readback::prove`].
    pub(crate) fn same_contents(
        &self,
        page: &Page,
        digests: &[(u32, String)],
        progress: &ProofProgress,
    ) -> Result<Option<EntrySet>, TaskError> {
        let of_hex = |(entry, hex): &(u32, String)| {
            let digest = Digest::from_hex(hex)?;
            Some(EntryDigest { entry: *entry, form: DigestForm::Standard, digest, seen: None })
        };
        let digests: Vec<EntryDigest> = digests.iter().filter_map(of_hex).collect();
        let page = TaskPage {
            page: Arc::new(page.clone()),
            digest: Digest::default(),
            left: Arc::default(),
        };
        let (digests, also) = (digests.as_slice(), &[][..]);
        let request = ProofRequest { page: &page, digests, readback: false, also, progress };
        let proof = self.prove(&request)?;
        if proof.stopped {
            return Ok(None);
        }
        let other = proof.failures.iter().map(|failure| failure.entry);
        let other: BTreeSet<u32> = other.chain(proof.damaged.iter().copied()).collect();
        let all = digests.iter().map(|digest| digest.entry);
        Ok(Some(all.filter(|entry| !other.contains(entry)).collect()))
    }

    fn units(&self, request: &ProofRequest<'_>) -> Vec<Unit> {
        let mut units = Vec::new();
        for (file, digest) in request.digests.iter().enumerate() {
            // A file without a standard digest was asked for without any proof.
            if digest.form == DigestForm::Sparse {
                continue;
            }
            let Ok(entry) = request.page.page.entry(digest.entry) else { continue };
            let count = request.page.page.slicing.extent_count(entry.size);
            if count == 1 || !request.also.is_empty() {
                units.push(Unit { file, extent: None });
            } else {
                units.extend((0..count).map(|extent| Unit { file, extent: Some(extent) }));
            }
        }
        units
    }

    fn unit(
        &self,
        request: &ProofRequest<'_>,
        unit: &Unit,
        splits: &[OnceLock<Split>],
        proof: &Mutex<PageProof>,
    ) -> Result<(), TaskError> {
        let digest = &request.digests[unit.file];
        let page = &request.page.page;
        let Ok(entry) = page.entry(digest.entry) else { return Ok(()) };
        let tree = || TreeHash::new(self.kind, &page.slicing, entry.size);
        let split = unit.extent.map(|_| {
            splits[unit.file].get_or_init(|| Split { tree: tree(), broken: AtomicBool::new(false) })
        });
        let mut checksums = None;
        let outcome = match (split, unit.extent) {
            (Some(split), Some(_)) if split.broken.load(Ordering::Acquire) => Ok(Found::Part),
            (Some(split), Some(extent)) => {
                let extents = extent..extent + 1;
                self.read(request, digest, entry, &split.tree, extents, None)
            }
            _ => {
                let (tree, mut sums) = (tree(), Checksums::new(request.also));
                let extents = 0..tree.count();
                let found = self.read(request, digest, entry, &tree, extents, Some(&mut sums));
                checksums = Some(sums);
                found
            }
        };
        if matches!(outcome, Ok(Found::Part)) {
            return Ok(());
        }
        if let Err(error) = &outcome
            && let Some(fault) = self.of_no_file(error)
        {
            return Err(fault.into());
        }
        let right = matches!(outcome, Ok(Found::Right { .. }));
        if !right && split.is_some_and(|split| split.broken.swap(true, Ordering::AcqRel)) {
            return Ok(());
        }
        let mut proof = lock(proof);
        match outcome {
            Ok(Found::Right { direct }) => {
                let sums = checksums.map(Checksums::finish).unwrap_or_default();
                proof.add(digest.entry, entry.size, direct, &sums);
            }
            Ok(Found::Damaged) => proof.damaged.push(digest.entry),
            Ok(Found::Changed) => {
                let (entry, phase) = (digest.entry, FailurePhase::ReadBack);
                proof.failures.push(EntryFailure { entry, phase, errno: 0 });
            }
            Ok(Found::Part) => {}
            Err(error) => note_error(&mut proof, digest.entry, &error),
        }
        Ok(())
    }

    /// Returns the fault behind an error that proves nothing about a file: it passes, or concerns
    /// the store or the way to it. In the latter case another peer may be able to read the file.
    fn of_no_file(&self, error: &StoreError) -> Option<StoreFault> {
        let on_the_way = error.is_io_failure() && !error.is_bad_medium();
        let fault = StoreFault::of(self.target, error);
        fault.or_else(|| on_the_way.then(|| StoreFault::of_store(error)))
    }

    /// Reads extents of one file, and compares the file with its digest after its last extent.
    fn read(
        &self,
        request: &ProofRequest<'_>,
        digest: &EntryDigest,
        entry: &Entry,
        tree: &TreeHash,
        extents: std::ops::Range<u64>,
        mut checksums: Option<&mut Checksums>,
    ) -> Result<Found, StoreError> {
        let (parent, leaf) = place(self.root, &request.page.page, entry);
        let dir = self.target.open_dir(&parent)?;
        let (mut reader, meta) = if request.readback {
            let file = self.target.open_read_back(&dir, &leaf)?;
            let meta = file.meta()?;
            (Reader::Storage(file), meta)
        } else {
            let file = self.target.open_read(&dir, &leaf)?;
            let meta = file.meta()?;
            (Reader::Cached(file), meta)
        };
        let ours = dir.has_time(&meta, entry.mtime, Step::EXACT);
        let mut found: Option<Digest> = None;
        let mut whole = meta.size == entry.size;
        let mut buffer = self.pool.take();
        for extent in extents {
            if !whole || request.progress.is_stopped() {
                break;
            }
            let read = |at, length, buffer: &mut [u8]| reader.read(at, length, buffer);
            whole = tree.hash(extent, &mut buffer, read, |bytes| {
                request.progress.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                if let Some(checksums) = &mut checksums {
                    checksums.update(bytes);
                }
            })?;
            if whole {
                found = tree.end_extent();
            }
        }
        if whole && found.is_none() {
            return Ok(Found::Part);
        }
        if whole && found == Some(digest.digest) {
            return Ok(Found::Right { direct: reader.is_direct() });
        }
        if ours {
            return Ok(Found::Damaged);
        }
        Ok(Found::Changed)
    }
}

/// Notes an error of reading. A file that the disk does not deliver, or that is gone, is damaged;
/// one that this process may not read is not.
fn note_error(proof: &mut PageProof, entry: u32, error: &StoreError) {
    tracing::warn!(error = %chain(error), "a file cannot be read back");
    if error.is_absent() || error.is_bad_medium() {
        return proof.damaged.push(entry);
    }
    let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
    proof.failures.push(EntryFailure { entry, phase: FailurePhase::ReadBack, errno });
}

fn lock(proof: &Mutex<PageProof>) -> std::sync::MutexGuard<'_, PageProof> {
    proof.lock().unwrap_or_else(PoisonError::into_inner)
}
