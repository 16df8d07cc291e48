//! Peers whose stores hang (E2), and waiting for threads that may never end.
//!
//! `penstock_engine::writers` says which peers are taken out. A peer that is has no more work, as a
//! lost one: another peer checks its files, and the others get its work (A9).

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::peers::GRANT;
use penstock_api::problem::{Problem, ProblemCode};

use super::task_set::TaskSet;

/// Interval at which the end of a thread is polled.
const LOOK: Duration = Duration::from_millis(5);

/// Returns the error of a thread that did not start: a limit of tasks, which may be raised or cease
/// to be reached.
pub(crate) fn no_thread(cause: io::Error) -> Problem {
    Problem::no_thread(cause)
}

impl TaskSet {
    /// Takes out peers that hang, while others do not. Reports peers that cannot be taken out.
    pub(super) fn end_hung(&mut self) {
        let hangs = self.running().map(|(number, _, task)| (number, task.hangs_for()));
        let hangs: Vec<_> = hangs.collect();
        let grant = self.grant().unwrap_or(GRANT);
        let Some(found) = self.registry.poll_hangs(&hangs, grant) else { return };
        if found.is_news {
            let others = match found.others_work {
                true => "its share is given to others",
                false => "the transfer waits",
            };
            self.parts.control.note(self.hung(found.longest).hint(format!(
                "check its disk or server, and the kernel log; {others} unless it answers"
            )));
        }
        if self.grant().is_some() {
            for (number, lasts) in found.out {
                self.take_out(number, None, self.hung(lasts));
            }
        }
    }

    fn hung(&self, lasts: Duration) -> Problem {
        let (store, seconds) = (&self.parts.spec.store, lasts.as_secs());
        let title = format!("store `{store}` has not answered for {seconds} s");
        Problem::new(ProblemCode::StoreHung, title)
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
