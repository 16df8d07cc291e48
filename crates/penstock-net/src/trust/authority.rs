//! The authority of one site: issues peers' certificates and signs capabilities.

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use penstock_proto::id::{Name, PeerId};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::capability::CapabilityKey;
use super::error::TrustError;
use super::facts::{Fingerprint, inspect_authority};
use super::identity::PeerCertificate;
use super::pairing::pairing_statement;
use super::pem::{self, read_chain, read_key, write_key};
use super::validity::{DAY, PEER_CERTIFICATE_DAYS};

/// Validity of an authority in days: longer than the life of a host.
const AUTHORITY_DAYS: u64 = 20 * 365;
/// Rotations that a paired site may miss, as when it is switched off. A site that misses more has
/// to be paired again.
pub const LINKS_MAX: usize = 4;
/// Days by which the validity of an authority and its certificates begins before they are made, for
/// peers whose clocks are behind.
const CLOCK_SKEW_DAYS: u64 = 1;
const AUTHORITY_CERTIFICATE: &str = "authority.pem";
const AUTHORITY_KEY: &str = "authority.key";
const CAPABILITY_KEY: &str = "capability.key";
const LINKS: &str = "authority-links.pem";

/// A site's certificate authority and its capability-signing key, both private.
///
/// It belongs on the hosts that may become the site's controller and nowhere else.
pub struct SiteAuthority {
    site: Name,
    certificate: CertificateDer<'static>,
    pub(super) issuer: Issuer<'static, KeyPair>,
    capability_key: CapabilityKey,
    /// Certificates of authorities of this site by those before them, the newest first. A site that
    /// still pins an earlier authority verifies peers by them.
    links: Vec<CertificateDer<'static>>,
}

impl SiteAuthority {
    /// Makes the authority of a new site, with fresh keys (ECDSA P-256, Ed25519).
    ///
    /// # Errors
    /// `Make` or `Key` if the cryptographic library fails, which it does not in practice.
    pub fn create(site: Name) -> Result<Self, TrustError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = authority_params(&site);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.custom_extensions.push(name_constraint(&site));
        let certificate = params.self_signed(&key)?.der().clone();
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        let (capability_key, links) = (CapabilityKey::generate()?, Vec::new());
        Ok(Self { site, certificate, issuer, capability_key, links })
    }

    /// Makes the authority that is to follow this one, with fresh keys. Peers with its certificates
    /// are accepted also by sites that pin this one, or one of the few before it.
    ///
    /// # Errors
    /// As [`SiteAuthority::create`].
    pub fn succeed(&self) -> Result<Self, TrustError> {
        let mut next = Self::create(self.site.clone())?;
        // No name constraint: webpki refuses every URI below a certificate that has one. The site
        // is compared by the verifiers. No limit of the path either: links follow each other.
        let mut params = authority_params(&self.site);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.use_authority_key_identifier_extension = true;
        let link = params.signed_by(next.issuer.key(), &self.issuer)?.der().clone();
        next.links = std::iter::once(link).chain(self.links.iter().cloned()).collect();
        next.links.truncate(LINKS_MAX);
        Ok(next)
    }

    /// Writes `authority.pem`, `authority.key`, `capability.key` and, after a rotation,
    /// `authority-links.pem` into `directory`, which is made if it is missing; existing files are
    /// replaced. Blocks on storage.
    ///
    /// # Errors
    /// `File` names the file that could not be written.
    pub fn save(&self, directory: &Path) -> Result<(), TrustError> {
        pem::make_directory(directory)?;
        let key = Zeroizing::new(self.issuer.key().serialize_der());
        let capability_key = self.capability_key.to_pkcs8()?;
        write_key(&directory.join(AUTHORITY_KEY), &key)?;
        write_key(&directory.join(CAPABILITY_KEY), &capability_key)?;
        if !self.links.is_empty() {
            let links = self.links.iter().map(|der| pem::section("CERTIFICATE", der).to_string());
            let links: String = links.collect();
            pem::write_file(&directory.join(LINKS), 0o644, links.as_bytes())?;
        }
        let certificate = pem::section("CERTIFICATE", &self.certificate);
        pem::write_file(&directory.join(AUTHORITY_CERTIFICATE), 0o644, certificate.as_bytes())
    }

    /// Reads the files that [`SiteAuthority::save`] wrote. Blocks on storage.
    ///
    /// # Errors
    /// `KeyExposed` if others may read a key; `File`, `Content` or `Certificate` name the part that
    /// is missing or damaged.
    pub fn load(directory: &Path) -> Result<Self, TrustError> {
        let certificate = read_chain(&directory.join(AUTHORITY_CERTIFICATE))?.swap_remove(0);
        let path = directory.join(AUTHORITY_KEY);
        let key = read_key(&path)?;
        let key = KeyPair::try_from(key.secret_pkcs8_der())?;
        let facts = inspect_authority(&certificate)?;
        if Fingerprint::of_public_key(&rcgen::PublicKeyData::subject_public_key_info(&key))
            != facts.fingerprint
        {
            return Err(TrustError::Content { path, what: "key of the certificate beside it" });
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        let pkcs8 = read_key(&directory.join(CAPABILITY_KEY))?;
        let capability_key = CapabilityKey::from_pkcs8(pkcs8.secret_pkcs8_der())?;
        let links = directory.join(LINKS);
        let links = if links.exists() { read_chain(&links)? } else { Vec::new() };
        Ok(Self { site: facts.site, certificate, issuer, capability_key, links })
    }

    /// Returns the site whose authority this is.
    pub fn site(&self) -> &Name {
        &self.site
    }

    /// Returns the authority's certificate, which other sites pin.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns the SHA-256 of the authority's public key, for tokens and for people to compare.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_public_key(&rcgen::PublicKeyData::subject_public_key_info(
            self.issuer.key(),
        ))
    }

    /// Returns the key that signs the site's capabilities.
    pub fn capability_key(&self) -> &CapabilityKey {
        &self.capability_key
    }

    /// Signs the statement that a key signs the site's receipts: ECDSA P-256 with SHA-256, DER.
    ///
    /// # Errors
    /// `Make` if the cryptographic library fails, which it does not in practice.
    pub fn certify_receipt_key(&self, statement: &[u8]) -> Result<Vec<u8>, TrustError> {
        Ok(rcgen::SigningKey::sign(self.issuer.key(), statement)?)
    }

    /// Signs a pairing over the connection with this exporter, as the joiner of the site whose
    /// authority has the fingerprint `issuer`: ECDSA P-256 with SHA-256, DER.
    ///
    /// # Errors
    /// As [`SiteAuthority::certify_receipt_key`].
    pub fn sign_pairing(
        &self,
        exporter: &[u8; 32],
        issuer: &Fingerprint,
    ) -> Result<Vec<u8>, TrustError> {
        let statement = pairing_statement(exporter, issuer, &self.fingerprint());
        Ok(rcgen::SigningKey::sign(self.issuer.key(), &statement)?)
    }

    /// Issues a certificate and a fresh key to one peer of the site, valid for
    /// [`PEER_CERTIFICATE_DAYS`].
    ///
    /// # Errors
    /// `WrongSite` if `peer` is of another site.
    pub fn issue_peer(&self, peer: &PeerId) -> Result<PeerCertificate, TrustError> {
        self.issue_peer_at(peer, SystemTime::now())
    }

    /// Issues a certificate as [`SiteAuthority::issue_peer`] does, at a moment that the caller
    /// chooses.
    ///
    /// # Errors
    /// Those of [`SiteAuthority::issue_peer`].
    pub fn issue_peer_at(
        &self,
        peer: &PeerId,
        now: SystemTime,
    ) -> Result<PeerCertificate, TrustError> {
        if peer.site != self.site {
            return Err(TrustError::WrongSite { expected: self.site.clone(), found: peer.clone() });
        }
        self.issue_between(peer, self.begins()?, now + DAY * PEER_CERTIFICATE_DAYS as u32)
    }

    /// Returns the begin of validity of issued certificates: that of the authority itself. A
    /// certificate issued while a clock is ahead is so still valid when the clock has been
    /// corrected.
    pub(super) fn begins(&self) -> Result<SystemTime, TrustError> {
        let (_, own) = x509_parser::parse_x509_certificate(&self.certificate)
            .map_err(|_| TrustError::Certificate("it is not an X.509 certificate"))?;
        Ok(own.validity().not_before.to_datetime().into())
    }

    /// Issues without looking at the name: tests make the certificates that must be refused.
    pub(super) fn issue_between(
        &self,
        peer: &PeerId,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> Result<PeerCertificate, TrustError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(&peer.to_string());
        params.subject_alt_names = vec![SanType::URI(peer.uri().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = not_before.into();
        params.not_after = not_after.into();
        let leaf = params.signed_by(&key, &self.issuer)?.der().clone();
        let mut chain = vec![leaf, self.certificate.clone()];
        chain.extend_from_slice(&self.links);
        PeerCertificate::new(chain, PrivatePkcs8KeyDer::from(key.serialize_der()))
    }
}

impl fmt::Debug for SiteAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteAuthority").field("site", &self.site).finish_non_exhaustive()
    }
}

/// Parameters that all certificates of authorities of a site share.
fn authority_params(site: &Name) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(site.as_str());
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let now = SystemTime::now();
    params.not_before = (now - DAY * CLOCK_SKEW_DAYS as u32).into();
    params.not_after = (now + DAY * AUTHORITY_DAYS as u32).into();
    params
}

fn common_name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

/// Permits URIs whose host is the site, and no others (RFC 5280, section 4.2.1.10):
/// `SEQUENCE { [0] { SEQUENCE { [6] host } } }`. rcgen has no URI constraints.
fn name_constraint(site: &Name) -> CustomExtension {
    let host = site.as_str().as_bytes();
    // A name has at most 63 bytes, so that every length here fits one byte below 128.
    let length = host.len() as u8;
    let mut der = vec![0x30, length + 6, 0xa0, length + 4, 0x30, length + 2, 0x86, length];
    der.extend_from_slice(host);
    let mut extension = CustomExtension::from_oid_content(&[2, 5, 29, 30], der);
    extension.set_criticality(true);
    extension
}
