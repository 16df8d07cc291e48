//! The verifiers that rustls calls: by the site in the certificate, never by DNS (hard case D4).

use std::sync::Arc;

use penstock_proto::id::{Name, PeerId};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::verify_tls13_signature;
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::error::{TrustError, refused};
use super::facts::{Fingerprint, inspect_authority, peer_id_of, single_root};
use super::provider::provider_for_checks;
use super::store::TrustStore;

/// The signature half of both verifier traits, which is the same everywhere: TLS 1.3 and no other.
macro_rules! tls13_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = provider_for_checks().signature_verification_algorithms;
            verify_tls13_signature(message, cert, dss, &algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            provider_for_checks().signature_verification_algorithms.supported_schemes()
        }
    };
}

/// Accepts peers of paired sites, each by its own site's authority alone.
#[derive(Debug)]
pub(super) struct SiteVerifier {
    pub(super) trust: Arc<TrustStore>,
    /// The only site that may answer a client; any paired one if `None`.
    pub(super) expected_site: Option<Name>,
    /// Set if a server requires a certificate of clients. A certificate that is shown must always
    /// verify.
    pub(super) client_mandatory: bool,
}

impl ServerCertVerifier for SiteVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let peer = peer_id_of(std::slice::from_ref(end_entity)).map_err(refused)?;
        check_expected(self.expected_site.as_ref(), &peer).map_err(refused)?;
        let pinned = self.trust.pinned(&peer.site).map_err(refused)?;
        pinned.check_revoked(&peer, end_entity).map_err(refused)?;
        verify_server(end_entity, intermediates, &pinned.roots, now)
    }

    tls13_signatures!();
}

impl ClientCertVerifier for SiteVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.client_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let peer = peer_id_of(std::slice::from_ref(end_entity)).map_err(refused)?;
        let pinned = self.trust.pinned(&peer.site).map_err(refused)?;
        pinned.check_revoked(&peer, end_entity).map_err(refused)?;
        pinned.clients.verify_client_cert(end_entity, intermediates, now)
    }

    tls13_signatures!();
}

/// Accepts the one authority whose key a pairing token names, and only peers of its site (D5).
#[derive(Debug)]
pub(super) struct PinnedVerifier {
    pub(super) authority: Fingerprint,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (authority, site) = find_authority(intermediates, &self.authority).map_err(refused)?;
        let peer = peer_id_of(std::slice::from_ref(end_entity)).map_err(refused)?;
        check_expected(Some(&site), &peer).map_err(refused)?;
        let roots = single_root(authority).map_err(refused)?;
        verify_server(end_entity, intermediates, &roots, now)
    }

    tls13_signatures!();
}

/// Accepts any server that has the key of its certificate. It serves only to read the chain.
#[derive(Debug)]
pub(super) struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    tls13_signatures!();
}

/// Returns the certificate among `chain` whose key has the given hash, and the site it speaks for.
pub(super) fn find_authority<'a, 'b>(
    chain: &'a [CertificateDer<'b>],
    wanted: &Fingerprint,
) -> Result<(&'a CertificateDer<'b>, Name), TrustError> {
    chain
        .iter()
        .find_map(|certificate| {
            let facts = inspect_authority(certificate).ok()?;
            (facts.fingerprint == *wanted).then_some((certificate, facts.site))
        })
        .ok_or(TrustError::Certificate("its authority is not the one that the token names"))
}

fn check_expected(expected: Option<&Name>, found: &PeerId) -> Result<(), TrustError> {
    match expected {
        Some(expected) if *expected != found.site => {
            Err(TrustError::WrongSite { expected: expected.clone(), found: found.clone() })
        }
        _ => Ok(()),
    }
}

/// Checks chain, validity and key usage, but no name.
fn verify_server(
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: UnixTime,
) -> Result<ServerCertVerified, Error> {
    let algorithms = provider_for_checks().signature_verification_algorithms;
    verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(end_entity)?,
        roots,
        intermediates,
        now,
        algorithms.all,
    )?;
    Ok(ServerCertVerified::assertion())
}
