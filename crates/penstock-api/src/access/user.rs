//! Users of a site, as they are stored and shown.

use std::collections::BTreeMap;
use std::fmt;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::account::AccountName;
use super::login::{PasswordHash, ProviderIdentity};
use super::role::Role;
use crate::timestamp::Timestamp;

/// Rights of a user in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StoreGrant {
    /// Listing entries.
    #[serde(default)]
    pub list: bool,
    /// Reading files: transfers from the store.
    #[serde(default)]
    pub read: bool,
    /// Writing files: transfers to the store.
    #[serde(default)]
    pub write: bool,
}

impl fmt::Display for StoreGrant {
    /// Writes the rights as the command line takes them, such as `list,read`; `none` without any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rights = [("list", self.list), ("read", self.read), ("write", self.write)];
        let rights: Vec<_> =
            rights.into_iter().filter(|right| right.1).map(|right| right.0).collect();
        if rights.is_empty() { f.write_str("none") } else { f.write_str(&rights.join(",")) }
    }
}

/// A user of a site, as its state keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name.
    pub name: Name,
    /// The role.
    pub role: Role,
    /// Time of its creation, in seconds since 1970.
    pub created: u64,
    /// True if the user is locked out: no token, password or session of it is accepted.
    #[serde(default)]
    pub disabled: bool,
    /// Rights in single stores, for the roles viewer and user.
    #[serde(default)]
    pub grants: BTreeMap<Name, StoreGrant>,
    /// Account of the hosts as which its transfers use mapped stores; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
    /// The group with which it shares the queue; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Name>,
    /// The hash of its password; a user without one logs in by tokens alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<PasswordHash>,
    /// Its identity at the site's OpenID provider; `None` for a user that logs in otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ProviderIdentity>,
}

impl User {
    /// Returns whether no token, password or session of the user is accepted: an administrator has
    /// locked it out, or the provider gave it no role at its last log-in.
    pub fn is_locked(&self) -> bool {
        self.disabled || self.identity.as_ref().is_some_and(|identity| !identity.has_role)
    }
}

/// Request that makes or changes a user: `PUT /users/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UserRequest {
    /// The role.
    pub role: Role,
    /// True locks the user out.
    #[serde(default)]
    pub disabled: bool,
    /// Rights in single stores. `None` leaves them as they are.
    #[serde(default)]
    pub grants: Option<BTreeMap<Name, StoreGrant>>,
    /// Account of the hosts as which its transfers use mapped stores. `None` leaves it as it is, an
    /// empty text takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The group with which it shares the queue. `None` leaves it as it is, an empty text takes it
    /// away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Identifier of the user at the site's OpenID provider (claim `sub`), by which it logs in
    /// there. `None` leaves it as it is, an empty text takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// A user as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct UserView {
    /// The name.
    pub name: Name,
    /// The role.
    pub role: Role,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// True if the user is locked out.
    pub disabled: bool,
    /// Rights in single stores.
    pub grants: BTreeMap<Name, StoreGrant>,
    /// Account of the hosts as which its transfers use mapped stores; missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
    /// The group with which it shares the queue; missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Name>,
    /// Number of its tokens that are valid now.
    pub tokens: u32,
    /// Number of its sessions that are not over.
    #[serde(default)]
    pub sessions: u32,
    /// True if it has a password.
    #[serde(default)]
    pub has_password: bool,
    /// Its identity at the site's OpenID provider; missing for a user that logs in otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ProviderIdentity>,
}
