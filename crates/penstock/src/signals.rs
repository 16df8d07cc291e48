//! Signals that ask a command to end in order.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;

use anyhow::Context as _;
use penstock_exit::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that asks for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// SIGINT, as by Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal has gone.
    HangUp,
    /// SIGQUIT.
    Quit,
}

impl Ending {
    fn kind(self) -> SignalKind {
        match self {
            Self::Interrupt => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
            Self::HangUp => SignalKind::hangup(),
            Self::Quit => SignalKind::quit(),
        }
    }
}

/// The signals by which a user or a service manager ends a command.
pub(crate) const USUAL: [Ending; 3] = [Ending::Interrupt, Ending::Terminate, Ending::HangUp];

/// Signals that are caught from now on, and do not end the process any more.
pub(crate) struct Endings(Vec<(Ending, Signal)>);

impl Endings {
    /// Catches some signals. Needs a runtime around it. A hang-up that the parent has this process
    /// ignore, as nohup(1) does, stays ignored.
    ///
    /// # Errors
    /// No handler can be set.
    pub(crate) fn catch(wanted: &[Ending]) -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let keeps = |ending: &&Ending| **ending != Ending::HangUp || !ignores_hang_up(&status);
        let caught = wanted.iter().filter(keeps);
        let caught = caught.map(|ending| Ok((*ending, signal(ending.kind())?)));
        caught.collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next one of them.
    pub(crate) async fn next(&mut self) -> Ending {
        poll_fn(|context| {
            for (ending, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*ending);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Catches some signals, and calls `then` at the first one, on a thread of its own. Further ones do
/// nothing.
///
/// # Errors
/// No handler can be set; the host has no room for a thread.
pub(crate) fn watch(
    wanted: &[Ending],
    then: impl FnOnce(Ending) + Send + 'static,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot set up waiting for signals")?;
    let mut endings = {
        let _inside = runtime.enter();
        Endings::catch(wanted).context("cannot wait for signals")?
    };
    let wait = move || then(runtime.block_on(endings.next()));
    let started = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    started.map_err(Failure::no_thread)?;
    Ok(())
}

/// Returns a flag that one of the [`USUAL`] signals raises. A second signal does nothing more: what
/// is under way has to be undone.
///
/// # Errors
/// As [`watch`].
pub(crate) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let raised = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&raised);
    watch(&USUAL, move |_| flag.store(true, Ordering::Release))?;
    Ok(raised)
}

/// Returns whether a process ignores SIGHUP, by its file `status` of proc(5).
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit 0 is signal 1, which is SIGHUP.
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what `nohup` keeps a command from ending by does not end it.
    #[test]
    fn an_ignored_hang_up_is_known() {
        assert!(ignores_hang_up("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hang_up("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n"));
        assert!(!ignores_hang_up(""));
    }
}
