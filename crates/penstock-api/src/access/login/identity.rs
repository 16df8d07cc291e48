//! The identity of a user at an OpenID provider.

use serde::{Deserialize, Serialize};

/// The identity of a user at an OpenID provider (OpenID Connect Core 1.0, 2): `issuer` and
/// `subject` together name one person for good, whatever the name of the user is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ProviderIdentity {
    /// The provider, as it names itself.
    pub issuer: String,
    /// The identifier of the person there.
    pub subject: String,
    /// False after a log-in at which no group of the person had a role. Until a later one gives a
    /// role, no token, password or session of the user is accepted.
    pub has_role: bool,
}

impl ProviderIdentity {
    /// Returns whether it is the identity of this person at this provider.
    pub fn is_of(&self, issuer: &str, subject: &str) -> bool {
        (self.issuer.as_str(), self.subject.as_str()) == (issuer, subject)
    }
}
