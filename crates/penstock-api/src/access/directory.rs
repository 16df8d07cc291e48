//! The users and tokens of a site, as every peer keeps them in memory to judge requests.

use std::collections::BTreeMap;

use penstock_proto::id::Name;

use super::principal::{Principal, Via};
use super::token::{Token, TokenId};
use super::user::User;

/// Users and tokens of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    users: BTreeMap<Name, User>,
    /// Tokens by the BLAKE3 of their texts, in hex.
    tokens: BTreeMap<String, Token>,
}

/// Reason why a token is not accepted. A client is told all of them in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefused {
    /// No token of this site has that text: it was never made, or was revoked.
    Unknown,
    /// Its time is over.
    Expired,
    /// Its user is locked out, or was removed.
    UserLocked,
}

impl TokenRefused {
    /// Returns the reason in words, for the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown or revoked",
            Self::Expired => "expired",
            Self::UserLocked => "the user is locked out",
        }
    }
}

impl Directory {
    /// Returns the directory of these users and tokens.
    pub fn new(users: Vec<User>, tokens: Vec<Token>) -> Self {
        Self {
            users: users.into_iter().map(|user| (user.name.clone(), user)).collect(),
            tokens: tokens.into_iter().map(|token| (token.digest.clone(), token)).collect(),
        }
    }

    /// Returns the users, by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values()
    }

    /// Returns one user.
    pub fn user(&self, name: &Name) -> Option<&User> {
        self.users.get(name)
    }

    /// Returns the tokens of a user, oldest first; of all users if `user` is `None`.
    pub fn tokens_of(&self, user: Option<&Name>) -> Vec<&Token> {
        let mut tokens: Vec<_> = self
            .tokens
            .values()
            .filter(|token| user.is_none_or(|user| token.user == *user))
            .collect();
        tokens.sort_by_key(|token| (token.created, token.id));
        tokens
    }

    /// Returns one token.
    pub fn token(&self, id: TokenId) -> Option<&Token> {
        self.tokens.values().find(|token| token.id == id)
    }

    /// Returns the principal of a token, by the BLAKE3 of its text in hex. `now` is in seconds
    /// since 1970.
    ///
    /// # Errors
    /// The token is not known, is over, or its user is locked out.
    pub fn principal(&self, digest: &str, now: u64) -> Result<Principal, TokenRefused> {
        let token = self.tokens.get(digest).ok_or(TokenRefused::Unknown)?;
        if !token.is_valid(now) {
            return Err(TokenRefused::Expired);
        }
        let user = self.users.get(&token.user).filter(|user| !user.disabled);
        let user = user.ok_or(TokenRefused::UserLocked)?;
        Ok(Principal {
            user: user.name.clone(),
            role: user.role,
            via: Via::Token { id: token.id },
            scopes: token.scopes.clone(),
            grants: user.grants.clone(),
            account: user.account.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Right, Role, Scope};

    fn user(name: &str, role: Role) -> User {
        let grants = BTreeMap::new();
        User {
            name: name.parse().unwrap(),
            role,
            created: 1,
            disabled: false,
            grants,
            account: None,
        }
    }

    fn token(user: &str, digest: &str, expires: u64) -> Token {
        Token {
            id: TokenId([digest.as_bytes()[0]; 8]),
            user: user.parse().unwrap(),
            digest: digest.to_owned(),
            label: String::new(),
            scopes: Some(vec![Scope::SiteRead]),
            created: 1,
            expires,
        }
    }

    /// Promise (C6): a token works until it expires, its user is locked out or removed.
    #[test]
    fn c6_a_token_ends_with_its_time_and_with_its_user() {
        let tokens = vec![token("anna", "a", 100), token("ben", "b", 100), token("cy", "c", 100)];
        let mut ben = user("ben", Role::Operator);
        ben.disabled = true;
        let directory = Directory::new(vec![user("anna", Role::User), ben], tokens);
        let anna = directory.principal("a", 99).unwrap();
        assert!(anna.check(Right::SeeSite).is_ok() && anna.check(Right::Submit).is_err());
        assert_eq!(directory.principal("a", 100), Err(TokenRefused::Expired));
        assert_eq!(directory.principal("b", 1), Err(TokenRefused::UserLocked));
        assert_eq!(directory.principal("c", 1), Err(TokenRefused::UserLocked));
        assert_eq!(directory.principal("d", 1), Err(TokenRefused::Unknown));
    }
}
