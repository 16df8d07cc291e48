//! The reasons why a lock was not acquired.

use std::io;
use std::path::PathBuf;

/// The reason why a lock was not acquired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The lock is held by another process.
    #[error("`{}` is locked by another process{}", .path.display(), written_holder(*.process_id))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The process that recorded that it holds the lock, if it had the time to write that down.
        process_id: Option<u32>,
    },
    /// A process that cannot be looked at from here claims it: one of another host or container.
    #[error(
        "process {process_id} of host `{host}` has claimed the lock {age_seconds} s ago; if that \
         process does not run any more, remove `{}`",
        .path.display()
    )]
    Claimed {
        /// The file of the claim.
        path: PathBuf,
        /// The host, as it calls itself.
        host: String,
        /// The process, as that host numbers it.
        process_id: u32,
        /// Age of the claim in seconds, by the file's time and this host's clock.
        age_seconds: u64,
    },
    /// The lock file could not be made, opened or locked.
    #[error("lock `{}`", .path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

fn written_holder(process_id: Option<u32>) -> String {
    process_id.map_or_else(String::new, |id| format!(" (process {id})"))
}
