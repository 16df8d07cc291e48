//! Stores: where the bytes of a data set are read and written.
//!
//! Everything here blocks and is called from plain threads, never from an async task.
//!
//! **Inputs and outputs.** A source is listed ([`Source::list`]), its files are opened beneath the
//! root and read at any offset ([`ReadFile`]). A target receives directories, temporary files
//! ([`Target::create_temporary`]) and bytes at any offset ([`WriteFile`]). Then it receives
//! attributes, a sync and a rename ([`Target::publish`]). No code outside this crate sees a
//! descriptor or builds a path.
//!
//! **The fence (promise (i), C5).** Callers name things by a [`Dir`] and one component, or by a
//! relative path of bytes. A path is walked from the root's handle by `openat2(RESOLVE_BENEATH |
//! RESOLVE_NO_SYMLINKS)`, or component by component with `O_NOFOLLOW` where a kernel or container
//! lacks it. Links are never followed, on either side. [Own names](penstock_proto::name::own) are
//! marked in listings, and not accepted as names of items.
//!
//! **After a crash.** Data written before a [`Target::sync`] that returned without an error
//! survives, by the method that the file system honours ([`DurabilityMethod`]). The store's
//! identity, its sync markers and its fingerprint show later whether it is the same store
//! ([`StoreIdentity`], [`StoreFingerprint`]).

#![forbid(unsafe_code)]

pub mod checksum;
mod dir;
mod error;
mod item;
mod mem;
mod meta;
mod posix;
mod read_file;
mod source;
mod target;
mod temporary;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;

pub use dir::{Dir, DirCache};
pub use error::{StoreError, StoreOffline};
pub use mem::{MemSpec, MemStore, ParseMemSpecError};
pub use meta::{DirEntry, HOLLOW_BYTES_MIN, Kind, Meta};
pub use penstock_sys::FileSystemKind;
pub use posix::file_system::{DIRECT_BYTES_MIN, DurabilityMethod, FailedSyncs, IoMode, Step};
pub use posix::read::{DIRECT_ALIGNMENT, Inspection, ReadBackFile, inspect, tells_size};
pub use posix::remove::{IsSame, Look, Removal, give_name_back, remove_empty_dir, take_away};
pub use posix::write::{Attributes, LeftOver, NotSet, WriteFile, Writeback, set_dir_attributes};
pub use posix::{
    Gate, ParseFingerprintError, PosixOptions, PosixStore, Resolution, Space, StoreFingerprint,
    StoreIdentity,
};
pub use read_file::{ListBuffer, ReadFile};
pub use source::Source;
pub use target::Target;
pub use temporary::{TemporaryKey, TemporaryName, aside_name, temporary_name};
