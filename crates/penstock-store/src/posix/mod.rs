//! Directory trees of POSIX file systems.
//!
//! [`PosixStore`] opens a tree, walks it and makes it durable. Every other operation is a function
//! of the folder of its duty: `read`, `write` and `remove`. `file_system` holds the facts about
//! file systems and mounts on which these depend.

pub(crate) mod file_system;
pub(crate) mod identity;
mod marker;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod sandbox;
pub(crate) mod stat;
pub(crate) mod store;
pub(crate) mod write;

pub use identity::{ParseFingerprintError, StoreFingerprint, StoreIdentity};
pub use sandbox::Resolution;
pub use store::{Gate, PosixOptions, PosixStore, Space};
