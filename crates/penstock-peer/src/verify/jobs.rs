//! Work for several threads that makes more work, in bounded memory.

use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use penstock_proto::name;
use penstock_store::StoreError;

use crate::scan::path_stack::PathStack;

/// Most jobs that wait; see [`Jobs::offer`] and [`Jobs::put`] for the behaviour at the limit.
pub(super) const WAITING_MAX: usize = 512;

/// A queue of jobs, of which the newest is taken first.
pub(super) trait Waiting<J> {
    /// Leaves one.
    fn push(&mut self, job: J);
    /// Takes the newest.
    fn pop(&mut self) -> Option<J>;
    /// Returns the number of jobs in memory.
    fn in_memory(&self) -> usize;
}

impl<J> Waiting<J> for Vec<J> {
    fn push(&mut self, job: J) {
        self.push(job);
    }

    fn pop(&mut self) -> Option<J> {
        self.pop()
    }

    fn in_memory(&self) -> usize {
        self.len()
    }
}

/// Jobs that wait to be done, newest first, so that few directories are open at a time.
pub(super) struct Jobs<J, W = Vec<J>> {
    state: Mutex<State<W>>,
    wake: Condvar,
    job: PhantomData<fn(J)>,
}

struct State<W> {
    waiting: W,
    /// Jobs that are being done, and producers: either may bring more.
    busy: usize,
}

impl<J> Jobs<J> {
    /// Returns an empty list of jobs. Until [`Jobs::produced`], more may come from outside.
    pub(super) fn new() -> Self {
        Self::waiting_in(Vec::new())
    }
}

impl<J, W: Waiting<J>> Jobs<J, W> {
    /// Returns an empty list of jobs, which wait in `waiting`.
    pub(super) fn waiting_in(waiting: W) -> Self {
        let state = Mutex::new(State { waiting, busy: 1 });
        Self { state, wake: Condvar::new(), job: PhantomData }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        // A panic elsewhere ends the scope of the threads; until then the others continue.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a job for an idle thread. If too many wait, returns the job: the caller does it now.
    pub(super) fn offer(&self, job: J) -> Option<J> {
        let mut state = self.lock();
        if state.waiting.in_memory() >= WAITING_MAX {
            return Some(job);
        }
        state.waiting.push(job);
        drop(state);
        self.wake.notify_one();
        None
    }

    /// Leaves a job, however many wait: only where those beyond the limit are few, or are not in
    /// memory.
    pub(super) fn force(&self, job: J) {
        self.lock().waiting.push(job);
        self.wake.notify_one();
    }

    /// Leaves a job from outside; blocks while too many wait.
    pub(super) fn put(&self, job: J) {
        let mut state = self.lock();
        while state.waiting.in_memory() >= WAITING_MAX {
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.push(job);
        drop(state);
        self.wake.notify_all();
    }

    /// Records that no more jobs come from outside.
    pub(super) fn produced(&self) {
        self.lock().busy -= 1;
        self.wake.notify_all();
    }

    /// Runs jobs until none is left and none can arrive.
    pub(super) fn work(&self, mut work: impl FnMut(J)) {
        /// Ends a job, also after a panic, so that no thread waits for it for ever.
        struct Busy<'a, J, W: Waiting<J>>(&'a Jobs<J, W>);
        impl<J, W: Waiting<J>> Drop for Busy<'_, J, W> {
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

/// Directories of a walk, of which any number may wait.
pub(super) struct WaitingPaths(pub(super) PathStack);

/// A directory; or why those that waited are lost.
pub(super) type WaitingPath = Result<Vec<u8>, StoreError>;

impl WaitingPaths {
    /// Creates an empty queue. Paths beyond the memory limit go into a file in the directory for
    /// temporary files.
    pub(super) fn new() -> Self {
        Self(PathStack::default())
    }
}

impl Waiting<WaitingPath> for WaitingPaths {
    fn push(&mut self, path: WaitingPath) {
        if let Ok(path) = path {
            self.0.push(path);
        }
    }

    fn pop(&mut self) -> Option<WaitingPath> {
        let lost = |source| StoreError::Io {
            operation: "read again directories that waited in",
            path: name::escape(std::env::temp_dir().as_os_str().as_bytes()),
            source,
        };
        self.0.pop().map_err(lost).transpose()
    }

    fn in_memory(&self) -> usize {
        0
    }
}
