//! Open lanes as other threads see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use penstock_io::net::{LaneCloser, LaneStream};
use penstock_io::sys;
use penstock_proto::units::Instant;

use crate::stores::pacer::Pacer;

/// What other threads see of an open lane, and may do to it.
pub(crate) struct LaneHandle {
    pub(super) closer: LaneCloser,
    working: Arc<AtomicU64>,
    held: Arc<AtomicBool>,
    /// All segments that had come when that was last looked at, and those behind a lost one.
    seen: [AtomicU32; 2],
}

impl LaneHandle {
    /// Of an open lane, whose thread tells by `working` when it works, or waits for a limit.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn new(stream: &LaneStream, working: &Working) -> std::io::Result<Self> {
        let closer = stream.closer()?;
        // What it took to open it is no payload.
        let seen = closer.segments().unwrap_or_default();
        let seen = [AtomicU32::new(seen.all), AtomicU32::new(seen.behind)];
        let (held, working) = (Arc::clone(&working.held), Arc::clone(&working.since));
        Ok(Self { closer, working, held, seen })
    }

    /// See [`LaneCloser::shutdown`].
    pub(crate) fn shutdown(&self) {
        self.closer.shutdown();
    }

    /// See [`LaneCloser::silence`].
    pub(crate) fn silence(&self) -> Duration {
        self.closer.silence()
    }

    /// What TCP has received since this was last asked.
    pub(super) fn arrived(&self) -> Arrived {
        let Some(now) = self.closer.segments() else { return Arrived::default() };
        let since = |last: &AtomicU32, now: u32| {
            u64::from(now.wrapping_sub(last.swap(now, Ordering::Relaxed)))
        };
        let segments = since(&self.seen[0], now.all);
        let behind = since(&self.seen[1], now.behind);
        Arrived { segments, behind, bytes: segments * u64::from(now.bytes) }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        let since = self.working.load(Ordering::Relaxed);
        since > 0 && now.since(Instant(since)) >= STUCK
    }
}

/// What TCP has received of some lanes in a while.
#[derive(Clone, Copy, Default)]
pub(super) struct Arrived {
    pub(super) segments: u64,
    /// Those of them that came while an earlier one was missing.
    pub(super) behind: u64,
    /// About so many bytes.
    pub(super) bytes: u64,
}

impl Arrived {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            segments: self.segments + other.segments,
            behind: self.behind + other.behind,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// What the thread of a lane does.
#[derive(Default)]
pub(crate) struct Working {
    /// Since when it works on what has come; 0 while it waits for more.
    since: Arc<AtomicU64>,
    /// Whether it waits until a limit of the rate lets it go on.
    held: Arc<AtomicBool>,
}

impl Working {
    /// It begins.
    pub(crate) fn begin(&self) {
        self.since.store(sys::boottime_now().0, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Takes bytes, and waits until they are paid.
    pub(crate) fn take(&self, pace: &Pacer, bytes: u64) {
        self.held.store(true, Ordering::Relaxed);
        pace.take(bytes);
        self.held.store(false, Ordering::Relaxed);
    }
}

/// A lane that takes longer than this for one stride waits for this host's storage.
const STUCK: Duration = Duration::from_millis(500);
