//! Open lanes as other threads see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use penstock_net::{LaneCloser, LaneStream};
use penstock_proto::units::Instant;

use crate::stores::pacer::Pacer;

/// An open lane as other threads see it, with the means to close it.
pub(crate) struct LaneHandle {
    pub(super) closer: LaneCloser,
    working: Arc<AtomicU64>,
    held: Arc<AtomicBool>,
    /// All segments that had come when that was last looked at, and those behind a lost one.
    seen: [AtomicU32; 2],
}

impl LaneHandle {
    /// Creates the handle of an open lane. The lane's thread shows in `working` when it works and
    /// when it waits for a limit.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn new(stream: &LaneStream, working: &Working) -> std::io::Result<Self> {
        let closer = stream.closer()?;
        // The segments of the handshake are no payload.
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

    /// Returns the segments that TCP has received since the last call.
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

/// Segments that TCP has received on some lanes within a period.
#[derive(Clone, Copy, Default)]
pub(super) struct Arrived {
    pub(super) segments: u64,
    /// Number of these segments that arrived while an earlier one was missing.
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

/// The activity of a lane's thread, for the threads that watch over it.
#[derive(Default)]
pub(crate) struct Working {
    /// Time at which the thread began its work on received bytes; 0 while it waits for more.
    since: Arc<AtomicU64>,
    /// Set while the thread waits for the rate limit.
    held: Arc<AtomicBool>,
}

impl Working {
    /// Notes that work begins.
    pub(crate) fn begin(&self) {
        self.since.store(penstock_sys::boottime_now().0, Ordering::Relaxed);
    }

    /// Notes that work has ended.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Takes bytes, and waits until they are paid; see [`Pacer::take_telling`].
    pub(crate) fn take(&self, pace: &Pacer, bytes: u64, tell: impl FnMut(Duration)) {
        self.held.store(true, Ordering::Relaxed);
        pace.take_telling(bytes, tell);
        self.held.store(false, Ordering::Relaxed);
    }
}

/// Time for one stride after which a lane counts as waiting for this host's storage.
const STUCK: Duration = Duration::from_millis(500);
