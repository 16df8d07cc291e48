//! What happens in a run and is worth an event, though the run goes on.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use penstock_api::problem::Problem;

use super::RunControl;

/// Notes that nobody has taken yet; further ones are in the log alone.
const NOTES_MAX: usize = 64;

/// Notes that wait to be told.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<Vec<Problem>>);

impl RunControl {
    /// Takes note of something.
    pub(super) fn note(&self, note: Problem) {
        tracing::warn!(code = note.code, problem = %note, "noted of a run");
        let mut notes = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES_MAX {
            notes.push(note);
        }
    }

    /// It is tried again whether the target is full still: that a peer finds it so is no news.
    pub fn expect_full(&self) {
        self.expects_full.store(true, Ordering::Release);
    }

    /// Whether that is so.
    pub(super) fn expects_full(&self) -> bool {
        self.expects_full.load(Ordering::Acquire)
    }

    /// What was noted since the last call, in order.
    pub fn take_notes(&self) -> Vec<Problem> {
        std::mem::take(&mut self.notes.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
