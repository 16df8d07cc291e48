//! Work for several threads that makes more work, in bounded memory.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Most jobs that wait; see [`Jobs::offer`] and [`Jobs::put`] for what happens at the limit.
const WAITING_MAX: usize = 512;

/// Jobs that wait to be done, newest first, so that few directories are open at a time.
pub(super) struct Jobs<J> {
    state: Mutex<State<J>>,
    wake: Condvar,
}

struct State<J> {
    waiting: Vec<J>,
    /// Jobs that are being done, and producers: either may bring more.
    busy: usize,
}

impl<J> Jobs<J> {
    /// None yet. Until [`Jobs::produced`], more may come from outside.
    pub(super) fn new() -> Self {
        let state = State { waiting: Vec::new(), busy: 1 };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // A panic elsewhere ends the scope of the threads; until then the others go on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a job for whoever is free. Where too many wait it is given back: do it now.
    pub(super) fn offer(&self, job: J) -> Option<J> {
        let mut state = self.lock();
        if state.waiting.len() >= WAITING_MAX {
            return Some(job);
        }
        state.waiting.push(job);
        drop(state);
        self.wake.notify_one();
        None
    }

    /// Leaves a job, however many wait.
    pub(super) fn force(&self, job: J) {
        self.lock().waiting.push(job);
        self.wake.notify_one();
    }

    /// Leaves a job from outside; blocks while too many wait.
    pub(super) fn put(&self, job: J) {
        let mut state = self.lock();
        while state.waiting.len() >= WAITING_MAX {
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.push(job);
        drop(state);
        self.wake.notify_all();
    }

    /// Nothing more comes from outside.
    pub(super) fn produced(&self) {
        self.lock().busy -= 1;
        self.wake.notify_all();
    }

    /// Does jobs until there are none and none can come.
    pub(super) fn work(&self, mut work: impl FnMut(J)) {
        /// Ends a job however it ended, so that nobody waits for it for ever.
        struct Busy<'a, J>(&'a Jobs<J>);
        impl<J> Drop for Busy<'_, J> {
            fn drop(&mut self) {
                self.0.lock().busy -= 1;
                self.0.wake.notify_all();
            }
        }
        loop {
            let job = {
                let mut state = self.lock();
                loop {
                    if let Some(job) = state.waiting.pop() {
                        state.busy += 1;
                        break job;
                    }
                    if state.busy == 0 {
                        return;
                    }
                    state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let _busy = Busy(self);
            work(job);
        }
    }
}
