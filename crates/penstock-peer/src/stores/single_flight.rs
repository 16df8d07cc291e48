//! A mutex with a time limit, for operations that may block for ever in a hung store (E2).
//!
//! An abandoned request is sent again. Each repetition would wait for the first one, and one store
//! that hangs would occupy all threads for requests.

use std::time::Duration;

use penstock_sys::{Permit, Semaphore};

/// Longest wait for the permit, since the operation under way may take minutes.
const TURN_MAX: Duration = Duration::from_secs(60);

/// A mutex with a time limit, for operations that may block for ever in a hung store.
#[derive(Debug)]
pub(crate) struct SingleFlight(Semaphore);

/// An earlier operation is still under way. `scan-busy`, temporary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an earlier request {0} is still in progress at the source")]
pub(crate) struct Busy(&'static str);

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
    /// [`Busy`]: an earlier operation is still under way.
    pub(crate) fn take(&self, what: &'static str) -> Result<Flight<'_>, Busy> {
        self.take_within(TURN_MAX, what)
    }

    fn take_within(&self, most: Duration, what: &'static str) -> Result<Flight<'_>, Busy> {
        Permit::acquire_within(&self.0, most).ok_or(Busy(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E2: a caller that repeats a request while its first one hangs gets an error, and holds no
    /// thread.
    #[test]
    fn e2_nobody_waits_without_end_for_his_turn() {
        let turn = SingleFlight::default();
        let first = turn.take("to look").unwrap();
        let second = turn.take_within(Duration::from_millis(20), "to look").unwrap_err();
        assert_eq!(second, Busy("to look"));
        drop(first);
        turn.take("to look").unwrap();
    }
}
