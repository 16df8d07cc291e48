//! The order in which transfers start, and the reason for which each other one waits.
//!
//! The decisions are those of [`penstock_engine::queue`], which knows neither threads nor records.
//! This module tells it what has changed since its last decision. It compares the table of
//! transfers with what the queue knows, so that no other part of the manager has to report.

use std::collections::HashMap;
use std::time::Instant;

use penstock_api::transfer::{TransferState, Waiting};
use penstock_cluster::state::{TransferRecord, Wish};
use penstock_engine::queue::{
    Hold, Limits, PRIORITY_DEFAULT, Queue, Request, UnixMs, Wait, WaitCode,
};
use penstock_proto::id::{Name, TransferId};

use super::live::Live;

/// The queue, and what it was told of each transfer.
pub(crate) struct Schedule {
    queue: Queue,
    known: HashMap<TransferId, Known>,
    /// The own site, which is no pair of a transfer.
    site: Name,
}

/// What the queue knows of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It waits, and may be held until then.
    Waiting(Option<(WaitCode, Instant)>),
    /// It runs, and has made so many bytes durable.
    Running(u64),
}

impl Schedule {
    pub(crate) fn new(site: Name, limits: Limits) -> Self {
        Self { queue: Queue::new(limits), known: HashMap::new(), site }
    }

    /// Runs this many transfers of the site at a time from now on, one more if it is short. Those
    /// that run already run on.
    pub(crate) fn set_running_max(&mut self, running_max: u32) {
        self.queue.handle_limits(Limits::of_site(running_max));
    }

    /// Returns the transfers to start now, first ones first. A cancelled one starts whatever the
    /// limits are, as its run only removes what is temporary.
    pub(crate) fn poll_starts(
        &mut self,
        live: &HashMap<TransferId, Live>,
        (now, now_ms): (Instant, UnixMs),
    ) -> Vec<TransferId> {
        let queue = &mut self.queue;
        self.known.retain(|id, _| live.contains_key(id) || !queue.handle_ended(*id));
        let mut starts = Vec::new();
        for (id, live) in live {
            if live.run.is_some() {
                self.see_running(*id, live, now_ms);
            } else if live.record.state != TransferState::Queued {
                self.forget(*id);
            } else if live.record.wish == Wish::Cancel {
                self.see_running(*id, live, now_ms);
                starts.push(*id);
            } else {
                self.see_waiting(*id, live, (now, now_ms));
            }
        }
        let decided = self.queue.poll_starts(now_ms);
        for id in &decided {
            let durable = live.get(id).map_or(0, |live| live.record.progress.bytes_durable);
            self.known.insert(*id, Known::Running(durable));
        }
        starts.extend(decided);
        starts
    }

    /// Returns the time of the next decision that needs no further event.
    pub(crate) fn poll_wake(&self, (now, now_ms): (Instant, UnixMs)) -> Option<Instant> {
        let due = self.queue.poll_wake(now_ms)?;
        Some(now + std::time::Duration::from_millis(due.saturating_sub(now_ms)))
    }

    /// Returns the reason for which a transfer waits; `None` if it does not.
    pub(crate) fn waiting(&self, id: TransferId, now_ms: UnixMs) -> Option<Waiting> {
        self.queue.wait(id, now_ms).map(view_of)
    }

    /// Returns up to `most` waiting transfers in the order in which they would start, with the
    /// reasons.
    pub(crate) fn order(&self, most: usize, now_ms: UnixMs) -> Vec<(TransferId, Waiting)> {
        let order = self.queue.order(most, now_ms).into_iter();
        order.map(|(id, wait)| (id, view_of(wait))).collect()
    }

    /// Numbers of waiting and of running transfers.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.queue.counts()
    }

    /// Has the queue learn anew what it knows of a waiting transfer, whose request was changed.
    pub(crate) fn forget(&mut self, id: TransferId) {
        if self.known.remove(&id).is_some() {
            self.queue.handle_ended(id);
        }
    }

    fn see_running(&mut self, id: TransferId, live: &Live, now_ms: UnixMs) {
        let durable = match &live.run {
            Some(run) => run.view().progress.bytes_durable,
            None => live.record.progress.bytes_durable,
        };
        if !matches!(self.known.get(&id), Some(Known::Running(_))) {
            self.known.insert(id, Known::Running(durable));
            self.queue.handle_running(request_of(&live.record, &self.site));
        }
        self.handle_durable(id, durable, now_ms);
    }

    /// Counts what a running transfer has made durable since the last call as served to its user.
    pub(crate) fn handle_durable(&mut self, id: TransferId, durable: u64, now_ms: UnixMs) {
        if let Some(Known::Running(before)) = self.known.get_mut(&id) {
            let bytes = durable.saturating_sub(*before);
            // A new attempt shows nothing until it has read its ledger.
            *before = durable.max(*before);
            if bytes > 0 {
                self.queue.handle_served(id, bytes, now_ms);
            }
        }
    }

    fn see_waiting(&mut self, id: TransferId, live: &Live, (now, now_ms): (Instant, UnixMs)) {
        let code = if live.full.is_some() { WaitCode::Room } else { WaitCode::Retry };
        let held = live.not_before.filter(|until| *until > now).map(|until| (code, until));
        let before = self.known.insert(id, Known::Waiting(held));
        if before == Some(Known::Waiting(held)) {
            return;
        }
        if !matches!(before, Some(Known::Waiting(_))) {
            self.queue.handle_submitted(request_of(&live.record, &self.site), now_ms);
        }
        let hold = held.map(|(code, until)| Hold {
            code,
            on: live.record.request.target.store.to_string(),
            // Rounded up, so that the hold is over when the thread wakes for it.
            until: Some(now_ms + (until - now).as_millis() as u64 + 1),
        });
        self.queue.handle_hold(id, hold, now_ms);
    }
}

fn view_of(wait: Wait) -> Waiting {
    Waiting {
        code: wait.code.as_str().to_owned(),
        since_ms: wait.since,
        until_ms: wait.until,
        on: wait.on,
        position: wait.position,
    }
}

/// Returns what the queue has to know of a transfer.
fn request_of(record: &TransferRecord, own: &Name) -> Request {
    let (source, target) = (&record.request.source, &record.request.target);
    let at_own = |site: &Name, store: &Name| (site == own).then(|| store.clone());
    let left = record.progress.bytes_found.saturating_sub(record.progress.bytes_durable);
    Request {
        id: record.id(),
        user: record.user_text(),
        group: String::new(),
        pair: (source.site != *own).then(|| source.site.clone()),
        source_store: at_own(&source.site, &source.store),
        target_store: at_own(&target.site, &target.store),
        priority: record.request.priority.unwrap_or(PRIORITY_DEFAULT),
        urgent: false,
        created: record.created * 1000,
        not_before: record.request.not_before.map(|seconds| seconds.saturating_mul(1000)),
        start_by: None,
        forecast_seconds: None,
        forecast_bytes: (record.progress.scan_complete && left > 0).then_some(left),
        nearly_done_items: nearly_done_items(record),
    }
}

/// Returns the items that are left of a transfer of which nine tenths are done.
fn nearly_done_items(record: &TransferRecord) -> Option<u64> {
    let progress = &record.progress;
    let is_nearly_done = progress.scan_complete
        && progress.bytes >= progress.bytes_found / 10 * 9
        && progress.files > 0;
    is_nearly_done.then(|| progress.files_found.saturating_sub(progress.files))
}
