//! Tells when the machine itself stood still, or let this process wait: a bound on time says
//! nothing of what is tested then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long each sleep is, of which it is seen how much longer it took.
const TICK: Duration = Duration::from_millis(50);
/// What every machine is late by now and then.
const USUAL: Duration = Duration::from_millis(200);

/// A thread that sleeps and wakes, and keeps when it woke late.
pub struct Still {
    late: Arc<Mutex<Vec<(Instant, Instant)>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Still {
    /// Looks from now on.
    pub fn watch() -> Self {
        let (late, over) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (kept, ends) = (Arc::clone(&late), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Acquire) {
                let due = Instant::now() + TICK;
                std::thread::sleep(TICK);
                let now = Instant::now();
                if now > due + USUAL {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push((due, now));
                }
            }
        });
        Self { late, over, thread: Some(thread) }
    }

    /// How much of the time between two moments nothing could run in; says so if it is any.
    pub fn between(&self, from: Instant, to: Instant) -> Duration {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let within = late
            .iter()
            .map(|(began, ended)| (*ended).min(to).saturating_duration_since((*began).max(from)));
        let still = within.sum::<Duration>();
        if !still.is_zero() {
            println!("NOT JUDGED: {still:?} of {:?}, in which this machine stood still", to - from);
        }
        still
    }

    /// The time since a moment, but for that in which nothing could run.
    pub fn elapsed(&self, from: Instant) -> Duration {
        let now = Instant::now();
        (now - from).saturating_sub(self.between(from, now))
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
