//! Certificates for a service that a site runs for itself, such as etcd. The service knows nothing
//! of sites and peers: it compares addresses.
//!
//! Such a certificate names no peer (no `penstock://` URI), so that no peer of any site mistakes it
//! for that of a peer. Some clients, such as rustls-webpki, know the authority's name constraint
//! and cannot read it. They find no name in the certificate that is constrained.

mod web;

pub use web::{WebCertificate, WebName};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use x509_parser::extensions::GeneralName;

use super::authority::SiteAuthority;
use super::error::TrustError;
use super::pem::{self, read_chain, write_key};
use super::validity::{DAY, PEER_CERTIFICATE_DAYS};

/// A certificate for a service of one host, with its private key.
pub struct ServiceCertificate {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

/// The facts in a service's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFacts {
    /// Seconds since 1970 after which it is refused.
    pub expires: u64,
    /// The addresses that it is good for, in ascending order.
    pub addresses: Vec<IpAddr>,
}

impl SiteAuthority {
    /// Issues a certificate and a fresh key to a service at `addresses`, valid for
    /// [`PEER_CERTIFICATE_DAYS`] as server and as client.
    ///
    /// It has no common name, since etcd takes one for the name of a user.
    ///
    /// # Errors
    /// `Make` if the cryptographic library fails, which it does not in practice.
    pub fn issue_service(
        &self,
        name: &str,
        addresses: &[IpAddr],
    ) -> Result<ServiceCertificate, TrustError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, self.site().as_str());
        params.distinguished_name.push(DnType::OrganizationalUnitName, name);
        params.subject_alt_names = addresses.iter().copied().map(SanType::IpAddress).collect();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = self.begins()?.into();
        params.not_after = (SystemTime::now() + DAY * PEER_CERTIFICATE_DAYS as u32).into();
        let certificate = params.signed_by(&key, &self.issuer)?.der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(ServiceCertificate { certificate, key })
    }
}

impl ServiceCertificate {
    /// Writes both as PEM; existing files are replaced. A reader in between finds a key that does
    /// not match for a moment, and retries. Blocks on storage.
    ///
    /// # Errors
    /// `File` names the file that could not be written.
    pub fn save(&self, certificate: &Path, key: &Path) -> Result<(), TrustError> {
        write_key(key, self.key.secret_pkcs8_der())?;
        let text = pem::section("CERTIFICATE", &self.certificate);
        pem::write_file(certificate, 0o644, text.as_bytes())
    }
}

impl ServiceFacts {
    /// Returns the facts in the certificate in a file. Blocks on storage.
    ///
    /// # Errors
    /// `File`, `Content` or `Certificate` name the part that is missing or damaged.
    pub fn read(path: &Path) -> Result<Self, TrustError> {
        let chain = read_chain(path)?;
        let damaged = |_| TrustError::Certificate("it is not an X.509 certificate");
        let (_, leaf) = x509_parser::parse_x509_certificate(&chain[0])
            .map_err(|_| TrustError::Certificate("it is not an X.509 certificate"))?;
        let expires = u64::try_from(leaf.validity().not_after.timestamp()).unwrap_or(0);
        let names = leaf.subject_alternative_name().map_err(damaged)?;
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let address = |name: &GeneralName<'_>| match name {
            GeneralName::IPAddress(bytes) => match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| Ipv4Addr::from(bytes).into()),
                _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into()),
            },
            _ => None,
        };
        let mut addresses: Vec<IpAddr> = names.filter_map(address).collect();
        addresses.sort_unstable();
        Ok(Self { expires, addresses })
    }

    /// Returns whether the certificate must be replaced: a third of its time or less is left, or it
    /// lacks one of `addresses`.
    pub fn is_stale(&self, now: SystemTime, addresses: &[IpAddr]) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let third = DAY.as_secs() * PEER_CERTIFICATE_DAYS / 3;
        self.expires < now + third
            || addresses.iter().any(|address| self.addresses.binary_search(address).is_err())
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::peer_id_of;
    use super::*;

    /// D4: a service's certificate names no peer. It names the service's addresses, and is replaced
    /// in good time and when an address is missing.
    #[test]
    fn d4_a_services_certificate_names_addresses_and_no_peer() {
        let directory = tempfile::tempdir().unwrap();
        let (file, key) = (directory.path().join("s.pem"), directory.path().join("s.key"));
        let authority = SiteAuthority::create("hpc".parse().unwrap()).unwrap();
        let addresses: Vec<IpAddr> =
            ["10.1.2.3", "fd00::1"].iter().map(|text| text.parse().unwrap()).collect();
        authority.issue_service("etcd h1", &addresses).unwrap().save(&file, &key).unwrap();
        assert!(peer_id_of(&read_chain(&file).unwrap()).is_err());
        let facts = ServiceFacts::read(&file).unwrap();
        assert_eq!(facts.addresses, addresses);
        let now = SystemTime::now();
        assert!(!facts.is_stale(now, &addresses));
        assert!(facts.is_stale(now, &["10.1.2.4".parse().unwrap()]));
        assert!(facts.is_stale(now + DAY * 600, &addresses));
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(std::fs::metadata(&key).unwrap().mode() & 0o777, 0o600);
    }
}
