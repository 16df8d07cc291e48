//! The journal store of one transfer: pages, page logs, and files that controllers leave there.
//!
//! | module | duty |
//! |---|---|
//! | [`store`] | pages and page logs; the layout of the directory |
//! | [`layout`] | the files that a run leaves for others |
//! | [`names`] | names of files that only one controller writes |
//! | [`scratch`] | directories for one search at the target |
//! | [`writer_record`] | the last controller, and possible late writes and remains of writers |
//! | [`page_log`] | facts that a page and its log state together |

mod error;
mod layout;
pub(super) mod names;
pub(super) mod page_log;
mod scratch;
mod store;
pub(super) mod writer_record;

pub(super) use error::failed;
pub(super) use layout::checked_path;
pub use layout::{RunFiles, plan_path};
pub(super) use scratch::Scratch;
pub(super) use store::{Journal, began, write_lines};
pub(super) use writer_record::WriterRecord;
