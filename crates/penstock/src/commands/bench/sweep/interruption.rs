//! The signals that end a sweep in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use penstock_exit::{ExitCode, Failure};
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// How often a wait looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Whether the user has asked for the end.
#[derive(Clone, Debug)]
pub(super) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Catches SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// There is no thread, or no handler can be set.
    pub(super) fn catch() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let asked = Self(Arc::default());
        let (mut interrupt, mut terminate) = {
            let _inside = runtime.enter();
            let caught = |kind| signal(kind).context("cannot set up waiting for signals");
            (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?)
        };
        let flag = Arc::clone(&asked.0);
        let wait = move || {
            let is_terminated = runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => false,
                    _ = terminate.recv() => true,
                }
            });
            flag.store(true, Ordering::Relaxed);
            if is_terminated {
                // A stream of events ends at once by SIGINT alone. A process may signal itself.
                let _ = kill_process(getpid(), Signal::INT);
            }
        };
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(wait)
            .map_err(Failure::no_thread)?;
        Ok(asked)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if the user has asked for the end.
    ///
    /// # Errors
    /// Exit 130.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.is_asked() { Err(interrupted()) } else { Ok(()) }
    }

    /// Waits.
    ///
    /// # Errors
    /// As [`Interruption::check`], at once.
    pub(super) fn sleep(&self, time: Duration) -> anyhow::Result<()> {
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

/// Returns the error of a sweep that was ended by a signal.
pub(super) fn interrupted() -> anyhow::Error {
    Failure::new(ExitCode::Interrupted, "interrupted")
        .hint("the same command continues, and repeats the cell that was running")
        .into()
}
