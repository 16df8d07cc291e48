//! Waiting for threads that may never end: a call to a store that hangs (E2).

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the end of a thread is polled.
const LOOK: Duration = Duration::from_millis(5);

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

    /// Promise: a thread that hangs is waited for no longer than it is worth (E2).
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
