//! A pace that threads share: a thread takes an amount, and sleeps until it is paid.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_api::limits::ShareUsed;
use penstock_engine::pace::Pace;

/// Longest part of a sleep, so that long sleeps show in the figures while they last.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// A [`Pace`] that several threads share. Without a rate, taking costs one look at a flag.
pub(crate) struct Pacer {
    pace: Mutex<Pace>,
    wake: Condvar,
    held: AtomicBool,
    ended: AtomicBool,
    waited_ns: AtomicU64,
    taken: AtomicU64,
}

impl Pacer {
    /// Creates a pacer of `rate` units per second; 0 is no limit.
    pub(crate) fn new(rate: u64) -> Self {
        Self {
            pace: Mutex::new(Pace::new(penstock_sys::boottime_now(), rate)),
            wake: Condvar::new(),
            held: AtomicBool::new(rate > 0),
            ended: AtomicBool::new(false),
            waited_ns: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is a rate.
    fn holds(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Sets another rate, which holds for waiting threads too.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.lock().set_rate(penstock_sys::boottime_now(), rate);
        self.held.store(rate > 0, Ordering::Release);
        self.wake.notify_all();
    }

    /// Ends the limit: paced work is about to end.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // Set under the lock; otherwise a thread that has just checked would sleep on.
        drop(self.lock());
        self.wake.notify_all();
    }

    /// Takes units, and sleeps until they are paid.
    pub(crate) fn take(&self, units: u64) {
        if units == 0 || !self.holds() {
            return;
        }
        self.taken.fetch_add(units, Ordering::Relaxed);
        let mut since = penstock_sys::boottime_now();
        let mut pace = self.lock();
        let ticket = pace.take(since, units);
        while !self.ended.load(Ordering::Acquire) {
            let wait = pace.wait(penstock_sys::boottime_now(), ticket);
            if wait.is_zero() {
                break;
            }
            let (held, _) = self
                .wake
                .wait_timeout(pace, wait.min(TELL_INTERVAL))
                .unwrap_or_else(PoisonError::into_inner);
            pace = held;
            let now = penstock_sys::boottime_now();
            self.waited_ns.fetch_add(now.since(since).as_nanos() as u64, Ordering::Relaxed);
            since = now;
        }
    }

    /// Returns whether a thread that takes now must wait.
    pub(crate) fn is_in_debt(&self) -> bool {
        self.holds() && self.lock().is_in_debt(penstock_sys::boottime_now())
    }

    /// Returns the amount used while there was a rate, and the time that all threads together have
    /// slept since the last call.
    pub(crate) fn take_used(&self) -> (ShareUsed, Duration) {
        let waited = Duration::from_nanos(self.waited_ns.swap(0, Ordering::Relaxed));
        let taken = self.taken.load(Ordering::Relaxed);
        (ShareUsed { taken, held: !waited.is_zero() }, waited)
    }
}
