//! Events of a run that do not end it.

use std::sync::{Mutex, PoisonError};

use penstock_api::problem::Problem;

/// The largest number of events that wait for a reader; further ones are only logged.
const WARNINGS_MAX: usize = 64;

/// Events that wait for a reader.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<Problem>>);

impl Warnings {
    /// Adds an event, and logs it.
    pub(crate) fn add(&self, warning: Problem) {
        tracing::warn!(code = %warning.code, problem = %warning, "a run warns");
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < WARNINGS_MAX {
            warnings.push(warning);
        }
    }

    /// Returns the events since the last call, in order.
    pub(crate) fn take(&self) -> Vec<Problem> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
