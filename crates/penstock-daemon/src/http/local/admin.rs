//! The parts of the local API that lie outside the controller.

use std::sync::Arc;

use penstock_api::problem::Problem;
use penstock_api::rest::{JoinReply, JoinRequest, SiteView, StatusView, StoreView, TokenReply};
use penstock_controller::manager::Manager;
use penstock_proto::id::Name;

/// The part of the local API that the binary implements: the site's identity, its pairings and its
/// stores. All methods may block, on other sites too.
pub(crate) trait SiteAdmin: Send + Sync {
    /// Returns the status of the daemon, the two counts left at zero.
    fn status(&self) -> StatusView;

    /// The own site, then those it is paired with.
    ///
    /// # Errors
    /// The pairings cannot be read.
    fn sites(&self) -> Result<Vec<SiteView>, Problem>;

    /// Makes a pairing token (D5).
    ///
    /// # Errors
    /// There is no randomness, or no address to put into it.
    fn offer(&self) -> Result<TokenReply, Problem>;

    /// Joins the site that issued a token.
    ///
    /// # Errors
    /// The token is no good, or the site cannot be reached.
    fn join(&self, request: &JoinRequest) -> Result<JoinReply, Problem>;

    /// Makes a token with which a host joins this site (D5).
    ///
    /// # Errors
    /// This site has one peer only; there is no randomness, or no address to put into it.
    fn invite(&self) -> Result<TokenReply, Problem>;

    /// Ends a pairing.
    ///
    /// # Errors
    /// There is no such pairing.
    fn unpair(&self, site: &Name) -> Result<(), Problem>;

    /// The stores of this site.
    fn stores(&self) -> Vec<StoreView>;
}

/// State that the handlers share.
#[derive(Clone)]
pub(crate) struct RestParts {
    /// The site's transfers.
    pub(crate) manager: Arc<Manager>,
    /// The rest of the site.
    pub(crate) admin: Arc<dyn SiteAdmin>,
}
