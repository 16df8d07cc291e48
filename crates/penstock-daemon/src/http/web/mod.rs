//! HTTPS for users on other hosts: the API, and the web page beside it.
//!
//! | module | duty |
//! |---|---|
//! | `listener` | the HTTPS listener, and the connections of its clients |
//! | `page` | the answers to browsers: files of the page, with the headers that protect them |
//! | `page_files` | the files themselves, out of the archive in the program |

mod listener;
mod page;
mod page_files;

pub(crate) use listener::{CONNECTIONS_MAX, WebListener};
pub(crate) use page::{WebPage, serve_page};
#[cfg(debug_assertions)]
pub use page_files::serve_page_from;
