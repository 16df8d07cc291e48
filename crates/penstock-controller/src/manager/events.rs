//! The events of a manager, for its observers.

use std::sync::Arc;

use penstock_api::problem::Problem;
use penstock_api::rest::{EVENT_VERSION, ErrorEvent, Event};
use penstock_api::transfer::TransferReport;
use penstock_proto::id::{Name, TransferId};

use super::event_ring::{EventFigures, EventId, EventReader, EventRing};

/// The sender of all events.
#[derive(Clone, Debug)]
pub(super) struct TransferEvents {
    ring: Arc<EventRing>,
}

impl TransferEvents {
    pub(super) fn new() -> Self {
        Self { ring: Arc::new(EventRing::new(rand::random())) }
    }

    /// Returns a reader of all events after one that was read before; of all from now on if that is
    /// `None`.
    pub(super) fn reader(&self, after: Option<EventId>) -> EventReader {
        self.ring.reader(after)
    }

    pub(super) fn figures(&self) -> EventFigures {
        self.ring.figures()
    }

    /// Reports the state of a transfer.
    pub(super) fn tell(&self, view: &TransferReport) {
        self.ring.add(view.owner.clone(), Event::of(view));
    }

    /// Reports the states of several transfers at the same time.
    pub(super) fn tell_all(&self, views: &[TransferReport]) {
        if !views.is_empty() {
            self.ring.add_all(views.iter().map(|view| (view.owner.clone(), Event::of(view))));
        }
    }

    /// Reports a problem of a transfer of this user.
    pub(super) fn tell_problem(&self, id: TransferId, owner: Option<Name>, problem: &Problem) {
        let problem = problem.clone();
        self.ring
            .add(owner, Event::Error(ErrorEvent { v: EVENT_VERSION, id, problem: problem.into() }));
    }
}
