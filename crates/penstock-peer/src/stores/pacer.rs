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
    /// Set once a thread has slept, until that is asked for.
    has_slept: AtomicBool,
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
            has_slept: AtomicBool::new(false),
            taken: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is a rate.
    pub(crate) fn has_rate(&self) -> bool {
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

    /// Takes units, and sleeps until they are paid. Returns the time that it has slept.
    pub(crate) fn take(&self, units: u64) -> Duration {
        let mut all = Duration::ZERO;
        self.take_telling(units, |slept| all += slept);
        all
    }

    /// Takes units, and sleeps until they are paid. Reports at each [`TELL_INTERVAL`] for how long
    /// it has slept since the last report: with a low rate, a stride takes many seconds.
    pub(crate) fn take_telling(&self, units: u64, mut tell: impl FnMut(Duration)) {
        if units == 0 || !self.has_rate() {
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
            drop(held);
            let now = penstock_sys::boottime_now();
            self.has_slept.store(true, Ordering::Relaxed);
            tell(now.since(since));
            since = now;
            pace = self.lock();
        }
    }

    /// Returns whether a thread that takes now must wait.
    pub(crate) fn is_in_debt(&self) -> bool {
        self.has_rate() && self.lock().is_in_debt(penstock_sys::boottime_now())
    }

    /// Returns the amount used while there was a rate, and whether a thread has slept since the
    /// last call.
    pub(crate) fn take_used(&self) -> ShareUsed {
        let held = self.has_slept.swap(false, Ordering::Relaxed);
        ShareUsed { taken: self.taken.load(Ordering::Relaxed), held }
    }
}
