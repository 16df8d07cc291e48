//! Access of a target's controller to the pages of a data set, of its own site or another.
//!
//! Pages are pulled. The source scans on its own and stores its pages on disk, so that a slow
//! target costs it no memory. A page that was lost on the way is asked for again.

pub(crate) mod listing;
pub(crate) mod page_source;
pub(crate) mod slicing_text;
pub(crate) mod source_peer;

pub use listing::{
    ASKED_ENTRIES_MAX, AskedPage, DigestWish, FAILURE_PART_BYTES, FAILURE_PARTS, PageReply,
    RecheckRequest, RootKind, ScanFailure, ScanRequest, ScanSummary, SeenEntry, WishedDigests,
};
pub use page_source::{OwnPages, PageSource};
pub use source_peer::SourcePeer;
