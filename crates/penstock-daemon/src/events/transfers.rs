//! Events of transfers and their problems, as a manager reports them.

use std::sync::Arc;

use penstock_api::rest::{Event, TransferEvent};
use penstock_api::transfer::TransferState;
use penstock_controller::manager::{Manager, NextEvent};

use super::log::EventLog;

/// Transfers of which the last state is remembered.
const TRANSFERS_MAX: usize = 4096;

impl EventLog {
    fn see_transfer(&self, event: &TransferEvent) {
        let state = event.state.as_str();
        // The wait of a running transfer changes all the time; a problem has an event of its own. A
        // reason that counts down is the same one until the next attempt.
        let reason = match event.state {
            TransferState::Running => "",
            _ => event.reason.split("; next attempt").next().unwrap_or_default(),
        };
        let text = if reason.is_empty() { state.to_owned() } else { format!("{state}: {reason}") };
        {
            let mut inner = self.lock();
            if inner.said.get(&event.id) == Some(&text) {
                return;
            }
            if inner.said.len() >= TRANSFERS_MAX {
                inner.said.clear();
            }
            inner.said.insert(event.id, text.clone());
        }
        self.add("transfer", &event.id.to_string(), Some(event.id), &text);
    }

    fn see_event(&self, event: &Event) {
        match event {
            Event::Status(status) | Event::Summary(status) => self.see_transfer(status),
            // The ring sends no resets of its own.
            Event::Reset => {}
            Event::Error(error) => {
                let text = error.problem.to_string();
                self.add("problem", error.problem.code.as_str(), Some(error.id), &text);
            }
        }
    }

    /// Takes note of a manager's transfers until that ends.
    pub(crate) fn follow_transfers(self: &Arc<Self>, manager: &Manager) {
        let (log, mut events) = (Arc::clone(self), manager.events());
        tokio::spawn(async move {
            loop {
                match events.next().await {
                    Some(NextEvent::Event(_, told)) => log.see_event(&told.event),
                    Some(NextEvent::Missed) => {
                        log.add("missed", "transfers", None, "events of transfers were missed");
                    }
                    None => return,
                }
            }
        });
    }
}
