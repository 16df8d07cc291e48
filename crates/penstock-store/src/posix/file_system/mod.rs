//! Facts about file systems and mounts: stated by the kernel, or learned from the first attempt.

pub(crate) mod device;
pub(crate) mod durability_method;
pub(crate) mod io_mode;
pub(crate) mod mode;
pub(crate) mod mount;
pub(crate) mod refusals;
pub(crate) mod stamps;

pub use durability_method::DurabilityMethod;
pub use io_mode::{DIRECT_BYTES_MIN, IoMode};
pub use mount::FailedSyncs;
pub use stamps::Step;
