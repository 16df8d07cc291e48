//! Locks between processes, on file systems of any kind.

mod claim;
mod lock;
mod lock_error;
mod lock_sort;

pub use lock::LockFile;
pub use lock_error::LockError;
