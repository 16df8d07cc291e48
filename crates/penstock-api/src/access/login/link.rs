//! One-time links: the first administrator's, and those by which users set their own passwords.
//!
//! A link carries its code in the fragment, which browsers send to no server. The site keeps the
//! BLAKE3 of the code only.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::secret::Secret;
use crate::timestamp::Timestamp;

/// Random bytes of a code.
const CODE_BYTES: usize = 20;

/// The code of a link. Its debug form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkCode(String);

impl LinkCode {
    /// Returns the code of these random bytes.
    pub fn of(random: [u8; CODE_BYTES]) -> Self {
        Self(BASE32_NOPAD.encode(&random).to_ascii_lowercase())
    }

    /// Returns the text: a secret.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the BLAKE3 of the text, in hex, by which the site knows it.
    pub fn digest(&self) -> String {
        blake3::hash(self.0.as_bytes()).to_hex().to_string()
    }
}

impl fmt::Debug for LinkCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkCode(…)")
    }
}

/// Error: a text is no code of a link. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not the code of a link: 32 letters and digits")]
pub struct ParseLinkCodeError;

impl FromStr for LinkCode {
    type Err = ParseLinkCodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let upper = text.trim().to_ascii_uppercase();
        let bytes = BASE32_NOPAD.decode(upper.as_bytes()).map_err(|_| ParseLinkCodeError)?;
        bytes.try_into().map(Self::of).map_err(|_| ParseLinkCodeError)
    }
}

/// What a link is good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LinkPurpose {
    /// Making an administrator.
    SetUp,
    /// Setting the password of a user.
    Password {
        /// The user.
        user: Name,
    },
}

impl LinkPurpose {
    /// Returns the key of the link in the site's state. A later link for the same purpose replaces
    /// an earlier one.
    pub fn key(&self) -> String {
        match self {
            Self::SetUp => "setup".to_owned(),
            // No name has a dot.
            Self::Password { user } => format!("user.{user}"),
        }
    }

    /// Returns the path of the page that takes the code.
    pub fn page(&self) -> &'static str {
        match self {
            Self::SetUp => "/setup",
            Self::Password { .. } => "/invitation",
        }
    }
}

/// A link, as the site's state keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Purpose of the link.
    pub purpose: LinkPurpose,
    /// BLAKE3 of its code, in hex.
    pub digest: String,
    /// Time at which it expires, in seconds since 1970.
    pub expires: u64,
    /// True once it was used. It is kept so that a second use gets a true reason.
    pub used: bool,
}

/// A link as its maker sees it, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LinkView {
    /// The code: a secret, which the site cannot show again.
    pub code: Secret,
    /// Path and fragment of the link, behind the address of the site's HTTPS API.
    pub link: Secret,
    /// Time at which it expires.
    pub expires_at: Timestamp,
}

/// Request that makes an administrator by a link: `POST /auth/setup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetUpRequest {
    /// The code of the link.
    pub code: Secret,
    /// The name of the new administrator.
    pub name: Name,
    /// Its password.
    pub password: Secret,
}

/// Request that sets the own password by a link: `POST /auth/invitation`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InvitationRequest {
    /// The code of the link.
    pub code: Secret,
    /// The new password.
    pub password: Secret,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (C4): a code is read as it was shown, and no debug form shows it.
    #[test]
    fn c4_a_code_is_read_and_not_shown() {
        let code = LinkCode::of([7; CODE_BYTES]);
        assert_eq!(code.expose().len(), 32);
        assert_eq!(code.expose().to_uppercase().parse(), Ok(code.clone()));
        for bad in ["", "abc", &code.expose()[1..], &format!("{}a", code.expose())] {
            assert_eq!(bad.parse::<LinkCode>(), Err(ParseLinkCodeError), "{bad}");
        }
        let request = InvitationRequest {
            code: Secret::new(code.expose()),
            password: Secret::new("correct horse"),
        };
        let debug = format!("{code:?} {request:?}");
        assert!(!debug.contains(code.expose()) && !debug.contains("horse"), "{debug}");
    }
}
