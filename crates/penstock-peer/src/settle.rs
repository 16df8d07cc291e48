//! Files that several hosts have written are given their times late (hard case B2).
//!
//! A client of a distributed file system may tell its server of the end of a write after fsync(2)
//! and close(2) have returned, and that moves the time of modification: MooseFS 3.0.117 was seen to
//! do so for 1.6 s (docs/design/0025). The host that finishes the file would set the time before,
//! through its own client, and a later comparison by time would find another one. So it waits.

use std::time::Duration;

use penstock_io::store::DurabilityMethod;

use crate::task::Shared;

/// How long after its last bytes were reported durable a file is left alone.
const SETTLE: Duration = Duration::from_millis(2500);

impl Shared {
    /// How long to wait before a large file is finished: not at all where this host has written all
    /// of it, or where all hosts see one clock and one cache.
    pub(crate) fn settles_in(&self) -> Duration {
        let late = |method: &DurabilityMethod| match method {
            DurabilityMethod::Fsync(kind) => kind.is_network(),
            _ => false,
        };
        let shared = self.spec.grant.is_some();
        match shared && self.tree.target.durability().iter().any(late) {
            true => SETTLE,
            false => Duration::ZERO,
        }
    }
}
