//! Turns written bytes into files: syncs, renames, links, attributes, re-checks.
//!
//! One thread does this in the order of the epoch machine and the controller. Where a batch has
//! several directories, further threads rename files beside it (`batch`). Every step is idempotent,
//! because a crash may repeat it. A temporary name may be gone while the final name has the size
//! and time of the manifest: that file was renamed before (A6).

mod batch;
mod links;
pub(crate) mod mtime_settle;
pub(crate) mod name_races;
mod publisher;
mod recheck;
mod renamer;
mod sync;
mod taken_names;

use penstock_engine::epoch::EpochAction;
use penstock_net::LaneWork;
use penstock_proto::time_use::{Activity, TimeUse};
use publisher::{Next, Publisher};
use renamer::Renamer;

use crate::lane::thread_time::{ThreadTime, TimeKeeper};
use crate::publish::name_races::NameWaits;
use crate::task::context::TaskContext;

/// Runs until the task stops and its writes are durable, or its patience is over.
pub(crate) fn run(shared: &TaskContext) {
    let _observed = shared.hang.observe(0);
    let time = ThreadTime::default();
    let mut keeper = TimeKeeper::new(&time);
    let mut publisher = Publisher {
        shared,
        renamer: Renamer::new(shared, time.clone()),
        waits: NameWaits::default(),
        failed_syncs: shared.incarnation.failed_syncs,
    };
    loop {
        let next = time.measure(Activity::Idle, || publisher.next());
        if !matches!(next, Next::End) {
            shared.hang.step();
        }
        match next {
            Next::Chore(chore) => {
                time.measure_rest(Activity::Publish, || publisher.chore(chore));
            }
            Next::Action(EpochAction::Sync { epoch }) => {
                time.measure(Activity::Sync, || publisher.sync(epoch));
            }
            Next::Action(EpochAction::Publish { pieces }) => {
                time.measure_rest(Activity::Publish, || publisher.publish(&pieces));
            }
            Next::End => return,
        }
        shared.add_publisher_time(&keeper.settle(LaneWork::default(), &TimeUse::default()));
        shared.hang.rest();
    }
}
