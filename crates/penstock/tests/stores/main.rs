//! Stores in this process, on a distributed file system and on one that hangs.
//!
//! A program of its own, whose tests take turns: nobody can start a process while this one has
//! files open on a store that hangs, as the child closes them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, what was measured, and what is skipped")]

mod hung;
mod moosefs;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this process runs. None begins until the value that is returned is
/// dropped: tests also look at the threads of this process. `verify test` runs each test as a
/// process of its own, where nothing waits.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
