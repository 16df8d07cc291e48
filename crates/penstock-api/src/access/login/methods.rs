//! The ways to log in that a site offers.

use serde::{Deserialize, Serialize};

/// The ways to log in: `GET /auth/methods`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuthMethods {
    /// Name and password, at `POST /sessions`.
    pub password: bool,
    /// The device grant of RFC 8628, at `POST /auth/device`.
    pub device: bool,
    /// The site's OpenID provider; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<ProviderMethod>,
    /// Address of the HTTPS API of the peer that answers, for links; absent if it serves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Log-in at the site's OpenID provider, by a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ProviderMethod {
    /// Name of the provider, for the text of a button.
    pub name: String,
    /// Path that a browser opens to log in; `return` names the path of this site to return to.
    pub start: String,
}
