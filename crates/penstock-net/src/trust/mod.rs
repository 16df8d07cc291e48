//! Trust between peers: site authorities, peer certificates, pinned trust, pairing, capabilities.
//!
//! Each site has one authority of its own ([`SiteAuthority`]): a certificate authority that issues
//! a certificate to every peer of the site, named by the URI `penstock://SITE/PEER`, and an Ed25519
//! key that signs capabilities. No public authority plays a part. Two sites that pair exchange
//! their authorities' certificates; from then on each [`TrustStore`] holds the other's, *pinned to
//! the name of its site*.
//!
//! The inputs are certificates of unknown peers, tokens that people paste, and capabilities that a
//! target shows. The output is a trusted [`penstock_proto::id::PeerId`], or an error that names the
//! fault. The rules, all tested below:
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
//! - A pairing that ended has no lasting effect: no session is resumed, and an open connection
//!   carries the fingerprint of the authority that vouched for it ([`Vouched`]).
//! - A client that shows a certificate which does not verify is refused, also where showing none
//!   would have been allowed (the site API, for pairing).
//! - **C4** A source needs no list of approved transfers: [`verify_capability`] checks alone.
//!
//! The files that [`SiteAuthority::save`] and [`PeerCertificate::save`] wrote survive a crash. Each
//! was synced and then renamed into place; only the owner can read the keys. A peer's certificate
//! is renewed while its TLS configurations are in use. The trust store lives in memory; the
//! controller's state holds the pairings and fills it at start.

mod authority;
mod capability;
mod config;
mod error;
mod facts;
mod identity;
mod introduction;
mod pairing;
mod pem;
mod provider;
mod receipt;
mod service;
mod store;
mod succession;
mod validity;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

pub use authority::{LINKS_MAX, SiteAuthority};
pub use capability::{CapabilityError, CapabilityKey, verify_capability};
pub use config::{
    Purpose, client_config, host_client_config, peer_server_name, server_config, web_client_config,
};
pub use error::{TrustError, explain, has_no_common_suite, is_distrust};
pub use facts::{AuthorityFacts, Fingerprint, inspect_authority, key_of, peer_id_of};
pub use identity::PeerCertificate;
pub use introduction::{IntroducedAuthority, introduced_authority, introduction_config};
pub use pairing::{
    PAIRING_SECONDS, PAIRING_TRIES, PROOF_BYTES, PairingOffer, PairingRefused, PairingToken,
    ParseTokenError, issuing_authority, pairing_client_config, pairing_exporter, pairing_proof,
    verify_pairing,
};
pub use provider::{ALPN_HTTP1, ALPN_HTTP2, ALPN_LANE, preferred_suites};
pub use receipt::{ReceiptKey, read_authorities, verify_certification, verify_receipt_signature};
pub use service::{ServiceCertificate, ServiceFacts, WebCertificate, WebName};
pub use store::{TrustStore, Vouched};
pub use succession::{save_authority, verify_keys};
pub use validity::PEER_CERTIFICATE_DAYS;
