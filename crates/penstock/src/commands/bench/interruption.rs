//! The signals that end a benchmark in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use penstock_exit::{self as exit, ExitCode, Failure};
use rustix::process::{Signal, getpid, kill_process};

use crate::signals::{self, Ending, USUAL};

/// How often a wait looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Whether the user has asked for the end.
#[derive(Clone, Debug)]
pub(crate) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// There is no thread, or no handler can be set.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let asked = Self(Arc::default());
        let flag = Arc::clone(&asked.0);
        signals::watch(&USUAL, move |ending| {
            flag.store(true, Ordering::Relaxed);
            if ending != Ending::Interrupt {
                // A stream of events ends at once by SIGINT alone. A process may signal itself.
                let _ = kill_process(getpid(), Signal::INT);
            }
        })?;
        Ok(asked)
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if the user has asked for the end.
    ///
    /// # Errors
    /// Exit 130.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.is_asked() { Err(interrupted()) } else { Ok(()) }
    }

    /// Waits.
    ///
    /// # Errors
    /// As [`Interruption::check`], at once.
    pub(crate) fn sleep(&self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }
}

/// Returns the error of a benchmark that was ended by a signal.
pub(crate) fn interrupted() -> anyhow::Error {
    Failure::new(ExitCode::Interrupted, "interrupted").into()
}

/// Adds a hint to the error of an interruption, and to no other error.
pub(crate) fn with_hint(error: anyhow::Error, hint: &str) -> anyhow::Error {
    match exit::code_of(&error) {
        ExitCode::Interrupted => {
            Failure::new(ExitCode::Interrupted, format!("{error:#}")).hint(hint).into()
        }
        _ => error,
    }
}
