//! Events of a run that do not end it.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use penstock_api::problem::Problem;

use super::RunControl;

/// The largest number of notes that wait for a reader; further ones are only logged.
const NOTES_MAX: usize = 64;

/// Notes that wait for a reader.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<Vec<Problem>>);

impl RunControl {
    /// Records a note.
    pub(super) fn note(&self, note: Problem) {
        tracing::warn!(code = note.code, problem = %note, "noted of a run");
        let mut notes = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES_MAX {
            notes.push(note);
        }
    }

    /// Marks the run as a test whether the target is still full. A peer that finds it full is no
    /// event then.
    pub fn expect_full(&self) {
        self.expects_full.store(true, Ordering::Release);
    }

    /// Returns whether the run only tests whether the target is still full.
    pub(super) fn expects_full(&self) -> bool {
        self.expects_full.load(Ordering::Acquire)
    }

    /// Returns the notes since the last call, in order.
    pub fn take_notes(&self) -> Vec<Problem> {
        std::mem::take(&mut self.notes.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
