//! Other peers of a site, as the scan of one of them uses them.

use std::time::Duration;

use penstock_api::problem::Problem;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::listing::{ListPart, ListWork};

/// The other peers of a site, as far as they may list for this one.
pub trait Helpers: Send + Sync {
    /// Returns the peers that are reachable and report a store of that name.
    fn peers(&self, store: &Name) -> Vec<Name>;

    /// Asks one peer to list. Does not block.
    fn list(&self, peer: &Name, transfer: TransferId, work: &ListWork) -> Box<dyn Listing>;
}

/// A request under way. Dropping this value cancels the request.
pub trait Listing: Send {
    /// Returns the next part of the answer; `None` if none comes within `wait`.
    ///
    /// # Errors
    /// The peer cannot be reached, refuses, or its answer breaks off.
    fn next(&mut self, wait: Duration) -> Result<Option<ListPart>, Problem>;
}
