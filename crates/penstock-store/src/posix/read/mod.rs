//! Reading beyond the plain file: lengths that need a read, storage past the cache, attributes.

pub(crate) mod direct;
mod inspection;
pub(crate) mod read_back;
pub(crate) mod sizes;
pub(crate) mod xattrs;

pub use inspection::{Inspection, inspect};
pub use read_back::{DIRECT_ALIGNMENT, ReadBackFile};
pub use sizes::tells_size;
