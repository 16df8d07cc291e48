//! Counts the bytes of one lane.

use std::time::Duration;

use penstock_proto::id::LaneId;
use penstock_proto::units::Instant;

use crate::task::context::TaskContext;

/// Counts a lane's bytes and reports them to the task at intervals. No stride then takes a lock or
/// writes a cache line that other threads read.
pub(crate) struct ByteTally {
    lane: LaneId,
    bytes: u64,
    told: Instant,
}

impl ByteTally {
    pub(crate) fn new(lane: LaneId) -> Self {
        Self { lane, bytes: 0, told: penstock_sys::boottime_now() }
    }

    /// Adds payload bytes of a lane that has carried `carried` bytes in all.
    pub(crate) fn add(&mut self, shared: &TaskContext, bytes: u64, carried: u64) {
        self.bytes += bytes;
        let now = penstock_sys::boottime_now();
        if self.bytes >= TELL_BYTES || now.since(self.told) >= TELL_INTERVAL {
            self.told = now;
            shared.count_bytes(self.lane, std::mem::take(&mut self.bytes), carried);
        }
    }

    /// Reports the remaining bytes at the end of a request.
    pub(crate) fn flush(&mut self, shared: &TaskContext, carried: u64) {
        if self.bytes > 0 {
            shared.count_bytes(self.lane, std::mem::take(&mut self.bytes), carried);
        }
    }
}

/// Bytes after which a lane reports to the task.
const TELL_BYTES: u64 = 8 * 1024 * 1024;

/// Time after which a lane reports in any case, far below the silence for which a lane is cut.
const TELL_INTERVAL: Duration = Duration::from_millis(250);
