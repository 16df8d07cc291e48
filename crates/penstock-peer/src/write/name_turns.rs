//! Turns of the threads that make or rename files in one directory.
//!
//! The kernel lets one thread at a time change the names of a directory, and the others spin
//! (Documentation/filesystems/directory-locking.rst). So a thread takes a turn for some names, and
//! does all else without it, as writing the bytes. On XFS a transfer of small files then costs 12 %
//! less processor time ([measured](../../../../bench/runs/2026-11-27-turns/README.md)).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_store::Dir;

/// Names of a turn where all file systems have turns, for tests.
#[cfg(test)]
const NAMES_IN_TESTS: usize = 16;
/// Number of locks. Directories that share one wait for each other, which costs time only.
const LOCKS: usize = 64;
/// Longest wait for a turn. A thread goes on without it then: a slow or hung call of another thread
/// must not pass for its own.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// The turns of a task.
#[derive(Default)]
pub(crate) struct NameTurns {
    locks: Locks,
    #[cfg(test)]
    is_everywhere: bool,
}

struct Locks([(Mutex<bool>, Condvar); LOCKS]);

/// A turn, until it is dropped.
pub(crate) struct NameTurn<'a>(&'a (Mutex<bool>, Condvar));

impl Default for Locks {
    fn default() -> Self {
        Self([const { (Mutex::new(false), Condvar::new()) }; LOCKS])
    }
}

impl NameTurns {
    /// Returns turns on all file systems.
    #[cfg(test)]
    pub(super) fn everywhere() -> Self {
        Self { is_everywhere: true, ..Self::default() }
    }

    /// Returns how many names a thread makes or renames in a turn in `dir`; 1 where turns do not
    /// pay.
    pub(crate) fn names(&self, dir: &Dir) -> usize {
        #[cfg(test)]
        if self.is_everywhere {
            return NAMES_IN_TESTS;
        }
        dir.names_per_turn()
    }

    /// Takes a turn in a directory. Blocks for [`WAIT_MAX`] at most, and returns `None` if others
    /// had turns all the while.
    pub(crate) fn take(&self, dir: &Dir) -> Option<NameTurn<'_>> {
        let number = usize::from(blake3::hash(dir.path()).as_bytes()[0]) % LOCKS;
        let lock = &self.locks.0[number];
        let (mut taken, _) = lock
            .1
            .wait_timeout_while(guard(lock), WAIT_MAX, |taken| *taken)
            .unwrap_or_else(PoisonError::into_inner);
        let is_free = !*taken;
        *taken = true;
        drop(taken);
        is_free.then(|| NameTurn(lock))
    }
}

impl Drop for NameTurn<'_> {
    fn drop(&mut self) {
        *guard(self.0) = false;
        self.0.1.notify_one();
    }
}

fn guard(lock: &(Mutex<bool>, Condvar)) -> MutexGuard<'_, bool> {
    lock.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_store::{PosixOptions, PosixStore};

    /// Promise (f): one thread has a turn in a directory, the next one gets it at its end, and none
    /// waits for ever for one that hangs.
    #[test]
    fn f_a_turn_is_waited_for_and_not_for_ever() {
        let base = tempfile::tempdir().unwrap();
        let dir = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
        let dir = dir.make_dirs(b"d").unwrap();
        let turns = NameTurns::default();
        let turn = turns.take(&dir);
        assert!(turn.is_some());
        assert!(turns.take(&dir).is_none(), "two threads have a turn");
        assert!(turns.take(&dir).is_none(), "a thread that gave up has ended the turn of another");
        drop(turn);
        assert!(turns.take(&dir).is_some());
        let turn = turns.take(&dir);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.take(&dir).is_some() || turns.take(&dir).is_some());
            drop(turn);
            assert!(waits.join().unwrap());
        });
    }
}
