//! A site's source side, as its controller drives it.

use std::borrow::Cow;

use penstock_proto::id::TransferId;
use tokio::sync::watch;

use crate::problem::Problem;
use crate::run::removal::{RemoveOrder, RemoveReply};
use crate::run::request::{PeerReply, SourceRequest};
use crate::run::scan::listing::{
    DigestWish, PageReply, RecheckRequest, RootKind, ScanRequest, WishedDigests,
};

/// A site's source side: of this host, of another one, or of whichever peer has the store. All
/// methods block, but not longer than a store's deadline.
///
/// A peer implements [`SourcePeer::call`]. The methods with a default body are its typed form.
pub trait SourcePeer: Send + Sync {
    /// Answers a request with the reply that belongs to it.
    ///
    /// # Errors
    /// Errors of the method of the request's name.
    fn call(&self, request: SourceRequest<'_>) -> Result<PeerReply, Problem>;

    /// Returns a channel that changes whenever [`SourcePeer::page`] may have another answer for
    /// this transfer, so that a caller waits for a page without a thread. `None` if changes are
    /// not known. May block as `page`.
    fn page_news(&self, _transfer: TransferId) -> Option<watch::Receiver<()>> {
        None
    }

    /// Returns whether the data set of a transfer is being listed now, as far as is known. Does not
    /// block.
    fn is_listing(&self, _transfer: TransferId) -> bool {
        false
    }

    /// Begins the scan of a data set, or continues it.
    ///
    /// # Errors
    /// The store or the root is not there, or may not be read.
    fn open_scan(&self, request: &ScanRequest) -> Result<RootKind, Problem> {
        match self.call(SourceRequest::OpenScan(Cow::Borrowed(request)))? {
            PeerReply::Opened(kind) => Ok(kind),
            other => Err(other.misplaced()),
        }
    }

    /// Returns a page, waiting up to `wait_ms` milliseconds for the scan to reach it.
    ///
    /// # Errors
    /// The scan is not known here, or it cannot continue (the store went away).
    fn page(&self, transfer: TransferId, number: u32, wait_ms: u32) -> Result<PageReply, Problem> {
        match self.call(SourceRequest::Page { transfer, number, wait_ms })? {
            PeerReply::Page(page) => Ok(page),
            other => Err(other.misplaced()),
        }
    }

    /// Examines changed entries again. Those that are still files, and other versions than before,
    /// become the entries of further pages, which amend the earlier ones. Entries of an earlier
    /// request are not added again. Returns the number of pages now. Blocks for one look at each
    /// entry, and for a second if one is being written to at that time.
    ///
    /// # Errors
    /// The scan is not known here or not complete; the pages cannot be stored.
    fn ask(&self, transfer: TransferId, question: &RecheckRequest) -> Result<u32, Problem> {
        let question = Cow::Borrowed(question);
        match self.call(SourceRequest::Recheck { transfer, question })? {
            PeerReply::Rechecked(pages) => Ok(pages),
            other => Err(other.misplaced()),
        }
    }

    /// Hashes files of a page, as [`WishedDigests`]. Returns `None` if that takes longer than
    /// `wait_ms` milliseconds: then the same request is to be repeated within a minute.
    ///
    /// # Errors
    /// The scan or the page is not known here; the store is not there.
    fn digests(
        &self,
        transfer: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        let wish = Cow::Borrowed(wish);
        match self.call(SourceRequest::Digests { transfer, wish, wait_ms })? {
            PeerReply::Digests(digests) => Ok(digests),
            other => Err(other.misplaced()),
        }
    }

    /// Removes items that are durable at the target, if the scan was opened for that; each only if
    /// it is still the version that was listed (C6). Blocks for some seconds at most, and then
    /// returns how far it came.
    ///
    /// # Errors
    /// The scan is not known here or does not allow removal, the page is another one, or the store
    /// has changed (C3): then nothing counts as removed.
    fn remove(&self, transfer: TransferId, order: &RemoveOrder) -> Result<RemoveReply, Problem> {
        let order = Cow::Borrowed(order);
        match self.call(SourceRequest::Remove { transfer, order })? {
            PeerReply::Removed(reply) => Ok(reply),
            other => Err(other.misplaced()),
        }
    }

    /// Forgets a transfer and removes its pages; unknown ones are no error. A peer that cannot be
    /// told keeps nothing for long: its lease ends.
    fn release(&self, transfer: TransferId) {
        // No implementation fails here: each handles what it cannot release.
        let _ = self.call(SourceRequest::Release { transfer });
    }
}
