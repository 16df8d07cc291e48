//! Scopes, by which a token has fewer rights than its user.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::role::Right;

/// A scope of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Seeing the site.
    SiteRead,
    /// Seeing transfers.
    TransfersRead,
    /// Submitting and steering transfers. It includes seeing them.
    TransfersWrite,
    /// Listing entries of stores.
    StoresList,
    /// Operating queue and peers.
    SiteOperate,
    /// Administering users, grants, pairings.
    SiteAdmin,
    /// Reading the audit log.
    AuditRead,
    /// Reading metrics.
    MetricsRead,
}

/// Error: a text is no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a scope: site:read, transfers:read, transfers:write, stores:list, \
     site:operate, site:admin, audit:read or metrics:read"
)]
pub struct UnknownScope(pub String);

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 8] = [
        Self::SiteRead,
        Self::TransfersRead,
        Self::TransfersWrite,
        Self::StoresList,
        Self::SiteOperate,
        Self::SiteAdmin,
        Self::AuditRead,
        Self::MetricsRead,
    ];

    /// Returns the text of the scope.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SiteRead => "site:read",
            Self::TransfersRead => "transfers:read",
            Self::TransfersWrite => "transfers:write",
            Self::StoresList => "stores:list",
            Self::SiteOperate => "site:operate",
            Self::SiteAdmin => "site:admin",
            Self::AuditRead => "audit:read",
            Self::MetricsRead => "metrics:read",
        }
    }

    /// Returns whether a token of this scope keeps a right of its user.
    pub fn allows(self, right: Right) -> bool {
        match right {
            Right::Public | Right::Own => true,
            Right::SeeSite => self == Self::SiteRead,
            Right::SeeTransfers => matches!(self, Self::TransfersRead | Self::TransfersWrite),
            Right::ListStores => self == Self::StoresList,
            Right::Submit | Right::Steer => self == Self::TransfersWrite,
            Right::Operate => self == Self::SiteOperate,
            Right::Administer => self == Self::SiteAdmin,
            Right::Audit => self == Self::AuditRead,
            Right::Metrics => self == Self::MetricsRead,
            Right::LocalRoot => false,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let scope = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        scope.ok_or_else(|| UnknownScope(text.to_owned()))
    }
}

impl TryFrom<String> for Scope {
    type Error = UnknownScope;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.as_str().to_owned()
    }
}
