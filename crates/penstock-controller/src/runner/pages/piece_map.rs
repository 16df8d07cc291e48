//! The piece map of a run: made from its ledger while it is at work, kept when it has ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use penstock_api::problem::Problem;
use penstock_api::rest::PieceMap;
use penstock_api::rest::piece_map::{
    BUCKETS_MAX, FILES_MAX, MapBasis, PATH_BYTES_MAX, PieceBuckets, PieceBytes, PieceFile,
};
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{PathText, Progress, TransferState};
use penstock_cluster::clock::now_ms;
use penstock_engine::page::shares::{Share, ShareBytes};
use penstock_engine::transfer::MapBucket;
use penstock_proto::name;

use crate::runner::journal::page_log::{failed_entries, listed_name};
use crate::runner::journal::{failed, write_lines};
use crate::runner::shared::RunShared;

/// Least age at which a map is made again.
const LEAST_AGE: Duration = Duration::from_secs(1);
/// The least age of a map, as a multiple of the time that its making took. So maps cost 0.5 % of a
/// CPU at most, for any number of pages and of requests.
const IDLE_FACTOR: u32 = 200;

/// Makes the map of a run while its ledger is in memory.
#[derive(Debug, Default)]
pub(crate) struct MapMaker {
    shared: Mutex<(Weak<RunShared>, PathText)>,
    /// The last map, and the time until which it is returned.
    last: Mutex<Option<(Instant, PieceMap)>>,
}

impl MapMaker {
    /// Begins with a round of the run, whose data set has this root at the target.
    pub(crate) fn begin(&self, shared: &Arc<RunShared>, root: &PathText) {
        let begun = (Arc::downgrade(shared), root.clone());
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    /// Returns the map of a run with this progress; `None` before the run has read its ledger.
    /// Blocks for some milliseconds at most, if the run has 10^9 files.
    pub(crate) fn map(&self, progress: &Progress) -> Option<PieceMap> {
        let (shared, root) = self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shared = shared.upgrade()?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        if let Some((_, map)) = last.as_ref().filter(|(until, _)| began < *until) {
            return Some(map.clone());
        }
        let map = map_of((&shared, &root), progress, MapBasis::Ledger);
        let next = Instant::now() + LEAST_AGE.max(began.elapsed() * IDLE_FACTOR);
        *last = Some((next, map.clone()));
        Some(map)
    }

    /// Returns the map at the end of a round.
    pub(crate) fn last_map(&self, shared: &RunShared, progress: &Progress) -> PieceMap {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let root = self.shared.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
        let mut map = map_of((shared, &root), progress, MapBasis::End);
        take_back(&mut map);
        map
    }
}

/// Keeps a map in the journal.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn keep_map(path: &Path, map: &PieceMap) -> Result<(), Problem> {
    let text = serde_json::to_vec(map).unwrap_or_default();
    write_lines(path, |out| out.write_all(&text).map_err(|cause| failed("write", path, &cause)))
}

/// Returns the map of a transfer of which only the totals are known: finished bytes come first.
pub fn piece_map_of_totals(progress: &Progress, state: TransferState) -> PieceMap {
    let found = progress.bytes_found;
    let done = match state {
        TransferState::Done => found,
        _ => (progress.bytes_durable + progress.bytes_skipped).min(found),
    };
    let count = BUCKETS_MAX.min(usize::try_from(found).unwrap_or(BUCKETS_MAX)).max(1);
    let start = |index: usize| {
        let start = u128::from(found) * index as u128 / count as u128;
        u64::try_from(start).unwrap_or(u64::MAX)
    };
    let mut buckets = PieceBuckets::default();
    for index in 0..count {
        let (from, to) = (start(index), start(index + 1));
        let done = done.clamp(from, to) - from;
        let left = to - from - done;
        let failures = if index == 0 { progress.errors } else { 0 };
        buckets.push(PieceBytes { done, left, ..PieceBytes::default() }, failures);
    }
    PieceMap {
        at: Timestamp::of_ms(now_ms()),
        basis: MapBasis::Totals,
        listed: progress.scan_complete,
        bytes: found,
        totals: PieceBytes { done, left: found - done, ..PieceBytes::default() },
        failures: progress.errors,
        buckets,
        files: Vec::new(),
    }
}

/// Counts the pieces that peers held at the end of a run as left: the next run asks for them again.
fn take_back(map: &mut PieceMap) {
    let take = |bytes: &mut PieceBytes| bytes.left += std::mem::take(&mut bytes.in_hand);
    take(&mut map.totals);
    map.files.iter_mut().for_each(|file| take(&mut file.bytes));
    for (in_hand, left) in map.buckets.in_hand.iter_mut().zip(&mut map.buckets.left) {
        *left += std::mem::take(in_hand);
    }
}

fn map_of(
    (shared, root): (&RunShared, &PathText),
    progress: &Progress,
    basis: MapBasis,
) -> PieceMap {
    // Links and directories are made, and files deleted, with all bytes in their place.
    let made = shared.machine().piece_map(progress.bytes_found, BUCKETS_MAX);
    let (mut buckets, mut totals, mut failures) = Default::default();
    for MapBucket { bytes, failures: failed } in made {
        add(&mut totals, bytes);
        failures += failed;
        PieceBuckets::push(&mut buckets, bytes_of(bytes), failed);
    }
    let totals = bytes_of(totals);
    let few = progress.scan_complete && progress.files_found <= FILES_MAX as u64;
    PieceMap {
        at: Timestamp::of_ms(now_ms()),
        basis,
        listed: progress.scan_complete,
        bytes: totals.sum(),
        totals,
        failures,
        buckets,
        files: if few { files_of(shared, root).unwrap_or_default() } else { Vec::new() },
    }
}

fn add(sum: &mut ShareBytes, bytes: ShareBytes) {
    sum.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
}

fn bytes_of(shares: ShareBytes) -> PieceBytes {
    let of = |share: Share| shares[share as usize];
    PieceBytes {
        done: of(Share::Done),
        written: of(Share::Written),
        in_hand: of(Share::InHand),
        again: of(Share::Again),
        failed: of(Share::Failed),
        left: of(Share::Left),
    }
}

/// Returns the files of the pages that are open or closed, the first ones only. A newer version, in
/// a page of a further round, takes the place of the older one.
///
/// # Errors
/// The journal cannot be read.
fn files_of(shared: &RunShared, root: &PathText) -> Result<Vec<PieceFile>, Problem> {
    let numbers = shared.machine().known_pages(FILES_MAX);
    let mut files = BTreeMap::new();
    let mut names = Vec::new();
    for number in numbers {
        let page = shared.read_page(number)?;
        let log = shared.journal().read_log(number, u64::MAX)?.0;
        let failed = failed_entries(&page, &log);
        let shares = shared.machine().file_shares(&page.page);
        for (entry, bytes) in shares {
            let Ok(of) = page.page.entry(entry) else { continue };
            let failed = failed.contains(&entry);
            let mut bytes = bytes_of(bytes);
            if failed {
                bytes = PieceBytes { failed: bytes.sum(), ..PieceBytes::default() };
            }
            let name = listed_name(&page.page, of, root);
            let file = PieceFile { path: short(&name), bytes, failed };
            if files.len() == FILES_MAX && !files.contains_key(&name) {
                break;
            }
            if files.insert(name.clone(), file).is_none() {
                names.push(name);
            }
        }
    }
    Ok(names.iter().filter_map(|name| files.remove(name)).collect())
}

/// Returns a path as text, without its middle if it is long.
fn short(path: &[u8]) -> String {
    let text = name::escape(path);
    if text.len() <= PATH_BYTES_MAX {
        return text;
    }
    let half = (PATH_BYTES_MAX - '…'.len_utf8()) / 2;
    let is_edge = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=half).rev().find(is_edge).unwrap_or_default();
    let tail = (text.len() - half..text.len()).find(is_edge).unwrap_or(text.len());
    format!("{}…{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: without a ledger the map has all bytes of the totals, finished bytes first, in
    /// buckets of equal size.
    #[test]
    fn totals_make_a_map() {
        let progress = Progress {
            bytes_found: 1_000_003,
            bytes_durable: 500_000,
            bytes_skipped: 1,
            scan_complete: true,
            errors: 3,
            ..Progress::default()
        };
        let map = piece_map_of_totals(&progress, TransferState::Failed);
        let sum = |column: &[u64]| column.iter().sum::<u64>();
        assert_eq!((sum(&map.buckets.done), sum(&map.buckets.left)), (500_001, 500_002));
        assert_eq!((map.buckets.done.len(), map.failures), (BUCKETS_MAX, 3));
        assert!(map.buckets.done[0] > 0 && map.buckets.left[0] == 0);
        let whole = piece_map_of_totals(&progress, TransferState::Done);
        assert_eq!((whole.totals.done, whole.totals.left), (1_000_003, 0));
        let mut map = map;
        (map.totals.in_hand, map.buckets.in_hand[3]) = (7, 7);
        let (left, third) = (map.totals.left, map.buckets.left[3]);
        take_back(&mut map);
        assert_eq!((map.totals.in_hand, map.totals.left), (0, left + 7));
        assert_eq!((map.buckets.in_hand[3], map.buckets.left[3]), (0, third + 7));
        let none = piece_map_of_totals(&Progress::default(), TransferState::Queued);
        assert_eq!((none.bytes, none.buckets.left.len()), (0, 1));
    }

    /// Promise: a long path keeps its begin and its end, and is cut between characters.
    #[test]
    fn a_long_path_loses_its_middle() {
        assert_eq!(short(b"a/b"), "a/b");
        let long = format!("run7/{}/frame.h5", "ü".repeat(200));
        let text = short(long.as_bytes());
        assert!(text.len() <= PATH_BYTES_MAX, "{text}");
        assert!(text.starts_with("run7/ü") && text.ends_with("ü/frame.h5") && text.contains('…'));
    }
}
