//! Pairing by a pasteable token (hard case D5).
//!
//! One site *issues*: its controller makes a [`PairingOffer`] and shows the [`PairingToken`] to a
//! person, who pastes it at the other site, the *joiner*. The joiner connects to the token's
//! address with [`pairing_client_config`], which accepts one authority only, by the hash in the
//! token. The joiner sends its own authority with a proof. The proof names its offer, and contains
//! [`pairing_proof`]: an HMAC under the token's secret over the exporter of this very TLS
//! connection and both authorities' hashes.
//!
//! So a proof is worth nothing on another connection, and an attacker in the middle sees neither
//! secret nor a usable proof. The joiner's authority signs the same, so that a token's holder
//! cannot enter the authority of another site. The offer ends with the first success, with the
//! fifth failure of a joiner that names it, or after 15 minutes. A joiner that has not seen the
//! token cannot name it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::{constant_time, digest, hmac, rand};
use data_encoding::BASE64URL_NOPAD;
use penstock_proto::frame::CipherSuite;
use rustls::client::Resumption;
use rustls::{ClientConfig, ConnectionCommon};
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::error::TrustError;
use super::facts::{Fingerprint, inspect_authority};
use super::provider::{ALPN_HTTP1, ALPN_HTTP2, provider};
use super::receipt::verify_by_authority;
use super::verify::{PinnedVerifier, find_authority};

/// Validity of an offer in seconds.
pub const PAIRING_SECONDS: u64 = 15 * 60;
/// Number of wrong proofs that end an offer.
pub const PAIRING_TRIES: u32 = 5;

const PREFIX: &str = "pst1:";
const SECRET_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;
const ADDRESS_BYTES_MAX: usize = 255;
const EXPORTER_LABEL: &[u8] = b"EXPORTER-penstock-pairing";
const PROOF_CONTEXT: &[u8] = b"penstock pairing proof 1";
const JOINER_CONTEXT: &[u8] = b"penstock pairing joiner 1";
const OFFER_CONTEXT: &[u8] = b"penstock pairing offer 1";
/// Bytes that name an offer: too many to find by trying.
const OFFER_BYTES: usize = 16;
/// Bytes of a proof: the name of its offer, then the HMAC.
pub const PROOF_BYTES: usize = OFFER_BYTES + HASH_BYTES;

/// The reason why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseTokenError {
    /// The text lacks the prefix of a token.
    #[error("a pairing token begins with `{PREFIX}`")]
    Prefix,
    /// Something is missing or altered.
    #[error("the pairing token is damaged or not complete; copy all of it")]
    Damaged,
}

/// The token that a person carries from one site to the other. Its text is a secret for 15 minutes.
#[derive(Clone, PartialEq, Eq)]
pub struct PairingToken {
    /// The address of the issuer's site API, as `host:port`.
    pub address: String,
    /// The issuer's authority.
    pub authority: Fingerprint,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

impl PairingToken {
    /// Returns the text to paste: `pst1:` and base64url of the address's length and bytes, the
    /// authority's hash, the secret and the first four bytes of their SHA-256 against slips of the
    /// mouse.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(320));
        // `PairingOffer::create` and `from_str` bound the address to 255 bytes.
        bytes.push(self.address.len() as u8);
        bytes.extend_from_slice(self.address.as_bytes());
        bytes.extend_from_slice(&self.authority.0);
        bytes.extend_from_slice(&*self.secret);
        let checksum = digest::digest(&digest::SHA256, &bytes);
        bytes.extend_from_slice(&checksum.as_ref()[..CHECKSUM_BYTES]);
        Zeroizing::new(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes)))
    }

    /// Returns the joiner's proof for the connection with this exporter: the name of the offer, and
    /// [`pairing_proof`].
    pub fn proof(&self, exporter: &[u8; 32], joiner: &Fingerprint) -> [u8; PROOF_BYTES] {
        let mut proof = [0; PROOF_BYTES];
        let (offer, sealed) = proof.split_at_mut(OFFER_BYTES);
        offer.copy_from_slice(&self.offer());
        sealed.copy_from_slice(&pairing_proof(&self.secret, exporter, &self.authority, joiner));
        proof
    }

    /// Returns the name of the offer for its issuer. It reveals nothing of the secret.
    fn offer(&self) -> [u8; OFFER_BYTES] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*self.secret);
        let mut offer = [0; OFFER_BYTES];
        offer.copy_from_slice(&hmac::sign(&key, OFFER_CONTEXT).as_ref()[..OFFER_BYTES]);
        offer
    }
}

impl FromStr for PairingToken {
    type Err = ParseTokenError;

    /// Reads a pasted token; white space around it or within it, from a broken line, is ignored.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text: Zeroizing<String> =
            Zeroizing::new(text.chars().filter(|character| !character.is_whitespace()).collect());
        let encoded = text.strip_prefix(PREFIX).ok_or(ParseTokenError::Prefix)?;
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes());
        let bytes = Zeroizing::new(bytes.map_err(|_| ParseTokenError::Damaged)?);
        let (content, checksum) =
            bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(ParseTokenError::Damaged)?;
        if digest::digest(&digest::SHA256, content).as_ref()[..CHECKSUM_BYTES] != *checksum {
            return Err(ParseTokenError::Damaged);
        }
        let (&length, content) = content.split_first().ok_or(ParseTokenError::Damaged)?;
        let (address, content) =
            content.split_at_checked(usize::from(length)).ok_or(ParseTokenError::Damaged)?;
        let (hash, content) =
            content.split_first_chunk::<HASH_BYTES>().ok_or(ParseTokenError::Damaged)?;
        let secret: &[u8; SECRET_BYTES] =
            content.try_into().map_err(|_| ParseTokenError::Damaged)?;
        Ok(Self {
            address: std::str::from_utf8(address).map_err(|_| ParseTokenError::Damaged)?.to_owned(),
            authority: Fingerprint(*hash),
            secret: Zeroizing::new(*secret),
        })
    }
}

impl fmt::Debug for PairingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairingToken")
            .field("address", &self.address)
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// The reason why an offer does not accept a joiner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairingRefused {
    /// The 15 minutes are over.
    #[error("the pairing token has expired; make a new one")]
    Expired,
    /// The token was used, or guessed at too often.
    #[error("the pairing token is used up; make a new one")]
    UsedUp,
    /// The proof names another offer.
    #[error("the pairing token is not this one")]
    OtherOffer,
    /// The proof does not fit.
    #[error("the pairing token is not the one that was issued")]
    WrongProof,
}

/// The issuer's side of one token: checks the joiner's proof once.
#[derive(Debug)]
pub struct PairingOffer {
    token: PairingToken,
    expires: u64,
    tries_left: u32,
}

impl PairingOffer {
    /// Offers a pairing at `address` (`host:port`, at most 255 bytes) from `now`, seconds since
    /// 1970, on.
    ///
    /// # Errors
    /// `Key` if there are no random bytes to be had; `Certificate` if the address is too long.
    pub fn create(address: &str, authority: Fingerprint, now: u64) -> Result<Self, TrustError> {
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(TrustError::Certificate("an address has at most 255 bytes"));
        }
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        rand::fill(&mut *secret).map_err(|_| TrustError::Key)?;
        Ok(Self {
            token: PairingToken { address: address.to_owned(), authority, secret },
            expires: now.saturating_add(PAIRING_SECONDS),
            tries_left: PAIRING_TRIES,
        })
    }

    /// Returns the token for the joiner's operator.
    pub fn token(&self) -> &PairingToken {
        &self.token
    }

    /// Returns the seconds since 1970 after which the offer is void.
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// Returns whether the offer can still be redeemed.
    pub fn is_open(&self, now: u64) -> bool {
        self.tries_left > 0 && now <= self.expires
    }

    /// Checks a joiner's proof for the connection with `exporter`, in constant time. Success uses
    /// the offer up, and so does the fifth failure; a proof for another offer costs nothing.
    ///
    /// # Errors
    /// [`PairingRefused`], which tells an honest joiner the next step and an attacker no secret.
    pub fn redeem(
        &mut self,
        now: u64,
        exporter: &[u8; 32],
        joiner: &Fingerprint,
        proof: &[u8],
    ) -> Result<(), PairingRefused> {
        let wanted = self.token.proof(exporter, joiner);
        let named = proof.get(..OFFER_BYTES).unwrap_or_default();
        constant_time::verify_slices_are_equal(&wanted[..OFFER_BYTES], named)
            .map_err(|_| PairingRefused::OtherOffer)?;
        if now > self.expires {
            return Err(PairingRefused::Expired);
        }
        if self.tries_left == 0 {
            return Err(PairingRefused::UsedUp);
        }
        self.tries_left -= 1;
        constant_time::verify_slices_are_equal(&wanted, proof)
            .map_err(|_| PairingRefused::WrongProof)?;
        self.tries_left = 0;
        Ok(())
    }
}

/// Returns the HMAC-SHA256 under the token's secret over the TLS exporter and both authorities'
/// hashes.
pub fn pairing_proof(
    secret: &[u8; SECRET_BYTES],
    exporter: &[u8; 32],
    issuer: &Fingerprint,
    joiner: &Fingerprint,
) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    // All parts have fixed lengths, so that no two inputs run together.
    for part in [PROOF_CONTEXT, exporter, &issuer.0, &joiner.0] {
        context.update(part);
    }
    let mut proof = [0; 32];
    proof.copy_from_slice(context.sign().as_ref());
    proof
}

/// Returns the statement that the joiner's authority signs, to prove that the joiner has its
/// private key: the connection and both authorities.
pub(super) fn pairing_statement(
    exporter: &[u8; 32],
    issuer: &Fingerprint,
    joiner: &Fingerprint,
) -> Vec<u8> {
    [JOINER_CONTEXT, exporter, &issuer.0, &joiner.0].concat()
}

/// Checks that the joiner has the private key of the authority that it shows, by a signature over
/// the connection with this exporter ([`super::SiteAuthority::sign_pairing`]).
///
/// # Errors
/// `Certificate`: `joiner` is not the authority of a site, or did not sign this.
pub fn verify_pairing(
    joiner: &[u8],
    exporter: &[u8; 32],
    issuer: &Fingerprint,
    signature: &[u8],
) -> Result<(), TrustError> {
    let facts = inspect_authority(&CertificateDer::from(joiner))?;
    let statement = pairing_statement(exporter, issuer, &facts.fingerprint);
    verify_by_authority(joiner, &statement, signature)
        .map_err(|_| TrustError::Certificate("the site did not prove that it has its key"))
        .map(drop)
}

/// Returns the value that ties a proof to one TLS connection; both ends get the same (RFC 8446,
/// 7.5).
///
/// # Errors
/// `Tls` before the handshake is complete.
pub fn pairing_exporter<Data>(connection: &ConnectionCommon<Data>) -> Result<[u8; 32], TrustError> {
    Ok(connection.export_keying_material([0; 32], EXPORTER_LABEL, None)?)
}

/// Returns the joiner's TLS configuration: shows no certificate, accepts peers under the one
/// authority whose key has this hash, for the site API.
///
/// # Errors
/// `Tls` if `suites` is empty.
pub fn pairing_client_config(
    authority: Fingerprint,
    suites: &[CipherSuite],
) -> Result<Arc<ClientConfig>, TrustError> {
    let mut config = ClientConfig::builder_with_provider(provider(suites)?)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedVerifier { authority }))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Returns the issuer's authority out of the chain of a finished connection
/// (`peer_certificates()`), for the joiner to pin.
///
/// # Errors
/// `Certificate` if the chain does not hold the authority with this hash.
pub fn issuing_authority(
    chain: &[CertificateDer<'_>],
    authority: &Fingerprint,
) -> Result<CertificateDer<'static>, TrustError> {
    find_authority(chain, authority).map(|(found, _)| found.clone().into_owned())
}
