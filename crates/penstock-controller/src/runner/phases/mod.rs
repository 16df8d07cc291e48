//! The phases of a run.

pub(super) mod changed_entries;
pub(super) mod checksum_list;
pub(super) mod content_compare;
pub(super) mod deletion;
pub(super) mod deletion_guards;
pub(super) mod late_writes;
pub(super) mod link_check;
pub(super) mod outcome;
pub(super) mod readback;
pub(super) mod receipt_facts;
pub(super) mod setup;
pub(super) mod source_removal;
