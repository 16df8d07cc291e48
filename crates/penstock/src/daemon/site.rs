//! What a running site knows of itself: configuration, keys, trust, pairings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::problem::{Exit, Problem};
use penstock_api::rest::SiteView;
use penstock_api::site::SiteAddresses;
use penstock_controller::state::{Pairing, SqliteState};
use penstock_io::trust::{
    CipherSuite, PairingOffer, PeerCertificate, SiteAuthority, TrustStore, inspect_authority,
};
use penstock_proto::id::Name;
use rustls::pki_types::CertificateDer;

use crate::config::{Config, Exports};
use crate::networks::Networks;

/// Pairing tokens that are outstanding at a time; the oldest is void when more are made.
const OFFERS_MAX: usize = 16;

/// The site, shared by all that serves it.
pub(crate) struct Site {
    pub(crate) config: Config,
    pub(crate) exports: Exports,
    pub(crate) directory: PathBuf,
    pub(crate) authority: SiteAuthority,
    pub(crate) identity: PeerCertificate,
    pub(crate) trust: Arc<TrustStore>,
    pub(crate) state: Arc<SqliteState>,
    pub(crate) listen: SocketAddr,
    pub(crate) suites: Vec<CipherSuite>,
    offers: Mutex<Vec<PairingOffer>>,
}

impl Site {
    /// A site that listens at `listen`, trusting those it is paired with.
    ///
    /// # Errors
    /// The pairings cannot be read, or one holds no authority; a cipher suite is not known.
    pub(crate) fn new(
        config: Config,
        directory: PathBuf,
        authority: SiteAuthority,
        identity: PeerCertificate,
        state: Arc<SqliteState>,
        listen: SocketAddr,
    ) -> anyhow::Result<Self> {
        let trust = TrustStore::new(authority.certificate().clone())?;
        for pairing in state.pairings()? {
            trust.pin(CertificateDer::from(pairing.ca))?;
        }
        let suites = config.suites().map_err(anyhow::Error::msg)?;
        Ok(Self {
            exports: Exports::of(&config),
            config,
            directory,
            authority,
            identity,
            trust: Arc::new(trust),
            state,
            listen,
            suites,
            offers: Mutex::default(),
        })
    }

    /// The networks of this host as they are now.
    pub(crate) fn networks(&self) -> Networks<'_> {
        Networks::now(&self.config.networks)
    }

    /// Where this site takes requests of others: what is configured, or follows from the networks.
    pub(crate) fn advertised(&self) -> Vec<SocketAddr> {
        if self.config.networks.is_empty() || !self.config.advertise.is_empty() {
            return self.config.advertised(self.listen);
        }
        self.networks().control_addresses(self.listen.port())
    }

    /// Where this site takes requests and lanes now.
    pub(crate) fn addresses(&self) -> SiteAddresses {
        let addresses = self.advertised();
        let (peer, port) = (&self.config.peer, self.listen.port());
        let data = self.networks().data_addresses(peer, port, &addresses);
        SiteAddresses { addresses, data }.bounded()
    }

    /// Another site says where it takes requests now.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub(crate) fn learn(&self, site: &Name, theirs: &SiteAddresses) -> Result<(), Problem> {
        let Some(mut pairing) = self.state.pairing(site)? else { return Ok(()) };
        if theirs.addresses.is_empty() || pairing.addresses == theirs.addresses {
            return Ok(());
        }
        tracing::info!(%site, addresses = ?theirs.addresses, "a site is reached elsewhere now");
        pairing.addresses.clone_from(&theirs.addresses);
        Ok(self.state.pair(&pairing)?)
    }

    /// Whether a site is paired with this one now.
    pub(crate) fn is_paired(&self, site: &Name) -> bool {
        *site != self.config.site && self.trust.authority_of(site).is_some()
    }

    /// The own site, as it is shown.
    pub(crate) fn own_view(&self) -> SiteView {
        SiteView {
            name: self.config.site.clone(),
            own: true,
            fingerprint: self.authority.fingerprint().to_string(),
            addresses: self.advertised(),
            paired: 0,
        }
    }

    /// A pairing, as it is shown.
    pub(crate) fn pairing_view(pairing: &Pairing) -> SiteView {
        let ca = CertificateDer::from(pairing.ca.as_slice());
        let fingerprint = inspect_authority(&ca)
            .map_or_else(|error| error.to_string(), |facts| facts.fingerprint.to_string());
        SiteView {
            name: pairing.site.clone(),
            own: false,
            fingerprint,
            addresses: pairing.addresses.clone(),
            paired: pairing.paired,
        }
    }

    /// Keeps an offer until it is used up.
    pub(crate) fn add_offer(&self, offer: PairingOffer, now: u64) {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        offers.retain(|offer| offer.is_open(now));
        if offers.len() >= OFFERS_MAX {
            offers.remove(0);
        }
        offers.push(offer);
    }

    /// Tries a joiner's proof on every outstanding offer: who guesses uses up tries of all.
    ///
    /// # Errors
    /// None fits.
    pub(crate) fn redeem(&self, redeem: impl Fn(&mut PairingOffer) -> bool) -> Result<(), Problem> {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        if offers.iter_mut().any(redeem) {
            return Ok(());
        }
        let title = "the pairing token is wrong, used up, or too old";
        Err(Problem::new(Exit::NotAuthorised, "token", title)
            .hint("make a new one with `penstock site pair` at the other site"))
    }

    /// Stores a pairing and trusts it. It must have been checked that the name is free.
    ///
    /// # Errors
    /// The name belongs to another authority; the database cannot be written.
    pub(crate) fn pair(&self, pairing: &Pairing) -> Result<(), Problem> {
        self.trust.pin(CertificateDer::from(pairing.ca.clone())).map_err(|error| {
            Problem::new(Exit::Refused, "site-taken", "the sites cannot be paired").because(error)
        })?;
        Ok(self.state.pair(pairing)?)
    }
}
