//! `penstock copy SRC DST`: source and target peer in one process, no daemon, no configuration.
//!
//! The same engine, verification and ledger as between sites; only the lanes are function calls.
//! State (`id`, `state.sqlite`, `source/`, `journal/`) is kept below the user's state directory
//! while a copy is not complete, in a directory named by what is copied where. A command that does
//! the same copy, with whatever options, finds it, lists the source anew, and does not
//! move again what is done (docs/design/0044).
//!
//! | module | what it owns |
//! |---|---|
//! | `places` | source and target on their hosts: slashes, special files, overlap |
//! | `state` | the state of a copy that is not complete |
//! | `source_lists` | the source's part of that state |
//! | `job` | one copy as its user sees it; the input of a run |
//! | `local` | both ends in this process |
//! | `ssh` | one end at another host, reached by ssh |
//! | `clean` | `--clean`: what interrupted copies have left |

pub(crate) mod clean;
pub(crate) mod job;
pub(crate) mod local;
pub(crate) mod places;
mod source_lists;
pub(crate) mod ssh;
pub(crate) mod state;
