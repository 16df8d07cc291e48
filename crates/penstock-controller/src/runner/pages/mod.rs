//! The pages of the source's list.
//!
//! | module | duty |
//! |---|---|
//! | [`puller`] | pulls pages ahead, and compares them, on a thread of its own |
//! | [`shared_source`] | one source for several threads and rounds |
//! | [`found`] | checks a page, and counts the entries of pages |
//! | [`piece_map`] | the states of the bytes of all pages, for people |
//! | [`scan_end`] | the end of the list, and whether it is committed |
//! | [`unlisted`] | the list of items that the source could not list |

pub(super) mod found;
pub(super) mod piece_map;
pub(super) mod puller;
pub(super) mod scan_end;
pub(super) mod shared_source;
pub(super) mod unlisted;
