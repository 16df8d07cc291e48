//! The records of the attempt at work.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::problem::Problem;
use penstock_api::rest::FlightKind;
use penstock_cluster::clock::now_ms;

use super::file::FlightFile;
use super::ring::{Decision, FlightRing};

/// Time after which a decision that has a record of its own is written.
const WRITE_NEW: Duration = Duration::from_secs(5);
/// Time after which counts are written.
const WRITE_COUNTS: Duration = Duration::from_secs(60);

/// Work that a peer got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    /// Number of answers with work.
    pub(crate) count: u64,
    /// Pieces in them.
    pub(crate) pieces: u64,
    /// Bytes of these pieces, at most: a piece counts as 64 KiB at least.
    pub(crate) bytes: u64,
}

/// The count of a single decision that grants nothing.
const ONCE: Grants = Grants { count: 1, pieces: 0, bytes: 0 };

/// Records the decisions about one transfer. Without a file, as in a copy on one host, the records
/// stay in memory.
#[derive(Debug, Default)]
pub(crate) struct FlightRecorder(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    ring: FlightRing,
    attempt: u32,
    file: Option<FlightFile>,
    /// Time of the first decision since the last write that has a record of its own.
    new_since: Option<Instant>,
    /// Time of the first repetition since the last write.
    counted_since: Option<Instant>,
    /// Set while the file cannot be written, so that the log has that once.
    is_failing: bool,
}

impl FlightRecorder {
    /// Begins the records of an attempt, behind those of earlier ones. Blocks for the reading of
    /// the file.
    pub(crate) fn begin(&self, file: FlightFile, attempt: u32) {
        let earlier = file.read();
        let mut inner = self.lock();
        *inner =
            Inner { ring: FlightRing::of(earlier), attempt, file: Some(file), ..Inner::default() };
    }

    /// Records a decision. `peer` is empty if it is about the whole transfer.
    pub(crate) fn add(&self, kind: FlightKind, peer: &str, text: &str) {
        self.record(kind, (peer, ""), ONCE, text);
    }

    /// Records a decision that follows from a problem.
    pub(crate) fn add_problem(&self, kind: FlightKind, peer: &str, problem: &Problem, text: &str) {
        self.record(kind, (peer, problem.code.as_str()), ONCE, text);
    }

    /// Records work that a peer got.
    pub(crate) fn add_grants(&self, peer: &str, grants: Grants) {
        if grants.count > 0 {
            self.record(FlightKind::Grant, (peer, ""), grants, "it got work");
        }
    }

    fn record(
        &self,
        kind: FlightKind,
        (peer, code): (&str, &str),
        Grants { count, pieces, bytes }: Grants,
        text: &str,
    ) {
        let (at_ms, mut inner) = (now_ms(), self.lock());
        let attempt = inner.attempt;
        let decision = Decision { at_ms, attempt, kind, peer, code, count, pieces, bytes, text };
        let is_new = inner.ring.add(decision) && kind != FlightKind::Grant;
        let since = if is_new { &mut inner.new_since } else { &mut inner.counted_since };
        since.get_or_insert_with(Instant::now);
    }

    /// Writes the records if that is due. Blocks for a small file.
    pub(crate) fn write_if_due(&self) {
        let is_over = |since: Option<Instant>, most| since.is_some_and(|at| at.elapsed() >= most);
        let inner = self.lock();
        let is_due =
            is_over(inner.new_since, WRITE_NEW) || is_over(inner.counted_since, WRITE_COUNTS);
        drop(inner);
        if is_due {
            self.write();
        }
    }

    /// Writes the records that were made since the last write. Blocks for a small file.
    pub(crate) fn write(&self) {
        let mut inner = self.lock();
        let is_changed = inner.new_since.is_some() || inner.counted_since.is_some();
        let Some(file) = inner.file.as_ref().filter(|_| is_changed) else { return };
        match file.write(inner.ring.records()) {
            Ok(()) => {
                (inner.new_since, inner.counted_since) = (None, None);
                inner.is_failing = false;
            }
            Err(error) => {
                if !inner.is_failing {
                    let path = file.path().display();
                    tracing::warn!(%error, %path, "decisions are not written; it is tried again");
                }
                // The next try is as far away as the first one was.
                let now = Instant::now();
                inner.new_since = inner.new_since.map(|_| now);
                inner.counted_since = inner.counted_since.map(|_| now);
                inner.is_failing = true;
            }
        }
    }

    /// Returns the words of all records, for tests.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<(FlightKind, String)> {
        let inner = self.lock();
        inner.ring.records().map(|record| (record.kind, record.text.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::fence::Fence;

    use super::*;

    /// Promise: a later attempt, also of another controller, finds the decisions of earlier ones; a
    /// reader does not lose records that are only in memory.
    #[test]
    fn records_outlive_an_attempt() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flights/1.jsonl");
        let file = || FlightFile::new(path.clone(), Fence::default());
        let first = FlightRecorder::default();
        first.begin(file(), 1);
        first.add(FlightKind::Phase, "", "moving");
        first.write_if_due();
        assert!(!path.exists(), "it is not due");
        first.lock().new_since = Instant::now().checked_sub(WRITE_NEW);
        first.write_if_due();
        assert_eq!(file().read().len(), 1, "a decision is written in time");
        first.add_grants("h1", Grants { count: 2, pieces: 5, bytes: 70 });
        first.add_grants("h1", Grants::default());
        first.write();
        let second = FlightRecorder::default();
        second.begin(file(), 2);
        second.add(FlightKind::Phase, "", "moving");
        second.write();
        let read = file().read();
        let told: Vec<_> =
            read.iter().map(|it| (it.attempt, it.kind, it.count, it.bytes)).collect();
        let expected = [
            (1, FlightKind::Phase, 1, 0),
            (1, FlightKind::Grant, 2, 70),
            (2, FlightKind::Phase, 1, 0),
        ];
        assert_eq!(told, expected);
    }

    /// Promise: records that cannot be written are kept, leave no file of their own, and are
    /// written once that is possible.
    #[test]
    fn a_failed_write_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flights/1.jsonl");
        let recorder = FlightRecorder::default();
        recorder.begin(FlightFile::new(path.clone(), Fence::default()), 1);
        recorder.add(FlightKind::Phase, "", "moving");
        // A directory in the place of the file: nothing can be renamed onto it.
        std::fs::create_dir_all(path.join("in the way")).unwrap();
        recorder.write();
        assert!(recorder.lock().is_failing);
        let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "the unfinished file");
        std::fs::remove_dir_all(&path).unwrap();
        recorder.write();
        assert!(!recorder.lock().is_failing);
        assert_eq!(FlightFile::new(path, Fence::default()).read().len(), 1);
    }
}
