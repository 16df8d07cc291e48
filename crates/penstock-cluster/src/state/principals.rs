//! Users, tokens, sessions, one-time links and webhooks in SQLite.

use penstock_api::access::{Link, Session, SessionId, Token, TokenId, User};
use penstock_api::webhook::Webhook;
use penstock_proto::id::Name;
use rusqlite::params;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::sqlite::{Commit, SqliteState, StateError};

/// The kind of a record in the table `principal`.
#[derive(Clone, Copy)]
enum Kind {
    User,
    Token,
    Webhook,
    Session,
    Link,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Token => "token",
            Self::Webhook => "webhook",
            Self::Session => "session",
            Self::Link => "link",
        }
    }
}

impl SqliteState {
    /// Returns all users, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn users(&self) -> Result<Vec<User>, StateError> {
        self.principals(Kind::User)
    }

    /// Stores a user, or replaces the one with the same name. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_user(&self, user: &User) -> Result<(), StateError> {
        self.put_principal(Kind::User, user.name.as_str(), user)
    }

    /// Removes a user. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remove_user(&self, name: &Name) -> Result<(), StateError> {
        self.remove_principal(Kind::User, name.as_str())
    }

    /// Returns all tokens.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn tokens(&self) -> Result<Vec<Token>, StateError> {
        self.principals(Kind::Token)
    }

    /// Stores a token. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_token(&self, token: &Token) -> Result<(), StateError> {
        self.put_principal(Kind::Token, &token.id.to_string(), token)
    }

    /// Removes a token. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remove_token(&self, id: TokenId) -> Result<(), StateError> {
        self.remove_principal(Kind::Token, &id.to_string())
    }

    /// Returns all webhooks, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn webhooks(&self) -> Result<Vec<Webhook>, StateError> {
        self.principals(Kind::Webhook)
    }

    /// Stores a webhook, or replaces the one with the same name. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_webhook(&self, webhook: &Webhook) -> Result<(), StateError> {
        self.put_principal(Kind::Webhook, webhook.name.as_str(), webhook)
    }

    /// Removes a webhook. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remove_webhook(&self, name: &Name) -> Result<(), StateError> {
        self.remove_principal(Kind::Webhook, name.as_str())
    }

    /// Returns all sessions.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sessions(&self) -> Result<Vec<Session>, StateError> {
        self.principals(Kind::Session)
    }

    /// Stores a session. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_session(&self, session: &Session) -> Result<(), StateError> {
        self.put_principal(Kind::Session, &session.id.to_string(), session)
    }

    /// Removes a session. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remove_session(&self, id: SessionId) -> Result<(), StateError> {
        self.remove_principal(Kind::Session, &id.to_string())
    }

    /// Returns all one-time links.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn links(&self) -> Result<Vec<Link>, StateError> {
        self.principals(Kind::Link)
    }

    /// Stores a link, or replaces the one for the same purpose. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_link(&self, link: &Link) -> Result<(), StateError> {
        self.put_principal(Kind::Link, &link.purpose.key(), link)
    }

    /// Removes the link under a key. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remove_link(&self, key: &str) -> Result<(), StateError> {
        self.remove_principal(Kind::Link, key)
    }

    fn principals<T: DeserializeOwned>(&self, kind: Kind) -> Result<Vec<T>, StateError> {
        let failed = StateError::statement("list records of users");
        let reader = self.read();
        let mut query = reader
            .prepare_cached("SELECT record FROM principal WHERE kind = ?1 ORDER BY name")
            .map_err(&failed)?;
        let rows = query
            .query_map([kind.as_str()], |row| row.get::<_, String>(0))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(failed)?;
        rows.iter().map(|text| serde_json::from_str(text).map_err(damaged)).collect()
    }

    fn put_principal(
        &self,
        kind: Kind,
        name: &str,
        record: &impl Serialize,
    ) -> Result<(), StateError> {
        let what = "store a record of users";
        let text = serde_json::to_string(record).map_err(damaged)?;
        self.write(what, Commit::Durable, |transaction| {
            transaction
                .execute(
                    "INSERT OR REPLACE INTO principal VALUES (?1, ?2, ?3)",
                    params![kind.as_str(), name, text],
                )
                .map(drop)
                .map_err(StateError::statement(what))
        })
    }

    fn remove_principal(&self, kind: Kind, name: &str) -> Result<(), StateError> {
        let what = "remove a record of users";
        self.write(what, Commit::Durable, |transaction| {
            transaction
                .execute(
                    "DELETE FROM principal WHERE kind = ?1 AND name = ?2",
                    params![kind.as_str(), name],
                )
                .map(drop)
                .map_err(StateError::statement(what))
        })
    }
}

fn damaged(error: serde_json::Error) -> StateError {
    StateError::Damaged { what: "record of users", why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use penstock_api::access::{LinkPurpose, Role, Secret};

    use super::*;

    /// Promise: sessions and links survive a restart of the daemon; a link replaces an earlier one
    /// for the same purpose.
    #[test]
    fn sessions_and_links_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let state = SqliteState::open(&path).unwrap();
        let session = Session {
            id: SessionId([2; 8]),
            user: "anna".parse().unwrap(),
            digest: "cd".to_owned(),
            seal: Secret::new("ef"),
            created: 7,
            expires: 8,
            from: "10.0.0.1".to_owned(),
            client: "curl".to_owned(),
            at_provider: true,
        };
        let link = |digest: &str| Link {
            purpose: LinkPurpose::SetUp,
            digest: digest.to_owned(),
            expires: 8,
            used: false,
        };
        state.put_session(&session).unwrap();
        state.put_link(&link("ab")).unwrap();
        state.put_link(&link("cd")).unwrap();
        drop(state);
        let state = SqliteState::open(&path).unwrap();
        assert_eq!(state.sessions().unwrap(), vec![session.clone()]);
        assert_eq!(state.links().unwrap(), vec![link("cd")]);
        state.remove_session(session.id).unwrap();
        state.remove_link(&LinkPurpose::SetUp.key()).unwrap();
        assert!(state.sessions().unwrap().is_empty() && state.links().unwrap().is_empty());
    }

    /// Promise: users and tokens survive a restart of the daemon, and removed ones stay removed.
    #[test]
    fn users_and_tokens_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let state = SqliteState::open(&path).unwrap();
        let name: Name = "anna".parse().unwrap();
        let user = User {
            name: name.clone(),
            role: Role::User,
            created: 7,
            disabled: false,
            grants: [("raw".parse().unwrap(), Default::default())].into(),
            account: "anna".parse().ok(),
            group: None,
            password: None,
            identity: None,
        };
        let token = Token {
            id: TokenId([1; 8]),
            user: name.clone(),
            digest: "ab".to_owned(),
            label: "backup".to_owned(),
            scopes: None,
            created: 7,
            expires: 8,
        };
        state.put_user(&user).unwrap();
        state.put_token(&token).unwrap();
        drop(state);
        let state = SqliteState::open(&path).unwrap();
        assert_eq!(state.users().unwrap(), vec![user]);
        assert_eq!(state.tokens().unwrap(), vec![token.clone()]);
        state.remove_token(token.id).unwrap();
        state.remove_user(&name).unwrap();
        assert!(state.users().unwrap().is_empty() && state.tokens().unwrap().is_empty());
    }
}
