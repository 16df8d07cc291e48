//! The user of a person whom the provider has proved, with the role that follows from the person's
//! groups.

use penstock_api::access::{
    Directory, ProviderIdentity, Role, Session, SessionCookie, SessionLimits, User,
};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_cluster::state::SiteState;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;
use serde_json::Value;

use super::claims::{find, groups, user_name};
use super::id_token::Claims;
use super::refusal::{locked, name_taken, no_name, no_role};
use crate::access::login::origin::ClientOrigin;
use crate::access::login::sessions::{Proved, begin};
use crate::access::users::{SUBJECT_BYTES_MAX, check_name, check_room, end_sessions};
use crate::config::OidcConfig;

/// A person whom the provider has proved.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) subject: String,
    name: Option<Name>,
    groups: Vec<String>,
    user_claim: String,
    groups_claim: String,
    /// Claims that the token has not.
    lacking: Vec<String>,
}

impl Person {
    /// Returns the person of a token's claims.
    ///
    /// # Errors
    /// The claims have no usable `sub`: code `oidc-token`.
    pub(super) fn of(claims: &Claims, config: &OidcConfig) -> Result<Self, Problem> {
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX {
            let title = "the token of the OpenID provider is not accepted";
            let why = format!("its `sub` has not 1 to {SUBJECT_BYTES_MAX} bytes");
            return Err(Problem::new(ProblemCode::OidcToken, title).because(why));
        }
        let wanted = [&config.user_claim, &config.groups_claim].into_iter();
        let mut person = Self {
            subject: subject.to_owned(),
            name: None,
            groups: Vec::new(),
            user_claim: config.user_claim.clone(),
            groups_claim: config.groups_claim.clone(),
            lacking: wanted.filter(|claim| find(claims, claim).is_none()).cloned().collect(),
        };
        person.complete(claims);
        Ok(person)
    }

    /// Returns whether the token lacks a claim, which the provider may tell elsewhere.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.lacking.is_empty()
    }

    /// Adds facts from further claims. Known facts stay.
    pub(super) fn complete(&mut self, claims: &Claims) {
        if self.name.is_none() {
            self.name = user_name(claims, &self.user_claim);
        }
        if self.groups.is_empty() {
            self.groups = groups(claims, &self.groups_claim);
        }
    }

    /// Begins a session of the person's user, which is made at the first log-in and has the role of
    /// the person's groups from now on.
    ///
    /// # Errors
    /// No group has a role: no session and token of the user is accepted from now on. An
    /// administrator has locked the user out; the name is missing, or of another user.
    pub(super) fn log_in(
        &self,
        state: &dyn SiteState,
        directory: &Directory,
        config: &OidcConfig,
        (origin, limits): (&ClientOrigin, SessionLimits),
    ) -> Result<(Session, SessionCookie), Problem> {
        let is_it = |user: &&User| {
            let identity = user.identity.as_ref();
            identity.is_some_and(|identity| identity.is_of(&config.issuer, &self.subject))
        };
        let known = directory.users().find(is_it);
        let Some(role) = config.role_of(&self.groups) else {
            if let Some(user) = known {
                self.end_role(state, directory, user, config)?;
            }
            return Err(no_role(&self.groups_claim, &self.groups));
        };
        let user = match known {
            Some(user) if user.disabled => return Err(locked(&user.name)),
            Some(user) => {
                User { role, identity: Some(self.identity(config, true)), ..user.clone() }
            }
            None => self.new_user(directory, config, role)?,
        };
        if known != Some(&user) {
            let (name, role) = (&user.name, user.role);
            tracing::info!(user = %name, %role, "the provider gives a user its role");
            state.put_user(&user)?;
        }
        begin(state, directory, &user.name, origin, limits, Proved::AtProvider)
    }

    fn identity(&self, config: &OidcConfig, has_role: bool) -> ProviderIdentity {
        let (issuer, subject) = (config.issuer.clone(), self.subject.clone());
        ProviderIdentity { issuer, subject, has_role }
    }

    /// Ends the rights of a user whose groups no longer have a role.
    fn end_role(
        &self,
        state: &dyn SiteState,
        directory: &Directory,
        user: &User,
        config: &OidcConfig,
    ) -> Result<(), Problem> {
        tracing::warn!(user = %user.name, "the provider gives a user no role any more");
        state.put_user(&User { identity: Some(self.identity(config, false)), ..user.clone() })?;
        end_sessions(state, directory, &user.name, None)
    }

    /// Returns a new user for the person.
    fn new_user(
        &self,
        directory: &Directory,
        config: &OidcConfig,
        role: Role,
    ) -> Result<User, Problem> {
        let name = self.name.clone().ok_or_else(|| no_name(&self.user_claim))?;
        check_name(&name).map_err(|_| name_taken(&name, &self.subject))?;
        if directory.user(&name).is_some() {
            return Err(name_taken(&name, &self.subject));
        }
        check_room(directory)?;
        Ok(User {
            name,
            role,
            created: now_seconds(),
            disabled: false,
            grants: [].into(),
            account: None,
            group: None,
            password: None,
            identity: Some(self.identity(config, true)),
        })
    }
}
