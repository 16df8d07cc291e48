//! The certificate of the HTTPS API, for browsers and other programs that know no sites and peers.
//!
//! It is one of the site's authority, for the names and addresses by which users reach the peer; or
//! the operator's own, from two files. Its TLS configuration asks for no certificate of a client:
//! users prove themselves by tokens.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::super::authority::SiteAuthority;
use super::super::error::TrustError;
use super::super::pem::{read_any_key, read_chain};
use super::super::provider::{ALPN_HTTP1, ALPN_HTTP2, provider_for_checks};
use super::super::validity::DAY;

/// Validity of a certificate of the HTTPS API in days: as long as browsers accept (CA/Browser Forum
/// Baseline Requirements 6.3.2). Its daemon issues another at each start and each month.
const WEB_CERTIFICATE_DAYS: u32 = 397;

/// A chain and its key.
type Issued = (Vec<CertificateDer<'static>>, PrivatePkcs8KeyDer<'static>);

/// A name by which users reach the API of a peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WebName {
    /// A DNS name.
    Host(String),
    /// An address.
    Address(IpAddr),
}

impl WebName {
    /// Returns the name that a text means: an address, or else a DNS name.
    pub fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Host(text.to_owned()), Self::Address)
    }
}

/// The certificate that the HTTPS API shows, replaceable while it is in use.
#[derive(Clone)]
pub struct WebCertificate(Arc<Shown>);

struct Shown(RwLock<Arc<CertifiedKey>>);

impl WebCertificate {
    /// Issues a certificate of the site's authority with a fresh key, which stays in memory.
    ///
    /// # Errors
    /// A name is no DNS name, or the cryptographic library fails.
    pub fn issue(authority: &SiteAuthority, names: &[WebName]) -> Result<Self, TrustError> {
        let (chain, key) = authority.issue_web(names)?;
        Self::new(CertifiedKey::from_der(chain, key.into(), &provider_for_checks())?)
    }

    /// Reads the operator's own certificate, with its chain, and its key: PEM. Blocks on storage.
    ///
    /// # Errors
    /// `KeyExposed` if others may read the key; `File`, `Content` or `Tls` name the part that is
    /// missing or damaged.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TrustError> {
        let (chain, key): (_, PrivateKeyDer<'static>) =
            (read_chain(certificate)?, read_any_key(key)?);
        Self::new(CertifiedKey::from_der(chain, key, &provider_for_checks())?)
    }

    fn new(certified: CertifiedKey) -> Result<Self, TrustError> {
        Ok(Self(Arc::new(Shown(RwLock::new(Arc::new(certified))))))
    }

    /// Shows `other` from the next connection on.
    pub fn become_like(&self, other: &Self) {
        *self.0.0.write().unwrap_or_else(PoisonError::into_inner) = other.0.certified();
    }

    /// Returns the seconds since 1970 after which clients refuse it; 0 if it cannot be read.
    pub fn expires(&self) -> u64 {
        let certified = self.0.certified();
        let leaf = certified.cert.first().map(|leaf| x509_parser::parse_x509_certificate(leaf));
        let leaf = leaf.and_then(Result::ok);
        let seconds = leaf.map(|(_, leaf)| leaf.validity().not_after.timestamp());
        seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0)
    }

    /// Returns the DNS names that the certificate is for, in lower case; none where it cannot be
    /// read.
    pub fn host_names(&self) -> Vec<String> {
        let certified = self.0.certified();
        let Some(leaf) = certified.cert.first() else { return Vec::new() };
        let Ok((_, leaf)) = X509Certificate::from_der(leaf) else { return Vec::new() };
        let Ok(Some(names)) = leaf.subject_alternative_name() else { return Vec::new() };
        let dns = names.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        dns.collect()
    }

    /// Returns the TLS configuration of a server that shows this certificate: TLS 1.3, HTTP/2 and
    /// HTTP/1.1.
    ///
    /// # Errors
    /// `Tls`, which does not happen in practice.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, TrustError> {
        let mut config = ServerConfig::builder_with_provider(provider_for_checks())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.0) as _);
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
        Ok(Arc::new(config))
    }
}

impl SiteAuthority {
    /// Issues a certificate and a fresh key to the HTTPS API of a peer, which users reach by
    /// `names`; valid for [`WEB_CERTIFICATE_DAYS`]. Also returns the authority's certificate.
    ///
    /// # Errors
    /// `Make`: a name is no DNS name, or the cryptographic library fails.
    fn issue_web(&self, names: &[WebName]) -> Result<Issued, TrustError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, self.site().as_str());
        let name_of = |name: &WebName| match name {
            WebName::Host(host) => Ok(SanType::DnsName(host.as_str().try_into()?)),
            WebName::Address(address) => Ok::<_, TrustError>(SanType::IpAddress(*address)),
        };
        params.subject_alt_names = names.iter().map(name_of).collect::<Result<_, _>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let now = SystemTime::now();
        params.not_before = (now - DAY).into();
        params.not_after = (now + DAY * WEB_CERTIFICATE_DAYS).into();
        let leaf = params.signed_by(&key, &self.issuer)?.der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((vec![leaf, self.certificate().clone()], key))
    }
}

impl Shown {
    fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown(…)")
    }
}

impl fmt::Debug for WebCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebCertificate(…)")
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use rustls::{ClientConnection, ServerConnection, StreamOwned};
    use rustls_pki_types::ServerName;

    use super::super::super::config::web_client_config;
    use super::super::super::introduction::introduced_authority;
    use super::*;

    /// Connects as a program that trusts the site's authority for this name.
    fn greet(certificate: &WebCertificate, authority: &SiteAuthority, name: &str) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = certificate.server_config().unwrap();
        let pem =
            super::super::super::pem::section("CERTIFICATE", authority.certificate()).to_string();
        let client = web_client_config(Some(pem.as_bytes()), None).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (tcp, _) = listener.accept().unwrap();
                let mut tls = StreamOwned::new(ServerConnection::new(server).unwrap(), tcp);
                let _ = tls.write_all(b"hello").and_then(|()| tls.flush());
                tls.conn.send_close_notify();
                let _ = tls.conn.complete_io(&mut tls.sock);
            });
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let connection = ClientConnection::new(client, name).unwrap();
            let mut tls = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
            let mut heard = [0; 5];
            tls.read_exact(&mut heard).is_ok() && heard == *b"hello"
        })
    }

    /// Promise: a program that knows no authority sees the one of the server's chain, and reaches
    /// the server by that one alone.
    #[test]
    fn an_authority_is_introduced_by_the_chain() {
        let authority = SiteAuthority::create("hpc".parse().unwrap()).unwrap();
        let certificate = WebCertificate::issue(&authority, &[WebName::of("localhost")]).unwrap();
        let shown = introduced_authority(&certificate.0.certified().cert).unwrap();
        assert_eq!(shown.fingerprint, authority.fingerprint());
        assert_eq!(shown.site.as_ref(), Some(authority.site()));
        let own =
            super::super::super::pem::section("CERTIFICATE", authority.certificate()).to_string();
        assert_eq!(shown.pem, own);
        assert!(introduced_authority(&[]).is_err());
    }

    /// Promise: an ordinary program reaches the API by each of its names, and by no other, if it
    /// trusts the site's authority.
    #[test]
    fn ordinary_programs_accept_the_certificate_for_its_names() {
        let authority = SiteAuthority::create("hpc".parse().unwrap()).unwrap();
        let names = ["dtn1.example.org", "localhost", "127.0.0.1", "::1"].map(WebName::of);
        let certificate = WebCertificate::issue(&authority, &names).unwrap();
        for name in ["dtn1.example.org", "localhost", "127.0.0.1", "::1"] {
            assert!(greet(&certificate, &authority, name), "{name}");
        }
        assert_eq!(certificate.host_names(), ["dtn1.example.org", "localhost"]);
        assert!(!greet(&certificate, &authority, "dtn2.example.org"));
        let other = SiteAuthority::create("hpc".parse().unwrap()).unwrap();
        assert!(!greet(&certificate, &other, "localhost"));
    }
}
