//! Permits for threads that block, of which there is a fixed number.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A fixed number of permits. To acquire a free one takes no lock.
#[derive(Debug)]
pub struct Semaphore {
    free: AtomicUsize,
    /// Threads that wait, or are about to. A release that finds none makes no wake-up call.
    waiting: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Semaphore {
    /// Returns a semaphore of `permits` permits, all of them free. With none, every attempt fails.
    pub fn new(permits: usize) -> Self {
        let (free, waiting) = (AtomicUsize::new(permits), AtomicUsize::new(0));
        Self { free, waiting, lock: Mutex::default(), wake: Condvar::new() }
    }

    /// Returns how many permits are free, and how many threads wait for one.
    pub fn usage(&self) -> (usize, usize) {
        (self.free.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed))
    }

    fn take(&self) -> bool {
        let less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn take_within(&self, most: Duration) -> bool {
        if self.take() {
            return true;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // A release that did not see this thread waiting came before the first attempt here.
        let mut taken = false;
        let none = |(): &mut ()| {
            taken = self.take();
            !taken
        };
        drop(self.wake.wait_timeout_while(lock, most, none));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    fn release(&self) {
        self.free.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.wake.notify_one();
        }
    }
}

/// A permit of the semaphore that `S` refers to, released on drop.
#[derive(Debug)]
pub struct Permit<S: Deref<Target = Semaphore>>(S);

impl<S: Deref<Target = Semaphore>> Permit<S> {
    /// Acquires a permit if one is free. Does not block.
    pub fn try_acquire(semaphore: S) -> Option<Self> {
        semaphore.take().then(|| Self(semaphore))
    }

    /// Waits for a permit for at most `most`; returns `None` if none was free in that time.
    pub fn acquire_within(semaphore: S, most: Duration) -> Option<Self> {
        semaphore.take_within(most).then(|| Self(semaphore))
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Permit<S> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Promise: there are never more permits than were made, and each returns when it is dropped.
    #[test]
    fn permits_are_bounded_and_return() {
        let semaphore = Arc::new(Semaphore::new(2));
        let first = Permit::try_acquire(&*semaphore).unwrap();
        let second = Permit::try_acquire(Arc::clone(&semaphore)).unwrap();
        assert!(Permit::try_acquire(&*semaphore).is_none());
        assert!(Permit::acquire_within(&*semaphore, Duration::from_millis(1)).is_none());
        drop(first);
        let third = Permit::acquire_within(&*semaphore, Duration::ZERO).unwrap();
        drop((second, third));
        assert_eq!(semaphore.free.load(Ordering::SeqCst), 2);
        assert!(Permit::try_acquire(&Semaphore::new(0)).is_none());
    }

    /// Promise: no release is missed by a thread that begins to wait at the same moment.
    #[test]
    fn every_waiting_thread_gets_its_turn() {
        let (semaphore, inside) = (Semaphore::new(2), AtomicUsize::new(0));
        let work = || {
            for _ in 0..20_000 {
                let most = Duration::from_secs(60);
                let permit = Permit::acquire_within(&semaphore, most).expect("a turn");
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            }
        };
        std::thread::scope(|scope| (0..5).for_each(|_| drop(scope.spawn(work))));
        assert_eq!(semaphore.waiting.load(Ordering::SeqCst), 0);
    }
}
