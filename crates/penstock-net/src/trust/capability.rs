//! Signing and checking of capabilities (hard case C4). The bytes are those of
//! [`Capability::encode`] with a 64-byte Ed25519 signature behind them.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use penstock_proto::capability::{CAPABILITY_BYTES_MAX, Capability};
use penstock_proto::wire::DecodeError;
use zeroize::Zeroizing;

use super::error::TrustError;

const SIGNATURE_BYTES: usize = 64;

/// The reason why a capability grants no right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// The bytes are too short or too long for a capability.
    #[error("the capability has a wrong length")]
    Length,
    /// The issuer did not sign these bytes.
    #[error("the capability is not signed by this site")]
    Signature,
    /// The issuer signed something else.
    #[error("the capability cannot be read")]
    Content(#[from] DecodeError),
    /// The capability was valid once.
    #[error("the capability expired {seconds} s ago")]
    Expired {
        /// Time since it expired, in seconds.
        seconds: u64,
    },
}

/// The private Ed25519 key with which a site signs capabilities. Its public half travels in the
/// pairing and to every peer of the site.
pub struct CapabilityKey {
    pair: Ed25519KeyPair,
}

impl CapabilityKey {
    pub(super) fn generate() -> Result<Self, TrustError> {
        Ed25519KeyPair::generate().map(|pair| Self { pair }).map_err(|_| TrustError::Key)
    }

    pub(super) fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, TrustError> {
        Ed25519KeyPair::from_pkcs8(pkcs8).map(|pair| Self { pair }).map_err(|_| TrustError::Key)
    }

    pub(super) fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, TrustError> {
        let document = self.pair.to_pkcs8().map_err(|_| TrustError::Key)?;
        Ok(Zeroizing::new(document.as_ref().to_vec()))
    }

    /// Returns the public half, by which peers check.
    pub fn public_key(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        bytes
    }

    /// Returns the capability's bytes with their signature, as a hello carries them.
    pub fn sign(&self, capability: &Capability) -> Vec<u8> {
        let mut bytes = capability.encode();
        let signature = self.pair.sign(&bytes);
        bytes.extend_from_slice(signature.as_ref());
        bytes
    }
}

impl fmt::Debug for CapabilityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapabilityKey(..)")
    }
}

/// Reads a capability and checks that the site with `issuer_public_key` signed it and that it is
/// valid at `now`, seconds since 1970. The caller compares the source, the target and the transfer
/// that it names.
///
/// # Errors
/// [`CapabilityError`]. The signature is checked before any byte is parsed.
pub fn verify_capability(
    bytes: &[u8],
    issuer_public_key: &[u8; 32],
    now: u64,
) -> Result<Capability, CapabilityError> {
    if bytes.len() > CAPABILITY_BYTES_MAX {
        return Err(CapabilityError::Length);
    }
    let (signed, signature) =
        bytes.split_last_chunk::<SIGNATURE_BYTES>().ok_or(CapabilityError::Length)?;
    UnparsedPublicKey::new(&ED25519, issuer_public_key)
        .verify(signed, signature)
        .map_err(|_| CapabilityError::Signature)?;
    let capability = Capability::decode(signed)?;
    if now > capability.expires {
        return Err(CapabilityError::Expired { seconds: now - capability.expires });
    }
    Ok(capability)
}
