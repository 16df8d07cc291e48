//! A data set that exists only as a rule: `mem:files=N,size=S,dirs=D,seed=K`.
//!
//! Names, sizes and bytes follow from the rule, so any peer, restart or test computes the same
//! ones and nothing is kept but one block of noise. Bytes are that block, rotated for each block of
//! each file, with a stamp every 4 KiB that depends on file and offset: they do not compress, no
//! two blocks are equal, and they cost one copy out of the cache.

pub(crate) mod file;
pub(crate) mod spec;
pub(crate) mod store;

pub use spec::{MemSpec, ParseMemSpecError};
pub use store::MemStore;
