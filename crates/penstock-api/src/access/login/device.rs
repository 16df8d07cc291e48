//! The device grant (RFC 8628): a program without a browser shows a code, which a user who is
//! logged in elsewhere approves.
//!
//! Requests are form-encoded, and answers have the names of the RFC, so that any client of OAuth
//! 2.0 can use them.

use std::fmt;
use std::str::FromStr;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::super::scope::Scope;
use super::secret::Secret;
use crate::timestamp::Timestamp;

/// Grant type of a request for the token (RFC 8628, 3.4).
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Seconds within which a code must be approved.
pub const DEVICE_CODE_SECONDS: u64 = 600;
/// Letters of a user code: no vowels and nothing that is taken for another one (RFC 8628, 6.1).
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// Letters of one code, of 20 each: 34 bits.
const CODE_LETTERS: usize = 8;

/// The code that a user types: `CMGR-HMLT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserCode(String);

impl UserCode {
    /// Returns the code of these random numbers.
    pub fn of(random: [u64; CODE_LETTERS]) -> Self {
        // 2^64 is no multiple of 20, which favours some letters by less than one part in 10^17.
        let letter = |number| char::from(LETTERS[(number % LETTERS.len() as u64) as usize]);
        Self(random.into_iter().map(letter).collect())
    }
}

impl fmt::Display for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, other) = self.0.split_at(CODE_LETTERS / 2);
        write!(f, "{one}-{other}")
    }
}

/// Error: a text is no user code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a code of a log-in: eight letters, such as CMGR-HMLT")]
pub struct ParseUserCodeError(String);

impl FromStr for UserCode {
    type Err = ParseUserCodeError;

    /// Reads a code as people type it: dashes, spaces and small letters do not matter.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let typed = text.chars().filter(|found| !matches!(found, '-' | ' '));
        let code: String = typed.map(|found| found.to_ascii_uppercase()).collect();
        let is_code =
            code.len() == CODE_LETTERS && code.bytes().all(|byte| LETTERS.contains(&byte));
        is_code.then_some(Self(code)).ok_or_else(|| ParseUserCodeError(text.to_owned()))
    }
}

impl TryFrom<String> for UserCode {
    type Error = ParseUserCodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<UserCode> for String {
    fn from(code: UserCode) -> Self {
        code.to_string()
    }
}

/// Request of a program that wants to log in: `POST /auth/device` (RFC 8628, 3.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeviceRequest {
    /// The program, as it names itself; 1 to 80 characters.
    pub client_id: String,
    /// Scopes that the token shall have, with spaces between; absent for all rights of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// The codes of a log-in (RFC 8628, 3.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeviceAuthorization {
    /// The code by which the program asks for its token: a secret.
    pub device_code: Secret,
    /// The code that its user approves.
    pub user_code: UserCode,
    /// The page at which the user does so.
    pub verification_uri: String,
    /// The same with the code filled in.
    pub verification_uri_complete: String,
    /// Seconds for which both codes are good.
    pub expires_in: u64,
    /// Fewest seconds between two requests for the token.
    pub interval: u64,
}

/// Request for the token: `POST /auth/device/token` (RFC 8628, 3.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeviceTokenRequest {
    /// [`DEVICE_GRANT`].
    pub grant_type: String,
    /// The device code.
    pub device_code: Secret,
    /// The program, as it named itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// The token (RFC 6749, 5.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeviceToken {
    /// The text of the token.
    pub access_token: Secret,
    /// `Bearer`.
    pub token_type: String,
    /// Seconds until it expires.
    pub expires_in: u64,
    /// Its scopes, with spaces between; absent for all rights of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// The reason why there is no token, or not yet (RFC 6749, 5.2; RFC 8628, 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceErrorCode {
    /// Nobody has approved the code yet.
    AuthorizationPending,
    /// The program asks too often: its interval grows by five seconds.
    SlowDown,
    /// The time of the code is over.
    ExpiredToken,
    /// The user has refused.
    AccessDenied,
    /// The device code was never issued, or its token was taken.
    InvalidGrant,
    /// The request lacks a part, or has a wrong one.
    InvalidRequest,
    /// The request asks for scopes that do not exist.
    InvalidScope,
    /// The grant type is not [`DEVICE_GRANT`].
    UnsupportedGrantType,
}

/// The answer without a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeviceError {
    /// The reason.
    pub error: DeviceErrorCode,
    /// The reason in words.
    pub error_description: String,
}

/// The decision about a log-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DeviceDecision {
    /// The program gets a token.
    #[default]
    Approve,
    /// It gets none.
    Deny,
}

/// Request that decides about a log-in: `POST /auth/device/approve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceApproval {
    /// The code that the program shows.
    pub user_code: UserCode,
    /// The decision.
    #[serde(default)]
    pub decision: DeviceDecision,
    /// The user that the program acts for; the caller if it is absent. Another one needs an
    /// administrator.
    #[serde(default)]
    pub user: Option<Name>,
}

/// A log-in that waits for a decision: `GET /auth/device`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeviceView {
    /// The code.
    pub user_code: UserCode,
    /// The program, as it names itself.
    pub client: String,
    /// Address of the host that it runs on; empty if it is not known.
    pub from: String,
    /// Scopes that it asks for; absent for all rights of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    /// Time at which the code expires.
    pub expires_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a code is read as people type it.
    #[test]
    fn a_user_code_is_read_as_it_is_typed() {
        let code = UserCode::of([0, 1, 2, 3, 20, 5, u64::MAX, 7]);
        let shown = code.to_string();
        assert_eq!((shown.len(), &shown[4..5]), (9, "-"));
        for typed in [shown.to_lowercase(), shown.replace('-', ""), format!(" {shown} ")] {
            assert_eq!(typed.parse(), Ok(code.clone()), "{typed}");
        }
        for wrong in ["", "CMGR", "AMGR-HMLT", "CMGR-HMLTT", "ÄMGR-HML"] {
            assert!(wrong.parse::<UserCode>().is_err(), "{wrong}");
        }
    }
}
