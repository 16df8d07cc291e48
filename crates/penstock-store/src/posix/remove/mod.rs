//! Removing entries that were inspected before, and never entries that replaced them meanwhile.

pub(crate) mod seen;
pub(crate) mod take_away;

pub use seen::Removal;
pub use take_away::{IsSame, Look, give_name_back, remove_empty_dir, take_away};
