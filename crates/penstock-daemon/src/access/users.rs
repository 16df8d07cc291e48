//! Users and tokens of the site, as administrators and users change them at the controller.
//! Passwords and sessions are in [`super::login`], which changes them in the same turn.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::access::{
    AccountName, AccountNameError, Directory, LinkPurpose, Principal, ProviderIdentity, Right,
    Scope, SessionId, TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX, Token, TokenId, TokenRequest,
    TokenSecret, TokenText, TokenView, User, UserRequest, UserView, Via,
};
use penstock_api::problem::{ObjectKind, Problem, ProblemCode};
use penstock_api::queue::NO_GROUP;
use penstock_api::timestamp::Timestamp;
use penstock_cluster::state::SiteState;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;

use super::authentication::digest_of;
use crate::site::context::Site;

/// Users of a site, and tokens in all. Every peer keeps them in memory and reads them each second.
const USERS_MAX: usize = 1000;
const TOKENS_MAX: usize = 2000;
/// Tokens of one user.
const TOKENS_OF_USER_MAX: usize = 100;
/// Stores that the grants of a user may name: they travel in a header between peers.
const GRANTS_MAX: usize = 64;
/// Longest label of a token, in characters.
const LABEL_MAX: usize = 100;
/// Longest identifier of a user at a provider, in bytes (OpenID Connect Core 1.0, 2).
pub(super) const SUBJECT_BYTES_MAX: usize = 255;
const DAY_SECONDS: u64 = 24 * 3600;

/// Changes users and tokens. Its methods block on the site's state.
pub(crate) struct Users {
    site: Arc<Site>,
    /// Held while users and tokens are read, changed and stored.
    turn: Mutex<()>,
}

impl Users {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self { site, turn: Mutex::default() }
    }

    /// Returns all users, by name.
    pub(crate) fn list(&self) -> Vec<UserView> {
        let directory = self.site.authentication.directory();
        directory.users().map(|user| view_of(user, &directory)).collect()
    }

    /// Returns one user.
    ///
    /// # Errors
    /// No user has that name.
    pub(crate) fn show(&self, name: &Name) -> Result<UserView, Problem> {
        let directory = self.site.authentication.directory();
        let user = directory.user(name).ok_or_else(|| unknown_user(name))?;
        Ok(view_of(user, &directory))
    }

    /// Makes a user, or changes one. Also returns whether it is new. `is_current` judges the user
    /// as it is before the change; `None` means that the user does not exist.
    ///
    /// # Errors
    /// There are too many users or grants, the name is `root`, the subject cannot be its, or the
    /// state cannot be written. Code `changed-meanwhile`: the user is not current.
    pub(crate) fn put(
        &self,
        name: &Name,
        request: UserRequest,
        is_current: impl FnOnce(Option<&UserView>) -> bool,
    ) -> Result<(UserView, bool), Problem> {
        check_name(name)?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.read()?;
        let known = directory.user(name).cloned();
        if !is_current(known.as_ref().map(|user| view_of(user, &directory)).as_ref()) {
            let title = format!("user `{name}` was changed meanwhile");
            return Err(Problem::new(ProblemCode::ChangedMeanwhile, title)
                .about(ObjectKind::User, name)
                .hint("read it again, and send its `ETag` as `If-Match`"));
        }
        if known.is_none() {
            check_room(&directory)?;
        }
        let kept = known.as_ref().map(|user| user.grants.clone()).unwrap_or_default();
        let grants = request.grants.unwrap_or(kept);
        if grants.len() > GRANTS_MAX {
            return Err(too_many(format!("a user has grants for {GRANTS_MAX} stores at most")));
        }
        let before = known.as_ref().and_then(|user| user.account.clone());
        let group = known.as_ref().and_then(|user| user.group.clone());
        let identity = self.identity_of(request.subject, known.as_ref(), &directory)?;
        // A user that its provider locks out is not let in by the loss of that record.
        let of_provider = known.as_ref().and_then(|user| user.identity.as_ref());
        let stays_locked =
            of_provider.is_some_and(|it| !it.has_role && identity.as_ref() != Some(it));
        let user = User {
            name: name.clone(),
            account: account_of(request.account, before)?,
            group: group_of(request.group, group)?,
            role: request.role,
            created: known.as_ref().map_or_else(now_seconds, |user| user.created),
            disabled: request.disabled || stays_locked,
            grants,
            password: known.as_ref().and_then(|user| user.password.clone()),
            identity,
        };
        self.site.state().put_user(&user)?;
        let directory = self.read()?;
        Ok((view_of(&user, &directory), known.is_none()))
    }

    /// Runs a change on the state and the directory as they are now, one at a time, and judges
    /// requests by the result from then on.
    ///
    /// # Errors
    /// The error of the change; the state cannot be read.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&dyn SiteState, &Directory) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.read()?;
        let changed = change(&*self.site.state(), &directory)?;
        self.read()?;
        Ok(changed)
    }

    /// Removes a user, its tokens, its sessions, and its link.
    ///
    /// # Errors
    /// No user has that name, or the state cannot be written.
    pub(crate) fn remove(&self, name: &Name) -> Result<(), Problem> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.read()?;
        directory.user(name).ok_or_else(|| unknown_user(name))?;
        let state = self.site.state();
        for token in directory.tokens_of(Some(name)) {
            state.remove_token(token.id)?;
        }
        end_sessions(&*state, &directory, name, None)?;
        state.remove_link(&LinkPurpose::Password { user: name.clone() }.key())?;
        state.remove_user(name)?;
        self.read().map(drop)
    }

    /// Returns the tokens of a user, or of all users. A caller without the right to administer
    /// sees its own.
    ///
    /// # Errors
    /// The caller asks for those of another user, and lacks the right.
    pub(crate) fn tokens(
        &self,
        caller: &Principal,
        user: Option<&Name>,
    ) -> Result<Vec<TokenView>, Problem> {
        let administers = caller.check(Right::Administer).is_ok();
        let of = match user {
            None if administers => None,
            None => Some(&caller.user),
            Some(user) => {
                if *user != caller.user {
                    caller.require(Right::Administer)?;
                }
                Some(user)
            }
        };
        let directory = self.site.authentication.directory();
        Ok(directory.tokens_of(of).into_iter().map(|token| token_view(token, None)).collect())
    }

    /// Makes a token for a caller. Its text is in the answer, and nowhere else.
    ///
    /// # Errors
    /// The user does not exist, or is another one and the caller does not administer; the caller
    /// has scopes; the state cannot be written.
    pub(crate) fn create_token(
        &self,
        caller: &Principal,
        request: &TokenRequest,
    ) -> Result<TokenView, Problem> {
        let user = request.user.as_ref().unwrap_or(&caller.user);
        if *user != caller.user {
            caller.require(Right::Administer)?;
        }
        check_unscoped(caller)?;
        self.issue_token(user, request)
    }

    /// Makes a token of a user. Its text is in the answer, and nowhere else.
    ///
    /// # Errors
    /// The user does not exist, the request is wrong, or the state cannot be written.
    pub(crate) fn issue_token(
        &self,
        user: &Name,
        request: &TokenRequest,
    ) -> Result<TokenView, Problem> {
        let scopes = scopes_of(request);
        let days = request.days.unwrap_or(TOKEN_DAYS_DEFAULT);
        if !(1..=TOKEN_DAYS_MAX).contains(&days) {
            let title = format!("a token is valid for 1 to {TOKEN_DAYS_MAX} days, not {days}");
            return Err(Problem::new(ProblemCode::Request, title));
        }
        if request.label.chars().count() > LABEL_MAX || request.label.chars().any(char::is_control)
        {
            let title = format!("a label has at most {LABEL_MAX} characters, without control ones");
            return Err(Problem::new(ProblemCode::Request, title));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.read()?;
        directory.user(user).ok_or_else(|| unknown_user(user))?;
        if directory.tokens_of(Some(user)).len() >= TOKENS_OF_USER_MAX {
            return Err(too_many(format!("`{user}` has {TOKENS_OF_USER_MAX} tokens")));
        }
        if directory.tokens_of(None).len() >= TOKENS_MAX {
            return Err(too_many(format!("the site has {TOKENS_MAX} tokens")));
        }
        let text = TokenText::of(&TokenSecret(rand::random()));
        let created = now_seconds();
        let token = Token {
            id: TokenId(rand::random()),
            user: user.clone(),
            digest: digest_of(&text),
            label: request.label.clone(),
            scopes,
            created,
            expires: created + u64::from(days) * DAY_SECONDS,
        };
        self.site.state().put_token(&token)?;
        self.read()?;
        Ok(token_view(&token, Some(&text)))
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// The caller sees no token of that id, or the state cannot be written.
    pub(crate) fn revoke(&self, caller: &Principal, id: TokenId) -> Result<(), Problem> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.read()?;
        if caller.via != (Via::Token { id }) {
            check_unscoped(caller)?;
        }
        let administers = caller.check(Right::Administer).is_ok();
        let may = |token: &&Token| administers || token.user == caller.user;
        directory.token(id).filter(may).ok_or_else(|| {
            Problem::new(ProblemCode::TokenUnknown, format!("token `{id}` does not exist"))
                .about(ObjectKind::Token, id)
                .hint("`penstock token list` shows the tokens")
        })?;
        self.site.state().remove_token(id)?;
        self.read().map(drop)
    }

    /// Returns the identity of a user at the site's provider after a request.
    ///
    /// # Errors
    /// The site has no provider; the subject is that of another user.
    fn identity_of(
        &self,
        asked: Option<String>,
        known: Option<&User>,
        directory: &Directory,
    ) -> Result<Option<ProviderIdentity>, Problem> {
        let before = known.and_then(|user| user.identity.clone());
        let subject = match asked {
            None => return Ok(before),
            Some(text) if text.is_empty() => return Ok(None),
            Some(text) if text.len() > SUBJECT_BYTES_MAX => {
                let title = format!("a subject has at most {SUBJECT_BYTES_MAX} bytes");
                return Err(Problem::new(ProblemCode::Request, title));
            }
            Some(text) => text,
        };
        let Some(oidc) = &self.site.config.auth.oidc else {
            let title = "the site has no OpenID provider";
            return Err(Problem::new(ProblemCode::Request, title)
                .hint("set the table `auth.oidc` of penstock.toml"));
        };
        let is_it = |identity: &ProviderIdentity| identity.is_of(&oidc.issuer, &subject);
        if before.as_ref().is_some_and(is_it) {
            return Ok(before);
        }
        if let Some(other) =
            directory.users().find(|user| user.identity.as_ref().is_some_and(is_it))
        {
            let title = format!("user `{}` has that subject", other.name);
            return Err(Problem::new(ProblemCode::UserKnown, title).hint(format!(
                "take it away first: `penstock user set {} --subject none`",
                other.name
            )));
        }
        Ok(Some(ProviderIdentity { issuer: oidc.issuer.clone(), subject, has_role: true }))
    }

    /// Reads users, tokens and sessions from the state, and judges requests by them from now on.
    fn read(&self) -> Result<Directory, Problem> {
        let state = self.site.state();
        let directory = Directory::new(state.users()?, state.tokens()?, state.sessions()?);
        self.site.authentication.follow(directory.clone());
        Ok(directory)
    }
}

/// Returns the account of a user after a request; `before` is the one that it had.
///
/// # Errors
/// The text is no name of an account.
fn account_of(
    asked: Option<String>,
    before: Option<AccountName>,
) -> Result<Option<AccountName>, Problem> {
    match asked {
        None => Ok(before),
        Some(text) if text.is_empty() => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error: AccountNameError| {
            Problem::new(ProblemCode::Name, format!("`{text}` is no account")).because(error)
        }),
    }
}

/// Returns the group of a user after a request; `before` is the one that it had.
///
/// # Errors
/// The text is no name of a group.
fn group_of(asked: Option<String>, before: Option<Name>) -> Result<Option<Name>, Problem> {
    match asked {
        None => Ok(before),
        Some(text) if text.is_empty() => Ok(None),
        Some(text) if text == NO_GROUP => {
            let title = format!("`{NO_GROUP}` is the group of the users that have none");
            Err(Problem::new(ProblemCode::Name, title).hint("send an empty text for no group"))
        }
        Some(text) => text.parse().map(Some).map_err(|error| {
            Problem::new(ProblemCode::Name, format!("`{text}` is no group")).because(error)
        }),
    }
}

/// Returns the scopes of a token, each once.
fn scopes_of(request: &TokenRequest) -> Option<Vec<Scope>> {
    let scopes: BTreeSet<_> = request.scopes.as_ref()?.iter().copied().collect();
    Some(scopes.into_iter().collect())
}

/// Checks that a name may be that of a user.
///
/// # Errors
/// The name is `root`, which is the administrator of each host.
pub(super) fn check_name(name: &Name) -> Result<(), Problem> {
    if name.as_str() != "root" {
        return Ok(());
    }
    let title = "`root` is the administrator of the host, on the Unix socket";
    Err(Problem::new(ProblemCode::Name, title).hint("choose another name"))
}

/// Checks that there is room for one more user.
///
/// # Errors
/// The site has as many as it keeps: code `too-many`.
pub(super) fn check_room(directory: &Directory) -> Result<(), Problem> {
    let has_room = directory.users().count() < USERS_MAX;
    has_room.then_some(()).ok_or_else(|| too_many(format!("the site has {USERS_MAX} users")))
}

/// Ends the sessions of a user but one.
pub(super) fn end_sessions(
    state: &dyn SiteState,
    directory: &Directory,
    user: &Name,
    but: Option<SessionId>,
) -> Result<(), Problem> {
    let sessions = directory.sessions_of(Some(user)).into_iter();
    for session in sessions.filter(|session| Some(session.id) != but) {
        state.remove_session(session.id)?;
    }
    Ok(())
}

/// Checks that a caller may make tokens, or revoke others than its own: one with scopes may not, so
/// that a stolen token neither outlives its end nor locks its user out.
pub(super) fn check_unscoped(caller: &Principal) -> Result<(), Problem> {
    if caller.scopes.is_none() {
        return Ok(());
    }
    let title = "a token with scopes makes no tokens, and revokes only itself";
    Err(Problem::new(ProblemCode::NotAuthorised, title)
        .hint("use a token without scopes, or the Unix socket"))
}

fn view_of(user: &User, directory: &Directory) -> UserView {
    let now = now_seconds();
    let tokens = directory.tokens_of(Some(&user.name));
    let sessions = directory.sessions_of(Some(&user.name));
    UserView {
        name: user.name.clone(),
        role: user.role,
        created_at: Timestamp::of_seconds(user.created),
        disabled: user.disabled,
        grants: user.grants.clone(),
        account: user.account.clone(),
        group: user.group.clone(),
        tokens: tokens.into_iter().filter(|token| token.is_valid(now)).count() as u32,
        sessions: sessions.into_iter().filter(|session| now < session.expires).count() as u32,
        has_password: user.password.is_some(),
        identity: user.identity.clone(),
    }
}

fn token_view(token: &Token, text: Option<&TokenText>) -> TokenView {
    TokenView {
        id: token.id,
        user: token.user.clone(),
        label: token.label.clone(),
        scopes: token.scopes.clone(),
        created_at: Timestamp::of_seconds(token.created),
        expires_at: Timestamp::of_seconds(token.expires),
        token: text.map(|text| text.expose().to_owned()),
    }
}

/// Returns the problem of a user that does not exist.
pub(super) fn unknown_user(name: &Name) -> Problem {
    Problem::new(ProblemCode::UserUnknown, format!("user `{name}` does not exist"))
        .about(ObjectKind::User, name)
        .hint("`penstock user list` shows the users of this site; `penstock user set` makes one")
}

fn too_many(title: String) -> Problem {
    Problem::new(ProblemCode::TooMany, title).hint("remove some that are not in use")
}
