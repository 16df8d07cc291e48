//! Detects that the publisher of a task, or a renamer beside it, hangs in a call to its store (E2).
//!
//! No deadline ends a system call: not syncfs(2) on a server that is gone, nor rename(2) on a
//! frozen file system. A slow and sound disk may also take minutes for a sync. But the thread that
//! waits for it then wakes and sleeps again and again, page by page, which a hung thread does not.
//! The time since a call's last sign of life is therefore the measure.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use penstock_proto::units::Instant;

/// Interval at which a long call is examined; shorter calls are not examined.
const LOOK: Duration = Duration::from_secs(1);

/// Most threads of a task that are observed: the publisher, and the renamers beside it.
pub(crate) const OBSERVED_MAX: usize = 4;

thread_local! {
    /// The number of this thread among those that are observed.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// The activity of the observed threads as other threads see it. Reading it needs no lock that one
/// of them may hold.
#[derive(Default)]
pub(crate) struct HangDetector {
    calls: [Call; OBSERVED_MAX],
}

/// The present call of a thread.
#[derive(Default)]
struct Call {
    thread: AtomicU32,
    /// Time at which the call began; 0 for none.
    since: AtomicU64,
    seen: Mutex<Seen>,
}

/// A thread that is observed, until this is dropped.
pub(crate) struct Observed<'a>(&'a Call);

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        self.0.rest();
    }
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
    /// Observes the calling thread from now on, under a `number` below [`OBSERVED_MAX`] that no
    /// other thread of the task has.
    pub(crate) fn observe(&self, number: usize) -> Observed<'_> {
        NUMBER.set(number);
        let call = &self.calls[number];
        call.thread.store(penstock_sys::thread_number(), Ordering::Relaxed);
        Observed(call)
    }

    /// Notes that this thread calls the store, in the next step of its work.
    pub(crate) fn step(&self) {
        self.own().since.store(penstock_sys::boottime_now().0, Ordering::Relaxed);
    }

    /// Notes that this thread waits for something other than the store.
    pub(crate) fn rest(&self) {
        self.own().rest();
    }

    fn own(&self) -> &Call {
        &self.calls[NUMBER.get()]
    }

    /// Returns the longest time for which the present call of a thread has shown no sign of life,
    /// as far as it was observed. Call it at least once a second.
    pub(crate) fn lasts(&self, now: Instant) -> Duration {
        self.calls.iter().map(|call| call.lasts(now)).max().unwrap_or_default()
    }
}

impl Call {
    fn rest(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    fn lasts(&self, now: Instant) -> Duration {
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
            let _observed = publisher.observe(0);
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

    /// E2: a renamer that hangs is seen while the publisher and another renamer, whose thread has
    /// ended, show life. It is no longer seen when its call has returned.
    #[test]
    fn e2_one_of_several_threads_that_hangs_is_seen() {
        let hang = HangDetector::default();
        let (answer, answers) = channel::<()>();
        std::thread::scope(|scope| {
            let hang = &hang;
            let hung = scope.spawn(move || {
                let _observed = hang.observe(1);
                hang.step();
                answers.recv().unwrap();
            });
            let ended = scope.spawn(move || {
                let _observed = hang.observe(2);
                hang.step();
            });
            ended.join().unwrap();
            let _observed = hang.observe(0);
            let sees_it = (0..1000).any(|_| {
                hang.step();
                std::thread::sleep(Duration::from_millis(20));
                hang.lasts(penstock_sys::boottime_now()) >= Duration::from_secs(2)
            });
            assert!(sees_it, "a thread that hangs is not seen");
            answer.send(()).unwrap();
            hung.join().unwrap();
            hang.rest();
            assert_eq!(hang.lasts(penstock_sys::boottime_now()), Duration::ZERO);
        });
    }
}
