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
    /// Address of the HTTPS API of the peer that answers, for links; absent if it serves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}
