//! Late times for files that several hosts have written (hard case B2).
//!
//! A client of a distributed file system may report the time of a write to its server after
//! fsync(2) and close(2) have returned. The client of MooseFS 3.0.117 reports it each second,
//! twice, so for 2 s. The server takes that time if it is later than its own
//! (`fs_send_amtime_inodes`, `fs_amtime_update`; docs/design/0025). The host that finishes the file
//! would set the time before that, through its own client, and a later comparison by time would
//! find a difference. Every such host therefore waits, the controller's own included.

use std::time::Duration;

use penstock_store::DurabilityMethod;

use crate::write::target_tree::TargetTree;

/// Time for which a file is left alone after its last bytes were reported durable. It is the 2 s
/// above and the delay of a busy host.
const SETTLE: Duration = Duration::from_millis(3500);

/// Returns how long a large file waits before it is finished. There is no wait at a site of one
/// daemon without etcd, nor where all hosts share one clock and one cache. The number of writers of
/// the file does not matter: a site with etcd and one peer waits as well.
pub(crate) fn settle_time(tree: &TargetTree) -> Duration {
    let late = |method: &DurabilityMethod| match method {
        DurabilityMethod::Fsync(kind) => kind.is_network(),
        _ => false,
    };
    match tree.is_shared() && tree.target.durability().iter().any(late) {
        true => SETTLE,
        false => Duration::ZERO,
    }
}
