//! Texts that no log may show: passwords, codes, and hashes of passwords.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Fewest characters of a password that is set.
pub const PASSWORD_CHARS_MIN: usize = 12;
/// Longest password, in bytes of UTF-8.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// A text of a request that is secret. Its debug form hides it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Returns the secret of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text: a secret.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The hash of a password in PHC form, such as `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`. Its
/// debug form hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(pub String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// Request that sets a password: `PUT /users/{name}/password`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PasswordRequest {
    /// The new password: at least [`PASSWORD_CHARS_MIN`] characters, at most
    /// [`PASSWORD_BYTES_MAX`] bytes.
    pub password: Secret,
    /// The present password. Users need it for their own one; administrators do not.
    #[serde(default)]
    pub current: Option<Secret>,
}
