//! The part of the controller: its transfers and their queue.

use std::sync::Arc;

use penstock_api::webhook::DeliveryResult::{self, Delivered, Failed, GivenUp};
use penstock_controller::manager::ManagerFigures;
use penstock_engine::queue::WaitCode;

use super::table::{
    ATTEMPTS_ENDED, ATTEMPTS_RUNNING, EVENT_LISTENERS, EVENT_RESETS, EVENTS, FAILED_ITEMS,
    LAST_DONE, QUEUE_LENGTH, QUEUE_WAIT, RETRIES, TRANSFER_DURABLE, TRANSFER_ERRORS,
    TRANSFER_FAILURES, TRANSFER_FILES, TRANSFER_FOUND, TRANSFER_LANES, TRANSFERS, TRANSFERS_ENDED,
    WEBHOOK_DELIVERIES, WEBHOOK_WAITING,
};
use super::{Part, Samples};
use crate::cluster::member::Member;

/// Returns the part. If another peer is the controller, the part has no samples.
pub(crate) fn part(member: Arc<Member>) -> Part {
    Part::new("transfers", move |samples| {
        if let Some(controller) = member.controller() {
            add(samples, &controller.manager.figures());
            let (attempts, waiting) = member.parts.webhooks.figures();
            for result in [Delivered, Failed, GivenUp].map(DeliveryResult::as_str) {
                let count = attempts.get(result).copied().unwrap_or_default();
                samples.count(&WEBHOOK_DELIVERIES, &[result], count);
            }
            samples.count(&WEBHOOK_WAITING, &[], waiting);
        }
    })
}

fn add(samples: &mut Samples, figures: &ManagerFigures) {
    for state in ["queued", "running", "paused"] {
        let count = figures.states.get(state).copied().unwrap_or_default();
        samples.count(&TRANSFERS, &[state], count);
    }
    let outcomes = &figures.outcomes;
    for state in ["done", "failed", "cancelled"] {
        let count = outcomes.ended.get(state).copied().unwrap_or_default();
        samples.count(&TRANSFERS_ENDED, &[state], count);
    }
    samples.count(&ATTEMPTS_RUNNING, &[], figures.attempts);
    samples.count(&ATTEMPTS_ENDED, &[], outcomes.attempts);
    samples.count(&FAILED_ITEMS, &[], outcomes.failed_items);
    for (family, by_code) in
        [(&TRANSFER_FAILURES, &outcomes.failures), (&RETRIES, &outcomes.retries)]
    {
        for (code, count) in by_code {
            samples.count(family, &[code], *count);
        }
    }
    if let Some(at) = outcomes.last_done {
        samples.count(&LAST_DONE, &[], at);
    }
    for code in WaitCode::ALL {
        let wait = figures.waiting.get(code.as_str()).copied().unwrap_or_default();
        samples.count(&QUEUE_LENGTH, &[code.as_str()], wait.transfers);
        samples.add(&QUEUE_WAIT, &[code.as_str()], wait.longest.as_secs_f64());
    }
    samples.count(&EVENTS, &[], figures.events.events);
    samples.count(&EVENT_LISTENERS, &[], figures.events.readers as u64);
    samples.count(&EVENT_RESETS, &[], figures.events.resets);
    for running in &figures.running {
        let (id, progress) = (running.id.to_string(), &running.progress);
        let labels = [id.as_str(), running.source.as_str()];
        samples.count(&TRANSFER_DURABLE, &labels, progress.bytes_durable);
        samples.count(&TRANSFER_FOUND, &labels, progress.bytes_found);
        samples.count(&TRANSFER_FILES, &labels, progress.files);
        samples.count(&TRANSFER_ERRORS, &labels, progress.errors);
        samples.count(&TRANSFER_LANES, &labels, progress.lanes.into());
    }
}
