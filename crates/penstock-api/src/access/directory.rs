//! The users, tokens and sessions of a site, as every peer keeps them in memory to judge requests.

use std::collections::BTreeMap;

use penstock_proto::id::Name;

use super::id::{SessionId, TokenId};
use super::login::{Session, SessionCookie, SessionLimits};
use super::principal::{Principal, Via};
use super::scope::Scope;
use super::token::Token;
use super::user::User;

/// Users, tokens and sessions of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    users: BTreeMap<Name, User>,
    /// Tokens by the BLAKE3 of their texts, in hex.
    tokens: BTreeMap<String, Token>,
    /// Sessions by the BLAKE3 of the random parts of their cookies, in hex.
    sessions: BTreeMap<String, Session>,
}

/// Reason why a token or a session is not accepted. A client is told all of them in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefused {
    /// No token or session of this site has that text: it was never made, or was ended.
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
    /// Returns the directory of these users, tokens and sessions.
    pub fn new(users: Vec<User>, tokens: Vec<Token>, sessions: Vec<Session>) -> Self {
        let by_digest = |session: Session| (session.digest.clone(), session);
        Self {
            users: users.into_iter().map(|user| (user.name.clone(), user)).collect(),
            tokens: tokens.into_iter().map(|token| (token.digest.clone(), token)).collect(),
            sessions: sessions.into_iter().map(by_digest).collect(),
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

    /// Returns the sessions of a user, oldest first; of all users if `user` is `None`.
    pub fn sessions_of(&self, user: Option<&Name>) -> Vec<&Session> {
        let of = |session: &&Session| user.is_none_or(|user| session.user == *user);
        let mut sessions: Vec<_> = self.sessions.values().filter(of).collect();
        sessions.sort_by_key(|session| (session.created, session.id));
        sessions
    }

    /// Returns one session.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.values().find(|session| session.id == id)
    }

    /// Returns the session that a cookie is of, whether it is over or not.
    pub fn session_of(&self, cookie: &SessionCookie) -> Option<&Session> {
        self.sessions.get(&cookie.digest())
    }

    /// Returns whether it has the token or the session by which a principal proved its identity.
    pub fn knows(&self, via: &Via) -> bool {
        match via {
            Via::Socket { .. } | Via::Account { .. } => true,
            Via::Token { id } => self.token(*id).is_some(),
            Via::Session { id } => self.session(*id).is_some(),
        }
    }

    /// Returns the principal of the cookie of a session. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The session is not known, is over, was idle for too long, or its user is locked out.
    pub fn principal_of_cookie(
        &self,
        cookie: &SessionCookie,
        now: u64,
        limits: SessionLimits,
    ) -> Result<Principal, TokenRefused> {
        let session = self.session_of(cookie).ok_or(TokenRefused::Unknown)?;
        if !session.accepts(cookie, now, limits) {
            return Err(TokenRefused::Expired);
        }
        self.principal_of_session(session)
    }

    /// Returns the principal of a session that another peer has accepted.
    ///
    /// # Errors
    /// The session is not known, or its user is locked out.
    pub fn principal_of_session_id(&self, id: SessionId) -> Result<Principal, TokenRefused> {
        self.principal_of_session(self.session(id).ok_or(TokenRefused::Unknown)?)
    }

    fn principal_of_session(&self, session: &Session) -> Result<Principal, TokenRefused> {
        let via = Via::Session { id: session.id };
        self.principal_by(&session.user, via, None)
    }

    /// Returns the principal of a user that proved its identity in a way of its own.
    ///
    /// # Errors
    /// The user is not known, or is locked out.
    pub fn principal_of_user(&self, user: &Name, via: Via) -> Result<Principal, TokenRefused> {
        self.principal_by(user, via, None)
    }

    fn principal_by(
        &self,
        user: &Name,
        via: Via,
        scopes: Option<Vec<Scope>>,
    ) -> Result<Principal, TokenRefused> {
        let user = self.users.get(user).filter(|user| !user.is_locked());
        let user = user.ok_or(TokenRefused::UserLocked)?;
        Ok(Principal {
            user: user.name.clone(),
            role: user.role,
            via,
            scopes,
            grants: user.grants.clone(),
            account: user.account.clone(),
        })
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
        self.principal_by(&token.user, Via::Token { id: token.id }, token.scopes.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{ProviderIdentity, Right, Role, Scope};

    fn user(name: &str, role: Role) -> User {
        let grants = BTreeMap::new();
        let (name, disabled) = (name.parse().unwrap(), false);
        let (account, group, password, identity) = (None, None, None, None);
        User { name, role, created: 1, disabled, grants, account, group, password, identity }
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
        let directory = Directory::new(vec![user("anna", Role::User), ben], tokens, Vec::new());
        let anna = directory.principal("a", 99).unwrap();
        assert!(anna.check(Right::SeeSite).is_ok() && anna.check(Right::Submit).is_err());
        assert_eq!(directory.principal("a", 100), Err(TokenRefused::Expired));
        assert_eq!(directory.principal("b", 1), Err(TokenRefused::UserLocked));
        assert_eq!(directory.principal("c", 1), Err(TokenRefused::UserLocked));
        assert_eq!(directory.principal("d", 1), Err(TokenRefused::Unknown));
    }

    /// Promise (C8): a token of a user whom the provider gives no role is not accepted, until the
    /// provider gives one.
    #[test]
    fn c8_a_token_ends_with_the_role_at_the_provider() {
        let with = |has_role: bool| {
            let (issuer, subject) = ("https://sso.example.org".to_owned(), "7".to_owned());
            let identity = ProviderIdentity { issuer, subject, has_role };
            let anna = User { identity: Some(identity), ..user("anna", Role::User) };
            Directory::new(vec![anna], vec![token("anna", "a", 100)], Vec::new())
        };
        assert_eq!(with(false).principal("a", 1), Err(TokenRefused::UserLocked));
        assert!(with(true).principal("a", 1).is_ok());
    }
}
