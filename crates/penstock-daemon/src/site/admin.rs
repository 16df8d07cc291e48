//! The local API's requests to the site itself: status, pairings, stores.

use std::sync::Arc;

use penstock_api::problem::{ObjectKind, Problem, ProblemCode};
use penstock_api::rest::{JoinReply, JoinRequest, SiteView, StatusView, StoreView, TokenReply};
use penstock_api::timestamp::Timestamp;
use penstock_net::trust::PairingOffer;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;
use tokio::runtime::Handle;

use super::client::Sites;
use super::context::Site;
use crate::access::pairing;
use crate::cluster::member::Member;

/// The site, for its own operators.
pub(crate) struct Admin {
    pub(crate) site: Arc<Site>,
    pub(crate) sites: Arc<Sites>,
    pub(crate) runtime: Handle,
    pub(crate) member: Arc<Member>,
}

impl Admin {
    fn make_offer(&self) -> Result<(PairingOffer, TokenReply), Problem> {
        let advertised = self.site.advertised();
        let address = advertised.first().ok_or_else(|| {
            let title = "the site has no address for a token";
            Problem::new(ProblemCode::Address, title).hint("set `advertise` in penstock.toml")
        })?;
        let fingerprint = self.site.keys().authority.fingerprint();
        let offer = PairingOffer::create(&address.to_string(), fingerprint, now_seconds());
        let offer = offer.map_err(|error| {
            Problem::new(ProblemCode::TokenFailed, "cannot make a token").because(error)
        })?;
        let reply = TokenReply {
            token: offer.token().to_text().to_string(),
            expires_at: Timestamp::of_seconds(offer.expires()),
            fingerprint: fingerprint.to_string(),
        };
        Ok((offer, reply))
    }

    /// Returns the status of the daemon; without transfers if this peer does not lead.
    pub(crate) fn status(&self) -> StatusView {
        let controller = self.member.controller();
        let counts = controller.map(|controller| controller.manager.counts());
        let (running, queued) = counts.unwrap_or_default();
        StatusView {
            site: self.site.own_view(),
            peer: self.site.config.peer.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen: self.site.listen,
            pid: std::process::id(),
            running,
            queued,
            cluster: self.member.view(),
        }
    }

    /// Returns the own site, then those it is paired with.
    ///
    /// # Errors
    /// The pairings cannot be read.
    pub(crate) fn sites(&self) -> Result<Vec<SiteView>, Problem> {
        let pairings = self.site.state().pairings()?;
        let others = pairings.iter().map(|pairing| self.site.pairing_view(pairing));
        Ok(std::iter::once(self.site.own_view()).chain(others).collect())
    }

    /// Makes a pairing token (D5).
    ///
    /// # Errors
    /// There is no randomness, or no address to put into it.
    pub(crate) fn offer(&self) -> Result<TokenReply, Problem> {
        let (offer, reply) = self.make_offer()?;
        self.site.add_offer(offer, now_seconds());
        Ok(reply)
    }

    /// Makes a token with which a host joins this site (D5).
    ///
    /// # Errors
    /// This site has one peer only; there is no randomness, or no address to put into it.
    pub(crate) fn invite(&self) -> Result<TokenReply, Problem> {
        if self.member.election().is_none() {
            let title = "this site has only one peer, so no host can join it";
            return Err(Problem::new(ProblemCode::NoCluster, title)
                .hint("`penstock site grow` turns it into a site of several peers"));
        }
        let (offer, reply) = self.make_offer()?;
        self.site.add_invitation(offer, now_seconds());
        Ok(reply)
    }

    /// Joins the site that issued a token. Blocks on that site.
    ///
    /// # Errors
    /// The token is no good, or the site cannot be reached.
    pub(crate) fn join(&self, request: &JoinRequest) -> Result<JoinReply, Problem> {
        self.runtime.block_on(pairing::join(&self.site, &request.token, now_seconds()))
    }

    /// Ends a pairing.
    ///
    /// # Errors
    /// There is no such pairing.
    pub(crate) fn unpair(&self, site: &Name) -> Result<(), Problem> {
        let unpaired = self.site.unpair(site)?;
        self.sites.forget(site);
        if unpaired {
            tracing::info!(%site, "unpaired");
            return Ok(());
        }
        let title = format!("site `{site}` is not paired with this one");
        Err(Problem::new(ProblemCode::SiteUnknown, title)
            .about(ObjectKind::Site, site)
            .hint("`penstock site list` shows the paired sites"))
    }

    /// Returns the stores of this site.
    pub(crate) fn stores(&self) -> Vec<StoreView> {
        self.site.exports.views()
    }
}
