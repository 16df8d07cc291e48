//! A mutex with a time limit, for operations that may block for ever in a hung store (E2).
//!
//! An abandoned request is sent again. Each repetition would wait for the first one, and one store
//! that hangs would occupy all threads for requests.

use std::time::Duration;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_sys::{Permit, Semaphore};

/// Longest wait for the permit, since the operation under way may take minutes.
const TURN_MAX: Duration = Duration::from_secs(60);

/// A mutex with a time limit, for operations that may block for ever in a hung store.
#[derive(Debug)]
pub(crate) struct SingleFlight(Semaphore);

/// The permit, which is returned on drop.
pub(crate) type Flight<'a> = Permit<&'a Semaphore>;

impl Default for SingleFlight {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl SingleFlight {
    /// Waits for the permit for at most a minute. `what` names the operation, for the error.
    ///
    /// # Errors
    /// `scan-busy`, temporary: an earlier operation is still under way.
    pub(crate) fn take(&self, what: &str) -> Result<Flight<'_>, Problem> {
        self.take_within(TURN_MAX, what)
    }

    fn take_within(&self, most: Duration, what: &str) -> Result<Flight<'_>, Problem> {
        Permit::acquire_within(&self.0, most).ok_or_else(|| {
            let title = format!("an earlier request {what} is still in progress at the source");
            Problem::new(ProblemCode::ScanBusy, title)
                .hint("if this persists, the source store hangs: check its disk or server")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::problem::Exit;

    /// E2: who asks again while his first request hangs is told so, and keeps no thread.
    #[test]
    fn e2_nobody_waits_without_end_for_his_turn() {
        let turn = SingleFlight::default();
        let first = turn.take("to look").unwrap();
        let second = turn.take_within(Duration::from_millis(20), "to look").unwrap_err();
        assert_eq!((&second.code, second.exit), (&ProblemCode::ScanBusy, Exit::Temporary));
        drop(first);
        turn.take("to look").unwrap();
    }
}
