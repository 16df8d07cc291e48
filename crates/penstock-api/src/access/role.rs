//! Roles, and the rights that each has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The role of a user. A later role has every right of an earlier one, but that a viewer sees all
/// transfers and a user the own ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees the site and its transfers.
    Viewer,
    /// Submits transfers between stores that grants name, and steers them.
    User,
    /// Submits and steers all transfers, and operates queue and peers.
    Operator,
    /// Also administers users, grants, tokens and pairings.
    Administrator,
}

impl Role {
    /// All roles, the weakest first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::User, Self::Operator, Self::Administrator];

    /// Returns the name of the role, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        }
    }

    /// Returns whether a principal of this role has a right, whatever the object.
    pub fn has(self, right: Right) -> bool {
        match right {
            Right::Public
            | Right::Own
            | Right::SeeSite
            | Right::SeeTransfers
            | Right::ListStores
            | Right::Metrics => true,
            Right::Submit | Right::Steer => self >= Self::User,
            Right::Operate => self >= Self::Operator,
            Right::Administer | Right::Audit => self == Self::Administrator,
            Right::LocalRoot => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| {
            format!("`{text}` is not a role: viewer, user, operator or administrator")
        })
    }
}

/// The right that an operation of the API needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// None: no credentials are needed.
    Public,
    /// Any principal, about itself.
    Own,
    /// Seeing peers, stores, pairings, health and events.
    SeeSite,
    /// Seeing transfers and their documents.
    SeeTransfers,
    /// Listing entries of stores.
    ListStores,
    /// Submitting transfers and plans.
    Submit,
    /// Pausing, resuming, cancelling, retrying, limiting transfers.
    Steer,
    /// Operating the queue, peers, paths.
    Operate,
    /// Administering users, tokens of others, grants, pairings, keys.
    Administer,
    /// Reading the audit log.
    Audit,
    /// Reading metrics.
    Metrics,
    /// Recovering a cluster: root or the daemon's own user on the Unix socket.
    LocalRoot,
}

impl Right {
    /// All rights, in the order of the reference.
    pub const ALL: [Self; 12] = [
        Self::Public,
        Self::Own,
        Self::SeeSite,
        Self::SeeTransfers,
        Self::ListStores,
        Self::Submit,
        Self::Steer,
        Self::Operate,
        Self::Administer,
        Self::Audit,
        Self::Metrics,
        Self::LocalRoot,
    ];

    /// Returns the name of the right, as the OpenAPI file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Own => "own",
            Self::SeeSite => "see-site",
            Self::SeeTransfers => "see-transfers",
            Self::ListStores => "list-stores",
            Self::Submit => "submit",
            Self::Steer => "steer",
            Self::Operate => "operate",
            Self::Administer => "administer",
            Self::Audit => "audit",
            Self::Metrics => "metrics",
            Self::LocalRoot => "local-root",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: no role has a right that a later one lacks, and none recovers a cluster.
    #[test]
    fn c2_a_later_role_has_every_right_of_an_earlier_one() {
        for right in Right::ALL {
            for pair in Role::ALL.windows(2) {
                assert!(pair[0].has(right) <= pair[1].has(right), "{right:?}: {pair:?}");
            }
        }
        assert!(!Role::Administrator.has(Right::LocalRoot));
        assert!(!Role::Viewer.has(Right::Submit));
        assert!(!Role::User.has(Right::Operate));
        assert!(!Role::Operator.has(Right::Administer));
    }
}
