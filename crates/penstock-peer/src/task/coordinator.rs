//! The coordinator of a task: asks for work, hands over reports, dials and drains lanes.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_engine::fetch::LANE_SILENCE_MAX;
use penstock_engine::paths::PathAction;
use penstock_proto::units::Instant;
use penstock_sys::EventFd;

use crate::lane::paths;
use crate::lane::target_lane;
use crate::stores::errors::Cause;
use crate::task::context::TaskContext;
use crate::task::error::TaskError;
use crate::task::reach::Reach;
use crate::task::write_lease;

/// Reports the end of the lanes when it is dropped, after a panic too: the publisher waits for it.
struct LanesEnd<'a>(&'a TaskContext);

impl Drop for LanesEnd<'_> {
    fn drop(&mut self) {
        self.0.handle_lanes_ended();
    }
}

/// Runs the coordinator's loop.
pub(super) fn coordinate(shared: &Arc<TaskContext>) {
    let _span = tracing::info_span!("task", transfer = %shared.spec.transfer).entered();
    let lanes_end = LanesEnd(shared);
    let lanes = Mutex::new(Vec::new());
    while !shared.is_stopping() {
        shared.hang.lasts(penstock_sys::boottime_now());
        hand_over(shared);
        if let Some(grant) = &shared.grant {
            write_lease::keep(shared, grant);
        }
        let (wanted, asks) = write_lease::wants(shared);
        let mut given = 0;
        if asks {
            let reply = shared.control.want(wanted);
            given = reply.work.len();
            write_lease::note_dry(shared, wanted, given);
            if reply.give_back > 0 {
                write_lease::give_back(shared, reply.give_back);
            }
            if let Err(error) = shared.dispatch(reply.work, reply.flush) {
                shared.broken(error);
                break;
            }
        }
        tend_lanes(shared, &lanes);
        let state = shared.lock();
        let due = state.fetch.poll_timeout().is_some_and(|at| at <= penstock_sys::boottime_now());
        if due {
            state.wakers.values().for_each(|waker| waker.signal());
        }
        let patience = if given > 0 { Duration::from_millis(1) } else { TICK };
        let (mut state, _) = shared
            .wake
            .wait_timeout_while(state, patience, |state| !state.news)
            .unwrap_or_else(PoisonError::into_inner);
        state.news = false;
    }
    shared.notify_all();
    for closer in shared.lock().closers.values() {
        closer.shutdown();
    }
    let threads: Vec<JoinHandle<()>> =
        std::mem::take(&mut *lanes.lock().unwrap_or_else(PoisonError::into_inner));
    for thread in threads {
        let _ = thread.join();
    }
    drop(lanes_end);
    hand_over(shared);
}

/// Dials, drains and cuts lanes as the machines decide.
fn tend_lanes(shared: &Arc<TaskContext>, threads: &Mutex<Vec<JoinHandle<()>>>) {
    let now = penstock_sys::boottime_now();
    cut_silent_lanes(shared, now);
    if let Reach::Remote { dialer } = &shared.reach {
        paths::look(shared, dialer, now);
    }
    let (nothing_for, idle, most) = {
        let state = shared.lock();
        let most = if state.lanes.up() == 0 { NO_LANE_MAX } else { NOTHING_MAX };
        (now.since(state.moved), state.fetch.is_idle(), most)
    };
    if nothing_for >= most && !idle {
        let source = Cause(shared.lock().waiting.clone());
        shared.broken(TaskError::Stalled { seconds: nothing_for.as_secs(), source });
        return;
    }
    loop {
        let mut state = shared.lock();
        let idle = state.fetch.is_idle();
        match state.lanes.poll_action(now) {
            Some(PathAction::Dial(lane, path)) => {
                let waker = match EventFd::new() {
                    Ok(waker) => Arc::new(waker),
                    Err(cause) => {
                        state.lanes.handle_down(now, lane, true);
                        state.waiting = format!("cannot open a lane: {cause}");
                        return;
                    }
                };
                state.wakers.insert(lane, Arc::clone(&waker));
                drop(state);
                let spawned = target_lane::spawn(shared, (lane, path), waker);
                match spawned {
                    Ok(thread) => {
                        let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
                        threads.retain(|thread| !thread.is_finished());
                        threads.push(thread);
                    }
                    Err(cause) => {
                        if target_lane::is_none_left(shared, lane, threads, cause) {
                            return;
                        }
                    }
                }
            }
            Some(PathAction::Drain(lane)) => {
                state.fetch.handle_lane_draining(lane);
                if let Some(waker) = state.wakers.get(&lane) {
                    waker.signal();
                }
            }
            Some(PathAction::Cut(lane)) => {
                if let Some(closer) = state.closers.get(&lane) {
                    closer.shutdown();
                }
            }
            None => {
                if idle {
                    // An idle task does not wait for anything in vain.
                    state.moved = now;
                }
                return;
            }
        }
    }
}

/// Cuts the lanes that owe an answer and on which nothing has come for too long.
fn cut_silent_lanes(shared: &TaskContext, now: Instant) {
    let silent = shared.lock().fetch.poll_silent_lanes(now);
    for lane in silent {
        let mut state = shared.lock();
        let Some(closer) = state.closers.get(&lane) else { continue };
        let silence = closer.silence();
        // A lane that waits for the limit does not read: the silence is our own.
        if silence >= LANE_SILENCE_MAX && !shared.pace.is_in_debt() {
            tracing::warn!(lane = lane.0, "a lane is silent and is cut");
            closer.shutdown();
        } else {
            let heard = Instant(now.0.saturating_sub(silence.as_nanos() as u64));
            state.fetch.handle_heard(heard, lane);
            state.moved = state.moved.max(heard);
        }
    }
}

/// The coordinator looks around at least this often while there is work.
const TICK: Duration = Duration::from_millis(20);

/// Time without any byte, answer or successful dial after which the task fails. The controller
/// retries later (promise (f)).
const NOTHING_MAX: Duration = Duration::from_secs(300);

/// Longest time without progress while no lane is open. The next attempt asks the source which of
/// its peers are reachable.
const NO_LANE_MAX: Duration = Duration::from_secs(90);

/// Hands new reports to the controller.
pub(crate) fn hand_over(shared: &TaskContext) {
    let reports = {
        let mut state = shared.lock();
        state.tell_returned();
        std::mem::take(&mut state.reports)
    };
    if !reports.is_empty() {
        shared.kept.handle_reported(&reports);
        shared.control.report(reports);
    }
}
