//! What goes back to the controller: pieces that another peer does sooner, and all that is in hand
//! when a sync has failed.

use penstock_api::task::{Report, Work};

use crate::task::{Shared, State};

impl Shared {
    /// The first of an answer has come, and is written now.
    pub(crate) fn handle_begun(&self, request: u32) {
        self.lock().fetch.handle_begun(request);
    }
}

impl State {
    /// A sync has failed: all that is in hand goes back, for what was written of it may be lost
    /// (A4). To be called after the failure itself was reported.
    pub(crate) fn return_all(&mut self) {
        self.held.clear();
        let mut returned = self.fetch.handle_sync_failed();
        self.chores.retain(|chore| match chore {
            Work::Recheck { piece, generation, .. } => {
                returned.push((*piece, *generation));
                false
            }
            _ => true,
        });
        let report = |(piece, generation)| Report::Returned { piece, generation };
        self.reports.extend(returned.into_iter().map(report));
    }

    /// Tells what of that a lane was still writing, and does no more (B3).
    pub(crate) fn tell_returned(&mut self) {
        let returned = self.fetch.take_returned().into_iter();
        let report = |(piece, generation)| Report::Returned { piece, generation };
        self.reports.extend(returned.map(report));
    }
}
