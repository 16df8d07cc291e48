//! The journal store of one transfer: pages, page logs, and files that controllers leave there.
//!
//! | module | duty |
//! |---|---|
//! | [`store`] | pages and page logs; the layout of the directory |
//! | [`layout`] | the files that a run leaves for others |
//! | [`names`] | names of files that only one controller writes |
//! | [`durable_set`] | sets that only grow, with a file of each controller |
//! | [`scratch`] | directories for one search at the target |
//! | [`leadership_record`] | the last controller, and the writers that write no more |
//! | [`page_log`] | facts that a page and its log state together |

pub(super) mod durable_set;
mod error;
mod layout;
pub(super) mod leadership_record;
pub(super) mod names;
pub(super) mod page_log;
mod scratch;
mod store;

pub(super) use durable_set::DurableSet;
pub(super) use error::failed;
pub use layout::RunFiles;
pub(super) use layout::{checked_path, plan_path};
pub(super) use scratch::Scratch;
pub(super) use store::{Journal, began, write_lines};
