//! Temporary files of a transfer: where peers may have left some, and their removal.
//!
//! | module | duty |
//! |---|---|
//! | [`touched_pages`] | the pages in which one peer may have left files |
//! | [`left_overs`] | removal when a run ends |
//! | [`abandoned`] | removal for a transfer that will not be continued |

mod abandoned;
mod left_overs;
pub(super) mod touched_pages;

pub use abandoned::clean_abandoned;
pub(super) use left_overs::{clean_all, clean_left_overs, clean_unused};
