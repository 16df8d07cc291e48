//! A page of the manifest as a target peer works on it.

use std::sync::Arc;

use penstock_proto::compared::EntrySet;
use penstock_proto::digest::Digest;
use penstock_proto::manifest::Page;

/// A page, with what a peer needs to work on it.
#[derive(Clone, Debug)]
pub struct TaskPage {
    /// The page.
    pub page: Arc<Page>,
    /// Digest of its encoded bytes.
    pub digest: Digest,
    /// Entries that stay as they are at the target: part of no piece, and not made again.
    pub left: Arc<EntrySet>,
}
