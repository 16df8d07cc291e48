//! Entries and pages: the list that a scan produces.
//!
//! A *page* is immutable and bounded: at most [`PAGE_ENTRIES_MAX`] entries and [`PAGE_BYTES_MAX`]
//! encoded bytes. A data set of any size is therefore worked on with a few pages in memory. Pages
//! are named by their digest; source and target site both keep them until the receipt (hard case
//! A12). Every request names the page's digest, so that two sites can never mean different files by
//! the same number.
//!
//! Within a page the directory paths are listed once, and an entry refers to its directory. A
//! directory's own entry always precedes the entries inside it, in the same or an earlier page:
//! walked backwards, children come before their parents.
//!
//! A page of a later *round* amends earlier ones. Each of its entries is a newer version of an
//! entry of an earlier page that had changed before it was read, or was seen to change after that.
//!
//! The entry with an empty directory and an empty name is the root of the data set itself. When the
//! root is a file or a link, it is the only entry.

mod builder;
mod decode;
mod page;
#[cfg(test)]
mod tests;

pub use builder::{EntryDraft, PageBuilder};
pub use page::{
    Amends, Entry, EntryKind, Identity, LINK_BYTES_MAX, PAGE_BYTES_MAX, PAGE_ENTRIES_MAX,
    PAGE_PIECES_MAX, PAGE_PIECES_SOFT_MAX, Page, is_amending, page_digest,
};
