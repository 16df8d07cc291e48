//! A daemon that does not answer for a while, as during its restart.

use std::mem;
use std::time::{Duration, Instant};

use penstock_exit::{self as exit, ExitCode};

use super::stall::SHOWN_AFTER;

/// Longest time without an answer of the daemon. A restart takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);
/// Wait before a daemon that did not answer is asked again.
const AGAIN: Duration = Duration::from_millis(300);

/// The time in which a daemon has not answered.
#[derive(Debug)]
pub(super) struct Outage {
    since: Instant,
    is_shown: bool,
}

impl Outage {
    /// Returns the time that begins with the last answer.
    pub(super) fn since(answered: Instant) -> Self {
        Self { since: answered, is_shown: false }
    }

    /// Handles an error of a request, and returns the wait before the next one. Prints the error
    /// once, if the daemon has not answered for some seconds.
    ///
    /// # Errors
    /// The error is not temporary, or the daemon has not answered for ten minutes.
    pub(super) fn handle(&mut self, error: anyhow::Error) -> anyhow::Result<Duration> {
        let silent = self.since.elapsed();
        if exit::code_of(&error) != ExitCode::Temporary || silent >= PATIENCE {
            return Err(error);
        }
        if silent >= SHOWN_AFTER && !mem::replace(&mut self.is_shown, true) {
            let seconds = PATIENCE.as_secs();
            exit::warn(&format!("{error:#}: waiting for {seconds} s at most"));
        }
        Ok(AGAIN)
    }
}

/// Repeats a request until the daemon answers, for ten minutes at most; `wait` waits between two
/// requests. The request has to bear a repetition.
///
/// # Errors
/// The answer of the daemon; the error of `wait`.
pub(crate) fn patiently<T>(
    wait: impl Fn(Duration) -> anyhow::Result<()>,
    mut ask: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut outage = Outage::since(Instant::now());
    loop {
        match ask() {
            Err(error) => wait(outage.handle(error)?)?,
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_exit::Failure;

    use super::*;

    fn failure(code: ExitCode) -> anyhow::Error {
        Failure::new(code, "no daemon answers").into()
    }

    /// Promise: a daemon that does not answer now is asked again; a refusal, and the end of the
    /// wait, come back at once.
    #[test]
    fn only_a_silent_daemon_is_asked_again() {
        let mut answers = vec![Ok(7), Err(failure(ExitCode::Temporary))];
        let answer = patiently(|_| Ok(()), || answers.pop().unwrap());
        assert_eq!((answer.unwrap(), answers.len()), (7, 0));
        let refused =
            patiently::<()>(|_| panic!("a refusal is final"), || Err(failure(ExitCode::Refused)));
        assert_eq!(exit::code_of(&refused.unwrap_err()), ExitCode::Refused);
        let interrupted = patiently::<()>(
            |_| Err(failure(ExitCode::Interrupted)),
            || Err(failure(ExitCode::Temporary)),
        );
        assert_eq!(exit::code_of(&interrupted.unwrap_err()), ExitCode::Interrupted);
    }

    /// Promise: the wait for a daemon ends after ten minutes, with the error of its last request.
    #[test]
    fn a_daemon_is_not_waited_for_for_ever() {
        let Some(long_ago) = Instant::now().checked_sub(PATIENCE) else { return };
        let mut outage = Outage::since(long_ago);
        let error = outage.handle(failure(ExitCode::Temporary)).unwrap_err();
        assert!(error.to_string().contains("no daemon answers"), "{error:#}");
    }
}
