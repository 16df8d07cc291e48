//! The worth of a measurement: marks of a step that was too short, and the time for which a result
//! holds.

use std::time::Duration;

use penstock_proto::benchmark::{BenchmarkMark, BenchmarkOperation, CacheState};

/// Age from which a result is stale.
pub const RESULT_AGE_MAX: Duration = Duration::from_secs(90 * 24 * 3600);
/// Least time of a step, in seconds.
const SECONDS_MIN: f64 = 5.0;
/// Least files or extents of each thread.
const UNITS_MIN: u64 = 16;
/// Multiple of a host's memory from which on its cache cannot hold the files.
const MEMORY_MULTIPLE: u64 = 2;
/// Largest share of a sample that may still be cached after the cache was dropped.
const CACHED_SHARE_MAX: f64 = 0.02;

/// The facts of a step that decide on its marks.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The operation.
    pub operation: BenchmarkOperation,
    /// Time from the barrier to the end of the first peer, in seconds.
    pub seconds: f64,
    /// Files or extents of the peer that had the fewest.
    pub units: u64,
    /// Threads of each peer.
    pub threads: u32,
    /// State of the reader's cache.
    pub cache: Option<CacheState>,
    /// Bytes that the peer with the fewest files read in one pass.
    pub bytes: u64,
    /// Memory of the host with the most, in bytes.
    pub memory_bytes: u64,
}

/// Returns the marks of a step, in order.
pub fn marks(of: &Measured) -> Vec<BenchmarkMark> {
    let is_short = of.seconds < SECONDS_MIN || of.units < UNITS_MIN * u64::from(of.threads.max(1));
    let is_cached = of.operation == BenchmarkOperation::Read
        && of.cache.unwrap_or(CacheState::Unknown) == CacheState::Unknown
        && of.bytes < of.memory_bytes.saturating_mul(MEMORY_MULTIPLE);
    let short = is_short.then_some(BenchmarkMark::Short);
    short.into_iter().chain(is_cached.then_some(BenchmarkMark::Cached)).collect()
}

/// Returns the state of a cache. `dropped` is true if the host dropped all its caches; `cached` is
/// the share of a sample that is still cached, if that is known.
pub fn cache_state(dropped: bool, cached: Option<f64>) -> CacheState {
    match cached {
        Some(share) if share > CACHED_SHARE_MAX => CacheState::Unknown,
        Some(_) if dropped => CacheState::Dropped,
        Some(_) => CacheState::Dontneed,
        None => CacheState::Unknown,
    }
}

/// The reason why a stored result no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// The result is older than [`RESULT_AGE_MAX`].
    Old,
    /// The store is on another file system now.
    OtherFileSystem,
}

/// Returns why a result of this age is stale; `None` if it is not. `fingerprints` are those of the
/// file system then and now; an empty one is not known.
pub fn staleness(age: Duration, fingerprints: (&str, &str)) -> Option<Staleness> {
    let (then, now) = fingerprints;
    if !then.is_empty() && !now.is_empty() && then != now {
        return Some(Staleness::OtherFileSystem);
    }
    (age > RESULT_AGE_MAX).then_some(Staleness::Old)
}

#[cfg(test)]
mod tests {
    use penstock_proto::units::GIB;

    use super::*;

    const LONG: Measured = Measured {
        operation: BenchmarkOperation::Read,
        seconds: 10.0,
        units: 64,
        threads: 4,
        cache: Some(CacheState::Dontneed),
        bytes: GIB,
        memory_bytes: 8 * GIB,
    };

    /// Promise: a step that was too short is marked, whatever the cause.
    #[test]
    fn short_steps_are_marked() {
        assert!(marks(&LONG).is_empty());
        assert_eq!(marks(&Measured { seconds: 4.9, ..LONG }), [BenchmarkMark::Short]);
        assert_eq!(marks(&Measured { units: 63, ..LONG }), [BenchmarkMark::Short]);
    }

    /// Promise: reads that a cache may have answered are never shown as the rate of the storage.
    #[test]
    fn cached_reads_are_marked() {
        let unknown = Measured { cache: Some(CacheState::Unknown), ..LONG };
        assert_eq!(marks(&unknown), [BenchmarkMark::Cached]);
        assert!(marks(&Measured { bytes: 16 * GIB, ..unknown }).is_empty());
        let write = Measured { operation: BenchmarkOperation::Write, cache: None, ..LONG };
        assert!(marks(&write).is_empty());
        assert_eq!(cache_state(false, Some(0.0)), CacheState::Dontneed);
        assert_eq!(cache_state(true, Some(0.01)), CacheState::Dropped);
        assert_eq!(cache_state(true, Some(0.5)), CacheState::Unknown);
        assert_eq!(cache_state(false, None), CacheState::Unknown);
    }

    /// Promise: an old result, and one of another file system, is not taken for a present one.
    #[test]
    fn results_become_stale() {
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(staleness(day, ("a", "a")), None);
        assert_eq!(staleness(day, ("a", "")), None);
        assert_eq!(staleness(day, ("a", "b")), Some(Staleness::OtherFileSystem));
        assert_eq!(staleness(day * 91, ("a", "a")), Some(Staleness::Old));
    }
}
