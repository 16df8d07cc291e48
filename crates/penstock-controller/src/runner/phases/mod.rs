//! The phases of a round, in their order: each has its inputs and outputs in its signature.
//!
//! | module | duty |
//! |---|---|
//! | [`setup`] | loads the ledger, asks about the store, starts tasks and threads |
//! | [`moving`] | opens pages, so that peers fetch their pieces |
//! | [`content_compare`] | compares pages with the target before they are opened |
//! | [`changed_entries`] | asks the source about entries that have changed |
//! | [`deletion`], [`deletion_guards`] | delete items at the target that the source does not have |
//! | [`link_check`] | finds files whose further names must not be made |
//! | [`finishing`] | the steps below, when all is durable |
//! | [`readback`] | reads all files again |
//! | [`late_writes`] | repairs files to which abandoned peers may have written |
//! | [`source_removal`] | removes moved items at the source |
//! | [`outcome`], [`checksum_list`] | write the lists of failures and of digests |
//! | [`receipt_facts`] | stores the facts for a receipt |

mod changed_entries;
mod checksum_list;
mod content_compare;
mod deletion;
pub(super) mod deletion_guards;
mod finishing;
pub(super) mod late_writes;
mod link_check;
mod moving;
mod outcome;
mod readback;
mod receipt_facts;
pub(super) mod setup;
mod source_removal;

pub(super) use changed_entries::ChangedEntries;
pub(super) use content_compare::refuses;
pub(super) use deletion::Deleting;
pub(super) use finishing::{Finished, finish};
pub(super) use link_check::find_failed_links;
pub(super) use moving::{Moving, read_logs};
pub use source_removal::removal_has_begun;
