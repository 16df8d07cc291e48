//! ID tokens of the provider (OpenID Connect Core 1.0, 3.1.3.7), and the keys that sign them.
//!
//! The accepted algorithms follow from the key and from the provider's announcement, never from the
//! token. `none`, and a signature with a public key as the secret, are not accepted.

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use penstock_api::problem::ProblemCode;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Seconds by which the clocks of the provider and of this host may differ.
const LEEWAY_S: u64 = 60;
/// Keys of a provider that are kept.
const KEYS_MAX: usize = 100;

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// The reason why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenFault {
    /// The text is no token, or lacks a claim.
    #[error("{0}")]
    Malformed(String),
    /// Its algorithm is not one of the provider's public-key ones, or not one of its key.
    #[error("the token is signed by `{0}`")]
    Algorithm(String),
    /// The provider publishes no such key.
    #[error("the provider publishes no key `{0}` for signatures")]
    Key(String),
    /// The signature is not that of the key.
    #[error("the signature is wrong")]
    Signature,
    /// The token's issuer is another provider.
    #[error("the token is of the issuer `{0}`")]
    Issuer(String),
    /// The token is for another client.
    #[error("the token is not for this client")]
    Audience,
    /// Its time is over, or has not begun.
    #[error("the token is not valid now")]
    Expired,
    /// The token belongs to another log-in.
    #[error("the token repeats another nonce, or none")]
    Nonce,
}

impl TokenFault {
    /// Returns the code of its problem.
    pub(super) fn code(&self) -> ProblemCode {
        match self {
            Self::Malformed(_) => ProblemCode::OidcToken,
            Self::Algorithm(_) => ProblemCode::OidcAlgorithm,
            Self::Key(_) => ProblemCode::OidcKey,
            Self::Signature => ProblemCode::OidcSignature,
            Self::Issuer(_) => ProblemCode::OidcIssuer,
            Self::Audience => ProblemCode::OidcAudience,
            Self::Expired => ProblemCode::OidcExpired,
            Self::Nonce => ProblemCode::OidcNonce,
        }
    }
}

/// The claims that a token must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    /// The provider.
    pub(super) issuer: &'a str,
    /// This site, as the provider knows it.
    pub(super) client_id: &'a str,
    /// The value that the log-in has sent.
    pub(super) nonce: &'a str,
}

/// The head of a token that names its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenHead {
    algorithm: Algorithm,
    key: Option<String>,
}

impl TokenHead {
    /// Reads the head of a token. `accepted` are the algorithms that the provider announces.
    ///
    /// # Errors
    /// The text is no token, or its algorithm is not accepted.
    pub(super) fn of(token: &str, accepted: &[Algorithm]) -> Result<Self, TokenFault> {
        #[derive(Deserialize)]
        struct Head {
            alg: String,
            kid: Option<String>,
            crit: Option<Value>,
        }
        let malformed = |why: &str| TokenFault::Malformed(why.to_owned());
        let head = token.split('.').next().unwrap_or_default();
        let head = BASE64URL_NOPAD.decode(head.as_bytes());
        let head = head.map_err(|_| malformed("the token has no head in base64url"))?;
        let head: Head = serde_json::from_slice(&head)
            .map_err(|_| malformed("the head of the token has no `alg`"))?;
        // Extensions that must be understood (RFC 7515, 4.1.11): none is.
        if head.crit.is_some() {
            return Err(malformed("the token needs extensions that are not known here"));
        }
        let algorithm = head.alg.parse().ok().filter(|found| accepted.contains(found));
        let algorithm = algorithm.ok_or(TokenFault::Algorithm(head.alg))?;
        Ok(Self { algorithm, key: head.kid })
    }
}

/// Returns the public-key algorithms among those that a provider announces for ID tokens; RS256,
/// which each provider must have, if it announces none (Discovery 1.0, 3).
pub(super) fn accepted_algorithms(announced: &[String]) -> Vec<Algorithm> {
    let known = announced.iter().filter_map(|name| name.parse().ok());
    let accepted: Vec<_> = known.filter(|algorithm| !is_symmetric(*algorithm)).collect();
    if announced.is_empty() { vec![Algorithm::RS256] } else { accepted }
}

fn is_symmetric(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)
}

/// The keys by which a provider signs (RFC 7517).
#[derive(Clone, Debug, Default)]
pub(super) struct KeySet(Vec<Jwk>);

impl KeySet {
    /// Reads a set of keys. A key of a kind that is not known is left out.
    ///
    /// # Errors
    /// The bytes are no set of keys: the reason.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let keys = set.keys.into_iter().take(KEYS_MAX);
        let keys = keys.filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Ok(Self(keys.filter(|key| !algorithms_of(key).is_empty()).collect()))
    }

    /// Returns the key of a token. A token that names no key has the only one that fits.
    ///
    /// # Errors
    /// There is no such key, or the algorithm is not one of the key.
    pub(super) fn find(&self, head: &TokenHead) -> Result<&Jwk, TokenFault> {
        let fits = |key: &&Jwk| algorithms_of(key).contains(&head.algorithm);
        let Some(name) = &head.key else {
            let mut fitting = self.0.iter().filter(fits);
            return match (fitting.next(), fitting.next()) {
                (Some(key), None) => Ok(key),
                _ => Err(TokenFault::Key("without a name".to_owned())),
            };
        };
        let mut named = self.0.iter().filter(|key| key.common.key_id.as_ref() == Some(name));
        match (named.clone().find(fits), named.next()) {
            (Some(key), _) => Ok(key),
            (None, Some(_)) => Err(TokenFault::Algorithm(format!("{:?}", head.algorithm))),
            (None, None) => Err(TokenFault::Key(penstock_proto::text::field(name))),
        }
    }
}

/// Returns the algorithms that a key is for.
fn algorithms_of(key: &Jwk) -> Vec<Algorithm> {
    if key.common.public_key_use.as_ref().is_some_and(|of| *of != PublicKeyUse::Signature) {
        return Vec::new();
    }
    let of_kind: &[Algorithm] = match &key.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            &[Algorithm::ES256]
        }
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => {
            &[Algorithm::ES384]
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        // A published secret proves nothing.
        _ => &[],
    };
    let of_key = |algorithm: &Algorithm| match key.common.key_algorithm {
        Some(named) => named == (*algorithm).into(),
        None => true,
    };
    of_kind.iter().copied().filter(of_key).collect()
}

/// Returns the claims of a token, if its signature is that of the key and it has the required
/// claims.
///
/// # Errors
/// The first fault of the token.
pub(super) fn claims_of(
    token: &str,
    head: &TokenHead,
    key: &Jwk,
    expected: Expected<'_>,
) -> Result<Claims, TokenFault> {
    let key = DecodingKey::from_jwk(key).map_err(fault_of)?;
    let mut validation = Validation::new(head.algorithm);
    validation.leeway = LEEWAY_S;
    validation.validate_nbf = true;
    // The issuer is compared below: the library takes a list of them for one.
    validation.set_audience(&[expected.client_id]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation).map_err(fault_of)?.claims;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    match text("iss") {
        Some(issuer) if issuer == expected.issuer => {}
        other => {
            let shown = penstock_proto::text::field(other.unwrap_or_default());
            return Err(TokenFault::Issuer(shown));
        }
    }
    // A token for several parties names the one that asked for it.
    let is_of_several = claims["aud"].as_array().is_some_and(|parties| parties.len() > 1);
    let is_for = claims.get("azp").and_then(Value::as_str);
    if is_for.is_some_and(|party| party != expected.client_id) || is_of_several && is_for.is_none()
    {
        return Err(TokenFault::Audience);
    }
    if text("nonce") != Some(expected.nonce) {
        return Err(TokenFault::Nonce);
    }
    Ok(claims)
}

fn fault_of(error: jsonwebtoken::errors::Error) -> TokenFault {
    match error.kind() {
        ErrorKind::InvalidSignature => TokenFault::Signature,
        ErrorKind::InvalidAudience => TokenFault::Audience,
        ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature => TokenFault::Expired,
        ErrorKind::InvalidAlgorithm => TokenFault::Algorithm("another algorithm".to_owned()),
        _ => TokenFault::Malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
