//! Facts in certificates: the site of an authority, the name of a peer, the hash of a key.

use std::fmt;

use penstock_proto::id::{Name, PeerId};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::{GeneralName, ParsedExtension};

use super::error::TrustError;

/// SHA-256 of an authority's public key (its SubjectPublicKeyInfo), which tokens pin and people
/// compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub(super) fn of_public_key(spki: &[u8]) -> Self {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, spki);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hash.as_ref());
        Self(bytes)
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = TrustError;

    /// Reads the text of `Display`; dashes may be missing.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.replace('-', "");
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
        let bytes = bytes.ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or(TrustError::Certificate("that is no fingerprint"))
    }
}

/// Eight groups of eight hexadecimal digits, to be read aloud.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, group) in self.0.chunks(4).enumerate() {
            let separator = if at == 0 { "" } else { "-" };
            write!(f, "{separator}{}", data_encoding::HEXLOWER.encode(group))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// The facts in an authority's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFacts {
    /// The one site that it may speak for, by its name constraint.
    pub site: Name,
    /// The hash of its key.
    pub fingerprint: Fingerprint,
}

/// Reads a site authority's certificate: a CA, constrained to the URIs of exactly one site, whose
/// name is also its subject.
///
/// # Errors
/// `Certificate` names the condition that does not hold.
pub fn inspect_authority(der: &CertificateDer<'_>) -> Result<AuthorityFacts, TrustError> {
    let (rest, certificate) = x509_parser::parse_x509_certificate(der)
        .map_err(|_| TrustError::Certificate("it is not an X.509 certificate"))?;
    if !rest.is_empty() || !certificate.is_ca() {
        return Err(TrustError::Certificate("it is not a certificate authority"));
    }
    let site: Name = certificate
        .subject()
        .iter_common_name()
        .next()
        .and_then(|attribute| attribute.as_str().ok())
        .and_then(|text| text.parse().ok())
        .ok_or(TrustError::Certificate("its subject is not the name of a site"))?;
    let constrained = certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::NameConstraints(found) => found.permitted_subtrees.as_deref(),
            _ => None,
        })
        .is_some_and(|subtrees| match subtrees {
            [single] => matches!(single.base, GeneralName::URI(host) if host == site.as_str()),
            _ => false,
        });
    if !constrained {
        return Err(TrustError::Certificate("it is not constrained to the one site it names"));
    }
    let fingerprint = Fingerprint::of_public_key(certificate.public_key().raw);
    Ok(AuthorityFacts { site, fingerprint })
}

/// Returns the peer that a certificate names, the first of `chain`. Rely on it only if the chain
/// was verified, as that of a finished connection was (`peer_certificates()`).
///
/// # Errors
/// `Certificate` if there is none, or it does not hold exactly one `penstock://SITE/PEER`.
pub fn peer_id_of(chain: &[CertificateDer<'_>]) -> Result<PeerId, TrustError> {
    let leaf = chain.first().ok_or(TrustError::Certificate("the peer showed none"))?;
    let (_, certificate) = x509_parser::parse_x509_certificate(leaf)
        .map_err(|_| TrustError::Certificate("it is not an X.509 certificate"))?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| TrustError::Certificate("its alternative names cannot be read"))?
        .ok_or(TrustError::Certificate("it names no peer"))?;
    let mut uris = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    match (uris.next(), uris.next()) {
        (Some(uri), None) => PeerId::from_uri(uri)
            .ok_or(TrustError::Certificate("its URI is not penstock://SITE/PEER")),
        (None, _) => Err(TrustError::Certificate("it names no peer")),
        (Some(_), Some(_)) => Err(TrustError::Certificate("it names more than one peer")),
    }
}

/// Returns the SHA-256 of the public key of a chain's first certificate.
///
/// # Errors
/// `Certificate` if there is none, or it cannot be read.
pub fn key_of(chain: &[CertificateDer<'_>]) -> Result<Fingerprint, TrustError> {
    let leaf = chain.first().ok_or(TrustError::Certificate("the peer showed none"))?;
    let (_, certificate) = x509_parser::parse_x509_certificate(leaf)
        .map_err(|_| TrustError::Certificate("it is not an X.509 certificate"))?;
    Ok(Fingerprint::of_public_key(certificate.public_key().raw))
}

/// Returns a root store of one authority. Its name constraint is removed, since webpki rejects all
/// URIs below an authority with URI constraints: it does not implement them, and fails closed. The
/// verifiers here compare the site exactly, which is the stricter rule.
pub(super) fn single_root(authority: &CertificateDer<'_>) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone().into_owned())?;
    for root in &mut roots.roots {
        root.name_constraints = None;
    }
    Ok(roots)
}
