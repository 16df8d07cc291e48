//! The end of a task, also while one of its threads hangs (E2), and the reasons for which it waits
//! until then.

use std::thread::JoinHandle;
use std::time::Duration;

use penstock_engine::fetch::LANE_SILENCE_MAX;
use penstock_proto::units::Instant;

use crate::task::context::{STOP_PATIENCE, TaskContext, TaskState};
use crate::task::error::TaskError;

/// Time after which a thread that is still in a system call is abandoned.
const HUNG_PATIENCE: Duration = Duration::from_secs(20);
/// Divisor of the grant's duration. A publisher whose call has shown no sign of life for that long
/// is abandoned.
const HUNG_OF_GRANT: u32 = 3;
/// Divisor of that time, for the other threads to finish their work.
const LEAVE_OF_HUNG: u32 = 4;
/// A silence that is shown to the user: of the source, and of the target's store.
const SILENCE_SHOWN: Duration = Duration::from_secs(3);
const HANG_SHOWN: Duration = Duration::from_secs(10);
const SHOWN_OF_GRANT: u32 = 4;

/// Waits for the threads of a stopping task. A thread that does not end is abandoned: from then on
/// it makes no name and begins no write. Until it has ended, its store gets no new work from this
/// host.
pub(crate) fn wait_for(shared: &TaskContext, threads: Vec<JoinHandle<()>>) {
    let begun = penstock_sys::boottime_now();
    let mut left = Vec::new();
    for thread in threads {
        while !thread.is_finished() && !is_given_up(shared, begun) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if thread.is_finished() {
            let _ = thread.join();
        } else {
            left.push(thread);
        }
    }
    if left.is_empty() {
        return;
    }
    // The call in which each of its threads hangs repeats written bytes, or meets a name that does
    // not exist (B1).
    shared.forbid();
    let store = &shared.spec.store;
    tracing::error!(%store, "a store hangs: a thread of a stopped task is left behind");
    shared.control.broken(TaskError::Hangs(store.clone()).into());
    shared.stores.leave_behind(store, left);
}

fn is_given_up(shared: &TaskContext, begun: Instant) -> bool {
    let now = penstock_sys::boottime_now();
    let waited = now.since(begun);
    let grant = shared.spec.grant.map_or(HUNG_PATIENCE, |grant| grant / HUNG_OF_GRANT);
    let hung = grant.min(HUNG_PATIENCE);
    let hangs = waited >= hung / LEAVE_OF_HUNG && shared.hang.lasts(now) >= hung;
    hangs || waited >= STOP_PATIENCE + HUNG_PATIENCE
}

/// Returns the object of the task's wait. This is the last recorded reason, the silence of the
/// source, or the time for which its store has not answered (promise (f)).
pub(crate) fn waiting_of(
    shared: &TaskContext,
    state: &TaskState,
    local: bool,
    now: Instant,
) -> String {
    let hangs = shared.hang.lasts(now);
    let shown = shared.spec.grant.map_or(HANG_SHOWN, |grant| grant / SHOWN_OF_GRANT);
    if hangs >= shown.min(HANG_SHOWN) && !hangs.is_zero() {
        let (store, seconds) = (&shared.spec.store, hangs.as_secs());
        return format!(
            "store `{store}` has not answered for {seconds} s: its server or disk hangs"
        );
    }
    let silent = now.since(state.moved);
    let paced = shared.pace.is_in_debt();
    if !state.waiting.is_empty() || state.fetch.is_idle() || paced || silent < SILENCE_SHOWN {
        return state.waiting.clone();
    }
    let seconds = silent.as_secs();
    if local {
        return format!("the source store has given nothing for {seconds} s");
    }
    let most = LANE_SILENCE_MAX.as_secs();
    format!("nothing has come from the source for {seconds} s; a silent lane is cut after {most} s")
}
