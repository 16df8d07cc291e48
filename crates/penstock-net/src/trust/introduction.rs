//! The first connection of a program to the HTTPS API of a site whose authority it does not know
//! yet. The program shows the fingerprint to its user, and trusts that authority alone from then
//! on.

use std::sync::Arc;

use penstock_proto::id::Name;
use rustls::ClientConfig;
use rustls_pki_types::CertificateDer;

use super::error::TrustError;
use super::facts::{Fingerprint, inspect_authority, key_of};
use super::pem::section;
use super::provider::provider_for_checks;
use super::verify::AnyServer;

/// The authority at the end of the chain that a server has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntroducedAuthority {
    /// Its certificate, PEM.
    pub pem: String,
    /// The hash of its key.
    pub fingerprint: Fingerprint,
    /// The site, if it is the authority of one; none for an operator's own.
    pub site: Option<Name>,
}

/// Returns a client that believes any server. Send nothing over its connections: they are for
/// looking at the server's chain ([`introduced_authority`]).
///
/// # Errors
/// `Tls`, which does not happen in practice.
pub fn introduction_config() -> Result<Arc<ClientConfig>, TrustError> {
    let config = ClientConfig::builder_with_provider(provider_for_checks())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Returns the authority at the end of a chain, whether or not the chain is good.
///
/// # Errors
/// `Certificate` if there is none, or it cannot be read.
pub fn introduced_authority(
    chain: &[CertificateDer<'_>],
) -> Result<IntroducedAuthority, TrustError> {
    let last = chain.last().ok_or(TrustError::Certificate("the server showed none"))?;
    Ok(IntroducedAuthority {
        pem: section("CERTIFICATE", last).to_string(),
        fingerprint: key_of(std::slice::from_ref(last))?,
        site: inspect_authority(last).ok().map(|facts| facts.site),
    })
}
