//! The person or program that makes a request.

use std::collections::BTreeMap;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::account::AccountName;
use super::id::{SessionId, TokenId};
use super::role::{Right, Role};
use super::scope::Scope;
use super::user::StoreGrant;
use crate::problem::{Problem, ProblemCode};

/// The way by which a principal proved its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The Unix socket: the kernel names the user id of the process (SO_PEERCRED, unix(7)).
    Socket {
        /// The user id.
        uid: u32,
    },
    /// The Unix socket for accounts of the host, which the configuration maps to users of the site.
    Account {
        /// The user id (SO_PEERCRED, unix(7)).
        uid: u32,
        /// The account of that number, as the name service of the host knows it.
        account: AccountName,
        /// The role that the configuration gives it; `None` where it is a user of the site, with
        /// the rights of that user.
        role: Option<Role>,
    },
    /// A bearer token (RFC 6750).
    Token {
        /// The token.
        id: TokenId,
    },
    /// A browser session, by its cookie.
    Session {
        /// The session.
        id: SessionId,
    },
}

impl Via {
    /// Returns the word for it in views and in the audit log.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Socket { .. } | Self::Account { .. } => "socket",
            Self::Token { .. } => "token",
            Self::Session { .. } => "session",
        }
    }
}

/// The person or program that makes a request, and its rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The name of its user.
    pub user: Name,
    /// The role of that user.
    pub role: Role,
    /// The way by which it proved its identity.
    pub via: Via,
    /// Scopes of its token, which take rights away; `None` leaves all rights of the role.
    pub scopes: Option<Vec<Scope>>,
    /// Rights of its user in single stores.
    pub grants: BTreeMap<Name, StoreGrant>,
    /// Account of the hosts as which its transfers use mapped stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
}

/// Reason why a principal lacks a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Its role lacks the right.
    Role,
    /// The scopes of its token leave the right out.
    Scope,
    /// Only root and the daemon's own user on the Unix socket have it.
    NotLocal,
}

/// The use of a store that a transfer or a list needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Listing its entries.
    List,
    /// Reading files.
    Read,
    /// Writing files.
    Write,
}

impl Principal {
    /// Returns root, or the daemon's own user, on the Unix socket: it has every right. `account` is
    /// the name of that user on the host.
    pub fn local(uid: u32, account: Option<AccountName>) -> Self {
        let Ok(user) = "root".parse() else { unreachable!("`root` is a name") };
        let (via, grants) = (Via::Socket { uid }, BTreeMap::new());
        Self { user, role: Role::Administrator, via, scopes: None, grants, account }
    }

    /// Checks a right, whatever the object.
    ///
    /// # Errors
    /// The role lacks the right, or the token's scopes leave it out.
    pub fn check(&self, right: Right) -> Result<(), Denied> {
        if right == Right::LocalRoot {
            let is_local = matches!(self.via, Via::Socket { .. }) && self.is_administrator();
            return is_local.then_some(()).ok_or(Denied::NotLocal);
        }
        if !self.role.has(right) {
            return Err(Denied::Role);
        }
        match &self.scopes {
            Some(scopes) if !scopes.iter().any(|scope| scope.allows(right)) => Err(Denied::Scope),
            _ => Ok(()),
        }
    }

    /// Checks a right, and returns the problem that a client sees.
    ///
    /// # Errors
    /// Code `not-authorised`: the title names the right, the hint the remedy.
    pub fn require(&self, right: Right) -> Result<(), Problem> {
        self.check(right).map_err(|denied| {
            let title = format!("`{}` lacks the right `{}`", self.user, right.as_str());
            let problem = Problem::new(ProblemCode::NotAuthorised, title);
            match denied {
                Denied::Role => problem
                    .because(format!("its role is {}", self.role))
                    .hint("ask an administrator of the site for another role"),
                Denied::Scope => problem
                    .because("the scopes of the token leave it out")
                    .hint("make a token with the scope that the operation needs"),
                Denied::NotLocal => {
                    problem.hint("run the command as root on a host of the site, over its socket")
                }
            }
        })
    }

    /// Returns whether it sees transfers of every owner.
    pub fn sees_all_transfers(&self) -> bool {
        self.role != Role::User
    }

    /// Returns whether it may see a transfer of this owner. A transfer without an owner is of the
    /// site, and its operators see it.
    pub fn may_see(&self, owner: Option<&Name>) -> bool {
        self.sees_all_transfers() || owner == Some(&self.user)
    }

    /// Returns whether it may steer a transfer of this owner, where it has [`Right::Steer`].
    pub fn may_steer(&self, owner: Option<&Name>) -> bool {
        self.role >= Role::Operator || owner == Some(&self.user)
    }

    /// Returns whether it may use a store of this site so.
    pub fn may_use(&self, store: &Name, access: Access) -> bool {
        if self.role >= Role::Operator {
            return true;
        }
        let grant = self.grants.get(store).copied().unwrap_or_default();
        match access {
            // Names are the least part of what may be read.
            Access::List => grant.list || grant.read,
            Access::Read => grant.read,
            Access::Write => grant.write,
        }
    }

    /// Checks a use of a store of this site, whose verb is `words`.
    ///
    /// # Errors
    /// Code `not-authorised`: the hint is the command that grants it.
    pub fn require_use(&self, store: &Name, access: Access, words: &str) -> Result<(), Problem> {
        if self.may_use(store, access) {
            return Ok(());
        }
        // `user set` replaces the grant of a store: the hint keeps the rights that the user has.
        let mut grant = self.grants.get(store).copied().unwrap_or_default();
        match access {
            Access::List => grant.list = true,
            Access::Read => grant.read = true,
            Access::Write => grant.write = true,
        }
        let title = format!("`{}` may not {words} store `{store}`", self.user);
        Err(Problem::new(ProblemCode::NotAuthorised, title).hint(format!(
            "an administrator grants it: `penstock user set {} --grant {store}={grant}`",
            self.user
        )))
    }

    /// Returns the rights that it has in a store.
    pub fn rights_in(&self, store: &Name) -> StoreGrant {
        StoreGrant {
            list: self.may_use(store, Access::List),
            read: self.may_use(store, Access::Read),
            write: self.may_use(store, Access::Write),
        }
    }

    /// Checks that it may look into stores of paired sites, which no grant names: those whose
    /// transfers reach them may, which needs a grant to read or write at this site.
    ///
    /// # Errors
    /// Code `not-authorised`.
    pub fn require_other_sites(&self) -> Result<(), Problem> {
        let mut grants = self.grants.values();
        let moves = self.role >= Role::User && grants.any(|grant| grant.read || grant.write);
        if moves || self.role >= Role::Operator {
            return Ok(());
        }
        let title = format!("`{}` may not look into stores of other sites", self.user);
        Err(Problem::new(ProblemCode::NotAuthorised, title)
            .because("that needs the role user, and a grant to read or write a store of this site")
            .hint("ask an administrator of the site"))
    }

    fn is_administrator(&self) -> bool {
        self.role == Role::Administrator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anna(role: Role, scopes: Option<&[Scope]>) -> Principal {
        Principal {
            user: "anna".parse().unwrap(),
            role,
            via: Via::Token { id: "0011223344556677".parse().unwrap() },
            scopes: scopes.map(<[_]>::to_vec),
            grants: BTreeMap::new(),
            account: None,
        }
    }

    /// Promise (C2): scopes take rights away from a role, and never add one.
    #[test]
    fn c2_scopes_never_widen_a_role() {
        for role in Role::ALL {
            for scope in Scope::ALL {
                for right in Right::ALL {
                    let narrowed = anna(role, Some(&[scope])).check(right).is_ok();
                    let whole = anna(role, None).check(right).is_ok();
                    assert!(narrowed <= whole, "{role} {scope} {right:?}");
                }
            }
        }
        let token = anna(Role::Administrator, Some(&[Scope::MetricsRead]));
        assert_eq!(token.check(Right::Metrics), Ok(()));
        assert_eq!(token.check(Right::SeeSite), Err(Denied::Scope));
        assert_eq!(anna(Role::Viewer, None).check(Right::Submit), Err(Denied::Role));
    }

    /// Promise: only root at the socket recovers a cluster, whatever the role.
    #[test]
    fn c2_a_token_never_recovers_a_cluster() {
        assert_eq!(anna(Role::Administrator, None).check(Right::LocalRoot), Err(Denied::NotLocal));
        let root = Principal::local(0, None);
        assert!(Right::ALL.iter().all(|&right| root.check(right).is_ok()));
        let (account, role) = ("anna".parse().unwrap(), Some(Role::Administrator));
        let via = Via::Account { uid: 1000, account, role };
        let mapped = Principal { via, ..anna(Role::Administrator, None) };
        assert_eq!(mapped.check(Right::LocalRoot), Err(Denied::NotLocal));
        assert_eq!(mapped.check(Right::Administer), Ok(()));
    }

    /// Promise: a user sees and steers the own transfers, and uses the stores that grants name.
    #[test]
    fn c2_a_user_is_held_to_grants_and_own_transfers() {
        let mut user = anna(Role::User, None);
        let (own, other): (Name, Name) = ("anna".parse().unwrap(), "ben".parse().unwrap());
        assert!(user.may_see(Some(&own)) && !user.may_see(Some(&other)) && !user.may_see(None));
        assert!(user.may_steer(Some(&own)) && !user.may_steer(Some(&other)));
        let raw: Name = "raw".parse().unwrap();
        assert!(!user.may_use(&raw, Access::Read));
        user.grants.insert(raw.clone(), StoreGrant { list: true, read: true, write: false });
        assert!(user.may_use(&raw, Access::Read) && !user.may_use(&raw, Access::Write));
        assert!(user.require_use(&raw, Access::List, "list").is_ok(), "who reads may list");
        let denied = user.require_use(&raw, Access::Write, "write").unwrap_err();
        assert!(denied.hint.ends_with("--grant raw=list,read,write`"), "{}", denied.hint);
        assert!(user.require_other_sites().is_ok());
        user.grants.insert(raw.clone(), StoreGrant { list: true, ..StoreGrant::default() });
        assert!(user.require_other_sites().is_err(), "its transfers reach nothing");
        assert!(!user.may_use(&raw, Access::Read));
        assert!(anna(Role::Operator, None).may_use(&raw, Access::Write));
        assert!(anna(Role::Viewer, None).may_see(Some(&other)));
    }
}
