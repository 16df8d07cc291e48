//! Renewal of a task's grant, and the requests and returns of work under it (B1, B4).

use penstock_api::task::{LeaseStatus, Report};

use crate::task::context::TaskContext;
use crate::task::error::TaskError;
use crate::task::grant::Grant;

/// Renews the grant, if it is due. Ends the task if it no longer takes part. If the controller
/// answers although its known tenure has run out, the task can make no names: it ends, and can then
/// be started again (B4).
pub(crate) fn keep(shared: &TaskContext, grant: &Grant) {
    let asked = penstock_sys::boottime_now();
    if !grant.is_due(asked) {
        return;
    }
    match shared.control.alive() {
        LeaseStatus::Granted if shared.only_writes() && !shared.is_stopping() => {
            shared.broken(TaskError::TenureOver);
        }
        LeaseStatus::Granted => grant.renew(asked),
        LeaseStatus::Unheard => {}
        LeaseStatus::Over => shared.end(),
    }
}

/// Returns pieces of about `bytes` bytes that were not requested yet: another peer finishes them
/// sooner (B3).
pub(crate) fn give_back(shared: &TaskContext, bytes: u64) {
    if let Some(grant) = shared.share() {
        grant.note_given(penstock_sys::boottime_now());
    }
    let mut guard = shared.lock();
    let state = &mut *guard;
    for (piece, generation) in state.fetch.take_back(bytes) {
        shared.report(state, Report::Returned { piece, generation });
    }
}

/// Notes whether the controller gave nothing though something was wanted.
pub(crate) fn note_dry(shared: &TaskContext, wanted: u64, given: usize) {
    shared.lock().fetch.handle_dry(penstock_sys::boottime_now(), wanted > 0 && given == 0);
}

/// Returns how many bytes of work a task wants, and whether it asks at all.
pub(crate) fn wants(shared: &TaskContext) -> (u64, bool) {
    let now = penstock_sys::boottime_now();
    let (wanted, idle) = {
        let state = shared.lock();
        let leaves = shared.share().is_some_and(|grant| grant.has_just_given(now));
        let wanted = if leaves && state.fetch.has_queue() { 0 } else { state.fetch.wanted_bytes() };
        (wanted, state.fetch.is_idle())
    };
    let asks = wanted > 0 || shared.share().is_some_and(|grant| grant.is_to_ask(now, idle));
    if let Some(grant) = shared.share().filter(|_| asks) {
        grant.note_asked(now);
    }
    (wanted, asks)
}
