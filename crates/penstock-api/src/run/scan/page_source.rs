//! Pages of one running transfer, as its runner pulls them.

use std::sync::Arc;

use penstock_proto::id::TransferId;

use crate::problem::Problem;
use crate::run::removal::{RemoveOrder, RemoveReply};
use crate::run::scan::listing::{DigestWish, PageReply, RecheckRequest, WishedDigests};
use crate::run::scan::source_peer::SourcePeer;

/// Pages of a running transfer: from a [`SourcePeer`] of the same site, or from another site over
/// the network.
pub trait PageSource: Send {
    /// Calls [`SourcePeer::page`] for one transfer.
    ///
    /// # Errors
    /// With [`crate::problem::Exit::Temporary`] the caller tries again after a while and shows the
    /// problem as the reason; any other ends the transfer.
    fn page(&mut self, number: u32, wait_ms: u32) -> Result<PageReply, Problem>;

    /// Calls [`SourcePeer::ask`] for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn ask(&mut self, question: &RecheckRequest) -> Result<u32, Problem>;

    /// Calls [`SourcePeer::digests`] for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn digests(
        &mut self,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem>;

    /// Calls [`SourcePeer::remove`] for one transfer.
    ///
    /// # Errors
    /// As [`PageSource::page`].
    fn remove(&mut self, order: &RemoveOrder) -> Result<RemoveReply, Problem>;
}

/// The pages of one transfer, directly from a peer of the own site.
pub struct OwnPages {
    source: Arc<dyn SourcePeer>,
    transfer: TransferId,
}

impl OwnPages {
    /// Returns the pages of a scan that is open at `source`.
    pub fn new(source: Arc<dyn SourcePeer>, transfer: TransferId) -> Self {
        Self { source, transfer }
    }
}

impl PageSource for OwnPages {
    fn page(&mut self, number: u32, wait_ms: u32) -> Result<PageReply, Problem> {
        self.source.page(self.transfer, number, wait_ms)
    }

    fn ask(&mut self, question: &RecheckRequest) -> Result<u32, Problem> {
        self.source.ask(self.transfer, question)
    }

    fn digests(
        &mut self,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        self.source.digests(self.transfer, wish, wait_ms)
    }

    fn remove(&mut self, order: &RemoveOrder) -> Result<RemoveReply, Problem> {
        self.source.remove(self.transfer, order)
    }
}
