//! Detects that a task's publisher hangs in a call to its store (E2).
//!
//! No deadline ends a system call: not syncfs(2) on a server that is gone, nor rename(2) on a
//! frozen file system. A slow and sound disk may also take minutes for a sync. But the thread that
//! waits for it then wakes and sleeps again and again, page by page, which a hung thread does not.
//! The time since a call's last sign of life is therefore the measure.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use penstock_proto::units::Instant;

/// Interval at which a long call is examined; shorter calls are not examined.
const LOOK: Duration = Duration::from_secs(1);

/// The activity of the publisher as other threads see it. Reading it needs no lock that the
/// publisher may hold.
#[derive(Default)]
pub(crate) struct HangDetector {
    thread: AtomicU32,
    /// Time at which the current call began; 0 for none.
    since: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Time at which the examined call began.
    since: u64,
    sleeps: Option<u64>,
    /// Times of the last sign of life and of the last examination.
    alive: Instant,
    looked: Instant,
}

impl HangDetector {
    /// Names the calling thread as the one to observe.
    pub(crate) fn attend(&self) {
        self.thread.store(penstock_sys::thread_number(), Ordering::Relaxed);
    }

    /// Notes that the publisher calls its store, in the next step of its work.
    pub(crate) fn step(&self) {
        self.since.store(penstock_sys::boottime_now().0, Ordering::Relaxed);
    }

    /// Notes that the publisher waits for something other than its store.
    pub(crate) fn rest(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Returns how long the current call has shown no sign of life, as far as it was observed. Call
    /// it at least once a second.
    pub(crate) fn lasts(&self, now: Instant) -> Duration {
        let since = self.since.load(Ordering::Relaxed);
        if since == 0 || now.since(Instant(since)) < LOOK {
            return Duration::ZERO;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.since != since {
            *seen = Seen { since, sleeps: None, alive: now, looked: Instant(0) };
        }
        if now.since(seen.looked) >= LOOK {
            let sleeps = penstock_sys::sleeps_of(self.thread.load(Ordering::Relaxed));
            if sleeps.is_none() || sleeps != seen.sleeps {
                seen.alive = now;
            }
            (seen.sleeps, seen.looked) = (sleeps, now);
        }
        now.since(seen.alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    /// E2, promise (f): a hung call is distinguished from a slow one, and from a thread that waits
    /// for work.
    #[test]
    fn e2_a_call_that_takes_its_time_does_not_hang() {
        let hang = Arc::new(HangDetector::default());
        let (act, acts) = channel::<bool>();
        let publisher = Arc::clone(&hang);
        let thread = std::thread::spawn(move || {
            publisher.attend();
            let (mut slow, mut patience) = (false, Duration::from_secs(60));
            loop {
                match acts.recv_timeout(patience) {
                    Ok(next) => slow = next,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                // A slow disk: it sleeps and wakes all the while, in one call.
                patience = Duration::from_millis(if slow { 50 } else { 60_000 });
            }
        });
        let lasts_after = |seconds: f64| {
            let end = std::time::Instant::now() + Duration::from_secs_f64(seconds);
            let mut lasts = Duration::ZERO;
            while std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
                lasts = hang.lasts(penstock_sys::boottime_now());
            }
            lasts
        };
        assert_eq!(lasts_after(0.1), Duration::ZERO, "it has nothing to do");
        act.send(true).unwrap();
        hang.step();
        lasts_after(4.0);
        // On a machine that paused, the look may come before the thread runs.
        let gets_on = || (0..100).any(|_| lasts_after(0.1) < Duration::from_secs(2));
        assert!(gets_on(), "it is slow, and gets on");
        act.send(false).unwrap();
        assert!(lasts_after(4.5) >= Duration::from_secs(2), "it hangs");
        hang.step();
        assert_eq!(hang.lasts(penstock_sys::boottime_now()), Duration::ZERO, "the next step");
        hang.rest();
        drop(act);
        thread.join().unwrap();
    }
}
