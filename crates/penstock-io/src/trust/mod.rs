//! Who may speak to whom: site authorities, peer certificates, pinned trust, pairing, capabilities.
//!
//! Each site has one authority of its own ([`SiteAuthority`]): a certificate authority that issues
//! a certificate to every peer of the site, named by the URI `penstock://SITE/PEER`, and an Ed25519
//! key that signs capabilities. No public authority plays a part. Two sites that pair exchange
//! their authorities' certificates; from then on each [`TrustStore`] holds the other's, *pinned to
//! the name of its site*.
//!
//! What flows in: certificates from peers nobody knows yet, tokens that people paste, capabilities
//! that a target shows. What flows out: a [`PeerId`] one may rely on,
//! or an error that names what is wrong. The rules, all tested below:
//!
//! - **D4** The verifier reads the site from the certificate's URI and then trusts that site's
//!   authority only. A third paired site that mints `penstock://site-b/x` is refused: site-b's
//!   authority did not sign it. DNS names play no part, so a server's name cannot be confused with
//!   its address. Authorities carry a name constraint for their site as well, for other software.
//! - **D5** Pairing starts from a pasted [`PairingToken`]: it pins the issuer's authority by the
//!   SHA-256 of its key, and a 128-bit secret that works once proves the joiner, bound to that
//!   very TLS connection by its exporter.
//! - A site replaces its authority by a statement that the old and the new one sign
//!   ([`SiteAuthority::sign_keys`], [`verify_keys`]). A site that has accepted the statement trusts
//!   the new authority alone, and none of the keys that the statement revokes.
//! - A pairing that ended leaves nothing behind: no session is resumed, and a connection that
//!   stands carries the fingerprint of the authority that vouched for it ([`Vouched`]).
//! - A client that shows a certificate which does not verify is refused, also where showing none
//!   would have been allowed (the site API, for pairing).
//! - **C4** A source needs no list of approved transfers: [`verify_capability`] checks alone.
//!
//! What survives a crash: the files that [`SiteAuthority::save`] and [`PeerCertificate::save`]
//! wrote, each renamed into place after it was synced, keys readable by their owner only. A peer's
//! certificate is renewed while its TLS configurations are in use. The trust store lives in memory;
//! the controller's state holds the pairings and fills it at start.

mod authority;
mod capability;
mod config;
mod files;
mod identity;
mod pairing;
mod receipt;
mod service;
mod store;
mod succession;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

pub use authority::{PEER_CERTIFICATE_DAYS, SiteAuthority};
pub use capability::{CapabilityError, CapabilityKey, verify_capability};
pub use config::{
    ALPN_HTTP1, ALPN_HTTP2, ALPN_LANE, CipherSuite, Purpose, client_config, peer_server_name,
    server_config, web_client_config,
};
pub use identity::PeerCertificate;
pub use pairing::{
    PAIRING_SECONDS, PAIRING_TRIES, PROOF_BYTES, PairingOffer, PairingRefused, PairingToken,
    ParseTokenError, issuing_authority, pairing_client_config, pairing_exporter, pairing_proof,
    verify_pairing,
};
pub use receipt::{ReceiptKey, read_authorities, verify_certification, verify_receipt_signature};
pub use service::{ServiceCertificate, ServiceFacts};
pub use store::{
    AuthorityFacts, Fingerprint, TrustStore, Vouched, inspect_authority, key_of, peer_id_of,
};
pub use succession::{LINKS_MAX, save_authority, verify_keys};

use std::path::PathBuf;
use std::sync::Arc;

use penstock_proto::id::{Name, PeerId};
use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// A fault of a certificate, a key or a pairing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A file of keys or certificates could not be read or written.
    #[error("{action} `{path}`")]
    File {
        /// The action that failed: "read", "write", …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Users besides its owner may read a private key.
    #[error("`{path}` holds a private key and is open to others (mode {mode:o}); `chmod 600` it")]
    KeyExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file holds no such thing.
    #[error("`{path}` holds no {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The kind of section that was expected.
        what: &'static str,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// A key could not be made or used.
    #[error("the cryptographic library refused a key")]
    Key,
    /// A certificate has a fault.
    #[error("certificate refused: {0}")]
    Certificate(&'static str),
    /// The peer's site has revoked the key of its certificate.
    #[error("site `{}` has revoked the key of its peer `{}`", .0.site, .0.peer)]
    Revoked(PeerId),
    /// A certificate belongs to a peer of a site that is not paired with ours.
    #[error("`{0}` is not paired with this site")]
    NotPaired(Name),
    /// The peer is of another site than the one wanted.
    #[error("expected a peer of site `{expected}`, found `{found}`")]
    WrongSite {
        /// The site that was wanted.
        expected: Name,
        /// The peer that answered.
        found: PeerId,
    },
    /// A different authority is already pinned under the same site name.
    #[error("site `{0}` is known already, with another authority; unpair it first")]
    SiteTaken(Name),
    /// TLS configuration was refused.
    #[error("TLS cannot be configured")]
    Tls(#[from] rustls::Error),
}

/// Turns an error of ours into one that rustls reports, with an alert to the other end.
fn refused(error: TrustError) -> rustls::Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

/// Returns whether a TLS error says that one end does not trust the other, so that a retry will not
/// help. Any other error may come from a bit that was flipped on the way, which breaks a handshake
/// as well, and a retry may succeed.
pub fn is_distrust(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(_)
            | Error::NoCertificatesPresented
            | Error::AlertReceived(
                AlertDescription::BadCertificate
                    | AlertDescription::UnsupportedCertificate
                    | AlertDescription::CertificateRevoked
                    | AlertDescription::CertificateExpired
                    | AlertDescription::CertificateUnknown
                    | AlertDescription::UnknownCA
                    | AlertDescription::AccessDenied
                    | AlertDescription::DecryptError
                    | AlertDescription::CertificateRequired
            )
    )
}

/// Returns a TLS error in the words of an operator: the certificate that was rejected, by which
/// end, and the reason.
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(inner)) => inner.to_string(),
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the peer's certificate has expired".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the peer's certificate is not valid yet; compare the clocks".to_owned(),
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "the peer's certificate is not signed by the authority pinned for its site".to_owned(),
        Error::AlertReceived(
            alert @ (AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied),
        ) => format!("the other end refuses our certificate ({alert:?}); its log says why"),
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the other end says that our certificate has expired".to_owned()
        }
        other => other.to_string(),
    }
}
