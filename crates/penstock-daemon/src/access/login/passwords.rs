//! Proving a password, and setting one.

use std::sync::Arc;

use penstock_api::access::{
    PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, PasswordHash, PasswordRequest, Principal, Right,
    Secret, User, Via,
};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::Name;

use super::hasher::Hasher;
use super::origin::ClientOrigin;
use super::throttle::{Attempt, Throttle};
use crate::access::admission::RefusedKind;
use crate::access::users::{Users, check_unscoped, end_sessions, unknown_user};
use crate::site::context::Site;

/// Passwords of users.
pub(crate) struct Passwords {
    site: Arc<Site>,
    users: Arc<Users>,
    hasher: Hasher,
    throttle: Throttle,
}

impl Passwords {
    pub(crate) fn new(site: Arc<Site>, users: Arc<Users>) -> Self {
        Self { site, users, hasher: Hasher::new(), throttle: Throttle::default() }
    }

    /// Checks the password of a user, and returns the hash that it has. An unknown user costs the
    /// same time as a known one.
    ///
    /// # Errors
    /// Code `login-refused` for every reason, `login-later` after too many failures, `busy` while
    /// too many are checked.
    pub(super) async fn prove(
        &self,
        name: &Name,
        password: Secret,
        origin: &ClientOrigin,
    ) -> Result<PasswordHash, Problem> {
        let place = self.hasher.enter()?;
        let attempt = self.attempt(name.as_str(), origin)?;
        let directory = self.site.authentication.directory();
        let user = directory.user(name).filter(|user| !user.is_locked());
        let stored = user.and_then(|user| user.password.clone());
        let is_it = self.hasher.verify(place, password, stored.clone()).await?;
        match stored.filter(|_| is_it) {
            Some(hash) => {
                self.throttle.succeeded(penstock_sys::boottime_now(), attempt);
                Ok(hash)
            }
            None => {
                if let Some(from) = origin.from {
                    // A name that is no user's may be a password in the wrong field.
                    let why = match directory.user(name) {
                        Some(_) => format!("user `{name}`"),
                        None => "an unknown user".to_owned(),
                    };
                    self.site.admission.note_refused(from, RefusedKind::Login, &why);
                }
                Err(login_refused())
            }
        }
    }

    /// Begins a try at a secret of an account, which counts as failed until it has succeeded.
    ///
    /// # Errors
    /// Too many have failed: code `login-later`.
    pub(super) fn attempt(&self, account: &str, origin: &ClientOrigin) -> Result<Attempt, Problem> {
        let now = penstock_sys::boottime_now();
        self.throttle.begin(now, account, origin.source()).map_err(|wait| {
            let title = "too many log-ins have failed";
            let seconds = wait.as_secs() as u32 + 1;
            let hint = format!("wait for {seconds} s");
            Problem::new(ProblemCode::LoginLater, title).hint(hint).retry_after(seconds)
        })
    }

    /// Takes back that a try has failed.
    pub(super) fn succeeded(&self, attempt: Attempt) {
        self.throttle.succeeded(penstock_sys::boottime_now(), attempt);
    }

    /// Returns the hash of a password that is to be set.
    ///
    /// # Errors
    /// The password is too short or too long: code `password-unfit`; `busy` while too many are
    /// hashed.
    pub(super) async fn hash(&self, password: Secret) -> Result<PasswordHash, Problem> {
        let text = password.expose();
        let chars = text.chars().count();
        if chars < PASSWORD_CHARS_MIN || text.len() > PASSWORD_BYTES_MAX {
            let title = format!(
                "a password has at least {PASSWORD_CHARS_MIN} characters and at most \
                 {PASSWORD_BYTES_MAX} bytes"
            );
            let problem = Problem::new(ProblemCode::PasswordUnfit, title)
                .because(format!("this one has {chars} characters"))
                .hint("several words that do not belong together are long and easy to keep");
            return Err(problem);
        }
        let place = self.hasher.enter()?;
        self.hasher.hash(place, password).await
    }

    /// Sets the password of a user, and ends its sessions but that of the caller.
    ///
    /// # Errors
    /// The user is another one and the caller does not administer; the present password is wrong
    /// or missing; the new one is unfit; the caller is a token with scopes.
    pub(crate) async fn set(
        &self,
        caller: &Principal,
        name: &Name,
        request: PasswordRequest,
        origin: &ClientOrigin,
    ) -> Result<(), Problem> {
        let is_own = caller.user == *name;
        if !is_own {
            caller.require(Right::Administer)?;
        }
        check_unscoped(caller)?;
        let known = self.site.authentication.directory();
        let user = known.user(name).ok_or_else(|| unknown_user(name))?;
        if is_own && user.password.is_none() {
            check_first_password(caller, user)?;
        }
        if is_own && user.password.is_some() {
            let current = request.current.ok_or_else(|| {
                let title = "the present password is missing";
                Problem::new(ProblemCode::Request, title)
                    .hint("send it as `current`, or ask an administrator for a link")
            })?;
            let wrong = |problem: Problem| match problem.code {
                ProblemCode::LoginRefused => {
                    let title = "the present password is wrong";
                    Problem::new(ProblemCode::LoginRefused, title).status(403)
                }
                _ => problem,
            };
            self.prove(name, current, origin).await.map_err(wrong)?;
        }
        let hash = self.hash(request.password).await?;
        let own_session = match caller.via {
            Via::Session { id } => Some(id),
            Via::Socket { .. } | Via::Account { .. } | Via::Token { .. } => None,
        };
        let (users, name) = (Arc::clone(&self.users), name.clone());
        blocking(move || {
            users.change(|state, directory| {
                let mut user = directory.user(&name).cloned().ok_or_else(|| unknown_user(&name))?;
                user.password = Some(hash);
                state.put_user(&user)?;
                end_sessions(state, directory, &name, own_session)
            })
        })
        .await
    }
}

/// Checks whether a caller may set its own first password.
///
/// # Errors
/// The site's provider identifies the user, so that its role would outlive its groups there; or the
/// caller is one of several accounts that represent the user.
fn check_first_password(caller: &Principal, user: &User) -> Result<(), Problem> {
    let shares = matches!(&caller.via, Via::Account { account, .. }
        if account.as_str() != user.name.as_str());
    let title = match (&user.identity, shares) {
        (None, false) => return Ok(()),
        (Some(_), _) => "a user of the site's provider has no password here",
        (None, true) => "an account that stands for another user sets no password",
    };
    Err(Problem::new(ProblemCode::NotAuthorised, title)
        .hint(format!("an administrator makes a link: `penstock user invite {}`", user.name)))
}

/// Runs a change on a thread that may block, to its end even without a waiting caller.
///
/// # Errors
/// Those of the change; code `internal` if it panics.
pub(super) async fn blocking<T: Send + 'static>(
    change: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(change).await {
        Ok(done) => done,
        Err(error) => {
            let title = "the daemon broke an assumption of ours";
            Err(Problem::new(ProblemCode::Internal, title).because(error))
        }
    }
}

/// Returns the problem of a log-in with wrong name or password. The two have the same text.
pub(super) fn login_refused() -> Problem {
    Problem::new(ProblemCode::LoginRefused, "name or password is wrong")
        .hint("an administrator makes a link for a new password: `penstock user invite NAME`")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use penstock_api::access::Role;

    use super::*;

    /// Promise: an account that represents another user cannot set that user's first password,
    /// which would outlive its place in a group. An account of the same name can, and so can a
    /// token.
    #[test]
    fn a_first_password_is_of_the_user_itself() {
        let name: Name = "beam7".parse().unwrap();
        let user = User {
            name: name.clone(),
            role: Role::User,
            created: 1,
            disabled: false,
            grants: BTreeMap::new(),
            account: None,
            group: None,
            password: None,
            identity: None,
        };
        let check = |via| {
            let (user_name, role, grants) = (name.clone(), Role::User, BTreeMap::new());
            let caller =
                Principal { user: user_name, role, via, scopes: None, grants, account: None };
            check_first_password(&caller, &user).is_ok()
        };
        let by_account =
            |account: &str| Via::Account { uid: 7, account: account.parse().unwrap(), role: None };
        assert!(!check(by_account("anna")));
        assert!(check(by_account("beam7")));
        assert!(check(Via::Token { id: "0011223344556677".parse().unwrap() }));
    }
}
