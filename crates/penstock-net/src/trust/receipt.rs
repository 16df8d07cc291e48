//! Keys that sign receipts, and the verification of their signatures.
//!
//! A site's key is certified by its authority, which other sites have pinned. The certification and
//! the authority's certificate are in each receipt, so that it can be checked without a network. A
//! user's own key, for `penstock copy`, has no certification.

use std::fmt;
use std::path::Path;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey,
};
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::error::TrustError;
use super::facts::{AuthorityFacts, inspect_authority};
use super::pem::{self, read_key, write_key};

/// A private Ed25519 key that signs receipts.
pub struct ReceiptKey {
    pair: Ed25519KeyPair,
}

impl ReceiptKey {
    /// Reads the key at `path`, or makes one there, readable by its owner only. Blocks on storage.
    ///
    /// # Errors
    /// `KeyExposed` if others may read it; `File` or `Content` if it cannot be read or written.
    pub fn load_or_create(path: &Path) -> Result<Self, TrustError> {
        if path.exists() {
            let pkcs8 = read_key(path)?;
            let pair = Ed25519KeyPair::from_pkcs8(pkcs8.secret_pkcs8_der());
            return pair.map(|pair| Self { pair }).map_err(|_| TrustError::Key);
        }
        if let Some(parent) = path.parent() {
            pem::make_directory(parent)?;
        }
        let pair = Ed25519KeyPair::generate().map_err(|_| TrustError::Key)?;
        let document = pair.to_pkcs8().map_err(|_| TrustError::Key)?;
        write_key(path, &Zeroizing::new(document.as_ref().to_vec()))?;
        Ok(Self { pair })
    }

    /// Returns the public half.
    pub fn public_key(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        bytes
    }

    /// Signs bytes that begin with the domain of receipts.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).as_ref().to_vec()
    }
}

impl fmt::Debug for ReceiptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReceiptKey(..)")
    }
}

/// Returns whether the holder of the private half of `key` signed `bytes`.
pub fn verify_receipt_signature(key: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(bytes, signature).is_ok()
}

/// Checks that the authority with this certificate certified `bytes`. Returns the site of the
/// authority.
///
/// # Errors
/// `Certificate`: it is not that of a site, or did not sign these bytes.
pub fn verify_certification(
    authority: &[u8],
    bytes: &[u8],
    certification: &[u8],
) -> Result<AuthorityFacts, TrustError> {
    verify_by_authority(authority, bytes, certification)
}

/// Checks that the authority with this certificate signed `bytes`. Returns the site of the
/// authority.
///
/// # Errors
/// `Certificate`: it is not that of a site, or did not sign these bytes.
pub(super) fn verify_by_authority(
    authority: &[u8],
    bytes: &[u8],
    signature: &[u8],
) -> Result<AuthorityFacts, TrustError> {
    let authority = CertificateDer::from(authority);
    let facts = inspect_authority(&authority)?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&authority)
        .map_err(|_| TrustError::Certificate("it is not an X.509 certificate"))?;
    let key = &parsed.public_key().subject_public_key.data;
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key)
        .verify(bytes, signature)
        .map_err(|_| TrustError::Certificate("the statement is not signed by the authority"))?;
    Ok(facts)
}

/// Returns the authority's certificates in a PEM file.
///
/// # Errors
/// The file cannot be read, or holds none.
pub fn read_authorities(path: &Path) -> Result<Vec<AuthorityFacts>, TrustError> {
    pem::read_chain(path)?.iter().map(inspect_authority).collect()
}
