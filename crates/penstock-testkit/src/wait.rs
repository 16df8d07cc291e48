//! Waits by polling for changes that send no event, less the time in which the machine ran nothing.

mod still;

use std::fmt::Display;
use std::time::{Duration, Instant};

pub use still::{Moment, Still, cpu_time};

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks. Each look is often a process, and the waiting test shares the processors
/// with those that it waits for.
pub const LOOK: Duration = Duration::from_millis(50);

/// A wait with a name, which a failed test prints.
pub struct Wait {
    what: String,
    most: Duration,
    pause: Duration,
}

impl Wait {
    /// Starts a wait; `what` names its object.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), most: PATIENCE, pause: LOOK }
    }

    /// Sets the longest wait.
    pub fn at_most(self, most: Duration) -> Self {
        Self { most, ..self }
    }

    /// Sets the time between two looks.
    pub fn every(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Looks until `look` finds something, and returns that. An error has the state that `look` saw
    /// instead; the last one is printed if the wait fails.
    pub fn until<T, S: Display>(self, mut look: impl FnMut() -> Result<T, S>) -> T {
        let began = Instant::now();
        loop {
            match look() {
                Ok(found) => return found,
                Err(seen) => {
                    let in_time = began.elapsed() < self.most;
                    assert!(in_time, "waited in vain for {}: {seen}", self.what);
                }
            }
            std::thread::sleep(self.pause);
        }
    }

    /// Looks until `look` finds something, and returns that.
    pub fn some<T>(self, mut look: impl FnMut() -> Option<T>) -> T {
        self.until(|| look().ok_or(""))
    }

    /// Looks until `is` holds.
    pub fn is(self, mut is: impl FnMut() -> bool) {
        self.some(|| is().then_some(()));
    }
}
