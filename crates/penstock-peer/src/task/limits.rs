//! The number of lanes that a task may use under the limits of its transfer.

use std::time::Duration;

use penstock_api::limits::Share;
use penstock_api::task::TaskSpec;
use penstock_api::transfer::{Durability, LANES_MAX};
use penstock_engine::lanes::LaneLimits;
use penstock_proto::slicing::STRIDE_BYTES_MAX;
use penstock_store::Target;

use crate::task::reach::Reach;

/// Least number of lanes where files pass the page cache by (docs/design/0068).
const LANES_DIRECT: u32 = 4;
/// Under a limit of the rate there are so few lanes that each may receive a stride in this time.
const TURN: Duration = Duration::from_secs(4);

/// Returns the number of lanes at the start, and the largest. A lane waits while a disk writes or
/// reads a stride that passes the page cache by. Too few lanes would leave both cores and disks
/// idle. The other site's store is taken to be like the one here.
pub(crate) fn lane_limits(
    spec: &TaskSpec,
    share: &Share,
    reach: &Reach,
    target: &Target,
) -> LaneLimits {
    let workers = penstock_sys::available_cpus().clamp(1, 16) as u32;
    let writes = spec.durability != Durability::None && target.writes_directly();
    let reads = match reach {
        Reach::Local { source, .. } => source.reads_directly(),
        Reach::Remote { .. } => target.reads_directly(),
    };
    let workers = if writes || reads { workers.max(LANES_DIRECT) } else { workers };
    let lanes_max = if share.lanes_max == 0 { LANES_MAX } else { share.lanes_max };
    let lanes_max = match reach {
        Reach::Local { .. } => lanes_max.min(workers),
        Reach::Remote { .. } => lanes_max,
    };
    let (workers, lanes_max) =
        if share.lanes == 0 { (workers, lanes_max) } else { (share.lanes, share.lanes) };
    // Each lane gets its turn before it is taken for dead.
    let held = match share.rate_bytes_per_s() {
        0 => u64::MAX,
        rate => (rate * TURN.as_secs() / u64::from(STRIDE_BYTES_MAX)).max(1),
    };
    let held = u32::try_from(held).unwrap_or(u32::MAX);
    let (workers, lanes_max) = (workers.min(held), lanes_max.min(held));
    LaneLimits { workers, lanes_max, ..LaneLimits::default() }
}
