//! The caller as the API shows it to itself.

use std::collections::BTreeMap;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::principal::{Principal, Via};
use super::role::{Right, Role};
use super::scope::Scope;
use super::user::StoreGrant;

/// The caller itself: `GET /me`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MeView {
    /// The user's name.
    pub user: Name,
    /// The role.
    pub role: Role,
    /// The way by which the caller proved its identity: `socket`, `token` or `session`.
    pub via: String,
    /// Identifier of the token or the session; at the socket the account of the host that is mapped
    /// to the user, and absent for root and the daemon's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via_id: Option<String>,
    /// Scopes of the token; absent where nothing is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    /// Names of the rights that the caller has.
    pub rights: Vec<String>,
    /// Rights in single stores. An operator needs none.
    pub grants: BTreeMap<Name, StoreGrant>,
}

impl MeView {
    /// Returns the view of a principal.
    pub fn of(principal: &Principal) -> Self {
        let has = |right: &Right| principal.check(*right).is_ok();
        Self {
            user: principal.user.clone(),
            role: principal.role,
            via: principal.via.as_str().to_owned(),
            via_id: match &principal.via {
                Via::Socket { .. } => None,
                Via::Account { account, .. } => Some(account.to_string()),
                Via::Token { id } => Some(id.to_string()),
                Via::Session { id } => Some(id.to_string()),
            },
            scopes: principal.scopes.clone(),
            rights: Right::ALL
                .iter()
                .filter(|right| has(right))
                .map(|r| r.as_str().to_owned())
                .collect(),
            grants: principal.grants.clone(),
        }
    }
}
