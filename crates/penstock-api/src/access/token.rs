//! Bearer tokens (RFC 6750) of programs.
//!
//! A token's text is `pstk_`, 256 random bits, and a checksum, so that a program that scans logs
//! for secrets recognises one. The site keeps the BLAKE3 of the text only.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::id::TokenId;
use super::scope::Scope;
use crate::timestamp::Timestamp;

/// Days until a token expires, unless its request says otherwise.
pub const TOKEN_DAYS_DEFAULT: u32 = 90;
/// Most days until a token expires.
pub const TOKEN_DAYS_MAX: u32 = 366;
/// Beginning of every token.
const PREFIX: &str = "pstk_";
/// Random bytes of a token.
const SECRET_BYTES: usize = 32;
/// Bytes of its checksum: the first ones of the BLAKE3 of prefix and secret.
const CHECK_BYTES: usize = 3;

/// The random part of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(pub [u8; SECRET_BYTES]);

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// The text of a token, as a client sends it. Its debug form hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

impl TokenText {
    /// Returns the text of a secret.
    pub fn of(secret: &TokenSecret) -> Self {
        let mut bytes = secret.0.to_vec();
        bytes.extend(checksum(&secret.0));
        Self(format!("{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase()))
    }

    /// Returns the whole text: a secret.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(pstk_…)")
    }
}

fn checksum(secret: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(PREFIX.as_bytes());
    hasher.update(secret);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_BYTES]);
    check
}

/// Error: a text is no token of this form. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not a token: `pstk_` and 56 letters and digits, as it was shown once")]
pub struct ParseTokenError;

impl FromStr for TokenText {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let encoded = text.strip_prefix(PREFIX).ok_or(ParseTokenError)?;
        // Only the lower-case form exists, so that one token has one digest.
        if encoded.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(ParseTokenError);
        }
        let upper = encoded.to_ascii_uppercase();
        let bytes = BASE32_NOPAD.decode(upper.as_bytes()).map_err(|_| ParseTokenError)?;
        let (secret, check) = bytes.split_at_checked(SECRET_BYTES).ok_or(ParseTokenError)?;
        (check == checksum(secret)).then(|| Self(text.to_owned())).ok_or(ParseTokenError)
    }
}

/// A token, as the site's state keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its identifier.
    pub id: TokenId,
    /// The user it acts for.
    pub user: Name,
    /// BLAKE3 of its text, in hex.
    pub digest: String,
    /// A note of its user.
    pub label: String,
    /// Scopes, which take rights away; `None` leaves all rights of the user.
    pub scopes: Option<Vec<Scope>>,
    /// Time of its creation, in seconds since 1970.
    pub created: u64,
    /// Time at which it expires, in seconds since 1970.
    pub expires: u64,
}

impl Token {
    /// Returns whether it is accepted at this time, in seconds since 1970.
    pub fn is_valid(&self, now: u64) -> bool {
        now < self.expires
    }
}

/// Request that makes a token: `POST /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// The user it acts for; the caller if it is absent. Another one needs an administrator.
    #[serde(default)]
    pub user: Option<Name>,
    /// A note, up to 100 characters.
    #[cfg_attr(feature = "openapi", schemars(length(max = 100)))]
    #[serde(default)]
    pub label: String,
    /// Scopes; absent leaves all rights of the user.
    #[serde(default)]
    pub scopes: Option<Vec<Scope>>,
    /// Days until it expires: 1 to [`TOKEN_DAYS_MAX`]; [`TOKEN_DAYS_DEFAULT`] if absent.
    #[cfg_attr(feature = "openapi", schemars(range(min = 1, max = TOKEN_DAYS_MAX)))]
    #[serde(default)]
    pub days: Option<u32>,
}

/// A token as its user sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TokenView {
    /// Its identifier.
    pub id: TokenId,
    /// The user it acts for.
    pub user: Name,
    /// The note.
    pub label: String,
    /// Scopes; absent leaves all rights of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time at which it expires.
    pub expires_at: Timestamp,
    /// The text of the token, in the answer to `POST /tokens` only: the site cannot show it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (C6): a token is recognised, a changed one is not, and no debug form shows it.
    #[test]
    fn c6_tokens_have_a_prefix_and_a_checksum() {
        let secret = TokenSecret([7; SECRET_BYTES]);
        let text = TokenText::of(&secret);
        let shown = text.expose().to_owned();
        assert_eq!((shown.len(), &shown[..5]), (61, "pstk_"));
        assert_eq!(shown.parse(), Ok(text.clone()));
        let mut changed = shown.clone().into_bytes();
        changed[20] = if changed[20] == b'a' { b'b' } else { b'a' };
        let changed = String::from_utf8(changed).unwrap();
        for bad in ["", "pstk_", "token", &shown[1..], &changed, &shown.to_uppercase()] {
            assert_eq!(bad.parse::<TokenText>(), Err(ParseTokenError), "{bad}");
        }
        let debug = format!("{text:?} {secret:?}");
        assert!(!debug.contains(&shown[5..20]), "{debug}");
    }
}
