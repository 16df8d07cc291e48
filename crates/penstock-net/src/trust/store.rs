//! The authority that speaks for each site.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use penstock_proto::id::{Name, PeerId};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::error::TrustError;
use super::facts::{Fingerprint, inspect_authority, key_of, peer_id_of, single_root};
use super::provider::provider_for_checks;

/// A peer, and the authority that vouched for it when its connection was made.
///
/// A name alone outlives its keys: a site that is set up again and paired again has the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouched {
    /// The peer, by its certificate.
    pub peer: PeerId,
    /// The key of the authority that was pinned then.
    pub authority: Fingerprint,
    /// The key of the peer's certificate.
    pub key: Fingerprint,
}

/// The authority of a site, prepared for checks.
#[derive(Clone, Debug)]
pub(super) struct Pinned {
    certificate: CertificateDer<'static>,
    fingerprint: Fingerprint,
    /// Keys of its peers that it has revoked.
    revoked: Arc<BTreeSet<Fingerprint>>,
    pub(super) roots: Arc<RootCertStore>,
    pub(super) clients: Arc<dyn ClientCertVerifier>,
}

impl Pinned {
    fn new(certificate: CertificateDer<'static>) -> Result<(Name, Self), TrustError> {
        let facts = inspect_authority(&certificate)?;
        let roots = Arc::new(single_root(&certificate)?);
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider_for_checks())
                .build()
                .map_err(|_| TrustError::Certificate("it cannot serve as a root"))?;
        let fingerprint = facts.fingerprint;
        let revoked = Arc::default();
        Ok((facts.site, Self { certificate, fingerprint, revoked, roots, clients }))
    }

    /// Refuses a peer whose key is revoked; returns the key.
    pub(super) fn check_revoked(
        &self,
        peer: &PeerId,
        leaf: &CertificateDer<'_>,
    ) -> Result<Fingerprint, TrustError> {
        let key = key_of(std::slice::from_ref(leaf))?;
        match self.revoked.contains(&key) {
            true => Err(TrustError::Revoked(peer.clone())),
            false => Ok(key),
        }
    }
}

/// The authorities this peer trusts: its own site's and one for each paired site.
///
/// Shared by all TLS configurations of a process; a change counts from the next handshake on. An
/// open connection carries a [`Vouched`], which its owner compares at each use by
/// [`TrustStore::vouches`].
pub struct TrustStore {
    own: Name,
    sites: RwLock<BTreeMap<Name, Pinned>>,
    /// The number of times that each site has lost its authority.
    endings: Mutex<BTreeMap<Name, u64>>,
}

impl TrustStore {
    /// Returns a store that trusts the peers of one's own site alone.
    ///
    /// # Errors
    /// `Certificate` if `authority` is not that of a site.
    pub fn new(authority: CertificateDer<'static>) -> Result<Self, TrustError> {
        let (own, pinned) = Pinned::new(authority)?;
        let sites = RwLock::new(BTreeMap::from([(own.clone(), pinned)]));
        Ok(Self { own, sites, endings: Mutex::default() })
    }

    /// Trusts another site's authority, for the peers of that site alone, and returns the site's
    /// name. Pinning the same authority again changes nothing.
    ///
    /// # Errors
    /// `SiteTaken` if the name has another authority; `Certificate` if `authority` is none.
    pub fn pin(&self, authority: CertificateDer<'static>) -> Result<Name, TrustError> {
        let (site, pinned) = Pinned::new(authority)?;
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        match sites.get(&site) {
            Some(known) if known.fingerprint != pinned.fingerprint => {
                Err(TrustError::SiteTaken(site))
            }
            _ => {
                sites.insert(site.clone(), pinned);
                Ok(site)
            }
        }
    }

    /// Replaces the authority of a site that is trusted already, one's own among them, and the keys
    /// of its peers that are refused. Connections by the earlier authority, or with such a key,
    /// lose their trust. Returns the site's name.
    ///
    /// # Errors
    /// `NotPaired`: the site is not trusted. `Certificate`: it is no authority.
    pub fn replace(
        &self,
        authority: CertificateDer<'static>,
        revoked: BTreeSet<Fingerprint>,
    ) -> Result<Name, TrustError> {
        let (site, pinned) = Pinned::new(authority)?;
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = sites.get_mut(&site) else { return Err(TrustError::NotPaired(site)) };
        if known.fingerprint != pinned.fingerprint {
            self.note_ending(&site);
        }
        *known = Pinned { revoked: Arc::new(revoked), ..pinned };
        Ok(site)
    }

    /// Returns the keys of a site's peers that are refused.
    pub fn revoked_of(&self, site: &Name) -> BTreeSet<Fingerprint> {
        self.pinned(site).map(|pinned| (*pinned.revoked).clone()).unwrap_or_default()
    }

    /// Ends the trust in a site; false if it was not paired. The own site stays trusted.
    pub fn unpin(&self, site: &Name) -> bool {
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        let was_paired = *site != self.own && sites.remove(site).is_some();
        if was_paired {
            self.note_ending(site);
        }
        was_paired
    }

    fn note_ending(&self, site: &Name) {
        *self
            .endings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(site.clone())
            .or_default() += 1;
    }

    /// Returns how often the authority of each site was unpinned or replaced. A count that has
    /// grown shows an ending also where the site was pinned again meanwhile.
    pub fn endings(&self) -> BTreeMap<Name, u64> {
        self.endings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the own site.
    pub fn own_site(&self) -> &Name {
        &self.own
    }

    /// Returns the authority pinned for a site.
    pub fn authority_of(&self, site: &Name) -> Option<CertificateDer<'static>> {
        self.pinned(site).ok().map(|pinned| pinned.certificate)
    }

    /// Returns the fingerprint of the authority that is pinned for a site.
    pub fn fingerprint_of(&self, site: &Name) -> Option<Fingerprint> {
        self.pinned(site).ok().map(|pinned| pinned.fingerprint)
    }

    /// Returns the peer that a chain names (`peer_certificates()` of a finished connection), and
    /// the authority that vouches for it. Verifies the chain, so that the authority is the one that
    /// is pinned now and not the one of an earlier pairing.
    ///
    /// # Errors
    /// `NotPaired`; `Certificate`, also if the pinned authority did not sign the chain.
    pub fn vouched(&self, chain: &[CertificateDer<'_>]) -> Result<Vouched, TrustError> {
        let peer = peer_id_of(chain)?;
        let pinned = self.pinned(&peer.site)?;
        let (leaf, above) =
            chain.split_first().ok_or(TrustError::Certificate("the peer showed none"))?;
        let verified = pinned.clients.verify_client_cert(leaf, above, UnixTime::now());
        verified.map_err(|_| {
            TrustError::Certificate(
                "the authority that is pinned for its site does not sign for it",
            )
        })?;
        let key = pinned.check_revoked(&peer, leaf)?;
        Ok(Vouched { peer, authority: pinned.fingerprint, key })
    }

    /// Returns whether the authority of a connection is still pinned for its site, and the key of
    /// its peer is not revoked.
    pub fn vouches(&self, vouched: &Vouched) -> bool {
        self.pinned(&vouched.peer.site).is_ok_and(|pinned| {
            pinned.fingerprint == vouched.authority && !pinned.revoked.contains(&vouched.key)
        })
    }

    /// Returns all sites, the own one among them, with the fingerprints of their authorities.
    pub fn sites(&self) -> Vec<(Name, Fingerprint)> {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        sites.iter().map(|(site, pinned)| (site.clone(), pinned.fingerprint)).collect()
    }

    pub(super) fn pinned(&self, site: &Name) -> Result<Pinned, TrustError> {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        sites.get(site).cloned().ok_or_else(|| TrustError::NotPaired(site.clone()))
    }
}

impl fmt::Debug for TrustStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustStore").field("sites", &self.sites()).finish()
    }
}
