//! Peers whose stores hang (E2), and waiting for threads that may never end.
//!
//! A peer reports for how long its current call to its store has shown no sign of life. The bound
//! is one that a slow but sound disk never reaches. Beyond the bound the peer is taken out like a
//! lost one: another peer checks its files, and the others get its work (A9). This requires another
//! peer whose store answers. Without one no peer is taken out; the transfer waits and reports the
//! reason.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::peers::GRANT;
use penstock_api::problem::{Exit, Problem};

use super::Tasks;

/// Grants without a sign of life after which a call hangs for good: two minutes by default, as the
/// kernel has it (`hung_task_timeout_secs`).
const HUNG_GRANTS: u32 = 2;
/// Fraction of a grant after which a call without a sign of life is an event.
const NOTED_OF_GRANT: u32 = 2;
/// Interval at which the end of a thread is polled.
const LOOK: Duration = Duration::from_millis(5);

/// Returns the error of a thread that did not start: a limit of tasks, which may be raised or cease
/// to be reached.
pub(crate) fn no_thread(cause: io::Error) -> Problem {
    Problem::no_thread(cause)
}

impl Tasks {
    /// Takes out peers that hang, while others do not. Reports peers that cannot be taken out.
    pub(super) fn end_hung(&mut self) {
        let grant = self.grant().unwrap_or(GRANT);
        let (noted, hung) = (grant / NOTED_OF_GRANT, grant * HUNG_GRANTS);
        let hangs: Vec<_> = self
            .working
            .iter()
            .map(|working| (working.part.number, working.task.hangs_for(), working.is_draining))
            .collect();
        let fit = hangs.iter().any(|(_, hangs, drains)| *hangs < noted && !drains);
        let longest = hangs.iter().map(|(_, hangs, _)| *hangs).max().unwrap_or_default();
        if longest < noted {
            self.hangs = false;
            return;
        }
        if !std::mem::replace(&mut self.hangs, true) {
            let others = if fit { "its share is given to others" } else { "the transfer waits" };
            self.parts.control.note(self.hung(longest).hint(format!(
                "look at its disk or server, and at the kernel log; {others} unless it answers"
            )));
        }
        if self.grant().is_none() || !fit {
            return;
        }
        for (number, lasts, _) in hangs.into_iter().filter(|(_, hangs, _)| *hangs >= hung) {
            self.take_out(number, false, self.hung(lasts));
        }
    }

    fn hung(&self, lasts: Duration) -> Problem {
        let (store, seconds) = (&self.parts.spec.store, lasts.as_secs());
        let title = format!("store `{store}` has not answered for {seconds} s");
        Problem::new(Exit::Temporary, "store-hung", title)
    }
}

/// Waits for a thread, for `most` at the longest. Returns whether it has ended. A thread that has
/// not is abandoned: a call that it makes hangs.
pub(crate) fn ends_within<T>(thread: &JoinHandle<T>, most: Duration) -> bool {
    let until = Instant::now() + most;
    while !thread.is_finished() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// E2: a thread that hangs is waited for no longer than it is worth.
    #[test]
    fn e2_a_thread_that_hangs_is_not_waited_for_without_end() {
        let (wake, woken) = channel::<()>();
        let hangs = std::thread::spawn(move || woken.recv().is_err());
        assert!(!ends_within(&hangs, Duration::from_millis(50)));
        drop(wake);
        assert!(ends_within(&hangs, Duration::from_secs(60)));
        assert!(hangs.join().unwrap());
    }
}
