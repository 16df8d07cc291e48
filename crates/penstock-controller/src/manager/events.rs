//! The events of a manager, for whoever watches.

use penstock_api::problem::Problem;
use penstock_api::rest::{EVENT_VERSION, ErrorEvent, Event};
use penstock_api::transfer::TransferView;
use penstock_proto::id::TransferId;
use tokio::sync::broadcast;

/// Events that a slow reader may lag behind before it loses the oldest.
const EVENTS_MAX: usize = 1024;

/// The sender of all events.
#[derive(Clone, Debug)]
pub(super) struct TransferEvents {
    sender: broadcast::Sender<Event>,
}

impl TransferEvents {
    pub(super) fn new() -> Self {
        Self { sender: broadcast::channel(EVENTS_MAX).0 }
    }

    /// Returns a receiver of all events from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }

    /// Reports the state of a transfer.
    pub(super) fn tell(&self, view: &TransferView) {
        // No reader is no error.
        let _ = self.sender.send(Event::of(view));
    }

    /// Reports a problem of a transfer.
    pub(super) fn tell_problem(&self, id: TransferId, problem: &Problem) {
        let problem = problem.clone();
        let event = Event::Error(ErrorEvent { v: EVENT_VERSION, id, problem });
        let _ = self.sender.send(event);
    }
}
