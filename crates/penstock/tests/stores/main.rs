//! Stores in this process, on a distributed file system and on one that hangs.
//!
//! A program of its own: nobody can start a process while this one has files open on a store that
//! hangs, as the child closes them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, what was measured, and what is skipped")]

mod hung;
mod moosefs;
