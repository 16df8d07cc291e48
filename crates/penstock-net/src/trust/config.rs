//! TLS configurations: version 1.3 alone, post-quantum hybrid key exchange first, mutual trust.

use std::sync::Arc;

use penstock_proto::frame::CipherSuite;
use penstock_proto::id::Name;
use rustls::client::Resumption;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName};

use super::error::TrustError;
use super::identity::PeerCertificate;
use super::provider::{ALPN_HTTP1, ALPN_HTTP2, ALPN_LANE, provider, provider_for_checks};
use super::store::TrustStore;
use super::verify::SiteVerifier;

/// The use of a TLS configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Lanes: both ends show certificates, secrets can be extracted.
    Lane,
    /// The site API: a client may show no certificate at all, so that the HTTP layer can serve
    /// pairing, and nothing else, to it. A certificate that it shows must verify.
    SiteApi,
}

impl Purpose {
    fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            Self::Lane => vec![ALPN_LANE.to_vec()],
            Self::SiteApi => vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()],
        }
    }
}

/// Returns a name for rustls where it requires one. It is neither sent nor compared: peers are
/// known by the URI in their certificates.
pub fn peer_server_name() -> ServerName<'static> {
    const NAME: &str = "peer.penstock.invalid";
    match DnsName::try_from(NAME) {
        Ok(name) => ServerName::DnsName(name),
        Err(_) => unreachable!("a constant that is a DNS name"),
    }
}

/// Returns the server's half. It asks for client certificates as `purpose` says, and at each
/// handshake shows the current certificate of `identity` and trusts the authorities in `trust`.
///
/// No session is kept or resumed, so that each connection verifies its certificates again.
///
/// `suites` are offered in this order, but the client's order decides. `preferred_suites()`
/// is right unless an operator chose.
///
/// # Errors
/// `Tls` if `suites` is empty.
pub fn server_config(
    purpose: Purpose,
    identity: &PeerCertificate,
    trust: &Arc<TrustStore>,
    suites: &[CipherSuite],
) -> Result<Arc<ServerConfig>, TrustError> {
    let verifier = SiteVerifier {
        trust: Arc::clone(trust),
        expected_site: None,
        client_mandatory: purpose == Purpose::Lane,
    };
    let mut config = ServerConfig::builder_with_provider(provider(suites)?)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(identity.shown());
    config.alpn_protocols = purpose.alpn();
    // A session that is resumed verifies no certificate: it would outlive the pairing.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.enable_secret_extraction = purpose == Purpose::Lane;
    Ok(Arc::new(config))
}

/// Returns the client's half. It shows the current certificate of `identity` at each handshake, and
/// accepts peers of `expected_site` alone, or of any paired site if that is `None`.
///
/// # Errors
/// `Tls` if `suites` is empty.
pub fn client_config(
    purpose: Purpose,
    identity: &PeerCertificate,
    trust: &Arc<TrustStore>,
    expected_site: Option<Name>,
    suites: &[CipherSuite],
) -> Result<Arc<ClientConfig>, TrustError> {
    let verifier =
        SiteVerifier { trust: Arc::clone(trust), expected_site, client_mandatory: false };
    let mut config = ClientConfig::builder_with_provider(provider(suites)?)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(identity.shown());
    config.alpn_protocols = purpose.alpn();
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    config.enable_secret_extraction = purpose == Purpose::Lane;
    Ok(Arc::new(config))
}

/// Returns a client of servers of the internet, which trusts the authorities that the host trusts
/// and those in `more`, PEM. On a host without authorities only `more` is trusted. Blocks on the
/// files of the host.
///
/// # Errors
/// `Certificate` or `Tls`: `more` is no PEM, or one of its certificates is invalid.
pub fn host_client_config(more: Option<&[u8]>) -> Result<ClientConfig, TrustError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    for certificate in CertificateDer::pem_slice_iter(more.unwrap_or_default()) {
        let none = |_| TrustError::Certificate("the authority is no PEM");
        roots.add(certificate.map_err(none)?)?;
    }
    let config = ClientConfig::builder_with_provider(provider_for_checks())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_root_certificates(roots);
    Ok(config.with_no_client_auth())
}

/// Returns a client of an ordinary service, which is known by its DNS name or address, as etcd is.
/// `ca` holds the only authorities that are trusted for it, PEM. `identity` holds the certificate
/// to show and its key, PEM. Without `ca` no server is trusted: for plain HTTP.
///
/// # Errors
/// `Certificate` or `Tls`: a given certificate or key is invalid.
pub fn web_client_config(
    ca: Option<&[u8]>,
    identity: Option<(&[u8], &[u8])>,
) -> Result<Arc<ClientConfig>, TrustError> {
    let none = TrustError::Certificate;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.unwrap_or_default()) {
        roots.add(certificate.map_err(|_| none("the authority is no PEM"))?)?;
    }
    let builder = ClientConfig::builder_with_provider(provider_for_checks())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_root_certificates(roots);
    let Some((chain, key)) = identity else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|_| none("the client's certificate is no PEM"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| none("the client's key is no PEM"))?;
    Ok(Arc::new(builder.with_client_auth_cert(chain, key)?))
}
