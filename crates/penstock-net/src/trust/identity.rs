//! The certificate that a peer shows, and its renewal while it is in use.
//!
//! TLS configurations read it at each handshake. A renewed certificate is therefore shown from the
//! next connection on; existing connections are not changed.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_proto::id::PeerId;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::error::TrustError;
use super::facts::{Fingerprint, key_of, peer_id_of};
use super::pem::{self, read_chain, read_key, write_key};
use super::provider::provider_for_checks;
use super::validity::{DAY, PEER_CERTIFICATE_DAYS};

const PEER_CERTIFICATE: &str = "peer.pem";
const PEER_KEY: &str = "peer.key";

/// A peer's certificate with its private key and the authority's certificate behind it.
pub struct PeerCertificate {
    peer: PeerId,
    shown: Arc<Shown>,
}

/// The certificate that TLS configurations made with it show.
pub(super) struct Shown(RwLock<Arc<Issued>>);

/// A certificate as it was issued.
struct Issued {
    /// The peer's certificate, then the authority's: a joiner that knows only the hash of the
    /// authority's key finds the authority here (D5). Links from earlier authorities to it follow,
    /// and the signing key.
    certified: Arc<CertifiedKey>,
    key: PrivatePkcs8KeyDer<'static>,
    /// Seconds since 1970 after which it is refused.
    expires: u64,
}

impl PeerCertificate {
    /// # Errors
    /// `Certificate`: the first of `chain` is not a peer's. `Tls`: the key does not belong to it.
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivatePkcs8KeyDer<'static>,
    ) -> Result<Self, TrustError> {
        let peer = peer_id_of(&chain)?;
        let expires = {
            let (_, leaf) = x509_parser::parse_x509_certificate(&chain[0])
                .map_err(|_| TrustError::Certificate("it is not an X.509 certificate"))?;
            u64::try_from(leaf.validity().not_after.timestamp()).unwrap_or(0)
        };
        let private = PrivateKeyDer::Pkcs8(key.clone_key());
        let certified = CertifiedKey::from_der(chain, private, &provider_for_checks())?;
        let issued = Issued { certified: Arc::new(certified), key, expires };
        Ok(Self { peer, shown: Arc::new(Shown(RwLock::new(Arc::new(issued)))) })
    }

    /// Returns the peer that the certificate names.
    pub fn peer(&self) -> &PeerId {
        &self.peer
    }

    /// Returns the peer's certificate, then its authority's, then the links from earlier
    /// authorities.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.shown.issued().certified.cert.clone()
    }

    /// Returns the authority that issued it.
    pub fn authority(&self) -> CertificateDer<'static> {
        self.shown.issued().certified.cert[1].clone()
    }

    /// Returns the SHA-256 of the certificate's public key, by which it is revoked.
    ///
    /// # Errors
    /// `Certificate`: it cannot be read.
    pub fn key(&self) -> Result<Fingerprint, TrustError> {
        key_of(&self.chain())
    }

    /// Returns the seconds since 1970 after which other peers refuse it.
    pub fn expires(&self) -> u64 {
        self.shown.issued().expires
    }

    /// Returns whether the certificate must be replaced: a third of its time or less is left.
    pub fn is_stale(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.expires() < now + DAY.as_secs() * PEER_CERTIFICATE_DAYS / 3
    }

    /// Replaces this certificate by `other`, in all TLS configurations that were made with it.
    ///
    /// # Errors
    /// `WrongSite`: it is another peer's.
    pub fn become_like(&self, other: &Self) -> Result<(), TrustError> {
        if self.peer != other.peer {
            let (expected, found) = (self.peer.site.clone(), other.peer.clone());
            return Err(TrustError::WrongSite { expected, found });
        }
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = other.shown.issued();
        Ok(())
    }

    pub(super) fn shown(&self) -> Arc<Shown> {
        Arc::clone(&self.shown)
    }

    /// Writes `peer.pem` and `peer.key` into `directory`, which is made if it is missing. A crash
    /// between the two leaves a key that does not fit. Blocks on storage.
    ///
    /// # Errors
    /// `File` names the file that could not be written.
    pub fn save(&self, directory: &Path) -> Result<(), TrustError> {
        pem::make_directory(directory)?;
        let issued = self.shown.issued();
        write_key(&directory.join(PEER_KEY), issued.key.secret_pkcs8_der())?;
        let chain = issued.certified.cert.iter();
        let chain: String = chain.map(|der| pem::section("CERTIFICATE", der).to_string()).collect();
        pem::write_file(&directory.join(PEER_CERTIFICATE), 0o644, chain.as_bytes())
    }

    /// Reads the files that [`PeerCertificate::save`] wrote. Blocks on storage.
    ///
    /// # Errors
    /// `KeyExposed` if others may read the key. `File`, `Content` or `Certificate` name the part
    /// that is missing or damaged. `Tls` if the key does not belong to the certificate.
    pub fn load(directory: &Path) -> Result<Self, TrustError> {
        let path = directory.join(PEER_CERTIFICATE);
        let chain = read_chain(&path)?;
        if chain.len() < 2 {
            return Err(TrustError::Content { path, what: "peer and authority certificate" });
        }
        Self::new(chain, read_key(&directory.join(PEER_KEY))?)
    }
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCertificate").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Shown {
    fn issued(&self) -> Arc<Issued> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("expires", &self.issued().expires).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.issued().certified))
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(
        &self,
        _root_hint_subjects: &[&[u8]],
        _sigschemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.issued().certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
